"""Several ridges at the cost of the hardest one: block conjugate gradients that share one Krylov space."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from labelfold.numerics.least_squares._block_cg import (
    ORTHONORMAL,
    BlockCG,
    Operator,
    column_norms,
    expected_iterations,
    psd_inverse,
    thin_qr,
)


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
    callback: Callable[[int, float], None] | None = None,
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
    least = min(ridges)
    Q, C = thin_qr(B, ORTHONORMAL)
    P = Q
    shifts = [_Shift(ridge - least, Q, C, norms) for ridge in ridges]
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
        AP = operator(P) + least * P
        G = P.T @ AP
        if not np.isfinite(G).all():
            break
        G = (G + G.T) / 2
        for shift in busy:
            shift.advance(G + carried, below)
        AP = AP @ psd_inverse(G)
        Q, Z = thin_qr(np.subtract(Q, AP, out=AP), ORTHONORMAL)
        below, carried = Z @ G, Z @ G @ Z.T
        P = P @ Z.T
        P += Q
        for shift in busy:
            shift.turn(Q, below)
        if callback is not None:
            callback(n_iter, max(shift.residuals[-1] for shift in busy))
    return [shift.answer(tol) for shift in shifts]
