"""The contract of rows: every container, seen through every view, gives the dense answer.

Bounds are those of floating-point sums: a sum of m products errs by at most m eps times the sum of their
absolute values, whichever order it is taken in.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from containers import CONTAINERS, ONE_EACH, params
from labelfold.rows import Centered, Featurized, Rows, Weighted, as_rows
from labelfold.rows._containers import is_table
from labelfold.rows._sums import total

N, D, K = 53, 9, 4


def data(rng, n=N, d=D, dtype=np.float64) -> np.ndarray:
    """Return data that is half zeros, with a mean, so that centring matters; a row and a column are empty."""
    X = rng.standard_normal((n, d)) + rng.uniform(-2, 2, d)
    X[rng.random((n, d)) < 0.5] = 0
    X[-1] = 0
    if d > 1:
        X[:, 1] = 0
    return X.astype(dtype)


def features(X) -> np.ndarray:
    X = X.toarray() if sparse.issparse(X) else X
    return np.hstack([np.cos(X), X[:, :1]])


class Seen:
    """A view of rows, beside the dense matrix it shows and the magnitudes its entries are made from."""

    def __init__(self, view: str, X: np.ndarray, rng) -> None:
        self.view = view
        X = X.astype(np.float64)
        # Rounded, so that a float32 view can hold it exactly.
        self.center = X.mean(axis=0).astype(np.float32).astype(np.float64)
        self.weights = (rng.integers(0, 8, len(X)) / 4).astype(np.float64)
        self.dense, self.size = X, np.abs(X)
        if view in ("centered", "weighted"):
            self.dense, self.size = X - self.center, np.abs(X) + np.abs(self.center)
        if view == "weighted":
            self.dense, self.size = self.dense * self.weights[:, None], self.size * self.weights[:, None]
        if view == "featurized":
            self.dense = features(X)
            self.size = np.abs(self.dense)

    def of(self, rows: Rows) -> Rows:
        if self.view == "plain":
            return rows
        if self.view == "featurized":
            return Featurized(rows, features)
        rows = Centered(rows, self.center)
        return Weighted(rows, self.weights) if self.view == "weighted" else rows


def close(got, want, size, terms: int, dtype) -> None:
    """Assert that got is want, but for the round-off of ``terms`` additions of things of this size."""
    got = np.asarray(got)
    assert got.shape == np.shape(want)
    error = np.abs(got.astype(np.float64) - want)
    bound = (terms + 8) * np.finfo(dtype).eps * np.asarray(size)
    assert np.all(error <= bound), f"off by {np.max(error - bound):.2e} more than round-off"


VIEWS = ["plain", "centered", "weighted", "featurized"]


@pytest.fixture(params=VIEWS)
def view(request) -> str:
    return request.param


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param


def everything(X, H, h, M, m):
    """Every operation of a block, in one pass."""
    rows = X.xp.concat([X @ M, (X @ m)[:, None], X.sq()[:, None]], axis=1)
    return rows, (X.t(H), X.t(h), X.gram(), X.colsum(), X.colsq(), X.qr(H))


def test_block_operations_give_the_dense_answer(container, view, dtype, rng, many_blocks):
    X = data(rng, dtype=dtype)
    seen = Seen(view, X, rng)
    A, size = seen.dense, seen.size
    n, d = A.shape
    H, h, M, m = (rng.integers(-4, 5, shape) / 4 for shape in [(n, K), n, (d, K), d])
    rows = seen.of(as_rows(container.make(X)))
    assert rows.shape == (n, d)
    assert rows.dtype == dtype
    mapped, (XtH, Xth, G, total, squares, R) = rows.sweep(everything, H, h, shared=(M, m))
    mapped = rows.get(mapped)

    assert mapped.dtype == dtype
    close(mapped[:, :K], A @ M, size @ np.abs(M), d, dtype)
    close(mapped[:, K], A @ m, size @ np.abs(m), d, dtype)
    close(mapped[:, K + 1], (A**2).sum(axis=1), (size**2).sum(axis=1), 2 * d, dtype)

    assert {s.dtype for s in (XtH, Xth, G, total, squares, R)} == {np.dtype(np.float64)}
    close(XtH, A.T @ H, size.T @ np.abs(H), n, dtype)
    close(Xth, A.T @ h, size.T @ np.abs(h), n, dtype)
    close(G, A.T @ A, size.T @ size, 2 * n, dtype)
    close(total, A.sum(axis=0), size.sum(axis=0), n, dtype)
    close(squares, (A**2).sum(axis=0), (size**2).sum(axis=0), 2 * n, dtype)

    both = np.hstack([A, H])
    assert np.allclose(R, np.triu(R), atol=0)
    # Householder's bound is one for columns, not entries: ||R'R - B'B|| is small beside the columns' norms.
    norms = np.linalg.norm(np.hstack([size, np.abs(H)]), axis=0)
    close(R.T @ R, both.T @ both, np.outer(norms, norms), 4 * n * (d + K), dtype)


def test_the_transposed_product_is_the_adjoint(container, view, dtype, rng, many_blocks):
    X = data(rng, dtype=dtype)
    seen = Seen(view, X, rng)
    H, M = rng.standard_normal((N, K)), rng.standard_normal((seen.dense.shape[1], K))
    rows = seen.of(as_rows(container.make(X)))
    left = np.vdot(rows.get(rows @ M).astype(np.float64), H)
    right = np.vdot(M, rows.t(H))
    size = np.vdot(seen.size @ np.abs(M), np.abs(H))
    close(left, right, size, N + seen.dense.size, dtype)


def test_rows_operations_give_the_dense_answer(container, view, rng, many_blocks):
    X = data(rng)
    seen = Seen(view, X, rng)
    A, size = seen.dense, seen.size
    rows = seen.of(as_rows(container.make(X)))
    eps = np.float64
    close(rows.mean(), A.mean(axis=0), size.mean(axis=0), N, eps)
    close(rows.gram(), A.T @ A, size.T @ size, 2 * N, eps)
    close(rows.get(rows.map(norms)), (A**2).sum(axis=1), (size**2).sum(axis=1), 2 * A.shape[1], eps)
    squared = rows.squared_norm()
    assert isinstance(squared, float)
    close(squared, (A**2).sum(), (size**2).sum(), 2 * A.size, eps)

    block = rows.whole()
    assert block.shape == A.shape
    close(block.outer(), A @ A.T, size @ size.T, 2 * A.shape[1], eps)

    index = rng.integers(0, N, 40)  # in any order, with repeats
    taken = rows.take(index)
    assert taken.in_memory
    assert taken.shape == (40, A.shape[1])
    assert taken.dtype == rows.dtype
    close(taken.whole().dense(), A[index], size[index], 4, eps)
    close(taken.mean(), A[index].mean(axis=0), size[index].mean(axis=0), N, eps)


def test_taking_no_rows(container, rng):
    taken = as_rows(container.make(data(rng))).take(np.array([], dtype=np.int64))
    assert taken.shape == (0, D)


def test_rows_that_are_taken_are_of_the_kind_that_a_pass_sees(container, rng):
    rows = as_rows(container.make(data(rng)))
    seen = rows.get(rows.map(_is_sparse))
    for i in (0, N // 2, N - 1):
        assert rows.take(np.array([i])).whole().is_sparse == seen[i]
    assert len(np.unique(seen)) == 1


def test_the_bytes_of_mixed_blocks_are_those_of_the_sparse_ones_they_are_read_as(rng):
    X = rng.random((30, 8)) * (rng.random((30, 8)) < 0.3)
    mixed = as_rows([X[:10], sparse.csr_array(X[10:20]), X[20:]])
    alike = as_rows([sparse.csr_array(X[i : i + 10]) for i in (0, 10, 20)])
    assert mixed.row_bytes() == alike.row_bytes()


def _is_sparse(X):
    return X.xp.full(X.shape[0], float(X.is_sparse), dtype=X.xp.float64)


def test_nested_views(container, rng):
    """Features, then centred, then weighted: each view wraps the one beneath."""
    X = data(rng)
    F = features(X)
    w = rng.uniform(size=N)
    rows = Weighted(Centered(Featurized(as_rows(container.make(X)), features)), w)
    A = w[:, None] * (F - F.mean(axis=0))
    np.testing.assert_allclose(rows.gram(), A.T @ A, atol=1e-13 * N)
    index = np.array([4, 0, 4])
    np.testing.assert_allclose(rows.take(index).whole().dense(), A[index], atol=1e-14)


@pytest.mark.parametrize("stored", [np.int32, np.uint8, np.bool_], ids=["int32", "uint8", "bool"])
def test_integers_and_booleans_are_read_as_float64(container, stored, rng):
    X = rng.integers(0, 3, (N, D)).astype(stored)
    rows = as_rows(container.make(X))
    assert rows.dtype == np.float64
    M = rng.integers(-3, 4, (D, K)) / 4
    mapped, (XtH, G, sums) = rows.sweep(four_operations, shared=(M,))
    A = X.astype(np.float64)
    # All of these are exact: small integers and quarters.
    assert rows.get(mapped).dtype == np.float64
    np.testing.assert_array_equal(rows.get(mapped), A @ M)
    np.testing.assert_array_equal(XtH, A.T @ (A @ M))
    np.testing.assert_array_equal(G, A.T @ A)
    np.testing.assert_array_equal(sums, A.sum(axis=0))
    taken = rows.take(np.array([3, 1]))
    assert taken.dtype == np.float64
    np.testing.assert_array_equal(taken.whole().dense(), A[[3, 1]])


def four_operations(X, M):
    H = X @ M
    return H, (X.t(H), X.gram(), X.colsum())


def test_small_floats_are_read_as_float32_and_long_ones_as_float64(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    assert as_rows(X.astype(np.float16)).dtype == np.float32
    assert as_rows(X.astype(np.longdouble)).dtype == np.float64
    np.save(tmp_path / "big-endian.npy", X.astype(">f4"))
    rows = as_rows(tmp_path / "big-endian.npy")
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows @ np.eye(2), X)


def test_blocks_of_several_dtypes_are_read_in_the_widest(rng):
    blocks = [np.ones((2, 3), np.float32), np.full((2, 3), 1 / 3), np.ones((1, 3), np.int16)]
    rows = as_rows(blocks)
    assert rows.dtype == np.float64
    assert rows.take(np.array([0])).dtype == np.float64
    np.testing.assert_array_equal(rows @ np.eye(3), np.vstack(blocks))


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1), (2, 3)])
def test_few_rows_and_columns(container, shape, rng):
    X = rng.standard_normal(shape)
    rows = as_rows(container.make(X))
    assert rows.shape == shape
    M = np.ones((shape[1], 2))
    np.testing.assert_allclose(rows.get(rows @ M), X @ M, atol=1e-14)
    np.testing.assert_allclose(rows.t(np.ones(shape[0])), X.sum(axis=0), atol=1e-14)
    np.testing.assert_allclose(rows.whole().outer(), X @ X.T, atol=1e-14)
    np.testing.assert_allclose(Centered(rows).gram(), (X - X.mean(0)).T @ (X - X.mean(0)), atol=1e-13)


def test_a_matrix_of_zeros(container):
    rows = as_rows(container.make(np.zeros((6, 3))))
    np.testing.assert_array_equal(rows.gram(), np.zeros((3, 3)))
    np.testing.assert_array_equal(rows.get(rows @ np.ones((3, 2))), np.zeros((6, 2)))
    np.testing.assert_array_equal(rows.whole().outer(), np.zeros((6, 6)))
    np.testing.assert_array_equal(Centered(rows, np.ones(3)).whole().outer(), np.full((6, 6), 3.0))


def number_and_rows(X, number, M):
    return X.xp.concat([number[:, None], X @ M], axis=1), X.t(number)


def test_row_order_is_kept(container, rng, many_blocks):
    X = data(rng)
    number = np.arange(N, dtype=np.float64)
    rows = as_rows(container.make(X))
    mapped, weighted = rows.sweep(number_and_rows, number, shared=(np.eye(D),))
    np.testing.assert_array_equal(rows.get(mapped), np.column_stack([number, X]))
    np.testing.assert_allclose(weighted, X.T @ number, rtol=1e-13, atol=1e-11)


def product(X, M):
    return X @ M


def norms(X):
    return X.sq()


def repeat(start, stop, h):
    return np.repeat(h[:, None] / 4, 2, axis=1)


def update(X, H, h, M):
    return H + X @ M, (X.t(H), X.t(h))


def test_row_state_goes_round(container, rng, many_blocks):
    """A row result, or what `put` returned, is as good an aligned array as NumPy's."""
    X = data(rng)
    M, h = rng.standard_normal((D, K)), rng.standard_normal(N)
    rows = as_rows(container.make(X))
    assert np.array_equal(rows.get(rows.put(h)), h)
    some = rng.permutation(len(h))[:3]
    for kept in (rows, Centered(rows)):
        np.testing.assert_array_equal(kept.pick(kept.put(h), some), h[some])
        np.testing.assert_array_equal(kept.pick(h, some), h[some])
        repeated = kept.get(kept.map_aligned(repeat, kept.put(h)))
        np.testing.assert_array_equal(repeated, np.stack([h, h], axis=1) / 4)
    H, kept = rows.map(product, shared=(M,)), rows.put(h)
    for generation in range(1, 4):
        H, (XtH, Xth) = rows.sweep(update, H, kept, shared=(M,))
        np.testing.assert_allclose(XtH, generation * (X.T @ X @ M), rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(Xth, X.T @ h, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.get(H), 4 * (X @ M), rtol=1e-12, atol=1e-12)


def weigh(X, codes, mask):
    return X.xp.where(mask, codes, -codes), None


def test_aligned_integers_and_booleans_keep_their_kind(container, rng, many_blocks):
    codes, mask = rng.integers(0, 5, N), rng.random(N) < 0.5
    rows = as_rows(container.make(data(rng)))
    got = rows.get(rows.sweep(weigh, codes, mask)[0])
    assert got.dtype.kind == "i"
    np.testing.assert_array_equal(got, np.where(mask, codes, -codes))


class Recorder:
    """A function of a pass that notes the dtypes of what it is given."""

    def __init__(self) -> None:
        self.seen = set()

    def __call__(self, X, M, vector, codes, name):
        self.seen.add((X.dtype == M.dtype == vector.dtype, "int64" in str(codes.dtype), name))
        return X @ M, None


def test_shared_floats_come_in_the_dtype_of_X(container, dtype, rng, many_blocks):
    record = Recorder()
    M, vector, codes = rng.standard_normal((D, K)), np.ones(D, np.float32), np.arange(3)
    rows = as_rows(container.make(data(rng, dtype=dtype)))
    mapped, sums = rows.sweep(record, shared=(M, vector, codes, "name"))
    assert record.seen == {(True, True, "name")}
    assert sums is None
    assert rows.get(mapped).dtype == dtype


def parts(X) -> list[np.ndarray]:
    """Return the NumPy arrays a container is made of."""
    if isinstance(X, list):
        return [part for block in X for part in parts(block)]
    if sparse.issparse(X):
        return [X.data, X.indices, X.indptr]
    return [X] if isinstance(X, np.ndarray) else []


@pytest.mark.filterwarnings("error")
def test_nothing_given_is_written_to(container, view, rng, many_blocks, compiled_kernels):
    X = data(rng)
    seen = Seen(view, X, rng)
    given = container.make(X)
    n, d = seen.dense.shape
    H, h, M, m = arrays = [rng.standard_normal(shape) for shape in [(n, K), n, (d, K), d]]
    arrays = [*arrays, *parts(given), seen.center, seen.weights]
    before = [a.copy() for a in arrays]
    for a in arrays:
        a.flags.writeable = False
    rows = seen.of(as_rows(given))
    rows.sweep(everything, H, h, shared=(M, m))
    rows.sweep(everything, H, h, shared=(M, m))
    rows.mean()
    rows.whole().outer()
    rows.take(np.array([2, 1])).whole().scale(np.full(2, 3.0)).gram().add(None)
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)
    if hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray):
        np.testing.assert_array_equal(as_rows(given).get(given), X)


