from ._arrow import (
    MISSING as MISSING,
    Blocks as Blocks,
    as_arrow as as_arrow,
    distinct_text as distinct_text,
    in_memory as in_memory,
    is_table as is_table,
    is_text as is_text,
    pa as pa,
    slices as slices,
    text_cells as text_cells,
    written as written,
)
from ._column import (
    matching as matching,
    pixel_columns as pixel_columns,
)
from ._differences import (
    Differences as Differences,
)
from ._limits import (
    SIGNIFICANCE as SIGNIFICANCE,
)
from ._numbers import (
    numbers as numbers,
    written_numbers as written_numbers,
)
from ._recipe import (
    Recipe as Recipe,
)
from ._warning import (
    UnseenValuesWarning as UnseenValuesWarning,
)
