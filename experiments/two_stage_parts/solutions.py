"""Reference solutions for the directions: from the paper's definitions, dense and simple."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse.linalg import LinearOperator, eigsh, lsqr as scipy_lsqr


def targets(technique: str, y: np.ndarray) -> np.ndarray:
    """Return H of section 2 (n, q), from the definitions, without code of the library."""
    Y = y.astype(np.float64) if y.ndim == 2 else (y[:, None] == np.unique(y)).astype(np.float64)
    Y = Y[:, Y.any(axis=0)]
    members = Y.sum(axis=0)
    if technique == "LDA":
        return Y / np.sqrt(members)
    if technique == "OPLS":
        return Y - Y.mean(axis=0)
    if technique == "CCA":  # Yc (Yc'Yc)^(-1/2) up to a rotation, which does not change S = HH'
        U, sigma, _ = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
        return U[:, sigma > 1e-10 * sigma[0]]
    degree = {"HSL-Clique": Y @ members, "HSL-Star": (Y / members).sum(axis=1), "HSL-Zhou": Y.sum(axis=1)}
    edge = {"HSL-Clique": 1.0, "HSL-Star": members, "HSL-Zhou": np.sqrt(members)}
    d = degree[technique][:, None]
    return np.divide(Y / edge[technique], np.sqrt(d), out=np.zeros_like(Y), where=d > 0)


class Spectrum:
    """X_c = U diag(sigma) V', and the directions of theorem 4 from it.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.
    """

    def __init__(self, X: np.ndarray) -> None:
        U, sigma, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        rank = int((sigma > max(X.shape) * np.finfo(float).eps * sigma[0]).sum())
        self.U, self.sigma, self.V = U[:, :rank], sigma[:rank], Vt[:rank].T

    def directions(self, H: np.ndarray, ridge: float) -> np.ndarray:
        """Return W0 (d, k), eq. 37."""
        damped = np.sqrt(self.sigma**2 + ridge)
        P, root, _ = np.linalg.svd((self.sigma / damped)[:, None] * (self.U.T @ H), full_matrices=False)
        keep = root**2 > 1e-11 * root[0] ** 2
        return self.V @ (P[:, keep] / damped[:, None])


def distance(W: np.ndarray, W0: np.ndarray) -> tuple[float, float]:
    """Return ||WW' - W0W0'||_2 and ||W0W0'||_2, from the small factors, without a d x d matrix."""
    R = np.linalg.qr(np.hstack([W, W0]), mode="r")
    A, B = R[:, : W.shape[1]], R[:, W.shape[1] :]
    return float(np.abs(np.linalg.eigvalsh(A @ A.T - B @ B.T)).max()), float(np.linalg.norm(W0, 2) ** 2)


def lanczos(X: sparse.csr_array, H: np.ndarray, ridge: float) -> np.ndarray:
    """Return W0 (d, k) as in section 5.3: factor X_c'X_c + g I, then Lanczos on a symmetric problem."""
    n, mean = X.shape[0], X.mean(axis=0)
    G = (X.T @ X).toarray()
    G -= n * np.outer(mean, mean)
    G[np.diag_indices_from(G)] += ridge
    L = cholesky(G, lower=True, overwrite_a=True, check_finite=False)
    F = solve_triangular(L, X.T @ (H - H.mean(axis=0)), lower=True, check_finite=False)
    operator = LinearOperator((len(L), len(L)), matvec=lambda v: F @ (F.T @ v), dtype=np.float64)
    k = int(np.linalg.matrix_rank(F))
    Q = eigsh(operator, k=k)[1]
    return solve_triangular(L, Q, lower=True, trans="T", check_finite=False)


def lsqr(X: sparse.csr_array, H: np.ndarray, ridge: float, tol: float = 1e-8) -> tuple[np.ndarray, int]:
    """Return W (d, k) as the paper's two stages do, and the most iterations of a target.

    Stage 1 is LSQR on the centred X, one target of H at a time; stage 2 the small eigenproblem.
    """
    n, mean, Xt = X.shape[0], X.mean(axis=0), X.T.tocsr()
    centred = LinearOperator(
        X.shape,
        matvec=lambda v: X @ v - mean @ v,
        rmatvec=lambda u: Xt @ u - mean * u.sum(),
        dtype=np.float64,
    )
    T = H - H.mean(axis=0)
    fits = [scipy_lsqr(centred, t, damp=np.sqrt(ridge), atol=tol, btol=tol, iter_lim=10 * n) for t in T.T]
    W1 = np.column_stack([fit[0] for fit in fits])
    values, E = np.linalg.eigh(W1.T @ (Xt @ T))
    keep = values > 1e-11 * values[-1]
    return W1 @ (E[:, keep] / np.sqrt(values[keep])), max(fit[2] for fit in fits)
