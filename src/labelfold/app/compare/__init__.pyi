from ._active_learning import (
    STRATEGIES as STRATEGIES,
    Question as Question,
    Questions as Questions,
    unit_scale as unit_scale,
)
from ._data import (
    Data as Data,
    as_matrix as as_matrix,
    image_sides as image_sides,
    named_rows as named_rows,
    read_data as read_data,
    read_target_labels as read_target_labels,
)
from ._held_out import (
    by_leave_one_out as by_leave_one_out,
    calibrate as calibrate,
    expectation as expectation,
    expected as expected,
    if_grouped as if_grouped,
    last_step as last_step,
    predict_held_out as predict_held_out,
    predict_with_confidence as predict_with_confidence,
    without_unlike as without_unlike,
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
    MOST_COMPONENTS as MOST_COMPONENTS,
    HeldOutPredictions as HeldOutPredictions,
    Map as Map,
    correlations as correlations,
    fit_notes as fit_notes,
    top_features as top_features,
    view_kinds as view_kinds,
)
from ._runner import (
    MOST_REPEATS as MOST_REPEATS,
    NothingHeldOut as NothingHeldOut,
    checked_sizes as checked_sizes,
    run_comparison as run_comparison,
)
from ._scores import (
    interval as interval,
)
from ._store import (
    whole as whole,
)
