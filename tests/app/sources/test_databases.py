"""SQLite, DuckDB and PostgreSQL: read-only, in blocks, one sentence for what is wrong, and never a password."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from postgres import Server, why_not
from shapes import mixed_table, write_duckdb, write_sqlite
from test_formats import refused, run

from labelfold.app.commands._cli import main
from labelfold.app.io import FileProblem, read_table
from labelfold.app.io._databases import database_in, refuse_other_statements
from labelfold.app.io._errors import without_password

pytestmark = pytest.mark.usefixtures("quick_comparisons")
SECRET = "s3cr:t/%40"


@pytest.fixture(scope="module")
def frame():
    return mixed_table()


@pytest.fixture(scope="module")
def postgres():
    if why := why_not():
        pytest.skip(why)
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket has to be short
        try:
            server = Server(Path(folder))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            pytest.skip(f"PostgreSQL could not be started: {error}")
        yield server
        server.close()


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def database(request, frame, tmp_path):
    """The address of a database with the table t, and a function that runs a statement there and returns rows."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        address, url = server.url.replace("+psycopg", "").replace("//me@", f"//me:{SECRET}@"), server.url
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.exec_driver_sql("drop schema public cascade; create schema public")
        frame.to_sql("t", engine, index=False)
        engine.dispose()
    else:
        write = {"sqlite": write_sqlite, "duckdb": write_duckdb}[request.param]
        write(frame, tmp_path / "shop.db")
        address = url = f"{request.param}:///{tmp_path / 'shop.db'}"

    def rows(statement):
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            result = connection.exec_driver_sql(statement)
            return result.all() if result.returns_rows else []

    return address, rows


def test_a_table_and_a_query(database, frame):
    address, _ = database
    table = read_table(address, target="kind", id_columns=["id"], table="t")
    assert table.ids["id"].tolist() == frame["id"].tolist()
    assert table.raw.column("visits").to_pylist() == frame["visits"].tolist()
    assert [v is None for v in table.y] == frame["kind"].isna().tolist()
    query = "select id, visits + 1 as visits, kind from t where city like 'R%' order by id;"
    some = frame[frame["city"] == "Rome"].sort_values("id")
    table = read_table(address, target="kind", id_columns=["id"], query=query)
    assert table.ids["id"].tolist() == some["id"].tolist()
    assert table.raw.to_pydict() == {"visits": (some["visits"] + 1).tolist()}
    # the only table is meant where none is named
    assert read_table(address, target="kind").raw.num_rows == len(frame)


def test_tables_of_other_schemas_and_views(database, frame):
    address, rows = database
    rows("create view seen as select id, visits from t")
    assert read_table(address, table="seen").raw.num_columns == 2
    rows('create table "odd "" name.x" as select visits from t')
    assert read_table(address, table='odd " name.x').raw.shape == (90, 1)
    if address.startswith("sqlite"):
        return
    rows("create schema if not exists other")
    rows("drop table if exists other.u")
    rows("create table other.u as select size from t")
    assert read_table(address, table="other.u").raw.column("size").to_pylist() == frame["size"].tolist()
    refused(lambda: read_table(address, table="other.uu"), "has no table 'other.uu'", "did you mean 'u'?")
    refused(lambda: read_table(address, table="elsewhere.u"), "has no table 'elsewhere.u'")


def test_columns_of_one_name_are_renamed_as_in_csv(database):
    address, _ = database
    table = read_table(address, query="select visits, visits, size from t")
    assert table.raw.column_names == ["visits", "visits.1", "size"]
    assert "columns of the same name" in table.notes[0]


WRITES = [
    "delete from t",
    "insert into t select * from t",
    "drop table t",
    "create table u as select * from t",
    "update t set visits = 0",
    "with gone as (delete from t returning *) select * from gone",
    "select * from t; drop table t",
    "/* select */ drop table t",
    "vacuum into 'copy.db'",
    "copy t to 'copy.csv'",
    "attach 'new.db' as n",
    "",
]


@pytest.mark.parametrize("query", WRITES)
def test_a_query_that_writes_is_refused(query, database, frame, tmp_path, monkeypatch):
    address, rows = database
    monkeypatch.chdir(tmp_path)
    before = set(os.listdir())
    refused(lambda: read_table(address, query=query))
    ((n, visits),) = rows("select count(*), sum(visits) from t")
    assert (n, int(visits)) == (len(frame), frame["visits"].sum())
    assert set(os.listdir()) == before


