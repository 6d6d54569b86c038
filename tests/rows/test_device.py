"""Passes over rows on a device: digits, copies, memory, and tensors that need a word."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import labelfold.rows.adapters._device as device_rows
from containers import CONTAINERS, params
from labelfold import DRSVM, KLNMF, LDA, PCALS, SSNMF
from labelfold.rows import Centered, as_rows
from labelfold.rows.adapters._device import MIN_ZEROS
from labelfold.rows.adapters._device_blocks import to_host

torch_too = pytest.mark.parametrize("container", params("device"))


def rows_of(n=5000, d=6, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed).random((n, d)) + 0.1).astype(dtype)


@torch_too
def test_sums_of_float32_rows_keep_their_digits(container, tmp_path):
    X = rows_of(20_000)
    H = rows_of(20_000, 3, seed=1)
    rows = as_rows(container.build(X, tmp_path))
    exact = X.astype(np.float64).T @ H.astype(np.float64)
    # Sums of 1,024 terms in float32, each off by a few units in the last place at most, and not all the same way.
    np.testing.assert_allclose(rows.t(H), exact, rtol=5e-7)
    np.testing.assert_allclose(rows.mean(), X.astype(np.float64).mean(axis=0), rtol=5e-7)
    assert abs(rows.t(H).sum() / exact.sum() - 1) < 1e-7


def _there_and_back(X, M):
    H = X @ M
    return H, (X.t(H), X.colsum(), X.double().gram())


@pytest.mark.parametrize("offset", [0.5, 1e3])
@torch_too
def test_a_centre_is_subtracted_early_or_late_and_the_answer_is_the_same(
    container, tmp_path, offset, monkeypatch
):
    X = np.random.default_rng(0).standard_normal((3000, 5)).astype(np.float32) + np.float32(offset)
    M = np.random.default_rng(1).standard_normal((5, 2))
    rows = as_rows(container.build(X, tmp_path))
    late = []
    may = device_rows.DeviceRows.may_center_products
    monkeypatch.setattr(
        device_rows.DeviceRows, "may_center_products", lambda self, a: late.append(may(self, a)) or late[-1]
    )
    view = Centered(rows)
    H, sums = view.sweep(_there_and_back, shared=(M,))
    assert set(late) == {offset < 1}
    exact = X.astype(np.float64) - view.center
    np.testing.assert_allclose(rows.get(H), exact @ M, atol=2e-6)
    for found, wanted in zip(sums, (exact.T @ (exact @ M), exact.sum(axis=0), exact.T @ exact), strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-6 * 3000)


@torch_too
def test_copies_to_the_host_do_not_grow_with_the_blocks(container, tmp_path, monkeypatch):
    X, M = rows_of(), np.ones((6, 2))
    copies = []
    for n_blocks in (1, 10):
        rows = as_rows(container.build(X, tmp_path))
        rows.sweep(_there_and_back, shared=(M,))  # the first pass also looks at the values
        rows._bytes = X.nbytes // n_blocks
        seen = []
        host = device_rows.to_host
        monkeypatch.setattr(device_rows, "to_host", lambda x, host=host, seen=seen: seen.append(1) or host(x))
        rows.sweep(_there_and_back, shared=(M,))
        monkeypatch.setattr(device_rows, "to_host", host)
        copies.append(len(seen))
    assert copies[0] == copies[1] == 3  # a sum each


class OutOfMemoryError(RuntimeError):
    """What libraries for devices call theirs."""


@torch_too
def test_less_memory_than_a_pass_takes(container, tmp_path, monkeypatch):
    X = rows_of()
    rows = as_rows(container.build(X, tmp_path))
    sizes = []

    def hungry(block):
        sizes.append(block.shape[0])
        if block.shape[0] > 1000:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return block.colsum()

    monkeypatch.setattr(device_rows, "MIN_DEVICE_BYTES", 64)
    rows._bytes = X.nbytes
    np.testing.assert_allclose(rows.sum(hungry), X.sum(axis=0, dtype=np.float64), rtol=1e-6)
    assert sizes[0] == 5000
    assert max(sizes[-5:]) <= 1000
    assert rows.n_passes == 1

    def insatiable(block):
        raise OutOfMemoryError("CUDA out of memory")

    with pytest.raises(MemoryError, match=r"too little free memory .* 5000 rows and 6 columns.*NumPy array"):
        rows.sum(insatiable)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_worked_on_in_float32(name):
    torch = pytest.importorskip("torch")
    device = next(c for c in CONTAINERS if c.name == "torch").build(rows_of(2), None).device
    X = torch.from_numpy(rows_of(50)).to(device, getattr(torch, name))
    with pytest.warns(UserWarning, match=f"X holds {name} values, which are worked on in float32"):
        rows = as_rows(X)
    single = X.to(torch.float32).cpu().numpy()
    np.testing.assert_allclose(rows.mean(), single.mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(rows.take(np.arange(3)).whole().raw, single[:3])
    with pytest.warns(UserWarning, match="results are float32"):
        Z = LDA().fit(single, np.arange(50) % 3).transform(X)
    assert Z.dtype == torch.float32
    assert Z.device == X.device


def test_a_gpu_that_is_nearly_full():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    X = torch.rand(400_000, 64, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    rows = as_rows(X)
    exact = (X.double().T @ X.double()).cpu().numpy()
    torch.cuda.empty_cache()
    room = torch.cuda.memory_reserved() + (64 << 20)  # rows in float64 take 200 MB
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    try:
        np.testing.assert_allclose(rows.sum(_squares_in_double), exact, rtol=1e-6)
        assert rows._bytes < X.nbytes
        with pytest.raises(
            MemoryError, match=r"cuda:0 has too little free memory .* 400000 rows and 64 columns"
        ):
            rows.sum(_endless)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_large_results_are_copied_in_pieces():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    X = torch.rand(3_000_001, 3, device="cuda")
    np.testing.assert_array_equal(to_host(X), X.cpu().numpy())
    np.testing.assert_array_equal(to_host(X.T), X.cpu().numpy().T)


def _squares_in_double(X):
    return X.double().gram()


def _endless(X):
    X.xp.ones((1 << 40,), device=X.raw.device)


@pytest.mark.parametrize(
    ("fitted_on", "used_on"), [("strict-cpu", "strict-device1"), ("torch", "numpy"), ("numpy", "torch")]
)
@pytest.mark.parametrize(
    "model", [LDA(), PCALS(2), DRSVM(2, max_iter=3), SSNMF(2, max_iter=3), KLNMF(2, max_iter=3)]
)
def test_a_model_takes_rows_from_any_device(model, fitted_on, used_on, tmp_path):
    there, elsewhere = (next(c for c in CONTAINERS if c.name == name) for name in (fitted_on, used_on))
    pytest.importorskip("torch" if "torch" in (fitted_on, used_on) else "array_api_strict")
    X, y = rows_of(60, dtype=np.float64), np.arange(60) % 2
    model.fit(there.build(X, tmp_path), y)
    Z, here = (as_rows(c.build(X, tmp_path)) for c in (elsewhere, there))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = to_host(model.transform(Z.X if elsewhere.name != "numpy" else X))
        wanted = to_host(model.transform(here.X if there.name != "numpy" else X))
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


@torch_too
def test_factors_to_start_from_may_be_on_a_device(container, tmp_path):
    X = rows_of(60, dtype=np.float64)
    init = [rows_of(60, 2, seed=1, dtype=np.float64), rows_of(6, 2, seed=2, dtype=np.float64)]
    there = KLNMF(2, init=tuple(container.build(a, tmp_path) for a in init), max_iter=3, tol=0)
    here = KLNMF(2, init=tuple(init), max_iter=3, tol=0)
    Z = [model.fit(container.build(X, tmp_path)).embedding_ for model in (there, here)]
    np.testing.assert_array_equal(*Z)


@torch_too
def test_a_value_that_is_not_finite_is_found_by_products_too(container, tmp_path):
    X = rows_of(300, 20)
    model = LDA().fit(X, np.arange(300) % 3)
    X[123, 4] = np.nan
    with pytest.raises(ValueError, match="X contains NaN at row 123, column 4"):
        model.transform(container.build(X, tmp_path))
    with pytest.raises(ValueError, match="X contains NaN at row 123, column 4"):
        SSNMF(2, max_iter=3).fit(container.build(X, tmp_path), np.arange(300) % 3)


@pytest.mark.parametrize(
    ("layout", "density"), [("to_sparse_csr", "some"), ("to_sparse_csr", "few"), ("to_sparse", "few")]
)
@pytest.mark.parametrize(
    "estimator", [LDA(), LDA(max_gram_bytes=0, tol=1e-10), PCALS(2), SSNMF(2, max_iter=5)]
)
def test_sparse_tensors(estimator, layout, density):
    torch = pytest.importorskip("torch")
    X = rows_of(200, 40, dtype=np.float64)
    X[(0.7 if density == "some" else 1.04) > X] = 0
    y = np.arange(200) % 3
    X[y == 1, 0] += 1
    assert (MIN_ZEROS * (X != 0).sum() > X.size) == (density == "some")
    dense = estimator.fit(X, y).transform(X)
    device = next(c for c in CONTAINERS if c.name == "torch").build(X, None).device
    tensor = getattr(torch.from_numpy(X).to(device), layout)()
    np.testing.assert_allclose(to_numpy(estimator.fit(tensor, y).transform(tensor)), dense, atol=1e-6)
    taken = as_rows(tensor).take(np.array([5, 1, 5])).whole()
    np.testing.assert_array_equal(taken.dense(), X[[5, 1, 5]])


def to_numpy(Z):
    return Z if isinstance(Z, np.ndarray) else Z.cpu().numpy()


def test_labels_may_be_a_tensor():
    torch = pytest.importorskip("torch")
    X, y = rows_of(60), np.arange(60) % 2
    device = next(c for c in CONTAINERS if c.name == "torch").build(X, None).device
    model = LDA().fit(X, torch.from_numpy(y).to(device))
    np.testing.assert_array_equal(model.components_, LDA().fit(X, y).components_)
