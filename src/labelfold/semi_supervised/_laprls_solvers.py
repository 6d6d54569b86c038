r"""The two solvers of LapRLS: least squares on the labelled rows, smooth over a graph of all rows.

.. math:: \min_{g, b} \frac1l \sum_{i \in L} \|y_i - g(x_i) - b\|^2 + r \|g\|^2 + \frac{s}{n^2} G' \mathcal{L} G

G has the values of g at all n rows, and :math:`\mathcal{L}` is the Laplacian of the graph. The intercept b is not
penalised. This is the objective of `LapRLS` divided by the number l of labelled rows, so r is its ridge divided by l.
The kernel that the graph deforms then does not depend on the labels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from labelfold.numerics import nystrom_sketch, preconditioned_cg
from labelfold.rows import Centered, Rows, Weighted
from labelfold.utils import warn_user

EPS = float(np.finfo(np.float64).eps)

# Up to this many columns the preconditioner is the whole matrix; with more it is a sketch.
_WHOLE = 512
_SKETCH = 64
_COLUMNS = 64  # columns of a block of products; the block has n times as many numbers
_ROUNDS = 3


class Smooth(NamedTuple):
    """A solution g(x) = x'W, or k(x)'W in a kernel's space, and its intercept.

    Values are computed as (x - mean)'W + mean'W, which avoids cancellation if the mean is large.
    """

    W: np.ndarray
    intercept: np.ndarray
    n_iter: int
    residual: float
    mean: np.ndarray = np.zeros(1)


def objective(
    G: np.ndarray,
    norm: float,
    L: Any,
    index: np.ndarray,
    Y: np.ndarray,
    b: Any,
    ridge: float,
    smoothness: float,
) -> float:
    """Return the objective of g with values G (n, q), squared norm ``norm`` and intercept b.

    >>> objective(np.ones((2, 1)), 1.0, np.zeros((2, 2)), np.array([0]), np.zeros((1, 1)), 0.0, 0.5, 1.0)
    1.5
    """
    fit = np.sum((Y - G[index] - b) ** 2) / len(index)
    return float(fit + ridge * norm + smoothness / len(G) ** 2 * np.sum(G * (L @ G)))


def solve_linear(
    rows: Rows,
    L: Any,
    index: np.ndarray,
    Y: np.ndarray,
    *,
    ridge: float,
    smoothness: float,
    fit_intercept: bool = True,
    flat: bool = True,
    tol: float = 1e-8,
    max_iter: int = 1000,
    rng: Any,
    callback: Callable[[int, float], None] | None = None,
) -> Smooth:
    """Solve (X_L'X_L / l + r I + s/n^2 X'LX) W = X_L'Y / l by conjugate gradients, from products only.

    Parameters
    ----------
    rows : Rows
        X (n, d).
    L : sparse or dense matrix of shape (n, n), or None
        The Laplacian; not used if ``smoothness`` is 0.
    index, Y : ndarray
        The labelled rows (l,) and their targets (l, q).
    flat : bool, default=True
        Whether L 1 = 0. X may then be shifted in the graph term, which avoids cancellation if its mean is large.
    """
    n, d = rows.shape
    n_labelled, q = Y.shape
    weight = smoothness / n**2
    mean, y_mean = np.zeros(d), np.zeros(q)
    if fit_intercept:
        known = np.zeros(n)
        known[index] = 1
        mean, y_mean = Weighted(rows, known).mean() * (n / n_labelled), Y.mean(axis=0)
        rows = Centered(rows, mean)
    tol = max(tol, 100 * float(np.finfo(rows.dtype).eps))

    def operator(V: np.ndarray) -> np.ndarray:
        out = np.empty((d, V.shape[1]))
        for start in range(0, V.shape[1], _COLUMNS):
            here = slice(start, start + _COLUMNS)
            Z = rows.get(rows @ V[:, here]).astype(np.float64, copy=False)  # (n, q), labelled rows centred
            T, pull = np.zeros_like(Z), np.zeros(())
            if weight:
                T = weight * (L @ (Z if flat else Z + mean @ V[:, here]))
                pull = pull if flat else np.outer(mean, T.sum(axis=0))
            T[index] += Z[index] / n_labelled
            out[:, here] = rows.t(T) + pull
        return out

    T = np.zeros((n, q))
    T[index] = (Y - y_mean) / n_labelled
    B = rows.t(T)
    norms = np.linalg.norm(B, axis=0)
    # Plain iterations first: they suffice if the ridge is large or the columns have similar scales.
    W, rest, n_iter, residual, sketch = np.zeros_like(B), B, 0, np.inf, None
    for round_ in range(_ROUNDS + 1):
        found = preconditioned_cg(
            operator,
            B,
            ridge,
            sketch,
            rest=rest,
            tol=tol / 2,
            max_iter=max_iter - n_iter,
            callback=None if callback is None else partial(_later, callback, n_iter),
            patience=np.inf if round_ else 30.0,
        )
        W, n_iter = W + found.X, n_iter + found.n_iter
        rest = B - operator(W) - ridge * W
        before, residual = (
            residual,
            float((np.linalg.norm(rest, axis=0) / np.where(norms > 0, norms, 1.0)).max(initial=0.0)),
        )
        if residual <= tol or n_iter >= max_iter or (round_ > 1 and residual > before / 2):
            break
        if sketch is None:
            sketch = nystrom_sketch(operator, d, d if d <= _WHOLE else min(d, _SKETCH + q), rng)
    if residual > tol:
        warn_user(
            f"LapRLS stopped after {n_iter} iterations with a relative residual of {residual:.1e}, short of "
            f"tol={tol:.1e}; raise max_iter, tol or ridge",
            ConvergenceWarning,
        )
    return Smooth(W, y_mean - mean @ W, n_iter, residual, mean)


def deformed_columns(K: np.ndarray, L: Any, index: np.ndarray, ridge: float, smoothness: float) -> np.ndarray:
    r"""Return A (n, m) such that K A are the columns ``index`` of the kernel that results from K and the graph.

    Over the n rows this deformed kernel is
    :math:`(r K^{-1} + s/n^2 \mathcal{L})^{-1} = K (r I + s/n^2 \mathcal{L} K)^{-1}`, and least squares that is smooth
    over the graph is ridge regression with it. It depends neither on y nor on which rows are labelled. Raises
    LinAlgError if the ridge is lost to round-off beside the graph term.
    """
    n = len(K)
    A = np.zeros((n, len(index)))
    A[index, np.arange(len(index))] = 1.0
    if not smoothness:
        return A / ridge
    M = np.asarray(L @ K)
    M *= smoothness / n**2
    M.flat[:: n + 1] += ridge
    # LAPACK factors the transpose in place.
    norm = linalg.lapack.dlange("1", M.T)
    LU, pivots, failed = linalg.lapack.dgetrf(M.T, overwrite_a=1)
    if failed or linalg.lapack.dgecon(LU, norm)[0] < _least_rcond(n):
        raise linalg.LinAlgError("the ridge is lost beside the graph's term")
    return linalg.lu_solve((LU, pivots), A, trans=1, overwrite_b=True, check_finite=False)


def solve_deformed(
    H: np.ndarray, Y: np.ndarray, *, fit_intercept: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return S (l, q) and b (q,) of ridge regression with the deformed kernel: g = H_{.L} S, Y - H S - b = l S.

    Raises LinAlgError if l is lost to round-off beside H.
    """
    n_labelled, q = Y.shape
    H = (H + H.T) / 2
    C, Yc = H, Y
    if fit_intercept:
        C = H - H.mean(axis=0)
        C -= C.mean(axis=1, keepdims=True)
        Yc = Y - Y.mean(axis=0)
    C = C + n_labelled * np.eye(n_labelled)
    norm = linalg.lapack.dlange("1", C)
    U, failed = linalg.lapack.dpotrf(C, overwrite_a=1)
    if failed or linalg.lapack.dpocon(U, norm)[0] < _least_rcond(n_labelled):
        raise linalg.LinAlgError("the labels are lost beside the kernel")
    S = linalg.lapack.dpotrs(U, Yc)[0]
    if not fit_intercept:
        return S, np.zeros(q)
    S -= S.mean(axis=0)
    return S, (Y - H @ S).mean(axis=0)


