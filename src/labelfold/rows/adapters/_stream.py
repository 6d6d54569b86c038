"""Rows that are read from a file in every pass: .npy files, memory maps, and the temporary files of `_cache.py`."""

from __future__ import annotations

import math
import mmap
import os
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np

from labelfold.rows._blocks import Block, CSRBlock, DenseBlock
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows.adapters._local import LocalRows, check_finite, even_cuts, floating
from labelfold.rows.adapters._memory import memory_rows, stacked_rows

# Bytes that each worker reads at a time: half of a usual second-level cache, where the block stays while it is used.
FILE_BYTES = 1 << 19
FILE_ROWS = 64
FILE_MOST_BYTES = 16 << 20

_preadv = getattr(os, "preadv", None)
_one_position = Lock()


def fill(file: BinaryIO, view: memoryview, offset: int) -> int:
    """Read bytes of a file from an offset into memory; return how many bytes there were."""
    done = 0
    while done < len(view):
        rest = view[done:] if done else view
        if _preadv is not None:
            got = _preadv(file.fileno(), [rest], offset + done)
        else:
            with _one_position:
                file.seek(offset + done)
                got = file.readinto(rest)  # type: ignore[attr-defined]
        if not got:
            break
        done += got
    return done


def bytes_of(array: np.ndarray) -> memoryview:
    """Return the memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


class StreamedRows(LocalRows):
    """Rows of an open file, read block by block and not mapped.

    Slicing a memory map would keep every page that was touched in the memory of this process. The file is closed when
    the rows are no longer used.

    Parameters
    ----------
    file : binary file
        It is read by position, so threads share it.
    path : path or None
        The name of the file, if it is the user's.
    fixed : bool
        Whether to raise an error if the file changes between passes.
    """

    def __init__(self, file: BinaryIO, path: str | os.PathLike | None = None, *, fixed: bool = False) -> None:
        self.file, self.path = file, path
        self._stamp = stamp(file) if fixed else None
        weakref.finalize(self, file.close)
        if hasattr(os, "posix_fadvise"):  # the system reads further ahead, while this process computes
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass over the file, which must be the same before and after it."""
        self.check_unchanged()
        answer = super().sweep(f, *aligned, shared=shared, most_rows=most_rows)
        self.check_unchanged()
        return answer

    def check_unchanged(self) -> None:
        """Raise an error if the user's file has been written to since it was opened."""
        if self._stamp is not None and stamp(self.file) != self._stamp:
            raise changed(self.path)

    @contextmanager
    def reading(self) -> Iterator[Callable[[int, int], Block]]:
        """Provide blocks for one worker, all read into the same memory."""
        space = _Space()

        def read(start: int, stop: int) -> Block:
            return self.read(start, stop, space)

        yield read

    def block(self, start: int, stop: int) -> Block:
        """Read rows ``start`` to ``stop``."""
        return self.read(start, stop, _Space())

    @abstractmethod
    def read(self, start: int, stop: int, space: _Space) -> Block:
        """Read rows ``start`` to ``stop`` into the memory of a worker."""


class _Space:
    """The memory of one worker for the blocks that it reads, one at a time."""

    def __init__(self) -> None:
        self._parts: dict[str, np.ndarray] = {}
        self._found: dict[tuple, tuple[np.ndarray, memoryview]] = {}
        self.held: tuple | None = None

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, memoryview]:
        """Return an array of this shape and its memory, which is used again for the next one of that name."""
        found = self._found.get((name, *shape))
        if found is None:
            size = math.prod(shape)
            if name not in self._parts or len(self._parts[name]) < size:
                self._parts[name] = np.empty(size, dtype=dtype)
                self._found.clear()
            array = self._parts[name][:size].reshape(shape)
            found = self._found[name, *shape] = array, bytes_of(array)
        return found


