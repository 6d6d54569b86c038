from ._calibration import (
    R2_WIDER as R2_WIDER,
)
from ._label_fold import (
    LabelFold as LabelFold,
    unsupervised as unsupervised,
)
from ._laprls import (
    LapRLS as LapRLS,
)
from ._trees import (
    TreeNodes as TreeNodes,
)
from ._tsvm import (
    TSVM as TSVM,
)
