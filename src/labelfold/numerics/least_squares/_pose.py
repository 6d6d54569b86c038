r"""Ridge regression of many targets on centred rows, by the cheapest way that keeps the digits.

.. math:: \min_W \|X_c W - T_c\|_F^2 + g \|W\|_F^2

X_c and T_c are centred over the rows that count; W has least norm where g = 0 leaves a choice.

=========  =============================================================================  ================
way        what it does                                                                   passes over X
=========  =============================================================================  ================
gram       Cholesky factor of X_c'X_c (d x d); where that is too ill-conditioned, the     1, or 2
           triangular factor of [X_c, T_c] instead, and its singular values
dual       the same for X_c X_c' (n x n), for fewer rows than columns                     1
krylov     block conjugate gradients on the normal equations, sketched preconditioner     1 an iteration
=========  =============================================================================  ================

"auto" takes the smaller of the first two where it fits the memory budget, otherwise the third. For sparse rows in
memory iterations are often tried first all the same, and given up where they converge slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from labelfold.numerics.least_squares._gram import (
    EPS,
    Factor,
    Gram,
    known_part,
    rounding,
    solve_spectrum,
    trim_svd,
)
from labelfold.numerics.least_squares._iterative import KrylovProblem
from labelfold.numerics.least_squares._problem import LeastSquares, LeastSquaresProblem
from labelfold.rows import Block, Centered, Rows, centered
from labelfold.rows._block_sums import less_outer

MAX_GRAM_BYTES = 512 << 20

# Iterations are tried first where a factorisation costs as much as at least this many of them.
_FEWEST_WORTH = 12
_AS_DIRECT = 1e-11


def pose(
    rows: Rows,
    T: np.ndarray | RowTargets,
    *,
    mask: np.ndarray | None = None,
    way: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
    max_gram_bytes: int = MAX_GRAM_BYTES,
    random_state: Any = 0,
    callback: Callable[[int, float], None] | None = None,
) -> LeastSquaresProblem:
    """Read what a least-squares problem needs, so that it can be solved for one ridge after another.

    Parameters
    ----------
    rows : Rows
        n rows of d columns, centred here.
    T : ndarray of shape (n, q) or RowTargets
        The targets, centred here.
    mask : ndarray of bool, optional
        The rows that count; all when None.
    way : {"auto", "gram", "dual", "krylov"}
        How; "auto" chooses by shape, cost and ``max_gram_bytes``.
    tol, max_iter : float, int
        Of the Krylov way: the relative residual to reach, and the most iterations to spend. Data in float32 is
        not asked for more than it has.
    max_gram_bytes : int
        The most memory for a d x d or n x n matrix.
    random_state : int, RandomState or None
        Seed of the Krylov way's sketch.
    callback : callable, optional
        Called with the iteration and the relative residual of the Krylov way.

    Returns
    -------
    problem : LeastSquaresProblem
        With ``solve(ridge, start=None)``; ``start`` is a solution for another ridge, which the Krylov way sets
        out from. ``prepare(ridges)``, called before, lets it iterate for all of these at once.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> pose(as_rows(X), np.array([[1.0], [3.0], [5.0]])).solve(0.0).W
    array([[2.]])
    """
    weight = rows.shape[0] if mask is None else int(mask.sum())
    T = RowTargets.of(T).centered(mask)
    choose, way = way == "auto", choose_way(rows, max_gram_bytes) if way == "auto" else way

    def krylov(tol: float = tol) -> KrylovProblem:
        return KrylovProblem(rows, T, mask, weight, tol, max_iter, random_state, callback)

    def direct() -> GramProblem | DualProblem:
        if way == "gram":
            return GramProblem.read(rows, T, mask, weight)
        return DualProblem(rows, T.dense, mask, max_gram_bytes)

    if way == "krylov":
        return krylov()
    worth = iterations_worth(rows, T.n_targets) if choose else 0.0
    if worth < _FEWEST_WORTH:
        return direct()
    # Iterations that replace a factorisation have to be as accurate.
    return EitherProblem(krylov(min(tol, _AS_DIRECT)), direct, worth)


def choose_way(rows: Rows, max_gram_bytes: int) -> str:
    """Return the cheapest way that fits the memory budget."""
    n, d = rows.shape
    if 8 * min(n, d) ** 2 > max_gram_bytes:
        return "krylov"
    if d <= n:
        return "gram"
    return "dual" if rows.in_memory or n * rows.row_bytes() <= max_gram_bytes else "krylov"


def iterations_worth(rows: Rows, q: int) -> float:
    """Return how many iterations with q targets cost what the direct way costs, roughly.

    Only of sparse rows in memory, in float64: dense ones are factorised about as quickly, and float32 ones would
    lose the digits that the direct way keeps.
    """
    m = min(rows.shape)
    if rows.dtype != np.float64 or not rows.is_sparse:
        return 0.0
    n_values = rows.shape[0] * rows.row_bytes() / 12
    # A multiplication in a sparse product in float32 takes four times as long as one in a factorisation.
    iteration = 2 * 2 * 4 * n_values * q + 7 * m * q**2
    return 0.4 * m**3 / max(iteration, 1.0)


def read_factor(rows: Rows, T: np.ndarray, mean: np.ndarray, mask: np.ndarray | None) -> Factor:
    """Return the triangular factor of the centred rows, and Q'T, from one pass."""
    d = rows.shape[1]
    R = centered(rows, mean, mask).sum(triangle, T)
    R = np.vstack([R, np.zeros((max(0, d - len(R)), R.shape[1]))])
    weight = rows.shape[0] if mask is None else int(mask.sum())
    squares = (R[:d, :d] ** 2).sum(axis=0) + weight * mean**2
    return Factor(R[:d, :d], R[:d, d:], max(rows.shape), rounding(squares, weight, rows.eps))


