"""What a pass costs: how often X is read, how much memory is taken, which threads run."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from containers import params
from labelfold.rows import Centered, Featurized, Weighted, _threads as threads, as_rows
from labelfold.rows.adapters._stream import FileRows


def column_sums(X):
    return X.colsum()


def product_and_gram(X, M):
    H = X @ M
    return H, (X.t(H), H.T @ H, X.colsum())


class CountingBlocks:
    """Blocks that count how often they are iterated over, and how many of them were taken."""

    def __init__(self, blocks: list) -> None:
        self.blocks, self.iterations, self.taken = blocks, 0, 0

    def __iter__(self):
        self.iterations += 1
        for block in self.blocks:
            self.taken += 1
            yield block


@pytest.fixture
def X(rng) -> np.ndarray:
    return rng.standard_normal((300, 8))


def three_passes(rows, X):
    """Make a pass of sums, one of sums and rows, and one through two views."""
    M = np.ones((X.shape[1], 2))
    before = rows.n_passes
    rows.sum(column_sums)
    assert rows.n_passes == before + 1
    rows.sweep(product_and_gram, shared=(M,))
    assert rows.n_passes == before + 2
    view = Weighted(Centered(rows, np.zeros(X.shape[1])), np.ones(len(X)))
    view.sweep(product_and_gram, shared=(M,))
    assert view.n_passes == rows.n_passes == before + 3


def test_blocks_are_read_once_a_pass(X):
    blocks = CountingBlocks(np.array_split(X, 7))
    rows = as_rows(blocks)
    assert (blocks.iterations, blocks.taken) == (1, 7)  # their number of rows has to be found out
    three_passes(rows, X)
    assert (blocks.iterations, blocks.taken) == (4, 28)


def test_taking_rows_reads_no_block_after_the_last(X):
    blocks = CountingBlocks(np.array_split(X, 7))
    rows = as_rows(blocks)
    blocks.taken = 0
    rows.take(np.array([60, 2]))
    assert blocks.taken == 2


def test_a_file_is_read_once_a_pass(X, tmp_path, many_blocks, monkeypatch):
    np.save(tmp_path / "X.npy", X)
    reads, read = [], FileRows._read

    def counted(self, start, stop, out):
        reads.append((start, stop))
        return read(self, start, stop, out)

    monkeypatch.setattr(FileRows, "_read", counted)
    rows = as_rows(tmp_path / "X.npy")
    assert reads == []
    for generation in range(3):
        reads.clear()
        rows.sweep(product_and_gram, shared=(np.ones((8, 2)),))
        assert rows.n_passes == generation + 1
        assert sorted(reads) == list(zip(rows.cuts()[:-1], rows.cuts()[1:], strict=True))
        assert len(reads) > 20
    three_passes(rows, X)


def test_taking_rows_of_a_file_reads_little_else(tmp_path, rng, monkeypatch):
    X = rng.standard_normal((20_000, 3))
    np.save(tmp_path / "X.npy", X)
    rows, reads, read = as_rows(tmp_path / "X.npy"), [], FileRows._read
    monkeypatch.setattr(
        FileRows, "_read", lambda self, a, b, out: reads.append(b - a) or read(self, a, b, out)
    )
    index = np.array([19_999, 5, 7, 10_000])
    np.testing.assert_array_equal(rows.take(index).whole().dense(), X[index])
    assert sum(reads) == 5  # 5 to 7, and one each


def test_dask_chunks_are_made_once_a_pass(X):
    da = pytest.importorskip("dask.array")
    made, lock = [], threading.Lock()

    def chunk(block, block_info=None):
        with lock:
            made.append(block_info[0]["chunk-location"][0])
        return block

    lazy = da.from_array(X, chunks=(50, 8)).map_blocks(chunk, dtype=X.dtype, meta=np.empty((0, 0)))
    rows = as_rows(lazy)
    assert made == []
    three_passes(rows, X)
    assert sorted(made) == sorted(3 * list(range(6)))


@pytest.mark.parametrize("container", params("memory", "device"))
def test_passes_over_arrays_are_counted(container, X, tmp_path):
    rows = as_rows(container.within(tmp_path).make(X))
    assert rows.n_passes == 0
    three_passes(rows, X)
    Centered(rows)  # finds the mean
    assert rows.n_passes == 4


def test_blocks_cover_the_rows_once(X, many_blocks):
    """Each row is in one block, whichever thread has it."""
    seen, lock = np.zeros(len(X), dtype=int), threading.Lock()

    def f(X, number):
        with lock:
            seen[number] += 1

    for rows in (as_rows(X), as_rows(sparse.csr_array(X)), as_rows([X[:7], X[7:]])):
        seen[:] = 0
        rows.sum(f, np.arange(len(X)))
        assert (seen == 1).all()


def peak(call) -> int:
    """Return the most bytes of NumPy and Python memory that a call held at a time."""
    call()  # what is made on first use does not count
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("layout", ["C", "F", "strided", "csr", "csr-int64", "npy"])
def test_a_pass_makes_no_copy_of_X(layout, rng, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELFOLD_NUM_THREADS", "2")
    monkeypatch.setattr("labelfold.rows._blocks.DENSE_BYTES", 1 << 17)
    monkeypatch.setattr("labelfold.rows.adapters._local.SPARSE_BYTES", 1 << 17)
    monkeypatch.setattr("labelfold.rows.adapters._local.SPARSE_ROWS", 256)
    monkeypatch.setattr("labelfold.rows.adapters._stream.BESIDE", 1)
    n, d = 40_000, 50
    X = rng.standard_normal((n, d))
    if layout == "F":
        given = np.asfortranarray(X)
    elif layout == "strided":
        given = np.repeat(X, 2, axis=1)[:, ::2]
    elif layout.startswith("csr"):
        X[rng.random(X.shape) < 0.5] = 0
        given = sparse.csr_array(X)
        if layout == "csr-int64":
            given.indices, given.indptr = given.indices.astype(np.int64), given.indptr.astype(np.int64)
    elif layout == "npy":
        given = tmp_path / "X.npy"
        np.save(given, X)
    else:
        given = X
    rows = as_rows(given)
    size = n * rows.row_bytes()
    assert size >= 11e6
    M = rng.standard_normal((d, 3))
    results = n * 3 * 8  # the row results themselves
    assert peak(lambda: rows.sweep(product_and_gram, shared=(M,))) < results + size / 8
    assert peak(lambda: Centered(rows, np.ones(d)).sweep(product_and_gram, shared=(M,))) < results + size / 8
    assert peak(lambda: as_rows(given)) < size / 8


CONTAINERS = pytest.mark.parametrize("container", params("memory", "file", "blocks"))


@CONTAINERS
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_sweeps_are_bit_identical_and_thread_counts_agree(
    container, dtype, X, tmp_path, many_blocks, monkeypatch, rng
):
    given = container.within(tmp_path).make(X.astype(dtype))
    M = rng.standard_normal((8, 5))
    answers = {}
    for n_threads in ("1", "2", "3"):
        monkeypatch.setenv("LABELFOLD_NUM_THREADS", n_threads)
        H, sums = as_rows(given).sweep(product_and_gram, shared=(M,))
        for _ in range(3):
            again, sums_again = as_rows(given).sweep(product_and_gram, shared=(M,))
            np.testing.assert_array_equal(H, again)
            for one, other in zip(sums, sums_again, strict=True):
                np.testing.assert_array_equal(one, other)
        answers[n_threads] = (H, *sums)
    A = np.abs(X)
    H = A @ np.abs(M)
    sizes = (H, A.T @ H, H.T @ H, A.sum(axis=0))
    for n_threads in ("2", "3"):
        for one, other, size in zip(answers["1"], answers[n_threads], sizes, strict=True):
            assert (np.abs(one - other) <= 2 * len(X) * np.finfo(dtype).eps * size).all()


def use_every_thread(rows) -> set[str]:
    """Make a pass in which three threads are at work at the same time; return their names."""
    names, met = set(), threading.Barrier(3, timeout=20)

    def f(X):
        if threading.current_thread().name not in names:
            names.add(threading.current_thread().name)
            met.wait()

    rows.sum(f)
    return names


@pytest.mark.parametrize("container", params("memory", "file"))
def test_blocks_are_worked_on_in_threads(container, X, tmp_path, many_blocks):
    assert len(use_every_thread(as_rows(container.within(tmp_path).make(X)))) == 3


def test_blocks_given_are_worked_on_in_threads(X, many_blocks):
    assert len(use_every_thread(as_rows(np.array_split(X, 6)))) == 3


def test_wide_arrays_are_checked_in_even_pieces():
    pieces = threads.each_piece(lambda piece: piece.stop - piece.start, 83_679, 315)
    assert sum(pieces) == 83_679
    assert 8 < len(pieces) < 100
    assert threads.each_piece(lambda piece: piece.stop, 2, 1 << 30) == [1, 2]


@pytest.mark.parametrize(
    ("value", "expected"), [("1", 1), ("5", 5), ("3,2", 3), ("", None), ("none", None), ("0", None)]
)
def test_the_number_of_threads(value, expected, monkeypatch):
    monkeypatch.setenv("LABELFOLD_NUM_THREADS", value)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert threads.n_threads() == (expected or 4)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads.n_threads() == (expected or len(os.sched_getaffinity(0)))


class Trouble(Exception):
    pass


@CONTAINERS
@pytest.mark.parametrize("error", [Trouble, KeyboardInterrupt], ids=["exception", "interrupt"])
@pytest.mark.parametrize("bad_row", [0, 299])
def test_an_error_in_one_worker_surfaces_and_the_pool_lives_on(
    container, error, bad_row, X, tmp_path, many_blocks
):
    rows = as_rows(container.within(tmp_path).make(X))
    blas = blas_threads()
    done = []

    def f(X, number):
        if bad_row in number:
            raise error(f"row {bad_row}")
        done.append(len(number))

    number = np.arange(len(X))
    for _ in range(2):
        with pytest.raises(error):
            rows.sum(f, number)
        settled = len(done)
        time.sleep(0.01)
        assert len(done) == settled  # no worker goes on behind the caller's back
    assert blas_threads() == blas
    np.testing.assert_allclose(rows.sum(column_sums), X.sum(axis=0), rtol=1e-10)


def test_an_error_stops_the_others_at_their_next_block(X, many_blocks):
    """The first slab fails at once, while the others wait: they are not run to their end."""
    calls, failed = [], threading.Event()

    def f(X, number):
        if 0 in number:
            failed.set()
            raise Trouble
        calls.append(1)
        assert failed.wait(10)
        time.sleep(0.002)

    with pytest.raises(Trouble):
        as_rows(X).sum(f, np.arange(len(X)))
    assert len(calls) < 25  # of 43 blocks


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_one_thread_in_a_sweep_and_its_own_again_after(X, many_blocks):
    inside = []
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert 2 in before
        as_rows(X).sum(lambda X: inside.append(blas_threads()))
        assert blas_threads() == before
    assert inside
    assert all(set(seen) == {1} for seen in inside)


def test_blas_is_limited_and_restored_from_any_thread(X, many_blocks):
    """Not only from the first that ever swept."""
    inside = []
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        as_rows(X).sum(column_sums)
        other = threading.Thread(target=lambda: as_rows(X).sum(lambda X: inside.append(set(blas_threads()))))
        other.start()
        other.join(20)
        assert blas_threads() == before
    assert inside
    assert all(seen == {1} for seen in inside)


def test_a_blas_loaded_later_is_limited_too():
    """SciPy's wheels bring their own, loaded on first use."""
    code = """
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from labelfold.rows import as_rows
blas = lambda: [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
rows = as_rows(np.ones((100_000, 50)))
rows.mean()
import scipy.linalg.blas, scipy.sparse.linalg
with threadpool_limits(2, user_api="blas"):
    inside = []
    rows.sum(lambda X: inside.append(blas()))
    print({n for one in inside for n in one}, set(blas()))
"""
    environment = {**os.environ, "LABELFOLD_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=True)
    assert done.stdout.strip() == "{1} {2}"


@pytest.mark.parametrize("main_ends_first", [True, False])
def test_overlapping_sweeps_restore_blas(main_ends_first, X, many_blocks):
    """Two sweeps that begin and end in turn: the first to end must not free BLAS, the second must."""
    in_main, in_other, ended = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def ends_first(X):
        (in_main if main_ends_first else in_other).set()
        assert (in_other if main_ends_first else in_main).wait(20)

    def ends_second(X):
        (in_other if main_ends_first else in_main).set()
        assert ended.wait(20)
        seen.append(set(blas_threads()))

    def run(f):
        as_rows(X).sum(f)
        if f is ends_first:
            ended.set()

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        other = threading.Thread(target=run, args=(ends_second if main_ends_first else ends_first,))
        # Three threads each: enough that neither sweep waits for the other's to finish.
        threads._pool.submitter(6)
        other.start()
        run(ends_first if main_ends_first else ends_second)
        other.join(20)
        assert not other.is_alive()
        assert blas_threads() == before
    assert seen
    assert all(one == {1} for one in seen)


def test_sweeps_from_two_user_threads(X, many_blocks):
    rows, expected, right = [as_rows(X), as_rows(X)], X.sum(axis=0), []

    def repeat(rows):
        right.extend(np.allclose(rows.sum(column_sums), expected) for _ in range(20))

    before = blas_threads()
    users = [threading.Thread(target=repeat, args=(r,)) for r in rows]
    for user in users:
        user.start()
    for user in users:
        user.join(60)
    assert not any(user.is_alive() for user in users)
    assert len(right) == 40
    assert all(right)
    assert blas_threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own(X, many_blocks):
    rows = as_rows(X)
    use_every_thread(rows)
    time.sleep(0.1)  # all of them are idle: a child that believed in them would wait for ever
    expected = rows.sum(column_sums)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(rows.sum(column_sums)))
    child.start()
    try:
        np.testing.assert_array_equal(answers.get(timeout=20), expected)
        child.join(30)
        assert child.exitcode == 0
    finally:
        if child.is_alive():
            child.kill()


def test_a_feature_map_that_widens_rows_gets_few_of_them_at_a_time(container, rng):
    X, width, sizes = rng.standard_normal((900, 3)), 20_000, []

    def widen(block):
        sizes.append(block.shape[0])
        first = block[:, [0]].toarray() if sparse.issparse(block) else np.asarray(block)[:, :1]
        return np.broadcast_to(first, (len(first), width))

    sums = Featurized(as_rows(container.make(X)), widen).sum(lambda X: X.colsum())
    np.testing.assert_allclose(sums, X[:, 0].sum(), rtol=1e-10)
    assert max(sizes) * width * 8 <= 64 << 20
