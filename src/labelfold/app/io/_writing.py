"""Writes embeddings and predictions: Parquet, CSV, TSV, NPZ and copies of .h5ad files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.io._archives import undated
from labelfold.app.io._extras import pa, pd
from labelfold.app.io._finished import finished_file
from labelfold.app.io._problems import FileProblem, writable_file

# Spreadsheets skip white space before a formula, and read full-width signs as plain ones.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WRITES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".npz": "npz",
    ".h5ad": "h5ad",
}


def writable_table(path: str | os.PathLike, source: Any = None) -> Path:
    """Return ``path`` as a Path if a table can be written there, else raise FileProblem.

    An .h5ad file is written as a copy of ``source``, which must be an .h5ad file too.
    """
    path = Path(path)
    if path.suffix.lower() not in _WRITES:
        raise FileProblem(
            f"{path} has an ending labelfold does not write; it writes .parquet, .csv, .tsv and .npz, and .h5ad "
            "where it reads that."
        )
    if _WRITES[path.suffix.lower()] == "h5ad":
        from labelfold.app.io._h5ad import writable_copy

        writable_copy(source, path)
    return writable_file(path)


def write_table(
    path: str | os.PathLike,
    values: np.ndarray,
    names: Sequence[str],
    *,
    ids: Any = None,
    extra: Mapping[str, Sequence[Any] | np.ndarray] | None = None,
    safe_csv: bool = False,
    source: Any = None,
) -> Path:
    """Write an embedding with its id columns first, in the format of the file's ending.

    Parameters
    ----------
    path : path
        A .parquet, .csv, .tsv, .npz or .h5ad file. An NPZ holds ``X``, ``feature_names`` and an array for each id.
    values : ndarray of shape (n, k)
        The embedding.
    names : sequence of str
        Its k column names.
    ids : DataFrame, optional
        Identifier columns.
    extra : mapping of str to array, optional
        More columns, written last.
    safe_csv : bool, default=False
        In a .csv or .tsv file, put an apostrophe before text that a spreadsheet would run as a formula: text that
        begins with =, +, - or @ and is not a number.
    source : path, optional
        The file that the rows were read from. An .h5ad output is a copy of it, with the embedding in ``obsm`` and the
        further columns in ``obs``.

    Returns
    -------
    Path
        The file written.
    """
    import pyarrow.parquet as pq

    path = writable_table(path, source)
    kind = _WRITES[path.suffix.lower()]
    if kind == "h5ad":
        from labelfold.app.io._h5ad import write_copy

        return write_copy(source, path, values if len(names) else None, extra or {})
    # an NPZ file has no columns: the embedding is its X, and NumPy reserves the name "file"
    reserved = ("X", "feature_names", "file") if kind == "npz" else ()
    frame = _frame(values, names, ids, extra, path, reserved)
    with finished_file(path) as file:
        if kind == "npz":
            others = frame.columns.drop(list(names))
            arrays: dict[str, Any] = {str(c): _without_objects(frame[c]) for c in others}
            with undated():
                np.savez_compressed(file, X=values, feature_names=np.asarray(names, dtype=str), **arrays)
        elif kind == "parquet":
            # pandas would open the file a second time, by its name
            pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), file)
        else:
            frame = _without_formulas(frame) if safe_csv else frame
            frame.to_csv(file, index=False, sep="\t" if kind == "tsv" else ",")
    return path


def csv_text(
    values: np.ndarray,
    names: Sequence[str],
    *,
    ids: Any = None,
    extra: Mapping[str, Sequence[Any] | np.ndarray] | None = None,
    safe_csv: bool = False,
) -> str:
    """Return the text that `write_table` writes to a .csv file."""
    frame = _frame(values, names, ids, extra, "a table")
    return (_without_formulas(frame) if safe_csv else frame).to_csv(index=False)


def _frame(values: Any, names: Any, ids: Any, extra: Any, where: Any, reserved: Sequence[str] = ()) -> Any:
    """Return ids, embedding and further columns as a table; an id column must have a name of its own."""
    ids = pd.DataFrame(index=range(len(values))) if ids is None else ids.reset_index(drop=True)
    taken = {str(c) for c in ids.columns}
    if clash := [n for n in (*names, *(extra or ()), *reserved) if n in taken]:
        raise FileProblem(
            f"The column {clash[0]!r} cannot be written beside the embedding in {where}; rename the id column."
        )
    return pd.concat([ids, pd.DataFrame(values, columns=list(names))], axis=1).assign(**(extra or {}))


def _without_formulas(frame: Any) -> Any:
    """Return a table whose text and names of columns a spreadsheet does not run as formulas."""
    safe = frame.rename(columns=_no_formula)
    return safe.apply(lambda column: column if column.dtype.kind in "biuf" else column.map(_no_formula))


def _no_formula(value: Any) -> Any:
    """Return text with an apostrophe if a spreadsheet would run it as a formula, otherwise unchanged.

    >>> _no_formula("=1+1"), _no_formula("-5.2"), _no_formula("@a"), _no_formula("a=b"), _no_formula(None)
    ("'=1+1", '-5.2', "'@a", 'a=b', None)
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _PLAIN_NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def _without_objects(values: Any) -> np.ndarray:
    """Return an array that NumPy can read without pickle: values that are not numbers become text."""
    values = np.asarray(values)
    return values if values.dtype.kind in "biufU" else values.astype(str)
