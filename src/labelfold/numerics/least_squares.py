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

"auto" takes the smaller of the first two where it fits the memory budget, otherwise the third. Of sparse rows in
memory, iterations often come first even so: they are tried, and given up where they turn out to be slow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold.numerics.gram import EPS, Factor, Gram, solve_spectrum, trim_svd
from labelfold.numerics.krylov import Sketch, nystrom_sketch, preconditioned_cg, small
from labelfold.rows import Block, Centered, Rows, Weighted

MAX_GRAM_BYTES = 512 << 20

# Iterations are tried before a factorisation that costs as much as this many of them.
_FEWEST_WORTH = 12
_AS_DIRECT = 1e-11


@dataclass
class LeastSquares:
    """A solution, and how it was found.

    Attributes
    ----------
    W : ndarray of shape (d, q)
        The coefficients.
    D : ndarray of shape (q, q)
        W'X_c'T_c, symmetric positive semi-definite, from the most accurate product at hand.
    mean : ndarray of shape (d,)
        The mean of the rows that count.
    residual : float
        Largest residual X_c'(T_c - X_c W) - g W of a target, beside its X_c'T_c, computed afresh from W at the end;
        0 for the direct ways.
    n_iter : int
        Iterations of the Krylov way, otherwise 1.
    way : str
        "gram", "dual" or "krylov".
    state : object
        What the Krylov way sets out from for another ridge.
    """

    W: np.ndarray
    D: np.ndarray
    mean: np.ndarray
    residual: float
    n_iter: int
    way: str
    state: Any = field(default=None, repr=False)


def least_squares(rows: Rows, T: np.ndarray, ridge: float = 0.0, **options: Any) -> LeastSquares:
    """Regress the columns of T on the rows: `pose` the problem and solve it for one ridge.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> least_squares(as_rows(X), np.array([[1.0], [3.0], [5.0]])).W
    array([[2.]])
    """
    return pose(rows, T, **options).solve(ridge)


def pose(
    rows: Rows,
    T: np.ndarray,
    *,
    mask: np.ndarray | None = None,
    way: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
    max_gram_bytes: int = MAX_GRAM_BYTES,
    random_state: Any = 0,
    callback: Callable[[int, float], None] | None = None,
) -> GramProblem | DualProblem | KrylovProblem | EitherProblem:
    """Read what a least-squares problem needs, so that it can be solved for one ridge after another.

    Parameters
    ----------
    rows : Rows
        n rows of d columns, centred here.
    T : ndarray of shape (n, q)
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
    problem
        With ``solve(ridge, start=None)``; ``start`` is a solution for another ridge, which the Krylov way sets
        out from.
    """
    weight = rows.shape[0] if mask is None else int(mask.sum())
    T = np.asarray(T, dtype=np.float64)
    T = T if mask is None else np.where(mask[:, None], T, 0.0)
    T = T - T.sum(axis=0) / weight
    if mask is not None:
        T *= mask[:, None]
    choose, way = way == "auto", choose_way(rows, max_gram_bytes) if way == "auto" else way

    def krylov(tol: float = tol) -> KrylovProblem:
        return KrylovProblem(rows, T, mask, weight, tol, max_iter, random_state, callback)

    def direct() -> GramProblem | DualProblem:
        if way == "gram":
            return GramProblem.read(rows, T, mask, weight)
        return DualProblem(rows, T, mask, max_gram_bytes)

    if way == "krylov":
        return krylov()
    worth = iterations_worth(rows, T.shape[1]) if choose else 0.0
    if worth < _FEWEST_WORTH:
        return direct()
    # In place of a factorisation, iterations have to be as exact as one.
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
    if not rows.in_memory or rows.dtype != np.float64 or not rows.take(np.arange(1)).whole().is_sparse:
        return 0.0
    n_values = rows.shape[0] * rows.row_bytes() / 12
    # Beside a factorisation's, a multiplication of a sparse product takes the time of ten.
    iteration = 2 * 2 * 10 * n_values * q + 14 * m * q**2
    return m**3 / 2 / max(iteration, 1.0)


def centered(rows: Rows, center: np.ndarray, mask: np.ndarray | None) -> Rows:
    """Return the rows less a centre, rows that do not count as zeros."""
    rows = Centered(rows, center)
    return rows if mask is None else Weighted(rows, mask)


def read_factor(rows: Rows, T: np.ndarray, mean: np.ndarray, mask: np.ndarray | None) -> Factor:
    """Return the triangular factor of the centred rows, and Q'T, from one pass."""
    d = rows.shape[1]
    R = centered(rows, mean, mask).sum(triangle, T)
    R = np.vstack([R, np.zeros((max(0, d - len(R)), R.shape[1]))])
    return Factor(R[:d, :d], R[:d, d:], max(rows.shape))


