from ._journal import (
    refuse_taken as refuse_taken,
)
from ._material import (
    material as material,
)
from ._needs import (
    missing as missing,
)
from ._notebook import (
    label as label,
)
from ._run import (
    open_page as open_page,
    show as show,
)
