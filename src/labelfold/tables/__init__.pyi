from ._arrow import (
    BLOCK as BLOCK,
    LEARNED_FROM as LEARNED_FROM,
    MISSING as MISSING,
    Blocks as Blocks,
    Sampler as Sampler,
    as_arrow as as_arrow,
    as_named as as_named,
    column_names as column_names,
    distinct as distinct,
    installed as installed,
    is_number as is_number,
    is_table as is_table,
    is_text as is_text,
    n_rows as n_rows,
    pa as pa,
    pc as pc,
    text_cells as text_cells,
    written as written,
)
from ._column import (
    TELLS as TELLS,
    UNLIKE_NUMBERS as UNLIKE_NUMBERS,
    lines_of as lines_of,
    matching as matching,
    pixel_columns as pixel_columns,
    vector_columns as vector_columns,
)
from ._differences import (
    Differences as Differences,
    in_words as in_words,
)
from ._numbers import (
    PLAIN as PLAIN,
    numbers as numbers,
    parsed as parsed,
    writing_of as writing_of,
)
from ._recipe import (
    Recipe as Recipe,
    features_of as features_of,
)
from ._target import (
    Target as Target,
)
from ._unseen import (
    Unseen as Unseen,
    UnseenValuesWarning as UnseenValuesWarning,
    told_of as told_of,
)