def solve_kernel(
    K: np.ndarray,
    L: Any,
    index: np.ndarray,
    Y: np.ndarray,
    *,
    ridge: float,
    smoothness: float,
    fit_intercept: bool = True,
) -> Smooth:
    """Solve over the kernel matrix K of all n rows; g(x) = k(x)'W with W (n, q)."""
    try:
        A = deformed_columns(K, L, index, ridge, smoothness)
        S, b = solve_deformed(K[index] @ A, Y, fit_intercept=fit_intercept)
    except linalg.LinAlgError:
        return solve_spectrum(K, L, index, Y, ridge, smoothness, fit_intercept)
    return Smooth(A @ S, b, 1, 0.0)


def solve_spectrum(
    K: np.ndarray,
    L: Any,
    index: np.ndarray,
    Y: np.ndarray,
    ridge: float,
    smoothness: float,
    fit_intercept: bool,
) -> Smooth:
    """Solve the same problem as `solve_kernel` by eigenvalues: slower, but stable for any scale of the kernel."""
    n = len(K)
    values, U = np.linalg.eigh((K + K.T) / 2)
    keep = values > n * EPS * values[-1]
    root, U = np.sqrt(values[keep]), U[:, keep]
    F = U * root  # K = F F', so that g(x_i) = f_i'v and its norm is that of v
    B = F.T @ (L @ F) * (smoothness / n**2) if smoothness else np.zeros((len(root), len(root)))
    b, V = np.linalg.eigh((B + B.T) / 2)
    least = n * EPS * b.max(initial=0.0)  # smaller values are round-off
    V = V / np.sqrt(ridge + np.maximum(b, least))  # both penalties of g = F V c add up to |c|^2
    X = (F @ V)[index]
    x_mean, y_mean = (X.mean(axis=0), Y.mean(axis=0)) if fit_intercept else (0.0, np.zeros(Y.shape[1]))
    P, s, Qt = np.linalg.svd(X - x_mean, full_matrices=False)
    C = Qt.T @ ((s / (s**2 + len(Y)))[:, None] * (P.T @ (Y - y_mean)))
    return Smooth(U / root @ (V @ C), y_mean - x_mean @ C if fit_intercept else y_mean, 1, 0.0)


def _least_rcond(n: int) -> float:
    """Return the reciprocal condition below which a factor of an n x n matrix is not trusted."""
    return 10 * n * EPS


def _later(callback: Callable[..., Any], done: int, i: int, value: float) -> None:
    """Call back with the count of iterations continued."""
    callback(done + i, value)
