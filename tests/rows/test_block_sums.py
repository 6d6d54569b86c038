"""Products that are added to an array in place, in every layout and dtype; X'X M of sparse rows."""

import numpy as np
import pytest
from scipy import sparse

from labelfold.rows import _sums as _block_sums, as_rows
from labelfold.rows._sums import add_product

LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda A: np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(300, 5, 4), (300, 1, 1), (1, 3, 2), (0, 3, 2), (6, 0, 2), (6, 3, 0)])
def test_a_product_is_added_in_place(shape, layout, dtype, rng):
    n, k, m = shape
    make = LAYOUTS[layout]
    A, left, right = (make(rng.standard_normal(s).astype(dtype)) for s in ((n, m), (n, k), (k, m)))
    expected, place = A + left @ right, A.ctypes.data
    most = (k + 2) * np.finfo(dtype).eps * (np.abs(A) + np.abs(left) @ np.abs(right))
    add_product(A, left, right)
    assert A.ctypes.data == place
    assert (np.abs(A - expected) <= most).all()


def test_factors_of_more_digits_are_rounded_once(rng):
    A, left, right = rng.standard_normal((9, 2)), rng.standard_normal((9, 3)), rng.standard_normal((3, 2))
    A = (left @ right + 1e-4 * A).astype(np.float32)  # most digits cancel
    expected = (A - left @ right).astype(np.float32)
    assert add_product(A, -left, right) is A
    np.testing.assert_allclose(A, expected, rtol=2 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 5, 16, 60])
def test_products_of_sparse_rows_by_compiled_loops(k, dtype, rng, monkeypatch):
    """X M and X'X M, with a row of any number of entries."""
    monkeypatch.setattr(_block_sums, "_SMALL_PRODUCT", 0)
    X = sparse.random_array((500, 70), density=0.1, rng=rng, format="csr", dtype=dtype)
    assert set(np.diff(X.indptr) % 4) == {0, 1, 2, 3}
    rows, M = as_rows(X), rng.standard_normal((70, k))
    dense = X.toarray().astype(np.float64)
    tolerance = 100 * np.finfo(dtype).eps
    for threads in ("1", "2"):
        monkeypatch.setenv("LABELFOLD_NUM_THREADS", threads)
        for found, expected in (
            (rows @ M, dense @ M),
            (rows.sum(_normal, shared=(M,)), dense.T @ (dense @ M)),
        ):
            np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_normal_product_of_blocks_of_which_some_are_small(order, threads, rng, monkeypatch):
    """Blocks of a list, or of Dask, decide each for itself whether a compiled loop pays."""
    monkeypatch.setenv("LABELFOLD_NUM_THREADS", threads)
    monkeypatch.setattr(_block_sums, "_SMALL_PRODUCT", 5000)
    sizes = (300, 200, 3)
    blocks = [sparse.random_array((sizes[i], 70), density=0.1, rng=rng, format="csr") for i in order]
    M, dense = rng.standard_normal((70, 16)), sparse.vstack(blocks).toarray()
    small = {_block_sums.is_small(block.nnz * M.shape[1]) for block in blocks}
    assert small == {True, False}
    np.testing.assert_allclose(as_rows(blocks).sum(_normal, shared=(M,)), dense.T @ (dense @ M), atol=1e-10)


def _normal(X, M):
    return X.normal(M)
