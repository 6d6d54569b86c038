"""What must hold of every case: a sentence or a finite result, and what follows from it."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from inputs import Case
from scipy import sparse
from threadpoolctl import threadpool_limits

import labelfold

# Their start is random, or depends on the order of rows: a permutation gives another local minimum.
ORDERED = ("DRSVM", "LSDR", "NSDR", "KLNMF", "NMFAlpha", "SSNMF", "CNMF", "TSVM", "LabelFold", "LapRLS")


def check(case: Case) -> str:
    """Return "sentence" or "result"; raise AssertionError, or what the estimator raised, where something is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _check(case)


def _check(case: Case) -> str:
    before = _bytes(case.X), case.y.copy()
    try:
        model = case.make().fit(case.X, case.y)
    except np.linalg.LinAlgError:
        raise
    except (ValueError, TypeError) as error:
        said = str(error)
        assert 0 < len(said.strip()) < 1000, f"no sentence: {said!r}"
        return "sentence"
    assert _bytes(case.X) == before[0], "fit changed X"
    pairs = zip(case.y.ravel(), before[1].ravel(), strict=True)
    assert all(a is b or a == b or a != a for a, b in pairs), "fit changed y"
    shown = _shown(model, case.X)
    for what, values in shown.items():
        assert np.isfinite(values).all(), f"{what} is not finite"
    _known_classes(model, case.X)
    _never_rises(model)
    _same(_shown(case.make().fit(case.X, case.y), case.X), shown, "fitted twice", exact=True)
    _one_by_one(model, case, shown)
    _saved(model, case, shown)
    if case.calm:
        _containers_threads_order(case, shown)
    return "result"


def _bytes(X: Any) -> bytes:
    parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def _shown(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Return what a fitted model says of rows, in numbers."""
    made = {}
    for what in ("transform", "decision_function", "predict_proba"):
        if hasattr(model, what):
            made[what] = np.asarray(getattr(model, what)(X), dtype=float)
    if hasattr(model, "predict") and not hasattr(model, "classes_"):
        made["predict"] = np.asarray(model.predict(X), dtype=float)
    return made


def _known_classes(model: Any, X: Any) -> None:
    if hasattr(model, "predict") and hasattr(model, "classes_"):
        said = np.asarray(model.predict(X))
        known = set(np.asarray(model.classes_).tolist()) if said.ndim == 1 else {0, 1}
        assert set(np.unique(said.astype(object)).tolist()) <= known, "a class that was never given"


def _never_rises(model: Any) -> None:
    """Check the objective of methods that minimise one; those of stages and of directions have tests of their own."""
    values = getattr(model, "objective_", None)
    if not isinstance(values, np.ndarray) or values.ndim != 1 or not hasattr(model, "n_iter_"):
        return
    if type(model).__name__ in ("PCALS", "KernelPCALS"):
        return
    room = 1e-7 * np.abs(values).max(initial=1e-300)
    assert (np.diff(values) <= room).all(), f"the objective rises by {np.diff(values).max():g}"


def _one_by_one(model: Any, case: Case, shown: dict[str, np.ndarray]) -> None:
    some = range(0, case.X.shape[0], max(case.X.shape[0] // 3, 1))
    for what, values in shown.items():
        alone = np.concatenate(
            [np.asarray(getattr(model, what)(case.X[i : i + 1]), dtype=float) for i in some]
        )
        _close(alone, values[list(some)], 1e-5 if case.X.dtype == np.float64 else 1e-2, f"{what}, row by row")


def _saved(model: Any, case: Case, shown: dict[str, np.ndarray]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = labelfold.save(model, Path(folder) / "m.skops")
        _same(_shown(labelfold.load(path), case.X), shown, "saved and loaded", exact=True)


def _containers_threads_order(case: Case, shown: dict[str, np.ndarray]) -> None:
    X = case.X.toarray() if sparse.issparse(case.X) else case.X
    for what, rows in {"C order": np.ascontiguousarray(X), "CSR": sparse.csr_array(X)}.items():
        _same(_shown(case.make().fit(rows, case.y), case.X), shown, what)
    with threadpool_limits(1):
        _same(_shown(case.make().fit(case.X, case.y), case.X), shown, "one thread")
    if case.name not in ORDERED:
        order = np.random.default_rng(0).permutation(len(X))
        _same(_shown(case.make().fit(X[order], case.y[order]), case.X), shown, "rows in another order")


def _same(found: dict[str, np.ndarray], shown: dict[str, np.ndarray], what: str, exact: bool = False) -> None:
    assert found.keys() == shown.keys(), f"{what}: other outputs"
    for name, values in shown.items():
        _close(found[name], values, 0.0 if exact else 1e-4, f"{what}: {name}")


def _close(a: np.ndarray, b: np.ndarray, tolerance: float, what: str) -> None:
    """Compare, with directions of an embedding free to point the other way."""
    if a.ndim == 2 and what.endswith("transform"):
        a = a * np.where((a * b).sum(axis=0) < 0, -1.0, 1.0)
    assert a.shape == b.shape, f"{what} has another shape"
    away = np.abs(a - b).max(initial=0.0)
    assert away <= tolerance * np.abs(b).max(initial=1e-300), f"{what} differs by {away:g}"
