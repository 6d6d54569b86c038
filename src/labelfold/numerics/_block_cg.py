"""Block conjugate gradients, for one ridge or several, and preconditioners of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from labelfold.numerics._gram import EPS
from labelfold.rows import add_product

Operator = Callable[[np.ndarray], np.ndarray]
# Number of iterations over which the rate of convergence is estimated: with fewer, a plateau looks like stagnation.
_WINDOW = 5
# Precision: orthogonality tolerance; steps are optimal to this relative error.
_ORTHONORMAL = 1e-2


class BlockCG(NamedTuple):
    """Result of block conjugate gradients."""

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
    callback: Callable[[int, float], Any] | None = None,
    norms: np.ndarray | None = None,
    patience: float = math.inf,
) -> BlockCG:
    """Solve A X = B for a symmetric positive semi-definite A and all right-hand sides at once.

    One Krylov space serves every column. The residual block is kept orthonormal (Dubrulle's variant), so columns that
    converge early do no harm. Started from zero, X stays in the range of A. If A is singular and B in its range, X is
    the solution of minimum norm.

    Parameters
    ----------
    operator : callable
        Returns A @ P for a (d, q) block P.
    B : ndarray of shape (d, q)
        The right-hand sides.
    tol : float
        Stop when the residual of every column is below ``tol`` times the norm of its right-hand side.
    max_iter : int
        Maximum number of products with A.
    callback : callable, optional
        Called with the iteration and the largest relative residual.
    norms : ndarray of shape (q,), optional
        Norms to which residuals are compared; by default those of B's columns.
    patience : float
        Also stop when the recent rate of convergence predicts more than this many further iterations.

    Returns
    -------
    BlockCG
        With the largest relative residual of a column, according to the recurrence.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> block_cg(lambda P: A @ P, np.ones((3, 1)), tol=1e-12, max_iter=5).X.ravel()
    array([1.  , 0.5 , 0.25])
    """
    norms = column_norms(B) if norms is None else norms
    norms = np.where(norms > 0, norms, 1.0)

    def relative(C: np.ndarray) -> float:
        return float((column_norms(C) / norms).max(initial=0.0))

    X = np.zeros(B.shape)
    # The residual is exactly Q C, also where the columns of Q are orthonormal only to the tolerance.
    Q, C = thin_qr(B, _ORTHONORMAL)
    P, spare = Q.copy(), np.empty_like(Q)
    residuals = [relative(C)]
    while tol < residuals[-1] < math.inf and len(residuals) <= max_iter:
        if expected_iterations(residuals, tol) > patience:
            break
        AP = operator(P)
        PAP = P.T @ AP
        if not np.isfinite(PAP).all():
            break
        step = psd_inverse(PAP)
        add_product(X, P, step @ C)
        add_product(Q, AP, -step)
        Q, Z = thin_qr(Q, _ORTHONORMAL)
        C = Z @ C
        np.copyto(spare, Q)
        add_product(spare, P, Z.T)
        P, spare = spare, P
        residuals.append(relative(C))
        if callback is not None and callback(len(residuals) - 1, residuals[-1]):
            break
    return BlockCG(X, residuals[-1], len(residuals) - 1, residuals[-1] <= tol)


def expected_iterations(residuals: Sequence[float], tol: float) -> float:
    """Return the expected number of further iterations, from the recent rate; 0 while it is too early to tell."""
    if len(residuals) <= _WINDOW:
        return 0.0
    fallen = math.log(residuals[-1 - _WINDOW] / residuals[-1]) / _WINDOW
    return math.log(residuals[-1] / tol) / fallen if fallen > 0 else math.inf


def thin_qr(B: np.ndarray, error: float = 1e-11) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal Q and a square R with B = Q R, for a tall B.

    Cholesky QR uses matrix products instead of Householder's column-by-column work. A second round follows if the
    first leaves an orthogonality error above ``error``. If B is too ill-conditioned, Householder's QR is used.
    """
    Q, R = np.array(B, dtype=np.float64, order="C"), np.eye(B.shape[1])
    if not B.shape[1]:  # LAPACK would print a message
        return Q, R
    for _ in range(2):
        try:
            L = np.linalg.cholesky(Q.T @ Q)
        except np.linalg.LinAlgError:
            return np.linalg.qr(B)
        Q = linalg.blas.dtrmm(1.0, linalg.lapack.dtrtri(L, lower=1)[0], Q.T, lower=1, overwrite_b=1).T
        R = L.T @ R
        if linalg.lapack.dtrcon(L, uplo="L")[0] ** 2 > EPS / error:
            return Q, R
    # The second factor of a well-conditioned B is the identity up to round-off.
    if np.abs(L - np.eye(len(L))).max(initial=0.0) > 1e-2:
        return np.linalg.qr(B)
    return Q, R


def psd_inverse(A: np.ndarray) -> np.ndarray:
    """Return the inverse of a small symmetric matrix, without directions in which it is only round-off.

    These belong to columns that have converged or depend on others.
    """
    noise = 100 * len(A) * EPS
    A = (A + A.T) / 2
    L, failed = linalg.lapack.dpotrf(A, lower=1)
    if not failed and len(A) and linalg.lapack.dpocon(L, np.abs(A).sum(axis=0).max(), uplo="L")[0] > noise:
        return linalg.cho_solve((L, True), np.eye(len(A)), check_finite=False)
    values, vectors = np.linalg.eigh(A)
    keep = values > values.max(initial=0.0) * noise
    return (vectors[:, keep] / values[keep]) @ vectors[:, keep].T


class _Shift:
    """The part of the recurrence of one ridge: its own directions and steps in the common space.

    For the block tridiagonal matrix T of the space (see `shifted_cg`), ``inverse`` is the inverse of the last pivot
    of T + shift I, and ``rest`` has the coordinates of the residual.
    """

    def __init__(self, shift: float, Q: np.ndarray, C: np.ndarray, norms: np.ndarray) -> None:
        self.shift, self.norms = shift, norms
        self.P, self.X, self.rest = Q, np.zeros_like(Q, shape=(len(Q), C.shape[1])), C
        self.inverse = np.zeros((len(C), len(C)))
        self.residuals = [self._relative()]

    def advance(self, diagonal: np.ndarray, below: np.ndarray) -> None:
        """Take the step for one more block row of T, which has ``below`` to the left of its diagonal block."""
        pivot = diagonal - below @ self.inverse @ below.T
        pivot[np.diag_indices_from(pivot)] += self.shift
        self.inverse = psd_inverse(pivot)
        self.X += self.P @ (self.inverse @ self.rest)

    def turn(self, Q: np.ndarray, below: np.ndarray) -> None:
        """Continue with the next block Q of the space."""
        self.rest = below @ (self.inverse @ self.rest)
        self.P = self.P @ (below @ self.inverse).T
        self.P += Q
        self.residuals.append(self._relative())

    def _relative(self) -> float:
        return float((column_norms(self.rest) / self.norms).max(initial=0.0))

    def answer(self, tol: float) -> BlockCG:
        """Return the result."""
        return BlockCG(self.X, self.residuals[-1], len(self.residuals) - 1, self.residuals[-1] <= tol)


def shifted_cg(
    operator: Operator,
    B: np.ndarray,
    ridges: Sequence[float],
    *,
    tol: float,
    max_iter: int,
    norms: np.ndarray | None = None,
    patience: float = math.inf,
    callback: Callable[[int, float], Any] | None = None,
) -> list[BlockCG]:
    r"""Solve (A + g I) X = B for several ridges g > 0 and all right-hand sides at once.

    A Krylov space does not change if a multiple of I is added to A. The iteration for the smallest ridge (`block_cg`:
    blocks Q_k, directions P_k, triangular Z_k) reduces A to a block tridiagonal matrix T,

    .. math:: A Q_k = -Q_{k-1} G_{k-1} Z_k' + Q_k (G_k + Z_k G_{k-1} Z_k') - Q_{k+1} Z_{k+1} G_k,
              \quad G_k = P_k' (A + g I) P_k,

    whose block LDL' factorisation, with any shift on the diagonal, is the iteration for another ridge. So an
    iteration costs one product with A, and two products with small matrices for each ridge that has not converged.

    Parameters
    ----------
    operator : callable
        Returns A @ P for a (d, q) block P.
    B : ndarray of shape (d, q)
        The right-hand sides.
    ridges : sequence of float
        The ridges.
    tol, max_iter, norms, callback
        As in `block_cg`; the callback gets the largest residual of the ridges that still iterate.
    patience : float
        A ridge is given up when its recent rate of convergence predicts more than this many further iterations.

    Returns
    -------
    list of BlockCG
        One for each ridge, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> answers = shifted_cg(lambda P: A @ P, np.ones((3, 1)), [1.0, 4.0], tol=1e-12, max_iter=5)
    >>> [answer.X.ravel().round(6).tolist() for answer in answers]
    [[0.5, 0.333333, 0.2], [0.2, 0.166667, 0.125]]
    """
    norms = column_norms(B) if norms is None else norms
    norms = np.where(norms > 0, norms, 1.0)
    smallest = min(ridges)
    Q, C = thin_qr(B, _ORTHONORMAL)
    P = Q
    shifts = [_Shift(ridge - smallest, Q, C, norms) for ridge in ridges]
    below = np.zeros((len(C), len(C)))
    carried = np.zeros_like(below)  # the contribution of the last block to the diagonal one
    for n_iter in range(1, max_iter + 1):
        busy = [
            shift
            for shift in shifts
            if len(shift.residuals) == n_iter
            and shift.residuals[-1] > tol
            and expected_iterations(shift.residuals, tol) <= patience
        ]
        if not busy:
            break
        AP = operator(P) + smallest * P
        G = P.T @ AP
        if not np.isfinite(G).all():
            break
        G = (G + G.T) / 2
        for shift in busy:
            shift.advance(G + carried, below)
        AP = AP @ psd_inverse(G)
        Q, Z = thin_qr(np.subtract(Q, AP, out=AP), _ORTHONORMAL)
        below, carried = Z @ G, Z @ G @ Z.T
        P = P @ Z.T
        P += Q
        for shift in busy:
            shift.turn(Q, below)
        if callback is not None and callback(n_iter, max(shift.residuals[-1] for shift in busy)):
            break
    return [shift.answer(tol) for shift in shifts]


class Scaling(NamedTuple):
    """The diagonal of A as a preconditioner: it equalises columns of different scales, at no cost."""

    diagonal: np.ndarray

    def half(self, ridge: float) -> Operator:
        """Return P^(-1/2), where P is the diagonal of A + ridge I."""
        sizes = self.diagonal + ridge
        scale = np.sqrt(sizes.min(initial=np.inf) / sizes)[:, None]

        return lambda V: scale * V


class Sketch(NamedTuple):
    """Approximate leading eigenvalues and eigenvectors of A, from one product with a random block."""

    U: np.ndarray
    eigenvalues: np.ndarray

    def half(self, ridge: float) -> Operator:
        """Return P^(-1/2), where P is A + ridge I in the span of U and constant on its complement."""
        smallest = self.eigenvalues.min(initial=np.inf) if len(self.eigenvalues) else 1.0
        scale = np.sqrt((smallest + ridge) / (self.eigenvalues + ridge))[:, None]

        return lambda V: V + self.U @ ((scale - 1) * (self.U.T @ V))


def nystrom_sketch(operator: Operator, n: int, rank: int, rng: Any) -> Sketch:
    """Return a randomised Nystroem approximation of A (n x n) for a preconditioner (Frangella, Tropp & Udell 2023).

    Its directions are in the range of A, so preconditioning keeps solutions of minimum norm.
    """
    omega, _ = thin_qr(rng.standard_normal(size=(n, rank)))
    Y = operator(omega)
    if not Y.any():
        return Sketch(np.zeros((n, 0)), np.zeros(0))
    eps = np.finfo(Y.dtype).eps
    # A tiny shift keeps the square root real; it is subtracted from the eigenvalues again.
    shift = np.sqrt(n) * eps * np.linalg.norm(Y)
    core = omega.T @ Y
    values, vectors = np.linalg.eigh((core + core.T) / 2 + shift * np.eye(rank))
    half = (Y + shift * omega) @ (vectors / np.sqrt(np.maximum(values, shift)))
    # The eigenvectors of half half' (n x n) follow from those of half'half (rank x rank).
    squares, turn = np.linalg.eigh(half.T @ half)
    keep = squares - shift > rank * np.sqrt(eps) * squares[-1]
    U, _ = thin_qr(half @ (turn[:, keep] / np.sqrt(squares[keep])))
    return Sketch(U, squares[keep] - shift)


def preconditioned_cg(
    operator: Operator,
    B: np.ndarray,
    ridge: float,
    preconditioner: Sketch | Scaling | None = None,
    *,
    rest: np.ndarray | None = None,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], Any] | None = None,
    patience: float = math.inf,
) -> BlockCG:
    """Solve (A + ridge I) X = B, preconditioned by a sketch of A, or by its diagonal, if one is given.

    ``rest`` is the residual of an approximate solution; X is then its correction.
    """
    half = _same if preconditioner is None else preconditioner.half(ridge)

    def shifted(P: np.ndarray) -> np.ndarray:
        V = half(P)
        AV = operator(V)
        AV += ridge * V
        return half(AV)

    norms = column_norms(half(B))
    norms = np.maximum(norms, min_norm(tol) * norms.max(initial=0.0))
    rest = B if rest is None else rest
    answer = block_cg(
        shifted,
        half(rest),
        tol=tol,
        max_iter=max_iter,
        callback=callback,
        norms=norms,
        patience=patience,
    )
    return answer._replace(X=half(answer.X))


def min_norm(tol: float) -> float:
    """Return the minimum norm of a right-hand side for the tolerance, relative to the largest one.

    A smaller right-hand side may be only round-off, and ``tol`` relative to it cannot be reached.
    """
    return max(1e-6, 100 * EPS / tol)


def column_norms(V: np.ndarray) -> np.ndarray:
    """Return the norm of each column, without a second array of the size of V."""
    return np.sqrt(np.einsum("ij,ij->j", V, V))


def _same(V: np.ndarray) -> np.ndarray:
    return V
