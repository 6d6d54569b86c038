"""Files by their path: the same answer from every format, and a cache of which nothing is left behind."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from labelfold import KLNMF, LDA, Recipe
from labelfold.rows import _blocks, as_rows
from labelfold.rows.adapters import _files
from labelfold.rows.adapters._files import read_rows
from labelfold.rows.adapters._stream import Cache

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.csv")
pytest.importorskip("pyarrow.parquet")

N, D = 400, 9
FORMATS = ["npy", "fortran.npy", "parquet", "wide.parquet", "wide-group.parquet", "csv", "tsv", "svmlight"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Make every reader and every pass work on many blocks."""
    for module, name, value in (
        (_blocks, "DENSE_BYTES", 2000),
        (_blocks, "DENSE_ROWS", 16),
        (_files, "MAX_DENSE_BYTES", 4000),
        (_files, "CHUNK", 1500),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return the folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.gamma(1.0, size=(N, D)) * (rng.random((N, D)) < 0.5)
    X[:, -1] += 0.5  # svmlight keeps the number of columns
    X = X.round(6)  # and 16 digits
    return X, np.where(X[:, 0] > X[:, 1], "a", "b")


def written(X: np.ndarray, y: np.ndarray, path: Path, **options) -> Path:
    """Write X to a file by its ending; tables and svmlight have y too."""
    table = pa.table({f"x{j}": X[:, j].copy() for j in range(X.shape[1])} | {"kind": y})
    if path.suffix == ".npy":
        np.save(path, np.asfortranarray(X) if "fortran" in path.name else X)
    elif path.suffix == ".parquet":
        pa.parquet.write_table(table, path, **options)
    elif path.suffix in (".csv", ".tsv"):
        pa.csv.write_csv(table, path, pa.csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ","))
    else:
        dump_svmlight_file(sparse.csr_array(X), (y == "b") + 0.0, str(path), zero_based=False)
    return path


def opened(path: Path) -> tuple:
    return read_rows(path, target="kind" if path.suffix in (".parquet", ".csv", ".tsv") else None)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_the_same_as_memory(name, data, tmp_path, temporary, small_blocks, monkeypatch):
    X, y = data
    if "wide" in name:
        monkeypatch.setattr(_files, "COLUMNS_AT_ONCE", 2)
    groups = {"row_group_size": N if "group" in name else 20}
    rows, read = opened(written(X, y, tmp_path / f"X.{name}", **groups))
    assert rows.shape == X.shape
    assert len(rows.cuts()) > 10
    np.testing.assert_array_equal(rows.take(np.arange(N)).whole().dense(), X)
    index = np.array([N - 1, 3, 3, 200])
    np.testing.assert_array_equal(rows.take(index).whole().dense(), X[index])
    np.testing.assert_allclose(rows.gram(), X.T @ X, rtol=1e-12)
    if name != "svmlight" and read is not None:
        assert read.tolist() == y.tolist()
    memory = sparse.csr_array(X) if name == "svmlight" else X
    for made in (LDA(ridge=0.1), KLNMF(2, tol=0.1)):
        expected, found = (made.fit(given, y).transform(given) for given in (memory, rows))
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    assert list(temporary.iterdir()) == []  # the cache has no name


@pytest.mark.parametrize("name", ["parquet", "csv", "svmlight"])
def test_a_path_in_fit_and_in_transform(name, data, tmp_path):
    X, y = data
    path = written(X, y, tmp_path / f"X.{name}")
    rows, labels = opened(path)
    model = LDA(ridge=0.1).fit(rows, labels)
    np.testing.assert_allclose(
        model.transform(path), LDA(ridge=0.1).fit(X, y).transform(X), rtol=1e-7, atol=1e-9
    )
    if name != "svmlight":
        assert list(model.feature_names_in_) == [f"x{j}" for j in range(D)]
        turned = written(X[:, ::-1], y, tmp_path / f"turned.{name}")
        with pytest.raises(ValueError, match="give it the same columns in the same order"):
            model.transform(read_rows(turned, columns=[f"x{j}" for j in range(D)][::-1])[0])
    else:  # the last columns of new rows may be empty
        X[:, -2:] = 0
        assert model.transform(written(X, y, tmp_path / "new.svm")).shape[0] == N


