"""Blocks of a sparse tensor on a device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from labelfold.rows.adapters._device_blocks import DeviceBlock
from labelfold.rows.adapters._device_sums import wide

# Products use the entries stored where there are at most one in so many; otherwise the block is made dense.
SPARSE = 8


class SparsePart:
    """Some rows of a sparse tensor, and how to get at them by columns."""

    def __init__(self, csr: Any, by_columns: Callable[[Any], Any]) -> None:
        self.csr, self.by_columns = csr, by_columns
        self.shape, self.dtype, self.device = tuple(csr.shape), csr.dtype, csr.device

    @cached_property
    def dense(self) -> Any:
        """The rows, dense."""
        return self.csr.to_dense()


class DeviceSparseBlock(DeviceBlock):
    """Rows of a sparse tensor: products with narrow matrices use the entries stored, all else the dense rows."""

    _stored: SparsePart

    def _dense(self) -> Any:
        return self._stored.dense

    def _is_tiled(self, M: Any) -> bool:
        return False

    def _product(self, M: Any) -> Any:
        H = self._stored.csr @ M
        self._note(H)
        return H

    def _transposed(self, H: Any) -> Any:
        if self.watch is not None:
            self.watch.look()
        return self._stored.by_columns(self._stored.csr) @ wide(self.xp, H)

    def _column_sums(self) -> Any:
        return self._transposed(
            self.xp.ones((self.shape[0],), dtype=self._stored.dtype, device=self._stored.device)
        )
