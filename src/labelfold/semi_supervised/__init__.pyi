from ._calibration import (
    R2_WIDER as R2_WIDER,
)
from ._label_fold import (
    LabelFold as LabelFold,
)
from ._laprls import (
    LapRLS as LapRLS,
)
from ._tree_nodes import (
    TreeNodes as TreeNodes,
)
from ._tsvm import (
    TSVM as TSVM,
)
from ._unsupervised import (
    unsupervised as unsupervised,
)
