r"""Ridge regression of many targets on centred rows, by the cheapest method that keeps the digits.

.. math:: \min_W \|X_c W - T_c\|_F^2 + g \|W\|_F^2

Rows may have weights w: X_c and T_c are then less their weighted means, and their rows times sqrt(w). A weight of 0
leaves a row out. For g = 0, W is the solution of minimum norm.

=========  =============================================================================  ================
way        what it does                                                                   passes over X
=========  =============================================================================  ================
gram       Cholesky factor of X_c'X_c (d x d); if that is too ill-conditioned, the        1, or 2
           triangular factor of [X_c, T_c] instead, and its singular values
dual       the same for X_c X_c' (n x n), for fewer rows than columns                     1
krylov     block conjugate gradients on the normal equations, sketched preconditioner     1 an iteration
factor     the triangular factor of [X_c, T_c], whatever the condition of X_c             2
=========  =============================================================================  ================

"auto" chooses the smaller of the first two if it fits the memory budget, otherwise the third. For sparse rows in
memory iterations are often tried first, and given up if they converge slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from labelfold.numerics._gram import (
    Factor,
    Gram,
    known_part,
    lost,
    provisional_center,
    rounding,
    solve_spectrum,
    spectrum_whitened,
    trim_svd,
)
from labelfold.numerics._ridge_krylov import KrylovProblem
from labelfold.numerics._ridge_problem import (
    RidgeProblem,
    RidgeSolution,
    RowTargets,
)
from labelfold.rows import Block, Centered, Rows, Weighted, add_product, single_blas

MAX_GRAM_BYTES = 512 << 20
# Iterations are tried first if a factorisation costs as much as at least this many of them: they take half of the
# time at 14, and more time than the factorisation at 6 (benchmarks/limits.py --only factorisation).
_MIN_WORTH = 24
# Tolerance of iterations that replace a factorisation: they must be as accurate.
_AS_DIRECT = 1e-11
# Error of a kernel value in units of its last place: that of a product of two rows and of a function of it.
_KERNEL_PLACES = 16.0


def ridge_problem(
    rows: Rows,
    T: np.ndarray,
    codes: np.ndarray | None = None,
    counts: np.ndarray | None = None,
    *,
    weights: np.ndarray | None = None,
    way: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
    max_gram_bytes: int = MAX_GRAM_BYTES,
    random_state: Any = 0,
    callback: Callable[[int, float], Any] | None = None,
) -> RidgeProblem:
    """Read the data of a ridge regression, so that it can be solved for several ridges.

    Parameters
    ----------
    rows : Rows
        n rows of d columns, centred here.
    T, codes, counts : ndarray
        The targets, centred here; see `RowTargets`. Without codes T has a row for each row of X.
    weights : ndarray of shape (n,), optional
        The weights of the rows; all 1 when None. Rows of weight 0 are left out.
    way : {"auto", "gram", "dual", "krylov", "factor"}
        The method; "auto" chooses by shape, cost and ``max_gram_bytes``.
    tol, max_iter : float, int
        For "krylov": the relative residual, and the largest number of iterations. The tolerance is not smaller than
        the precision of float32 data allows.
    max_gram_bytes : int
        Maximum size in bytes of a d x d or n x n matrix.
    random_state : int, RandomState or None
        Seed of the sketch of "krylov".
    callback : callable, optional
        Called with the iteration and the relative residual of "krylov".

    Returns
    -------
    problem : RidgeProblem
        With ``solve(ridge, start=None)``, where ``start`` is a solution for another ridge, used as a warm start by
        "krylov". If ``prepare(ridges)`` is called before, iterations serve all of these ridges at once.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> ridge_problem(as_rows(X), np.array([[1.0], [3.0], [5.0]])).solve(0.0).W
    array([[2.]])
    """
    targets = RowTargets(T, codes, counts, weights).centered()
    krylov = partial(
        KrylovProblem, rows, targets, max_iter=max_iter, random_state=random_state, callback=callback
    )
    worth = 0.0
    if way == "auto":
        way, worth = choose_way(rows, max_gram_bytes), iterations_worth(rows, targets.n_targets)
    if way == "krylov":
        return krylov(tol=tol)
    direct: Callable[[], RidgeProblem] = partial(GramProblem.read, rows, targets)
    if way == "dual":
        direct = partial(DualProblem, rows, targets, max_gram_bytes)
    elif way == "factor":
        direct = partial(FactorProblem.read, rows, targets)
    return direct() if worth < _MIN_WORTH else EitherProblem(krylov(tol=min(tol, _AS_DIRECT)), direct, worth)


def choose_way(rows: Rows, max_gram_bytes: int) -> str:
    """Return the cheapest method that fits the memory budget."""
    n, d = rows.shape
    if 8 * min(n, d) ** 2 > max_gram_bytes:
        return "krylov"
    if d <= n:
        return "gram"
    return "dual" if rows.in_memory or n * rows.row_bytes() <= max_gram_bytes else "krylov"


def iterations_worth(rows: Rows, q: int) -> float:
    """Return the approximate number of iterations with q targets that cost as much as the direct method.

    Only for sparse rows in memory, in float64. Dense rows are factorised about as fast, and float32 rows would lose
    the digits that the direct method keeps.
    """
    m = min(rows.shape)
    if rows.dtype != np.float64 or not rows.is_sparse:
        return 0.0
    n_values = rows.shape[0] * rows.row_bytes() / 12
    # A multiplication in a sparse product takes about four times as long as one in a factorisation.
    iteration = 2 * 2 * 4 * n_values * q + 7 * m * q**2
    return 0.4 * m**3 / max(iteration, 1.0)


class FactorProblem(RidgeProblem):
    """The problem in terms of a triangular factor of X_c, which is computed when it is first needed."""

    mean: np.ndarray
    size: int
    factor: Callable[[], Factor]

    def __init__(self, mean: np.ndarray, size: int, factor: Callable[[], Factor]) -> None:
        self.mean, self.size, self.factor = mean, size, cache(factor)

    @classmethod
    def read(cls, rows: Rows, T: RowTargets) -> FactorProblem:
        """Read the mean in one pass, and the factor in another."""
        mean = rows.mean(np.ones(rows.shape[0]) if T.weights is None else T.weights)
        return cls(mean, max(rows.shape), partial(read_factor, rows, T, mean))

    @classmethod
    def of_triangle(
        cls, R: np.ndarray, M: np.ndarray, mean: np.ndarray, n: int, total: float, eps: float
    ) -> FactorProblem:
        """Return the problem of n rows whose X_c has the triangular factor R.

        ``total`` is the sum of their weights, ``eps`` their relative round-off.
        """
        squares, size = (R**2).sum(axis=0) + total * mean**2, max(n, len(mean))
        factor = Factor(R, np.zeros_like(M), size, rounding(squares, n, eps))
        factor.C = factor.against(M)
        return cls(mean, size, lambda: factor)

    def gram_product(self, P: np.ndarray) -> np.ndarray:
        """Return X_c'X_c P."""
        R = self.factor().R
        return R.T @ (R @ P)

    def solve(self, ridge: float, start: RidgeSolution | None = None) -> RidgeSolution:
        """Solve for one ridge."""
        return RidgeSolution(*self.factor().solve(ridge), self.mean, "factor")

    def whitened(self, ridge: float) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Return F^(-1) X_c'T_c and the product with F^(-T), where F F' = X_c'X_c + ridge I."""
        return self.factor().whitened(ridge)


