from ._cli import (
    main as main,
)
