"""Fixtures for every test, and the option that runs the long ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

# scikit-learn's check of array-API input runs only where SciPy was told to expect it, before it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# Test processes share the cores: with threads of their own in each, the linear algebra would mostly wait.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, share)))

import numpy as np
import pytest
from hypothesis import settings

from containers import Container, one_each

# The same examples every time; others with --hypothesis-profile=explore.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser):
    parser.addoption("--run-slow", action="store_true", help="also run the tests marked slow")


# Files with tests of ten seconds or more. They come first, so that no process is left with one of them at the end.
_LONG = ("test_campaign_faults.py", "test_label_command.py", "test_memory.py")


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.path.name not in _LONG)
    if config.getoption("--run-slow"):
        return
    skip = pytest.mark.skip(reason="takes long or writes gigabytes; run with --run-slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(params=one_each())
def container(request, tmp_path) -> Container:
    """One container of each adapter in turn: ``container.make(X)`` holds a dense X in it.

    An algorithm sees rows and never asks what holds them, so one container an adapter tells whether it keeps to
    that. ``tests/rows`` overrides this fixture with every container there is.
    """
    return request.param.within(tmp_path)


@pytest.fixture(autouse=True)
def _seeded():
    """Estimators that were given no ``random_state`` draw from NumPy's global generator: seed it for every test."""
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture
def rng() -> np.random.Generator:
    """A seeded generator, the same for every test."""
    return np.random.default_rng(0)


@pytest.fixture
def many_blocks(monkeypatch):
    """Make blocks so small that little data has many of them, in three threads."""
    monkeypatch.setenv("LABELFOLD_NUM_THREADS", "3")
    monkeypatch.setattr("labelfold.rows._blocks.DENSE_BYTES", 1)
    monkeypatch.setattr("labelfold.rows._blocks.DENSE_ROWS", 7)
    monkeypatch.setattr("labelfold.rows.adapters._local.SPARSE_BYTES", 64)
    monkeypatch.setattr("labelfold.rows.adapters._local.SPARSE_ROWS", 7)
    monkeypatch.setattr("labelfold.rows.adapters._stream.BESIDE", 1)
    monkeypatch.setattr("labelfold.rows.adapters._device.DEVICE_BYTES", 300)


@pytest.fixture
def compiled_kernels(monkeypatch):
    """Use the compiled kernels for sparse products of any size."""
    monkeypatch.setattr("labelfold.rows._sums._SMALL_PRODUCT", 0)


@pytest.fixture
def ctrl_c() -> Iterator[Callable[[], None]]:
    """Press Ctrl-C: a call sends this process the signal.

    What starts the tests may have told them to ignore it, as nohup and a script's background do: during the test the
    signal raises KeyboardInterrupt as it does at a terminal, in processes that the test starts too.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield partial(signal.raise_signal, signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@contextmanager
def tuned_quickly() -> Iterator[None]:
    """Choose among two candidates, by two folds that are drawn once.

    A method in a comparison makes some fifty small fits to choose its penalty. Where that choice is not what is
    tested, four show as much. `tests/app/test_registry.py` tests it in full.
    """
    from labelfold.app.registry import _tuned

    splits, candidates = _tuned.left_out_splits, _tuned.Tuned._candidates
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_tuned, "_FEW", 0)
        patched.setattr(_tuned, "left_out_splits", lambda known, cv, *rest: splits(known, min(cv, 2), *rest))
        patched.setattr(_tuned.Tuned, "_candidates", lambda self, X, labels: candidates(self, X, labels)[:2])
        yield


@pytest.fixture(scope="module")
def quick_tuning() -> Iterator[None]:
    """Tune quickly in all tests of a file."""
    with tuned_quickly():
        yield


@pytest.fixture(scope="module")
def quick_comparisons(quick_tuning) -> Iterator[None]:
    """Tune quickly and compare by three folds, rather than by five or ten, in all tests of a file.

    `tests/app/compare/test_runner.py` compares with all folds.
    """
    from labelfold.app.compare import _held_out

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_held_out, "_FOLDS", 3)
        patched.setattr(_held_out, "_MORE_FOLDS", 3)
        yield


@pytest.fixture
def quick_tuning_here() -> Iterator[None]:
    """Tune quickly in one test."""
    with tuned_quickly():
        yield
