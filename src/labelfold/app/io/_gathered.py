"""Combines blocks of rows of different types into one table, in memory or in a temporary file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain, islice
from typing import Any

from labelfold.app.io._extras import pa
from labelfold.app.io._frames import Stream, check_names
from labelfold.app.io._problems import FileProblem, one_line
from labelfold.tables import as_arrow, written

# Above this size in bytes, blocks are kept in a temporary file.
_IN_MEMORY = 1 << 27
# Number of Python values that are converted to columns at a time.
CELLS = 1 << 18
_NUMBERS = {int, float, Decimal}
_TYPED = {int, float, bool, str, bytes, date, datetime, timedelta, list, tuple}


def gathered(where: Any, blocks: Iterable[Any]) -> Any:
    """Return Arrow tables that may differ in columns and types as one table, or as a `Stream` if they are large.

    A column of several types becomes text, as in a CSV file. The blocks are read once, so a query runs once and every
    pass sees the same rows.
    """
    kept: list[Any] = []
    spool, held, rows = None, 0, 0
    schemas: list[Any] = []
    for block in blocks:
        if not block.num_rows:
            schemas.append(block.schema)
            continue
        block = as_arrow(block)[0]
        rows, held = rows + block.num_rows, held + block.nbytes
        if schemas[-1:] != [block.schema]:
            schemas.append(block.schema)
        if spool is None and held > _IN_MEMORY:
            spool = _Spool(where)
            kept, before = [], kept
            for one in before:
                spool.add(one)
        (kept.append if spool is None else spool.add)(block)
    schema = _one_schema(schemas)
    check_names(where, schema.names)
    if not rows:
        raise FileProblem(f"{where} has no rows{'' if schema.names else ' and no columns'}.")
    if spool is None:
        return pa.concat_tables([_conformed(block, schema) for block in kept])

    def read(columns: list[str]) -> Iterator[Any]:
        some = pa.schema([schema.field(name) for name in columns])
        for block in spool.blocks():
            yield _conformed(block, some)

    return Stream(schema.names, read)


class _Spool:
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
    for field in chain(*schemas):
        kinds.setdefault(field.name, []).append(field.type)
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
    for field in schema:
        if field.name not in there:
            columns.append(pa.chunked_array([pa.nulls(block.num_rows, field.type)]))
            continue
        column = block.column(field.name)
        if column.type != field.type:
            column = written(column) if pa.types.is_string(field.type) else column.cast(field.type)
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
