"""Files with named columns: CSV, TSV and Parquet, as Arrow tables."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.io._errors import (
    FileProblem,
    count,
    did_you_mean,
    listed,
    one_line,
    pa,
    pd,
    read_from,
    reporting,
)
from labelfold.app.io._files import MIB, is_packed, refuse_bomb
from labelfold.app.io._sources import Request
from labelfold.tables import (
    MISSING,
    Blocks,
    as_arrow,
    is_text,
    matching,
    numbers,
    slices,
    text_cells,
    written,
)

# Budget: files of more bytes are read in blocks. The unpacked size of a packed file is estimated by the factor.
LARGE, _TIMES = 512 * MIB, 5
# Budget: above this size in bytes, blocks are kept in a temporary file.
_IN_MEMORY = 128 * MIB
# Budget: number of Python values that are converted to columns at a time.
CELLS = 250_000
_NUMBERS = {int, float, Decimal}
_TYPED = {int, float, bool, str, bytes, date, datetime, timedelta, list, tuple}


def read_parquet(path: Path, kind: str, request: Request) -> Any:
    """Read a Parquet file, with its column types; a large file as a `Stream`."""
    import pyarrow.parquet as pq

    def blocks(columns: list[str]) -> Iterator[Any]:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=columns):
                yield from slices(pa.Table.from_batches([batch]).select(columns))

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


_FEATHER_1 = b"FEA1"


def read_arrow(path: Path, kind: str, request: Request) -> Any:
    """Read an Arrow file, an Arrow stream or a Feather file; a large file as a `Stream`."""
    with reporting(path, "is not a whole Arrow or Feather file"):
        with path.open("rb") as file:
            if file.read(4) == _FEATHER_1:
                raise FileProblem(
                    f"{path} is of Feather's first version, of 2016; write it again with a newer one."
                )
        with _opened(path) as reader:
            names = reader.schema.names
        if is_large(path):
            return checked(path, Stream(names, lambda columns: _detached(path, columns)))
        blocks = list(_blocks(path, names)) if len(set(names)) == len(names) else []
        empty = pa.table([[] for _ in names], names=names)
        return checked(path, pa.concat_tables(blocks).unify_dictionaries() if blocks else empty)


def _opened(path: Path) -> Any:
    """Open an Arrow file or stream."""
    source = pa.OSFile(str(path))  # a memory map would keep the pages that were read in memory
    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _blocks(path: Path, columns: list[str]) -> Iterator[Any]:
    """Yield some columns, validated so that a damaged file cannot cause reads outside its buffers."""
    unpacked = 0
    with _opened(path) as reader:
        several = hasattr(reader, "num_record_batches")
        batches = map(reader.get_batch, range(reader.num_record_batches)) if several else reader
        for batch in batches:
            some = pa.Table.from_batches([batch]).select(columns)
            some.validate(full=True)
            unpacked += some.nbytes
            refuse_bomb(path, path.stat().st_size, unpacked)
            yield from slices(as_arrow(some)[0])


def _detached(path: Path, columns: list[str]) -> Iterator[Any]:
    """Yield copies of some columns. A batch is one buffer, which a single column would keep in memory."""
    for block in _blocks(path, columns):
        yield block.take(np.arange(block.num_rows))


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
        return self.attempt(lambda: Blocks.split(self.blocks, names, targets, ids, sampled=sampled))


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


def gathered(where: Any, blocks: Iterable[Any]) -> Any:
    """Return Arrow tables that may differ in columns and types as one table, or as a `Stream` if they are large.

    A column of several types becomes text, as in a CSV file. The blocks are read once, so a query runs once and every
    pass sees the same rows.
    """
    kept: list[Any] = []
    on_disk, held, rows = None, 0, 0
    schemas: list[Any] = []
    for block in blocks:
        if not block.num_rows:
            schemas.append(block.schema)
            continue
        block = as_arrow(block)[0]
        rows, held = rows + block.num_rows, held + block.nbytes
        if schemas[-1:] != [block.schema]:
            schemas.append(block.schema)
        if on_disk is None and held > _IN_MEMORY:
            on_disk = _BlocksOnDisk(where)
            kept, before = [], kept
            for one in before:
                on_disk.add(one)
        (kept.append if on_disk is None else on_disk.add)(block)
    schema = _one_schema(schemas)
    check_names(where, schema.names)
    if not rows:
        raise FileProblem(f"{where} has no rows{'' if schema.names else ' and no columns'}.")
    if on_disk is None:
        return pa.concat_tables([_conformed(block, schema) for block in kept])

    def read(columns: list[str]) -> Iterator[Any]:
        some = pa.schema([schema.field(name) for name in columns])
        for block in on_disk.blocks():
            yield _conformed(block, some)

    return Stream(schema.names, read)


class _BlocksOnDisk:
    """Blocks in a temporary file, which is deleted when the process ends."""

    def __init__(self, where: Any) -> None:
        self.where, self.places = where, [0]
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the table does

    def add(self, block: Any) -> None:
        """Write a block."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, block.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as made:
            made.write_table(block)
        try:
            self.places.append(self.places[-1] + self.file.write(sink.getvalue()))
        except OSError as error:
            raise FileProblem(
                f"{self.where} is kept in the temporary folder {tempfile.gettempdir()} while it is read, and there "
                f"is no room: {one_line(error)}; name another folder with the environment variable TMPDIR."
            ) from error

    def blocks(self) -> Iterator[Any]:
        """Yield the blocks in the order in which they were added."""
        for start, end in zip(self.places, self.places[1:], strict=False):
            self.file.seek(start)
            yield pa.ipc.open_stream(self.file.read(end - start)).read_all()


