"""Dask arrays: every scheduler, and row state that does not pile up."""

from __future__ import annotations

import time

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

from sklearn.base import clone  # noqa: E402

from containers import CONTAINERS  # noqa: E402
from labelfold import (  # noqa: E402
    CCA,
    CNMF,
    DRSVM,
    HSL,
    KLNMF,
    LDA,
    LSDR,
    NSDR,
    OPLS,
    PCALS,
    SSDR,
    SSNMF,
    TSVM,
    KernelPCALS,
    LabelFold,
    LapRLS,
    NMFAlpha,
)
from labelfold.rows import Centered, Featurized, Weighted, as_rows  # noqa: E402

METHODS = [
    *(CCA(), HSL(), LDA(), OPLS(), LabelFold(), LapRLS(), TSVM()),
    *(each(2) for each in (KernelPCALS, PCALS, SSDR)),
    *(each(2, max_iter=3) for each in (CNMF, DRSVM, KLNMF, LSDR, NSDR, NMFAlpha, SSNMF)),
]
KINDS = {container.name: container for container in CONTAINERS if container.kind == "dask"}


def step(X, H, M):
    """One generation of row state: the old one shrinks, and X adds to it."""
    H = 0.5 * H + X @ M
    return H, (X.t(H), H.T @ H)


def features(X):
    return np.cos(X.toarray() if hasattr(X, "toarray") else X)


@pytest.fixture
def X(rng) -> np.ndarray:
    X = rng.standard_normal((90, 6))
    X[rng.random(X.shape) < 0.5] = 0
    return X


@pytest.fixture
def M(rng) -> np.ndarray:
    return rng.standard_normal((6, 2))


def run(rows, M, generations: int = 3):
    H = rows.put(np.zeros((rows.shape[0], M.shape[1])))
    for _ in range(generations):
        H, sums = rows.sweep(step, H, shared=(M,))
    return H, sums


def check(given, X, M) -> None:
    """Assert that three generations, plain and through views, are those of the dense array."""
    w = np.linspace(0, 1, len(X))
    rows, dense = as_rows(given), as_rows(X)
    for view in (
        lambda rows: rows,
        lambda rows: Weighted(Centered(rows), w),
        lambda rows: Featurized(rows, features),
    ):
        H, (XtH, HtH) = run(view(rows), M)
        want, (want_XtH, want_HtH) = run(view(dense), M)
        np.testing.assert_allclose(rows.get(H), want, atol=1e-13)
        np.testing.assert_allclose(XtH, want_XtH, atol=1e-11)
        np.testing.assert_allclose(HtH, want_HtH, atol=1e-11)
    index = np.array([80, 3, 3, 41])
    np.testing.assert_array_equal(rows.take(index).whole().dense(), X[index])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_schedulers_of_one_process(scheduler, kind, X, M):
    with dask.config.set(scheduler=scheduler):
        check(KINDS[kind].make(X), X, M)


def test_the_scheduler_of_processes(X, M):
    with dask.config.set(scheduler="processes", num_workers=1):
        H, (XtH, _) = run(as_rows(KINDS["dask-sparse"].make(X)), M, generations=2)
    want, (want_XtH, _) = run(as_rows(X), M, generations=2)
    np.testing.assert_allclose(H.compute(scheduler="threads"), want, atol=1e-13)
    np.testing.assert_allclose(XtH, want_XtH, atol=1e-11)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster(kind, client, X, M):
    check(KINDS[kind].make(X), X, M)


def held(client) -> int:
    """Return how many tasks the scheduler holds, once it has heard of what was let go."""
    counts = []
    while len(counts) < 3 or len(set(counts[-3:])) > 1:
        time.sleep(0.02)
        counts.append(len(client.cluster.scheduler.tasks))
    return counts[-1]


def test_row_state_does_not_pile_up_in_a_cluster(client, X, M):
    rows = as_rows(da.from_array(X, chunks=(30, 6)))
    H = rows.put(np.zeros((len(X), 2)))
    after = {}
    for generation in range(1, 51):
        H, _ = rows.sweep(step, H, shared=(M,))
        if generation in (10, 50):
            after[generation] = held(client)
    # Three chunks and their copies: a single task kept of each generation would show.
    assert after[50] <= after[10]
    del H
    assert held(client) < after[50]


def test_row_state_does_not_pile_up_in_a_graph(X, M):
    rows = as_rows(da.from_array(X, chunks=(30, 6)))
    sizes = []
    with dask.config.set(scheduler="synchronous"):
        H = rows.put(np.zeros((len(X), 2)))
        for _ in range(50):
            H, _ = rows.sweep(step, H, shared=(M,))
            sizes.append(len(H.dask))
    assert sizes[-1] == sizes[0] <= 4 * 3


def test_row_results_are_not_computed_again(X):
    calls = []

    def f(X):
        calls.append(1)
        return X.sq()

    rows = as_rows(da.from_array(X, chunks=(30, 6)))
    norms = rows.map(f)
    assert isinstance(norms, da.Array)
    np.testing.assert_allclose(norms.compute(), (X**2).sum(axis=1))
    norms.compute()
    assert len(calls) == 3


def test_unknown_chunk_sizes(X, M):
    lazy = da.from_array(X, chunks=(30, 6))
    some = lazy[lazy[:, 0] > 0]
    assert np.isnan(some.shape[0])
    check_shape = X[X[:, 0] > 0]
    rows = as_rows(some)
    assert rows.shape == check_shape.shape
    np.testing.assert_allclose(rows.get(rows @ M), check_shape @ M, atol=1e-14)
    assert np.isnan(some.shape[0])  # the user's array is as it was


