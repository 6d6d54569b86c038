from ._descent import (
    Iterates as Iterates,
    Iterative as Iterative,
    descend as descend,
    repeated as repeated,
)
from ._estimator import (
    ITERATIONS as ITERATIONS,
    Decisions as Decisions,
    HostRows as HostRows,
    KernelForm as KernelForm,
    LinearReducer as LinearReducer,
    LinearScores as LinearScores,
    Reducer as Reducer,
    RowsEstimator as RowsEstimator,
    RowsTransformer as RowsTransformer,
    Scores as Scores,
    TaskScore as TaskScore,
    classifies as classifies,
    constraints as constraints,
    embedding_in_memory as embedding_in_memory,
    fitting as fitting,
    labelled_rows as labelled_rows,
    refuse_without_kernel as refuse_without_kernel,
    spread as spread,
)
from ._scores import (
    indicator_scores as indicator_scores,
    linear_values as linear_values,
    log_probabilities as log_probabilities,
    measure_of as measure_of,
    probabilities as probabilities,
)
