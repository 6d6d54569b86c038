"""Rows of a file, by its path: .npy is read in every pass; Parquet, CSV and svmlight are decoded once to a cache.

Tables are decoded with pyarrow, some rows at a time.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import MAX_DENSE_BYTES
from labelfold.rows._rows import Rows
from labelfold.rows.adapters._local import all_finite, check_two_dimensional, floating, memory_rows
from labelfold.rows.adapters._stream import Cache, FileRows, bytes_of, changed, fill, stamp

TEXT, PARQUET, SVMLIGHT = (".csv", ".tsv"), (".parquet", ".pq"), (".svmlight", ".svm", ".libsvm")
# Bytes of text, or of numbers, that are decoded at a time.
CHUNK = 4_000_000
# Columns of a Parquet file that are decoded together. Each takes a few megabytes, for its pages and its dictionary.
COLUMNS_AT_ONCE = 32
# Rows of a table that are transformed at a time.
TABLE_ROWS = 16_384
_SEPARATORS = ",;\t|"


def read_rows(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    transform: Callable[[Any], Any] | None = None,
    n_columns: int | None = None,
) -> tuple[Rows, np.ndarray | None]:
    r"""Return the rows of a file and its labels; the rows are read from the disk in every pass.

    The rows of a .npy file are read where they are. Parquet, CSV and svmlight are decoded once, here, to a temporary
    file in the folder ``TMPDIR``, which takes n x d numbers (float32 if the columns are) or the entries of sparse
    rows. It is removed with the rows.

    Parameters
    ----------
    path : path
        A .npy, .parquet, .csv, .tsv or .svmlight file (.svm, .libsvm) of numbers. A table with text, categories,
        dates or missing cells needs a ``transform``.
    target : str, optional
        The column of labels in a table; it is not in X. Empty cells are NaN, or None in text.
    columns : sequence of str, optional
        The columns of X in a table, in this order; by default all others than the target.
    transform : callable, optional
        Makes numbers of some rows of a table, such as ``transform`` of a fitted `labelfold.Recipe`. It gets pyarrow
        tables (of text, if from CSV) and returns arrays or sparse matrices; those are X.
    n_columns : int, optional
        The number of columns of svmlight rows if the last ones may be empty; by default as many as have an entry.

    Returns
    -------
    rows : Rows
        X for `fit`, `transform` and `predict` of every estimator. Rows that are used twice are decoded once.
    y : ndarray or None
        The column of labels; for svmlight the first number of each line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from labelfold import LDA
    >>> from labelfold.rows import read_rows
    >>> path = pathlib.Path(tempfile.mkdtemp(), "flowers.csv")
    >>> _ = path.write_text("length,width,kind\n1.4,0.2,a\n4.7,1.4,b\n1.3,0.2,a\n4.5,1.5,b\n")
    >>> X, y = read_rows(path, target="kind")
    >>> X.shape, y.tolist()
    ((4, 2), ['a', 'b', 'a', 'b'])
    >>> LDA(ridge=1).fit(X, y).predict(path).tolist()
    ['a', 'b', 'a', 'b']
    """
    path = Path(path)
    ending = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist; give the path of a .npy, .parquet, .csv or .svmlight file"
        )
    named = {"target": target, "columns": columns, "transform": transform}
    if ending not in (*TEXT, *PARQUET) and any(value is not None for value in named.values()):
        given = next(f"{name}={value!r}" for name, value in named.items() if value is not None)
        raise ValueError(f"{given} was given for {path}, which has no named columns; leave it out")
    if ending not in (*TEXT, *PARQUET, *SVMLIGHT):
        return npy_rows(path), None
    cache = Cache(path)
    try:
        with path.open("rb") as file:
            before = stamp(file)
            if ending in SVMLIGHT:
                found = decode_svmlight(path, file, cache, n_columns)
            elif ending in TEXT:
                found = decode_csv(path, file, cache, target, columns, transform)
            else:
                found = decode_parquet(path, cache, target, columns, transform)
            if stamp(file) != before:
                raise changed(path)
            return found
    except BaseException:
        cache.close()
        raise


def file_rows(path: str | os.PathLike[str], names: Sequence[str] | None, n_columns: int | None) -> Rows:
    """Return the rows of a file for an estimator that was fitted on columns of these names, or this number."""
    ending = Path(path).suffix.lower()
    columns = names if ending in (*TEXT, *PARQUET) else None
    return read_rows(path, columns=columns, n_columns=n_columns if ending in SVMLIGHT else None)[0]


def npy_rows(path: Path) -> Rows:
    """Return rows of a .npy file; one in Fortran order is turned in a cache."""
    file: Any = None
    try:
        file = path.open("rb", buffering=0)
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, by_columns, dtype = np.lib.format.read_array_header_2_0(file)
        offset = file.tell()
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        if offset + dtype.itemsize * int(np.prod(shape, dtype=object)) > stamp(file)[0]:
            raise ValueError("it is shorter than its header says")
    except (ValueError, EOFError, OSError) as problem:
        if file is not None:
            file.close()
        raise ValueError(
            f"{path} cannot be read as a .npy file of numbers ({problem}); write one with numpy.save"
        ) from problem
    try:
        check_two_dimensional(len(shape))
        floating(dtype)
        n, d = shape
        if not by_columns or min(n, d) <= 1:
            return FileRows(file, (n, d), dtype, offset, path=path, fixed=True)
        with file:
            return _turned(path, file, (n, d), dtype, offset)
    except BaseException:
        file.close()
        raise


def _turned(path: Path, file: Any, shape: tuple[int, int], dtype: np.dtype, offset: int) -> Rows:
    """Return the rows of an array that is stored by columns."""
    cache, before, (n, d) = Cache(path), stamp(file), shape
    try:
        cache.expect(n * d * dtype.itemsize)
        step = max(1, MAX_DENSE_BYTES // max(1, 2 * d * dtype.itemsize))  # two copies are in memory
        for start in range(0, n, step):
            X = np.empty((d, min(step, n - start)), dtype=dtype)
            for j in range(d):
                fill(file, bytes_of(X[j]), offset + (j * n + start) * dtype.itemsize)
            cache.add(X.T)
        if stamp(file) != before:
            raise changed(path)
        return cache.rows(d, checked=False)
    except BaseException:
        cache.close()
        raise


def lines_of(file: BinaryIO, end: int, size: int, *, quoted: bool = False) -> Iterator[bytes]:
    r"""Yield the rest of a file up to byte ``end`` in chunks of about ``size`` bytes that end with a line.

    With ``quoted`` a line may go on within quotes.

    >>> list(lines_of(io.BytesIO(b"1,2\n3,4\n5"), 9, 5))
    [b'1,2\n', b'3,4\n', b'5']
    >>> list(lines_of(io.BytesIO(b'1,"a\nb"\n2,"c"'), 14, 5, quoted=True))
    [b'1,"a\nb"\n', b'2,"c"']
    """
    left = b""
    while part := file.read(
        min(size, max(0, end - file.tell()))
    ):  # another process may be writing to the file
        left += part
        cut = left.rfind(b"\n") + 1
        while quoted and cut and left.count(b'"', 0, cut) % 2:
            cut = left.rfind(b"\n", 0, cut - 1) + 1
        if cut:
            yield left[:cut]
            left = left[cut:]
    if left:
        yield left


def decode_svmlight(path: Path, file: BinaryIO, cache: Cache, n_columns: int | None) -> tuple[Rows, Any]:
    """Write the rows of svmlight text to the cache; return them, and the first number of each line."""
    from sklearn.datasets import load_svmlight_file

    size = path.stat().st_size
    labels: list[np.ndarray] = []
    first, last = 1, 0
    for text in lines_of(file, size, CHUNK):
        try:
            X, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"{path} is not svmlight text ({error}), where each line holds a label and index:value for each "
                f"entry; correct it after row {cache.starts[-1]}"
            ) from error
        if not X.shape[0]:
            continue
        first, last = min(first, int(X.indices.min(initial=1))), max(last, X.shape[1])
        if not all_finite(X.data):
            memory_rows(X[:, first:], first_row=cache.starts[-1])  # raises an error that names the value
        cache.keep(X, size / len(text))
        labels.append(y)
    d = last - first
    if n_columns is not None and d > n_columns:
        raise ValueError(
            f"{path} has {d} columns, where at most {n_columns} are expected; leave out further columns"
        )
    d = max(d, 1) if n_columns is None else n_columns
    return cache.rows(d, first_column=first), np.concatenate(labels)


def decode_csv(
    path: Path,
    file: BinaryIO,
    cache: Cache,
    target: str | None,
    columns: Sequence[str] | None,
    transform: Callable[[Any], Any] | None,
) -> tuple[Rows, Any]:
    """Write the rows of a CSV file to the cache; return them, and the target."""
    pa = _arrow(path)
    from pyarrow import csv as reader

    line = file.readline().decode("utf-8-sig", "replace")
    separator = max(_SEPARATORS, key=line.count) if any(map(line.count, _SEPARATORS)) else ","
    names = [name.strip() for name in next(csv.reader([line], delimiter=separator), [])]
    has_header = not all(map(_is_number, names))
    if not has_header:
        names = [str(j) for j in range(len(names))]
        file.seek(0)
    used = _used(path, names, target, columns)
    kinds = dict.fromkeys(used, pa.float64() if transform is None else pa.string())
    kinds |= {} if target is None else {target: pa.string()}
    parse = reader.ParseOptions(delimiter=separator, newlines_in_values=transform is not None)
    convert = reader.ConvertOptions(column_types=kinds, include_columns=list(kinds), strings_can_be_null=True)

    def decoded(text: bytes) -> tuple[Any, Any, int]:
        read = reader.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names)
        table = reader.read_csv(pa.BufferReader(text), read, parse, convert)
        labels = None if target is None else table.column(target)
        if transform is not None:
            return transform(table.select(used)), labels, len(text)
        return _dense(path, table, used, np.dtype(np.float64)), labels, len(text)

    size, labels, X = path.stat().st_size, list[Any](), None
    try:
        chunks = lines_of(file, size, CHUNK, quoted=transform is not None)
        for X, y, n_bytes in threads.in_order(decoded, chunks):
            cache.keep(X, size / n_bytes)
            labels.append(y)
    except pa.ArrowInvalid as error:
        # rows are counted from the start of the chunk there
        raise _no_numbers(path, re.sub(r" Row #\d+:", "", _one_line(error))) from error
    rows = cache.rows(None if X is None else X.shape[1])
    rows.names = used if has_header and transform is None else None
    return rows, None if target is None else _labels(labels)


def decode_parquet(
    path: Path,
    cache: Cache,
    target: str | None,
    columns: Sequence[str] | None,
    transform: Callable[[Any], Any] | None,
) -> tuple[Rows, Any]:
    """Write the rows of a Parquet file to the cache; return them, and the target."""
    pa = _arrow(path)
    from pyarrow import parquet

    X = None
    try:
        # otherwise all of a row group is read before its first rows are decoded
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as stored:
            schema = stored.schema_arrow
            names = [name for name in schema.names if not name.startswith("__index_level")]
            used = _used(path, names, target, columns)
            if transform is None:
                dtype = _common_dtype(path, [schema.field(name) for name in used])
                blocks = _parquet_blocks(path, stored, used, dtype)
            else:
                tables = (pa.Table.from_batches([b]) for b in stored.iter_batches(TABLE_ROWS, columns=used))
                blocks = iter([(partial(transform, table) for table in tables)])
            for work in blocks:
                for X in threads.in_order(_run, work):
                    cache.keep(X, stored.metadata.num_rows / max(1, X.shape[0]))
            labels = None if target is None else _labels([stored.read(columns=[target]).column(0)])
    except (pa.ArrowException, OSError) as error:
        if str(path) in str(error):
            raise
        raise ValueError(
            f"{path} cannot be read as a Parquet file ({_one_line(error)}); write or copy it again"
        ) from error
    rows = cache.rows(None if X is None else X.shape[1])
    rows.names = used if transform is None else None
    return rows, labels


def _parquet_blocks(
    path: Path, stored: Any, used: list[str], dtype: np.dtype
) -> Iterator[Iterable[Callable[[], np.ndarray]]]:
    """Yield functions that return dense rows, one list after the other, which can run in threads.

    A row group of many columns is decoded by some columns at a time, which are kept in a file of their own until the
    rows are put together.
    """
    step = max(1, CHUNK // (len(used) * dtype.itemsize))
    panels = [used[j : j + COLUMNS_AT_ONCE] for j in range(0, len(used), COLUMNS_AT_ONCE)]
    if len(panels) == 1:
        yield (partial(_dense, path, batch, used, dtype) for batch in stored.iter_batches(step, columns=used))
        return
    aside = Cache(path)
    try:
        for group in range(stored.num_row_groups):
            n, at = stored.metadata.row_group(group).num_rows, 0
            for panel in panels:
                rows = max(1, CHUNK // (len(panel) * dtype.itemsize))
                batches = stored.iter_batches(rows, row_groups=[group], columns=panel)
                work = (partial(_dense, path, batch, panel, dtype) for batch in batches)
                for part in threads.in_order(_run, work):
                    aside.write(part, at)
                    at += part.nbytes
            ends = [*range(0, n, step), n]
            yield [partial(_joined, aside.file, panels, n, a, b, dtype) for a, b in pairwise(ends)]
    finally:
        aside.close()


def _joined(
    file: BinaryIO, panels: list[list[str]], n: int, start: int, stop: int, dtype: np.dtype
) -> np.ndarray:
    """Return some of n rows whose panels of columns are stored one after the other."""
    X = np.empty((stop - start, sum(map(len, panels))), dtype=dtype)
    first = 0
    for panel in panels:
        part = np.empty((stop - start, len(panel)), dtype=dtype)
        fill(file, bytes_of(part), (n * first + start * len(panel)) * dtype.itemsize)
        X[:, first : first + len(panel)] = part
        first += len(panel)
    return X


def _run(work: Callable[[], np.ndarray]) -> np.ndarray:
    return work()


def _dense(path: Path, table: Any, names: Sequence[str], dtype: np.dtype) -> np.ndarray:
    """Return columns of a table or batch as an array of rows; missing cells are NaN."""
    X = np.empty((table.num_rows, len(names)), dtype=dtype)
    for j, name in enumerate(names):
        cells = table.column(name)
        if cells.null_count and dtype.kind != "f":
            raise _no_numbers(path, f"column {name!r} has empty cells")
        values = cells.to_numpy() if hasattr(cells, "chunks") else cells.to_numpy(zero_copy_only=False)
        X[:, j] = values
    return X


def _used(path: Path, names: list[str], target: str | None, columns: Sequence[str] | None) -> list[str]:
    """Return the columns of X."""
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ValueError(f"{path} has more than one column named {twice[0]!r}; give each a name of its own")
    used = [name for name in names if name != target] if columns is None else [str(name) for name in columns]
    there = set(names)
    for name in [*used, *([] if target is None else [target])]:
        if name not in there:
            raise ValueError(
                f"{path} has no column {name!r}; it has {', '.join(map(repr, names[:8]))}"
                f"{' and others' if len(names) > 8 else ''}"
            )
    if not used:
        raise ValueError(f"{path} has no column left for X; give it at least one beside the target")
    return used


def _common_dtype(path: Path, fields: Sequence[Any]) -> np.dtype:
    """Return the type that holds all columns: float32 or integers if they are."""
    import pyarrow as pa

    kinds: list[np.dtype] = []
    for field in fields:
        if pa.types.is_decimal(field.type):
            kinds.append(np.dtype(np.float64))
        elif pa.types.is_boolean(field.type):
            kinds.append(np.dtype(np.uint8))
        elif pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            kinds.append(np.dtype(field.type.to_pandas_dtype()))
        else:
            raise _no_numbers(path, f"column {field.name!r} is of type {field.type}")
    common = np.result_type(*kinds)
    return np.dtype(np.float32) if common == np.float16 else common


def _labels(parts: list[Any]) -> np.ndarray:
    """Return a column of labels: numbers if all are, with NaN for missing ones; otherwise text, or None."""
    import pyarrow as pa

    column = pa.chunked_array([chunk for part in parts for chunk in part.chunks])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    for kind in (pa.int64(), pa.float64()) if pa.types.is_string(column.type) else ():
        try:
            column = column.cast(kind)
            break
        except pa.ArrowInvalid:
            continue
    return np.asarray(column.to_numpy())


def _arrow(path: Path) -> Any:
    if find_spec("pyarrow") is None:
        raise ImportError(
            f"{path} is read with pyarrow, which is not installed: pip install 'labelfold[app]'"
        )
    import pyarrow

    return pyarrow


def _no_numbers(path: Path, why: str) -> ValueError:
    return ValueError(
        f"{path} is not a table of numbers ({why}); name the labels by target and the numbers by columns in "
        "labelfold.rows.read_rows, or let labelfold.Recipe read the table"
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
