"""Rows of a sparse torch tensor, processed on their device."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.rows._protocol import Rows
from labelfold.rows.adapters._device import FEW_BYTES, DeviceRows
from labelfold.rows.adapters._device_blocks import DeviceBlock
from labelfold.rows.adapters._device_copies import to_host
from labelfold.rows.adapters._device_sparse import SPARSE, DeviceSparseBlock, SparsePart
from labelfold.rows.adapters._device_sums import wide
from labelfold.rows.adapters._local import check_two_dimensional, even_cuts, not_finite
from labelfold.rows.adapters._memory import memory_rows
from labelfold.rows.loops import on_gpu


class DeviceSparseRows(DeviceRows):
    """Rows of a sparse tensor: products with the entries stored, and dense blocks for all else.

    On a GPU a block has as many entries as fit, and nothing is copied for it. The entries of a block by columns are
    kept for later passes.
    """

    def __init__(self, X: Any) -> None:
        check_two_dimensional(X.ndim)
        super().__init__(X if "csr" in str(X.layout) else X.to_sparse_csr())
        self._values = self.xp.astype(self.X.values(), self._dtype, copy=False)
        self._columns, self._ends = self.X.col_indices(), self.X.crow_indices()
        n, d = self.shape
        self._is_dense = SPARSE * self._values.shape[0] > n * d
        self._is_looped = on_gpu(self._values) and not self._is_dense
        self._flipped: dict[tuple[int, int], Any] = {}

    def cuts(self) -> np.ndarray:
        """Return the block boundaries."""
        row_bytes = self._bytes_of_rows() / max(1, self.shape[0])
        return even_cuts(self.shape[0], int(max(1, self._bytes // max(1, row_bytes))))

    def _bytes_of_rows(self) -> float:
        """Return the bytes of all rows in the form that blocks take: stored, or dense where some of it is made so."""
        return self.shape[0] * (self.row_bytes() if self._is_looped else super().row_bytes())

    def row_bytes(self) -> float:
        """Return the average number of bytes of a row."""
        n_bytes = self._values.nbytes + self._columns.nbytes + self._ends.nbytes
        return n_bytes / max(1, self.shape[0])

    def block(self, start: int, stop: int) -> DeviceBlock:
        """Return rows ``start`` to ``stop``."""
        part = self._part(start, stop)
        if self._is_dense:
            return DeviceBlock(part.dense, self.xp, self)
        return DeviceSparseBlock(part, self.xp, self)

    def _part(self, start: int, stop: int) -> SparsePart:
        ends = self._ends[start : stop + 1]
        return SparsePart(
            self.xp, self._values, self._columns, ends, self.shape[1], self._flipped, (start, stop)
        )

    def _take_less(self) -> None:
        self._flipped.clear()
        super()._take_less()

    def _turned(self, a: Any) -> Any:
        # In row order: an entry takes a row of M.
        return a

    def note(self, H: Any) -> None:
        """Take note of the sum of all values, in the first pass: it is finite only where they are."""
        if not self._noted:
            super().note(self._values)

    def look(self) -> None:
        """Check that all values are finite, unless that has been done."""
        if self._is_finite:
            return
        finite = self.xp.isfinite(self._values)
        if not bool(self.xp.all(finite)):
            at = int(np.flatnonzero(~to_host(finite))[0])
            row = int(np.searchsorted(to_host(self._ends), at, side="right")) - 1
            raise not_finite(float(self._values[at]), row, int(self._columns[at]))
        self._is_finite = True

    def _survey(self) -> np.ndarray:
        """Return the sum of squares of each column."""
        squares = wide(self.xp, self._values) ** 2
        total = self.xp.zeros((self.shape[1],), dtype=squares.dtype, device=self.device)
        return np.asarray(to_host(total.index_add(0, self._columns, squares)), dtype=np.float64)

    def _check_values(self) -> None:
        self.look()

    def subset(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, on the device; a few of them on the host, where a pass is quicker."""
        if len(index) * self.row_bytes() <= FEW_BYTES:
            return self.take(index)
        values, columns, ends = self._whole_part().taken(index)
        size = (len(index), self.shape[1])
        return DeviceSparseRows(
            self.xp.sparse_csr_tensor(ends, columns, values, size=size, check_invariants=False)
        )

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, sparse, on the host."""
        return memory_rows(self._whole_part().on_host(index))

    def _whole_part(self) -> SparsePart:
        return self._part(0, self.shape[0])
