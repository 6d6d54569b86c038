"""The interface of a least-squares problem whose data has been read, and its solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from labelfold.numerics._gram import Gram, known_part, lost, rounding, solve_spectrum, trim_svd
from labelfold.rows import Block, Centered, Rows

# Error of a kernel value in units of its last place: that of a product of two rows and of a function of it.
_PLACES = 16.0


@dataclass
class LeastSquares:
    """A solution, and how it was found.

    Attributes
    ----------
    W : ndarray of shape (d, q)
        The coefficients.
    D : ndarray of shape (q, q)
        W'X_c'T_c, symmetric positive semi-definite, from the most accurate product available.
    mean : ndarray of shape (d,)
        The mean of the rows in use.
    residual : float
        Largest residual X_c'(T_c - X_c W) - g W of a target, relative to its X_c'T_c, recomputed from W at the end; 0
        for the direct methods.
    n_iter : int
        Number of iterations of "krylov", otherwise 1.
    way : str
        "gram", "dual" or "krylov".
    state : object
        The warm start of "krylov" for another ridge.
    """

    W: np.ndarray
    D: np.ndarray
    mean: np.ndarray
    residual: float
    n_iter: int
    way: str
    state: Any = field(default=None, repr=False)


class LeastSquaresProblem:
    """A least-squares problem whose data has been read, to be solved for several ridges."""

    def prepare(self, ridges: Sequence[float]) -> None:
        """Announce the ridges, so that work for all of them can be shared."""

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge; ``start`` is a solution for another."""
        raise NotImplementedError


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


class DualProblem(LeastSquaresProblem):
    """The problem in terms of X_c X_c' = K, for n within the budget.

    If K is too ill-conditioned, its eigenvectors are used, or the singular vectors of X_c if that fits the budget as
    a dense matrix. Sparse rows are made dense only if K cannot distinguish small eigenvalues from round-off.
    """

    def __init__(self, rows: Rows, T: np.ndarray, mask: np.ndarray | None, max_gram_bytes: int) -> None:
        if mask is not None:
            rows, T = rows.take(np.flatnonzero(mask)), T[mask]
        self.T, self.mean = T, rows.mean()
        self.rows = Centered(rows, self.mean)
        self.X = self.rows.whole().double()
        K = self.X.outer()
        noise = lost(np.diagonal(K), float(self.mean @ self.mean)) if self.X.is_sparse else 1.0
        rounded = rounding(np.diagonal(K) + self.mean @ self.mean, rows.shape[1], rows.eps)
        constant = np.trace(K) / len(K) ** 2
        self.gram = Gram(K, max(rows.shape), constant=constant, noise=noise, rounding=rounded)
        self.fits = 8 * rows.shape[0] * rows.shape[1] <= max_gram_bytes

    def prepare(self, ridges: Sequence[float]) -> None:
        """Share a factorisation among several ridges."""
        self.gram.expect(ridges)

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge."""
        found = self.gram.solve_trusted(self.T, ridge)
        if found is None and self.fits and (not self.X.is_sparse or self.gram.blurred):
            Q, U, sigma, V = self._singular
            W, D = solve_spectrum(U.T @ self.T, sigma, V, ridge)
            return LeastSquares(Q @ W, D, self.mean, 0.0, 1, "dual")
        A, D = found or self.gram.solve_spectrum(self.T, ridge)
        return LeastSquares(self.rows.sum(_transposed, A), D, self.mean, 0.0, 1, "dual")

    @cached_property
    def _singular(self) -> tuple:
        Q, R = np.linalg.qr(self.X.dense().T)
        R = known_part(R, self.gram.rounding)  # a column of R is a row of X
        return Q, *trim_svd(*np.linalg.svd(R.T), self.gram.size)


def _transposed(X: Block, A: Any) -> Any:
    return X.double().t(A)
