"""Files with named columns: CSV, TSV and Parquet."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from labelfold.app.io._limits import open_text, refuse_bomb
from labelfold.app.io._problems import FileProblem, did_you_mean, listed, one_line


def read_frame(path: Path, kind: str, aside: Sequence[str]) -> pd.DataFrame:
    """Read a table with named columns, those that stay aside (targets and ids) of a text file as text."""
    frame = _read_parquet(path) if kind == "parquet" else _read_text(path, kind, aside)
    if not len(frame):
        raise FileProblem(f"{path} has a header but no rows.")
    return frame


def need_columns(path: Path, frame: pd.DataFrame, **roles: Sequence[str]) -> None:
    """Refuse a table without one of the columns named, e.g. ``target=["kind"]``."""
    columns = list(frame.columns)
    for role, names in roles.items():
        for name in names:
            if name not in columns:
                raise FileProblem(f"{path} has no {role} column {name!r}{_near_columns(name, columns)}.")


def refuse_row_numbers(path: Path, frame: pd.DataFrame, wanted: list[str]) -> None:
    """Refuse the row numbers that pandas writes as a first column without a name: no measurement, but a leak."""
    first = frame.columns[0]
    if not (first in wanted and first == "Unnamed: 0" and is_numeric_dtype(frame[first])):
        return
    if (frame[first].diff().dropna() == 1).all():
        raise FileProblem(
            f"{path} has a first column without a name that only counts the rows; leave it out with "
            f"--drop {first!r}."
        )


def numeric_part(path: Path, frame: pd.DataFrame, wanted: list[str]) -> np.ndarray:
    """Return those columns as one array, float32 where all of them are, float64 otherwise."""
    part = frame[wanted]
    words = [c for c, dtype in part.dtypes.items() if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype))]
    # a column with nothing in it has no type either; its empty cells are what to complain of
    empty = [c for c in words if part[c].isna().all()]
    words = [c for c in words if c not in empty]
    if words:
        which = "1 column that is" if len(words) == 1 else f"{len(words)} columns that are"
        raise FileProblem(
            f"{path} has {which} not numeric: {listed(words)} ({_example(part[words[0]])}); encode as numbers, "
            "leave out with --drop, or keep beside the data with --id."
        )
    single = all(str(dtype).lower() == "float32" for dtype in part.dtypes)
    if empty:  # pandas would go through all columns, however many, for none of them
        part = part.astype(dict.fromkeys(empty, float))
    return part.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)


def _example(column: pd.Series) -> str:
    """Give the first cell that is no number, and say so where others are."""
    wrong = column.notna() & pd.to_numeric(column, errors="coerce").isna()
    row = int(np.flatnonzero(wrong)[0]) if wrong.any() else 0
    example = repr(str(column.iloc[row])[:40])
    if wrong.sum() == column.notna().sum():
        return f"for example {example}"
    return f"mixed types: {example} in row {row + 1} among numbers"


def _near_columns(name: str, columns: list[str]) -> str:
    return _other_separator(columns) or did_you_mean(name, columns) or f" (it has {listed(columns)})"


def _other_separator(columns: list[str]) -> str:
    separator = re.search(r"[;\t|,]", columns[0]) if len(columns) == 1 else None
    if not separator:
        return ""
    return (
        f": its only column is {columns[0][:60]!r}, so its cells seem to be separated by {separator[0]!r}; save it "
        "with commas, or with tabs as .tsv"
    )


def _read_text(path: Path, kind: str, aside: Sequence[str]) -> pd.DataFrame:
    how: dict[str, Any] = {"sep": "\t" if kind == "tsv" else ",", "encoding": "utf-8-sig"}
    try:
        # pandas renames repeated columns, so the header is looked at as a row first
        with open_text(path) as file:
            header = pd.read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False, **how)
        names = header.iloc[0].tolist()
        if any(ord(c) < 32 and c not in "\t\r\n" for name in names for c in str(name)):
            raise FileProblem(f"{path} holds binary data, not text; give its real format with --format.")
        _check_names(path, names)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # a sign in front keeps pandas from reading "NA" as nothing and "007" as 7
            as_text = dict.fromkeys(set(aside) & set(names), "={}".format)
            with open_text(path) as file:
                frame = pd.read_csv(file, index_col=False, low_memory=False, converters=as_text, **how)
        return frame.assign(**{name: frame[name].astype(str).str[1:] for name in as_text})
    except pd.errors.EmptyDataError:
        raise FileProblem(f"{path} is empty.") from None
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise FileProblem(
            f"{path} is not UTF-8 text (it has a byte {byte:#04x}); save it as UTF-8."
        ) from error
    except pd.errors.ParserWarning:
        hint = _other_separator(names) or "; give every column a name"
        raise FileProblem(f"{path} has rows with more cells than the header has names{hint}.") from None
    except (pd.errors.ParserError, EOFError, OSError) as error:
        raise FileProblem(
            f"{path} is not a whole {kind.upper()} table: {one_line(error)}; every row needs as many cells as the "
            "header."
        ) from error


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _check_names(path, file.schema_arrow.names)
            cells = file.metadata.num_rows * len(file.schema_arrow.names)
            refuse_bomb(path, path.stat().st_size, 8 * cells)
            table = file.read()
            for i, field in enumerate(table.schema):
                if pa.types.is_decimal(field.type):
                    table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
            frame = table.to_pandas()
    except FileProblem:
        raise
    except Exception as error:  # what is written in the file about its columns can be wrong in any way
        raise FileProblem(
            f"{path} is not a whole Parquet file: {one_line(error)}; write or copy it again."
        ) from error
    frame.columns = frame.columns.map(str)
    return frame


def _check_names(path: Path, names: list[str]) -> None:
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise FileProblem(
            f"{path} has more than one column named {listed(repeated)}; give each its own name."
        )
