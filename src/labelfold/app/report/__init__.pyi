from ._map import (
    packed as packed,
)
from ._notebook import (
    notebook as notebook,
)
from ._page import (
    render as render,
    write_report as write_report,
)
