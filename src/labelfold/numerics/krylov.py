"""Block conjugate gradients, and a preconditioner from a random sketch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

Operator = Callable[[np.ndarray], np.ndarray]

# Over so many iterations is the rate of convergence judged: fewer would take a plateau for the end.
_WINDOW = 5


class BlockCG(NamedTuple):
    """What block conjugate gradients reached."""

    X: np.ndarray
    residual: float
    n_iter: int
    converged: bool


def block_cg(
    operator: Operator,
    B: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], None] | None = None,
    norms: np.ndarray | None = None,
    patience: float = math.inf,
) -> BlockCG:
    """Solve A X = B for a symmetric positive semi-definite A and all right-hand sides at once.

    One Krylov space serves every column. The residual block is kept orthonormal (Dubrulle's variant), so
    columns that converge early do no harm. Started from zero, X stays in the range of A: where A is
    singular and B in its range, X is the solution of least norm.

    Parameters
    ----------
    operator : callable
        Returns A @ P for a (d, q) block P.
    B : ndarray of shape (d, q)
        The right-hand sides.
    tol : float
        Stop when every column's residual is below ``tol`` times its right-hand side's norm.
    max_iter : int
        The most products with A.
    callback : callable, optional
        Called with the iteration and the largest relative residual.
    norms : ndarray of shape (q,), optional
        What residuals are measured against, where that is not the norms of B's columns.
    patience : float
        Stop also once the last iterations let expect that more than so many are still needed.

    Returns
    -------
    BlockCG
        With the largest relative residual of a column, as the recurrence has it.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> block_cg(lambda P: A @ P, np.ones((3, 1)), tol=1e-12, max_iter=5).X.ravel()
    array([1.  , 0.5 , 0.25])
    """
    norms = np.linalg.norm(B, axis=0) if norms is None else norms
    norms = np.where(norms > 0, norms, 1.0)

    def relative(C: np.ndarray) -> float:
        return float((np.linalg.norm(C, axis=0) / norms).max(initial=0.0))

    X = np.zeros_like(B)
    Q, C = thin_qr(B)  # the residual is Q C throughout
    P = Q
    residuals = [relative(C)]
    while tol < residuals[-1] < math.inf and len(residuals) <= max_iter:
        if expected_iterations(residuals, tol) > patience:
            break
        AP = operator(P)
        step = _psd_inverse(P.T @ AP)
        X += P @ (step @ C)
        Q, Z = thin_qr(Q - AP @ step)
        C = Z @ C
        P = Q + P @ Z.T
        residuals.append(relative(C))
        if callback is not None:
            callback(len(residuals) - 1, residuals[-1])
    return BlockCG(X, residuals[-1], len(residuals) - 1, residuals[-1] <= tol)


def expected_iterations(residuals: Sequence[float], tol: float) -> float:
    """Return how many more iterations the rate of the last few lets expect; 0 while that is too early to say."""
    if len(residuals) <= _WINDOW:
        return 0.0
    fallen = math.log(residuals[-1 - _WINDOW] / residuals[-1]) / _WINDOW
    return math.log(residuals[-1] / tol) / fallen if fallen > 0 else math.inf


def thin_qr(B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal Q and a square R with B = Q R, for a tall B.

    Cholesky QR: matrix products instead of Householder's column-by-column work. A second round where the first
    leaves fewer than eleven digits; Householder's where B is too ill-conditioned for that.
    """
    Q, R = B, np.eye(B.shape[1])
    for _ in range(2):
        try:
            L = np.linalg.cholesky(Q.T @ Q)
        except np.linalg.LinAlgError:
            return np.linalg.qr(B)
        Q = Q @ linalg.lapack.dtrtri(L, lower=1)[0].T
        R = L.T @ R
        if len(L) and _rcond(L) ** 2 > 1e11 * np.finfo(B.dtype).eps:
            return Q, R
    # The second factor of a well-conditioned B is the identity but for round-off.
    if np.abs(L - np.eye(len(L))).max(initial=0.0) > 1e-2:
        return np.linalg.qr(B)
    return Q, R


def _rcond(L: np.ndarray) -> float:
    """Return the reciprocal condition of a lower triangular matrix, roughly."""
    return linalg.lapack.dtrcon(L, uplo="L")[0]


def _psd_inverse(A: np.ndarray) -> np.ndarray:
    """Return the inverse of a small symmetric matrix, without the directions in which it is round-off alone.

    Such are columns that have converged, or depend on others: outside the range of a singular operator.
    """
    A = (A + A.T) / 2
    noise = 100 * len(A) * np.finfo(A.dtype).eps
    L, failed = linalg.lapack.dpotrf(A, lower=1)
    if not failed and len(A) and linalg.lapack.dpocon(L, np.abs(A).sum(axis=0).max(), uplo="L")[0] > noise:
        return linalg.cho_solve((L, True), np.eye(len(A)), check_finite=False)
    values, vectors = np.linalg.eigh(A)
    keep = values > values.max(initial=0.0) * noise
    return (vectors[:, keep] / values[keep]) @ vectors[:, keep].T


class Sketch(NamedTuple):
    """Leading eigenvalues and vectors of A, roughly: from one product with a random block."""

    U: np.ndarray
    eigenvalues: np.ndarray

    def half(self, ridge: float) -> Operator:
        """Return P^(-1/2), where P is A + ridge I in the directions U and flat across them."""
        least = self.eigenvalues.min(initial=np.inf) if len(self.eigenvalues) else 1.0
        scale = np.sqrt((least + ridge) / (self.eigenvalues + ridge))[:, None]

        def apply(V: np.ndarray) -> np.ndarray:
            return V + self.U @ ((scale - 1) * (self.U.T @ V))

        return apply


def nystrom_sketch(operator: Operator, n: int, rank: int, rng: Any) -> Sketch:
    """Return a randomised Nystroem approximation of A (n x n) for a preconditioner (Frangella, Tropp & Udell 2023).

    Its directions lie in A's range, so that preconditioned solutions of least norm stay such.
    """
    omega, _ = thin_qr(rng.standard_normal(size=(n, rank)))
    Y = operator(omega)
    eps = np.finfo(Y.dtype).eps
    # A tiny shift keeps the square root real; it is taken off the eigenvalues again.
    shift = np.sqrt(n) * eps * np.linalg.norm(Y)
    core = omega.T @ Y
    values, vectors = np.linalg.eigh((core + core.T) / 2 + shift * np.eye(rank))
    half = (Y + shift * omega) @ (vectors / np.sqrt(np.maximum(values, shift)))
    # The eigenvectors of half half' from those of the small half'half.
    squares, turn = np.linalg.eigh(half.T @ half)
    keep = squares - shift > rank * np.sqrt(eps) * squares[-1]
    U, _ = thin_qr(half @ (turn[:, keep] / np.sqrt(squares[keep])))
    return Sketch(U, squares[keep] - shift)


def preconditioned_cg(
    operator: Operator,
    B: np.ndarray,
    ridge: float,
    sketch: Sketch | None = None,
    *,
    start: np.ndarray | None = None,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], None] | None = None,
    patience: float = math.inf,
) -> BlockCG:
    """Solve (A + ridge I) X = B, preconditioned by a sketch of A, from ``start``, where these are given."""
    half = _same if sketch is None else sketch.half(ridge)

    def shifted(P: np.ndarray) -> np.ndarray:
        V = half(P)
        return half(operator(V) + ridge * V)

    norms = np.linalg.norm(half(B), axis=0)
    norms = np.maximum(norms, small(tol) * norms.max(initial=0.0))
    rest = B if start is None else B - operator(start) - ridge * start
    answer = block_cg(
        shifted, half(rest), tol=tol, max_iter=max_iter, callback=callback, norms=norms, patience=patience
    )
    X = half(answer.X)
    return answer._replace(X=X if start is None else start + X)


def small(tol: float) -> float:
    """Return the share of the largest right-hand side below which one is measured against that share.

    It may be round-off alone, and a residual of ``tol`` times that is nothing to be had.
    """
    return max(1e-6, 100 * float(np.finfo(np.float64).eps) / tol)


def _same(V: np.ndarray) -> np.ndarray:
    return V
