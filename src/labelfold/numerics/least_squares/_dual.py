"""Ridge regression in terms of the products of rows, for fewer rows than columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from labelfold.numerics.least_squares._gram import Gram, known_part, lost, rounding, solve_spectrum, trim_svd
from labelfold.numerics.least_squares._problem import LeastSquares, LeastSquaresProblem
from labelfold.rows import Block, Centered, Rows


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
