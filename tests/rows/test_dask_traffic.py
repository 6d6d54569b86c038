"""Bytes that a fit on a Dask array moves: as many for few rows as for many."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

from distributed.comm.tcp import TCP  # noqa: E402

from labelfold import (  # noqa: E402
    CNMF,
    DRSVM,
    KLNMF,
    LDA,
    LSDR,
    PCALS,
    SSDR,
    SSNMF,
    LabelFold,
    NMFAlpha,
    Recipe,
)
from labelfold.factorization import _klnmf as _starts  # noqa: E402
from labelfold.rows import _threads as threads  # noqa: E402
from labelfold.tables import _recipe  # noqa: E402

FEW, MANY, D = 4_000, 240_000, 6

METHODS = [
    LDA(),
    DRSVM(2, max_iter=3),
    KLNMF(2, max_iter=3),
    CNMF(2, max_iter=3),
]
SLOWER = [
    PCALS(2),
    PCALS(2, max_gram_bytes=0),
    SSDR(2),
    DRSVM(2, max_iter=3, nonnegative=True),
    LSDR(2, max_iter=3, max_gram_bytes=0),
    SSNMF(2, max_iter=3, init="nndsvda"),
    NMFAlpha(2, max_iter=3),
]
METHODS += [pytest.param(method, marks=pytest.mark.slow) for method in SLOWER]


@pytest.fixture(scope="module")
def moved():
    """Bytes sent so far to and from the scheduler of a cluster that talks over sockets."""
    sent = [0]
    write, address = TCP.write, []

    async def counted(self, *args, **kwargs):
        n_bytes = await write(self, *args, **kwargs)
        if address and address[0] in (self.local_address, self.peer_address):
            sent[0] += n_bytes or 0
        return n_bytes

    TCP.write = counted
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "protocol": "tcp://"}
    try:
        with (
            distributed.LocalCluster(**options, dashboard_address=None) as cluster,
            distributed.Client(cluster),
        ):
            address.append(cluster.scheduler_address)
            yield sent
    finally:
        TCP.write = write


@pytest.fixture(scope="module")
def tables(moved):
    """Rows made on the workers, and labels of a few."""
    return {n: (made(n), labels(n)) for n in (FEW, MANY)}


def made(n):
    def chunk(part, block_info=None):
        rng = np.random.default_rng(block_info[0]["chunk-location"][0])
        return np.abs(rng.standard_normal(part.shape)) + 0.1

    X = da.zeros((n, D), chunks=(n // 4, D)).map_blocks(chunk, dtype=float).persist()
    distributed.wait(X)
    return X


def labels(n):
    y = np.full(n, -1)
    y[:: n // 50] = np.arange(50) % 3
    return y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_fit_and_a_transform_move_nothing_of_the_size_of_the_rows(method, moved, tables, monkeypatch):
    monkeypatch.setattr(_starts, "_SAMPLE", 100)
    monkeypatch.setattr(threads, "_PIECE", 1000)
    of_fit, of_transform = {}, {}
    for n, (X, y) in tables.items():
        before = moved[0]
        method.fit(X, y)
        fitted = moved[0]
        distributed.wait(method.transform(X).persist())
        of_fit[n], of_transform[n] = fitted - before, moved[0] - fitted
    for bytes_of in (of_fit, of_transform):
        assert bytes_of[FEW] > 1000  # they are counted
        # A byte for each further row would be seen.
        assert bytes_of[MANY] - bytes_of[FEW] < 0.5 * (MANY - FEW) + 0.3 * bytes_of[FEW]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", [DRSVM(2, max_iter=3), LSDR(2, max_iter=3)], ids=str)
def test_what_is_kept_of_the_rows_stays_on_the_workers(method, tables):
    X, y = tables[FEW]
    method.fit(X, y)
    assert isinstance(method.embedding_, da.Array)
    assert method.embedding_.chunks[0] == X.chunks[0]
    expected = type(method)(**method.get_params()).fit(X.compute(), y)
    np.testing.assert_allclose(method.embedding_.compute(), expected.embedding_, rtol=1e-6, atol=1e-8)
    if hasattr(method, "transduction_"):
        np.testing.assert_array_equal(method.transduction_.compute(), expected.transduction_)
    kept = pickle.loads(pickle.dumps(method))
    assert isinstance(kept.embedding_, np.ndarray)
    np.testing.assert_array_equal(kept.embedding_, method.embedding_.compute())


def some_cells(start, n):
    import pandas as pd

    rng = np.random.default_rng(start)
    days = pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    return pd.DataFrame(
        {
            "number": rng.standard_normal(n),
            "city": rng.choice(["Paris", "Rome", "Oslo"], n),
            "since": pd.to_datetime("2020-01-01") + days,
        }
    )


@pytest.mark.filterwarnings("ignore:.*never saw")
def test_a_recipe_moves_a_sample_and_counts(moved, monkeypatch):
    dd = pytest.importorskip("dask.dataframe", reason="dask's data frames need pyarrow")
    monkeypatch.setattr(_recipe, "LEARNED_FROM", 500)
    monkeypatch.setattr(_recipe, "LABELLED", 100)
    of_fit, of_transform = {}, {}
    for n in (FEW, MANY):
        table = dd.from_map(some_cells, range(4), n=n // 4).persist()
        distributed.wait(table)
        before = moved[0]
        recipe = Recipe().fit(table, labels(n))
        fitted = moved[0]
        Z = recipe.transform(table.assign(city="Bern")).persist()
        distributed.wait(Z)
        assert Z.shape[0] == n
        of_fit[n], of_transform[n] = fitted - before, moved[0] - fitted
    for bytes_of in (of_fit, of_transform):
        assert bytes_of[FEW] > 1000
        assert bytes_of[MANY] - bytes_of[FEW] < 0.1 * (MANY - FEW) + 0.3 * bytes_of[FEW]


@pytest.mark.filterwarnings("ignore")
def test_label_fold_moves_nothing_of_the_size_of_the_rows(moved):
    few, many = 12_000, 60_000  # anchors are means of a sample, which the fewer rows are more than
    of_calls = {}
    for n in (few, many):
        X, y, fold, counts = made(n), labels(n), LabelFold(n_anchors=50), []
        calls = (
            lambda X=X, y=y, fold=fold: fold.fit(X, y).embedding_,
            lambda fold=fold: fold.transduction_,
            lambda X=X, fold=fold: fold.transform(X),
            lambda X=X, fold=fold: fold.predict(X),
            lambda X=X, fold=fold: fold.predict_proba(X),
            lambda y=y, fold=fold: fold.refit(np.where(y == 0, 1, y)).label_distributions_,
        )
        for call in calls:
            before, made_rows = moved[0], call()
            assert isinstance(made_rows, da.Array)
            assert made_rows.chunks[0] == X.chunks[0]
            distributed.wait(made_rows.persist())
            counts.append(moved[0] - before)
        of_calls[n] = counts
    for small, large in zip(of_calls[few], of_calls[many], strict=True):
        assert large - small < 0.5 * (many - few) + 0.3 * small


@pytest.mark.filterwarnings("ignore")
def test_label_fold_on_workers_is_that_of_memory(moved):
    X, y = made(FEW), labels(FEW)
    there, here = LabelFold(n_anchors=100).fit(X, y), LabelFold(n_anchors=100).fit(X.compute(), y)
    np.testing.assert_allclose(there.embedding_.compute(), here.embedding_, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(there.transduction_.compute(), here.transduction_)
    np.testing.assert_allclose(there.predict_proba(X).compute(), here.predict_proba(X.compute()), atol=1e-8)
    kept = pickle.loads(pickle.dumps(there))
    np.testing.assert_array_equal(kept.predict(X.compute()), here.transduction_)
