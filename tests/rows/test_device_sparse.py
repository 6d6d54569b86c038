"""Passes over sparse tensors on a device: every operation of a block equals that of dense rows in float64."""

from __future__ import annotations

import numpy as np
import pytest

import labelfold.rows.adapters._device as device_rows
from containers import CONTAINERS
from labelfold import DRSVM, KLNMF, LDA, PCALS, SSNMF
from labelfold.factorization._divergence import divergence, kl_rows, kl_sums, solve_rows
from labelfold.rows import Centered, Weighted, as_rows

torch = pytest.importorskip("torch")

N, D, K = 600, 90, 3


def entries(dtype=np.float32, seed=0):
    """Return rows with few entries, an empty row, an empty column, and a full column far from 0."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((N, D)) < 0.06, rng.standard_normal((N, D)) + 0.5, 0.0)
    X[7], X[:, 5] = 0, 0
    X[:, 11] = (1000 if dtype == np.float32 else 1) + rng.standard_normal(N)
    return X.astype(dtype)


def tensor(X):
    there = next(c for c in CONTAINERS if c.name == "torch").build(X, None)
    return there.to_sparse_csr()


def host(Z):
    return Z if isinstance(Z, np.ndarray) else Z.cpu().numpy()


def _everything(X, M, H, W):
    P = X @ M
    rows = torch.stack([X.sq(), X @ M[:, 0]], 1)
    sums = (X.t(H), X.colsum(), X.colsq(), X.double().gram(), X.normal(W), X.inner(P))
    return torch.cat([P, rows], 1), sums


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("view", ["plain", "centered", "weighted"])
@pytest.mark.parametrize("n_blocks", [1, 4])
def test_every_operation_of_a_device_block(dtype, view, n_blocks):
    X, rng = entries(dtype), np.random.default_rng(1)
    M, H, W = (rng.standard_normal(shape).astype(dtype) for shape in ((D, K), (N, K), (D, K)))
    rows = as_rows(tensor(X))
    rows._bytes = -(-X.nbytes // n_blocks)
    assert len(rows.cuts()) == n_blocks + 1
    exact, given = X.astype(np.float64), rows
    if view != "plain":
        center = exact.mean(axis=0)
        exact, given = exact - center, Centered(rows, center)
    if view == "weighted":
        weights = rng.random(N).astype(dtype)
        exact, given = exact * weights[:, None], Weighted(given, weights)
    mapped, sums = given.sweep(_swapped, rows.put(H), shared=(M, W))
    _, R = given.sweep(_factor, rows.put(H), most_rows=150)  # merged from four blocks
    M, H, W = (a.astype(np.float64) for a in (M, H, W))
    eps = float(np.finfo(dtype).eps)
    near(host(mapped)[:, :K], eps, exact, M)
    near(host(mapped)[:, K], eps, exact**2, np.ones(D))
    near(host(mapped)[:, K + 1], eps, exact, M[:, 0])
    both, ones = np.hstack([exact, H]), np.ones(N)
    factors = [(exact, H), (exact, ones), (exact**2, ones), (exact, exact), (exact, exact @ W)]
    factors += [(exact @ M, exact @ M), (both, both)]
    for got, (left, right) in zip([*sums, R.T @ R], factors, strict=True):
        near(got, eps, left.T, right)


def near(found, eps, left, right):
    """Check a product: off by the rounding of its terms, and of the rows where a centre was subtracted."""
    bound = 100 * eps * (np.abs(left) @ np.abs(right) + 1)
    assert (np.abs(found - left @ right) / bound).max() <= 1


def _swapped(X, H, M, W):
    return _everything(X, M, H, W)


def _factor(X, H):
    return None, X.double().qr(H)


@pytest.mark.parametrize("n_columns", [1, 2, 7, 8, 10, 33, 74])
def test_products_of_a_device_with_few_or_many_columns(n_columns):
    X, rng = entries(), np.random.default_rng(2)
    M, H = rng.standard_normal((D, n_columns)), rng.standard_normal((N, n_columns)).astype(np.float32)
    rows = as_rows(tensor(X))
    wanted = X.astype(float) @ M.astype(np.float32)
    np.testing.assert_allclose(rows.get(rows @ M), wanted, atol=1e-6 * np.abs(wanted).max())
    wanted = X.astype(float).T @ H
    np.testing.assert_allclose(rows.t(H), wanted, atol=1e-6 * np.abs(wanted).max())


def test_a_long_column_of_a_device_is_summed_in_pieces():
    X = np.zeros((5000, 40), dtype=np.float32)
    X[:, 3] = np.random.default_rng(0).random(5000) + 1
    X[::7, 20] = 2
    rows, H = as_rows(tensor(X)), np.ones((5000, 2), dtype=np.float32)
    np.testing.assert_allclose(rows.t(H)[:, 1], X.sum(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(rows.mean(), X.mean(axis=0, dtype=np.float64), rtol=1e-12)


def test_sums_of_a_device_are_the_same_in_every_pass_to_round_off():
    """They are in float64, and torch adds them in any order."""
    rows, H = as_rows(tensor(entries())), entries()[:, :4]
    first = rows.t(H)
    np.testing.assert_allclose(rows.t(H), first, atol=N * np.finfo(np.float64).eps * np.abs(first).max())


def test_smallest_entries_and_values_that_are_not_finite_on_a_device():
    X = entries()
    rows = as_rows(tensor(X))
    np.testing.assert_array_equal(rows.get(rows.map(_least)), X.min(axis=1))
    X[123, 11] = np.inf
    for use in (_least, _first):
        with pytest.raises(ValueError, match="X contains infinity at row 123, column 11"):
            as_rows(tensor(X)).map(use)


def _least(X):
    return X.min()


def _first(X):
    return X @ np.ones((D, 2), dtype=np.float32)


def test_some_rows_stay_on_the_device_where_they_are_many(monkeypatch):
    X, index = entries(), np.array([3, 599, 3, 7, 250])
    rows = as_rows(tensor(X))
    for most in (0, 1 << 20):
        monkeypatch.setattr("labelfold.rows.adapters._device.FEW_BYTES", most)
        some = rows.subset(index)
        assert some.in_memory == (most > 0)
        np.testing.assert_array_equal(some.take(np.arange(5)).whole().dense(), X[index])


def test_less_memory_than_a_pass_over_sparse_rows_of_a_device_takes(monkeypatch):
    monkeypatch.setattr(device_rows, "MIN_DEVICE_BYTES", 64)
    X = entries()
    rows = as_rows(tensor(X))
    rows.t(X[:, :2])

    def hungry(block):
        if block.shape[0] > 200:
            raise OutOfMemoryError("CUDA out of memory")
        return block.t(block @ np.eye(D, 2, dtype=np.float32))

    rows._bytes = X.nbytes
    wanted = X.astype(float).T @ X[:, :2].astype(float)
    np.testing.assert_allclose(rows.sum(hungry), wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
    assert all(b - a <= 200 for a, b in rows._parts)  # transposes of larger blocks are let go of


class OutOfMemoryError(RuntimeError):
    """What libraries for devices call theirs."""


@pytest.mark.parametrize("n_columns", [3, 16, 20])
def test_the_divergence_of_sparse_rows_of_a_device(n_columns):
    X = np.abs(entries())
    X[:, 11] /= 1000
    rng = np.random.default_rng(3)
    H, V = (rng.random((size, n_columns)).astype(np.float32) for size in (N, D))
    V[40] = 0  # what no component can make
    v = V.sum(axis=0, dtype=np.float64)
    rows, exact = as_rows(tensor(X)), as_rows(X.astype(np.float64))
    wanted = exact.map(kl_rows, H.astype(np.float64), shared=(V.astype(np.float64),))
    seen = X[:, 40] == 0
    found = rows.get(rows.map(kl_rows, H, shared=(V,)))
    np.testing.assert_allclose(found[seen], wanted[seen], atol=1e-5 * wanted[seen].max())
    V[40] = 0.5
    v = V.sum(axis=0, dtype=np.float64)
    sums, loss = rows.sum(kl_sums, H, shared=(V, v))
    wanted, least = exact.sum(kl_sums, H.astype(np.float64), shared=(V.astype(np.float64), v))
    np.testing.assert_allclose(sums, wanted, atol=1e-5 * wanted.max())
    assert loss == pytest.approx(least, rel=1e-5)
    found = rows.get(rows.map(solve_rows, shared=(V, v, 1e-5, 3000)))
    best = exact.map(solve_rows, shared=(V.astype(np.float64), v, 1e-9, 3000))
    losses = [divergence(X.astype(np.float64), a.astype(np.float64), V) for a in (found, best)]
    assert losses[0] - losses[1] <= 2e-5 * X.sum()


@pytest.mark.parametrize(
    "estimator",
    [
        LDA(max_gram_bytes=0, tol=1e-6),
        LDA(),
        PCALS(2),
        DRSVM(3, max_iter=5, tol=0),
        SSNMF(3, max_iter=5, tol=0),
        KLNMF(3, max_iter=5, tol=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_method_on_a_device_equals_that_on_dense_rows(estimator):
    X = np.abs(entries())
    X[:, 11] = 0
    y = np.arange(N) % 3
    X[y == 1, 0] += 1
    few = np.where(np.arange(N) < 200, y, -1)
    dense = estimator.fit(X.astype(np.float64), few)
    wanted = np.abs(dense.transform(X.astype(np.float64)))
    found = estimator.fit(tensor(X), few).transform(tensor(X))
    np.testing.assert_allclose(np.abs(host(found)), wanted, atol=2e-3 * wanted.max())
