"""Blocks of a sparse tensor on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows._protocol import Rows
from labelfold.rows._sums import ArrayTerm, Term
from labelfold.rows.adapters._device import FEW_BYTES, DeviceRows
from labelfold.rows.adapters._device_blocks import DeviceBlock, DeviceTriangle, to_device, to_host, wide
from labelfold.rows.adapters._local import check_two_dimensional, even_cuts, memory_rows, not_finite
from labelfold.rows.loops import on_gpu

# Products use the entries stored where there are at most one in so many; otherwise the block is made dense.
SPARSE = 8
# Bytes of dense rows that are formed at a time from a block of sparse ones.
_DENSE_BYTES = 1 << 30


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


class SparsePart:
    """Some rows of a sparse tensor: their values, columns and ends, and the same by columns.

    Parameters
    ----------
    xp : namespace
        Of torch.
    values, columns : tensor
        All entries of the tensor, by rows.
    ends : tensor of shape (m + 1,)
        Where the entries of these rows begin, and where the last of them end.
    d : int
        Number of columns.
    flipped : dict
        Where the entries by columns are kept for later passes, under the key.
    key : tuple of int
        First row and last.
    """

    def __init__(
        self, xp: Any, values: Any, columns: Any, ends: Any, d: int, flipped: dict, key: tuple[int, int]
    ) -> None:
        self.xp, self.values, self.columns, self.ends = xp, values, columns, ends
        self.shape, self.dtype, self.device = (ends.shape[0] - 1, d), values.dtype, values.device
        self._flipped, self._key = flipped, key

    @cached_property
    def is_looped(self) -> bool:
        """Whether the loops for a GPU take these rows."""
        return on_gpu(self.values)

    @cached_property
    def _own(self) -> tuple[Any, Any, Any]:
        """The values, columns and ends of these rows alone."""
        first, last = (int(end) for end in to_host(self.ends[:: max(1, self.shape[0])])[:2])
        return self.values[first:last], self.columns[first:last], self.ends - first

    @cached_property
    def csr(self) -> Any:
        """The rows as a tensor of their own."""
        values, columns, ends = self._own
        return self.xp.sparse_csr_tensor(ends, columns, values, size=self.shape, check_invariants=False)

    @property
    def entries(self) -> Any:
        """The entries by rows, for the loops of a GPU."""
        from labelfold.rows.loops._triton_loops import Entries

        return Entries(self.values, self.columns, self.ends)

    @property
    def by_columns(self) -> Any:
        """The entries by columns, for the loops of a GPU; elsewhere the transpose, in float64."""
        found = self._flipped.get(self._key)
        if found is None:
            found = self._flipped[self._key] = self._turned()
        return found

    def _turned(self) -> Any:
        values, columns, ends = self._own
        if self.is_looped:
            from labelfold.rows.loops._triton_loops import columns_of

            return columns_of(values, columns, ends, self.shape[1])
        turned = self.csr.to_sparse_csc()
        parts = (turned.ccol_indices(), turned.row_indices(), wide(self.xp, turned.values()))
        return self.xp.sparse_csr_tensor(*parts, size=self.shape[::-1], check_invariants=False)

    @cached_property
    def dense(self) -> Any:
        """The rows, dense."""
        return self.csr.to_dense()

    def on_host(self, index: np.ndarray | None = None) -> sparse.csr_array:
        """Return the rows, or some of them, on the host."""
        values, columns, ends = self._own if index is None else self.taken(index)
        found = tuple(map(to_host, (values, columns, ends)))
        return sparse.csr_array(found, shape=(len(found[2]) - 1, self.shape[1]))

    def taken(self, index: np.ndarray) -> tuple[Any, Any, Any]:
        """Return the values, columns and ends of some rows."""
        xp = self.xp
        chosen = to_device(xp, np.asarray(index, dtype=np.int64), self.device)
        begin = xp.take(self.ends, chosen)
        lengths = xp.take(self.ends, chosen + 1) - begin
        ends = xp.concat([xp.zeros_like(lengths[:1]), xp.cumulative_sum(lengths, dtype=lengths.dtype)])
        place = xp.repeat(begin - ends[:-1], lengths) + xp.arange(int(ends[-1]), device=self.device)
        return xp.take(self.values, place), xp.take(self.columns, place), ends

    def dense_pieces(self) -> Iterator[tuple[slice, Any]]:
        """Give dense rows, a piece at a time, each after which rows they are."""
        m, d = self.shape
        step = max(1, _DENSE_BYTES // max(1, 8 * d))
        for start in range(0, m, step):
            here = slice(start, min(start + step, m))
            yield here, self.part(here).dense

    def part(self, here: slice) -> SparsePart:
        """Return some of these rows."""
        ends = self.ends[here.start : here.stop + 1]
        return SparsePart(
            self.xp, self.values, self.columns, ends, self.shape[1], {}, (here.start, here.stop)
        )


class DeviceSparseBlock(DeviceBlock):
    """Rows of a sparse tensor: products with narrow matrices use the entries stored.

    On a GPU sums of the entries are added up in float64, and a centre is subtracted from the sums. Elsewhere products
    are those of the library. A Gram matrix and a triangular factor are computed from dense rows, a piece at a time.
    """

    _stored: SparsePart

    def _dense(self) -> Any:
        return self._stored.dense

    def _is_tiled(self, M: Any) -> bool:
        return False

    @property
    def sparse_part(self) -> SparsePart | None:
        """The rows as they are stored, checked, for loops of a GPU; None where those do not take them."""
        if not (self._stored.is_looped and self.is_plain):
            return None
        self._look()
        return self._stored

    def _look(self) -> None:
        if self.watch is not None and self._stored.is_looped:
            self.watch.note(self._stored.values)
        elif self.watch is not None:
            self.watch.look()

    @cached_property
    def mendable(self) -> DeviceBlock:
        """These rows: on a GPU no digits are lost where a centre is subtracted from sums in float64."""
        return self if self._stored.is_looped else super().mendable

    def __matmul__(self, M: Any) -> Any:
        if not self._stored.is_looped:
            return super().__matmul__(M)
        from labelfold.rows.loops import _triton_loops as loops

        self._look()
        M = self._like(M)
        if M.ndim == 1:
            return (self @ M[:, None])[:, 0]
        shifts = None if self.center is None else self.full_center @ wide(self.xp, M)
        H = loops.gathered(self._stored.entries, M, shifts, self.dtype, single=True)
        return H if self.weights is None else H * self._like(self.weights, self.dtype)[:, None]

    def _product(self, M: Any) -> Any:
        self._look()
        return self._stored.csr @ M

    def _transposed(self, H: Any) -> Any:
        self._look()
        if not self._stored.is_looped:
            return self._stored.by_columns @ wide(self.xp, H)
        from labelfold.rows.loops import _triton_loops as loops

        if H.ndim == 1:
            return self._transposed(H[:, None])[:, 0]
        return loops.gathered(self._stored.by_columns, H)

    def t(self, H: Any) -> Term:
        """Return X'H; on a GPU its part that comes of the centre is subtracted there."""
        if not self._stored.is_looped:
            return super().t(H)
        H = self._like(H)
        if self.weights is not None:
            weights = self._like(self.weights)
            H = H * (weights if H.ndim == 1 else weights[:, None])
        product = self._transposed(H)
        if self.center is not None:
            sums = self.xp.sum(H, axis=0, dtype=self.xp.float64)
            product = product - (self.full_center * sums if H.ndim == 1 else self.full_center[:, None] * sums)
        return ArrayTerm(product)

    def _column_sums(self) -> Any:
        if not self._stored.is_looped:
            ones = self.xp.ones((self.shape[0],), dtype=self._stored.dtype, device=self._stored.device)
            return self._transposed(ones)
        from labelfold.rows.loops import _triton_loops as loops

        self._look()
        return loops.summed(self._stored.by_columns)

    def colsq(self) -> Any:
        """Return the squared norm of each column."""
        if not self._stored.is_looped:
            return super().colsq()
        from labelfold.rows.loops import _triton_loops as loops

        self._look()
        weights = self.xp.ones((self.shape[0],), dtype=self.xp.float64, device=self._stored.device)
        weights = weights if self.weights is None else wide(self.xp, self.weights) ** 2
        squares = loops.gathered(self._stored.by_columns, weights[:, None], squared=True)[:, 0]
        if self.center is None:
            return squares
        a = self.full_center
        return self.xp.clip(
            squares - 2 * a * self._transposed(weights) + a**2 * self.xp.sum(weights), min=0.0
        )

    def sq(self) -> Any:
        """Return the squared norm of each row."""
        if not self._stored.is_looped:
            return super().sq()
        from labelfold.rows.loops import _triton_loops as loops

        self._look()
        squares = loops.summed(self._stored.entries, squared=True)
        if self.center is not None:
            a = self.full_center
            cross = loops.gathered(self._stored.entries, a[:, None])[:, 0]
            squares = self.xp.clip(squares - 2 * cross + a @ a, min=0.0)
        if self.weights is not None:
            squares = squares * wide(self.xp, self.weights) ** 2
        return self.xp.astype(squares, self.dtype, copy=False)

    def min(self) -> Any:
        """Return the smallest entry of each row."""
        part = self.sparse_part
        if part is None:
            return super().min()
        from labelfold.rows.loops import _triton_loops as loops

        return self.xp.astype(loops.least(part.entries, self.shape[1]), self.dtype, copy=False)

    def gram(self) -> Term:
        """Return X'X."""
        self._look()
        return _InTurn(lambda: (block.gram() for _, block in self._pieces()))

    def qr(self, H: Any) -> Term:
        """Return the triangular factor of [X, H]."""
        self._look()
        return _InTurn(lambda: (block.qr(H[here]) for here, block in self._pieces()), DeviceTriangle)

    def _pieces(self) -> Iterator[tuple[slice, DeviceBlock]]:
        """Give these rows dense, a piece at a time."""
        for here, X in self._stored.dense_pieces():
            weights = None if self.weights is None else self.weights[here]
            yield here, DeviceBlock(X, self.xp, None, self.center, weights, self.dtype, self.rest)


class _InTurn(Term):
    """A sum of terms, each made when the one before it has been added."""

    def __init__(self, terms: Callable[[], Iterator[Term]], kind: type[Term] = ArrayTerm) -> None:
        self.terms = terms
        self.merge = kind.merge  # type: ignore[method-assign]

    def add(self, total: Any) -> Any:
        """Add one after the other."""
        for term in self.terms():
            total = term.add(total)
        return total