@pytest.mark.parametrize("container", params("memory"))
def test_a_block_of_rows_in_memory_is_a_view(container, tmp_path, rng):
    given = container.within(tmp_path).make(data(rng))
    if container.name in ("csc", "csr-untidy"):
        pytest.skip("this format has to be converted")
    rows = as_rows(given)
    block = rows.block(10, 30)
    if container.is_sparse:
        assert np.shares_memory(block.data, given.data)
        assert np.shares_memory(block.indices, given.indices)
    else:
        assert np.shares_memory(block.X, rows.X)
        if isinstance(given, np.ndarray):
            assert np.shares_memory(block.X, given)


def test_sparse_rows_stay_sparse_when_centred(rng):
    X = sparse.random_array((400, 5000), density=0.001, format="csr", rng=rng)
    block = Centered(as_rows(X)).take(np.arange(100)).whole()
    assert sparse.issparse(block.block.raw)


def test_each_kind_has_its_adapter(container, rng):
    adapters = {
        "memory": ("DenseRows", "CSRRows"),
        "file": ("FileRows",),
        "blocks": ("IterableRows",),
        "device": ("DeviceRows",),
        "dask": ("DaskRows",),
    }
    given = container.make(data(rng))
    rows = as_rows(given)
    assert type(rows).__name__ in adapters[container.kind]
    assert rows.in_memory == (container.kind == "memory")
    assert as_rows(rows) is rows
    mapped = container.name in ("npy-fortran", "memmap-copy-on-write")
    assert is_table(given) == (container.kind == "memory" and not mapped)


