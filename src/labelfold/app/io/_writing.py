"""Writes embeddings and predictions: Parquet, CSV, TSV, NPZ and copies of .h5ad files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from labelfold.app.io._archives import undated
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
    ids = _identifiers(values, names, ids, extra, path, npz=kind == "npz")
    with finished_file(path) as file:
        if kind == "npz":
            arrays: dict[str, Any] = {str(c): _without_objects(ids[c]) for c in ids} | {
                n: _without_objects(v) for n, v in (extra or {}).items()
            }
            with undated():
                np.savez_compressed(file, X=values, feature_names=np.asarray(names, dtype=str), **arrays)
        elif kind == "parquet":
            # pandas would open the file a second time, by its name
            table = pa.Table.from_pandas(_frame(values, names, ids, extra, False), preserve_index=False)
            pq.write_table(table, file)
        else:
            frame = _frame(values, names, ids, extra, safe_csv)
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
    ids = _identifiers(values, names, ids, extra, "a table")
    return _frame(values, names, ids, extra, safe_csv).to_csv(index=False)


def _identifiers(values: Any, names: Any, ids: Any, extra: Any, where: Any, npz: bool = False) -> Any:
    """Return the id columns, checked to have names different from the other columns."""
    ids = pd.DataFrame(index=range(len(values))) if ids is None else ids.reset_index(drop=True)
    # an NPZ file has no columns: the embedding is its X, and NumPy reserves the name "file"
    written = [*names, *(extra or ()), *(("X", "feature_names", "file") if npz else ())]
    taken = {str(c) for c in ids.columns}
    if clash := [n for n in written if n in taken]:
        raise FileProblem(
            f"The column {clash[0]!r} cannot be written beside the embedding in {where}; rename the id column."
        )
    return ids


def _frame(values: Any, names: Any, ids: Any, extra: Any, safe_csv: bool) -> Any:
    frame = pd.concat([ids, pd.DataFrame(values, columns=list(names))], axis=1).assign(**(extra or {}))
    return frame.rename(columns=_no_formula).apply(_without_formulas) if safe_csv else frame


def _without_formulas(column: Any) -> Any:
    return column if column.dtype.kind in "biuf" else column.map(_no_formula)


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