def _one_schema(schemas: Sequence[Any]) -> Any:
    """Return the columns of several schemas in order of first occurrence, each with a common type."""
    if len(schemas) == 1:
        return schemas[0].remove_metadata()
    if twice := [schema for schema in schemas if len(set(schema.names)) < len(schema.names)]:
        return twice[0]
    kinds: dict[str, list[Any]] = {}
    for one in chain(*schemas):
        kinds.setdefault(one.name, []).append(one.type)
    return pa.schema([(name, _common(some)) for name, some in kinds.items()])


def _common(kinds: Sequence[Any]) -> Any:
    """Return the common type of several types; text if there is no other.

    >>> import pyarrow as pa
    >>> _common([pa.null(), pa.int64(), pa.float64()]), _common([pa.int64(), pa.string()])
    (DataType(double), DataType(string))
    """
    found = list(dict.fromkeys(kinds))
    try:
        fields = [pa.schema([("x", kind)]) for kind in found]
        return pa.unify_schemas(fields, promote_options="permissive").field("x").type
    except pa.ArrowException:
        return pa.string()


def _conformed(block: Any, schema: Any) -> Any:
    """Return a block with the columns and types of a schema; missing columns are null."""
    there = set(block.column_names)
    columns = []
    for one in schema:
        if one.name not in there:
            columns.append(pa.chunked_array([pa.nulls(block.num_rows, one.type)]))
            continue
        column = block.column(one.name)
        if column.type != one.type:
            column = written(column) if pa.types.is_string(one.type) else column.cast(one.type)
        columns.append(column)
    return pa.table(columns, schema=schema)


def table_of(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """Return rows of Python values, from a cursor or a sheet, as an Arrow table.

    >>> table_of(["n", "mixed"], [(1, "a"), (None, 2.0)]).to_pydict()
    {'n': [1, None], 'mixed': ['a', '2']}
    """
    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(names)
    return pa.table([_column(list(cells)) for cells in columns], names=list(names))


def in_blocks(rows: Iterable[Sequence[Any]], width: int) -> Iterator[list[Sequence[Any]]]:
    """Yield rows in small blocks, and at the end an empty one."""
    rows, size = iter(rows), max(CELLS // max(width, 1), 1)
    yield from iter(lambda: list(islice(rows, size)), [])
    yield []


def _column(cells: list[Any]) -> Any:
    """Return the cells of a column as an Arrow array of their common type, or as text."""
    kinds = set(map(type, cells)) - {type(None)}
    make: Callable[[Any], Any] | None = None
    if (len(kinds) > 1 and kinds <= _NUMBERS) or kinds == {Decimal}:
        make = float
    elif kinds == {memoryview}:
        make = bytes
    elif len(kinds) > 1 or not kinds <= _TYPED:
        make = _as_text
    try:
        return pa.array(cells if make is None else [None if c is None else make(c) for c in cells])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([None if c is None else _as_text(c) for c in cells], type=pa.string())


def _as_text(cell: Any) -> str:
    """Return a value as it would be written in a CSV file.

    >>> _as_text(2.0), _as_text(True), _as_text({"a": 1}), _as_text(date(2020, 5, 1))
    ('2', 'True', '{"a": 1}', '2020-05-01')
    """
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, dict | list | tuple):
        return json.dumps(cell, ensure_ascii=False, default=str)
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
    return text.encode("utf-8", "replace").decode()
