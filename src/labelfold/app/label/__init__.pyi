from ._notebook import (
    label as label,
    missing_packages as missing_packages,
)
from ._server import (
    open_browser as open_browser,
    open_page as open_page,
)
from ._table import (
    prepare_table as prepare_table,
)