class FileRows(StreamedRows):
    """Rows of a C-ordered array in a file.

    Parameters
    ----------
    file, path, fixed
        See `StreamedRows`.
    shape : pair of int
    dtype : dtype
        The type of the stored numbers.
    offset : int
        Where they begin, in bytes.
    checked : bool
        Whether they are known to be finite.
    """

    def __init__(
        self,
        file: BinaryIO,
        shape: tuple[int, int],
        dtype: Any,
        offset: int = 0,
        *,
        path: str | os.PathLike | None = None,
        fixed: bool = False,
        checked: bool = False,
    ) -> None:
        super().__init__(file, path, fixed=fixed)
        self.stored = np.dtype(dtype)
        self.dtype = floating(self.stored)
        self.shape = (int(shape[0]), int(shape[1]))
        self.offset = int(offset)
        self._checked = checked

    def cuts(self) -> np.ndarray:
        """Return the block boundaries."""
        return even_cuts(self.shape[0], block_rows(self._stride()))

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass over the file; the first one checks that its values are finite."""
        answer = super().sweep(f, *aligned, shared=shared, most_rows=most_rows)
        self._checked = True
        return answer

    def read(self, start: int, stop: int, space: _Space) -> DenseBlock:
        """Read rows ``start`` to ``stop``."""
        shape = (stop - start, self.shape[1])
        X, memory = space.array("stored", shape, self.stored)
        self._read(start, stop, memory)
        if not self._checked:
            check_finite(X, start)
        if self.stored != self.dtype:
            stored, (X, _) = X, space.array("numbers", shape, self.dtype)
            np.copyto(X, stored, casting="same_kind")
        return DenseBlock(X)

    def take(self, index: np.ndarray) -> Rows:
        """Read the rows at ``index``, adjacent rows together."""
        self.check_unchanged()
        index = np.asarray(index, dtype=np.int64)
        order = np.argsort(index, kind="stable")
        out = np.empty((len(index), self.shape[1]), dtype=self.dtype)
        most = min(FILE_ROWS * 16, block_rows(self._stride()))
        for run in np.split(order, np.flatnonzero(np.diff(index[order]) > FILE_ROWS) + 1):
            if len(run):
                first, last = index[run[0]], index[run[-1]] + 1
                for a in range(first, last, most):
                    X = np.empty((min(most, last - a), self.shape[1]), dtype=self.stored)
                    self._read(a, a + len(X), bytes_of(X))
                    here = run[(index[run] >= a) & (index[run] < a + most)]
                    out[here] = X[index[here] - a]
        check_finite(out, index)
        return memory_rows(out)

    def row_bytes(self) -> float:
        """Return the bytes of one row in memory."""
        return self.shape[1] * self.dtype.itemsize

    def _stride(self) -> int:
        return self.shape[1] * self.stored.itemsize

    def _read(self, start: int, stop: int, memory: memoryview) -> None:
        got = fill(self.file, memory, self.offset + start * self._stride())
        if got < len(memory):
            raise ValueError(
                f"{self.path} ends at row {start + got // self._stride()}, where {self.shape[0]} rows are expected; "
                "write the file again"
            )


class FileCSRRows(StreamedRows):
    """Sparse rows in a temporary file, one stored block after the other.

    Parameters
    ----------
    file : binary file
        For each block the boundaries of its rows (int32), the column indices and the values.
    shape : pair of int
    dtype : dtype
        The type of the values.
    starts : ndarray
        The first row of each block, and n.
    offsets, sizes : ndarray
        Where each block begins in the file, in bytes, and the number of its values.
    kinds : sequence of pairs of dtype
        The types in which the column indices and the values of each block are stored.
    first_column : int
        The index of the first column in the file.
    """

    def __init__(
        self,
        file: BinaryIO,
        shape: tuple[int, int],
        dtype: Any,
        starts: np.ndarray,
        offsets: np.ndarray,
        sizes: np.ndarray,
        kinds: Sequence[tuple[np.dtype, np.dtype]],
        first_column: int = 0,
    ) -> None:
        super().__init__(file)
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.starts, self.offsets, self.sizes, self.kinds = starts, offsets, sizes, kinds
        self.first_column = first_column

    def cuts(self) -> np.ndarray:
        """Return the boundaries of the stored blocks."""
        return self.starts

    def read(self, start: int, stop: int, space: _Space) -> CSRBlock:
        """Read the stored block that holds rows ``start`` to ``stop``, unless it has just been read."""
        i = int(np.searchsorted(self.starts, start, side="right")) - 1
        if space.held is None or space.held[0] != i:
            space.held = (i, self._stored(i, space))
        indptr, indices, data = space.held[1]
        indptr = indptr[start - self.starts[i] : stop - self.starts[i] + 1]
        part = slice(indptr[0], indptr[-1])
        return CSRBlock(data[part], indices[part], indptr - indptr[0], self.shape[1], int(self.sizes.sum()))

    def take(self, index: np.ndarray) -> Rows:
        """Read the rows at ``index``, block by block."""
        index = np.asarray(index, dtype=np.int64)
        order = np.argsort(index, kind="stable")
        wanted, pieces, space = index[order], [], _Space()
        for start, stop in pairwise(self.starts):
            a, b = np.searchsorted(wanted, [start, stop])
            if b > a:
                pieces.append(self.read(int(start), int(stop), space).raw[wanted[a:b] - start])
        return stacked_rows(pieces, order, self.shape[1], self.dtype)

    def row_bytes(self) -> float:
        """Return the bytes of an average row."""
        return float(self.sizes.sum()) / max(1, self.shape[0]) * (self.dtype.itemsize + 4) + 4

    def _stored(self, i: int, space: _Space) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n, size, at = int(self.starts[i + 1] - self.starts[i]), int(self.sizes[i]), int(self.offsets[i])
        int32 = np.dtype(np.int32)
        index_kind, value_kind = self.kinds[i]
        found = []
        for name, length, kind in (
            ("indptr", n + 1, int32),
            ("indices", size, index_kind),
            ("data", size, value_kind),
        ):
            part, memory = space.array(f"{name} {kind}", (length,), kind)
            at += fill(self.file, memory, at)
            found.append(part)
        found[1] -= self.first_column
        for place, kind in ((1, int32), (2, self.dtype)):
            if found[place].dtype != kind:
                narrow, (found[place], _) = found[place], space.array(f"wide {place}", (size,), kind)
                np.copyto(found[place], narrow)
        return found[0], found[1], found[2]


def block_rows(stride: int) -> int:
    """Return the number of rows of a block of a file, from the bytes of a row."""
    rows = max(FILE_BYTES // max(1, stride), FILE_ROWS)
    return int(max(1, min(rows, FILE_MOST_BYTES // max(1, stride))))


def stamp(file: BinaryIO) -> tuple[int, int]:
    """Return the size of an open file and when it was last written to."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def changed(path: Any) -> ValueError:
    """Return the error for a file that is written to while it is read."""
    return ValueError(
        f"{path} has changed since it was first read, where the same rows are expected in every pass; "
        "wait until it is written, and fit again"
    )


def memmap_rows(X: np.memmap) -> Rows:
    """Return rows of a memory map, streamed from its file if the rows are contiguous in it."""
    mapping, filename = getattr(X, "_mmap", None), getattr(X, "filename", None)
    if (
        X.ndim != 2
        or not X.flags.c_contiguous
        or not isinstance(mapping, mmap.mmap)
        or filename is None
        or X.mode == "c"  # changes to a copy-on-write map are not in the file
    ):
        return memory_rows(np.asarray(X))
    # A slice of a map keeps the offset of its parent, so the true offset is computed from the addresses.
    start_of_map = np.frombuffer(mapping, dtype=np.uint8).__array_interface__["data"][0]
    offset_of_map = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
    offset = X.__array_interface__["data"][0] - start_of_map + offset_of_map
    # other parts of a map may be written to between passes, so that the file is not checked for changes
    return FileRows(Path(filename).open("rb", buffering=0), X.shape, X.dtype, offset, path=filename)
