"""Sums of the I-divergence: the same from every container, held to their definition, finite whatever is zero."""

import numpy as np
import pytest
from scipy import optimize, sparse

from labelfold.factorization import _divergence as ratios, _divergence_loops as loops
from labelfold.factorization._divergence import kl_rows, kl_sums, solve_rows
from labelfold.rows import as_rows

SHAPES = {"wide": (40, 70), "tall": (120, 9)}


def problem(shape="wide", k=4, dtype=np.float64, seed=0):
    """Counts with many zeros, a zero row and a zero column among them, and positive factors."""
    rng = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    X = rng.poisson(0.4, (n, d)).astype(dtype)
    X[3] = 0
    X[:, 5] = 0
    return X, (rng.random((n, k)) + 0.01).astype(dtype), (rng.random((d, k)) + 0.01).astype(dtype)


def naive(X, H, V):
    """R V, R'H and the divergence, as they are defined."""
    X, H, V = (a.astype(np.float64) for a in (X, H, V))
    P = H @ V.T
    R = X / P
    logs = np.log(np.where(X > 0, X, 1) / np.where(X > 0, P, 1))
    return R @ V, R.T @ H, (X * logs - X + P).sum()


def _all(X, H, V, v):
    return kl_rows(X, H, V), kl_sums(X, H, V, v)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_sums_are_what_they_say_in_every_container(container, shape, dtype):
    X, H, V = problem(shape, dtype=dtype)
    rows = as_rows(container.make(X))
    mapped, (sums, loss) = rows.sweep(_all, H, shared=(V, V.sum(axis=0)))
    expected = naive(X, H, V)
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    assert rows.get(mapped).dtype == dtype
    np.testing.assert_allclose(rows.get(mapped), expected[0], rtol=rtol)
    np.testing.assert_allclose(sums, expected[1], rtol=rtol)
    np.testing.assert_allclose(loss, expected[2], rtol=rtol)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
@pytest.mark.parametrize("k", [1, 8, 9])
def test_many_blocks_in_threads_add_up(many_blocks, shape, make, k):
    X, H, V = problem(shape, k)
    mapped, (sums, loss) = as_rows(make(X)).sweep(_all, H, shared=(V, V.sum(axis=0)))
    expected = naive(X, H, V)
    np.testing.assert_allclose(mapped, expected[0], rtol=1e-12)
    np.testing.assert_allclose(sums, expected[1], rtol=1e-12)
    np.testing.assert_allclose(loss, expected[2], rtol=1e-12)


def test_integers_of_any_kind_and_stored_zeros():
    X, H, V = problem()
    expected = naive(X, H, V)
    stored = sparse.csr_array(X + 1)
    stored.data -= 1
    assert stored.nnz == X.size
    for made in (X.astype(np.uint8), sparse.csr_array(X.astype(np.int32)), X.astype(np.int64), stored):
        mapped, (sums, loss) = as_rows(made).sweep(_all, H, shared=(V, V.sum(axis=0)))
        np.testing.assert_allclose(mapped, expected[0], rtol=1e-12)
        np.testing.assert_allclose(sums, expected[1], rtol=1e-12)
        np.testing.assert_allclose(loss, expected[2], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1.0, 1e30, 1e-30])
def test_what_the_factors_cannot_make_is_finite(container, dtype, size):
    X, H, V = problem(dtype=dtype)
    X = X * dtype(size)
    H[7], V[11], V[:, 2] = 0, 0, 0
    rows = as_rows(container.make(X))
    mapped, (sums, loss) = rows.sweep(_all, H, shared=(V, V.sum(axis=0)))
    assert np.isfinite(rows.get(mapped)).all()
    assert np.isfinite(sums).all()
    assert np.isfinite(loss)
    placed = rows.get(rows.map(solve_rows, shared=(V, V.sum(axis=0), 1e-6, 50)))
    assert np.isfinite(placed).all()
    assert placed.min() >= 0
    assert not placed[3].any()
    assert not placed[:, 2].any()


def test_rows_are_at_their_minimum(container):
    X, _, V = problem()
    v = V.sum(axis=0)
    rows = as_rows(container.make(X))
    H = rows.get(rows.map(solve_rows, shared=(V, v, 1e-9, 5000)))
    assert H.min() >= 0
    gradient = v - naive(X, np.maximum(H, 1e-300), V)[0]
    busy = X.sum(axis=1) > 0
    # The bound by which a row stops, and what it promises: slopes of 0 where h is positive, and none downwards.
    assert (gradient[busy] >= -1e-8 * v).all()
    np.testing.assert_allclose((gradient * H)[busy], 0, atol=1e-6)
    for i in (0, 8):
        found = optimize.minimize(
            lambda h, x=X[i]: (V @ h).sum() - x @ np.log(V @ h),
            np.full(4, 0.5),
            jac=lambda h, x=X[i]: v - V.T @ (x / (V @ h)),
            bounds=[(1e-12, None)] * 4,
            options={"ftol": 1e-15, "gtol": 1e-12},
        )
        ours = (V @ H[i]).sum() - X[i] @ np.log(V @ H[i])
        assert ours <= found.fun + 1e-8 * X[i].sum()


