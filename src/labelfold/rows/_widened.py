"""Dense rows of another dtype as a block in float64, which copies few rows at a time where that is enough."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from labelfold.rows._blocks import DenseBlock
from labelfold.rows._sums import Term

# Rows that are copied at a time: as many as fit into the cache of a core beside the products, but enough to outweigh
# the addition of their sum.
_TILE_BYTES, _TILE_ROWS = 400 << 10, 128


class WidenedBlock(DenseBlock):
    """Rows in float64, copied as a whole only if they are needed so."""

    def __init__(self, X: np.ndarray) -> None:
        self.stored = X
        self.shape, self.dtype = X.shape, np.dtype(np.float64)

    @cached_property
    def X(self) -> np.ndarray:  # type: ignore[override]
        """The rows in float64."""
        return self.stored.astype(np.float64)

    def t(self, H: np.ndarray) -> Term:
        """Return X'H."""
        return WidenedTransposed(self.stored, np.asarray(H, dtype=np.float64))


class WidenedTransposed(Term):
    """X'H in float64, a few rows at a time: a copy of all rows would leave the cache."""

    def __init__(self, X: np.ndarray, H: np.ndarray) -> None:
        self.X, self.H = X, H

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum.

        >>> X, H = np.eye(2, dtype=np.float32), np.array([[3.0], [4.0]])
        >>> WidenedTransposed(X, H).add(None)
        array([[3.],
               [4.]])
        """
        m, d = self.X.shape
        step = max(_TILE_ROWS, _TILE_BYTES // (8 * max(1, d)))
        total = np.zeros((d, *self.H.shape[1:])) if total is None else total
        tile = np.empty((min(m, step), d))
        for start in range(0, m, step):
            own = tile[: m - start]
            own[...] = self.X[start : start + step]
            total += own.T @ self.H[start : start + step]
        return total