def test_the_bytes_of_a_taken_row(container, rng):
    X = rng.standard_normal((60, 8))
    expected = 8 * 8 + (8 * 4 if container.is_sparse else 0)  # values, and a column number each
    got = as_rows(container.make(X)).row_bytes()
    assert expected / 2 <= got <= 2.5 * expected


def test_names_of_containers_are_unique():
    assert len({c.name for c in CONTAINERS}) == len(CONTAINERS)


def test_estimators_are_tested_with_every_adapter():
    held = {(c.kind, c.is_sparse) for c in CONTAINERS if c.name in ONE_EACH}
    assert {kind for kind, _ in held} == {c.kind for c in CONTAINERS}
    assert {("memory", False), ("memory", True)} <= held


INDEX_DTYPES = pytest.mark.parametrize("index_dtype", [np.int32, np.int64], ids=["int32", "int64"])


def random_csr(rng, dtype, index_dtype, n=300, d=40) -> sparse.csr_array:
    X = sparse.random_array((n, d), density=0.15, format="csr", rng=rng, dtype=np.float64).astype(dtype)
    X.data -= 0.3
    X.indices, X.indptr = X.indices.astype(index_dtype), X.indptr.astype(index_dtype)
    return X


def counted(monkeypatch, name: str) -> list:
    """Count the calls of a compiled kernel."""
    from labelfold.rows import _sparse_products as sparse_products

    calls, kernel = [], getattr(sparse_products, name)
    monkeypatch.setattr(sparse_products, name, lambda *args: calls.append(1) or kernel(*args))
    return calls