class GramProblem:
    """The problem in terms of X_c'X_c = G and X_c'T_c = M, for d within the budget.

    ``factor()`` gives a `Factor` of X_c, for when G is too ill-conditioned.
    """

    def __init__(self, gram: Gram, M: np.ndarray, mean: np.ndarray, factor: Callable[[], Factor]) -> None:
        self.gram, self.M, self.mean = gram, M, mean
        self.factor = cache(factor)

    @classmethod
    def read(cls, rows: Rows, T: np.ndarray, mask: np.ndarray | None, weight: int) -> GramProblem:
        """Read G and M in one pass."""
        # Sums about a provisional centre, moved to the mean afterwards: no digits are lost to a large mean.
        sample = rows.take(np.arange(min(256, rows.shape[0])))
        guess = sample.mean()
        G, M, total = centered(rows, guess, mask).sum(_moments, T)
        shift = total / weight
        G -= weight * np.outer(shift, shift)  # M needs no correction: T is centred
        mean = guess + shift
        # Dense blocks are centred before they are squared; sparse ones after, which costs digits.
        noise = _lost(np.diagonal(G), weight * mean**2) if sample.whole().is_sparse else 1.0
        gram = Gram(G, max(rows.shape), noise=noise)
        return cls(gram, M, mean, lambda: read_factor(rows, T, mean, mask))

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge."""
        cholesky = self.gram.trusted(ridge)
        if cholesky is not None:
            B = cholesky.half(self.M)
            W, D = cholesky.rest(B), B.T @ B
        else:
            W, D = self.factor().solve(ridge)
        return LeastSquares(W, D, self.mean, 0.0, 1, "gram")


class DualProblem:
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
        self.gram = Gram(K, max(rows.shape), constant=np.trace(K) / len(K) ** 2, noise=noise)
        self.fits = 8 * rows.shape[0] * rows.shape[1] <= max_gram_bytes

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
        return Q, *trim_svd(*np.linalg.svd(R.T), self.gram.size)


class KrylovProblem:
    """The problem in terms of products with X_c only, for anything larger.

    Works on the side with the shorter vectors. On the column side, (X'X + g I) W = X'T, an iteration is one pass
    over X. On the row side, (X X' + g I) A = T and W = X'A, it is two, and there is no solution where g = 0 and
    equal rows have different targets: so that side is for rows in memory and a ridge.
    """

    def __init__(
        self,
        rows: Rows,
        T: np.ndarray,
        mask: np.ndarray | None,
        weight: int,
        tol: float,
        max_iter: int,
        random_state: Any,
        callback: Callable[[int, float], None] | None,
    ) -> None:
        ones = np.ones(rows.shape[0]) if mask is None else mask.astype(np.float64)
        self.mean = rows.t(ones) / weight
        self.X = centered(rows, self.mean, mask)
        self.tol = max(tol, 100 * float(np.finfo(rows.dtype).eps))
        self.max_iter, self.callback = max_iter, callback
        self.rng = check_random_state(random_state)
        self.T, self.mix = target_basis(T)

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge, setting out from the solution for another."""
        # In memory a sketch costs as much as several iterations: a few are tried without one.
        patience = 30 + 2 * self._rank / max(1, self.T.shape[1]) if self.X.in_memory else 0.0
        found = self._iterate(ridge, start, patience, may_sketch=True)
        if found.residual > self.tol:
            warnings.warn(
                f"least squares stopped after {found.n_iter} iterations with a relative residual of "
                f"{found.residual:.1e}, short of tol={self.tol:.1e}; raise max_iter, tol or ridge",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found

    def attempt(self, ridge: float, start: LeastSquares | None, patience: float) -> LeastSquares | None:
        """Solve for one ridge without a sketch; None where more than ``patience`` iterations are to be expected."""
        return self._iterate(ridge, start, patience, may_sketch=False)

    def _iterate(
        self, ridge: float, start: LeastSquares | None, patience: float, may_sketch: bool
    ) -> LeastSquares | None:
        n, d = self.X.shape
        by_rows = ridge > 0 and self.X.in_memory and n < d
        state = None if start is None else start.state
        X = state[1] if state is not None and state[0] == by_rows else None
        sketch = self._sketch(by_rows) if may_sketch and not patience else None
        # The recurrence measures residuals in another norm, with round-off of its own: it is asked for a little
        # more, and again from where it stopped if that was not enough.
        n_iter, tol, best = 0, self.tol / 2, np.inf
        while True:
            operator, B = (self._outer, self.T) if by_rows else (self._gram, self._M)
            answer = preconditioned_cg(
                operator,
                B,
                ridge,
                sketch,
                start=X,
                tol=tol,
                max_iter=self.max_iter - n_iter,
                callback=self._counting_from(n_iter),
                patience=np.inf if sketch is not None else patience,
            )
            n_iter, X = n_iter + answer.n_iter, answer.X
            if not answer.converged and sketch is None and n_iter < self.max_iter:
                if not may_sketch:
                    return None
                sketch = self._sketch(by_rows)
                continue
            W, residual = self._measure(X, ridge, by_rows)
            if residual <= self.tol or not answer.converged:
                break
            if residual < best / 2:
                best, tol = residual, tol * self.tol / (2 * residual)
            elif by_rows:
                # What of T lies outside the range of X X' is divided by the ridge, and a tiny one leaves few
                # digits to the rest. The column side has no such part.
                by_rows, X, sketch, best, tol = False, W, None, np.inf, self.tol / 2
            else:
                break
        D = self._M.T @ W
        D = self.mix.T @ (D + D.T) @ self.mix / 2
        return LeastSquares(W @ self.mix, D, self.mean, residual, n_iter, "krylov", (by_rows, X))

    def _measure(self, X: np.ndarray, ridge: float, by_rows: bool) -> tuple[np.ndarray, float]:
        """Return W and the largest relative residual of the normal equations."""
        if by_rows:
            W = self.X.t(X)
            rest = self.X.t(self.T - self.X.get(self.X @ W) - ridge * X)
        else:
            W, rest = X, self._M - self._gram(X) - ridge * X
        rests, norms = self._target_norms(rest), self._M_norms
        return W, float(np.divide(rests, norms, out=np.zeros_like(rests), where=norms > 0).max(initial=0.0))

    def _target_norms(self, V: np.ndarray) -> np.ndarray:
        """Return the norms of the columns that V, in terms of the basis, stands for."""
        return np.sqrt(np.maximum(np.einsum("ij,ij->j", self.mix, V.T @ V @ self.mix), 0.0))

    @cached_property
    def _M_norms(self) -> np.ndarray:
        sizes, norms = np.linalg.norm(self.mix, axis=0), self._target_norms(self._M)
        # A target that X says nothing about has a right-hand side of round-off alone.
        share = np.divide(norms, sizes, out=np.zeros_like(norms), where=sizes > 0)
        return np.maximum(norms, small(self.tol) * share.max(initial=0.0) * sizes)

    def _counting_from(self, done: int) -> Callable[[int, float], None] | None:
        callback = self.callback
        return None if callback is None else lambda n_iter, residual: callback(done + n_iter, residual)

    def _sketch(self, by_rows: bool) -> Sketch:
        return self._row_sketch if by_rows else self._column_sketch

    def _gram(self, P: np.ndarray) -> np.ndarray:
        return self.X.sum(_normal, shared=(P,))

    def _outer(self, P: np.ndarray) -> np.ndarray:
        return self.X.get(self.X @ self.X.t(P)) if self._block is None else self._block.outer(P)

    @cached_property
    def _block(self) -> Block | None:
        """All the rows as one block, where that takes no memory: sparse ones are centred implicitly."""
        return self.X.whole() if self.X.take(np.arange(1)).whole().is_sparse else None

    @cached_property
    def _M(self) -> np.ndarray:
        return self.X.t(self.T)

    @cached_property
    def _column_sketch(self) -> Sketch:
        return nystrom_sketch(self._gram, self.X.shape[1], self._rank, self.rng)

    @cached_property
    def _row_sketch(self) -> Sketch:
        return nystrom_sketch(self._outer, self.X.shape[0], self._rank, self.rng)

    @property
    def _rank(self) -> int:
        return min(self.T.shape[1] + 64, *self.X.shape)


def target_basis(T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal basis of the targets and the (r, q) matrix that makes T of it.

    Dependent targets (one-hot columns, less their means, sum to 0) would each cost a column of every iteration.
    """
    sizes = np.linalg.norm(T, axis=0)
    Q, R = np.linalg.qr(T / np.where(sizes > 0, sizes, 1.0))
    U, s, Vt = np.linalg.svd(R)
    keep = s > 10 * max(T.shape) * EPS * s.max(initial=0.0)
    return Q @ U[:, : len(s)][:, keep], s[keep, None] * Vt[: len(s)][keep] * sizes


class EitherProblem:
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
        self.direct = cache(make_direct)
        self.slow = 0.0  # the largest ridge for which iterations were given up

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge, setting out from the solution for another."""
        if ridge > self.slow:
            found = self.krylov.attempt(ridge, start, self.worth)
            if found is not None and found.residual <= self.krylov.tol:
                return found
            self.slow = ridge
        return self.direct().solve(ridge)


def _lost(centred: np.ndarray, shift: Any) -> float:
    """Return by how much squares shrank when they were centred: so many times is round-off larger beside them."""
    sizes = np.maximum(centred, EPS * (np.abs(centred) + shift))
    return float(np.max((sizes + shift) / np.where(sizes > 0, sizes, 1.0), initial=1.0))


def _moments(X: Block, T: Any) -> tuple:
    X = X.double()
    return X.gram(), X.t(T), X.colsum()


def _transposed(X: Block, A: Any) -> Any:
    return X.double().t(A)


def triangle(X: Block, T: Any) -> Any:
    """Return the triangular factor of [X, T], in float64."""
    return X.double().qr(T)


def _normal(X: Block, P: Any) -> Any:
    return X.t(X @ P)
