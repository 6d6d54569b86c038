from ._labels import (
    Labels as Labels,
    as_array as as_array,
    encode as encode,
    missing_cells as missing_cells,
    read_batch as read_batch,
    read_labels as read_labels,
    score_targets as score_targets,
)
from ._marks import (
    marks_known as marks_known,
)
from ._weights import (
    class_weighted as class_weighted,
    loss_weights as loss_weights,
    read_weights as read_weights,
)
from ._wording import (
    worded as worded,
    wording as wording,
)
