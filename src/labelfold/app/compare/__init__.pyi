from ._calibrate import (
    calibrate as calibrate,
)
from ._choice import (
    interval as interval,
)
from ._data import (
    Data as Data,
    as_matrix as as_matrix,
    medians as medians,
    read_data as read_data,
)
from ._expect import (
    by_leave_one_out as by_leave_one_out,
    expectation as expectation,
    expected as expected,
    if_grouped as if_grouped,
    predict_held_out as predict_held_out,
    without_unlike as without_unlike,
)
from ._explain import (
    correlations as correlations,
    last_step as last_step,
    predict_with_confidence as predict_with_confidence,
    top_features as top_features,
    top_gap as top_gap,
    view_kinds as view_kinds,
)
from ._lock import (
    FolderLock as FolderLock,
)
from ._plan import (
    checked_sizes as checked_sizes,
    image_sides as image_sides,
)
from ._results import (
    Comparison as Comparison,
)
from ._review import (
    HeldOutPredictions as HeldOutPredictions,
    Map as Map,
)
from ._runner import (
    MOST_REPEATS as MOST_REPEATS,
    NothingHeldOut as NothingHeldOut,
    compare as compare,
)
from ._settle import (
    nearest as nearest,
    settle as settle,
    unit as unit,
)
from ._splits import (
    whole as whole,
)
from ._target import (
    read_target_labels as read_target_labels,
)
from ._words import (
    brief as brief,
    guessing as guessing,
    repeats_run as repeats_run,
    sized as sized,
    two_scores as two_scores,
)
