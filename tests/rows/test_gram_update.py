"""The sum X'X of a block by BLAS: every layout and dtype, and threads that go on meanwhile."""

import threading
import time

import numpy as np
import pytest

from labelfold.rows import _sums as _gram_update
from labelfold.rows._sums import add_gram

LAYOUTS = {
    "C": lambda X: X,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "one column": lambda X: X[:, :1],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_known", [True, False])
def test_it_adds_the_upper_triangle(layout, dtype, is_known, monkeypatch):
    if not is_known:  # a BLAS with other types of arguments
        monkeypatch.setattr(_gram_update, "_routine", lambda name: None)
    X = LAYOUTS[layout](np.random.default_rng(0).standard_normal((40, 7)).astype(dtype))
    d = X.shape[1]
    total = np.asfortranarray(np.full((d, d), 2, dtype=dtype))
    add_gram(X, total)
    expected = 2 + X.astype(np.float64).T @ X.astype(np.float64)
    np.testing.assert_allclose(np.triu(total), np.triu(expected), rtol=1e-5 if dtype == np.float32 else 1e-13)
    assert (np.tril(total, -1) == 2 * np.tri(d, k=-1)).all()


def test_a_block_without_rows_adds_nothing():
    total = np.ones((3, 3), order="F")
    add_gram(np.empty((0, 3)), total)
    assert (total == 1).all()


def test_other_threads_go_on():
    assert _gram_update._routine("dsyrk") is not None
    X = np.ones((4000, 1000))
    total = np.zeros((1000, 1000), order="F")
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(1e-3)

    other = threading.Thread(target=tick)
    other.start()
    start = time.perf_counter()
    add_gram(X, total)
    end = time.perf_counter()
    done.set()
    other.join()
    inside = [t for t in ticks if start + 0.2 * (end - start) < t < end - 0.2 * (end - start)]
    assert inside  # SciPy's own function holds the lock until it returns
