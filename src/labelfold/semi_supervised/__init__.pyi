from ._label_fold import (
    LabelFold as LabelFold,
    unsupervised as unsupervised,
)
from ._laprls import (
    LapRLS as LapRLS,
)
from ._new_rows import (
    R2_WIDER as R2_WIDER,
)
from ._trees import (
    TreeNodes as TreeNodes,
)
from ._tsvm import (
    TSVM as TSVM,
)
