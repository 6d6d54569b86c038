"""Files with named columns: CSV, TSV and Parquet, as Arrow tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.io._csv import CsvFile
from labelfold.app.io._extras import pa, pd
from labelfold.app.io._limits import is_packed, refuse_bomb
from labelfold.app.io._problems import FileProblem, count, did_you_mean, listed, read_from, reporting
from labelfold.app.io._sources import Request
from labelfold.tables import (
    BLOCK,
    LEARNED_FROM,
    MISSING,
    Blocks,
    Sampler,
    is_text,
    matching,
    numbers,
    text_cells,
)

# Files larger than this, in bytes, are read in blocks. The unpacked size of a packed file is estimated by the factor.
LARGE, _TIMES = 1 << 29, 5


def read_csv(path: Path, kind: str, request: Request) -> Any:
    """Read a text file with named columns, all cells as text; a large file as a `Stream`."""
    file = CsvFile(path, kind, request.note, request.reading.encoding)
    if is_large(path):
        return checked(path, Stream(file.dialect.names, file.blocks, file.attempt))
    return checked(path, file.attempt(file.table))


def read_parquet(path: Path, kind: str, request: Request) -> Any:
    """Read a Parquet file, with its column types; a large file as a `Stream`."""
    import pyarrow.parquet as pq

    def blocks(columns: list[str]) -> Iterator[Any]:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BLOCK, columns=columns):
                yield pa.Table.from_batches([batch]).select(columns)

    with reporting(path, "is not a whole Parquet file"), pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        check_names(path, schema.names)
        # pandas stores an index without a name as a column
        stored = (schema.pandas_metadata or {}).get("index_columns", [])
        names = [n for n in schema.names if n not in stored or not n.startswith("__index_level")]
        if is_large(path):
            return checked(path, Stream(names, blocks))
        refuse_bomb(path, path.stat().st_size, 8 * file.metadata.num_rows * len(schema.names))
        return checked(path, file.read().select(names))


def is_large(path: Path) -> bool:
    """Tell whether a file is read a block at a time."""
    return path.stat().st_size * (_TIMES if is_packed(path) else 1) > LARGE


def checked(path: Path, table: Any) -> Any:
    """Return a table, checked to have rows and unique names."""
    check_names(path, table.column_names)
    if isinstance(table, Stream):
        return replace(table, blocks=partial(_read_later, path, table.blocks))
    if not table.num_rows:
        raise FileProblem(f"{path} has a header but no rows.")
    return table


def _read_later(path: Any, blocks: Callable[[list[str]], Iterator[Any]], columns: list[str]) -> Iterator[Any]:
    with read_from(path):
        yield from blocks(columns)


@dataclass(frozen=True)
class Stream:
    """A file that is read in blocks: its columns, a function that yields blocks, and one that checks the file."""

    column_names: list[str]
    blocks: Callable[[list[str]], Iterator[Any]]
    attempt: Callable[[Callable[[], Any]], Any] = field(default=lambda action: action())

    def split(
        self, names: Sequence[str], targets: Sequence[str], ids: Sequence[str], *, sampled: bool = True
    ) -> tuple[Any, Any]:
        """Return some columns as blocks and the targets and ids in memory.

        The blocks have a sample to fit a recipe on, unless there is a fitted one.
        """

        def once() -> tuple[Any, Any]:
            sampler, aside = Sampler(LEARNED_FROM if sampled else 1), []
            for block in self.blocks([*dict.fromkeys([*names, *targets, *ids])]):
                labelled = np.zeros(block.num_rows, dtype=bool)
                for name in targets:
                    labelled |= block.column(name).is_valid().to_numpy().astype(bool)
                sampler.add(block.select(names), labelled)
                aside.append(block.select([*targets, *ids]))
            read = Blocks(list(names), sampler.rows, self.blocks, *sampler.result())
            return read, pa.concat_tables(aside)

        return self.attempt(once)


def chosen(path: Any, columns: Sequence[str], role: str, wanted: Sequence[str]) -> list[str]:
    """Return the columns that names and patterns match, or raise an error for one without a match.

    >>> chosen(Path("t.csv"), ["label_a", "label_b", "x"], "target", ["label_*"])
    ['label_a', 'label_b']
    """
    found: dict[str, None] = {}
    for name in wanted:
        named = matching(name, columns)
        if not named:
            hint = did_you_mean(name, columns) or f" (it has {listed(columns)})"
            raise FileProblem(f"{path} has no {role} column {name!r}{hint}.")
        found |= dict.fromkeys(named)
    return list(found)


def as_written(table: Any, names: Sequence[str], *, coded: bool = False) -> Any:
    """Return some columns as a DataFrame: text columns as written, or as categories if ``coded``."""
    columns = {}
    for name in names:
        column = table.column(name)
        if is_text(column.type):
            written = column.fill_null("").dictionary_encode().to_pandas()
            columns[name] = written if coded else written.astype(object)
        else:
            columns[name] = column.to_pandas()
    return pd.DataFrame(columns)


def group_values(columns: Any) -> Any:
    """Return the group of each row from columns: their values together; None without a column.

    A row in which one of them is missing belongs to no group.

    >>> group_values(pd.DataFrame({"site": ["a", "a", ""], "patient": [1, 1, 2]})).tolist()
    ['a, 1', 'a, 1', None]
    """
    if not columns.shape[1]:
        return None
    text = columns.astype(str).apply(lambda column: column.str.strip())
    missing = (columns.isna() | text.apply(lambda column: column.str.lower().isin(MISSING))).any(axis=1)
    return text.agg(", ".join, axis=1).astype(object).where(~missing, None).to_numpy()


def plain_numbers(path: Any, table: Any) -> np.ndarray:
    """Return a table of numbers as one array, float32 if all columns are; an error names the first other cell."""
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


def check_names(path: Any, names: list[str]) -> None:
    """Raise an error if two columns have the same name."""
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise FileProblem(
            f"{path} has more than one column named {listed(repeated)}; give each its own name."
        )
