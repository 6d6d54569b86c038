from ._cli import (
    main as main,
)
from ._console import (
    named_rows as named_rows,
)
from ._model import (
    fit_notes as fit_notes,
)