@pytest.mark.parametrize(
    "query",
    [
        "select ';' from t",
        "-- all; of it\nselect 1",
        "(select 1)",
        "values (1)",
        "WITH a AS (SELECT 1) SELECT * FROM a;\n",
        'select "a;b" from t',
    ],
)
def test_queries_that_only_select_pass(query):
    refuse_other_statements(query)


def test_a_string_that_ends_elsewhere_hides_no_statement():
    """E'\\'' ends at the third quote for PostgreSQL and at the fourth for others."""
    with pytest.raises(FileProblem, match="more than one statement"):
        refuse_other_statements("select E'\\'' ; drop table t; --'")


def test_what_is_wrong_is_said_in_a_sentence(database):
    address, rows = database
    shown = without_password(address)
    refused(lambda: read_table(address, table="tt"), shown, "has no table 'tt'", "did you mean 't'?")
    refused(lambda: read_table(address, query="select * from nope"), shown, "nope")
    refused(lambda: read_table(address, query="select nope from t"), shown, "nope")
    refused(lambda: read_table(address, query="select * from t where"), shown)
    refused(lambda: read_table(address, query="select * from t where visits < 0"), shown, "has no rows")
    refused(lambda: read_table(address, query="select 1", table="t"), "--query and --table")
    refused(lambda: read_table(address, table="t", target="knd"), "no target column 'knd'")
    refused(lambda: read_table(address, table="t", sheet="a"), "which has no sheet")
    rows("create table u (a integer)")
    refused(lambda: read_table(address), "holds 2 tables", "--table")
    refused(lambda: read_table(address, table="u"), "has no rows")


def test_predictions_go_to_a_new_table_and_never_over_one(database, frame, tmp_path, capsys):
    address, rows = database
    model = tmp_path / "m"
    run(
        capsys,
        "fit",
        address,
        "--table",
        "t",
        "-t",
        "kind",
        "--id",
        "id",
        "-m",
        "lda",
        "--ridge",
        1,
        "-o",
        model,
    )
    out, _ = run(capsys, "predict", model, address, "--table", "t", "--id", "id", "--to-table", "p q")
    assert out == f"90 predictions written to the new table p q of {without_password(address)}\n"
    found = pd.DataFrame(rows('select * from "p q"'), columns=["id", "predicted", "confidence"])
    assert found["id"].tolist() == frame["id"].tolist()
    known = frame["kind"].notna()
    assert (found["predicted"][known] == frame["kind"][known]).mean() > 0.6
    assert found["confidence"].between(0, 1).all()
    rows("create table taken (a integer)")
    for name in ("p q", "t", "taken"):
        _, err = run(capsys, "predict", model, address, "--table", "t", "--to-table", name, status=2)
        assert f"has a table {name!r} already" in err
    assert rows("select count(*) from taken") == [(0,)]
    assert rows('select count(*) from "p q"') == [(90,)]
    _, err = run(capsys, "predict", model, tmp_path / "m", "--to-table", "x", status=2)
    assert err.count("\n") == 1


def test_the_password_is_written_nowhere(postgres, frame, tmp_path, capsys, monkeypatch):
    """Neither on the screen, nor in the report, the answer, the results or the model, and in no error."""
    engine = sa.create_engine(postgres.url)
    frame.to_sql("t", engine, index=False, if_exists="replace")
    engine.dispose()
    address = postgres.url.replace("+psycopg", "").replace("//me@", "//me:hunter2@")
    command = [
        "compare",
        address,
        "--table",
        "t",
        "-t",
        "kind",
        "--id",
        "id",
        "-m",
        "lda",
        "-r",
        "1",
        "--save",
    ]
    monkeypatch.setattr(sys, "argv", ["labelfold", *command])
    monkeypatch.setenv("LABELFOLD_DEBUG", "")
    out, err = run(capsys, *command, "-o", tmp_path / "out", "--to-table", "told")
    assert "hunter2" not in out + err
    made = list((tmp_path / "out").iterdir())
    assert {"report.html", "answer.json", "run.json", "model.skops", "predictions.csv"} <= {
        p.name for p in made
    }
    for path in made:
        assert b"hunter2" not in path.read_bytes(), path.name
    assert "me:***@" in (tmp_path / "out" / "report.html").read_text()


