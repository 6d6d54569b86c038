"""A disk that fails while a file is read is told as that, and not as something wrong with the file."""

import builtins
import errno
import io
import os
import sqlite3
import zipfile

import numpy as np
import pandas as pd
import pytest

from labelfold.app.compare._store import Store
from labelfold.app.io import FileProblem, load_model, read_table, save_model


class Failing(io.FileIO):
    at = 0  # reads from this byte on fail

    def readinto(self, buffer):
        if self.tell() < self.at:
            return super().readinto(buffer)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def readall(self):
        return self.readinto(None)


@pytest.fixture
def failing(monkeypatch):
    """Have every read of files of a name fail."""

    def fail(name):
        real = io.open

        def opened(file, mode="r", *args, **options):
            reads = isinstance(file, str | os.PathLike) and os.fspath(file).endswith(name) and "r" in mode
            return io.BufferedReader(Failing(file)) if reads else real(file, mode, *args, **options)

        monkeypatch.setattr(io, "open", opened)
        monkeypatch.setattr(builtins, "open", opened)

    return fail


def write(folder, name):
    frame = pd.DataFrame({"a": [1.0, 2.0], "kind": ["x", "y"]})
    if name == "t.db":
        with sqlite3.connect(folder / name) as connection:
            frame.to_sql("t", connection, index=False)
        connection.close()
    elif name == "t.npy":
        np.save(folder / name, np.eye(2))
    elif name == "t.npz":
        np.savez(folder / name, X=np.eye(2), y=[0, 1])
    elif name == "t.png":
        from PIL import Image

        (folder / "x").mkdir()
        Image.fromarray(np.eye(4, dtype=np.uint8)).save(folder / "x" / name)
        return folder
    elif name == "t.csv.zip":
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("t.csv", frame.to_csv(index=False))
    elif name == "t.jsonl":
        frame.to_json(folder / name, orient="records", lines=True)
    else:
        frame.to_csv(folder / name, index=False)
    return folder / name


@pytest.mark.parametrize(
    "name", ["t.csv", "t.csv.gz", "t.csv.zip", "t.jsonl", "t.npy", "t.npz", "t.db", "t.png"]
)
def test_a_table_on_a_failing_disk(tmp_path, failing, name):
    path = write(tmp_path, name)
    failing(name)
    with pytest.raises(FileProblem, match="could not be read: Input/output error; try again, or copy it to"):
        read_table(path)


def test_a_disk_that_fails_behind_the_header_of_a_matrix(tmp_path, failing, monkeypatch):
    np.save(tmp_path / "t.npy", np.eye(300))
    failing("t.npy")
    monkeypatch.setattr(Failing, "at", 1)
    with pytest.raises(FileProblem, match="could not be read: Input/output error; try again, or copy it to"):
        read_table(tmp_path / "t.npy")


def test_a_model_on_a_failing_disk(tmp_path, failing):
    from sklearn.decomposition import PCA

    path = save_model(PCA().fit(np.eye(3)), tmp_path / "m.skops")
    failing("m.skops")
    with pytest.raises(FileProblem, match=r"m\.skops could not be read: Input/output error"):
        load_model(path)


def test_results_on_a_failing_disk_are_not_set_aside(tmp_path, failing):
    Store(tmp_path, "f").close()
    failing("run.json")
    with pytest.raises(FileProblem, match="could not be read or written to: Input/output error"):
        Store(tmp_path, "f")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "results.csv", "run.json"]
