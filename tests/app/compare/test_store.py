"""Results on disk: one writer at a time, nothing lost by a failed start, damage costs its own lines only."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from sklearn.datasets import load_iris

from labelfold.app.compare._store import COLUMNS, Store
from labelfold.app.io import FileProblem
from labelfold.app.report import compare

pytestmark = pytest.mark.usefixtures("quick_comparisons")
HOLD = (
    "import sys, time; from labelfold.app.compare._store import Store; store = Store(sys.argv[1], 'f'); "
    "print(1, flush=True); time.sleep(60)"
)


def row(i, **more):
    return {"method": "a", "k": 2, "budget": 6, "repeat": i, "score": 0.5} | more


def filled(folder, n=3, fingerprint="f"):
    """Write n rows; return the bytes of the file."""
    store = Store(folder, fingerprint)
    for i in range(store.resumed, n):
        store.add(row(i))
    store.close()
    return (folder / "results.csv").read_bytes()


def test_two_writers_at_once_are_refused_with_a_sentence(tmp_path):
    first = Store(tmp_path, "f")
    first.add(row(0))
    with pytest.raises(FileProblem) as refused:
        Store(tmp_path, "f")
    assert str(refused.value) == (
        f"Another comparison (process {os.getpid()}) is writing to {tmp_path}; wait for it to end, or name another "
        "folder."
    )
    first.add(row(1))
    first.close()
    again = Store(tmp_path, "f")
    assert again.resumed == 2
    again.close()


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
def test_the_lock_of_a_killed_process_does_not_block(tmp_path):
    filled(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"1\n"
        with pytest.raises(FileProblem, match=rf"\(process {process.pid}\) is writing to"):
            Store(tmp_path, "f")
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    after = Store(tmp_path, "f")
    assert after.resumed == 3
    after.close()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / ".lock").symlink_to(victim)
    with pytest.raises(FileProblem, match="written to"):
        Store(tmp_path / "r", "f")
    assert victim.read_bytes() == b"precious"


def test_a_refused_comparison_lets_go_of_its_folder(tmp_path):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="seed"):
        compare(X, y, ["lda"], repeats=1, random_state="no seed", folder=tmp_path, progress=False)
    Store(tmp_path, "f").close()


def test_doubled_rows_are_dropped_and_the_comparison_goes_on(tmp_path):
    X, y = load_iris(return_X_y=True)
    settings = {"budgets": [6, 30], "components": 2, "repeats": 3, "progress": False, "folder": tmp_path}
    once = compare(X, y, ["lda"], **settings)
    results = tmp_path / "results.csv"
    header, *lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join([header, *lines, *lines]))
    found = compare(X, y, ["lda"], **settings)
    assert found.table["mean"].tolist() == once.table["mean"].tolist()
    assert "9 lines of results.csv were damaged or repeated" in " ".join(found.notes)
    assert results.read_bytes() == b"".join([header, *lines])


def test_a_start_that_failed_costs_nothing(tmp_path, monkeypatch):
    before = filled(tmp_path)

    def full(*args):
        raise OSError(28, "No space left on device")

    for place in ("os.fsync", "os.ftruncate", "os.write"):
        with monkeypatch.context() as patched, suppress(FileProblem):
            patched.setattr(place, full)
            Store(tmp_path, "f").close()
        store = Store(tmp_path, "f")
        assert (store.resumed, store.set_aside) == (3, None)
        store.close()
    assert (tmp_path / "results.csv").read_bytes() == before


def test_run_json_is_not_written_again_for_the_same_data(tmp_path):
    filled(tmp_path)
    before = (tmp_path / "run.json").stat()
    filled(tmp_path, 5)
    after = (tmp_path / "run.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_results_set_aside_are_never_overwritten(tmp_path):
    first = filled(tmp_path, 1, "one")
    second = filled(tmp_path, 2, "two")
    filled(tmp_path, 3, "three")
    assert (tmp_path / "results.previous.csv").read_bytes() == first
    assert (tmp_path / "results.previous-2.csv").read_bytes() == second
    store = Store(tmp_path, "four")
    assert store.set_aside == "results.previous-3.csv"
    store.close()


def test_a_nested_run_json_is_another_run(tmp_path):
    before = filled(tmp_path)
    (tmp_path / "run.json").write_text("[" * 60_000 + "]" * 60_000)
    filled(tmp_path, 1)
    assert (tmp_path / "results.previous.csv").read_bytes() == before
    assert json.loads((tmp_path / "run.json").read_text()) == {"fingerprint": "f"}


@pytest.mark.parametrize(
    "line",
    [
        b"a,2,2,6,1,\xff,,,,,,,",
        b"a,2,2,6,1,inf,,,,,,,",
        b"a,2,2,6,1,,,,,,,,",
        b"a,2,2,6,1,0.5,,,,,,,\"no end",
        b"a,2,2,6,1,0.5,,,,,,",
        b"a,2,2,6,1,0.5,,,,,,,,",
        b"a,2,2,,1,0.5,,,,,,,",
        b"a,2,2,99999999999999999999,1,0.5,,,,,,,",
        b"a,two,2,6,1,0.5,,,,,,,",
        b"",
    ],
)  # fmt: skip
def test_a_damaged_line_costs_itself_only(tmp_path, line):
    header, *lines = filled(tmp_path).splitlines(keepends=True)
    results = tmp_path / "results.csv"
    damaged = b"".join([header, lines[0], line + b"\n", lines[2]])
    results.write_bytes(damaged)
    store = Store(tmp_path, "f")
    assert [r["repeat"] for r in store.rows] == [0, 2]
    assert store.unread == 1
    store.add(row(1))
    store.close()
    assert (tmp_path / "results.previous.csv").read_bytes() == damaged
    assert results.read_bytes() == b"".join([header, lines[0], lines[2], lines[1]])


def test_a_row_that_cannot_be_written_leaves_whole_lines(tmp_path):
    resource = pytest.importorskip("resource")
    before = filled(tmp_path)
    store = Store(tmp_path, "f")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, limit[1]))
    try:
        with pytest.raises(FileProblem, match="written to: File too large"):
            store.add(row(3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (tmp_path / "results.csv").read_bytes() == before
    store.add(row(3))
    store.close()
    assert len(filled(tmp_path).splitlines()) == 5
    assert list(COLUMNS) == before.splitlines()[0].decode().split(",")
