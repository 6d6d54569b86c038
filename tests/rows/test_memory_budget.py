"""Methods that read rows into the memory of this process: one sentence says how many fit, and what to use."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

da = pytest.importorskip("dask.array", reason="dask is not installed")
dask = pytest.importorskip("dask", reason="dask is not installed")

from labelfold import CCA, DRSVM, LDA, LSDR, PCALS, TSVM, KernelPCALS, LapRLS, NMFAlpha  # noqa: E402
from labelfold.features import kernel_map  # noqa: E402
from labelfold.rows import Centered, _containers, as_rows, check_fits  # noqa: E402
from labelfold.rows.adapters._dask import DaskRows  # noqa: E402

N, D = 60, 8


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def X(rng):
    return np.abs(rng.standard_normal((N, D))) + 0.1


@pytest.fixture
def y(X):
    return (X[:, 0] > X[:, 1]).astype(int)


@pytest.fixture
def taken(monkeypatch):
    """The numbers of rows that were read from Dask into this process."""
    counts, take = [], DaskRows.take
    monkeypatch.setattr(DaskRows, "take", lambda self, index: counts.append(len(index)) or take(self, index))
    return counts


def lazy(X):
    return da.from_array(X, chunks=(20, D))


BUDGETED = [
    (LapRLS(), "LapRLS", "use LabelFold or LDA"),
    (LapRLS(kernel="rbf", gamma=1.0, smoothness=0.0), "LapRLS", "use LabelFold or LDA"),
    (TSVM(), "TSVM", "use LabelFold, LDA or DRSVM"),
    (LDA(kernel="rbf", gamma=1.0, n_landmarks=None), "the exact kernel form", "n_landmarks"),
    (CCA(kernel="rbf", gamma=1.0, n_landmarks=None), "the exact kernel form", "n_landmarks"),
    (KernelPCALS(2, gamma=1.0, n_landmarks=None), "the exact kernel form", "n_landmarks"),
]
OF_LABELLED_ROWS = [
    (DRSVM(2, max_iter=3), "DRSVM", "use LDA or LabelFold"),
    (NMFAlpha(2, max_iter=3), "NMFAlpha", "use SSNMF or LabelFold"),
    (LSDR(2, max_iter=3, max_gram_bytes=0), "this factorisation", "use LDA or LabelFold"),
    (
        NMFAlpha(2, kernel="rbf", gamma=1.0, n_landmarks=None, max_iter=3),
        "a kernel with all rows",
        "set n_landmarks=1000",
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("method", "who", "instead"), BUDGETED, ids=lambda value: str(value)[:30])
def test_rows_beyond_max_gram_bytes(method, who, instead, X, y, taken):
    method = method.set_params(max_gram_bytes=N * D * 8 - 1)
    wide = np.repeat(X, 8, axis=1) if who == "the exact kernel form" else X
    # An n x n matrix fits, the rows do not.
    method.set_params(max_gram_bytes=min(8 * N * N + 1, wide.nbytes - 1))
    budget = method.max_gram_bytes
    given = da.from_array(wide, chunks=(20, -1))
    sentence = (
        rf"^{who} reads rows into the memory .*: {N} x {wide.shape[1]} on Dask are {wide.nbytes:,} bytes, "
        rf"of which max_gram_bytes, {budget:,} bytes, holds {budget // (8 * wide.shape[1])} rows; .*{instead}"
    )
    with pytest.raises(ValueError, match=sentence):
        method.fit(given, y)
    assert sum(taken) <= 2
    # Rows that fit go on working.
    model = method.set_params(max_gram_bytes=8 * wide.nbytes).fit(given, y)
    np.testing.assert_array_equal(model.predict(given), method.fit(wide, y).predict(wide))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("method", "who", "instead"), OF_LABELLED_ROWS, ids=lambda value: str(value)[:30])
def test_labelled_rows_beyond_the_memory(method, who, instead, X, y, taken, monkeypatch):
    monkeypatch.setattr(_containers, "memory_bytes", lambda: 2.0 * (X.nbytes - 1))
    sentence = (
        rf"^{who} reads rows .*: {N} x {D} on Dask are 3,840 bytes, of which half of the memory of this .*, "
    )
    with pytest.raises(ValueError, match=rf"{sentence}3,839 bytes, holds 59 rows; {instead}"):
        method.fit(lazy(X), y)
    assert sum(taken) <= 1
    # Kernel values of all rows are wider than these.
    fits = max(X.nbytes, 8 * N * N if hasattr(method, "kernel") and method.kernel else 0)
    monkeypatch.setattr(_containers, "memory_bytes", lambda: 2.0 * fits)
    method.fit(lazy(X), y)


@pytest.mark.parametrize("method", [LDA(), PCALS(2), DRSVM(2, max_iter=3), LSDR(2, max_iter=3)], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_rows_that_are_made_of_an_embedding(method, X, y, monkeypatch):
    model = method.fit(X, y)
    Z = model.transform(X)
    given = da.from_array(np.asarray(Z), chunks=(20, -1))
    np.testing.assert_allclose(model.inverse_transform(given), model.inverse_transform(Z))
    monkeypatch.setattr(_containers, "memory_bytes", lambda: 2.0 * (X.nbytes - 1))
    with pytest.raises(
        ValueError, match=rf"inverse_transform reads rows .* {N} x {D} on Dask .*; transform a part"
    ):
        model.inverse_transform(given)
    model.inverse_transform(Z)


def test_labelled_rows_of_a_batch(X, y, monkeypatch):
    some = np.where(np.arange(N) < 50, y, -1)
    monkeypatch.setattr(_containers, "memory_bytes", lambda: 2.0 * 50 * D * 8)
    LDA().partial_fit(lazy(X), some, classes=[0, 1])
    monkeypatch.setattr(_containers, "memory_bytes", lambda: 2.0 * 49 * D * 8)
    with pytest.raises(
        ValueError, match=r"partial_fit reads rows .*: 50 x 8 .* holds 49 rows; give it smaller"
    ):
        LDA().partial_fit(lazy(X), some, classes=[0, 1])
    LDA().partial_fit(lazy(X), y, classes=[0, 1])  # where all are labelled none are taken


def test_sparse_rows_on_dask_take_what_they_store(X, y):
    few = np.where(X > 1.5, X, 0.0)
    given = lazy(few).map_blocks(sparse.csr_array)
    stored = as_rows(given).stored_bytes()
    assert stored == pytest.approx(as_rows(sparse.csr_array(few)).stored_bytes())
    assert stored < few.nbytes / 2
    model = TSVM(max_gram_bytes=int(stored) + 1, n_stages=2).fit(given, y)
    np.testing.assert_array_equal(
        model.predict(given), TSVM(n_stages=2).fit(sparse.csr_array(few), y).predict(few)
    )
    with pytest.raises(ValueError, match="TSVM reads rows"):
        TSVM(max_gram_bytes=int(stored) - 1).fit(given, y)


@pytest.mark.parametrize("kernel", ["rbf", "chi2"])
def test_landmarks_alone_are_read_of_masked_rows(kernel, X, y, taken):
    """Labelled rows beyond the budget stay on the workers."""
    mask = np.arange(N) % 3 > 0
    X[~mask] *= -1  # rows that are not used may be negative
    options = {"gamma": 1.0, "degree": None, "coef0": None, "max_gram_bytes": 0, "random_state": 0}
    found, _ = kernel_map(as_rows(lazy(X)), kernel, n_landmarks=5, weights=mask.astype(float), **options)
    assert taken == [5]
    expected, _ = kernel_map(as_rows(X[mask]), kernel, n_landmarks=5, **options)
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_auto_landmarks_where_the_rows_do_not_fit(X, y, taken):
    wide = np.repeat(X, 16, axis=1)
    model = LDA(kernel="rbf", gamma=1.0, max_gram_bytes=8 * N * N + 1).fit(
        da.from_array(wide, chunks=(20, -1)), y
    )
    assert hasattr(model.feature_map_, "components_")  # Nystroem's
    model = LDA(kernel="rbf", gamma=1.0, max_gram_bytes=wide.nbytes).fit(
        da.from_array(wide, chunks=(20, -1)), y
    )
    assert not hasattr(model.feature_map_, "components_")


def test_the_place_of_the_rows_is_named(tmp_path, X):
    np.save(tmp_path / "rows.npy", X)
    for given, place in ((tmp_path / "rows.npy", "in a file"), ([X, X], "in blocks"), (lazy(X), "on Dask")):
        with pytest.raises(
            ValueError, match=f"x 8 {place} are .* holds 0 rows; do less, or raise max_gram_bytes"
        ):
            check_fits(Centered(as_rows(given)), "It", "do less", max_gram_bytes=1)
    check_fits(as_rows(X), "It", "do less", max_gram_bytes=1)


def test_the_memory_of_the_machine(monkeypatch):
    assert _containers.memory_bytes() > 1e8
    monkeypatch.delattr(_containers.os, "sysconf")
    assert _containers.memory_bytes() == np.inf


def test_rows_on_a_device_have_its_memory(monkeypatch, X):
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    monkeypatch.setattr(_containers, "memory_bytes", lambda: 1.0)
    rows = as_rows(xp.asarray(X))
    check_fits(rows, "It", "do less")
    with pytest.raises(ValueError, match="on a device are"):
        check_fits(rows, "It", "do less", max_gram_bytes=1)
