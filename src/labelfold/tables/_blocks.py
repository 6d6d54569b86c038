"""Tables that are read in blocks: the sample that a recipe is fitted on, and parallel transforms of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.tables._arrow import pa

# Largest numbers of evenly spaced rows, and of labelled rows, that a recipe is fitted on.
LEARNED_FROM, LABELLED = 100_000, 20_000
# Number of rows that are transformed at a time.
BLOCK = 131_072


@dataclass(frozen=True)
class Blocks:
    """A table that is read in blocks in every pass, because it may be larger than memory.

    Attributes
    ----------
    column_names : list of str
    num_rows : int
    read : callable
        ``read(columns)`` yields the blocks in order, as Arrow tables.
    sample : pyarrow.Table
        The rows to fit on.
    places : ndarray
        Indices of these rows, ascending.
    """

    column_names: list[str]
    num_rows: int
    read: Callable[[list[str]], Iterable[Any]] = field(repr=False)
    sample: Any = field(repr=False)
    places: np.ndarray = field(repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.num_rows, len(self.column_names)


class Sampler:
    """Samples evenly spaced rows, and labelled ones, from a stream of blocks of unknown length.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sampler = Sampler(most=4)
    >>> for start in range(0, 20, 5):
    ...     sampler.add(pa.table({"x": list(range(start, start + 5))}), np.zeros(5, dtype=bool))
    >>> sampler.result()[1].tolist()
    [0, 8, 16]
    """

    def __init__(self, most: int = LEARNED_FROM) -> None:
        self.most, self.stride, self.rows, self.wanted = most, 1, 0, 0
        self.kept: list[tuple[Any, np.ndarray, np.ndarray]] = []

    def add(self, block: Any, wanted: np.ndarray) -> None:
        """Add a block; rows in ``wanted`` are always kept, up to 20,000."""
        places = np.arange(self.rows, self.rows + block.num_rows)
        wanted = wanted & (self.wanted + np.cumsum(wanted) <= LABELLED)
        self.rows, self.wanted = self.rows + len(places), self.wanted + int(wanted.sum())
        self.kept.append((block, places, wanted))
        self._thin(2 * self.most)

    def _thin(self, most: int) -> None:
        stride = self.stride
        while self.rows // self.stride > most:
            self.stride *= 2
        # rows of earlier blocks were thinned with the previous stride
        first = len(self.kept) - 1 if stride == self.stride else 0
        for i, (block, places, wanted) in enumerate(self.kept[first:], first):
            keep = (places % self.stride == 0) | wanted
            if not keep.all():
                self.kept[i] = (block.filter(pa.array(keep)), places[keep], wanted[keep])

    def result(self) -> tuple[Any, np.ndarray]:
        """Return the sampled rows and their indices."""
        self._thin(self.most)
        table = pa.concat_tables([block for block, _, _ in self.kept], promote_options="permissive")
        return table, np.concatenate([places for _, places, _ in self.kept])


def slices(table: Any) -> Iterator[Any]:
    """Yield the rows of an Arrow table, a block at a time."""
    for start in range(0, max(table.num_rows, 1), BLOCK):
        yield table.slice(start, BLOCK)


def filled(parts: Iterable[np.ndarray], n: int) -> np.ndarray:
    """Return parts of n rows as one array; each part is released once it is copied.

    >>> filled(iter([np.ones((1, 2)), np.zeros((2, 2))]), 3).tolist()
    [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """
    out, start = np.empty((0, 0)), 0
    for part in parts:
        if len(part) == n:
            return part
        if not start:
            out = np.empty((n, part.shape[1]), dtype=part.dtype)
        out[start : start + len(part)] = part
        start += len(part)
    return out


def stacked(parts: Iterable[sp.csr_array], n: int) -> sp.csr_array:
    """Return parts of n sparse rows as one array; each part is released once it is copied.

    >>> stacked(iter([sp.csr_array([[0, 1]]), sp.csr_array([[2, 0], [0, 3]])]), 3).toarray().tolist()
    [[0, 1], [2, 0], [0, 3]]
    """
    data, indices, start, width = np.empty(0), np.empty(0, dtype=np.int32), 0, 0
    counts: list[np.ndarray] = []
    for part in parts:
        if part.shape[0] == n:
            return part
        if not counts:
            data, width = data.astype(part.dtype), part.shape[1]
        end, rows = start + part.nnz, part.shape[0] + sum(len(some) for some in counts)
        if end > len(data):
            # estimated from the rows so far; pages that are never written to take no memory
            room = int(1.1 * end * n / rows) if rows < n else end
            small = np.int32 if max(room, width) < 2**31 else np.int64
            data, indices = _grown(data, room, data.dtype), _grown(indices, room, small)
        data[start:end], indices[start:end] = part.data, part.indices
        counts.append(np.diff(part.indptr))
        start = end
    data.resize(start, refcheck=False)
    indices.resize(start, refcheck=False)
    indptr = np.zeros(n + 1, dtype=indices.dtype)
    np.cumsum(np.concatenate(counts), out=indptr[1:])
    return sp.csr_array((data, indices, indptr), shape=(n, width))


def _grown(values: np.ndarray, room: int, dtype: Any) -> np.ndarray:
    out = np.empty(room, dtype=dtype)
    out[: len(values)] = values
    return out