class RowTargets:
    """What rows are to be fitted to: T (n, q), of which row i is ``table[codes[i]]``, 0 where the code is -1.

    A million rows of ten classes are then a million small numbers and a table of ten rows.

    Parameters
    ----------
    table : ndarray of shape (g, q)
        The rows of T that differ; all of them where there are no codes.
    codes : ndarray of int, shape (n,), optional
        Which of them each row has.

    Examples
    --------
    >>> RowTargets(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, -1, 0])).dense
    array([[3., 4.],
           [0., 0.],
           [1., 2.]])
    """

    def __init__(self, table: np.ndarray, codes: np.ndarray | None = None) -> None:
        self.table = np.asarray(table, dtype=np.float64)
        # In few bytes: they travel to where the rows are.
        self.codes = None if codes is None else codes.astype(np.min_scalar_type(-len(table)), copy=False)

    @classmethod
    def of(cls, T: np.ndarray | RowTargets) -> RowTargets:
        """Return targets as such."""
        return T if isinstance(T, RowTargets) else cls(T)

    @property
    def n_targets(self) -> int:
        """Columns of T, q."""
        return self.table.shape[1]

    @cached_property
    def dense(self) -> np.ndarray:
        """T itself."""
        if self.codes is None:
            return self.table
        return np.where(self.codes[:, None] < 0, 0.0, self.table[self.codes])

    @cached_property
    def counts(self) -> np.ndarray:
        """How often each row of the table occurs."""
        if self.codes is None:
            return np.ones(len(self.table))
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.table)).astype(np.float64)

    def centered(self, mask: np.ndarray | None) -> RowTargets:
        """Return the targets less their mean over the rows that count, and 0 for the others."""
        if self.codes is not None:
            return RowTargets(self.table - self.counts @ self.table / self.counts.sum(), self.codes)
        T = self.table if mask is None else np.where(mask[:, None], self.table, 0.0)
        T = T - T.sum(axis=0) / (len(T) if mask is None else int(mask.sum()))
        return RowTargets(T if mask is None else T * mask[:, None])

    def basis(
        self, split: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[RowTargets, np.ndarray]:
        """Return what ``split`` makes of T: an orthonormal basis (n, r) and the (r, q) matrix that makes T of it."""
        roots = np.sqrt(self.counts)[:, None]
        Q, mix = split(roots * self.table)
        return RowTargets(np.divide(Q, roots, out=np.zeros_like(Q), where=roots > 0), self.codes), mix

    def sums(self, rows: Rows, f: Callable[[Block, Any], tuple]) -> tuple:
        """Return ``f(X, T)`` added up over rows, where f(X, E) gives sums of which the last is X'E; one pass."""
        if self.codes is None:
            return rows.sum(f, self.table)
        *others, product = rows.sum(_Indicated(f), self.codes, shared=(np.arange(len(self.table)),))
        return (*others, product @ self.table)


class _Indicated:
    """A function of a block and targets, given the numbers of the targets' rows (a class, so that it can travel)."""

    def __init__(self, f: Callable) -> None:
        self.f = f

    def __call__(self, X: Block, codes: Any, numbers: Any) -> Any:
        xp = array_namespace(codes)
        return self.f(X, xp.astype(codes[:, None] == numbers[None, :], X.dtype))


class GramProblem(LeastSquaresProblem):
    """The problem in terms of X_c'X_c = G and X_c'T_c = M, for d within the budget.

    ``factor()`` gives a `Factor` of X_c, for when G is too ill-conditioned.
    """

    def __init__(self, gram: Gram, M: np.ndarray, mean: np.ndarray, factor: Callable[[], Factor]) -> None:
        self.gram, self.M, self.mean = gram, M, mean
        self.factor = cache(factor)

    @classmethod
    def read(cls, rows: Rows, T: RowTargets, mask: np.ndarray | None, weight: int) -> GramProblem:
        """Read G and M in one pass."""
        # Sums about a provisional centre, moved to the mean afterwards: no digits are lost to a large mean.
        sample = rows.take(np.arange(min(256, rows.shape[0])))
        guess = sample.mean().astype(rows.dtype).astype(np.float64)  # as blocks see it
        G, total, M = T.sums(centered(rows, guess, mask), _moments)
        shift = total / weight
        G = less_outer(G, weight * shift[:, None], shift[None, :])  # M needs no correction: T is centred
        mean = guess + shift
        # Dense blocks are centred before they are squared; sparse ones after, which costs digits.
        noise = _lost(np.diagonal(G), weight * mean**2) if sample.whole().is_sparse else 1.0
        rounded = rounding(np.maximum(np.diagonal(G), 0.0) + weight * mean**2, weight, rows.eps)
        gram = Gram(G, max(rows.shape), noise=noise, rounding=rounded)
        return cls(gram, M, mean, lambda: read_factor(rows, T.dense, mean, mask))

    def prepare(self, ridges: Sequence[float]) -> None:
        """Share a factorisation among many ridges."""
        self.gram.expect(ridges)

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge."""
        found = self.gram.solve(self.M, ridge)
        if found is not None:
            W, D = found[1], found[0].T @ found[0]
        else:
            W, D = self.factor().solve(ridge)
        return LeastSquares(W, D, self.mean, 0.0, 1, "gram")


class DualProblem(LeastSquaresProblem):
    """The problem in terms of X_c X_c' = K, for n within the budget.

    Where K is too ill-conditioned, its eigenvectors, or the singular vectors of X_c where that fits the budget as a
    dense matrix (sparse rows are made dense only where K cannot tell small eigenvalues from round-off).
    """

    def __init__(self, rows: Rows, T: np.ndarray, mask: np.ndarray | None, max_gram_bytes: int) -> None:
        if mask is not None:
            rows, T = rows.take(np.flatnonzero(mask)), T[mask]
        self.T, self.mean = T, rows.mean()
        self.rows = Centered(rows, self.mean)
        self.X = self.rows.whole().double()
        K = self.X.outer()
        noise = _lost(np.diagonal(K), float(self.mean @ self.mean)) if self.X.is_sparse else 1.0
        rounded = rounding(np.diagonal(K) + self.mean @ self.mean, rows.shape[1], rows.eps)
        constant = np.trace(K) / len(K) ** 2
        self.gram = Gram(K, max(rows.shape), constant=constant, noise=noise, rounding=rounded)
        self.fits = 8 * rows.shape[0] * rows.shape[1] <= max_gram_bytes

    def prepare(self, ridges: Sequence[float]) -> None:
        """Share a factorisation among many ridges."""
        self.gram.expect(ridges)

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge."""
        found = self.gram.solve_trusted(self.T, ridge)
        if found is None and self.fits and (not self.X.is_sparse or self.gram.blurred):
            Q, U, sigma, V = self._singular
            W, D = solve_spectrum(U.T @ self.T, sigma, V, ridge)
            return LeastSquares(Q @ W, D, self.mean, 0.0, 1, "dual")
        A, D = found or self.gram.solve_spectrum(self.T, ridge)
        return LeastSquares(self.rows.sum(_transposed, A), D, self.mean, 0.0, 1, "dual")

    @cached_property
    def _singular(self) -> tuple:
        Q, R = np.linalg.qr(self.X.dense().T)
        R = known_part(R, self.gram.rounding)  # a column of R is a row of X
        return Q, *trim_svd(*np.linalg.svd(R.T), self.gram.size)


class EitherProblem(LeastSquaresProblem):
    """Iterations while they are quick, and the direct way where they are not.

    Parameters
    ----------
    krylov : KrylovProblem
        The one.
    make_direct : callable
        Returns the other, which is not made before it is needed.
    worth : float
        How many iterations the direct way costs.
    """

    def __init__(
        self, krylov: KrylovProblem, make_direct: Callable[[], GramProblem | DualProblem], worth: float
    ) -> None:
        self.krylov, self.worth = krylov, worth
        self.make_direct = make_direct
        self.hard: list[float] = []
        self.slow = 0.0  # the largest ridge for which iterations were given up

    def prepare(self, ridges: Sequence[float]) -> None:
        """Iterate for all ridges at once, for each as long as it is quick; the others share a factorisation."""
        self.krylov.prepare(ridges, self.worth)
        self.hard = [ridge for ridge in ridges if not ridge or self.krylov.was_slow(ridge)]

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge, setting out from the solution for another."""
        if ridge > self.slow and not self.krylov.was_slow(ridge):
            found = self.krylov.attempt(ridge, start, self.worth)
            if found is not None and found.residual <= self.krylov.tol:
                return found
            self.slow = ridge
        return self.direct.solve(ridge)

    @cached_property
    def direct(self) -> GramProblem | DualProblem:
        """The problem as it is factorised."""
        direct = self.make_direct()
        direct.prepare(self.hard)
        return direct


def _lost(centred: np.ndarray, shift: Any) -> float:
    """Return the ratio of squares before and after centring: relative round-off grows by this factor."""
    sizes = np.maximum(centred, EPS * (np.abs(centred) + shift))
    return float(np.max((sizes + shift) / np.where(sizes > 0, sizes, 1.0), initial=1.0))


def _moments(X: Block, T: Any) -> tuple:
    X = X.double()
    return X.gram(), X.colsum(), X.t(T)


def _transposed(X: Block, A: Any) -> Any:
    return X.double().t(A)


def triangle(X: Block, T: Any) -> Any:
    """Return the triangular factor of [X, T], in float64."""
    return X.double().qr(T)
