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
from labelfold.numerics.krylov import Sketch, nystrom_sketch, preconditioned_cg
from labelfold.rows import Block, Centered, Rows, Weighted

MAX_GRAM_BYTES = 512 << 20


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
        Largest relative residual of the normal equations; 0 for the direct ways.
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
) -> GramProblem | DualProblem | KrylovProblem:
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
        How; "auto" chooses by shape and ``max_gram_bytes``.
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
    if way == "auto":
        way = choose_way(rows, max_gram_bytes)
    if way == "gram":
        return GramProblem.read(rows, T, mask, weight)
    if way == "dual":
        return DualProblem(rows, T, mask, max_gram_bytes)
    return KrylovProblem(rows, T, mask, weight, tol, max_iter, random_state, callback)


def choose_way(rows: Rows, max_gram_bytes: int) -> str:
    """Return the cheapest way that fits the memory budget."""
    n, d = rows.shape
    if 8 * min(n, d) ** 2 > max_gram_bytes:
        return "krylov"
    if d <= n:
        return "gram"
    return "dual" if rows.in_memory or n * rows.row_bytes() <= max_gram_bytes else "krylov"


def centered(rows: Rows, center: np.ndarray, mask: np.ndarray | None) -> Rows:
    """Return the rows less a centre, rows that do not count as zeros."""
    rows = Centered(rows, center)
    return rows if mask is None else Weighted(rows, mask)


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
        guess = rows.take(np.arange(min(256, rows.shape[0]))).mean()
        G, M, total = centered(rows, guess, mask).sum(_moments, T)
        shift = total / weight
        G -= weight * np.outer(shift, shift)  # M needs no correction: T is centred
        mean, d, size = guess + shift, rows.shape[1], max(rows.shape)

        def factor() -> Factor:
            R = centered(rows, mean, mask).sum(triangle, T)
            R = np.vstack([R, np.zeros((max(0, d - len(R)), R.shape[1]))])
            return Factor(R[:d, :d], R[:d, d:], size)

        return cls(Gram(G, size), M, mean, factor)

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
    """The problem in terms of X_c X_c' = K, for n within the budget."""

    def __init__(self, rows: Rows, T: np.ndarray, mask: np.ndarray | None, max_gram_bytes: int) -> None:
        if mask is not None:
            rows, T = rows.take(np.flatnonzero(mask)), T[mask]
        self.T, self.mean = T, rows.mean()
        self.rows = Centered(rows, self.mean)
        self.X = self.rows.whole().double()
        K = self.X.outer()
        self.gram = Gram(K, max(rows.shape), constant=np.trace(K) / len(K) ** 2)
        self.can_be_dense = not self.X.is_sparse and 8 * rows.shape[0] * rows.shape[1] <= max_gram_bytes

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge."""
        if self.can_be_dense and self.gram.trusted(ridge) is None:
            Q, U, sigma, V = self._singular
            W, D = solve_spectrum(U.T @ self.T, sigma, V, ridge)
            return LeastSquares(Q @ W, D, self.mean, 0.0, 1, "dual")
        A, D = self.gram.solve_centered(self.T, ridge)
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
        self.options = {
            "tol": max(tol, 100 * float(np.finfo(rows.dtype).eps)),
            "max_iter": max_iter,
            "callback": callback,
        }
        self.rng = check_random_state(random_state)
        # An orthonormal basis of the targets: dependent ones (one-hot columns sum to 1) would cost a column each.
        values, E = np.linalg.eigh(T.T @ T)
        keep = values > 10 * len(values) * EPS * values[-1]
        self.mix = np.sqrt(values[keep])[:, None] * E[:, keep].T
        self.T = T @ (E[:, keep] / np.sqrt(values[keep]))

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge, setting out from the solution for another."""
        n, d = self.X.shape
        by_rows = ridge > 0 and self.X.in_memory and n < d
        operator, B = (self._outer, self.T) if by_rows else (self._gram, self._M)
        sketch = self._row_sketch if by_rows else self._column_sketch
        begin = start.state[1] if start is not None and start.state[0] == by_rows else None
        answer = preconditioned_cg(operator, B, ridge, sketch, start=begin, **self.options)
        if not answer.converged:
            warnings.warn(
                f"least squares stopped after {answer.n_iter} iterations with a relative residual of "
                f"{answer.residual:.1e}, short of tol={self.options['tol']:.1e}; raise max_iter, tol or ridge",
                ConvergenceWarning,
                stacklevel=3,
            )
        W = self.X.t(answer.X) if by_rows else answer.X
        D = self._M.T @ W
        D = self.mix.T @ (D + D.T) @ self.mix / 2
        state = (by_rows, answer.X)
        return LeastSquares(W @ self.mix, D, self.mean, answer.residual, answer.n_iter, "krylov", state)

    def _gram(self, P: np.ndarray) -> np.ndarray:
        return self.X.sum(_normal, shared=(P,))

    def _outer(self, P: np.ndarray) -> np.ndarray:
        return self.X.get(self.X @ self.X.t(P))

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
