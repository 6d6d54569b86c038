"""Converts tables of any library to Arrow tables, and recognises words for missing cells."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils import check_array


class Absent:
    """Stands for a package that is not installed. Only what uses it raises an error, which says what to install."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __getattr__(self, name: str) -> Any:
        raise ImportError(self._message)


def installed(package: str, message: str) -> Any:
    """Return a package, or an object that raises an error with this message when it is used."""
    try:
        return import_module(package)
    except ImportError:
        return Absent(message)


_NEEDED = "Recipe reads tables with pyarrow: pip install 'labelfold[app]'."
pa = installed("pyarrow", _NEEDED)
pc = installed("pyarrow.compute", _NEEDED)

# Words for missing cells, in lower case and without surrounding blanks. The empty cell is one of them.
MISSING = {
    "",
    "?",
    "??",
    "-",
    "--",
    "---",
    ".",
    "na",
    "n/a",
    "n.a.",
    "#n/a",
    "#na",
    "<na>",
    "nan",
    "nat",
    "null",
    "nil",
    "unknown",
    "missing",
    "undefined",
    "unspecified",
    "not available",
    "not known",
    "no data",
    "tbd",
}
# Words that are a value in a category, but mean missing in numbers and dates.
_MISSING_NUMBERS = ("none",)


def is_number(kind: Any) -> bool:
    """Tell whether an Arrow type is numeric."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def is_table(X: Any) -> bool:
    """Tell whether X is a table with named, typed columns, rather than a matrix."""
    pandas = hasattr(X, "iloc") and hasattr(X, "dtypes")
    return pandas or hasattr(X, "__arrow_c_stream__") or hasattr(X, "column_names")


def n_rows(X: Any) -> int:
    """Return the number of rows of a table of any library."""
    return int(X.num_rows) if hasattr(X, "num_rows") else len(X)


def as_named(X: Any) -> Any:
    """Return a table; one that has only the Arrow stream interface, which can be read once, as an Arrow table."""
    return X if hasattr(X, "iloc") or hasattr(X, "column_names") else as_arrow(X)[0]


def column_names(X: Any) -> list[str]:
    """Return the names of the columns of a table of any library."""
    return list(map(str, X.columns)) if not hasattr(X, "column_names") else list(X.column_names)


def as_arrow(X: Any) -> tuple[Any, bool]:
    """Return X as an Arrow table, and whether its columns have names of their own.

    Parameters
    ----------
    X : pyarrow, pandas or polars table, or array-like of shape (n, d)
        Anything with the Arrow interface, or an array.

    Returns
    -------
    table : pyarrow.Table
        Columns of an array are called x0, x1, ...
    named : bool
    """
    if isinstance(X, pa.Table):
        return _without_views(X), True
    if hasattr(X, "iloc") and hasattr(X, "dtypes"):
        return _from_pandas(X), True
    if hasattr(X, "__arrow_c_stream__"):
        return _without_views(pa.table(X)), True
    X = check_array(X, dtype=None, ensure_all_finite=False, accept_sparse=False, estimator="Recipe")
    columns = [_array(np.ascontiguousarray(X[:, j])) for j in range(X.shape[1])]
    return pa.table(columns, names=[f"x{j}" for j in range(X.shape[1])]), False


def _without_views(table: Any) -> Any:
    """Return a table with string views (as in polars) cast to plain strings, which every kernel takes."""
    text = pa.large_string() if table.nbytes > 2**30 else pa.string()
    for j, field in enumerate(table.schema):
        column = table.column(j)
        if pa.types.is_string_view(field.type):
            table = table.set_column(j, field.name, column.cast(text))
        elif pa.types.is_dictionary(field.type) and pa.types.is_string_view(field.type.value_type):
            coded = [(part.indices, part.dictionary.cast(text)) for part in column.chunks]
            parts = [pa.DictionaryArray.from_arrays(*part) for part in coded]
            table = table.set_column(j, field.name, pa.chunked_array(parts).unify_dictionaries())
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