def test_aligned_dask_arrays_may_be_cut_otherwise(X):
    """By the user, in rows and in columns."""
    rows = as_rows(da.from_array(X, chunks=(30, 6)))
    H = np.arange(270.0).reshape(90, 3)
    np.testing.assert_allclose(rows.t(da.from_array(H, chunks=(7, 2))), X.T @ H)
    np.testing.assert_allclose(rows.t(da.from_array(H[:, 0], chunks=40)), X.T @ H[:, 0])


def test_many_chunks_are_merged_by_a_tree(rng):
    X = rng.standard_normal((280, 3))
    rows = as_rows(da.from_array(X, chunks=(4, 3)))  # 70 chunks: three levels
    with dask.config.set(scheduler="threads"):
        first, second = rows.gram(), rows.gram()
    np.testing.assert_allclose(first, X.T @ X, rtol=1e-12)
    np.testing.assert_array_equal(first, second)


@pytest.fixture
def frame(X):
    dd = pytest.importorskip("dask.dataframe", reason="dask's data frames need pyarrow")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    return dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")), npartitions=3)


@pytest.mark.parametrize("kind", ["numpy", "series", "array"])
def test_a_frame_of_partitions_of_unknown_length(kind, frame, X):
    some, kept = frame[frame.a != 0], X[:, 0] != 0
    y = frame.b.map_partitions(lambda b: (b > 0).astype(int))
    labels = (X[:, 1] > 0).astype(int)[kept]
    given = {"numpy": labels, "series": y[frame.a != 0], "array": da.from_array(labels, chunks=7)}[kind]
    with dask.config.set(scheduler="synchronous"):
        model = LDA().fit(some, given)
        Z = model.transform(some)
    expected = LDA().fit(X[kept], labels)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-10)
    np.testing.assert_allclose(Z.compute(scheduler="synchronous"), expected.transform(X[kept]), atol=1e-10)
    assert list(model.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[list("bacdef")])


def test_a_frame_with_words(frame):
    with pytest.raises(
        ValueError,
        match=r"Column 'g' of the Dask DataFrame holds (string|object) values, .*Recipe\(\) before it",
    ):
        as_rows(frame.assign(g="red"))


@pytest.mark.parametrize("kind", ["Float32", "Float64", "Int32", "boolean", "double[pyarrow]"])
def test_a_frame_of_numbers_with_a_mask(kind, X):
    dd = pytest.importorskip("dask.dataframe", reason="dask's data frames need pyarrow")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pd.DataFrame(np.rint(X) > 0 if kind == "boolean" else np.rint(X), columns=list("abcdef")).astype(
        kind
    )
    with dask.config.set(scheduler="synchronous"):
        rows = as_rows(dd.from_pandas(table, npartitions=3))
        assert rows.dtype == (np.float32 if kind == "Float32" else np.float64)
        np.testing.assert_allclose(rows.mean(), table.to_numpy(float).mean(axis=0), rtol=1e-6)
        table.iloc[41, 2] = None
        with pytest.raises(ValueError, match="NaN at row 41, column 2"):
            as_rows(dd.from_pandas(table, npartitions=3)).mean()


@pytest.mark.parametrize("kind", ["bag", "delayed"])
def test_what_has_no_rows_and_columns(kind):
    given = dask.delayed(np.ones((3, 2)))
    if kind == "bag":
        given = pytest.importorskip("dask.bag").from_sequence([1, 2])
    with pytest.raises(
        TypeError, match=r"X is a Dask \w+, where a Dask array or DataFrame is expected; convert it"
    ):
        as_rows(given)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_chunks_of_unknown_length_of_some_columns_in_half_precision(method, X):
    """And labels on Dask, with other chunks."""
    X = np.abs(X + 0.1).astype(np.float16)
    y = np.where(np.arange(90) % 3 == 0, -1, (X[:, 1] > X[:, 2]).astype(int))
    lazy, kept = da.from_array(X, chunks=(30, 4)), X[:, 0] > 0.2
    some, labels = lazy[lazy[:, 0] > 0.2], da.from_array(y[kept], chunks=17)
    assert np.isnan(some.shape[0])
    # As float32 in memory too, which is what half precision is computed in.
    whole = X[kept].astype(np.float32)
    with dask.config.set(scheduler="synchronous"):
        model, expected = clone(method).fit(some, labels), clone(method).fit(whole, y[kept])
        for name in ("transform", "predict"):
            if hasattr(model, name):
                found = np.asarray(getattr(model, name)(some))
                want = np.asarray(getattr(expected, name)(whole))
                close = np.isclose(np.abs(found), np.abs(want), rtol=1e-3, atol=1e-3)
                assert close.mean() > 0.97  # a row may be on the border of two classes


def test_an_unknown_number_of_columns(X):
    lazy = da.from_array(X, chunks=(30, 6))
    some = lazy.T[lazy.T[:, 0] != 0].T
    assert np.isnan(some.shape[1])
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_allclose(as_rows(some).mean(), X[:, X[0] != 0].mean(axis=0))


def test_a_scheduler_chosen_beside_a_cluster(client, X, M):
    """The user's choice counts, though a client exists."""
    with dask.config.set(scheduler="threads"):
        check(KINDS["dask"].make(X), X, M)
