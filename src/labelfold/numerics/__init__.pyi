from ._block_cg import (
    nystrom_sketch as nystrom_sketch,
    preconditioned_cg as preconditioned_cg,
)
from ._gram import (
    ROUND_OFF as ROUND_OFF,
    Gram as Gram,
    provisional_center as provisional_center,
)
from ._linear_svm import (
    LinearSVM as LinearSVM,
    linear_svm as linear_svm,
    perceptron as perceptron,
)
from ._random_rows import (
    RandomRows as RandomRows,
)
from ._ranges import (
    check_norm as check_norm,
    count_negative as count_negative,
    nonnegative_numbers as nonnegative_numbers,
    refuse_negative as refuse_negative,
    row_spread as row_spread,
)
from ._ridge_problem import (
    RidgeProblem as RidgeProblem,
    RidgeSolution as RidgeSolution,
)
from ._ridge_regression import (
    MAX_GRAM_BYTES as MAX_GRAM_BYTES,
    FactorProblem as FactorProblem,
    KernelProblem as KernelProblem,
    ridge_problem as ridge_problem,
)
from ._spectral import (
    largest_eigenvectors as largest_eigenvectors,
    orthonormal as orthonormal,
    randomized_svd as randomized_svd,
    row_side_svd as row_side_svd,
    signed as signed,
    whitening as whitening,
)
