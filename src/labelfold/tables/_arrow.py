"""Converts tables of any library to Arrow tables, and recognises words for missing cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from labelfold.rows import is_dask
from labelfold.tables._limits import BLOCK, LABELLED, LEARNED_FROM
from labelfold.utils import Package

_NEEDED = "Recipe reads tables with pyarrow: pip install 'labelfold[app]'."
# Words for missing cells, in lower case and without surrounding blanks. The empty cell is one of them.
_WORDS = (
    "? ?? - -- --- . na n/a n.a. #n/a #na <na> nan nat null nil unknown missing undefined unspecified tbd"
)
MISSING = {"", *_WORDS.split(), "not available", "not known", "no data"}
# Words that are a value in a category, but mean missing in numbers and dates.
_MISSING_NUMBERS = ("none",)


pa: Any = Package("pyarrow", _NEEDED)
pc = Package("pyarrow.compute", _NEEDED)


def is_number(kind: Any) -> bool:
    """Tell whether an Arrow type is numeric."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def is_table(X: Any) -> bool:
    """Tell whether X is a table with named, typed columns, rather than a matrix."""
    pandas = hasattr(X, "iloc") and hasattr(X, "dtypes")
    return pandas or hasattr(X, "__arrow_c_stream__") or hasattr(X, "column_names")


def as_arrow(X: Any) -> tuple[Any, bool]:
    """Return X as an Arrow table, and whether its columns have names of their own.

    Parameters
    ----------
    X : pyarrow, pandas, polars or Dask table, Blocks, or array-like of shape (n, d)
        Anything with the Arrow interface, or an array.

    Returns
    -------
    table : pyarrow.Table, Blocks or Partitions
        Columns of an array are called x0, x1, ...
    named : bool
    """
    if isinstance(X, Blocks):
        return X, True
    if is_dask(X):
        from labelfold.tables._dask import Partitions

        table = Partitions(X)
        return table, table.named
    if isinstance(X, pa.Table):
        return _without_views(X), True
    if hasattr(X, "iloc") and hasattr(X, "dtypes"):
        return _from_pandas(X), True
    if hasattr(X, "__arrow_c_stream__"):
        return _without_views(pa.table(X)), True
    X = check_array(X, dtype=None, ensure_all_finite=False, accept_sparse=False, estimator="Recipe")
    columns = [_array(np.ascontiguousarray(X[:, j])) for j in range(X.shape[1])]
    return pa.table(columns, names=[f"x{j}" for j in range(X.shape[1])]), False


def in_memory(X: Any, reader: str) -> Any:
    """Return a table or array in the memory of this process; one on Dask is read, if it fits into memory.

    ``reader`` is who needs it, for the error of one that does not fit.
    """
    if not is_dask(X):
        return X
    from labelfold.tables._dask import read_all

    return read_all(X, reader)


def _without_views(table: Any) -> Any:
    """Return a table with string views (as in polars) cast to plain strings, which every kernel takes."""
    text = pa.large_string() if table.nbytes > 2**30 else pa.string()
    for j, entry in enumerate(table.schema):
        column = table.column(j)
        if pa.types.is_string_view(entry.type):
            table = table.set_column(j, entry.name, column.cast(text))
        elif pa.types.is_dictionary(entry.type) and pa.types.is_string_view(entry.type.value_type):
            coded = [(part.indices, part.dictionary.cast(text)) for part in column.chunks]
            parts = [pa.DictionaryArray.from_arrays(*part) for part in coded]
            table = table.set_column(j, entry.name, pa.chunked_array(parts).unify_dictionaries())
    return table


def _from_pandas(X: Any) -> Any:
    """Return a DataFrame as an Arrow table; columns of mixed types become text."""
    columns = []
    for _, column in X.items():  # noqa: PERF102 - of a DataFrame
        try:
            columns.append(pa.chunked_array(pa.Array.from_pandas(column)) if len(column) else pa.array([]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            columns.append(_array(column.to_numpy(dtype=object)))
    return pa.table(columns, names=[str(name) for name in X.columns])


def _array(values: np.ndarray) -> Any:
    """Return an array as an Arrow column; objects of mixed types become text."""
    if values.dtype.kind in "biufM":
        return pa.array(values, from_pandas=True)
    cells = values.tolist()
    missing = [cell is None or cell != cell for cell in cells]
    kept = [None if gone else cell for cell, gone in zip(cells, missing, strict=True)]
    try:
        return pa.array(kept)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in kept], type=pa.string())


def common_type(kinds: Iterable[Any]) -> Any:
    """Return the type that cells of Python objects have together, of the types of their parts; None without cells.

    As in one table, whole numbers and fractions are numbers, and other mixed cells are text.

    >>> import pyarrow as pa
    >>> common_type([pa.int64(), pa.null(), pa.float64()]), common_type([pa.int64(), pa.string()])
    (DataType(double), DataType(string))
    """
    found = {kind for kind in kinds if not pa.types.is_null(kind)}
    if len(found) < 2:
        return next(iter(found), None)
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in found)
    return pa.float64() if numbers else pa.string()


def cast_cells(column: Any, kind: Any) -> Any:
    """Return a column as another type; as text, each cell as Python writes it.

    >>> import pyarrow as pa
    >>> cast_cells(pa.chunked_array([[1.5, None, 2.0]]), pa.string()).to_pylist()
    ['1.5', None, '2.0']
    """
    if not pa.types.is_string(kind) or is_text(column.type):
        return column.cast(kind)
    cells = [None if cell is None else str(cell) for cell in column.to_pylist()]
    return pa.chunked_array([pa.array(cells, type=kind)])


