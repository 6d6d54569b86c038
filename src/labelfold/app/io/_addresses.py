"""Addresses of databases, such as ``sqlite:///shop.db``. The password of an address is never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from labelfold.app.io._problems import FileProblem, did_you_mean, existing_file, one_line
from labelfold.app.io._sources import needed

# The password, between user and host. It may contain @ and blanks, so the last @ ends it.
_USER = r"(?P<before>[A-Za-z][\w+.-]*://[^/\s:@]*:)"
_PASSWORD, _ANY_PASSWORD = re.compile(rf"{_USER}\S*@"), re.compile(rf"{_USER}.*@", re.DOTALL)
_KEY = re.compile(r"(?P<before>[?&](?:ssl)?password=)[^&\s]*", re.IGNORECASE)
_TITLES = {"sqlite": "SQLite", "duckdb": "DuckDB"}
# The dialects of SQLAlchemy, by the name before the colon.
_DRIVERS = {
    "sqlite": "sqlite",
    "duckdb": "duckdb",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
}


def without_password(text: str) -> str:
    """Return text with *** in place of the password of an address in it.

    >>> without_password("postgresql://me:a@b:c@host/shop?sslmode=require was not found.")
    'postgresql://me:***@host/shop?sslmode=require was not found.'
    """
    return _KEY.sub(r"\g<before>***", _PASSWORD.sub(r"\g<before>***@", text))


def hidden(address: str) -> str:
    """Return an address with *** in place of its password; other text as it is.

    >>> hidden("postgresql://me:a b@host/shop")
    'postgresql://me:***@host/shop'
    """
    return _KEY.sub(r"\g<before>***", _ANY_PASSWORD.sub(r"\g<before>***@", address))


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

    def _more(self) -> list[str]:
        return [str(value) for key, value in self.url.query.items() if "password" in key.lower()]


def database_at(address: str) -> Database:
    """Parse the address of a database."""
    shown = hidden(address)
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
