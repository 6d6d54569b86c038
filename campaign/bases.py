"""Faults while predictions are written to a new table of a database: the table is complete, or does not exist."""

from __future__ import annotations

import atexit
import random
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from child import Ended, in_turn, new_folder, run, run_tries, run_two, signalled, undisturbed
from disk import WRITES, Calls, loaded
from files import whole

_FILES = {"table-sqlite": "t.db", "table-duckdb": "t.duckdb"}
NAMES = (*_FILES, "table-postgresql")
_FAULTS = 6
_THERE, _LOCKED = "has a table 'said' already", "is locked by another program"
Rows = list[tuple]
Disturb = Callable[["Base", Path], Ended]


@dataclass(frozen=True)
class Base:
    """A database with a table t, the rows of the table of predictions, and the seconds that writing it takes."""

    name: str
    where: str
    before: Rows
    made: Rows
    seconds: float
    calls: list[str]

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of the command."""
        return ["predict", "m.skops", self.where, "--table", "t", "--to-table", "said"]

    def check(self, folder: Path, ended: Ended) -> str:
        """Check the state after a command, and that the next command creates the table, or finds it."""
        ended.check_words()
        t, said = _tables(self, folder)
        assert t == self.before, "the table that was read has changed"
        assert said in (None, self.made), f"the new table has {len(said or ())} rows of {len(self.made)}"
        assert ended.status or said is not None, "there is no new table"
        again = run(self.arguments, folder)
        again.check_words()
        refused = said is not None and _THERE in again.err
        assert refused or again.status == 0, f"the next run failed: {again.err}"
        assert _tables(self, folder) == (self.before, self.made), "after the next run the tables are others"
        return "sentence" if ended.status > 0 else "result"


def run_batch(name: str, seed: int, number: int, *, shown: bool = False) -> tuple[Counter[str], str]:
    """Disturb a command that writes to a database; return the number of results and sentences, and the failure."""
    if name == "table-postgresql" and _server() is None:
        return Counter(), ""
    one = _base(name)

    def checked(disturb: Disturb) -> Callable[[Path], str]:
        def attempt(folder: Path) -> str:
            _drop(one)
            return one.check(folder, disturb(one, folder))

        return attempt

    tries = [(what, checked(disturb)) for what, disturb in _faults(one, seed, number)]
    return run_tries(tries, shown, _before(name))


def _faults(one: Base, seed: int, number: int) -> list[tuple[str, Disturb]]:
    rng = random.Random(f"{one.name}:{seed}:{number}")
    calls = [(kind, i) for i in range(len(one.calls)) for kind in WRITES]
    random.Random(f"{one.name}:{seed}").shuffle(calls)
    taken = in_turn(calls, number * _FAULTS, _FAULTS)
    made = [(f"{kind} at call {i} ({one.calls[i]})", _failing(kind, i)) for kind, i in taken]
    for which in (signal.SIGKILL, signal.SIGINT):
        when = rng.uniform(0, 1.05)
        made.append((f"{which.name} after {when:.3f} of its time", _signal(which, when)))
    lag = rng.choice([0.0, rng.uniform(0, 1)])
    return [*made, (f"two at once, {lag:.3f} of its time apart", _twice(lag)), ("locked by another", _locked)]


def _failing(kind: str, number: int) -> Disturb:
    def disturb(one: Base, folder: Path) -> Ended:
        ended = run(one.arguments, folder, Calls(folder, kind, number, writes=True).install)
        assert kind != "short" or ended.status == 0, f"a short write is no failure: {ended.err}"
        return ended

    return disturb


def _signal(which: int, when: float) -> Disturb:
    return lambda one, folder: signalled(one.arguments, folder, which, [when * one.seconds])


def _twice(lag: float) -> Disturb:
    def disturb(one: Base, folder: Path) -> Ended:
        both = run_two(one.arguments, folder, lag * one.seconds, (_THERE, _LOCKED))
        assert sum(ended.status == 0 for ended in both) == 1, f"not one of two: {both[0].err} {both[1].err}"
        return min(both, key=lambda ended: ended.status)

    return disturb


def _locked(one: Base, folder: Path) -> Ended:
    """Run the command while another program writes to the database."""
    if one.name != "table-sqlite":
        return run(one.arguments, folder)
    with closing(sqlite3.connect(folder / one.where)) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = run(one.arguments, folder)
    assert ended.status == 2, f"it wrote beneath a lock: {ended.out}"
    assert _LOCKED in ended.err, f"the lock is not named: {ended.err}"
    return ended


@cache
def _before(name: str) -> Path:
    """Return a folder with a model and its own database."""
    folder = new_folder("before-")
    for needed in ("m.skops", *([_FILES[name]] if name in _FILES else [])):
        shutil.copy(whole("csv") / needed, folder / needed)
    return folder


@cache
def _base(name: str) -> Base:
    root = new_folder("table-")
    folder, counted = root / "work", root / "calls"
    shutil.copytree(_before(name), folder)
    where = _FILES.get(name) or _server().url.replace("+psycopg", "")  # type: ignore[union-attr]
    one = Base(name, where, [], [], 0.0, [])
    if name not in _FILES:
        _fill()
    prepare = Calls(folder, writes=True, report=counted).install if loaded() else None
    ended = undisturbed(one.arguments, folder, prepare)
    t, said = _tables(one, folder)
    assert t is not None
    assert said is not None
    calls = counted.read_text().splitlines() if counted.exists() and name in _FILES else []
    return Base(name, where, t, said, max(ended.seconds, 0.05), calls)


def _tables(one: Base, folder: Path) -> tuple[Rows | None, Rows | None]:
    """Return the rows of both tables, None for a table that does not exist."""
    with _connected(one, folder) as execute:
        listing = "select table_name from information_schema.tables where table_schema in ('main', 'public')"
        if one.name == "table-sqlite":
            assert execute("PRAGMA integrity_check") == [("ok",)], "the database is damaged"
            listing = "select name from sqlite_master"
        there = {found for (found,) in execute(listing)}
        t, said = (execute(f"select * from {name}") if name in there else None for name in ("t", "said"))
        return t, said


@contextmanager
def _connected(one: Base, folder: Path) -> Iterator[Callable[[str], Rows]]:
    if one.name == "table-sqlite":
        make: Any = sqlite3.connect(folder / one.where)
    elif one.name == "table-duckdb":
        import duckdb

        make = duckdb.connect(folder / one.where)
    else:
        import psycopg

        make = psycopg.connect(_server().url.replace("+psycopg", ""), autocommit=True)  # type: ignore[union-attr]
    with closing(make) as connection:
        yield lambda query: [tuple(row) for row in connection.execute(query).fetchall()]


@cache
def _server() -> Any:
    """Return a separate PostgreSQL server; None if it cannot be started."""
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "app" / "sources"))
    from postgres import Server, why_not

    if why_not():
        return None
    server = Server(new_folder("pg-"))
    atexit.register(server.close)
    return server


def _fill() -> None:
    """Write the table t to the server."""
    import pandas as pd
    import sqlalchemy as sa

    engine = sa.create_engine(_server().url)
    pd.read_csv(whole("csv") / "t.csv").to_sql("t", engine, index=False)
    engine.dispose()


def _drop(one: Base) -> None:
    """Remove the new table from a server, which all cases share."""
    if one.name not in _FILES:
        import psycopg

        with psycopg.connect(one.where, autocommit=True) as connection:
            connection.execute("drop table if exists said")