def product_and_transposed(X, H, M):
    return X @ M, X.t(H)


@pytest.mark.parametrize("k", [1, 10, 64, 200])
@INDEX_DTYPES
def test_compiled_products_equal_scipy(
    k, index_dtype, dtype, rng, many_blocks, compiled_kernels, monkeypatch
):
    X = random_csr(rng, dtype, index_dtype)
    M, H = rng.standard_normal((X.shape[1], k)), rng.standard_normal((X.shape[0], k))
    gathers, scatters = counted(monkeypatch, "csr_product"), counted(monkeypatch, "csr_scatter")
    rows = as_rows(X)
    XM, XtH = rows.sweep(product_and_transposed, H, shared=(np.asfortranarray(M),))
    assert len(gathers) == len(scatters) > 10  # blocks
    monkeypatch.setattr("labelfold.rows._sums._SMALL_PRODUCT", np.inf)
    slow_XM, slow_XtH = rows.sweep(product_and_transposed, H, shared=(M,))
    assert len(gathers) == len(scatters) == len(rows.cuts()) - 1
    A = abs(X.astype(np.float64))
    assert XM.dtype == slow_XM.dtype == dtype
    close(XM, slow_XM, A @ np.abs(M), X.shape[1], dtype)
    close(XtH, slow_XtH, A.T @ np.abs(H), X.shape[0], dtype)
    close(XM, X.astype(np.float64) @ M, A @ np.abs(M), X.shape[1], dtype)
    close(XtH, X.astype(np.float64).T @ H, A.T @ np.abs(H), X.shape[0], dtype)


