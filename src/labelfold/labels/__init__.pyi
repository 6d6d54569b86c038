from ._labels import (
    Labels as Labels,
    check_kind as check_kind,
    read_batch as read_batch,
    read_labels as read_labels,
    score_targets as score_targets,
)
from ._values import (
    as_array as as_array,
    encode as encode,
    missing_cells as missing_cells,
    worded as worded,
    wording as wording,
)
