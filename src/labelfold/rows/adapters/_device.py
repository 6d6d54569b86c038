"""Rows of an array-API array (torch, CuPy, ...), dense or sparse, processed on their device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from scipy import sparse

from labelfold.rows._rows import RowFunction, Rows, raw_of
from labelfold.rows._sums import Accumulator
from labelfold.rows.adapters._device_blocks import (
    DeviceBlock,
    DeviceMatrix,
    all_to_device,
    in_float64,
    is_host,
    takes_any_array,
    to_device,
    to_host,
)
from labelfold.rows.adapters._local import (
    LocalRows,
    RowResults,
    check_finite,
    check_results,
    check_two_dimensional,
    even_cuts,
    floating,
    memory_rows,
    not_finite,
)
from labelfold.utils import warn_user

# Bytes of blocks. They are large on a device, since every operation has a cost to start, and become smaller if its
# memory does not suffice for a pass, down to the minimum. On the host the size limits the memory of a pass.
DEVICE_BYTES, MIN_DEVICE_BYTES, HOST_BYTES = 4_000_000_000, 1_000_000, 64_000_000

# Budget: up to this many bytes of rows a pass runs on the host, where it takes about as long as the start of the
# operations of a pass on a device.
FEW_BYTES = 4_000_000

# Budget: arrays that a function of row-aligned arrays makes take at most this many times the bytes of those.
_BESIDE = 64

# A centre is subtracted from products instead of the rows if its square is at most this share of the mean square of
# every column. The products are then hardly larger before the subtraction than after it, and lose no digits.
_MAX_CENTER = 0.95

# Products use the stored entries of a sparse tensor if at most one in this many entries of X is stored.
MIN_ZEROS = 8


class DeviceResults(RowResults):
    """Row results on a device, concatenated at the end."""

    def __init__(self, n_rows: int) -> None:
        self._parts: list[Any] = []

    def store(self, start: int, stop: int, result: Any) -> None:
        """Append the results of rows ``start`` to ``stop``; blocks come in order."""
        check_results(result, stop - start)
        self._parts.append(result)

    @property
    def values(self) -> Any:
        """The results of all rows; None if there are none."""
        if len(self._parts) < 2:
            return self._parts[0] if self._parts else None
        return array_namespace(self._parts[0]).concat(self._parts, axis=0)


class DeviceRows(LocalRows):
    """Rows of an array-API array, in large blocks, one after the other."""

    place = "on a device"
    max_workers = 1  # the device itself works in parallel
    results = DeviceResults

    def __init__(self, X: Any) -> None:
        check_two_dimensional(X.ndim)
        self.xp = array_namespace(X)
        self.device = device(X)
        name = str(X.dtype).rpartition(".")[2]
        if name in ("float16", "bfloat16"):
            warn_user(f"X holds {name} values, which are worked on in float32; results are float32")
            name = "float32"
        try:
            stored = np.dtype(name)
        except TypeError:
            raise ValueError(
                f"X holds {name} values, which NumPy does not have; convert X to float32"
            ) from None
        self.dtype = floating(stored)
        self._dtype = getattr(self.xp, self.dtype.name)
        self.X = X
        n, d = X.shape
        self.shape = int(n), int(d)
        self._is_host = is_host(self.device)
        self._bytes = HOST_BYTES if self._is_host else DEVICE_BYTES
        self._mean_squares: np.ndarray | None = None
        self._is_finite = False
        # Host copies of the shared arrays of the current pass, to avoid device synchronisation.
        self._host_copies: dict[int, np.ndarray] = {}

    def cuts(self) -> np.ndarray:
        """Return the block boundaries."""
        return even_cuts(self.shape[0], int(max(1, self._bytes // max(1, self.row_bytes()))))

    def block(self, start: int, stop: int) -> DeviceBlock:
        """Return rows ``start`` to ``stop``, of a matrix whose values are finite."""
        self._check_finite()
        return DeviceBlock(self.xp.astype(self.X[start:stop, ...], self._dtype, copy=False), self.xp, self)

    def sweep(self, f: RowFunction, *aligned: Any, **options: Any) -> tuple[Any, Any]:
        """Make one pass; values are checked to be finite before the first one. Blocks become smaller where needed."""
        while True:
            try:
                return super().sweep(f, *aligned, **options)
            except Exception as error:
                if type(error).__name__ != "OutOfMemoryError":
                    raise
                if self._bytes <= MIN_DEVICE_BYTES:
                    raise MemoryError(
                        f"{self.device} has too little free memory for a pass over X of {self.shape[0]} rows and "
                        f"{self.shape[1]} columns, even {self._bytes // 1_000_000} MB at a time; free some of it, or "
                        "pass X as a NumPy array"
                    ) from error
            finally:
                self._host_copies.clear()
            self._shrink_blocks()
            self.n_passes -= 1

    def _shrink_blocks(self) -> None:
        """Make blocks smaller."""
        self._bytes //= 4

    def share(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return arrays on the device, floats in the dtype of X; other values unchanged."""
        shared, floats = list(values), []
        for i, value in enumerate(values):
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                floats.append(i)
            elif isinstance(value, np.ndarray) and value.dtype.kind in "iub":
                shared[i] = self._to_device(value)
        there = all_to_device(
            self.xp, [self._in_column_order(values[i]) for i in floats], self.device, self.dtype
        )
        for i, array in zip(floats, there, strict=True):
            shared[i] = self._in_column_order(array)
            self._host_copies[id(shared[i])] = values[i]
        return tuple(shared)

    def _in_column_order(self, a: Any) -> Any:
        # On the device in column order: the products X @ M with a narrow M read each column contiguously.
        return a.T if a.ndim == 2 else a

    def put(self, a: Any) -> Any:
        """Return a row-aligned array on the device."""
        return self._to_device(a) if isinstance(a, np.ndarray) else a

    def get(self, h: Any) -> np.ndarray:
        """Return an array as NumPy."""
        return to_host(h)

    def computed(self, wrapped: Rows, max_bytes: float) -> tuple[Rows, float]:
        """Return a wrapper of these rows as rows on their device."""
        size = wrapped.shape[0] * wrapped.row_bytes()
        if wrapped is self or size > max_bytes:
            return wrapped, 0.0
        return DeviceRows(wrapped.map(raw_of)), size

    def map_aligned(self, f: Any, *aligned: Any) -> Any:
        """Return row results from row-aligned arrays alone, on the device if f takes its arrays."""
        if not takes_any_array(f):
            return super().map_aligned(f, *aligned)
        made = DeviceResults(self.shape[0])
        for a, b in self._aligned_cuts(aligned):
            made.store(a, b, self.put(f(a, b, *(self.put(h)[a:b, ...] for h in aligned))))
        return made.values

    def sum_aligned(self, f: Any, *aligned: Any) -> Any:
        """Return sums over row-aligned arrays alone, on the device if f takes its arrays."""
        if not takes_any_array(f):
            return super().sum_aligned(f, *aligned)
        sums = Accumulator()
        for a, b in self._aligned_cuts(aligned):
            sums.add(f(*(self.put(h)[a:b, ...] for h in aligned)))
        return sums.finish(to_host)

    def _aligned_cuts(self, aligned: tuple[Any, ...]) -> Iterator[tuple[int, int]]:
        """Yield the boundaries of blocks of row-aligned arrays."""
        row = sum(int(np.prod(h.shape[1:])) * 8 for h in aligned) + 1
        return pairwise(even_cuts(self.shape[0], max(1, self._bytes // (_BESIDE * row))).tolist())

    def result(self, h: Any, f: Any = None, at: tuple[Any, ...] | None = None) -> Any:
        """Return a row-aligned array for the user, on the host; a copy from a GPU is new, and not copied again."""
        if f is not None or self._is_host or isinstance(h, np.ndarray):
            return super().result(h, f, at)
        found = self.get(h)
        if at is not None:
            found[at[0]] = at[1]
        return found

    def beside(self, A: np.ndarray) -> Any:
        """Return a matrix on the device; unchanged if the device is the host."""
        return A if self._is_host else DeviceMatrix(self.xp, self._to_device(A))

    def pick(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return some entries of a row-aligned array as NumPy; the others stay on the device."""
        index = np.asarray(index, dtype=np.int64)
        if isinstance(h, np.ndarray):
            return h[index]
        return to_host(self.xp.take(h, self._to_device(index), axis=0))

    def subset(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, on the device; a few of them on the host, where a pass is quicker."""
        few = len(index) * self.row_bytes() <= FEW_BYTES
        return self.take(index) if few else DeviceRows(self._taken(index))

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, on the host."""
        taken = to_host(self._taken(index))
        check_finite(taken, np.asarray(index))
        return memory_rows(taken)

    def _taken(self, index: np.ndarray) -> Any:
        taken = self.xp.take(self.X, self._to_device(np.asarray(index, dtype=np.int64)), axis=0)
        return self.xp.astype(taken, self._dtype, copy=False)

    def row_bytes(self) -> float:
        """Return the bytes of one row."""
        return self.shape[1] * self.dtype.itemsize

    def may_center_products(self, center: Any) -> bool:
        """Return whether products lose no digits if a centre is subtracted from them instead of from the rows."""
        a = self._host_copies.get(id(center))
        if a is None:
            return False
        if self._mean_squares is None:
            self._mean_squares = self._column_squares() / self.shape[0]
        return bool((np.asarray(a, dtype=np.float64) ** 2 <= _MAX_CENTER * self._mean_squares).all())

    def _check_finite(self) -> None:
        """Check that all values are finite, unless that has been done."""
        if self._is_finite:
            return
        squares = self._column_squares()
        if np.isfinite(squares).all():
            self._mean_squares = squares / self.shape[0]
        else:
            self._check_values()  # squares of finite values may overflow
        self._is_finite = True

    def _to_device(self, a: np.ndarray) -> Any:
        return to_device(self.xp, a, self.device)

    def _blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield the number of the first row and the stored rows of each block."""
        for a, b in pairwise(self.cuts().tolist()):
            yield a, self.xp.astype(self.X[a:b, ...], self._dtype, copy=False)

    def _column_squares(self) -> np.ndarray:
        """Return the sum of squares of each column."""
        total: Any = 0.0
        for _, X in self._blocks():
            total = total + in_float64(self.xp, self.xp.linalg.vector_norm(X, axis=0)) ** 2
        return np.asarray(to_host(total), dtype=np.float64)

    def _check_values(self) -> None:
        for start, X in self._blocks():
            self._check_block(X, start)

    def _check_block(self, X: Any, start: int) -> None:
        finite = self.xp.isfinite(X)
        if not bool(self.xp.all(finite)):
            row, column = map(int, np.argwhere(~to_host(finite))[0])
            raise not_finite(float(X[row, column]), start + row, column)


class DeviceSparseRows(DeviceRows):
    """Rows of a sparse tensor, with torch's own products.

    ``X @ M`` and ``X.t(H)`` use the stored entries, if at most one in eight entries of X is stored. For sums over
    rows the entries of a block are also stored by columns in float64, in the first pass that needs them, and kept for
    later passes: 16 bytes an entry. All other operations make a block dense: X'X, triangular factors, norms and
    minima of rows, feature maps, and products with rows whose mean is large beside their spread. Blocks therefore
    have as many rows as those of a dense tensor, and such operations take as long. Data with many stored entries
    should be a dense tensor if they fit into the memory of the device.

    On an H200, with 50 of 10,000 columns stored, passes of a fit take 5 to 33 times as long as reading the entries
    (``benchmarks/gpu.py``). The sums of torch's products may differ in their last digits from one pass to the next.
    """

    def __init__(self, X: Any) -> None:
        check_two_dimensional(X.ndim)
        super().__init__(X if "csr" in str(X.layout) else X.to_sparse_csr())
        self._values = self.xp.astype(self.X.values(), self._dtype, copy=False)
        self._columns, self._ends = self.X.col_indices(), self.X.crow_indices()
        n, d = self.shape
        self._is_dense = MIN_ZEROS * self._values.shape[0] > n * d
        self._parts: dict[tuple[int, int], SparsePart] = {}

    def cuts(self) -> np.ndarray:
        """Return the block boundaries: those of dense rows, since some operations make a block dense."""
        return even_cuts(self.shape[0], int(max(1, self._bytes // max(1, super().row_bytes()))))

    def row_bytes(self) -> float:
        """Return the average number of bytes of a row."""
        n_bytes = self._values.nbytes + self._columns.nbytes + self._ends.nbytes
        return n_bytes / max(1, self.shape[0])

    def block(self, start: int, stop: int) -> DeviceBlock:
        """Return rows ``start`` to ``stop``, of a matrix whose values are finite."""
        self._check_finite()
        part = self._parts.get((start, stop))
        if part is None:
            ends = self._ends[start : stop + 1]
            first, last = (int(end) for end in to_host(ends[:: stop - start])[:2])
            csr = self._csr(self._values[first:last], self._columns[first:last], ends - first)
            part = self._parts[start, stop] = SparsePart(self.xp, csr)
        if self._is_dense:
            return DeviceBlock(part.csr.to_dense(), self.xp, self)
        return DeviceSparseBlock(part, self.xp, self)

    def _csr(self, values: Any, columns: Any, ends: Any) -> Any:
        size = (ends.shape[0] - 1, self.shape[1])
        return self.xp.sparse_csr_tensor(ends, columns, values, size=size, check_invariants=False)

    def _shrink_blocks(self) -> None:
        self._parts.clear()
        super()._shrink_blocks()

    def _in_column_order(self, a: Any) -> Any:
        # In row order, since each stored entry takes a row of M.
        return a

    def _check_finite(self) -> None:
        """Check that all values are finite, unless that has been done."""
        if self._is_finite:
            return
        finite = self.xp.isfinite(self._values)
        if not bool(self.xp.all(finite)):
            at = int(np.flatnonzero(~to_host(finite))[0])
            row = int(np.searchsorted(to_host(self._ends), at, side="right")) - 1
            raise not_finite(float(self._values[at]), row, int(self._columns[at]))
        self._is_finite = True

    def _column_squares(self) -> np.ndarray:
        """Return the sum of squares of each column."""
        squares = in_float64(self.xp, self._values) ** 2
        total = self.xp.zeros((self.shape[1],), dtype=squares.dtype, device=self.device)
        return np.asarray(to_host(total.index_add(0, self._columns, squares)), dtype=np.float64)

    def _check_values(self) -> None:
        self._check_finite()

    def subset(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, on the device; a few of them on the host, where a pass is quicker."""
        if len(index) * self.row_bytes() <= FEW_BYTES:
            return self.take(index)
        return DeviceSparseRows(self._csr(*self._taken(index)))

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``, sparse, on the host."""
        values, columns, ends = map(to_host, self._taken(index))
        return memory_rows(sparse.csr_array((values, columns, ends), shape=(len(index), self.shape[1])))

    def _taken(self, index: np.ndarray) -> tuple[Any, Any, Any]:
        """Return the values, columns and ends of some rows."""
        xp, chosen = self.xp, self._to_device(np.asarray(index, dtype=np.int64))
        begin = xp.take(self._ends, chosen)
        lengths = xp.take(self._ends, chosen + 1) - begin
        ends = xp.concat([xp.zeros_like(lengths[:1]), xp.cumulative_sum(lengths, dtype=lengths.dtype)])
        place = xp.repeat(begin - ends[:-1], lengths) + xp.arange(int(ends[-1]), device=self.device)
        return xp.take(self._values, place), xp.take(self._columns, place), ends


class SparsePart:
    """The rows of a block as a sparse tensor, and their transpose.

    Parameters
    ----------
    xp : namespace
        Of torch.
    csr : tensor of shape (m, d)
        The rows.
    """

    def __init__(self, xp: Any, csr: Any) -> None:
        self.xp, self.csr = xp, csr
        self.shape, self.dtype, self.device = tuple(csr.shape), csr.dtype, csr.device

    @cached_property
    def transpose(self) -> Any:
        """The transpose in float64, for sums over rows."""
        csc = self.csr.to_sparse_csc()
        parts = (csc.ccol_indices(), csc.row_indices(), in_float64(self.xp, csc.values()))
        return self.xp.sparse_csr_tensor(*parts, size=self.shape[::-1], check_invariants=False)


class DeviceSparseBlock(DeviceBlock):
    """Rows of a sparse tensor: products use the stored entries, other operations a dense copy."""

    kind = "sparse device"
    _stored: SparsePart

    def host(self) -> Any:
        """Return the rows as a ``csr_array``; shifted or weighted rows as a NumPy array."""
        if not self.is_plain:
            return super().host()
        csr = self._stored.csr
        values = self.xp.astype(csr.values(), self.dtype, copy=False)
        parts = [to_host(part) for part in (values, csr.col_indices(), csr.crow_indices())]
        return sparse.csr_array(tuple(parts), shape=self.shape)

    @cached_property
    def _dense_rows(self) -> Any:
        return self._stored.csr.to_dense()

    def _dense(self) -> Any:
        return self._dense_rows

    def _product(self, M: Any) -> Any:
        return self._stored.csr @ M

    def _transposed(self, H: Any) -> Any:
        return self._stored.transpose @ in_float64(self.xp, H)

    def _column_sums(self) -> Any:
        return self._transposed(
            self.xp.ones((self.shape[0],), dtype=self._stored.dtype, device=self._stored.device)
        )