def is_text(kind: Any) -> bool:
    """Tell whether an Arrow type is text, including dictionaries of text."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def written(column: Any) -> Any:
    """Return a column of any type as text; items of lists are separated by blanks, other nested cells are null."""
    if pa.types.is_string(column.type):
        return column
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            column = pc.binary_join(column.cast(pa.list_(pa.string())), " ")
        return column.cast(pa.string())
    except pa.ArrowException:
        return pa.chunked_array([pa.nulls(len(column), pa.string())])


def shown(column: Any) -> Any:
    """Return a column of any type as text; a nested cell as Python writes it."""
    text = written(column)
    if text.null_count == column.null_count:
        return text
    cells = [None if cell is None else str(cell) for cell in column.to_pylist()]
    return pa.chunked_array([pa.array(cells, type=pa.string())])


def text_cells(column: Any, *, numbers: bool = False) -> Any:
    """Return a column as stripped text, null for empty cells and words for missing values.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Of any type that can be written as text.
    numbers : bool, default=False
        Whether the column holds numbers or dates, for which "none" is missing too.
    """
    text = pc.utf8_trim_whitespace(written(column))
    words = [*MISSING, *(_MISSING_NUMBERS if numbers else ())]
    # only cells as short as such a word are converted to lower case, and these are few
    short = pc.less_equal(pc.utf8_length(text), max(map(len, words)))
    if not pc.any(short).as_py():
        return text
    gone = pc.and_(short, pc.is_in(pc.utf8_lower(text), value_set=pa.array(words)))
    return pc.if_else(gone, pa.scalar(None, pa.string()), text)


def words_for_missing(column: Any, *, numbers: bool = False) -> str:
    """Return a phrase about the words of a text column that count as missing; "" if there are none.

    >>> import pyarrow as pa
    >>> words_for_missing(pa.chunked_array([["?", "red", "", None, "n/a", "?"]]))
    "'?' and 'n/a' mean missing"
    """
    if not is_text(column.type):
        return ""
    text = pc.utf8_trim_whitespace(written(column))
    gone = pc.and_(pc.is_valid(text), pc.is_null(text_cells(text, numbers=numbers)))
    words = [repr(word) for word in pc.unique(text.filter(gone)).to_pylist() if word]
    if not words:
        return ""
    *first, last = words if len(words) < 5 else [*words[:3], f"{len(words) - 3} others"]
    return f"{', '.join(first)}{' and ' if first else ''}{last} mean{'s' * (len(words) == 1)} missing"


def distinct(column: Any) -> tuple[Any, np.ndarray]:
    """Return the distinct cells of a text column, and the index of each row's cell, -1 for null.

    >>> import pyarrow as pa
    >>> values, codes = distinct(pa.chunked_array([["b", "a"], [None, "b"]]))
    >>> values.to_pylist(), codes.tolist()
    (['b', 'a'], [0, 1, -1, 0])
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # more text than one chunk can hold
        column = column.cast(pa.large_string()).combine_chunks()
    coded = column.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return pa.chunked_array([coded.dictionary]), codes.astype(np.int64)


def distinct_text(column: Any) -> tuple[list[str], np.ndarray] | None:
    """Return the distinct cells of a column and the index of each row's cell, -1 for missing cells.

    None for a column of another type than text or numbers.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not is_text(kind) and not is_number(kind):
        return None
    values, codes = distinct(text_cells(column))
    return values.to_pylist(), codes


class Packed:
    """An estimator whose lists of columns are saved as JSON texts.

    A model file describes every item of a list and every key of a dict by an entry of its own: 100,000 columns took
    several minutes to save, and take a second as texts.
    """

    # Attributes that are made of lists, dicts, text and numbers alone, or are arrays of names.
    _packed: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, those named packed."""
        state: Any = super().__getstate__()
        return {name: pack(value) if name in self._packed else value for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes, packed or not."""
        for name in self._packed:
            if name in state:
                state = state | {name: unpack(state[name])}
        super().__setstate__(state)  # type: ignore[misc]


def pack(value: Any) -> str:
    """Return lists, dicts and arrays of names as a text.

    >>> pack(["a", "b"]), unpack(pack(np.array(["a"], dtype=object)))
    ('list ["a", "b"]', array(['a'], dtype=object))
    """
    return f"{type(value).__name__} {json.dumps(value, default=lambda held: held.tolist())}"


def unpack(value: Any) -> Any:
    """Return what `pack` was given."""
    if not isinstance(value, str):
        return value
    kind, _, text = value.partition(" ")
    found = json.loads(text)
    return np.array(found, dtype=object) if kind == "ndarray" else found


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

    @classmethod
    def split(
        cls,
        read: Callable[[list[str]], Iterable[Any]],
        names: Sequence[str],
        targets: Sequence[str],
        ids: Sequence[str],
        *,
        sampled: bool,
    ) -> tuple[Blocks, Any]:
        """Return some columns as blocks, and the targets and ids in memory, read in one pass.

        The blocks have a sample to fit on, or of one row if not ``sampled``.
        """
        sampler, aside = Sampler(LEARNED_FROM if sampled else 1), []
        for block in read([*dict.fromkeys([*names, *targets, *ids])]):
            labelled = np.zeros(block.num_rows, dtype=bool)
            for name in targets:
                labelled |= block.column(name).is_valid().to_numpy().astype(bool)
            sampler.add(block.select(names), labelled)
            aside.append(block.select([*targets, *ids]))
        return cls(list(names), sampler.rows, read, *sampler.result()), pa.concat_tables(aside)


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
