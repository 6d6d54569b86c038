from ._comparison import (
    Comparison as Comparison,
    compare as compare,
)
from ._map import (
    as_base64 as as_base64,
)
from ._page import (
    render as render,
    write_report as write_report,
)