BAD_ADDRESSES = {
    "postgresql://me:hunter2@127.0.0.1:1/x": "127.0.0.1",
    "postgresql://me:hunter2@/x?host=/nowhere": "/nowhere",
    "postgresql://me:hun@ter2@127.0.0.1:1/x": "%40",
    "postgresql://me:hunter2@host:port/x": "not a whole address",
    "postgresql://me@127.0.0.1:1/x?password=hunter2": "127.0.0.1",
    "postgresql://me:hun ter2@127.0.0.1:1/x": "127.0.0.1",
    "mysql://me:hunter2@host/x": "is no address that labelfold reads",
    "sqlit:///x.db": "did you mean 'sqlite'?",
    "sqlite:///nope.db": "There is no file nope.db",
    "sqlite://": "names no file",
    "duckdb:///:memory:": "names no file",
}


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_bad_addresses(address, capsys, monkeypatch):
    words = BAD_ADDRESSES[address]
    for debug in ("", "1"):
        monkeypatch.setenv("LABELFOLD_DEBUG", debug)
        if debug:
            with pytest.raises(FileProblem) as caught:
                main(["fit", address, "-t", "kind", "-o", "m"])
            err = f"labelfold: {caught.value}\n"
            assert caught.value.__suppress_context__ or caught.value.__context__ is None
        else:
            _, err = run(capsys, "fit", address, "-t", "kind", "-o", "m", status=2)
        assert words in err
        assert err.endswith(".\n")
        for part in ("hunter2", "ter2", "hun@", "hun "):
            assert part not in err


def test_a_locked_file(tmp_path, frame, monkeypatch):
    monkeypatch.setattr("labelfold.app.io._databases._PATIENCE", 0.1)
    write_sqlite(frame, tmp_path / "s.db")
    other = sqlite3.connect(tmp_path / "s.db")
    other.execute("begin exclusive")
    refused(lambda: read_table(tmp_path / "s.db"), "is locked by another program")
    other.close()
    write_duckdb(frame, tmp_path / "d.duckdb")
    path = str(tmp_path / "d.duckdb")
    hold = f"import duckdb; c = duckdb.connect({path!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"open\n"
        refused(lambda: read_table(tmp_path / "d.duckdb"), "is locked by another program")
        holder.communicate(b"\n")


def test_a_column_of_several_types_is_text(tmp_path):
    """SQLite keeps whatever was put into a column; an import leaves empty text among numbers."""
    with sqlite3.connect(tmp_path / "s.db") as made:
        made.execute("create table t (a real, b, c blob)")
        made.executemany("insert into t values (?, ?, ?)", [(1.5, 1, b"x"), ("", "x", None), (2, 2.5, None)])
    made.close()
    table = read_table(tmp_path / "s.db")
    assert table.raw.column("a").to_pylist() == ["1.5", "", "2"]
    assert table.raw.column("b").to_pylist() == ["1", "x", "2.5"]
    np.testing.assert_array_equal(table.raw.column("c").to_pylist(), [b"x", None, None])


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_table_whose_rows_cannot_be_written_is_not_there(kind, tmp_path, frame, monkeypatch):
    path = tmp_path / {"sqlite": "s.db", "duckdb": "d.duckdb"}[kind]
    {"sqlite": write_sqlite, "duckdb": write_duckdb}[kind](frame, path)
    where = database_in(path)
    execute = sa.Connection.execute

    def failing(connection, statement, *args, **options):
        if isinstance(statement, sa.Insert):
            raise sa.exc.OperationalError("insert", {}, Exception("disk I/O error"))
        return execute(connection, statement, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(sa.Connection, "execute", failing)
        with pytest.raises(FileProblem, match="'said' could not be written"):
            where.write_table("said", {"a": [1, 2]})
    where.write_table("said", {"a": [1, 2]})


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_another_program_makes_the_table_first(kind, tmp_path, frame, monkeypatch):
    path = tmp_path / {"sqlite": "s.db", "duckdb": "d.duckdb"}[kind]
    {"sqlite": write_sqlite, "duckdb": write_duckdb}[kind](frame, path)
    database_in(path).write_table("said", {"a": [1]})
    monkeypatch.setattr("labelfold.app.io._databases.Database.refuse_table", lambda self, name: None)
    with pytest.raises(FileProblem, match="has a table 'said' already"):
        database_in(path).write_table("said", {"a": [2]})


def test_a_table_beneath_the_lock_of_another_program(tmp_path, frame, monkeypatch):
    monkeypatch.setattr("labelfold.app.io._databases._PATIENCE", 0.01)
    write_sqlite(frame, tmp_path / "s.db")
    other = sqlite3.connect(tmp_path / "s.db")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(FileProblem, match="is locked by another program"):
        database_in(tmp_path / "s.db").write_table("said", {"a": [1]})
    other.close()
