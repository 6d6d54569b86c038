"""The list of all sources that labelfold reads, by ending, folder or address.

Each source is read by one function, ``read(where, kind, request)``. It returns named columns (an Arrow table, or a
`Stream` of blocks if there are many rows) or a `Matrix`. The steps after it (target, ids, recipe, errors) are the
same
for all sources, and are in `_tables.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labelfold.app.io._errors import FileProblem, did_you_mean, read_from
from labelfold.app.io._files import existing_file, is_packed, unpacked_name

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/{2}")


@dataclass(frozen=True)
class Reading:
    """Options of reading a source; None means automatic.

    Attributes
    ----------
    format : str
        Name of a source.
    encoding : str
        Encoding of a text file.
    sheet : str
        Sheet of a workbook.
    query, table : str
        Query or table of a database.
    image : str
        The column of a table that holds paths of images.
    image_size : pair of int
        Height and width to which images are resized.
    colour : bool
        Whether images are read in colour rather than in grey.
    """

    format: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    query: str | None = None
    table: str | None = None
    image: str | None = None
    image_size: tuple[int, int] | None = None
    colour: bool | None = None


@dataclass(frozen=True)
class Request:
    """What a source is read for.

    Attributes
    ----------
    reading : Reading
    note : callable
        Called with a sentence for each step taken to read the source.
    targets, ids : sequence of str
        Names of targets and ids, for sources whose columns are not all in one table.
    groups : sequence of str
        The column, or array, whose equal values say which rows belong together.
    optional : bool
        Whether the targets may be missing, because a file of labels has them.
    index_base : int or None
        For svmlight, the index of the first column.
    known_ids, drop : sequence of str
        Columns that name the rows if the source has them, and columns to leave out.
    features : sequence of str or None
        The columns of X, in this order; None for all other columns.
    """

    reading: Reading = field(default_factory=Reading)
    note: Callable[[str], None] = lambda sentence: None
    targets: Sequence[str] = ()
    ids: Sequence[str] = ()
    groups: Sequence[str] = ()
    optional: bool = False
    index_base: int | None = None
    known_ids: Sequence[str] = ()
    drop: Sequence[str] = ()
    features: Sequence[str] | None = None


@dataclass(frozen=True)
class Matrix:
    """A source without a table: the matrix, and its labels, names and groups if there are any."""

    X: Any
    y: Any = None
    names: list[str] | None = None
    ids: Any = None
    targets: list[str] = field(default_factory=list)
    index_base: int | None = None
    groups: Any = None


@dataclass(frozen=True)
class TableSource:
    """A kind of source.

    Attributes
    ----------
    name : str
        Its name for ``--format``.
    read : str
        The function that reads it, as ``module:function`` in this package.
    suffixes : tuple of str
        Endings of its files.
    takes : tuple of str
        The fields of `Reading` that it supports.
    packed : bool
        Whether a file may be packed as .gz, .bz2, .zst or .zip.
    labelled : bool
        Whether its labels are found without a target.
    needs : str
        The module that reads it, if it is in an extra.
    extra : str
        Name of the extra.
    """

    name: str
    read: str
    suffixes: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    packed: bool = False
    labelled: bool = False
    needs: str = ""
    extra: str = ""


_SQL: dict[str, Any] = {"takes": ("query", "table"), "extra": "sql"}
_ALL = (
    TableSource("csv", "_csv:read_csv", (".csv", ".txt"), ("encoding",), packed=True),
    TableSource("tsv", "_csv:read_csv", (".tsv", ".tab"), ("encoding",), packed=True),
    TableSource("parquet", "_arrow_tables:read_parquet", (".parquet", ".pq")),
    TableSource("arrow", "_arrow_tables:read_arrow", (".arrow", ".feather", ".ipc", ".arrows")),
    TableSource("jsonl", "_json_lines:read_json_lines", (".jsonl", ".ndjson", ".json"), packed=True),
    TableSource(
        "excel",
        "_sheets:read_sheet",
        (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
        ("sheet",),
        needs="python_calamine",
        extra="excel",
    ),
    TableSource("npz", "_matrices:npz_source", (".npz",), labelled=True),
    TableSource("npy", "_matrices:npy_source", (".npy",), labelled=True),
    TableSource(
        "svmlight", "_matrices:svmlight_source", (".svmlight", ".svm", ".libsvm"), packed=True, labelled=True
    ),
    TableSource("h5ad", "_matrices:read_h5ad", (".h5ad",), needs="anndata", extra="h5ad"),
    TableSource(
        "sqlite", "_databases:read_database", (".db", ".sqlite", ".sqlite3"), needs="sqlalchemy", **_SQL
    ),
    TableSource("duckdb", "_databases:read_database", (".duckdb", ".ddb"), needs="duckdb_engine", **_SQL),
    TableSource("postgresql", "_databases:read_database", needs="psycopg", **_SQL),
    TableSource("images", "_images:read_folder", labelled=True, needs="PIL", extra="images"),
)
SOURCES = {source.name: source for source in _ALL}
SUFFIXES = {suffix: source.name for source in _ALL for suffix in source.suffixes}
_OF_IMAGES = ("image_size", "colour")


def find(data: str | os.PathLike[str], reading: Reading) -> tuple[TableSource, Any]:
    """Return the kind of source and the place of a path or an address, which is checked to exist.

    Parameters
    ----------
    data : path or str
        A file, a folder of images, or the address of a database.
    reading : Reading
        Options of reading. An option that the source does not support is an error.

    Returns
    -------
    source : TableSource
    where : Path or Database
        ``str()`` of it shows no password.
    """
    if isinstance(data, str) and _ADDRESS.match(data):
        from labelfold.app.io._databases import database_at

        where: Any = database_at(data)
        source = SOURCES[where.kind]
    elif Path(data).is_dir():
        where, source = Path(data), SOURCES["images"]
    else:
        where = existing_file(data)
        source = SOURCES[table_format(where, reading.format)]
        if source.extra == "sql":
            from labelfold.app.io._databases import database_in

            with read_from(where):
                where = database_in(where)
            source = SOURCES[where.kind]
    if reading.format not in (None, source.name):
        raise FileProblem(f"{where} is read as {source.name}; leave out --format {reading.format}.")
    _refuse_options(where, source, reading)
    if source.needs:
        needed(where, source.needs, source.extra)
    return source, where


def read(source: TableSource, where: Any, request: Request) -> Any:
    """Read a source: its columns with their names, all at once or as a `Stream`, or a `Matrix`."""
    module, function = source.read.split(":")
    reader = getattr(import_module(f"labelfold.app.io.{module}"), function)
    with read_from(where):
        return reader(where, source.name, request)


def folder_of(where: Any) -> Path:
    """Return the folder that paths of images are relative to: a folder of images, or that of a table."""
    folder = isinstance(where, Path) and where.is_dir()
    return where if folder else Path(getattr(where, "path", where) or ".").parent


def needed(where: Any, module: str, extra: str) -> None:
    """Raise an error that names the extra if the module that reads a source is not installed."""
    if find_spec(module) is None:
        raise FileProblem(
            f"{where} is read with {module}, which is not installed: pip install 'labelfold[{extra}]'."
        )


def _refuse_options(where: Any, source: TableSource, reading: Reading) -> None:
    """Raise an error for an option that a source does not support."""
    pictured = source.name == "images" or reading.image is not None
    known = {"format", *source.takes, *(_OF_IMAGES if pictured else ())}
    if source.name != "images":
        known.add("image")
    for option in (one.name for one in fields(Reading)):
        value = getattr(reading, option)
        if value is None or option in known:
            continue
        if option in _OF_IMAGES:
            raise FileProblem(
                f"{where} holds no images, so it has no {_in_words(option)}; a folder of images has one, and a table "
                "whose column of paths --image names."
            )
        given = "" if isinstance(value, bool | tuple) else f" {value}"
        raise FileProblem(
            f"{where} is read as {source.name}, which has no {_in_words(option)}; leave out --{option}{given}."
        )


def _in_words(option: str) -> str:
    return option.replace("_", " ")


def table_format(path: Path, format: str | None = None) -> str:
    """Return the format of a table: the given one, or that of the file's ending."""
    known = sorted(SOURCES)
    if format is not None:
        if format not in known:
            hint = did_you_mean(format, known)
            raise FileProblem(f"{format!r} is no format labelfold reads{hint}; it reads {', '.join(known)}.")
        return format
    packed = is_packed(path)
    found = SUFFIXES.get(unpacked_name(path).suffix.lower())
    if found is None or (packed and not SOURCES[found].packed):
        raise FileProblem(
            f"{path} has an ending labelfold does not know; it knows {', '.join(SUFFIXES)}, and --format "
            "says what a file with another name holds."
        )
    return found
