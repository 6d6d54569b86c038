"""Largest eigenvalues of a matrix given by its products, and singular values of rows, by a block Krylov method."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from labelfold.numerics._block_cg import Operator
from labelfold.rows import Block, Rows, single_blas
from labelfold.utils import warn_user

# Budget of memory: the basis grows to this many times the width of a block, and is then reduced to its best vectors.
_MAX_BLOCKS = 4
# Precision: a combination of unit columns is round-off if its squared norm is below this.
_DEPENDENT = 1e-12
# Precision: the minimum attainable residual, in units of round-off.
_ROUND_OFF = 10
# Budget: up to this many multiplications, d q^2 for blocks of q columns, BLAS uses one thread between passes. A
# second thread would save milliseconds, and would keep a core busy at the start of the next pass.
_ONE_THREAD = 3e7


class Eigen(NamedTuple):
    """Eigenvalues and eigenvectors at the end of an iteration.

    Attributes
    ----------
    values : ndarray of shape (m,)
        The largest eigenvalues, descending: the k requested ones, to tolerance, and some further approximate ones;
        fewer if A has fewer.
    vectors : ndarray of shape (d, m)
        Eigenvectors, orthonormal columns.
    norm : float
        The largest magnitude of an approximate eigenvalue, at either end of the spectrum.
    residual : float
        Largest ``||A v - t v||``, relative to t, of the first k.
    n_iter : int
        Number of iterations, with one product with A each.
    converged : bool
        Whether the residual reached ``tol``, or the limit set by round-off.
    """

    values: np.ndarray
    vectors: np.ndarray
    norm: float
    residual: float
    n_iter: int
    converged: bool


def largest_eigenvectors(
    operator: Operator,
    Q: np.ndarray,
    k: int,
    *,
    tol: float,
    eps: float,
    max_iter: int,
    block: int | None = None,
    callback: Callable[[int, float], Any] | None = None,
) -> Eigen:
    """Return the algebraically largest eigenvalues of a symmetric A, and their eigenvectors.

    A block is multiplied by A repeatedly. The best vectors in the span of all products so far (Rayleigh-Ritz) are the
    result when their residuals are small. After a few blocks the basis is reduced to its best vectors and those of
    the previous iteration, which keep most of the information (as in LOBPCG), so memory stays O(d) times the width of
    a block. A may be indefinite. The vectors stay in the smallest invariant subspace that contains Q.

    Parameters
    ----------
    operator : callable
        Returns A @ P for a (d, q) block P.
    Q : ndarray of shape (d, width)
        The first block: random, not zero. Columns beyond k speed up the convergence of the last of the k.
    k : int
        Number of eigenvalues to compute to tolerance, at most width.
    tol : float
        Stop when ``||A v - t v|| <= tol |t|`` for each of the k, or at the limit set by round-off.
    eps : float
        Round-off of a product with A, relative to the norm of A.
    max_iter : int
        Maximum number of products with A.
    block : int, optional
        Maximum number of columns of a product after the first; as many as Q has when None. With fewer columns a
        product costs less, with more there are fewer products.
    callback : callable, optional
        Called with the iteration and the residual.

    Returns
    -------
    Eigen

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([3.0, 1.0, 0.0, -5.0])
    >>> Q = np.random.default_rng(0).standard_normal((4, 2))
    >>> largest_eigenvectors(lambda P: A @ P, Q, 2, tol=1e-8, eps=1e-16, max_iter=10).values.round(6)
    array([3., 1.])
    """
    d, width = Q.shape
    n_kept = width if block is None else max(k, block)
    capacity = min(d, _MAX_BLOCKS * width)
    V, AV = (np.empty((d, capacity), order="F") for _ in range(2))
    T = np.empty((0, 0))  # V'AV
    before = np.empty((0, 0))  # the best vectors of the previous iteration, in the basis V
    n_iter = 0
    while True:
        n_iter += 1
        old = len(T)
        Q = orthonormal(Q, V[:, :old])
        m = old + Q.shape[1]
        V[:, old:m] = Q
        AV[:, old:m] = operator(Q)
        C = V[:, :m].T @ AV[:, old:m]
        T = np.block([[T, C[:old]], [C[:old].T, (C[old:] + C[old:].T) / 2]])
        theta, Y = np.linalg.eigh(T)
        norm = float(np.abs(theta).max())
        theta, Y = theta[::-1][:width], Y[:, ::-1][:, :width]
        vectors, R = V[:, :m] @ Y[:, :n_kept], AV[:, :m] @ Y[:, :n_kept]
        R -= vectors * theta[:n_kept]
        norms = np.linalg.norm(R, axis=0)
        goals = np.maximum(tol * np.abs(theta[:n_kept]), _ROUND_OFF * eps * norm)
        residual = float((tol * norms[:k] / np.where(goals[:k] > 0, goals[:k], 1.0)).max())
        stopped = callback is not None and callback(n_iter, residual)
        is_done = (norms[:k] <= goals[:k]).all() or m in (old, d)
        if is_done or stopped or n_iter == max_iter:
            return Eigen(theta[:n_kept], vectors, norm, residual, n_iter, bool(is_done))
        # The residuals that have not converged span what the next product would add to the Krylov space.
        pending = np.flatnonzero(norms > goals)[:block]
        Q = R[:, pending] / norms[pending]
        if m + Q.shape[1] > capacity:
            before = np.vstack([before, np.zeros((m - len(before), before.shape[1]))])
            C = np.hstack([Y, orthonormal(before, Y)])
            kept = slice(C.shape[1])
            V[:, kept], AV[:, kept] = V[:, :m] @ C, AV[:, :m] @ C
            T = C.T @ T @ C
            T, Y = (T + T.T) / 2, np.eye(C.shape[1], Y.shape[1])
        before = Y


def orthonormal(Q: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the part of Q that is orthogonal to the orthonormal V.

    It uses the eigenvectors of Q'Q, which needs only matrix products (Stathopoulos & Wu 2002). Directions that are
    negligible beside the others, or round-off of Q, are dropped. Columns that are nearly dependent, or nearly in the
    span of V, are projected twice, which is enough.
    """
    norms = np.linalg.norm(Q, axis=0)
    for _ in range(2):
        Q = Q - V @ (V.T @ Q)
        C = whitening(Q.T @ Q, norms)
        Q = Q @ C
        # C may at most double the squared round-off of Q, in the mean over its columns; otherwise this is repeated.
        if np.square(norms[:, None] * C).sum() < 2 * C.shape[1]:
            break
        norms = np.ones(Q.shape[1])
    return Q[:, : len(V) - V.shape[1]]


