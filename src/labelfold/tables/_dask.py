"""Dask tables: the workers read their partitions, and make the matrix of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph

from labelfold.rows import check_bytes, lazy_tasks, single_blas, with_retries
from labelfold.tables._arrow import as_arrow, cast_cells, common_type, slices
from labelfold.tables._unseen import Tally

Transform = Callable[[Any], tuple[Any, Tally]]
Join = Callable[[Iterable[Any], int], Any]
# Budget: number of counts that one task merges.
_FAN_IN = 8


class Partitions:
    """A Dask DataFrame, or a Dask array of a table, whose partitions the workers read in every pass.

    One pass over the columns of Python objects, or over one column if there are none, finds the number of rows of
    each partition, and the types that these columns have in all partitions together.

    Attributes
    ----------
    column_names : list of str
    num_rows : int
    sizes : list of int
        The number of rows in each partition.
    named : bool
        Whether the columns have names of their own.
    """

    def __init__(self, X: Any) -> None:
        if not (isinstance(X, da.Array) or hasattr(type(X), "to_dask_array")) or X.ndim != 2:
            raise ValueError(
                f"X is a Dask {type(X).__name__} without rows and columns, where a table is expected; pass a Dask "
                "DataFrame, or a Dask array of two dimensions"
            )
        self.named: bool = hasattr(X, "columns")
        if self.named:
            self._labels = list(X.columns)
            objects = [label for label in self._labels if X[label].dtype == object]
        else:
            X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
            self._labels = [f"x{j}" for j in range(X.shape[1])]
            objects = self._labels if X.dtype == object else []
        self._X = X
        self.column_names: list[str] = [str(label) for label in self._labels]
        self._types: dict[str, Any] = {}
        # a column of any type tells the number of rows
        known = [str(label) for label in objects or self._labels[:1]]
        found = self._each(_described, known)
        self.sizes: list[int] = [size for size, _ in found]
        self.num_rows: int = sum(self.sizes)
        for name in map(str, objects):
            self._types[name] = common_type([types[name] for _, types in found if types])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.num_rows, len(self.column_names)

    def rename_columns(self, names: Sequence[str]) -> Partitions:
        """Return the table with other names of its columns."""
        renamed = copy(self)
        renamed.column_names = list(names)
        renamed._types = {
            new: self._types[old]
            for old, new in zip(self.column_names, names, strict=True)
            if old in self._types
        }
        return renamed

    def take(self, places: np.ndarray) -> Any:
        """Return the rows at ascending places as an Arrow table; only these are sent to this process."""
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        bounds = np.searchsorted(places, ends)
        own = [places[a:b] - start for a, b, start in zip(bounds, bounds[1:], ends, strict=False)]
        pieces = [piece for piece in self._each(_rows_at, None, own) if len(piece)]
        return self._reader().table(_joined(pieces))

    def column(self, name: str) -> Any:
        """Return a column as an Arrow column in this process."""
        pieces = self._each(_whole, [name])
        return self._reader([name]).table(_joined([piece for piece in pieces if len(piece)])).column(name)

    def counted(self, transform: Transform, join: Join, names: list[str]) -> tuple[Any, Tally]:
        """Return the matrix of no rows, and the counts of odd cells in all partitions, from one pass.

        ``transform`` returns the matrix of an Arrow table and its counts; ``names`` are the columns that it needs.
        """
        if not self.num_rows:
            raise ValueError("X is a Dask table without rows, where at least one row is expected")
        work = _packed(_Matrix(transform, join, self._reader(names)))
        parts, occupied = self._parts(names), self._occupied
        tasks = lazy_tasks(self._X, [parts[i] for i in occupied])

        def run() -> Any:
            found = [tasks.submit(_counts, work, part) for part in tasks.chunks]
            while len(found) > 1:
                found = [tasks.submit(_merged, found[i : i + _FAN_IN]) for i in range(0, len(found), _FAN_IN)]
            return tasks.fetch(found)[0]

        return with_retries(run, tasks, [], [])

    def matrix(self, transform: Transform, join: Join, names: list[str], like: Any) -> Any:
        """Return the matrix as a Dask array with a chunk for each partition, which the workers make when it is used.

        ``join`` returns the parts of a chunk as one matrix, and ``like`` is the matrix of no rows.
        """
        name = f"labelfold-recipe-{uuid.uuid4().hex}"
        work = _packed(_Matrix(transform, join, self._reader(names)))
        parts = self._parts(names)
        graph = {
            (name, j, 0): (_made, work.key, parts[i].key, self.sizes[i]) for j, i in enumerate(self._occupied)
        }
        layers = HighLevelGraph.from_collections(name, graph, dependencies=[work, *parts])
        chunks = (tuple(self.sizes[i] for i in self._occupied), (like.shape[1],))
        return da.Array(layers, name, chunks, meta=like)

    @property
    def _occupied(self) -> list[int]:
        return [i for i, size in enumerate(self.sizes) if size]

    def _reader(self, names: list[str] | None = None) -> _Reader:
        names = self.column_names if names is None else names
        return _Reader(None if self.named else self.column_names, names, self._types)

    def _parts(self, names: list[str] | None) -> list:
        """Return the partitions; of a DataFrame only these columns, so that no others are read from files."""
        if not self.named:
            return list(self._X.to_delayed()[:, 0])
        if names is None:
            return list(self._X.to_delayed())
        labels = dict(zip(self.column_names, self._labels, strict=True))
        return list(self._X[[labels[name] for name in names]].to_delayed())

    def _each(self, f: Callable[..., Any], names: list[str] | None, *aligned: Sequence) -> list:
        """Return ``f(partition, *arguments)`` of each partition, with the arguments that belong to it."""
        tasks = lazy_tasks(self._X, self._parts(names))

        def run() -> list:
            return tasks.fetch([tasks.submit(f, *own) for own in zip(tasks.chunks, *aligned, strict=True)])

        return with_retries(run, tasks, [], [])


def read_all(X: Any, reader: str) -> Any:
    """Return a Dask table as pandas or NumPy, if it fits into memory; see `check_bytes`."""
    table = Partitions(X)
    n_bytes = sum(table._each(_bytes, None))
    check_bytes(n_bytes, table.shape, "on Dask", reader, f"give {reader} some of the rows")
    return X.compute()


def _bytes(part: Any) -> float:
    usage = part.memory_usage(deep=True).sum() if hasattr(part, "memory_usage") else part.nbytes
    return float(usage)


class _Reader(NamedTuple):
    """How a partition becomes an Arrow table.

    Attributes
    ----------
    given : list of str or None
        The names of the columns of an array; None for a DataFrame, which has them.
    names : list of str
        The columns to return.
    types : dict
        Types of columns of Python objects, which a partition alone does not tell.
    """

    given: list[str] | None
    names: list[str]
    types: dict[str, Any]

    def table(self, part: Any) -> Any:
        table, _ = as_arrow(part)
        if self.given is not None:
            table = table.rename_columns(self.given)
        table = table.select(self.names)
        for j, name in enumerate(self.names):
            kind = self.types.get(name)
            if kind is not None and table.column(j).type != kind:
                table = table.set_column(j, name, cast_cells(table.column(j), kind))
        return table


class _Matrix(NamedTuple):
    """What the workers do with a partition."""

    transform: Transform
    join: Join
    reader: _Reader

    def blocks(self, part: Any) -> Any:
        """Yield the matrix of a few rows at a time, and the counts of their odd cells."""
        with single_blas():
            for block in slices(self.reader.table(part)):
                yield self.transform(block)


def _packed(work: _Matrix) -> Any:
    """Return a value that all tasks share, as one task."""
    return dask.delayed(work, pure=False, traverse=False)


def _described(part: Any) -> tuple[int, dict[str, Any]]:
    """Return the number of rows of a partition and the Arrow types of its columns."""
    if not len(part):
        return 0, {}
    table, _ = as_arrow(part)
    return len(part), dict(zip(table.column_names, table.schema.types, strict=True))


def _whole(part: Any) -> Any:
    return part


def _rows_at(part: Any, index: np.ndarray) -> Any:
    return part.iloc[index] if hasattr(part, "iloc") else part[index]


def _joined(pieces: list) -> Any:
    """Return rows of several partitions as one table or array, as Dask itself joins them."""
    if not hasattr(pieces[0], "iloc"):
        return np.concatenate(pieces)
    from dask.dataframe import methods

    return methods.concat(pieces)


def _counts(work: _Matrix, part: Any) -> tuple[Any, Tally]:
    """Return the matrix of no rows, and the counts of odd cells in a partition."""
    whole, like = Tally(), None
    for made, tally in work.blocks(part):
        like = made[:0]
        whole.merge(tally)
    return like, whole


def _merged(found: list[tuple[Any, Tally]]) -> tuple[Any, Tally]:
    whole = Tally()
    for _, tally in found:
        whole.merge(tally)
    return found[0][0], whole


def _made(work: _Matrix, part: Any, n_rows: int) -> Any:
    """Return the matrix of a partition."""
    if len(part) != n_rows:
        raise ValueError(
            f"a partition of the Dask table has {len(part)} rows, where an earlier pass found {n_rows}; give Recipe "
            "a table that is the same each time it is read, such as ddf.persist()"
        )
    return work.join((block for block, _ in work.blocks(part)), n_rows)
