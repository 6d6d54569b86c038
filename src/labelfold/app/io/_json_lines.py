"""JSON lines: one object a line. Fields of nested objects become columns such as ``address.city``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import json as arrow_json

from labelfold.app.io._arrow_tables import gathered, table_of
from labelfold.app.io._csv import LINES, WINDOWS
from labelfold.app.io._errors import FileProblem, one_line, pa, reporting
from labelfold.app.io._files import BLOCK, open_text
from labelfold.app.io._sources import Request

# Deepest nesting that is passed to pyarrow, which has no limit of its own.
_MAX_DEPTH = 1000


def read_json_lines(path: Path, kind: str, request: Request) -> Any:
    """Read JSON lines, or an array of objects; a large file as a `Stream`."""
    with open_text(path) as file:
        start = file.read(1 << 16)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileProblem(f"{path} is UTF-16 text; JSON is UTF-8: write it again in that.")
    array = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["
    return gathered(path, _of_array(path) if array else _of_lines(path, request))


def _of_lines(path: Path, request: Request) -> Iterator[Any]:
    """Yield the lines as Arrow tables of some megabytes; their columns and types may differ."""
    as_text: dict[str, Any] = {}
    told = False
    first = 1
    for chunk in _chunks(path):
        try:
            chunk.decode("utf-8")
        except UnicodeDecodeError:
            chunk = chunk.decode("utf-8", WINDOWS).encode()
            if not told:
                request.note(f"{path} is not UTF-8 text throughout; other bytes were read as Windows-1252.")
            told = True
        _refuse_other_keys(path, chunk)
        table = _parsed(chunk, as_text)
        yield _from_objects(_objects(path, chunk, first)) if table is None else table
        first += chunk.count(b"\n")


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield whole lines, some megabytes at a time."""
    with open_text(path) as file:
        left = file.read(3).removeprefix(b"\xef\xbb\xbf")
        while part := file.read(BLOCK):
            lines, mark, left = (left + part).rpartition(b"\n")
            if lines.strip():
                yield lines + mark
        if left.strip():
            yield left


def _parsed(chunk: bytes, as_text: dict[str, Any]) -> Any:
    """Return lines parsed by pyarrow; None if it cannot parse them, for example a key with numbers and text.

    Text that looks like a date stays text, as in a CSV file; ``as_text`` collects the keys of such columns.
    """
    # a matrix of 100,000 lines takes 2.7 times as long with the json module alone (benchmarks/second_ways.py)
    if _brackets(chunk) > _MAX_DEPTH:
        return None
    known = len(as_text)
    options = arrow_json.ReadOptions(block_size=len(chunk) + 1)
    explicit = pa.schema(list(as_text.items())) if as_text else None
    try:
        table = arrow_json.read_json(
            pa.BufferReader(chunk), options, arrow_json.ParseOptions(explicit_schema=explicit)
        )
    except pa.ArrowException:
        return None
    for field in table.schema:
        if (kind := _dates_as_text(field.type)) is not None:
            as_text[field.name] = kind
    if len(as_text) > known:
        again = _parsed(chunk, as_text)
        return None if again is None else _in_order(again, table.column_names)
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def _brackets(chunk: bytes) -> int:
    """Return an upper bound of the nesting depth: the most opening brackets in a line."""
    signs = np.frombuffer(chunk, dtype=np.uint8)
    starts = np.append(0, np.flatnonzero(signs[:-1] == ord("\n")) + 1)
    opening = (signs == ord("[")) | (signs == ord("{"))
    return int(np.add.reduceat(opening, starts, dtype=np.int32).max())


def _in_order(table: Any, names: list[str]) -> Any:
    """Return columns in the order in which their keys occur."""
    place = {name: j for j, name in enumerate(names)}
    first = {name: place.get(name, place.get(name.split(".")[0], 0)) for name in table.column_names}
    return table.select(sorted(table.column_names, key=first.__getitem__))


def _dates_as_text(kind: Any) -> Any:
    """Return a type with dates replaced by text; None if it contains no dates."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        inner = [(f.name, made) for f in kind if (made := _dates_as_text(f.type)) is not None]
        return pa.struct(inner) if inner else None
    if pa.types.is_list(kind) and (made := _dates_as_text(kind.value_type)) is not None:
        return pa.list_(made)
    return None


def _objects(path: Path, chunk: bytes, first: int) -> Iterator[dict[str, Any]]:
    """Yield the objects of lines, or raise an error for a line that is not an object."""
    for number, line in zip(count(first), chunk.split(b"\n"), strict=False):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileProblem(
                f"{path} has no JSON object in line {number}: {one_line(error)}; every line should be one object, "
                'such as {"age": 31, "plan": "pro"}.'
            ) from error
        if not isinstance(found, dict):
            raise FileProblem(
                f"{path} has {one_line(str(found))[:40]!r} in line {number}, where an object is expected, such as "
                '{"age": 31, "plan": "pro"}.'
            )
        yield found


def _of_array(path: Path) -> Iterator[Any]:
    """Yield the objects of a file that holds one array of objects."""
    errors = (ValueError, RecursionError)
    with reporting(path, "is not whole JSON", errors=errors), open_text(path) as file:
        found = json.load(file)
    if not all(isinstance(one, dict) for one in found):
        raise FileProblem(f"{path} is an array, of which not all items are objects with a key a column.")
    yield _from_objects(found)


def _from_objects(objects: Iterable[dict[str, Any]]) -> Any:
    """Return objects as an Arrow table; a key that an object lacks is null."""
    rows = [dict(_flat(one)) for one in objects]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return table_of(names, [[row.get(name) for name in names] for row in rows])


def _flat(found: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of an object under their names.

    >>> dict(_flat({"a": 1, "b": {"c": 2}}))
    {'a': 1, 'b.c': 2}
    """
    for key, value in found.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _refuse_other_keys(path: Path, chunk: bytes) -> None:
    """Raise an error if nearly every line has different keys, so that there is no table."""
    lines = chunk.split(b"\n", LINES)[:LINES]
    keys: list[str] = []
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):  # reported when the line is read
            return
        keys += found if isinstance(found, dict) else ()
    if len(lines) == LINES and len(set(keys)) > 0.5 * len(keys):
        raise FileProblem(
            f"{path} has other keys in nearly every line, such as {keys[0]!r} and {keys[-1]!r}; a table has the same "
            "ones in all."
        )
