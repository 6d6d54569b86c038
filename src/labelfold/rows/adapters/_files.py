"""Rows of a file, by its path: .npy is read in every pass; Parquet, CSV and svmlight are decoded once to a cache."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from labelfold.rows._protocol import Rows
from labelfold.rows.adapters._local import all_finite, check_two_dimensional, floating, memory_rows
from labelfold.rows.adapters._stream import FILE_MOST_BYTES, Cache, FileRows, bytes_of, changed, fill, stamp

TEXT, PARQUET, SVMLIGHT = (".csv", ".tsv"), (".parquet", ".pq"), (".svmlight", ".svm", ".libsvm")
# Bytes of text that are decoded at a time.
CHUNK = 4 << 20


def read_rows(
    path: str | os.PathLike,
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
                from labelfold.rows.adapters._columnar import decode_csv

                found = decode_csv(path, file, cache, target, columns, transform)
            else:
                from labelfold.rows.adapters._columnar import decode_parquet

                found = decode_parquet(path, cache, target, columns, transform)
            if stamp(file) != before:
                raise changed(path)
            return found
    except BaseException:
        cache.close()
        raise


def file_rows(path: str | os.PathLike, names: Sequence[str] | None, n_columns: int | None) -> Rows:
    """Return the rows of a file for an estimator that was fitted on columns of these names, or on so many."""
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
        step = max(1, FILE_MOST_BYTES // max(1, d * dtype.itemsize))
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
