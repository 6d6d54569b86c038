from ._comparison import (
    Comparison as Comparison,
    compare as compare,
)
from ._map import (
    packed as packed,
)
from ._page import (
    render as render,
    write_report as write_report,
)
