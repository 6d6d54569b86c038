from ._data import (
    Data as Data,
    as_matrix as as_matrix,
    named_rows as named_rows,
    read_data as read_data,
    read_target_labels as read_target_labels,
)
from ._held_out import (
    fit_with_expectation as fit_with_expectation,
    predict_with_confidence as predict_with_confidence,
)
from ._results import (
    Results as Results,
)
from ._review import (
    HeldOutPredictions as HeldOutPredictions,
    Map as Map,
    choose_by_gain as choose_by_gain,
    correlations as correlations,
    distance_to_labelled as distance_to_labelled,
    save_fit as save_fit,
    top_features as top_features,
    view_kinds as view_kinds,
)
from ._runner import (
    MAX_REPEATS as MAX_REPEATS,
    NothingHeldOut as NothingHeldOut,
    run_comparison as run_comparison,
)