def read_factor(rows: Rows, T: RowTargets, mean: np.ndarray) -> Factor:
    """Return the triangular factor of the centred rows, and Q'T, from one pass."""
    d = rows.shape[1]
    R = Centered(rows, mean).sum(_triangle, T.dense, *(() if T.roots is None else (T.roots,)))
    R = np.vstack([R, np.zeros((max(0, d - len(R)), R.shape[1]))])
    squares = (R[:d, :d] ** 2).sum(axis=0) + T.total * mean**2
    return Factor(R[:d, :d], R[:d, d:], max(rows.shape), rounding(squares, T.n_counted, rows.eps))


class GramProblem(FactorProblem):
    """The problem in terms of X_c'X_c = G and X_c'T_c = M, for d within the budget.

    If G is singular and X_c has the same rank, as decided by ``norms`` (see `Gram.has_rank`), the problem is solved
    in the eigenvectors of G. The triangular factor of X_c is for a G that is too ill-conditioned for both. With that
    factor alone `LDA` of 83,679 x 315 one-hot codes takes 0.93 s in place of 0.26 (dense), and 0.96 in place of 0.03
    (sparse; `benchmarks/pcals.py --only secstr`).
    """

    norms: Callable[[np.ndarray], np.ndarray]

    gram: Gram

    def __init__(
        self,
        gram: Gram,
        M: np.ndarray,
        mean: np.ndarray,
        norms: Callable[[np.ndarray], np.ndarray],
        factor: Callable[[], Factor],
    ) -> None:
        super().__init__(mean, gram.size, factor)
        self.gram, self.M, self.norms = gram, M, norms

    @classmethod
    def read(cls, rows: Rows, T: RowTargets) -> GramProblem:
        """Read G and M in one pass."""
        # Sums about a provisional centre are shifted to the mean afterwards, so a large mean costs no digits.
        guess, is_implicit = provisional_center(rows)
        G, total, M = T.sums(Centered(rows, guess), _moments)
        shift = (total if T.roots is None else total[:, 0]) / T.total
        G = add_product(
            G, -T.total * shift[:, None], shift[None, :]
        )  # T is centred, so M needs no correction
        mean = guess + shift
        # Dense blocks are centred before they are squared, sparse ones after it, which costs digits.
        noise = lost(np.diagonal(G), T.total * mean**2) if is_implicit else 1.0
        rounded = rounding(np.maximum(np.diagonal(G), 0.0) + T.total * mean**2, T.n_counted, rows.eps)
        gram = Gram(G, max(rows.shape), noise=noise, rounding=rounded)

        def norms(N: np.ndarray) -> np.ndarray:
            near = Centered(rows, mean)
            return np.sqrt((near if T.roots is None else Weighted(near, T.roots)).sum(_squares, shared=(N,)))

        return cls(gram, M, mean, norms, lambda: read_factor(rows, T, mean))

    def solve(self, ridge: float, start: RidgeSolution | None = None) -> RidgeSolution:
        """Solve for one ridge."""
        with single_blas(len(self.mean)):
            found = self.gram.solve(self.M, ridge)
            if found is not None:
                W, D = found[1], found[0].T @ found[0]
            elif self._has_rank:
                values, V = self.gram.spectrum
                W, D = solve_spectrum(V.T @ self.M / np.sqrt(values), np.sqrt(values), V, ridge)
            else:
                W, D = self.factor().solve(ridge)
        return RidgeSolution(W, D, self.mean, "gram")

    @cached_property
    def _has_rank(self) -> bool:
        """Whether X has the rank of its Gram matrix: one pass, and the triangular factor is not needed."""
        return self.gram.has_rank(self.norms)