def test_sparse_rows_take_twelve_bytes_an_entry(tmp_path, small_blocks):
    X = np.zeros((N, D))
    X[:, 0], X[:, 3], X[::2, -1] = 0.1, 1e300, 255.0
    rows = read_rows(written(X, np.repeat("a", N), tmp_path / "X.svmlight"))[0]
    n_blocks, n_values = len(rows.starts) - 1, np.count_nonzero(X)
    assert n_blocks > 2
    assert os.fstat(rows.file.fileno()).st_size == 4 * (N + n_blocks) + 12 * n_values
    np.testing.assert_array_equal(rows.take(np.arange(N)).whole().dense(), X)
    np.testing.assert_array_equal(rows.get(rows @ np.eye(D, 4)), X[:, :4])


def test_numbers_keep_their_size(data, tmp_path, temporary):
    X, y = data
    for dtype in (np.float32, np.uint8):
        path = written((10 * X).astype(dtype), y, tmp_path / f"{np.dtype(dtype)}.parquet")
        rows = read_rows(path, target="kind")[0]
        assert rows.dtype == (np.float32 if dtype == np.float32 else np.float64)
        assert os.fstat(rows.file.fileno()).st_size == N * D * np.dtype(dtype).itemsize
        np.testing.assert_allclose(rows.mean(), (10 * X).astype(dtype).mean(axis=0), rtol=1e-6)


def test_labels_of_a_table(tmp_path):
    for cells, expected in (
        (["1", "", "2"], [1.0, np.nan, 2.0]),
        (["1", "0", "2"], [1, 0, 2]),
        (["a", "", "b"], ["a", None, "b"]),
    ):
        (tmp_path / "t.csv").write_text("x;y\n" + "".join(f"{i}.5;{cell}\n" for i, cell in enumerate(cells)))
        rows, y = read_rows(tmp_path / "t.csv", target="y")
        assert repr(y.tolist()) == repr(expected)
        assert rows.take(np.arange(3)).whole().dense().ravel().tolist() == [0.5, 1.5, 2.5]


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_a_table_through_a_recipe(name, tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(_files, "TABLE_ROWS", 30)
    rng = np.random.default_rng(0)
    table = {
        "age": rng.integers(20, 60, N),
        "plan": rng.choice(["free", "pro", "team"], N),
        "note": np.array(
            [f"{word} again,\nit came {word}" for word in rng.choice(["late", "early", "soon"], N)]
        ),
    }
    y = np.where(table["note"] > "f", "yes", "no")
    for left_out in ([], ["note"]):  # with text the matrix is sparse
        used = {key: cells for key, cells in table.items() if key not in left_out}
        recipe = Recipe(text=[] if left_out else ["note"]).fit(pa.table(used), y)
        path = tmp_path / f"t.{name}"
        given = pa.table(used | {"y": y})
        pa.csv.write_csv(given, path) if name == "csv" else pa.parquet.write_table(given, path)
        rows, labels = read_rows(path, target="y", transform=recipe.transform)
        X = recipe.transform(pa.table(used))
        assert sparse.issparse(X) == (not left_out)
        assert (rows.shape, labels.tolist()) == (X.shape, y.tolist())
        np.testing.assert_allclose(
            rows.gram(), (X.T @ X).toarray() if sparse.issparse(X) else X.T @ X, rtol=1e-12
        )


def test_a_csv_file_without_names(tmp_path):
    (tmp_path / "t.csv").write_text("1,2\n3,4")
    rows = as_rows(tmp_path / "t.csv")
    assert (rows.names, rows.mean().tolist()) == (None, [2.0, 3.0])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "a,b\n1,red\n", "not a table of numbers (In CSV column #1: CSV conversion error to double"),
        ("t.csv", "a,b\n1,2\n3,\n", "X contains NaN at row 1, column 1"),
        ("t.csv", "a,a\n1,2\n", "more than one column named 'a'"),
        ("t.csv", "a,b\n", "holds no rows"),
        ("t.csv", "a,b\n1\n", "Expected 2 columns, got 1"),
        ("t.parquet", "PAR1", "cannot be read as a Parquet file"),
        ("t.svm", "1 a:2\n", "is not svmlight text"),
        ("t.svm", "1 1:inf\n", "X contains infinity at row 0, column 0"),
        ("t.svm", "", "holds no rows"),
    ],
)
def test_files_that_hold_something_else(name, content, said, tmp_path, temporary):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError) as caught:
        as_rows(tmp_path / name)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(temporary.iterdir()) == []


