"""Rows of a Dask array: one task for each chunk of rows, and sums merged by a tree."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import dask
import dask.array as da
import numpy as np

from labelfold.rows import _threads as threads
from labelfold.rows._protocol import RowFunction, Rows, spread_values
from labelfold.rows._sums import Accumulator
from labelfold.rows.adapters._local import (
    check_aligned,
    check_two_dimensional,
    floating,
    limit,
    match_dtype,
    merge,
    slabs,
)
from labelfold.rows.adapters._memory import memory_rows, stacked_rows

_FAN_IN = 8


class DaskRows(Rows):
    """Rows of a Dask array whose chunks hold NumPy arrays or SciPy sparse matrices."""

    def __init__(self, X: Any) -> None:
        if hasattr(X, "to_dask_array"):  # a Dask DataFrame
            X = X.to_dask_array(lengths=True)
        check_two_dimensional(X.ndim)
        if np.isnan(X.shape[0]):
            X = X.copy().compute_chunk_sizes()  # modifies the array
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        self.X = X
        self.dtype = floating(X.dtype)
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self._ends = np.concatenate([[0], np.cumsum(X.chunks[0])]).astype(np.int64)
        self._chunks = list(X.to_delayed()[:, 0])

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass, with a task for each chunk that contains rows."""
        self.n_passes += 1
        work = _everywhere((f, tuple(match_dtype(value, self.dtype) for value in shared), most_rows))
        columns = [self._parts(check_aligned(a, self.shape[0])) for a in aligned]
        tasks = []
        for i in self._occupied():
            start, parts = int(self._ends[i]), [column[i] for column in columns]
            tasks.append(_run_chunk(work, self._chunks[i], start, self.dtype, *parts))
        mapped = [_first(task) for task in tasks]
        total, about = _tree([_second(task) for task in tasks]), _about(mapped[0])
        # Persisted together: the chunks are read once, and the row results stay on their workers.
        *mapped, total, about = dask.persist(*mapped, total, about)
        total, about = dask.compute(total, about)
        return self._assemble(mapped, about), total.finish()

    def _assemble(self, mapped: list, about: tuple | None) -> Any:
        if about is None:
            return None
        sizes = np.diff(self._ends)[self._occupied()]
        shape, dtype = about
        return da.concatenate(
            [
                da.from_delayed(part, (int(size), *shape), dtype=dtype)
                for part, size in zip(mapped, sizes, strict=True)
            ]
        )

    def _occupied(self) -> np.ndarray:
        return np.flatnonzero(np.diff(self._ends))

    def _parts(self, a: Any) -> list:
        """Return a row-aligned array split like the rows."""
        if isinstance(a, da.Array):
            cuts = tuple(int(size) for size in np.diff(self._ends)[self._occupied()])
            a = a.rechunk({0: cuts, **dict.fromkeys(range(1, a.ndim), -1)})
            parts = dict(zip(self._occupied(), a.to_delayed().ravel(), strict=True))
            return [parts.get(i) for i in range(len(self._chunks))]
        a = np.asarray(a)
        return [a[start:stop] for start, stop in zip(self._ends[:-1], self._ends[1:], strict=True)]

    def spread(self, index: np.ndarray, values: Any, rest: Any = 0) -> Any:
        """Return a row-aligned array, created on the workers; each gets only the values of its own rows."""
        index, values = np.asarray(index), np.asarray(values)
        parts = [
            _made(spread_values, 0, stop - start, index[inside] - start, values[inside], rest)
            for _, start, stop, inside in self._shares(index)
        ]
        return self._assemble(list(dask.persist(*parts)), (values.shape[1:], values.dtype))

    def each(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return row results, computed on the workers."""
        columns = [self._parts(a) for a in aligned]
        parts = [
            _made(f, start, stop, *(column[i] for column in columns))
            for i, (start, stop) in zip(self._occupied(), self._spans(), strict=True)
        ]
        about = _about(parts[0])
        *parts, about = dask.persist(*parts, about)
        return self._assemble(parts, about.compute())

    def total(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return sums over row-aligned arrays, merged by a tree."""
        columns = [self._parts(a) for a in aligned]
        parts = [_summed(f, *(column[i] for column in columns)) for i in self._occupied()]
        return _tree(parts).compute().finish()

    def result(
        self, h: Any, f: Callable[[np.ndarray], np.ndarray] | None = None, at: tuple | None = None
    ) -> Any:
        """Return a Dask array, whose chunks stay on the workers; an array of the host stays there."""
        if not isinstance(h, da.Array):
            return super().result(h, f, at)
        index, values = (np.zeros(0, dtype=np.int64), None) if at is None else (at[0], np.asarray(at[1]))
        columns = self._parts(h)
        parts = [
            _replaced(columns[i], f, index[inside] - start, None if values is None else values[inside])
            for i, start, _, inside in self._shares(index)
        ]
        about = (
            np.empty((1, *h.shape[1:]), dtype=h.dtype)
            if f is None
            else f(np.zeros((1, *h.shape[1:]), h.dtype))
        )
        return self._assemble(list(dask.persist(*parts)), (about.shape[1:], about.dtype))

    def _shares(self, index: np.ndarray) -> Iterator[tuple[int, int, int, np.ndarray]]:
        """Yield number, start and stop of each chunk that contains rows, and a mask of the rows at index in it."""
        for i, (start, stop) in zip(self._occupied(), self._spans(), strict=True):
            yield i, start, stop, (index >= start) & (index < stop)

    def _spans(self) -> list[tuple[int, int]]:
        return [(int(self._ends[i]), int(self._ends[i + 1])) for i in self._occupied()]

    def put(self, a: Any) -> Any:
        """Return a row-aligned array as a Dask array with the chunks of the rows."""
        if isinstance(a, da.Array):
            return a
        a = np.asarray(check_aligned(a, self.shape[0]))
        cuts = tuple(int(size) for size in np.diff(self._ends)[self._occupied()])
        return da.from_array(a, chunks=(cuts, *((size,) for size in a.shape[1:])), name=False).persist()

    def get(self, h: Any) -> np.ndarray:
        """Return a row-aligned array as NumPy."""
        return np.asarray(h.compute() if isinstance(h, da.Array) else h)

    def pick(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return some entries of a row-aligned array as NumPy."""
        return np.asarray(h[index].compute() if isinstance(h, da.Array) else h[index])

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``; only the chunks that contain them are read."""
        index = np.asarray(index, dtype=np.int64)
        order = np.argsort(index, kind="stable")
        wanted = index[order]
        bounds = np.searchsorted(wanted, self._ends)
        parts = [
            _take_chunk(self._chunks[i], wanted[a:b] - self._ends[i], int(self._ends[i]))
            for i, (a, b) in enumerate(itertools.pairwise(bounds))
            if b > a
        ]
        pieces = dask.compute(*parts)
        return stacked_rows(pieces, order, self.shape[1], self.dtype)

    def row_bytes(self) -> float:
        """Return the bytes of one dense row; the size of a sparse chunk is known only to its worker."""
        return self.shape[1] * self.dtype.itemsize


def _everywhere(value: Any) -> Any:
    """Return a value that every task needs, sent once to each worker if there is a cluster."""
    client: Any = getattr(dask.base.get_scheduler(), "__self__", None)
    if not hasattr(client, "scatter"):
        return dask.delayed(value, pure=False, traverse=False)
    return client.scatter(_Box(value), broadcast=True, hash=False)


class _Box:
    """A value that is scattered as one object (a tuple would be scattered item by item)."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dask.delayed(pure=False)
def _run_chunk(work: Any, chunk: Any, start: int, dtype: np.dtype, *aligned: Any) -> tuple[Any, Accumulator]:
    f, shared, most_rows = work.value if isinstance(work, _Box) else work
    rows = memory_rows(chunk, first_row=start)
    rows.dtype = dtype
    mapped, sums = rows.mapped(), Accumulator()
    with threads.single_blas():
        for a, b in slabs(limit(rows.cuts(), most_rows), 1)[0]:
            result, partial = f(rows.block(a, b), *(h[a:b] for h in aligned), *shared)
            mapped.store(a, b, result)
            sums.add(partial)
    return mapped.result(), sums


@dask.delayed(pure=False)
def _take_chunk(chunk: Any, index: np.ndarray, start: int) -> Any:
    return memory_rows(chunk, first_row=start).take(index).X


@dask.delayed(pure=False)
def _made(f: Callable[..., Any], *args: Any) -> Any:
    return f(*args)


@dask.delayed(pure=False)
def _summed(f: Callable[..., Any], *parts: Any) -> Accumulator:
    sums = Accumulator()
    sums.add(f(*parts))
    return sums


@dask.delayed(pure=False)
def _replaced(
    part: np.ndarray,
    f: Callable[[np.ndarray], np.ndarray] | None,
    index: np.ndarray,
    values: np.ndarray | None,
) -> np.ndarray:
    found = part.copy() if f is None else f(part)
    if len(index):
        found[index] = values
    return found


@dask.delayed(pure=False)
def _about(mapped: Any) -> tuple | None:
    return None if mapped is None else (mapped.shape[1:], mapped.dtype)


_first = dask.delayed(itemgetter(0), pure=False)
_second = dask.delayed(itemgetter(1), pure=False)
_merge = dask.delayed(merge, pure=False)


def _tree(sums: list) -> Any:
    """Merge neighbours, then the results of neighbours, in order."""
    while len(sums) > 1:
        sums = [_merge(sums[i : i + _FAN_IN]) for i in range(0, len(sums), _FAN_IN)]
    return sums[0]