class KernelProblem(RidgeProblem):
    """Ridge regression in the space of an exact kernel: (K_c + g I) A = T_c, where A takes the place of W.

    With weights of the rows, R their diagonal roots: (R K_c R + g I) R^(-1) A = R T_c. R 1 is a null vector.

    Parameters
    ----------
    K, T : ndarray of shapes (n, n), (n, q)
        The kernel matrix of the rows, and the targets.
    weights : ndarray of shape (n,), optional
        The positive weights of the rows; all 1 when None.
    squares : ndarray of shape (n,), optional
        For a linear kernel: the squared norms of the rows.
    n_columns, eps : int, float
        For a linear kernel: the number of columns of the rows, and their relative round-off.
    """

    mean: np.ndarray
    size: int

    gram: Gram

    def __init__(
        self,
        K: np.ndarray,
        T: np.ndarray,
        weights: np.ndarray | None = None,
        squares: np.ndarray | None = None,
        n_columns: int = 1,
        eps: float = 0.0,
    ) -> None:
        self.roots = np.ones(len(K)) if weights is None else np.sqrt(weights)
        average = partial(np.average, weights=weights)
        self.T = (T - average(T, axis=0)) * self.roots[:, None]
        self.mean, self.size = average(K, axis=0), len(K)
        Kc = K - self.mean
        Kc -= average(Kc, axis=1)[:, None]
        Kc = (Kc + Kc.T) / 2
        # Centring costs the leading digits that all kernels have in common.
        largest = float(np.diagonal(Kc).max(initial=0.0))
        noise = _KERNEL_PLACES
        if largest > 0:
            noise *= max(1.0, float(np.abs(K).max(initial=0.0)) / largest)
        rounded = None if squares is None else rounding(self.roots**2 * squares, n_columns, eps)
        Kc *= self.roots * self.roots[:, None]
        self.gram = Gram(Kc, len(K), _scaled(self.roots, Kc), noise, rounded, only_products=True)

    def solve(self, ridge: float, start: RidgeSolution | None = None) -> RidgeSolution:
        """Solve for one ridge."""
        A, D = self.gram.solve_trusted(self.T, ridge) or self.gram.solve_spectrum(self.T, ridge)
        return RidgeSolution(self.roots[:, None] * A, D, self.mean, "kernel")

    def whitened(self, ridge: float) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Return F^(-1) X_c'T_c and the product with F^(-T), F F' = X_c'X_c + ridge I, in the kernel's space."""
        values, U = self.gram.spectrum
        sigma = np.sqrt(values)
        return spectrum_whitened(U.T @ self.T, sigma, self.roots[:, None] * U / sigma.T, ridge)


class DualProblem(RidgeProblem):
    """The problem in terms of X_c X_c' = K, for n within the budget.

    If K is too ill-conditioned, its eigenvectors are used, or the singular vectors of X_c if that fits the budget as
    a dense matrix. Sparse rows are made dense only if K cannot distinguish small eigenvalues from round-off.
    """

    gram: Gram

    def __init__(self, rows: Rows, T: RowTargets, max_gram_bytes: int) -> None:
        self.T, roots = T.dense, T.roots
        if roots is not None:
            counted = np.flatnonzero(roots)
            rows, self.T, roots = rows.take(counted), self.T[counted], roots[counted]
        weighted = roots is not None and bool((roots != 1).any())
        self.roots = roots if weighted and roots is not None else np.ones(len(self.T))
        self.mean, self.size = rows.mean(self.roots**2 if weighted else None), max(rows.shape)
        self.rows = Centered(rows, self.mean)
        X = self.rows.whole().double()
        self.X = X.scale(self.roots) if weighted else X
        K = self.X.outer()
        squares = self.roots**2 * float(self.mean @ self.mean)
        noise = lost(np.diagonal(K), squares) if self.X.is_implicit else 1.0
        rounded = rounding(np.diagonal(K) + squares, rows.shape[1], rows.eps)
        self.gram = Gram(K, self.size, _scaled(self.roots, K), noise, rounded)
        self.fits = 8 * rows.shape[0] * rows.shape[1] <= max_gram_bytes

    def solve(self, ridge: float, start: RidgeSolution | None = None) -> RidgeSolution:
        """Solve for one ridge."""
        found = self.gram.solve_trusted(self.T, ridge)
        if found is None and self.fits and (not self.X.is_implicit or self.gram.blurred):
            Q, U, sigma, V = self._singular
            W, D = solve_spectrum(U.T @ self.T, sigma, V, ridge)
            return RidgeSolution(Q @ W, D, self.mean, "dual")
        A, D = found or self.gram.solve_spectrum(self.T, ridge)
        return RidgeSolution(self.rows.t(self.roots[:, None] * A, double=True), D, self.mean, "dual")

    @cached_property
    def _singular(self) -> tuple:
        Q, R = np.linalg.qr(self.X.dense().T)
        R = known_part(R, self.gram.rounding)  # a column of R is a row of X
        return Q, *trim_svd(*np.linalg.svd(R.T), self.gram.size)


class EitherProblem(RidgeProblem):
    """Iterations if they are fast, otherwise the direct method.

    On 6,000 x 47,236 documents `CCA(ridge=1)` takes 0.7 s, and 1.8 s by the direct method alone
    (`benchmarks/two_stage.py --parts lsqr`, ways "auto" and "dual").

    Parameters
    ----------
    krylov : KrylovProblem
        The iterative problem.
    make_direct : callable
        Returns the direct problem. It is called when it is first needed.
    worth : float
        The number of iterations that cost as much as the direct method.
    """

    def __init__(self, krylov: KrylovProblem, make_direct: Callable[[], RidgeProblem], worth: float) -> None:
        self.mean, self.size = krylov.mean, krylov.size
        self.krylov, self.worth = krylov, worth
        self.make_direct = make_direct
        self.hard: list[float] = []
        self.slow = 0.0  # the largest ridge for which iterations were given up

    def prepare(self, ridges: Sequence[float]) -> None:
        """Iterate for all ridges at once, for each as long as it is fast; the others share a factorisation."""
        self.krylov.prepare(ridges, self.worth)
        self.hard = [ridge for ridge in ridges if not ridge or self.krylov.was_slow(ridge)]

    def squared_gram(self, max_bytes: float) -> float:
        """Return the squared Frobenius norm of X_c'X_c, from the direct problem."""
        return self.direct.squared_gram(max_bytes)

    def solve(self, ridge: float, start: RidgeSolution | None = None) -> RidgeSolution:
        """Solve for one ridge, started from the solution for another."""
        if ridge > self.slow and not self.krylov.was_slow(ridge):
            found = self.krylov.attempt(ridge, start, self.worth)
            if found is not None and found.residual <= self.krylov.tol:
                return found
            self.slow = ridge
        return self.direct.solve(ridge)

    @cached_property
    def direct(self) -> RidgeProblem:
        """The direct problem."""
        direct = self.make_direct()
        direct.prepare(self.hard)
        return direct


def _scaled(roots: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Return the null vector of a matrix of centred rows with the mean of its diagonal for its squared norm."""
    return roots * np.sqrt(max(np.trace(K), 0.0) / len(K) / (roots @ roots))


def _moments(X: Block, T: Any, roots: Any) -> tuple:
    X = _double(X, roots)
    return X.gram(), X.colsum() if roots is None else X.t(roots[:, None]), X.t(T)


def _squares(X: Block, N: Any) -> Any:
    P = X.double() @ N
    return X.xp.sum(P * P, axis=0)


def _triangle(X: Block, T: Any, roots: Any = None) -> Any:
    return _double(X, roots).qr(T)


def _double(X: Block, roots: Any) -> Block:
    """Return a block in double precision, its rows times their roots: in single precision these would lose digits."""
    return X.double() if roots is None else X.double().scale(roots)
