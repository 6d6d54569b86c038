"""Rows that are read again in every pass from re-iterables of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from threading import Event
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows import _threads as threads
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows._sums import Accumulator
from labelfold.rows.adapters._local import Mapped, check_aligned, limit, match_dtype as match, merge
from labelfold.rows.adapters._memory import memory_rows, stacked_rows


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
            threads.run_jobs(run, jobs)
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
