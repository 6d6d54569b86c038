"""Rows with a vector subtracted, as a block that does not form them."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from labelfold.rows._block_sums import less_outer, unshift, unshift_gram, unshift_squares
from labelfold.rows._blocks import Block
from labelfold.rows._sums import Term, Together


class ShiftedBlock(Block):
    """X - u a': u[i] times the vector a is subtracted from row i, implicitly, so that X stays sparse."""

    def __init__(self, block: Block, center: np.ndarray, u: np.ndarray | None = None) -> None:
        self.block, self.center = block, np.asarray(center, dtype=np.float64)
        self.shape, self.dtype, self.is_sparse = block.shape, block.dtype, block.is_sparse
        self.u = np.ones(block.shape[0], dtype=block.dtype) if u is None else u

    @property
    def raw(self) -> np.ndarray:
        """The shifted rows, which are dense."""
        return self.dense()

    def __matmul__(self, M: np.ndarray) -> np.ndarray:
        shifts = np.asarray(self.center @ M, dtype=self.dtype)
        return self.block @ M - (np.outer(self.u, shifts) if M.ndim == 2 else self.u * shifts)

    def t(self, H: np.ndarray) -> Term:
        """Return X'H - a (u'H)."""
        return Together(partial(unshift, center=self.center), self.block.t(H), self.u @ H)

    def gram(self) -> Term:
        """Return X'X - X'u a' - a u'X + (u'u) a a'."""
        finish = partial(unshift_gram, center=self.center)
        return Together(finish, self.block.gram(), self.block.t(self.u[:, None]), self.u @ self.u)

    def colsum(self) -> Term:
        """Return the sum of the rows."""
        return Together(partial(unshift, center=self.center), self.block.colsum(), self.u.sum())

    def colsq(self) -> Term:
        """Return the squared norm of each column."""
        finish = partial(unshift_squares, center=self.center)
        return Together(finish, self.block.colsq(), self.block.t(self.u), self.u @ self.u)

    def sq(self) -> np.ndarray:
        """Return the squared norm of each row."""
        cross = self.block @ self.center
        squares = self.block.sq() - 2 * self.u * cross + self.u**2 * (self.center @ self.center)
        return squares.astype(self.dtype, copy=False)

    def min(self) -> np.ndarray:
        """Return the smallest entry of each row, formed a row at a time."""
        raw, u = self.block.raw, self.u
        smallest = [(raw[[i]].toarray() - u[i] * self.center).min() for i in range(len(u))]
        return np.array(smallest, dtype=self.dtype)

    def outer(self, P: np.ndarray | None = None) -> np.ndarray:
        """Return (X - u a')(X - u a')', or its product with P, from products with X and vectors of length m only."""
        cross = self._cross
        rest = cross - (self.center @ self.center) * self.u
        right = np.stack([self.u, rest])
        if P is not None:
            # Vector by vector takes less time than a product with two rows. In float32 only if P is rough, too.
            right = np.stack([row.astype(P.dtype) @ P.astype(self.dtype, copy=False) for row in right])
        return less_outer(self.block.outer(P), np.stack([cross, self.u], axis=1), right)

    @cached_property
    def _cross(self) -> np.ndarray:
        """X a."""
        return self.block @ self.center

    def double(self) -> ShiftedBlock:
        """Return the block in float64."""
        return ShiftedBlock(self.block.double(), self.center, self.u.astype(np.float64))

    def single(self) -> ShiftedBlock:
        """Return the block in float32."""
        return ShiftedBlock(self.block.single(), self.center, self.u.astype(np.float32))

    def occupied(self) -> np.ndarray:
        """Return a mask of the columns with an entry or a shift."""
        return self.block.occupied() | (self.center != 0)

    def narrow(self, keep: np.ndarray | None = None) -> ShiftedBlock:
        """Return the block without columns that have neither an entry nor a shift."""
        keep = self.occupied() if keep is None else keep
        return ShiftedBlock(self.block.narrow(keep), self.center[keep], self.u)

    def scale(self, weights: np.ndarray) -> ShiftedBlock:
        """Return the block with each row multiplied by its weight."""
        weights = np.asarray(weights, dtype=self.dtype)
        return ShiftedBlock(self.block.scale(weights), self.center, self.u * weights)

    def dense(self) -> np.ndarray:
        """Return the rows as a dense array."""
        return (self.block.dense() - np.outer(self.u, self.center)).astype(self.dtype, copy=False)