def whitening(G: np.ndarray, norms: np.ndarray, noise: float = 1e-14) -> np.ndarray:
    """Return C (k, m) with C'GC = I, where G (k, k) are inner products of vectors whose ``norms`` were once larger.

    Vectors that are shorter than ``noise`` times these norms, and negligible combinations, are dropped as round-off.
    """
    size = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > noise * norms)
    if len(G) == 1:
        return scale[:, None][:, scale > 0]
    values, Y = np.linalg.eigh(G * np.outer(scale, scale))
    keep = values > _DEPENDENT
    return scale[:, None] * (Y[:, keep] / np.sqrt(values[keep]))[:, ::-1]


def signed(V: np.ndarray) -> np.ndarray:
    """Return the columns with signs such that the largest entry of each, by magnitude, is positive."""
    signs = np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])
    return V * signs


class SVD(NamedTuple):
    """A truncated singular value decomposition X = U diag(s) Vt.

    Attributes
    ----------
    U : array of shape (n, k)
        Left singular vectors, times s to the ``power`` asked for, in the dtype of X, stored with the rows
        (``rows.get`` copies them to the host).
    s : ndarray of shape (k,)
        Singular values, descending.
    Vt : ndarray of shape (k, d)
        Right singular vectors; the largest entry of each, by magnitude, is positive.
    residual : float
        Largest ``||X'X v - s^2 v||``, relative to s^2, of the requested vectors (before the final correction of their
        last digits).
    n_iter : int
        Number of iterations.
    n_passes : int
        Number of passes over X, including those for U.
    converged : bool
        Whether the residual reached ``tol``.
    """

    U: Any
    s: np.ndarray
    Vt: np.ndarray
    residual: float
    n_iter: int
    n_passes: int
    converged: bool


