from ._decisions import (
    Decisions as Decisions,
    TaskScore as TaskScore,
    classifies as classifies,
    indicator_scores as indicator_scores,
    linear_values as linear_values,
    measure_of as measure_of,
)
from ._descent import (
    Iterates as Iterates,
    Iterative as Iterative,
    descend as descend,
    repeated as repeated,
)
from ._estimator import (
    BLOCK_BYTES as BLOCK_BYTES,
    ITERATIONS as ITERATIONS,
    KernelForm as KernelForm,
    LinearReducer as LinearReducer,
    Reducer as Reducer,
    RowsEstimator as RowsEstimator,
    RowsTransformer as RowsTransformer,
    Scores as Scores,
    constraints as constraints,
    fitting as fitting,
    labelled_rows as labelled_rows,
    refuse_without_kernel as refuse_without_kernel,
    spread as spread,
)
