"""Block conjugate gradients, and a preconditioner from a random sketch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

Operator = Callable[[np.ndarray], np.ndarray]


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
    norms = np.linalg.norm(B, axis=0)
    norms[norms == 0] = 1.0
    X = np.zeros_like(B)
    Q, C = thin_qr(B)  # the residual is Q C throughout
    P = Q
    residual = float((np.linalg.norm(C, axis=0) / norms).max(initial=0.0))
    n_iter = 0
    while residual > tol and n_iter < max_iter:
        n_iter += 1
        AP = operator(P)
        step = _psd_solve(P.T @ AP, np.eye(P.shape[1]))
        X += P @ (step @ C)
        Q, Z = thin_qr(Q - AP @ step)
        C = Z @ C
        P = Q + P @ Z.T
        residual = float((np.linalg.norm(C, axis=0) / norms).max(initial=0.0))
        if callback is not None:
            callback(n_iter, residual)
    return BlockCG(X, residual, n_iter, residual <= tol)


def thin_qr(B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal Q and a square R with B = Q R, for a tall B.

    Two rounds of Cholesky QR: matrix products instead of Householder's column-by-column work. Where B is too
    ill-conditioned for that, Householder's.
    """
    Q, R = B, np.eye(B.shape[1])
    for _ in range(2):
        try:
            L = np.linalg.cholesky(Q.T @ Q)
        except np.linalg.LinAlgError:
            return np.linalg.qr(B)
        Q = linalg.solve_triangular(L, Q.T, lower=True, check_finite=False).T
        R = L.T @ R
    # The second factor of a well-conditioned B is the identity but for round-off.
    if np.abs(L - np.eye(len(L))).max(initial=0.0) > 1e-2:
        return np.linalg.qr(B)
    return Q, R


def _psd_solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Solve with a small symmetric matrix that may have become singular."""
    A = (A + A.T) / 2
    try:
        return linalg.cho_solve(linalg.cho_factor(A, check_finite=False), B, check_finite=False)
    except linalg.LinAlgError:
        values, vectors = np.linalg.eigh(A)
        keep = values > values[-1] * len(values) * np.finfo(A.dtype).eps
        return vectors[:, keep] @ ((vectors[:, keep].T @ B) / values[keep, None])


class Sketch(NamedTuple):
    """P^(-1/2) of a Nystroem preconditioner: ``scale`` in the directions ``U``, 1 across them."""

    U: np.ndarray
    scale: np.ndarray

    def __call__(self, V: np.ndarray) -> np.ndarray:
        """Return P^(-1/2) V."""
        return V + self.U @ ((self.scale - 1)[:, None] * (self.U.T @ V))


def nystrom_preconditioner(operator: Operator, n_columns: int, rank: int, ridge: float, rng: Any) -> Sketch:
    """Return a preconditioner for A + ridge I that flattens A's leading eigenvalues, from one product with A.

    Randomised Nystroem approximation (Frangella, Tropp & Udell 2023). Its directions lie in A's range, so
    solutions of least norm stay such.
    """
    omega, _ = thin_qr(rng.standard_normal(size=(n_columns, rank)))
    Y = operator(omega)
    # A tiny shift keeps the Cholesky factor real; it is taken off the eigenvalues again.
    shift = np.sqrt(n_columns) * np.finfo(Y.dtype).eps * np.linalg.norm(Y, 2)
    core = omega.T @ Y
    core = (core + core.T) / 2 + shift * np.eye(rank)
    values, vectors = np.linalg.eigh(core)
    values = np.maximum(values, shift)
    U, sigma, _ = np.linalg.svd((Y + shift * omega) @ (vectors / np.sqrt(values)), full_matrices=False)
    eigenvalues = np.maximum(sigma**2 - shift, 0.0)
    keep = eigenvalues > rank * np.finfo(Y.dtype).eps * eigenvalues.max(initial=0.0)
    U, eigenvalues = U[:, keep], eigenvalues[keep]
    least = eigenvalues.min(initial=np.inf) if len(eigenvalues) else 1.0
    return Sketch(U, np.sqrt((least + ridge) / (eigenvalues + ridge)))