@INDEX_DTYPES
def test_compiled_gram_and_outer_equal_scipy(index_dtype, dtype, rng, many_blocks):
    X = random_csr(rng, dtype, index_dtype)
    rows = as_rows(X)
    S = X.astype(np.float64)
    A = abs(S)
    close(rows.gram(), (S.T @ S).toarray(), (A.T @ A).toarray(), X.shape[0], dtype)
    close(rows.whole().outer(), (S @ S.T).toarray(), (A @ A.T).toarray(), X.shape[1], dtype)


@pytest.mark.parametrize(
    "empty", [[0], [-1], [3, 4, 5], range(100, 300)], ids=["first", "last", "middle", "most"]
)
def test_outer_with_empty_rows(empty, rng):
    X = random_csr(rng, np.float64, np.int32).toarray()
    X[list(empty)] = 0
    np.testing.assert_allclose(as_rows(sparse.csr_array(X)).whole().outer(), X @ X.T, atol=1e-13)


def test_large_blocks_run_the_kernels_unasked(rng, monkeypatch):
    """Data of ordinary size crosses the threshold by itself, in several blocks."""
    X = sparse.random_array((12_000, 500), density=0.1, format="csr", rng=rng, dtype=np.float32)
    monkeypatch.setattr("labelfold.rows.adapters._local.SPARSE_BYTES", 1 << 20)
    monkeypatch.setenv("LABELFOLD_NUM_THREADS", "2")
    gathers = counted(monkeypatch, "csr_product")
    rows = as_rows(X)
    M = rng.standard_normal((500, 64))
    XM = rows @ M
    assert len(gathers) == len(rows.cuts()) - 1 >= 2
    np.testing.assert_allclose(XM, X @ M.astype(np.float32), atol=1e-4)


