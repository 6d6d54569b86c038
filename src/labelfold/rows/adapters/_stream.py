"""Rows that are read again in every pass: .npy files, memory maps, and re-iterables of blocks."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import DenseBlock
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows._sums import Accumulator
from labelfold.rows.adapters._local import (
    LocalRows,
    Mapped,
    check_aligned,
    check_finite,
    even_cuts,
    floating,
    limit,
    merge,
)
from labelfold.rows.adapters._local import match_dtype as match
from labelfold.rows.adapters._memory import memory_rows, stacked_rows

# Bytes that each worker reads at a time, so that they stay in the cache.
FILE_BYTES = 1 << 20
FILE_ROWS = 64


class FileRows(LocalRows):
    """Rows of a C-ordered array in a file, read block by block and not mapped.

    Slicing a memory map would keep every page that was touched in the memory of this process.
    """

    def __init__(
        self, path: str | os.PathLike, shape: tuple[int, int], dtype: np.dtype, offset: int = 0
    ) -> None:
        self.path = Path(path)
        self.shape = (int(shape[0]), int(shape[1]))
        self.stored = np.dtype(dtype)
        self.dtype = floating(self.stored)
        self.offset = int(offset)
        self._checked = False

    def cuts(self) -> np.ndarray:
        """Return the block boundaries."""
        return even_cuts(self.shape[0], max(FILE_BYTES // max(1, self._stride()), FILE_ROWS))

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass over the file; the first one checks that its values are finite."""
        answer = super().sweep(f, *aligned, shared=shared, most_rows=most_rows)
        self._checked = True
        return answer

    def block(self, start: int, stop: int) -> DenseBlock:
        """Read rows ``start`` to ``stop``."""
        X = self._read(start, stop)
        if not self._checked:
            check_finite(X, start)
        return DenseBlock(X.astype(self.dtype, copy=False))

    def take(self, index: np.ndarray) -> Rows:
        """Read the rows at ``index``, adjacent rows together."""
        index = np.asarray(index, dtype=np.int64)
        order = np.argsort(index, kind="stable")
        out = np.empty((len(index), self.shape[1]), dtype=self.dtype)
        for run in np.split(order, np.flatnonzero(np.diff(index[order]) > FILE_ROWS) + 1):
            if len(run):
                first, last = index[run[0]], index[run[-1]] + 1
                for a in range(first, last, FILE_ROWS * 16):
                    X = self._read(a, min(a + FILE_ROWS * 16, last))
                    here = run[(index[run] >= a) & (index[run] < a + FILE_ROWS * 16)]
                    out[here] = X[index[here] - a]
        check_finite(out, index)
        return memory_rows(out)

    def row_bytes(self) -> float:
        """Return the bytes of one row in memory."""
        return self.shape[1] * self.dtype.itemsize

    def _stride(self) -> int:
        return self.shape[1] * self.stored.itemsize

    def _read(self, start: int, stop: int) -> np.ndarray:
        X = np.empty((stop - start, self.shape[1]), dtype=self.stored)
        view = X.reshape(-1).view(np.uint8).data
        # Opened for each block: threads cannot share a position in a file, and opening costs almost nothing.
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset + start * self._stride())
            done = 0
            while done < len(view):
                got = file.readinto(view[done:])
                if not got:
                    raise ValueError(
                        f"{self.path} ends at row {start + done // self._stride()}, "
                        f"where {self.shape[0]} rows are expected; write the file again"
                    )
                done += got
        return X


def npy_rows(path: str | os.PathLike) -> Rows:
    """Return rows of a .npy file."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give the path of a .npy file")
    try:
        mapped = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, OSError) as problem:
        raise ValueError(
            f"{path} cannot be read as a .npy file of numbers ({problem}); write one with numpy.save"
        ) from problem
    return memmap_rows(mapped)


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
    return FileRows(filename, X.shape, X.dtype, offset)


class IterableRows(Rows):
    """Rows in blocks from a source that can be iterated repeatedly.

    Parameters
    ----------
    source : iterable or callable
        Yields 2-D arrays or SciPy sparse matrices, the same ones in the same order each time: a list of blocks, an
        object with ``__iter__``, or a function that returns a new iterator.
    """

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
        if self._sparse and not all_sparse:  # dense blocks are read as sparse, with other sizes
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
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass: one block for each thread at a time, summed in a fixed order."""
        self.n_passes += 1
        n = self.shape[0]
        aligned = tuple(np.asarray(check_aligned(a, n)) for a in aligned)
        shared = tuple(match(value, self.dtype) for value in shared)
        mapped = Mapped(n)
        n_workers = threads.n_threads()
        workers = [Accumulator() for _ in range(n_workers)]

        def run(job: tuple, stop: Event) -> None:
            sums, start, rows = job
            for a, b in pairwise(limit(rows.cuts(), most_rows)):
                if b > a and not stop.is_set():
                    here = slice(start + int(a), start + int(b))
                    result, partial = f(rows.block(int(a), int(b)), *(h[here] for h in aligned), *shared)
                    mapped.store(here.start, here.stop, result)
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
            threads.run(run, jobs)
        if start != n:
            raise _changed(f"{'more' if start > n else start} rows", n)
        return mapped.result(), merge(workers).finish()

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