@pytest.mark.parametrize("k", [4, 8])
def test_a_row_does_not_depend_on_its_neighbours(k):
    X, _, V = problem(k=k)
    v = V.sum(axis=0)
    together = as_rows(sparse.csr_array(X)).map(solve_rows, shared=(V, v, 1e-6, 2000))
    for i in (0, 3, 20):
        alone = as_rows(sparse.csr_array(X[i : i + 1])).map(solve_rows, shared=(V, v, 1e-6, 2000))
        np.testing.assert_array_equal(alone[0], together[i])
    dense = as_rows(X).map(solve_rows, shared=(V, v, 1e-6, 2000))
    np.testing.assert_allclose(dense, together, atol=1e-5)
    loss = [naive(X, np.maximum(H, 1e-300), V)[2] for H in (dense, together)]
    np.testing.assert_allclose(*loss, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", ["plain", "entries apart", "nearly equal components"])
def test_no_sweep_over_the_components_raises_the_divergence(case, dtype):
    """The start is one multiplicative update away; and a component that alone makes an entry never goes to 0."""
    X, _, V = problem(dtype=dtype)
    if case == "entries apart":
        V[:20, 1:] = 0
        V[20:40, :1] = 0
    elif case == "nearly equal components":
        V = (V[:, :1] + 1e-4 * V).astype(dtype)
    v = V.sum(axis=0)
    start = np.outer(X.sum(axis=1) / v.sum(dtype=float), np.ones(4))
    losses = [naive(X, np.maximum(start, 1e-300), V)[2]]
    for sweeps in (2, 3, 4, 6, 9, 20, 100, 1000):
        H = as_rows(X).map(solve_rows, shared=(V, v, 0.0, sweeps))
        if sweeps == 2:
            np.testing.assert_allclose(H, start * naive(X, np.maximum(start, 1e-300), V)[0] / v, rtol=1e-5)
        losses.append(naive(X, np.maximum(H, 1e-300), V)[2])
    assert np.diff(losses).max() <= (1e-12 if dtype == np.float64 else 1e-5) * losses[0]
    assert losses[-1] < losses[0]


def test_the_basis_steps_and_looks_ahead():
    rng = np.random.default_rng(1)
    V, V_hat, sums = (rng.random((30, 3)) for _ in range(3))
    sums[4, 1] = 0
    plain = V_hat * sums * 2.0
    ahead = np.maximum(plain + 0.7 * (plain - V), 0.8 * plain)
    for place in (np.empty_like(V), V):  # V itself may be written over
        given = sums.copy()
        new, far, v = loops.multiply_and_extrapolate(
            V_hat, V, given, np.full(3, 2.0), 0.7, 0.2, 1e-300, place
        )
        np.testing.assert_allclose(new, plain)
        np.testing.assert_allclose(far, ahead)
        np.testing.assert_allclose(v, ahead.sum(axis=0))
        assert new is given
        assert far is place


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("k", "index"), [(1, np.int32), (3, np.int32), (64, np.int32), (8, np.int64)])
def test_ratios_at_the_non_zeros_are_those_of_dense_rows(k, dtype, index, rng):
    dense = (rng.poisson(0.4, (7, 300)) * rng.gamma(1.0, 1.0, (7, 300))).astype(dtype)
    dense[2] = 0
    X = sparse.csr_array(dense)
    H, V = rng.random((7, k)).astype(dtype), rng.random((300, k)).astype(dtype)
    found = loops.csr_ratios(
        X.data, X.indices.astype(index), X.indptr.astype(index), H, V, np.array(ratios.floor(dtype), dtype)
    )
    rtol = 1e-13 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, (dense / (H.astype(float) @ V.T))[dense > 0], rtol=rtol)


def test_divergences_of_ratios_of_any_size():
    """Rows of one entry each: x log(x/p) - x + p of what is modelled from far too small to far too large."""
    p = np.concatenate(
        [10.0 ** np.arange(-150, 151, 3), 1 + np.linspace(-1e-3, 1e-3, 41), [2**0.5, 0.5**0.5]]
    )
    one = np.ones((1, 1))
    for x in (1.0, 3.7):
        for value in p:
            X = as_rows(sparse.csr_array(x * one))
            _, loss = X.sum(kl_sums, value * one, shared=(one, np.ones(1)))
            exact = x * np.log(x / value) - x + value
            np.testing.assert_allclose(loss, exact, rtol=1e-13, atol=1e-15)
