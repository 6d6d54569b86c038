from ._block_cg import (
    nystrom_sketch as nystrom_sketch,
    preconditioned_cg as preconditioned_cg,
)
from ._eigen import (
    ROUND_OFF as ROUND_OFF,
    Eigen as Eigen,
    RandomRows as RandomRows,
    bordered as bordered,
    largest_eigenvectors as largest_eigenvectors,
    orthonormal as orthonormal,
    signed as signed,
    whitening as whitening,
)
from ._gram import (
    EPS as EPS,
    Factor as Factor,
    Gram as Gram,
    rounding as rounding,
)
from ._least_squares import (
    MAX_GRAM_BYTES as MAX_GRAM_BYTES,
    GramProblem as GramProblem,
    RowTargets as RowTargets,
    pose as pose,
    read_factor as read_factor,
)
from ._linear_svm import (
    LinearSVM as LinearSVM,
    linear_svm as linear_svm,
    linear_svms as linear_svms,
    perceptron as perceptron,
)
from ._problems import (
    KernelProblem as KernelProblem,
    LeastSquares as LeastSquares,
    LeastSquaresProblem as LeastSquaresProblem,
)
from ._ranges import (
    NORMS as NORMS,
    check_norm as check_norm,
    count_negative as count_negative,
    nonnegative_numbers as nonnegative_numbers,
    refuse_negative as refuse_negative,
    row_spread as row_spread,
)
from ._svd import (
    randomized_svd as randomized_svd,
    row_side_svd as row_side_svd,
)
