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
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold.numerics.krylov import BlockCG, Operator, block_cg, nystrom_preconditioner
from labelfold.rows import Block, Centered, Rows, Weighted

MAX_GRAM_BYTES = 512 << 20

# A Cholesky factor of a squared matrix is trusted while round-off times its condition stays below this.
_TRUSTED = 1e-8


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
    """

    W: np.ndarray
    D: np.ndarray
    mean: np.ndarray
    residual: float
    n_iter: int
    way: str


def least_squares(
    rows: Rows,
    T: np.ndarray,
    ridge: float = 0.0,
    *,
    mask: np.ndarray | None = None,
    way: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
    max_gram_bytes: int = MAX_GRAM_BYTES,
    random_state: Any = 0,
    callback: Callable[[int, float], None] | None = None,
) -> LeastSquares:
    """Regress the columns of T on the rows.

    Parameters
    ----------
    rows : Rows
        n rows of d columns, centred here.
    T : ndarray of shape (n, q)
        The targets, centred here.
    ridge : float
        g, at least 0.
    mask : ndarray of bool, optional
        The rows that count; all when None.
    way : {"auto", "gram", "dual", "krylov"}
        How; "auto" chooses by shape and ``max_gram_bytes``.
    tol, max_iter : float, int
        Of the Krylov way: the relative residual to reach, and the most passes to spend. Data in float32 is not
        asked for more than it has.
    max_gram_bytes : int
        The most memory for a d x d or n x n matrix.
    random_state : int
        Seed of the Krylov way's sketch.
    callback : callable, optional
        Called with the iteration and the relative residual of the Krylov way.

    Returns
    -------
    LeastSquares

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> least_squares(as_rows(X), np.array([[1.0], [3.0], [5.0]])).W
    array([[2.]])
    """
    T = np.where(mask[:, None], T, 0.0) if mask is not None else np.asarray(T, dtype=np.float64)
    weight = rows.shape[0] if mask is None else int(mask.sum())
    T = T - T.sum(axis=0) / weight
    if mask is not None:
        T *= mask[:, None]
    if way == "auto":
        way = choose_way(rows, max_gram_bytes)
    if way == "gram":
        return _gram(rows, T, ridge, mask, weight)
    if way == "dual":
        return _dual(rows, T, ridge, mask, max_gram_bytes)
    return _krylov(
        rows, T, ridge, mask, weight, tol=tol, max_iter=max_iter, random_state=random_state, callback=callback
    )


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


def _gram(rows: Rows, T: np.ndarray, ridge: float, mask: np.ndarray | None, weight: int) -> LeastSquares:
    # Sums about a provisional centre, moved to the mean afterwards: one pass, and no digits lost to a large mean.
    guess = rows.take(np.arange(min(256, rows.shape[0]))).mean()
    G, M, total = centered(rows, guess, mask).sum(_moments, T)
    shift = total / weight
    G -= weight * np.outer(shift, shift)  # M needs no correction: T is centred
    mean = guess + shift
    factor = _trusted_cholesky(G, ridge)
    if factor is not None:
        W, D = factor(M)
        return LeastSquares(W, D, mean, 0.0, 1, "gram")
    R = centered(rows, mean, mask).sum(_triangle, T)
    W, D = _solve_triangle(R[: len(G), : len(G)], R[: len(G), len(G) :], ridge, max(rows.shape))
    return LeastSquares(W, D, mean, 0.0, 1, "gram")


def _moments(X: Block, T: Any) -> tuple:
    X = X.double()
    return X.gram(), X.t(T), X.colsum()


def _transposed(X: Block, A: Any) -> Any:
    return X.double().t(A)


def _triangle(X: Block, T: Any) -> Any:
    return X.double().qr(T)


def _trusted_cholesky(G: np.ndarray, ridge: float, constant: float = 0.0) -> Callable | None:
    """Return a solver with G + constant + ridge I that also gives D, or None where it is not to be trusted."""
    A = G + constant
    A[np.diag_indices_from(A)] += ridge
    diagonal = np.diagonal(A)
    if not len(A) or diagonal.min() <= 0:
        return None
    scale = 1 / np.sqrt(diagonal)
    A *= scale
    A *= scale[:, None]
    norm = linalg.lapack.dlange("1", A.T)  # A is symmetric, and A.T is in the order LAPACK wants
    factor, info = linalg.lapack.dpotrf(A.T, lower=1, overwrite_a=1, clean=0)
    if info:
        return None
    rcond, info = linalg.lapack.dpocon(factor, norm, uplo="L")
    if info or rcond * _TRUSTED < np.finfo(np.float64).eps:
        return None

    def solve(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        B = linalg.solve_triangular(factor, scale[:, None] * M, lower=True, check_finite=False)
        W = linalg.solve_triangular(factor, B, lower=True, trans=1, check_finite=False)
        return scale[:, None] * W, B.T @ B

    return solve


def _solve_triangle(R: np.ndarray, C: np.ndarray, ridge: float, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Solve min ||R W - C||^2 + ridge ||W||^2 for a square R that may be singular."""
    d = len(R)
    norms = np.linalg.norm(R, axis=0)
    if norms.min(initial=np.inf) > 0:
        rcond, _ = linalg.lapack.dtrcon(R / norms)
        if rcond > 100 * size * np.finfo(np.float64).eps:
            # Full rank, whatever the scale of the columns: no singular values needed.
            stacked = np.block([[R, C], [np.sqrt(ridge) * np.eye(d), np.zeros_like(C)]])
            stacked = np.linalg.qr(stacked, mode="r") if ridge else stacked
            B = stacked[:d, d:]
            return linalg.solve_triangular(stacked[:d, :d], B, check_finite=False), B.T @ B
    U, sigma, Vt = np.linalg.svd(R)
    return _solve_spectrum(U.T @ C, sigma, Vt.T, ridge, size)


