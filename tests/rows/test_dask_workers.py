"""Dask's workers: how many tasks a pass takes, and what is lost with a worker."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading

import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

from labelfold import LDA, SSNMF, LabelFold, Recipe  # noqa: E402
from labelfold.rows import as_rows  # noqa: E402
from labelfold.rows.adapters import _dask_workers  # noqa: E402
from labelfold.rows.adapters._dask import _ROW_STATE, DaskRows  # noqa: E402
from labelfold.rows.adapters._local import all_finite, dense_block_rows  # noqa: E402

QUIET = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}


@pytest.fixture(scope="module")
def client():
    """Two workers in this process."""
    with (
        distributed.LocalCluster(n_workers=2, processes=False, **QUIET) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def processes():
    """Two workers in processes of their own."""
    with (
        distributed.LocalCluster(n_workers=2, memory_limit=0, **QUIET) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def made(part, block_info=None):
    rng = np.random.default_rng(block_info[0]["chunk-location"][0])
    return np.abs(rng.standard_normal(part.shape)) + 0.1


def persisted(client, n=1200, chunks=12):
    X = client.persist(da.zeros((n, 6), chunks=(n // chunks, 6)).map_blocks(made, dtype=float))
    distributed.wait(X)
    return X


def step(X, H, M):
    H = 0.5 * H + X @ M
    return H, (X.t(H), H.T @ H)


def generations(rows, times, lose=lambda generation, H: None):
    H = rows.put(np.zeros((rows.shape[0], 2)))
    M = np.arange(12.0).reshape(6, 2)
    for generation in range(times):
        lose(generation, H)
        H, sums = rows.sweep(step, H, shared=(M / (generation + 1),))
    return rows.get(H), sums


def parts(H):
    return H.__dict__[_ROW_STATE].parts


def test_a_pass_is_one_task_for_each_worker(client):
    """Not one for each chunk; a scheduler needs about a millisecond for a task."""
    rows = as_rows(persisted(client))
    places = client.who_has(rows._tasks.chunks)
    assert len(rows._groups) == 2
    for group in rows._groups:
        assert all(group.worker in places[rows._tasks.chunks[i].key] for i in group.members)
    assert sorted(i for group in rows._groups for i in group.members) == list(range(12))
    np.testing.assert_allclose(rows.mean(), rows.X.mean(axis=0).compute())


def test_results_are_on_the_workers_of_their_rows(client):
    """Left to Dask, a task for each chunk runs on any worker, and row results of all its chunks are copied there."""
    X = persisted(client)
    y = (X[:, 0] > X[:, 1]).compute().astype(int)
    Z = client.persist(LDA().fit(X, y).transform(X))
    distributed.wait(Z)
    places = client.who_has([*distributed.futures_of(X), *distributed.futures_of(Z)])
    for i in range(12):
        assert places[(Z.name, i, 0)] == places[(X.name, i, 0)]
    assert as_rows(Z).resident


@pytest.mark.parametrize(("name", "messages"), [("product", 1), ("norms", 2)])
def test_row_results_are_cut_by_tasks_that_travel_with_the_pass(name, messages, client, monkeypatch):
    """A second message waits for the first results; it is needed only for results of one dimension."""
    sent, together = [], _dask_workers.PlacedTasks.together
    monkeypatch.setattr(
        _dask_workers.PlacedTasks, "together", lambda self, start: sent.append(1) or together(self, start)
    )
    X = persisted(client)
    rows, M = as_rows(X), np.arange(12.0).reshape(6, 2)
    found = rows @ M if name == "product" else rows.map(_norms)
    assert len(sent) == messages
    assert set(distributed.futures_of(found)) == set(found.dask.values())
    own = X.compute()
    np.testing.assert_allclose(found.compute(), own @ M if name == "product" else (own**2).sum(axis=1))


def _norms(X):
    return X.sq()


def test_copies_of_chunks_are_used_evenly(client):
    first, second = sorted(client.scheduler_info()["workers"])
    parts = client.scatter([np.full((50, 3), float(i)) for i in range(16)], workers=[first], hash=False)
    client.replicate(parts[:8], n=2)
    groups = _dask_workers.PlacedTasks(parts, client).groups(np.full(16, 50), 24.0)
    assert {group.worker: len(group.members) for group in groups} == {first: 8, second: 8}
    assert all(i < 8 for group in groups if group.worker == second for i in group.members)


def test_chunks_that_are_not_in_memory_are_not_loaded_together(client):
    rows = as_rows(da.zeros((1200, 6), chunks=(100, 6)).map_blocks(made, dtype=float))
    assert len(rows._groups) == 12


@pytest.mark.parametrize("at", [2, 14], ids=["before a copy", "after a copy"])
def test_row_state_that_is_lost_is_computed_again(at, client, monkeypatch):
    """From the last copies, so at most as many passes are repeated as lie between copies, for the lost rows alone."""
    X = persisted(client)
    want, want_sums = generations(as_rows(X), at + 3)
    again, ran = [], _dask_workers.Step.recomputed
    monkeypatch.setattr(
        _dask_workers.Step, "recomputed", lambda self, g, done: again.append(g) or ran(self, g, done)
    )

    def lose(generation, H):
        if generation == at:
            client.cancel(parts(H)[1:], force=True)

    found, sums = generations(as_rows(X), at + 3, lose)
    assert set(again) == {1}
    assert len(again) <= _dask_workers.COPY_EVERY
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(sums[0], want_sums[0])


@pytest.mark.parametrize("width", [2, 100_000])
def test_small_values_travel_with_the_tasks(width, client, monkeypatch):
    """A scattered value takes two round trips, but goes to each worker once, whatever its number of threads."""
    sent, scatter = [], client.scatter
    monkeypatch.setattr(
        client, "scatter", lambda value, **options: sent.append(1) or scatter(value, **options)
    )
    rows = as_rows(persisted(client))
    M = np.ones((6, width))
    np.testing.assert_allclose(
        rows.sum(squares, shared=(M,)), width * (rows.X.compute().sum(axis=1) ** 2).sum()
    )
    assert len(sent) == (6 * width * 8 > _dask_workers._WITH_TASKS)


def squares(X, M):
    return ((X @ M) ** 2).sum()


def test_row_state_is_not_computed_again_from_the_first_generation(client):
    """The scheduler keeps no more tasks for many generations than for few."""
    rows, held = as_rows(persisted(client)), []
    for times in (2, 12):
        H = rows.put(np.zeros((rows.shape[0], 2)))
        for _ in range(times):
            H, _ = rows.sweep(step, H, shared=(np.ones((6, 2)),))
        client.sync(asyncio.sleep, 0.3)
        held.append(len(client.cluster.scheduler.tasks))
        del H
    assert held[1] <= held[0] + 2  # copies


def test_only_rows_that_are_taken_are_checked(client):
    X = client.persist(da.zeros((400, 3), chunks=(100, 3)).map_blocks(spoilt, dtype=float))
    rows = as_rows(X)
    np.testing.assert_array_equal(rows.take(np.array([205, 1])).whole().raw, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="X contains NaN at row 207, column 1 "):
        rows.take(np.array([1, 207]))
    with pytest.raises(ValueError, match="X contains NaN at row 207, column 1 "):
        rows.mean()


def test_values_are_checked_block_by_block(client):
    """The row is counted over all blocks of a chunk, and over all chunks."""
    wide = da.zeros((12_000, 200), chunks=(6_000, 200)).map_blocks(spoilt_late, dtype=float)
    assert dense_block_rows(200 * 8) < 5_000
    with pytest.raises(ValueError, match="X contains NaN at row 11000, column 1 "):
        as_rows(client.persist(wide)).mean()


def spoilt_late(part, block_info=None):
    part = part.copy()
    part[5_000, 1] = np.nan if block_info[0]["chunk-location"][0] == 1 else 0
    return part


def spoilt(part, block_info=None):
    part = part.copy()
    if block_info[0]["chunk-location"][0] == 2:
        part[7, 1] = np.nan
    return part


def test_results_are_checked_where_they_are_made(client, monkeypatch):
    """A second look at them would take a task for each chunk, and the client would wait for it."""
    rows = as_rows(persisted(client))
    found = rows.map(over, shared=(1.0,))
    with monkeypatch.context() as patch:
        patch.setattr(da.Array, "compute", None)
        assert all_finite(found)
        assert all_finite(rows.result(found, np.sqrt))
    assert not all_finite(rows.map(over, shared=(0.0,)))
    assert not all_finite(rows.result(found, infinite))
    assert not all_finite(found + np.inf)
    found[3] = np.inf
    assert not all_finite(found)


def over(X, by):
    return (X @ np.zeros((6, 1))) / by  # 0, or NaN


def infinite(part):
    return np.full_like(part, np.inf)


def test_passes_over_rows_in_the_workers_memory_are_those_over_rows_in_memory(client):
    """Rows that each pass reads again get a preconditioner first, which takes a pass and saves others."""
    X = persisted(client)
    y = (X[:, 0] > X[:, 1]).compute().astype(int)
    passes = {}
    for name, rows in {
        "numpy": as_rows(X.compute()),
        "held": as_rows(X),
        "lazy": as_rows(X.map_blocks(np.negative)),
    }.items():
        LDA(max_gram_bytes=0, tol=1e-4).fit(rows, y)
        passes[name] = rows.n_passes
        assert rows.resident == (name != "lazy")
    assert passes["held"] == passes["numpy"]


def test_rows_that_cannot_be_computed_again(client):
    held = client.scatter([np.ones((50, 3)), np.eye(50, 3)])
    X = da.concatenate([da.from_delayed(part, (50, 3), dtype=float) for part in held])
    rows = as_rows(X)
    np.testing.assert_allclose(rows.mean(), [0.51, 0.51, 0.51])
    client.cancel(held[:1], force=True)
    with pytest.raises(RuntimeError, match=r"^rows of X were lost with a Dask worker .*; persist an array"):
        rows.mean()


@pytest.mark.filterwarnings("ignore:SSNMF stopped")
@pytest.mark.parametrize(
    ("model", "at", "learned"),
    [
        (SSNMF(2, max_iter=14, tol=0), 12, lambda model: model.components_),
        (LabelFold(n_anchors=50), 14, lambda model: np.asarray(model.embedding_)),
    ],
    ids=["SSNMF", "LabelFold"],
)
@pytest.mark.filterwarnings("ignore")
def test_a_worker_killed_in_mid_fit(model, at, learned, processes, monkeypatch):
    """By the system, with a part of the rows and of the row state: the answer is the same."""
    with processes.as_current():
        X = persisted(processes, 6000)
        y = np.where(np.arange(6000) % 60, -1, np.arange(6000) // 60 % 3)
        want = learned(model.fit(X, y))
        victim = max(processes.run(os.getpid).values())
        passes, sweep = [], DaskRows.sweep

        def killing(self, *args, **options):
            passes.append(1)
            if len(passes) == at:
                threading.Timer(0.005, os.kill, (victim, signal.SIGKILL)).start()
            return sweep(self, *args, **options)

        monkeypatch.setattr(DaskRows, "sweep", killing)
        found = learned(model.fit(X, y))
        assert len(passes) > at
        assert victim not in processes.run(os.getpid).values()
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_rows_of_a_client_that_is_closed(kind):
    with (
        distributed.LocalCluster(n_workers=1, processes=False, **QUIET) as cluster,
        distributed.Client(cluster) as client,
    ):
        X = persisted(client, 40, 4)
        if kind == "frame":
            dd = pytest.importorskip("dask.dataframe", reason="dask's data frames need pyarrow")
            X = client.persist(dd.from_dask_array(X, columns=list("abcdef")))
    sentence = "X is in the memory of Dask workers whose client, or cluster, is closed; connect a client"
    for method in (LDA(), Recipe()):
        with pytest.raises(RuntimeError, match=sentence):
            method.fit(X, np.arange(40) % 2)


def hide():
    sys.modules["labelfold"] = None  # as if it were not installed


def test_a_worker_without_labelfold(processes):
    processes.restart()  # each worker is asked once
    with processes.as_current():
        X = persisted(processes, 120)
        one = min(processes.nthreads())
        processes.run(hide, workers=[one])
        for _ in range(2):
            with pytest.raises(
                RuntimeError, match=f"worker {one} cannot import labelfold .*; install labelfold there"
            ):
                LDA().fit(X, np.arange(120) % 2)
            with pytest.raises(RuntimeError, match=f"worker {one} cannot import labelfold"):
                Recipe().fit(X)
