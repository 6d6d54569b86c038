from ._labels import (
    Labels as Labels,
    check_kind as check_kind,
    read_batch as read_batch,
    read_labels as read_labels,
    score_mask as score_mask,
    score_targets as score_targets,
)
from ._values import (
    _missing as _missing,
    as_array as as_array,
    encode as encode,
)
from ._wording import (
    worded as worded,
    wording as wording,
)