def _solve_spectrum(
    C: np.ndarray, sigma: np.ndarray, V: np.ndarray, ridge: float, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Solve from X = U diag(sigma) V' and C = U'T, dropping what is zero but for round-off."""
    keep = sigma > size * np.finfo(np.float64).eps * sigma.max(initial=0.0)
    C, sigma, V = C[keep], sigma[keep, None], V[:, keep]
    damped = sigma**2 + ridge
    return V @ (sigma / damped * C), C.T @ (sigma**2 / damped * C)


def _dual(
    rows: Rows, T: np.ndarray, ridge: float, mask: np.ndarray | None, max_gram_bytes: int
) -> LeastSquares:
    if mask is not None:
        rows, T = rows.take(np.flatnonzero(mask)), T[mask]
    block = rows.whole().double()
    n = len(T)
    mean = rows.mean()
    X = block.shift(mean)
    K = X.outer()
    # T is centred and K's null vector is 1: a multiple of 11' makes K regular and leaves the solution alone.
    factor = _trusted_cholesky(K, ridge, constant=np.trace(K) / n**2)
    if factor is not None:
        A, _ = factor(T)
        A -= A.mean(axis=0)
        D = T.T @ (K @ A)
    elif not X.is_sparse and X.shape[1] * n * 8 <= max_gram_bytes:
        Q, R = np.linalg.qr(X.dense().T)
        U, sigma, Vt = np.linalg.svd(R.T)
        W, D = _solve_spectrum(U.T @ T, sigma, Vt.T, ridge, max(X.shape))
        return LeastSquares(Q @ W, D, mean, 0.0, 1, "dual")
    else:
        values, U = np.linalg.eigh(K)
        keep = values > max(X.shape) * np.finfo(np.float64).eps * values[-1]
        values, U = values[keep, None], U[:, keep]
        C = U.T @ T
        A, D = U @ (C / (values + ridge)), C.T @ (values / (values + ridge) * C)
    W = Centered(rows, mean).sum(_transposed, A)
    return LeastSquares(W, (D + D.T) / 2, mean, 0.0, 1, "dual")


def _krylov(
    rows: Rows,
    T: np.ndarray,
    ridge: float,
    mask: np.ndarray | None,
    weight: int,
    *,
    tol: float,
    max_iter: int,
    random_state: Any,
    callback: Callable[[int, float], None] | None,
) -> LeastSquares:
    ones = np.ones(rows.shape[0]) if mask is None else mask.astype(np.float64)
    mean = rows.t(ones) / weight
    X = centered(rows, mean, mask)
    # An orthonormal basis of the targets: dependent ones (one-hot columns sum to 1) would cost a column each.
    values, E = np.linalg.eigh(T.T @ T)
    keep = values > 10 * len(values) * np.finfo(np.float64).eps * values[-1]
    root = np.sqrt(values[keep])
    basis = T @ (E[:, keep] / root)
    options = {
        "tol": max(tol, 100 * float(np.finfo(rows.dtype).eps)),
        "max_iter": max_iter,
        "callback": callback,
    }
    rng = check_random_state(random_state)
    # The row side has the shorter vectors where there are fewer rows, and long and short rows can be scaled alike;
    # but it needs a ridge (it has no solution where equal rows have different targets), and two passes.
    side = _row_side if ridge > 0 and rows.in_memory and rows.shape[0] < rows.shape[1] else _column_side
    W, D, answer = side(X, basis, ridge, rng, options)
    if not answer.converged:
        warnings.warn(
            f"least squares stopped after {answer.n_iter} iterations with a relative residual of "
            f"{answer.residual:.1e}, short of tol={options['tol']:.1e}; raise max_iter, tol or ridge",
            ConvergenceWarning,
            stacklevel=3,
        )
    mix = root[:, None] * E[:, keep].T
    return LeastSquares(W @ mix, mix.T @ (D + D.T) @ mix / 2, mean, answer.residual, answer.n_iter, "krylov")


def _column_side(X: Rows, T: np.ndarray, ridge: float, rng: Any, options: dict) -> tuple:
    """Solve (X'X + g I) W = X'T."""
    M = X.t(T)

    def gram(P: np.ndarray) -> np.ndarray:
        return X.sum(_normal, shared=(P,))

    answer = _preconditioned(gram, M, ridge, rng, options)
    return answer.X, M.T @ answer.X, answer


def _row_side(X: Rows, T: np.ndarray, ridge: float, rng: Any, options: dict) -> tuple:
    """Solve (X X' + g I) A = T with every row scaled to norm 1, then W = X'A."""
    scale = 1 / np.sqrt(X.get(X.squared_norms()) + ridge)[:, None]

    def outer(P: np.ndarray) -> np.ndarray:
        return scale * X.get(X @ X.t(scale * P)) + (ridge * scale**2) * P

    answer = _preconditioned(outer, scale * T, 0.0, rng, options)
    A = scale * answer.X
    W = X.t(A)
    return W, T.T @ X.get(X @ W), answer


def _preconditioned(gram: Operator, B: np.ndarray, ridge: float, rng: Any, options: dict) -> BlockCG:
    half = nystrom_preconditioner(gram, len(B), min(B.shape[1] + 64, len(B)), ridge, rng)

    def operator(P: np.ndarray) -> np.ndarray:
        V = half(P)
        return half(gram(V) + ridge * V)

    answer = block_cg(operator, half(B), **options)
    return answer._replace(X=half(answer.X))


def _normal(X: Block, P: Any) -> Any:
    return X.t(X @ P)
