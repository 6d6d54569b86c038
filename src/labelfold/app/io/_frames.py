"""Files with named columns: CSV, TSV and Parquet, as Arrow tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.io._csv import read_csv
from labelfold.app.io._limits import refuse_bomb
from labelfold.app.io._problems import FileProblem, count, did_you_mean, listed, one_line
from labelfold.tables._arrow import is_text, text_cells
from labelfold.tables._numbers import numbers


def read_frame(path: Path, kind: str, note: Callable[[str], None]) -> Any:
    """Read a table with named columns: typed ones of Parquet, text of anything else."""
    table = _read_parquet(path) if kind == "parquet" else read_csv(path, kind, note)
    _check_names(path, table.column_names)
    if not table.num_rows:
        raise FileProblem(f"{path} has a header but no rows.")
    return table


def matching(path: Path, columns: Sequence[str], role: str, wanted: Sequence[str]) -> list[str]:
    """Return the columns that some names and patterns stand for, or say which name is none.

    >>> matching(Path("t.csv"), ["label_a", "label_b", "x"], "target", ["label_*"])
    ['label_a', 'label_b']
    """
    found: dict[str, None] = {}
    for name in wanted:
        named = [name] if name in columns else [c for c in columns if fnmatchcase(c, name)]
        if not named:
            hint = did_you_mean(name, columns) or f" (it has {listed(columns)})"
            raise FileProblem(f"{path} has no {role} column {name!r}{hint}.")
        found |= dict.fromkeys(named)
    return list(found)


def as_written(table: Any, names: Sequence[str]) -> Any:
    """Return some columns as a pandas frame, those of text as they are written."""
    import pandas as pd

    columns = {}
    for name in names:
        column = table.column(name)
        columns[name] = (
            column.fill_null("").to_pandas().astype(object) if is_text(column.type) else column.to_pandas()
        )
    return pd.DataFrame(columns)


def plain_numbers(path: Path, table: Any) -> np.ndarray:
    """Return a table of plain numbers as one array, float32 where all are, or name the first cell that is none."""
    columns = []
    for name in table.column_names:
        cells = table.column(name)
        values = numbers(cells, None)
        bad = np.isnan(values)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            cell = text_cells(cells, numbers=True)[row].as_py()
            infinite = cell is not None and cell.lower().lstrip("+-").startswith("inf")
            what = "empty" if cell is None else "infinite" if infinite else repr(cell[:40])
            raise FileProblem(
                f"{path} has {count(int(bad.sum()), 'cell')} without a usable number in column {name!r}, the first "
                f"in row {row + 1}: it is {what}; a model of labelfold fit or labelfold compare --save takes such "
                "tables."
            )
        columns.append(values)
    return np.column_stack(columns)


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _check_names(path, file.schema_arrow.names)
            cells = file.metadata.num_rows * len(file.schema_arrow.names)
            refuse_bomb(path, path.stat().st_size, 8 * cells)
            table = file.read()
            stored = (table.schema.pandas_metadata or {}).get("index_columns", [])
            index = [name for name in stored if isinstance(name, str) and name.startswith("__index_level")]
            return table.drop_columns([name for name in index if name in table.column_names])
    except FileProblem:
        raise
    except Exception as error:  # what is written in the file about its columns can be wrong in any way
        raise FileProblem(
            f"{path} is not a whole Parquet file: {one_line(error)}; write or copy it again."
        ) from error


def _check_names(path: Path, names: list[str]) -> None:
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise FileProblem(
            f"{path} has more than one column named {listed(repeated)}; give each its own name."
        )
