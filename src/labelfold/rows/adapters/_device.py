"""Rows of an array-API array (torch, CuPy, ...), processed on their device."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows.adapters._device_blocks import (
    DeviceBlock,
    DeviceMatrix,
    to_device,
    to_host,
    together,
    wide,
)
from labelfold.rows.adapters._local import (
    LocalRows,
    Mapped,
    check_finite,
    check_two_dimensional,
    even_cuts,
    floating,
    memory_rows,
    not_finite,
)
from labelfold.utils import warn_user

# Sizes of blocks in bytes. They are large on a device, since every operation has a cost to start, and smaller if its
# memory does not suffice for a pass. On the host the size limits the memory of a pass.
DEVICE_BYTES, HOST_BYTES = 4 << 30, 64 << 20
LEAST_DEVICE_BYTES = 1 << 20

# Bytes of rows over which a pass on the host takes less time than to start one on a device.
FEW_BYTES = 4 << 20

# A centre is subtracted from products instead of the rows if its square is at most this share of the mean square of
# every column. The products are then hardly larger before the subtraction than after it, and lose no digits.
_LATE = 0.95


class DeviceRows(LocalRows):
    """Rows of an array-API array, in large blocks, one after the other."""

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
        self._is_host = "cpu" in str(self.device).lower()
        self._bytes = HOST_BYTES if self._is_host else DEVICE_BYTES
        self._mean_squares: np.ndarray | None = None
        self._is_finite = False
        # Sums of products of a first pass, by which values are checked after it.
        self._noted: list[Any] = []
        # Shared arrays of the pass under way, on the host: what is decided by them takes no copy back.
        self._at_hand: dict[int, np.ndarray] = {}

    def cuts(self) -> np.ndarray:
        """Return the block boundaries."""
        return even_cuts(self.shape[0], int(max(1, self._bytes // max(1, self.row_bytes()))))

    def block(self, start: int, stop: int) -> DeviceBlock:
        """Return rows ``start`` to ``stop``."""
        return DeviceBlock(self.xp.astype(self.X[start:stop, ...], self._dtype, copy=False), self.xp, self)

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass; values are checked to be finite in the first one. Blocks become smaller where needed."""
        while True:
            try:
                made = super().sweep(f, *aligned, shared=shared, most_rows=most_rows)
                self._check_noted()
                return made
            except Exception as error:
                if type(error).__name__ != "OutOfMemoryError":
                    self.look()  # what went wrong may have been a value
                    raise
                if self._bytes <= LEAST_DEVICE_BYTES:
                    raise MemoryError(
                        f"{self.device} has too little free memory for a pass over X of {self.shape[0]} rows and "
                        f"{self.shape[1]} columns, even {self._bytes >> 20} MB at a time; free some of it, or pass X "
                        "as a NumPy array"
                    ) from error
            finally:
                self._at_hand.clear()
                self._noted.clear()
            self._take_less()
            self.n_passes -= 1

    def _take_less(self) -> None:
        """Make blocks smaller."""
        self._bytes //= 4

    def n_workers(self) -> int:
        """Return 1: the device itself works in parallel."""
        return 1

    def mapped(self) -> Mapped:
        """Return an empty container for row results."""
        return _Concatenated(self.shape[0], self.xp)

    def share(self, values: tuple) -> tuple:
        """Return arrays on the device, floats in the dtype of X; other values unchanged."""
        shared, floats = list(values), []
        for i, value in enumerate(values):
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                floats.append(i)
            elif isinstance(value, np.ndarray) and value.dtype.kind in "iub":
                shared[i] = self._to_device(value)
        there = together(self.xp, [self._turned(values[i]) for i in floats], self.device, self.dtype)
        for i, array in zip(floats, there, strict=True):
            shared[i] = self._turned(array)
            self._at_hand[id(shared[i])] = values[i]
        return tuple(shared)

    def _turned(self, a: Any) -> Any:
        # On the device in column order: the products X @ M with a narrow M read each column contiguously.
        return a.T if a.ndim == 2 else a

    def put(self, a: Any) -> Any:
        """Return a row-aligned array on the device."""
        return self._to_device(a) if isinstance(a, np.ndarray) else a

    def get(self, h: Any) -> np.ndarray:
        """Return an array as NumPy."""
        return to_host(h)

    def result(self, h: Any, f: Any = None, at: tuple | None = None) -> Any:
        """Return a row-aligned array for the user, on the host; a copy from a GPU is new, and not copied again."""
        if f is not None or self._is_host or isinstance(h, np.ndarray):
            return super().result(h, f, at)
        found = self.get(h)
        if at is not None:
            found[at[0]] = at[1]
        return found

    def beside(self, A: np.ndarray) -> Any:
        """Return a matrix on the device; as it is, where that is the host."""
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

    def may_shift_late(self, center: Any) -> bool:
        """Return whether a centre may be subtracted from products with the rows instead of from the rows."""
        a = self._at_hand.get(id(center))
        if a is None:
            return False
        self.look()
        if self._mean_squares is None:
            self._mean_squares = self._survey() / self.shape[0]
        return bool((np.asarray(a, dtype=np.float64) ** 2 <= _LATE * self._mean_squares).all())

    def note(self, H: Any) -> None:
        """Take note of products with all columns of a block: they are finite where its values are."""
        if not self._is_finite:
            self._noted.append(self.xp.sum(H))

    def look(self) -> None:
        """Check that all values are finite, unless that has been done."""
        if self._is_finite:
            return
        squares = self._survey()
        if np.isfinite(squares).all():
            self._mean_squares = squares / self.shape[0]
        else:
            self._check_values()  # squares may be too large where values are not
        self._is_finite = True

    def _check_noted(self) -> None:
        """Check values by the sums of products noted in a pass: only where they were finite are those."""
        if self._noted and not self._is_finite:
            noted = self._noted[0] if len(self._noted) == 1 else self.xp.stack(self._noted)
            if not np.isfinite(to_host(noted)).all():
                self._check_values()
            self._is_finite = True

    def _to_device(self, a: np.ndarray) -> Any:
        return to_device(self.xp, a, self.device)

    def _blocks(self) -> Iterator[tuple[int, Any]]:
        """Give the blocks as they are stored, each after the number of its first row."""
        for a, b in pairwise(self.cuts().tolist()):
            yield a, self.xp.astype(self.X[a:b, ...], self._dtype, copy=False)

    def _survey(self) -> np.ndarray:
        """Return the sum of squares of each column."""
        total: Any = 0.0
        for _, X in self._blocks():
            total = total + wide(self.xp, self.xp.linalg.vector_norm(X, axis=0)) ** 2
        return np.asarray(to_host(total), dtype=np.float64)

    def _check_values(self) -> None:
        for start, X in self._blocks():
            self._check_finite(X, start)

    def _check_finite(self, X: Any, start: int) -> None:
        finite = self.xp.isfinite(X)
        if not bool(self.xp.all(finite)):
            row, column = map(int, np.argwhere(~to_host(finite))[0])
            raise not_finite(float(X[row, column]), start + row, column)


class _Concatenated(Mapped):
    """Row results on a device, concatenated at the end."""

    def __init__(self, n_rows: int, xp: Any) -> None:
        super().__init__(n_rows)
        self._xp = xp
        self._parts: list[Any] = []

    def write(self, start: int, stop: int, result: Any) -> None:
        self._parts.append(result)

    def result(self) -> Any:
        if not self._parts:
            return None
        return self._parts[0] if len(self._parts) == 1 else self._xp.concat(self._parts, axis=0)
