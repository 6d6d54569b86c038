from ._notebook import (
    label as label,
    missing as missing,
)
from ._run import (
    open_page as open_page,
    show as show,
)
from ._table import (
    material as material,
)
