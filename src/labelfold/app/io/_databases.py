"""Databases, accessed with SQLAlchemy: read-only queries in blocks, and writing of new tables."""

from __future__ import annotations

import logging
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from labelfold.app.io._arrow_tables import CELLS, gathered, table_of
from labelfold.app.io._csv import distinct_names
from labelfold.app.io._errors import (
    FileProblem,
    count,
    did_you_mean,
    hide_password,
    listed,
    one_line,
    pd,
    without_password,
)
from labelfold.app.io._files import existing_file
from labelfold.app.io._sources import Request, needed
from labelfold.utils import Package

sa = Package("sqlalchemy", "Databases are read with sqlalchemy: pip install 'labelfold[sql]'.")

_SELECTS = ("select", "with", "values", "from", "table")
# Strings, quoted names and comments; a semicolon in them does not end a statement.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_REMARK = re.compile(r"^(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_LOCKED = re.compile(r"database (?:table )?is locked|could not set lock|conflicting lock", re.IGNORECASE)
_EXISTS = re.compile(r"(?:table|relation) .*already exists", re.IGNORECASE)
_WRITES = re.compile(r"read-?only|data-modifying|INTO is not allowed", re.IGNORECASE)
_DUCKDB = "256MB"  # memory limit
# Seconds to wait for another program's lock, and for a server to answer.
_PATIENCE = 5
_TITLES = {"sqlite": "SQLite", "duckdb": "DuckDB"}
# The dialects of SQLAlchemy, by the name before the colon.
_DRIVERS = {
    "sqlite": "sqlite",
    "duckdb": "duckdb",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
}


# Errors are reported as one sentence. Without this handler the traceback of a connection that fails to close is
# printed too.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())


def read_database(where: Database, kind: str, request: Request) -> Any:
    """Read a table or the result of a query."""
    query, table = request.reading.query, request.reading.table
    if query is not None and table is not None:
        raise FileProblem(f"--query and --table both say what to read of {where}; give one of them.")
    with _connected(where) as connection:
        if query is None:
            query = f"select * from {_quoted(connection, *_table(where, connection, table))}"
        else:
            refuse_other_statements(query)
        return gathered(where, _blocks(where, connection, query.strip().rstrip(";"), request))


def refuse_other_statements(query: str) -> None:
    """Raise an error unless the query is a single SELECT: a read-only connection could still write files.

    >>> refuse_other_statements("select ';' as mark -- all of it;")
    >>> refuse_other_statements("drop table t")
    Traceback (most recent call last):
    labelfold.app.io._errors.FileProblem: --query begins with 'drop', where a query that ...
    """
    rest = query[_REMARK.match(query).end() :]  # type: ignore[union-attr]
    word = re.match(r"\w*", rest)[0].lower()  # type: ignore[index]
    if word not in _SELECTS:
        raise FileProblem(
            f"--query begins with {word or rest[:10]!r}, where a query that only selects is expected, such as "
            "select * from t."
        )
    # a backslash can end a string for one database and not for another
    bare = rest if "\\" in rest else _QUOTED.sub(" ", rest)
    if ";" in bare.strip().rstrip(";"):
        raise FileProblem("--query holds more than one statement; give one that selects.")