def test_columns_that_are_not_there(data, tmp_path):
    path = written(*data, tmp_path / "X.parquet")
    for options, said in (
        ({"target": "y"}, "has no column 'y'; it has 'x0'"),
        ({"columns": ["x0", "z"]}, "has no column 'z'"),
        ({}, "column 'kind' is of type string"),
    ):
        with pytest.raises(ValueError, match=said):
            read_rows(path, **options)
    with pytest.raises(ValueError, match="which has no named columns; leave it out"):
        read_rows(written(*data, tmp_path / "X.npy"), target="kind")


def test_no_room_for_the_cache(data, tmp_path, monkeypatch):
    path = written(*data, tmp_path / "X.parquet")
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda folder: usage(9, 9, 10_000))
        for other in (path, written(*data, tmp_path / "X.csv"), written(*data, tmp_path / "X.svm")):
            with pytest.raises(OSError, match=r"needs 1 MB there and finds 1 MB; name a folder .* TMPDIR$"):
                opened(other)
    monkeypatch.setattr(Cache, "write", _full(Cache.write))
    with pytest.raises(
        OSError, match=r"cannot write there \(No space left on device\); name a folder .* TMPDIR$"
    ):
        opened(path)


def test_room_is_needed_for_the_cache_as_it_is_stored(tmp_path, monkeypatch):
    X = sparse.random_array((2000, 100), density=0.2, format="csr", rng=np.random.default_rng(0))
    X.data[:] = np.ceil(9 * X.data)
    path = tmp_path / "X.svm"
    dump_svmlight_file(X, np.zeros(2000), str(path))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(9, 9, 13 * X.nnz))  # int32 and float64: 12
    assert as_rows(path).shape == X.shape


def _full(write):
    class Full:
        def seek(self, place):
            pass

        def close(self):
            pass

        def write(self, view):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def onto_a_full_disk(self, array, at=None):
        self.file = Full()
        write(self, array, at)

    return onto_a_full_disk


def test_the_cache_is_closed_with_its_rows_and_after_an_error(data, tmp_path, small_blocks, monkeypatch):
    made, write = [], Cache.write
    path = written(*data, tmp_path / "X.csv")

    def kept(self, array, at=None):
        write(self, array, at)
        made.append(self.file)

    monkeypatch.setattr(Cache, "write", kept)
    rows = opened(path)[0]
    rows.mean()
    assert not made[-1].closed
    del rows
    gc.collect()
    assert made[-1].closed

    def interrupted(self, array, at=None):
        kept(self, array, at)
        if self.n_bytes > 2000:
            raise KeyboardInterrupt

    monkeypatch.setattr(Cache, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened(path)
    assert made[-1].closed


def test_a_file_that_changes(data, tmp_path, small_blocks, monkeypatch):
    X, y = data
    path, add = written(X, y, tmp_path / "X.csv"), Cache.add

    def meanwhile(self, block):
        with path.open("a") as file:
            file.write("\n")
        add(self, block)

    rows = opened(path)[0]
    expected = rows.mean()
    monkeypatch.setattr(Cache, "add", meanwhile)
    with pytest.raises(ValueError, match="has changed since it was first read"):
        opened(path)
    np.testing.assert_array_equal(rows.mean(), expected)  # of the cache, as the file was
    path = written(X, y, tmp_path / "X.npy")
    rows = as_rows(path)
    rows.mean()
    with path.open("r+b") as file:
        file.seek(500)
        file.write(b"\0")
    os.utime(path, ns=(1, 1))
    with pytest.raises(ValueError, match="has changed since it was first read"):
        rows.mean()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
@pytest.mark.parametrize("ending", ["SIGINT", "SIGKILL"])
def test_nothing_is_left_behind(ending, data, tmp_path):
    """Interrupt a process while its cache exists."""
    path = written(*data, tmp_path / "X.csv")
    code = f"""
import signal, time
from labelfold.rows import read_rows
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with SIGINT ignored
rows, y = read_rows({str(path)!r}, target="kind")
print(rows.shape, flush=True)
time.sleep(60)
"""
    folder = tmp_path / "temporary"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder)},
        text=True,
    )
    assert process.stdout.readline().strip() == str((N, D))
    process.send_signal(getattr(signal, ending))
    assert process.wait(20) != 0
    process.stdout.close()
    assert list(folder.iterdir()) == []