def randomized_svd(
    rows: Rows,
    n_components: int,
    *,
    n_oversamples: int = 10,
    max_iter: int = 100,
    tol: float = 1e-8,
    random_state: Any = 0,
    power: float = 0.0,
) -> SVD:
    r"""Return the leading singular values and vectors of the rows.

    A random block Q is multiplied by X'X repeatedly, in one pass over X each. The best vectors in the span of all
    products so far (Rayleigh-Ritz) are the result when their residuals are small. After a few blocks the basis is
    reduced to its best vectors (a thick restart), so memory stays :math:`O(k (n + d))`.

    Parameters
    ----------
    rows : Rows
        n rows of d columns; a `Centered` view for principal components.
    n_components : int
        Number k of components. If X has a smaller rank, fewer are found, with a warning.
    n_oversamples : int
        Further columns of the block, which speed up the convergence of the last of the k.
    max_iter : int
        Maximum number of iterations; each reads X once.
    tol : float
        Stop when :math:`\|X'X v - s^2 v\| \le tol\, s^2` for each of the k vectors, or at the limit set by round-off.
        The relative error of the singular values is then about the square of that.
    random_state : int, Generator or None
        Seed of the first block. It is drawn on the host, so that every container starts with the same block.
    power : float
        U is multiplied by s to this power, without a further pass.

    Returns
    -------
    SVD

    Notes
    -----
    Products with X'X alone would lose singular values below the square root of round-off, relative to the largest. If
    the k-th value is near that, at most four further passes work on X itself (Golub-Kahan steps). Values are then
    accurate to round-off relative to the largest.

    References
    ----------
    C. Musco, C. Musco. Randomized block Krylov methods for stronger and faster approximate singular value
    decomposition. NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.numerics import randomized_svd
    >>> from labelfold.rows import as_rows
    >>> X = np.array([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    >>> found = randomized_svd(as_rows(X), 2)
    >>> found.s.round(6)
    array([3., 2.])
    >>> np.abs(found.Vt.round(6))
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    n, d = rows.shape
    if n_components < 1:
        raise ValueError(f"n_components={n_components}, where at least 1 is expected")
    before = rows.n_passes
    k = min(n_components, n, d)
    eps = float(np.finfo(rows.dtype).eps)
    Q = np.random.default_rng(random_state).standard_normal((d, min(k + n_oversamples, n, d)))

    def gram(P: np.ndarray) -> np.ndarray:
        return rows.sum(_normal, shared=(P,))

    with single_blas() if d * Q.shape[1] ** 2 < _ONE_THREAD else nullcontext():
        theta, V, _, residual, n_iter, converged = largest_eigenvectors(
            gram, Q, k, tol=tol, eps=eps, max_iter=max_iter
        )
    s = np.sqrt(np.maximum(theta, 0.0))
    if theta[k - 1] < eps ** (1 / 3) * theta[0]:
        s, V = _recovered(rows, s, V, eps)
    tiny = 10 * np.sqrt(max(n, d)) * eps * s[0]
    rank = int((s[:k] > tiny).sum())
    if rank < n_components:
        warn_user(
            f"n_components={n_components} is more than the rank of X, {rank}; "
            f"{rank} component{'s are' if rank != 1 else ' is'} kept",
            UserWarning,
        )
    if not converged:
        warn_user(
            f"the singular value decomposition stopped after {n_iter} iterations with a relative residual of "
            f"{residual:.1e}, short of tol={tol:.1e}; raise max_iter, tol or n_oversamples",
            ConvergenceWarning,
        )
    s, V = s[:rank], signed(V[:, :rank])
    U = _left_vectors(rows, s, V, eps, power)
    Vt = np.ascontiguousarray(V.T)
    return SVD(U, s, Vt, residual, n_iter, rows.n_passes - before, converged)


def row_side_svd(
    rows: Rows, n_components: int, *, tol: float, max_iter: int, random_state: Any, n_oversamples: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest squared singular values (k,) and right vectors (d, k), by products with XX'.

    For sparse rows that are fewer than the columns. Except for two products with X, an iteration works on vectors of
    length n: `LabelFold().fit` on ``documents(6000, 47236, 20)`` of `benchmarks/_common.py` takes 6 s, and 16 s with
    `randomized_svd`. Values that are lost in round-off are left out.
    """
    n, eps = rows.shape[0], float(np.finfo(rows.dtype).eps)
    Q = np.random.default_rng(random_state).standard_normal((n, min(n_components + n_oversamples, n)))

    def outer(P: np.ndarray) -> np.ndarray:
        return rows.get(rows @ rows.t(P)).astype(float)

    found = largest_eigenvectors(outer, Q, n_components, tol=tol, eps=eps, max_iter=max_iter)
    values, U = found.values[:n_components], found.vectors[:, :n_components]
    keep = values > 10 * n * eps * values[0]
    return values[keep], rows.t(U[:, keep]) / np.sqrt(values[keep])


def _normal(X: Block, Q: Any) -> Any:
    return X.normal(Q)


def _recovered(rows: Rows, s: np.ndarray, V: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return singular values and right vectors, with the digits that X'X has lost recomputed.

    The columns of H = X V / s are nearly orthonormal, even for small s. Their orthonormal basis W loses no digits,
    and X'W has the singular values of X.
    """
    for _ in range(4):
        s = np.maximum(s, eps * s[0])
        G, XtH = rows.sum(_scores_and_back, shared=(V / s,))
        scale = 1 / np.sqrt(np.maximum(np.diagonal(G), np.finfo(np.float64).tiny))
        values, Y = np.linalg.eigh(G * np.outer(scale, scale))
        keep = values > _ROUND_OFF * len(G) * eps
        to_W = scale[:, None] * Y[:, keep] / np.sqrt(values[keep])
        V, s, _ = np.linalg.svd(XtH @ to_W, full_matrices=False)
        if np.abs(G - np.eye(len(G))).max() < 1e-3:
            break
    return s, V


def _scores_and_back(X: Block, M: Any) -> tuple[Any, Any]:
    H = X @ M
    return H.T @ H, X.t(H)


def _left_vectors(rows: Rows, s: np.ndarray, V: np.ndarray, eps: float, power: float) -> Any:
    """Return X V / s with orthonormal columns, times s to a power, stored with the rows."""
    scale = s**power
    U, G = rows.sweep(_scores, shared=(V / s * scale,))
    G /= np.outer(scale, scale)
    if np.abs(G - np.eye(len(G))).max(initial=0.0) <= 1e4 * eps:
        return U
    # A small s magnifies round-off, so each column is made orthogonal to those of larger values, which stay
    # unchanged.
    R = linalg.cholesky(G)
    return rows.map(_times, U, shared=(linalg.solve_triangular(R, np.diag(scale)) / scale[:, None],))


def _scores(X: Block, M: Any) -> tuple[Any, Any]:
    U = X @ M
    return U, U.T @ U


def _times(X: Block, U: Any, M: Any) -> Any:
    return U @ M