def _blocks(where: Database, connection: Any, query: str, request: Request) -> Iterator[Any]:
    """Yield the result of a query as Arrow tables."""
    # % is an ordinary character, not a parameter
    options = {"stream_results": True, "no_parameters": True}
    result = connection.execution_options(**options).exec_driver_sql(query)
    written = list(map(str, result.keys()))
    names = distinct_names(written)
    if renamed := sorted(set(names) - set(written)):
        request.note(f"{where} gave columns of the same name; the later ones are called {listed(renamed)}.")
    size = max(CELLS // max(len(names), 1), 1)
    while rows := result.fetchmany(size):
        yield table_of(names, rows)
    yield table_of(names, [])


def _table(where: Database, connection: Any, wanted: str | None) -> tuple[str | None, str]:
    """Return the schema and name of the table asked for, or of the only table."""
    inspector = sa.inspect(connection)
    there = _tables_of(inspector)
    if wanted is None:
        if len(there) == 1:
            return None, there[0]
        what = f"{count(len(there), 'table')}, {listed(there)}" if there else "no table"
        raise FileProblem(f"{where} holds {what}; name one with --table, or give a --query.")
    if wanted in there:
        return None, wanted
    schema, dot, name = wanted.partition(".")
    # DuckDB puts the name of the file before the name of the schema
    if dot and schema in {known.split(".")[-1] for known in inspector.get_schema_names()}:
        beside = _tables_of(inspector, schema)
        if name in beside:
            return schema, name
        raise FileProblem(
            f"{where} has no table {wanted!r}{did_you_mean(name, beside)}; it has {listed(beside)}."
        )
    hint = did_you_mean(wanted, there) or f"; it has {listed(there)}"
    raise FileProblem(f"{where} has no table {wanted!r}{hint}.")


def _tables_of(inspector: Any, schema: str | None = None) -> list[str]:
    """Return the tables and views of a schema, or of the default one."""
    schema = schema or inspector.default_schema_name
    return [*inspector.get_table_names(schema), *inspector.get_view_names(schema)]


def _quoted(connection: Any, schema: str | None, name: str) -> str:
    """Return the quoted name of a table."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    return ".".join(quote(part) for part in (schema, name) if part)


@contextmanager
def _connected(where: Database, *, write: bool = False) -> Iterator[Any]:
    """Open a connection, read-only by default; errors become sentences without the password."""
    try:
        engine = _engine(where, write)
        try:
            with engine.connect() as connection:
                if where.kind == "postgresql" and not write:
                    connection = connection.execution_options(postgresql_readonly=True)
                    connection.exec_driver_sql("set default_transaction_read_only = on")
                yield connection
        finally:
            engine.dispose()
    except FileProblem:
        raise
    except _errors(where) as error:
        raise _as_problem(where, error) from None  # the original message may contain the address


def _engine(where: Database, write: bool) -> Any:
    # One connection, closed after use. After a disk error a rollback on return would fail and print a traceback.
    pool: dict[str, Any] = {"poolclass": sa.NullPool, "pool_reset_on_return": None}

    if where.kind == "sqlite":
        assert where.path is not None
        uri = f"{where.path.resolve().as_uri()}?mode={'rw' if write else 'ro'}"
        # By default sqlite3 creates a table outside the transaction, and the table stays if writing its rows fails.
        how: dict[str, Any] = {"uri": True, "timeout": _PATIENCE, "isolation_level": None}
        engine = sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(uri, **how), **pool)
        begin = "BEGIN IMMEDIATE" if write else "BEGIN"
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine
    if where.kind == "duckdb":
        # limits the cache of DuckDB, and keeps its temporary files out of the folder of the data
        config = {"memory_limit": _DUCKDB, "temp_directory": tempfile.gettempdir()}
        options = {"read_only": not write, "config": config}
        return sa.create_engine(where.url, connect_args=options, **pool)
    url = where.url
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(_PATIENCE)})
    return sa.create_engine(url, **pool)


def _errors(where: Database) -> tuple[type[Exception], ...]:
    """Return the exceptions of SQLAlchemy, and those that the driver raises while fetching."""
    driver = import_module({"sqlite": "sqlite3", "duckdb": "duckdb", "postgresql": "psycopg"}[where.kind])
    return sa.exc.SQLAlchemyError, driver.Error


def _as_problem(where: Database, error: Exception) -> FileProblem:
    """Return the error of a database as one sentence."""
    text = where.sentence(error)
    if _LOCKED.search(text):
        return FileProblem(
            f"{where} is locked by another program; close it there, or read a copy of the file."
        )
    if _WRITES.search(text):
        return FileProblem(
            f"{where} is only read, and the query would write to it: {text}; give one that selects."
        )
    return FileProblem(f"{where} gave no rows: {text}.")


def _table_exists(where: Database, name: str) -> FileProblem:
    return FileProblem(
        f"{where} has a table {name!r} already, which is never written over; give --to-table another name."
    )


@dataclass(frozen=True)
class Database:
    """The address of a database: its kind, its SQLAlchemy URL, and its file if it is a file.

    ``str()`` of it shows no password.
    """

    kind: str
    url: Any
    shown: str
    path: Path | None = None

    def __str__(self) -> str:
        return self.shown

    @property
    def name(self) -> str:
        """The name of the database in reports."""
        return self.path.name if self.path else f"{self.url.database or self.url.username} on {self.url.host}"

    def sentence(self, error: BaseException | str) -> str:
        """Return the message of a driver as one line, without the password and the query."""
        text = str(getattr(error, "orig", None) or error)
        for secret in filter(None, {self.url.password, *self._more()}):
            text = text.replace(str(secret), "***")
        text = re.sub(r"^\(.*?\) ", "", text.strip())
        text = re.split(r"\n(?:LINE |HINT|\s+Is the server)", text)[0]
        return without_password(one_line(text))

    def refuse_table(self, name: str) -> None:
        """Raise an error if a table of this name exists."""
        with _connected(self) as connection:
            if name in _tables_of(sa.inspect(connection)):
                raise _table_exists(self, name)

    def write_table(self, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write columns to a new table, all rows or none.

        Parameters
        ----------
        name : str
            The name of the new table.
        columns : mapping of str to array
            Numbers, booleans, or text.
        """
        self.refuse_table(name)
        frame = pd.DataFrame({title: np.asarray(values) for title, values in columns.items()})
        texts = frame.columns[[kind.kind not in "biuf" for kind in frame.dtypes]]
        frame[texts] = frame[texts].map(str, na_action="ignore")
        with _connected(self, write=True) as connection:
            try:
                with connection.begin():
                    frame.to_sql(name, connection, index=False, chunksize=max(CELLS // frame.shape[1], 1))
            except (sa.exc.SQLAlchemyError, ValueError) as error:
                if _LOCKED.search(str(error)):
                    raise
                if _EXISTS.search(str(error)):  # another program was quicker
                    raise _table_exists(self, name) from None
                raise FileProblem(
                    f"The table {name!r} could not be written to {self}: {self.sentence(error)}."
                ) from None

    def _more(self) -> list[str]:
        return [str(value) for key, value in self.url.query.items() if "password" in key.lower()]


def database_at(address: str) -> Database:
    """Parse the address of a database."""
    shown = hide_password(address)
    scheme = address.split(":", 1)[0].lower()
    kind = scheme.split("+", 1)[0]
    if kind not in _DRIVERS:
        raise FileProblem(
            f"{shown} is no address that labelfold reads{did_you_mean(kind, _DRIVERS)}; it reads sqlite:///file, "
            "duckdb:///file and postgresql://user@host/database."
        )
    needed(shown, "sqlalchemy", "sql")
    from sqlalchemy.engine import make_url

    try:
        url = make_url(address).set(drivername=_DRIVERS[kind])
        if "@" in (url.host or ""):  # the password was cut at an @
            raise ValueError
    except Exception:  # the message of SQLAlchemy contains the address
        raise FileProblem(
            f"{shown} is not a whole address; it should read like postgresql://user:password@host:5432/database, "
            "with %40 for an @ in the password."
        ) from None
    kind = url.drivername.split("+", 1)[0]
    if kind == "postgresql":
        return Database(kind, url, shown)
    if not url.database or url.database == ":memory:":
        raise FileProblem(
            f"{shown} names no file; write {kind}:///folder/file, with four / before an absolute path."
        )
    path = existing_file(unquote(url.database))
    if _kind_of(path) != kind:
        raise FileProblem(
            f"{shown} is no {_TITLES[kind]} database: {path.name} does not begin as one does, or is encrypted."
        )
    return Database(kind, url, shown, path)


def database_in(path: Path) -> Database:
    """Return the database in a file: SQLite or DuckDB, by its first bytes."""
    needed(path, "sqlalchemy", "sql")
    from sqlalchemy.engine import URL

    kind = _kind_of(path)
    if kind is None:
        raise FileProblem(
            f"{path} is no SQLite or DuckDB database: it does not begin as one does, or is encrypted."
        )
    return Database(kind, URL.create(kind, database=str(path)), str(path), path)


def _kind_of(path: Path) -> str | None:
    """Return the kind of database of a file, by its first bytes."""
    with path.open("rb") as file:
        start = file.read(16)
    return "sqlite" if start.startswith(b"SQLite format 3") else "duckdb" if start[8:12] == b"DUCK" else None
