r"""Ridge regression of many targets on centred rows, by the cheapest method that keeps the digits.

.. math:: \min_W \|X_c W - T_c\|_F^2 + g \|W\|_F^2

X_c and T_c are centred over the rows in the mask. For g = 0, W is the solution of least norm.

=========  =============================================================================  ================
way        what it does                                                                   passes over X
=========  =============================================================================  ================
gram       Cholesky factor of X_c'X_c (d x d); if that is too ill-conditioned, the        1, or 2
           triangular factor of [X_c, T_c] instead, and its singular values
dual       the same for X_c X_c' (n x n), for fewer rows than columns                     1
krylov     block conjugate gradients on the normal equations, sketched preconditioner     1 an iteration
=========  =============================================================================  ================

"auto" chooses the smaller of the first two if it fits the memory budget, otherwise the third. For sparse rows in
memory iterations are often tried first, and given up if they converge slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from labelfold.numerics._gram import Factor, Gram, lost, rounding, solve_spectrum
from labelfold.numerics._iterative import KrylovProblem
from labelfold.numerics._problems import DualProblem, LeastSquares, LeastSquaresProblem
from labelfold.rows import Block, Rows, add_product, centered, single_blas

MAX_GRAM_BYTES = 512 << 20
# Iterations are tried first if a factorisation costs as much as at least this many of them. With fewer they are
# mostly given up, after a third of that cost (3,000 documents, 101 labels, ridge 1).
_FEWEST_WORTH = 24
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
    """Read the data of a least-squares problem, so that it can be solved for several ridges.

    Parameters
    ----------
    rows : Rows
        n rows of d columns, centred here.
    T : ndarray of shape (n, q) or RowTargets
        The targets, centred here.
    mask : ndarray of bool, optional
        The rows to use; all when None.
    way : {"auto", "gram", "dual", "krylov"}
        The method; "auto" chooses by shape, cost and ``max_gram_bytes``.
    tol, max_iter : float, int
        For "krylov": the relative residual, and the largest number of iterations. The tolerance is not smaller than
        the precision of float32 data allows.
    max_gram_bytes : int
        Largest size in bytes of a d x d or n x n matrix.
    random_state : int, RandomState or None
        Seed of the sketch of "krylov".
    callback : callable, optional
        Called with the iteration and the relative residual of "krylov".

    Returns
    -------
    problem : LeastSquaresProblem
        With ``solve(ridge, start=None)``, where ``start`` is a solution for another ridge, used as a warm start by
        "krylov". If ``prepare(ridges)`` is called before, iterations serve all of these ridges at once.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> pose(as_rows(X), np.array([[1.0], [3.0], [5.0]])).solve(0.0).W
    array([[2.]])
    """
    weight = rows.shape[0] if mask is None else int(mask.sum())
    T = (T if isinstance(T, RowTargets) else RowTargets(T)).centered(mask)
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
    # Iterations that replace a factorisation must be as accurate.
    return EitherProblem(krylov(min(tol, _AS_DIRECT)), direct, worth)


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
    """The targets T (n, q): row i is ``table[codes[i]]``, and 0 if the code is -1.

    So a million rows with ten classes need a million small integers and a table of ten rows.

    Parameters
    ----------
    table : ndarray of shape (g, q)
        The distinct rows of T; all rows if there are no codes.
    codes : ndarray of int, shape (n,), optional
        The index of each row in the table.
    counts : ndarray of shape (g,), optional
        How often each row of the table occurs; counted when None.

    Examples
    --------
    >>> RowTargets(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, -1, 0])).dense
    array([[3., 4.],
           [0., 0.],
           [1., 2.]])
    """

    def __init__(
        self, table: np.ndarray, codes: np.ndarray | None = None, counts: np.ndarray | None = None
    ) -> None:
        self.table, self._counts = np.asarray(table, dtype=np.float64), counts
        # In few bytes: they travel to where the rows are.
        self.codes = None if codes is None else codes.astype(np.min_scalar_type(-len(table)), copy=False)

    @property
    def n_targets(self) -> int:
        """Number q of columns of T."""
        return self.table.shape[1]

    @cached_property
    def dense(self) -> np.ndarray:
        """T as an array."""
        if self.codes is None:
            return self.table
        return np.where(self.codes[:, None] < 0, 0.0, self.table[self.codes])

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of occurrences of each row of the table."""
        if self._counts is not None:
            return self._counts
        if self.codes is None:
            return np.ones(len(self.table))
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.table)).astype(np.float64)

    def centered(self, mask: np.ndarray | None) -> RowTargets:
        """Return the targets less their mean over the rows in the mask, and 0 for the other rows."""
        if self.codes is not None:
            mean = self.counts @ self.table / self.counts.sum()
            return RowTargets(self.table - mean, self.codes, self.counts)
        T = self.table if mask is None else np.where(mask[:, None], self.table, 0.0)
        T = T - T.sum(axis=0) / (len(T) if mask is None else int(mask.sum()))
        return RowTargets(T if mask is None else T * mask[:, None])

    def basis(
        self, split: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[RowTargets, np.ndarray]:
        """Return ``split`` of T: an orthonormal basis (n, r), and the (r, q) matrix that maps it to T."""
        roots = np.sqrt(self.counts)[:, None]
        Q, mix = split(roots * self.table)
        table = np.divide(Q, roots, out=np.zeros_like(Q), where=roots > 0)
        return RowTargets(table, self.codes, self.counts), mix

    def sums(self, rows: Rows, f: Callable[[Block, Any], tuple]) -> tuple:
        """Return the sums of ``f(X, T)`` over rows in one pass; the last sum of f(X, E) must be X'E."""
        if self.codes is None:
            return rows.sum(f, self.table)
        *others, product = rows.sum(partial(_indicated, f), self.codes, shared=(np.arange(len(self.table)),))
        return (*others, product @ self.table)


def _indicated(f: Callable, X: Block, codes: Any, numbers: Any) -> Any:
    """Return a function of a block and targets, given the indices of the targets' rows."""
    xp = array_namespace(codes)
    return f(X, xp.astype(codes[:, None] == numbers[None, :], X.dtype))


class GramProblem(LeastSquaresProblem):
    """The problem in terms of X_c'X_c = G and X_c'T_c = M, for d within the budget.

    If G is singular and X_c has the same rank, as decided by ``norms`` (see `Gram.has_rank`), the problem is solved
    in the eigenvectors of G. ``factor()`` returns a `Factor` of X_c, for a G that is too ill-conditioned for both.
    """

    def __init__(
        self,
        gram: Gram,
        M: np.ndarray,
        mean: np.ndarray,
        norms: Callable[[np.ndarray], np.ndarray],
        factor: Callable[[], Factor],
    ) -> None:
        self.gram, self.M, self.mean = gram, M, mean
        self.norms, self.factor = norms, cache(factor)

    @classmethod
    def read(cls, rows: Rows, T: RowTargets, mask: np.ndarray | None, weight: int) -> GramProblem:
        """Read G and M in one pass."""
        # Sums about a provisional centre are shifted to the mean afterwards, so a large mean costs no digits.
        sample = rows.take(np.arange(min(256, rows.shape[0])))
        guess = sample.mean().astype(rows.dtype).astype(np.float64)  # with the precision of the blocks
        G, total, M = T.sums(centered(rows, guess, mask), _moments)
        shift = total / weight
        G = add_product(G, -weight * shift[:, None], shift[None, :])  # T is centred, so M needs no correction
        mean = guess + shift
        # Dense blocks are centred before they are squared, sparse ones after it, which costs digits.
        noise = lost(np.diagonal(G), weight * mean**2) if sample.whole().is_sparse else 1.0
        rounded = rounding(np.maximum(np.diagonal(G), 0.0) + weight * mean**2, weight, rows.eps)
        gram = Gram(G, max(rows.shape), noise=noise, rounding=rounded)

        def norms(N: np.ndarray) -> np.ndarray:
            return np.sqrt(centered(rows, mean, mask).sum(_squares, shared=(N,)))

        return cls(gram, M, mean, norms, lambda: read_factor(rows, T.dense, mean, mask))

    def prepare(self, ridges: Sequence[float]) -> None:
        """Share a factorisation among several ridges."""
        self.gram.expect(ridges)

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
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
        return LeastSquares(W, D, self.mean, 0.0, 1, "gram")

    @cached_property
    def _has_rank(self) -> bool:
        """Whether X has the rank of its Gram matrix: one pass, and the triangular factor is not needed."""
        return self.gram.has_rank(self.norms)


class EitherProblem(LeastSquaresProblem):
    """Iterations if they are fast, otherwise the direct method.

    Parameters
    ----------
    krylov : KrylovProblem
        The iterative problem.
    make_direct : callable
        Returns the direct problem. It is called when it is first needed.
    worth : float
        The number of iterations that cost as much as the direct method.
    """

    def __init__(
        self, krylov: KrylovProblem, make_direct: Callable[[], GramProblem | DualProblem], worth: float
    ) -> None:
        self.krylov, self.worth = krylov, worth
        self.make_direct = make_direct
        self.hard: list[float] = []
        self.slow = 0.0  # the largest ridge for which iterations were given up

    def prepare(self, ridges: Sequence[float]) -> None:
        """Iterate for all ridges at once, for each as long as it is fast; the others share a factorisation."""
        self.krylov.prepare(ridges, self.worth)
        self.hard = [ridge for ridge in ridges if not ridge or self.krylov.was_slow(ridge)]

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge, started from the solution for another."""
        if ridge > self.slow and not self.krylov.was_slow(ridge):
            found = self.krylov.attempt(ridge, start, self.worth)
            if found is not None and found.residual <= self.krylov.tol:
                return found
            self.slow = ridge
        return self.direct.solve(ridge)

    @cached_property
    def direct(self) -> GramProblem | DualProblem:
        """The direct problem."""
        direct = self.make_direct()
        direct.prepare(self.hard)
        return direct


def _moments(X: Block, T: Any) -> tuple:
    X = X.double()
    return X.gram(), X.colsum(), X.t(T)


def _squares(X: Block, N: Any) -> Any:
    P = X.double() @ N
    return X.xp.sum(P * P, axis=0)


def triangle(X: Block, T: Any) -> Any:
    """Return the triangular factor of [X, T], in float64."""
    return X.double().qr(T)
