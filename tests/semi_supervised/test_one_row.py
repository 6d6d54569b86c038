"""Predictions of one row: those of the row among others, without threads, and with each constant computed once."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import threadpoolctl
from scipy import sparse

import labelfold
from labelfold import LabelFold
from labelfold.semi_supervised._blend import BlendedScores


def table(rng):
    return rng.standard_normal((240, 12)) + 2 * (np.arange(240) % 3)[:, None] * (np.arange(12) < 4)


def text(rng):
    topic = np.arange(240) % 3
    rate = 0.02 + 0.3 * (np.arange(600)[None] // 200 == topic[:, None])
    return sparse.csr_array(rng.poisson(rate * 0.3).astype(float))


@pytest.fixture(params=[table, text], ids=["table", "text"])
def case(request, rng):
    X = request.param(rng)
    return X, LabelFold().fit(X, np.where(np.arange(240) % 5 == 0, np.arange(240) % 3, -1))


def test_a_row_is_predicted_as_among_others(case, tmp_path):
    X, fold = case
    expected, Z = fold.decision_function(X), fold.transform(X)
    loaded = labelfold.load(labelfold.save(fold, tmp_path / "fold.skops"))
    for model in (fold, loaded):
        alone = np.vstack([model.decision_function(X[i : i + 1]) for i in range(X.shape[0])])
        np.testing.assert_allclose(alone, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(model.transform(X[7:8]), Z[7:8], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(model.predict(X[7:8]), fold.predict(X)[7:8])


def test_a_row_is_scored_once_and_in_one_thread(case, monkeypatch):
    X, fold = case
    rows_scored, blas_threads = [], []
    score = BlendedScores.__call__

    def watched(self, X):
        rows_scored.append(X.shape[0])
        blas = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
        blas_threads.extend(pool["num_threads"] for pool in blas)
        return score(self, X)

    def no_thread(*_, **__):
        raise AssertionError("a thread for one row")

    monkeypatch.setattr(BlendedScores, "__call__", watched)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", no_thread)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        fold.predict(X[:1])
        fold.transform(X[:1])
    assert rows_scored == [1, 1]
    assert set(blas_threads) == {1}


def test_what_is_computed_once_is_kept_with_the_model_and_not_saved(case):
    X, fold = case
    size = len(pickle.dumps(fold))
    kept = []
    for part in ([fold._scores.trees] if fold._scores.trees else []) + [
        item
        for score in fold._scores.forms
        for item in (*score.kernels, *(space.anchors for space in score.map.spaces.values()))
    ]:
        before = set(vars(part))
        fold.predict(X[:1])
        computed = set(vars(part)) - before or {"_steps", "_distances", "_squares"} & before
        assert len(computed) == 1
        kept += [(part, name, getattr(part, name)) for name in computed]
    fold.predict(X[1:3])
    assert all(getattr(part, name) is value for part, name, value in kept)
    assert len(pickle.dumps(fold)) == size
