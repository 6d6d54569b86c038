from ._choice import (
    interval as interval,
)
from ._data import (
    Data as Data,
    as_matrix as as_matrix,
    medians as medians,
    named_rows as named_rows,
    read_data as read_data,
    read_target_labels as read_target_labels,
)
from ._expected import (
    by_leave_one_out as by_leave_one_out,
    calibrate as calibrate,
    expectation as expectation,
    expected as expected,
    if_grouped as if_grouped,
    predict_held_out as predict_held_out,
    without_unlike as without_unlike,
)
from ._explain import (
    MOST_COMPONENTS as MOST_COMPONENTS,
    correlations as correlations,
    fit_notes as fit_notes,
    last_step as last_step,
    predict_with_confidence as predict_with_confidence,
    top_features as top_features,
    top_gap as top_gap,
    view_kinds as view_kinds,
)
from ._results import (
    Results as Results,
    brief as brief,
    guessing as guessing,
    repeats_run as repeats_run,
    sized as sized,
    two_scores as two_scores,
)
from ._review import (
    HeldOutPredictions as HeldOutPredictions,
    Map as Map,
    nearest as nearest,
    settle as settle,
    unit as unit,
)
from ._runner import (
    MOST_REPEATS as MOST_REPEATS,
    NothingHeldOut as NothingHeldOut,
    run_comparison as run_comparison,
)
from ._splits import (
    checked_sizes as checked_sizes,
    image_sides as image_sides,
    whole as whole,
)
from ._store import (
    FolderLock as FolderLock,
)