def test_narrow_and_single_blocks(rng):
    X = rng.standard_normal((9, 40)) * (rng.random((9, 40)) < 0.1)
    center = np.where(rng.random(40) < 0.1, 1.5, 0.0)
    for block, A in (
        (as_rows(sparse.csr_array(X)).whole(), X),
        (Centered(as_rows(sparse.csr_array(X)), center).whole(), X - center),
        (as_rows(X).whole(), X),
    ):
        narrow = block.narrow()
        kept = A[:, (A != 0).any(axis=0)] if block.is_sparse else A
        np.testing.assert_array_equal(narrow.dense(), kept)
        np.testing.assert_allclose(narrow.outer(), A @ A.T, atol=1e-13)
        np.testing.assert_allclose(total(narrow.t(np.ones((9, 2)))), kept.T @ np.ones((9, 2)), atol=1e-13)
        single = block.single()
        assert (single.dtype, block.dtype) == (np.float32, np.float64)
        np.testing.assert_allclose(single @ np.ones((40, 3)), A @ np.ones((40, 3)), atol=1e-5)
        np.testing.assert_allclose(single.outer(np.eye(9)), A @ A.T, atol=1e-4)


def test_transposed_products_use_the_copy_by_columns(rng, compiled_kernels, monkeypatch):
    """The copy that X X'P leaves serves X'H as well."""
    X = random_csr(rng, np.float64, np.int32)
    H = rng.standard_normal((X.shape[0], 3))
    block = as_rows(X).whole()
    gathers, scatters = counted(monkeypatch, "csr_product"), counted(monkeypatch, "csr_scatter")
    before = total(block.t(H))
    assert (len(gathers), len(scatters)) == (0, 1)
    block.outer(H)
    after = total(block.t(H))
    assert (len(gathers), len(scatters)) == (1, 1)
    np.testing.assert_allclose(before, X.T @ H, atol=1e-12)
    np.testing.assert_allclose(after, X.T @ H, atol=1e-12)


