"""Least squares in the space of an exact kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labelfold.numerics.least_squares._gram import Gram
from labelfold.numerics.least_squares._problem import LeastSquares, LeastSquaresProblem

# Error of a kernel value in units of its last place: that of a product of two rows and of a function of it.
_PLACES = 16.0


class KernelProblem(LeastSquaresProblem):
    """Least squares in the space of an exact kernel: (K_c + g I) A = T_c, where A takes the place of W.

    Parameters
    ----------
    K, T : ndarray of shapes (n, n), (n, q)
        The kernel matrix of the rows, and the targets.
    rounding : ndarray of shape (n,), optional
        The rounding errors of the rows in the space of the kernel; see `Gram`.
    """

    def __init__(self, K: np.ndarray, T: np.ndarray, rounding: np.ndarray | None = None) -> None:
        self.T = T - T.mean(axis=0)
        self.mean = K.mean(axis=0)
        Kc = K - self.mean
        Kc -= Kc.mean(axis=1, keepdims=True)
        Kc = (Kc + Kc.T) / 2
        # Centring costs the leading digits that all kernels have in common.
        largest = float(np.diagonal(Kc).max(initial=0.0))
        noise = _PLACES * max(1.0, float(np.abs(K).max(initial=0.0)) / largest) if largest > 0 else _PLACES
        constant = np.trace(Kc) / len(K) ** 2
        self.gram = Gram(Kc, len(K), constant, noise, rounding, is_all_there_is=True)

    def prepare(self, ridges: Sequence[float]) -> None:
        """Share a factorisation among several ridges."""
        self.gram.expect(ridges)

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge."""
        A, D = self.gram.solve_trusted(self.T, ridge) or self.gram.solve_spectrum(self.T, ridge)
        return LeastSquares(A, D, self.mean, 0.0, 1, "kernel")
