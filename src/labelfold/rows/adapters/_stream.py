"""Rows that are read in every pass: files of numbers, memory maps, temporary files of decoded rows, and iterables."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import islice, pairwise
from pathlib import Path
from threading import Event, Lock
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import BESIDE, CSRBlock, DenseBlock, dense_block_rows
from labelfold.rows._rows import RowFunction, Rows, result_and_sums
from labelfold.rows._sums import Accumulator
from labelfold.rows.adapters._local import (
    LocalRows,
    RowResults,
    blocks_between,
    check_aligned,
    check_finite,
    even_cuts,
    floating,
    memory_rows,
    stacked_rows,
)

# Up to this many unwanted rows between two wanted ones are read with them, which takes less time than a further read
# (benchmarks/limits.py: 0.4 of the time at 64 rows of 100 numbers, more at 256).
_MAX_GAP = 64
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

    place = "in a file"

    def __init__(
        self, file: BinaryIO, path: str | os.PathLike[str] | None = None, *, fixed: bool = False
    ) -> None:
        self.file, self.path = file, path
        self._stamp = stamp(file) if fixed else None
        weakref.finalize(self, file.close)
        if hasattr(os, "posix_fadvise"):  # the system reads further ahead, while this process computes
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def sweep(self, f: RowFunction, *aligned: Any, **options: Any) -> tuple[Any, Any]:
        """Make one pass over the file, which must be the same before and after it."""
        self.check_unchanged()
        answer = super().sweep(f, *aligned, **options)
        self.check_unchanged()
        return answer

    def check_unchanged(self) -> None:
        """Raise an error if the user's file has been written to since it was opened."""
        if self._stamp is not None and stamp(self.file) != self._stamp:
            raise changed(self.path)


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
        path: str | os.PathLike[str] | None = None,
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

    def sweep(self, f: RowFunction, *aligned: Any, **options: Any) -> tuple[Any, Any]:
        """Make one pass over the file; the first one checks that its values are finite."""
        answer = super().sweep(f, *aligned, **options)
        self._checked = True
        return answer

    def block(self, start: int, stop: int) -> DenseBlock:
        """Read rows ``start`` to ``stop``."""
        X = np.empty((stop - start, self.shape[1]), dtype=self.stored)
        self._read(start, stop, bytes_of(X))
        if not self._checked:
            check_finite(X, start)
        return DenseBlock(X.astype(self.dtype, copy=False))

    def take(self, index: np.ndarray) -> Rows:
        """Read the rows at ``index``, adjacent rows together."""
        self.check_unchanged()
        index = np.asarray(index, dtype=np.int64)
        order = np.argsort(index, kind="stable")
        out = np.empty((len(index), self.shape[1]), dtype=self.dtype)
        most = block_rows(self._stride())
        for run in np.split(order, np.flatnonzero(np.diff(index[order]) > _MAX_GAP) + 1):
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
        For each block the boundaries of its rows and the column indices, as int32, and the values.
    shape : pair of int
    dtype : dtype
        The type of the values.
    starts : ndarray
        The first row of each block, and n.
    offsets, sizes : ndarray
        Where each block begins in the file, in bytes, and the number of its values.
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
        first_column: int = 0,
    ) -> None:
        super().__init__(file)
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.starts, self.offsets, self.sizes = starts, offsets, sizes
        self.first_column = first_column

    def cuts(self) -> np.ndarray:
        """Return the boundaries of the stored blocks."""
        return self.starts

    def reader(self) -> Callable[[int, int], CSRBlock]:
        """Return a function that reads the blocks of one worker; a stored block that is cut is read once."""
        held: dict[int, Any] = {}

        def read(start: int, stop: int) -> CSRBlock:
            i = int(np.searchsorted(self.starts, start, side="right")) - 1
            if i not in held:
                held.clear()
                held[i] = self._stored(i)
            indptr, indices, data = held[i]
            indptr = indptr[start - self.starts[i] : stop - self.starts[i] + 1]
            part = slice(indptr[0], indptr[-1])
            return CSRBlock(
                data[part], indices[part], indptr - indptr[0], self.shape[1], int(self.sizes.sum())
            )

        return read

    def block(self, start: int, stop: int) -> CSRBlock:
        """Read the stored block that holds rows ``start`` to ``stop``."""
        return self.reader()(start, stop)

    def take(self, index: np.ndarray) -> Rows:
        """Read the rows at ``index``, block by block."""
        index = np.asarray(index, dtype=np.int64)
        order = np.argsort(index, kind="stable")
        wanted, pieces = index[order], []
        for start, stop in pairwise(self.starts):
            a, b = np.searchsorted(wanted, [start, stop])
            if b > a:
                pieces.append(self.block(int(start), int(stop)).raw[wanted[a:b] - start])
        return stacked_rows(pieces, order, self.shape[1], self.dtype)

    def row_bytes(self) -> float:
        """Return the bytes of an average row."""
        return float(self.sizes.sum()) / max(1, self.shape[0]) * (self.dtype.itemsize + 4) + 4

    def _stored(self, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n, size, at = int(self.starts[i + 1] - self.starts[i]), int(self.sizes[i]), int(self.offsets[i])
        indptr, indices, data = (
            np.empty(length, dtype)
            for length, dtype in ((n + 1, np.int32), (size, np.int32), (size, self.dtype))
        )
        for part in (indptr, indices, data):
            at += fill(self.file, bytes_of(part), at)
        return indptr, indices - np.int32(self.first_column), data


def block_rows(stride: int) -> int:
    """Return the number of rows that a worker reads at a time, from the bytes of a row in the file."""
    return dense_block_rows(max(1, stride), BESIDE)


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


class Cache:
    """Rows in a temporary file: dense blocks, or sparse ones.

    The file is in the folder that ``TMPDIR`` names. It has no name of its own, so no other process can read it half
    written, and the system removes it when the rows are no longer used or the process ends, for whatever reason.

    Parameters
    ----------
    source : path
        The file that is decoded, for messages.
    """

    def __init__(self, source: Any) -> None:
        self.source, self.n_bytes = source, 0
        self.file: Any = None
        self.dtype: Any = None
        self.starts = [0]
        self.offsets: list[int] = []
        self.sizes: list[int] = []

    def expect(self, n_bytes: float, free: int | None = None) -> None:
        """Raise an error if there is no room for this many bytes; ``free`` is the room that was measured before."""
        free = _free_bytes() if free is None else free
        if n_bytes > free:
            self.close()
            raise self._no_room(f"needs {_megabytes(n_bytes)} there and finds {_megabytes(free)}")

    def keep(self, X: Any, times: float) -> None:
        """Append rows, checked to be finite; after the first, check that there is room for ``times`` as much."""
        free = _free_bytes() if len(self.starts) == 1 else None
        self.add(memory_rows(X, first_row=self.starts[-1]).X)
        if free is not None:
            self.expect(self.n_bytes * times, free)

    def add(self, X: Any) -> None:
        """Append dense rows, or sparse ones as a block."""
        self.starts.append(self.starts[-1] + X.shape[0])
        self.dtype = X.dtype
        if not sparse.issparse(X):
            self.write(X)
            return
        self.offsets.append(self.n_bytes)
        self.sizes.append(X.nnz)
        for part in (X.indptr.astype(np.int32, copy=False), X.indices.astype(np.int32, copy=False), X.data):
            self.write(part)

    def write(self, array: np.ndarray, at: int | None = None) -> None:
        """Write the bytes of an array, at the end or at a place."""
        view = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        try:
            if self.file is None:
                self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the rows close it
            self.file.seek(self.n_bytes if at is None else at)
            while len(view):
                view = view[self.file.write(view) :]
        except OSError as error:
            self.close()
            raise self._no_room(f"cannot write there ({error.strerror})") from error
        self.n_bytes = max(self.n_bytes, self.file.tell())

    def close(self) -> None:
        """Remove the file."""
        if self.file is not None:
            self.file.close()

    def rows(self, n_columns: int | None, *, first_column: int = 0, checked: bool = True) -> Rows:
        """Return the rows, which close the file in the end.

        Parameters
        ----------
        n_columns : int or None
        first_column : int
            The index of the first column in sparse rows.
        checked : bool
            Whether dense rows are known to be finite.
        """
        if n_columns is None or not self.starts[-1]:
            raise ValueError(
                f"{self.source} holds no rows, where at least one row is expected; give it some rows"
            )
        shape = (self.starts[-1], n_columns)
        if not self.offsets:
            return FileRows(self.file, shape, self.dtype, checked=checked)
        starts, offsets, sizes = map(np.array, (self.starts, self.offsets, self.sizes))
        return FileCSRRows(self.file, shape, self.dtype, starts, offsets, sizes, first_column)

    def _no_room(self, why: str) -> OSError:
        return OSError(
            f"{self.source} is decoded to a temporary file in {tempfile.gettempdir()}, but labelfold {why}; name a "
            "folder with more room by the environment variable TMPDIR"
        )


def _free_bytes() -> int:
    """Return the free bytes in the folder of temporary files."""
    return shutil.disk_usage(tempfile.gettempdir()).free


def _megabytes(n_bytes: float) -> str:
    """Return a size in words.

    >>> _megabytes(3.2e9), _megabytes(5e4)
    ('3,200 MB', '1 MB')
    """
    return f"{max(1, round(n_bytes / 1e6)):,} MB"


class IterableRows(Rows):
    """Rows in blocks from a source that can be iterated repeatedly.

    Parameters
    ----------
    source : iterable or callable
        Yields 2-D arrays or SciPy sparse matrices, the same ones in the same order each time: a list of blocks, an
        object with ``__iter__``, or a function that returns a new iterator.
    """

    place = "in blocks"

    def __init__(self, source: Iterable | Callable[[], Iterable]) -> None:
        self._source = source
        self._sparse, all_sparse = False, True
        sizes: list[int] = []
        widths, kinds, n_bytes = set(), set(), 0.0
        for block in self._blocks():
            rows = memory_rows(block, first_row=sum(sizes))
            self._sparse |= sparse.issparse(block)
            all_sparse &= sparse.issparse(block)
            sizes.append(rows.shape[0])
            widths.add(rows.shape[1])
            kinds.add(rows.dtype)
            n_bytes += rows.shape[0] * rows.row_bytes()
        if not sizes or not sum(sizes):
            raise ValueError("the blocks given hold no rows; at least one row is expected")
        if len(widths) > 1:
            raise ValueError(
                f"the blocks have {sorted(widths)} columns, where all are expected to have as many; "
                "give every block the same columns"
            )
        self.shape = (sum(sizes), widths.pop())
        self.dtype = np.result_type(*kinds)
        if self._sparse and not all_sparse:  # dense blocks are made sparse, which changes their sizes
            read = (memory_rows(self._of_one_kind(block)) for block in self._blocks())
            n_bytes = sum(rows.shape[0] * rows.row_bytes() for rows in read)
        self._row_bytes = n_bytes / self.shape[0]

    def _blocks(self) -> Iterator[Any]:
        source = self._source
        blocks = iter(source() if callable(source) else source)
        if blocks is source:
            raise ValueError(
                "X is an iterator, which can be read only once, where several passes are needed; "
                "give a list of blocks, or a function that returns a new iterator"
            )
        return blocks

    def sweep(
        self,
        f: RowFunction,
        *aligned: Any,
        shared: tuple[Any, ...] = (),
        most_rows: int | None = None,
        returns: str = "both",
    ) -> tuple[Any, Any]:
        """Make one pass: one block for each thread at a time, summed in a fixed order."""
        self.n_passes += 1
        n = self.shape[0]
        aligned = tuple(np.asarray(check_aligned(a, n)) for a in aligned)
        shared, results = self.share(shared), RowResults(n)
        n_workers = threads.n_threads()
        workers = [Accumulator() for _ in range(n_workers)]

        def run(job: tuple[Any, ...], stop: Event) -> None:
            sums, start, rows = job
            for a, b in blocks_between(rows.cuts(), most_rows):
                if not stop.is_set():
                    here = slice(start + a, start + b)
                    made = f(rows.block(a, b), *(h[here] for h in aligned), *shared)
                    result, partial = result_and_sums(made, returns)
                    if result is not None:
                        results.store(here.start, here.stop, result)
                    sums.add(partial)

        start, blocks = 0, self._blocks()
        while batch := list(islice(blocks, n_workers)):
            jobs = []
            for sums, block in zip(workers, batch, strict=False):
                rows = memory_rows(self._of_one_kind(block), first_row=start)
                rows.dtype = self.dtype
                if rows.shape[1] != self.shape[1]:
                    raise _changed(f"{rows.shape[1]} columns", self.shape[1])
                jobs.append((sums, start, rows))
                start += rows.shape[0]
            if start > n:
                break
            threads.run_jobs(run, jobs)
        if start != n:
            raise _changed(f"{'more' if start > n else start} rows", n)
        return results.values, reduce(Accumulator.merge, workers).finish()

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``; blocks after the last of them are not read."""
        index = np.asarray(index, dtype=np.int64)
        order = np.argsort(index, kind="stable")
        wanted, pieces, start = index[order], [], 0
        for block in self._blocks():
            stop = start + block.shape[0]
            a, b = np.searchsorted(wanted, [start, stop])
            if b > a:
                pieces.append(memory_rows(self._of_one_kind(block)).take(wanted[a:b] - start).X)
            start = stop
            if b == len(wanted):
                break
        return stacked_rows(pieces, order, self.shape[1], self.dtype)

    def _of_one_kind(self, block: Any) -> Any:
        """Return a block as sparse if any block is, since sums of sparse and dense blocks have different types."""
        return sparse.csr_array(block) if self._sparse else block

    def row_bytes(self) -> float:
        """Return the bytes of an average row."""
        return self._row_bytes


def _changed(now: str, first: int) -> ValueError:
    return ValueError(
        f"a later pass over the blocks gave {now}, where the first gave {first}; "
        "the blocks must be the same in every pass"
    )