def test_many_small_blocks_run_the_kernels(rng, monkeypatch):
    """The size of the pass decides, not that of a block."""
    monkeypatch.setattr("labelfold.rows.adapters._local.SPARSE_BYTES", 1 << 16)
    monkeypatch.setattr("labelfold.rows.adapters._local.SPARSE_ROWS", 64)
    X = sparse.random_array((4000, 500), density=0.1, format="csr", rng=rng)
    gathers, rows = counted(monkeypatch, "csr_product"), as_rows(X)
    M = rng.standard_normal((500, 20))
    np.testing.assert_allclose(Centered(rows, np.zeros(500)) @ M, X @ M, atol=1e-12)
    assert len(gathers) == len(rows.cuts()) - 1 > 10
    assert X.nnz * 20 / len(gathers) < 1e6


@pytest.mark.parametrize("k", [1, 3, 4, 5, 7, 15, 16, 39, 40, 128, 130])
def test_products_of_every_width(k, rng):
    """Kernels are compiled for some widths and general for others."""
    from labelfold.rows import _sparse_products as sparse_products

    X = sparse.random(30, 20, density=0.3, format="csr", random_state=0)
    M, H, out = rng.standard_normal((20, k)), rng.standard_normal((30, k)), np.zeros((20, k))
    np.testing.assert_allclose(sparse_products.csr_product(X.data, X.indices, X.indptr, M), X @ M, atol=1e-13)
    sparse_products.csr_scatter(X.data, X.indices, X.indptr, H, out)
    np.testing.assert_allclose(out, X.T @ H, atol=1e-13)


@pytest.mark.parametrize("k", [1, 5, 40, 101, 130])
@pytest.mark.parametrize("n_threads", ["1", "2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_repeated_products_with_the_outer_product(k, n_threads, dtype, rng, monkeypatch):
    monkeypatch.setenv("LABELFOLD_NUM_THREADS", n_threads)
    X = rng.standard_normal((30, 80)) * (rng.random((30, 80)) < 0.1)
    X[3], X[:, 7] = 0.0, 0.0
    center = rng.standard_normal(80)
    P = rng.standard_normal((30, 2 * k))[:, ::2]
    rows = as_rows(sparse.csr_array(X.astype(dtype)))
    for block, A in ((rows.whole(), X), (Centered(rows, center).whole(), X - center)):
        size = np.abs(A) + np.abs(X)
        for _ in range(2):
            close(block.outer(P), A @ A.T @ P, size @ size.T @ np.abs(P), 4 * 80, dtype)
