"""Finished files: whole or not there, and what was there before survives every failure."""

import os
import stat
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from labelfold.app.io import FileProblem, save_model, write_table
from labelfold.app.io._writing import finished_file, finished_together, write_finished
from labelfold.app.report import _page as page

resource = pytest.importorskip("resource", reason="limits on the size of a file are POSIX")


@contextmanager
def files_of_at_most(size):
    """Have every write beyond so many bytes of a file fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def values(n):
    return np.random.default_rng(0).normal(size=(n, 2))


def write_model(path, n):
    save_model(StandardScaler().fit(values(n)), path, what="x" * n)


def write_page(path, n):
    page.write_report(None, path)


def write_values(path, n):
    write_table(path, values(n), ["a", "b"])


WRITERS = {
    "t.csv": write_values,
    "t.tsv": write_values,
    "t.parquet": write_values,
    "t.npz": write_values,
    "m.skops": write_model,
    "report.html": write_page,
}


@pytest.fixture(params=WRITERS)
def written(request, tmp_path, monkeypatch):
    """A file that was written, and what writes it again."""
    monkeypatch.setattr(page, "render", lambda *args: "<p>report</p>" * 1000)
    path = tmp_path / request.param
    write = WRITERS[request.param]
    write(path, 100)
    return path, lambda: write(path, 5000)


@pytest.mark.parametrize("size", [0, 1000])
def test_a_full_disk_leaves_the_old_file(written, size):
    path, again = written
    before = path.read_bytes()
    with files_of_at_most(size), pytest.raises(FileProblem, match="could not be written: File too large"):
        again()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    again()
    assert path.name == "report.html" or path.read_bytes() != before


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_after_the_writing_leaves_the_old_file(written, monkeypatch, step):
    path, again = written
    before = path.read_bytes()

    def fail(*args):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(*(("os.fsync",) if step == "fsync" else (type(path), "replace")), fail)
        with pytest.raises(FileProblem, match="Input/output error"):
            again()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def _half(file):
    file.write(b"half")
    raise KeyboardInterrupt


def test_an_interruption_leaves_the_old_file(tmp_path):
    path = write_finished(tmp_path / "a", b"old")
    with pytest.raises(KeyboardInterrupt), finished_file(path) as file:
        _half(file)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_planted_under_the_name_of_an_unfinished_file_is_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / f"m.skops.{os.getpid()}.part").symlink_to(victim)
    write_model(tmp_path / "m.skops", 3)
    assert victim.read_bytes() == b"precious"
    # even where the random name was guessed
    monkeypatch.setattr("secrets.token_hex", lambda n: "guessed")
    (tmp_path / ".guessed.part").symlink_to(victim)
    with pytest.raises(FileProblem, match="File exists"):
        write_model(tmp_path / "m.skops", 3)
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / ".guessed.part").is_symlink()


def test_modes_and_links_stay(tmp_path):
    path = write_finished(tmp_path / "a", b"1")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    write_finished(link, b"2")
    assert link.is_symlink()
    assert path.read_bytes() == b"2"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_files_that_belong_together_are_replaced_together(tmp_path):
    for name in ("a", "b", "kept"):
        write_finished(tmp_path / name, b"old")
    with finished_together(tmp_path, ["a", "b", "c"]) as aside:
        write_finished(aside / "a", b"new")
        write_finished(aside / "c", b"new")
        assert sorted(os.listdir(tmp_path)) == sorted(["a", "b", "kept", aside.name])
        assert (tmp_path / "a").read_bytes() == b"old"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a": b"new",
        "c": b"new",
        "kept": b"old",
    }


def _write_two(folder):
    with finished_together(folder, ["a", "b"]) as aside:
        write_finished(aside / "a", b"new")
        write_finished(aside / "b", b"new" * 100)


def test_a_full_disk_leaves_all_files_that_belong_together(tmp_path):
    write_finished(tmp_path / "a", b"old")
    said = f"^{tmp_path}/b could not be written: File too large"
    with files_of_at_most(10), pytest.raises(FileProblem, match=said):
        _write_two(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_what_a_killed_process_left_is_removed_and_what_another_writes_is_not(tmp_path):
    (tmp_path / ".0123456789abcdef.part").write_bytes(b"half")
    (tmp_path / ".fedcba9876543210.part").mkdir()
    (tmp_path / ".fedcba9876543210.part" / "half").write_bytes(b"half")
    (tmp_path / ".mine.part").write_bytes(b"kept")
    with finished_file(tmp_path / "slow") as file, finished_together(tmp_path, ["b"]) as aside:
        write_finished(tmp_path / "quick", b"done")
        file.write(b"whole")
        write_finished(aside / "b", b"whole")
    assert sorted(os.listdir(tmp_path)) == [".mine.part", "b", "quick", "slow"]
    assert (tmp_path / "slow").read_bytes() == b"whole"
