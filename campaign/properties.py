"""The properties of every case: a sentence or a finite result, and its consistency."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from inputs import Case
from matrices import stored
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from targets import plain
from tools import ToolCase

import labelfold
from labelfold.rows.adapters._device_blocks import to_host

# Methods whose initial values are random or depend on the order of the rows, or which split or cluster rows in that
# order. A permutation may give another local minimum.
ORDERED = ("DRSVM", "LSDR", "NSDR", "KLNMF", "NMFAlpha", "SSNMF", "CNMF", "TSVM", "LabelFold")
# Methods whose objective values belong to directions found one after the other, not to iterations of one descent.
NO_DESCENT = ("PCALS", "KernelPCALS")
# If components are linearly dependent (more of them than columns, or than different columns), coordinates of a row
# are not unique.
NOT_UNIQUE = ("KLNMF", "NMFAlpha", "SSNMF", "CNMF")
# Methods whose embedding of a row has, up to 1e-5 of the row's sum, the least divergence. By Pinsker's inequality two
# such embeddings reconstruct the row to within 2 * sqrt(2e-5) of its sum, about 0.01. Their coordinates may differ by
# more.
BY_DIVERGENCE = ("KLNMF", "NMFAlpha")
# Modules of scikit-learn's validation, whose messages are accepted as sentences.
_VALIDATION = tuple(
    str(Path("sklearn") / "utils" / name) for name in ("validation.py", "_param_validation.py")
)
_HOUSE = str(Path(labelfold.__file__).parent)
_WARNINGS = (UserWarning, ConvergenceWarning, DataConversionWarning)
_SMALL_BLOCKS = {
    "labelfold.rows._blocks.DENSE_BYTES": 1,
    "labelfold.rows._blocks.DENSE_ROWS": 7,
    "labelfold.rows.adapters._local.SPARSE_BYTES": 64,
    "labelfold.rows.adapters._local.SPARSE_ROWS": 7,
    "labelfold.rows.adapters._stream.BESIDE": 1,
}

Shown = dict[str, np.ndarray]


def check(case: Case | ToolCase) -> str:
    """Return "sentence" or "result"; raise AssertionError, or the error of the estimator, for a failure."""
    with tempfile.TemporaryDirectory() as folder, _quiet(Path(folder)) as seen:
        try:
            if isinstance(case, ToolCase):
                case.run()
            else:
                _check(case, Path(folder), seen)
        except Refused:
            return "sentence"
        except AssertionError as error:
            raise AssertionError(f"{error} [{case!r}]") from error
        except Exception as error:
            error.add_note(repr(case))
            _must_be_a_sentence(error)
            return "sentence"
    return "result"


class Refused(Exception):
    """The estimator has refused the input with a sentence."""


@contextlib.contextmanager
def _quiet(folder: Path) -> Iterator[list[warnings.WarningMessage]]:
    """Fail if anything is written to the terminal, also by compiled code, or if a warning is not a sentence."""
    said = folder / "terminal"
    sys.stdout.flush()
    with said.open("wb") as file:
        kept = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                yield seen
        finally:
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)
    text = said.read_text(errors="replace")
    assert not text or "compiles its loops" in text, f"written to the terminal: {text[:200]}"
    for one in seen:
        assert issubclass(one.category, _WARNINGS), (
            f"{one.category.__name__} from {one.filename}:{one.lineno}: {one.message}"
        )


def _must_be_a_sentence(error: Exception) -> None:
    """Raise an error again unless labelfold or scikit-learn's validation raised it on purpose."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    on_purpose = last.filename.endswith(_VALIDATION) or (
        last.filename.startswith(_HOUSE) and line.startswith("raise")
    )
    if not (on_purpose and isinstance(error, ValueError | TypeError)):
        raise error
    assert 10 < len(str(error).strip()) < 1000, f"no sentence: {error!s}"


def _fit(case: Case, X: Any, y: Any) -> Any:
    try:
        return case.make().fit(X, y)
    except Exception as error:
        _must_be_a_sentence(error)
        raise Refused from error


def _check(case: Case, folder: Path, seen: list[warnings.WarningMessage]) -> None:
    X, y = case.rows.X, case.target.y
    given = case.rows.container.within(folder).make(X)
    before = stored(given), plain(y)
    model = _fit(case, given, y)
    assert (stored(given), plain(y)) == before, "fit changed X or y"
    shown = _shown(model, X)
    assert stored(given) == before[0], "transform changed X"
    for what, values in shown.items():
        assert np.isfinite(values).all(), f"{what} is not finite"
    _known_classes(model, case)
    _never_rises(model, X)
    again = _fit(case, case.rows.container.within(folder).make(X), y)
    _equal(_shown(again, X), shown, "fitted twice")
    path = labelfold.save(model, folder / "m.skops")
    _equal(_shown(labelfold.load(path), X), shown, "saved and loaded")
    if any(said in str(one.message) for one in seen for said in ("digits are left", "is 0 between all rows")):
        return  # the estimator warned that its kernel is mostly round-off
    if any(isinstance(p, float) and not (p == 0 or 1e-12 < p < 1e12) for p in case.parameters.values()):
        return  # with such a weight the other terms are round-off
    if _has_kernel(case) and (X[:1] == X).all():
        return  # features of equal rows differ by round-off
    _one_by_one(model, case, shown)
    _in_another_container(model, case, shown, folder)
    # If iterations stopped early, the result depends on their path, and the last digits may decide between several
    # minima.
    stopped = any(issubclass(one.category, ConvergenceWarning) for one in seen)
    # With more components than the rank of X several factorisations are equally good.
    several = case.name in (*NOT_UNIQUE, "DRSVM") and len(model.components_) > np.linalg.matrix_rank(
        X.astype(float)
    )
    if not (stopped and case.name in ORDERED) and not several:
        _another_way(model, case, shown, folder, permute=not stopped and _free_of_order(case))


def _shown(model: Any, X: Any) -> Shown:
    """Return the outputs of a fitted model for rows."""
    made = {}
    for what in ("transform", "decision_function", "predict_proba"):
        if hasattr(model, what):
            made[what] = _host(getattr(model, what)(X))
    if hasattr(model, "predict") and not hasattr(model, "classes_"):
        made["predict"] = _host(model.predict(X))
    return made


def _host(values: Any) -> np.ndarray:
    """Return values as NumPy from any container or device."""
    for way in ("toarray", "compute"):
        values = getattr(values, way)() if hasattr(values, way) else values
    return np.asarray(to_host(values), dtype=float)


def _known_classes(model: Any, case: Case) -> None:
    if hasattr(model, "predict") and hasattr(model, "classes_") and case.target.known is not None:
        said = np.asarray(model.predict(case.rows.X)).ravel().tolist()
        odd = [value for value in said if value not in case.target.known]
        assert not odd, f"predicts {odd[0]!r}, which was never given"


def _never_rises(model: Any, X: np.ndarray) -> None:
    """Check the objective of methods that minimise one; it is a sum over the rows in their precision."""
    values = getattr(model, "objective_", None)
    if not isinstance(values, np.ndarray) or values.ndim != 1 or type(model).__name__ in NO_DESCENT:
        return
    assert np.isfinite(values).all(), "the objective is not finite"
    room = (1e-5 if X.dtype in (np.float32, np.float16) else 1e-7) * np.abs(values).max(initial=0.0)
    assert (np.diff(values) <= room).all(), f"the objective rises by {np.diff(values).max():g}"


def _one_by_one(model: Any, case: Case, shown: Shown) -> None:
    X = case.rows.X
    some = sorted({0, len(X) // 3, len(X) - 1})
    alone = [_shown(model, X[i : i + 1]) for i in some]
    found = {what: np.concatenate([one[what] for one in alone]) for what in shown}
    expected = {what: values[some] for what, values in shown.items()}
    if _has_equally_good_places(case, model):  # the reconstruction is unique
        found, expected = (
            {"reconstruction": model.inverse_transform(Z["transform"])} for Z in (found, expected)
        )

    def moved() -> Iterator[Shown]:
        for Z in _nudged(X[some], case):
            shown = _shown(model, Z)
            yield {
                what: shown[what] if what in shown else model.inverse_transform(shown["transform"])
                for what in found
            }

    _alike(found, expected, "row by row", moved, case)


def _has_equally_good_places(case: Case, model: Any) -> bool:
    if case.name not in NOT_UNIQUE:
        return False
    parts = model.components_ / np.maximum(np.abs(model.components_).max(axis=1, keepdims=True), 1e-300)
    return bool(np.linalg.matrix_rank(parts, rtol=1e-6) < len(parts))


def _in_another_container(model: Any, case: Case, shown: Shown, folder: Path) -> None:
    """Check the outputs of a model for rows in another container than that of the fit."""
    X = case.rows.X
    if _has_equally_good_places(case, model):
        return
    found = _shown(model, case.rows.other.within(folder).make(X))
    by_divergence = case.name in BY_DIVERGENCE
    if by_divergence:
        found, shown = ({"reconstruction": model.inverse_transform(Z["transform"])} for Z in (found, shown))

    def moved() -> Iterator[Shown]:
        for Z in _nudged(X, case):
            new = _shown(model, Z)
            yield {"reconstruction": model.inverse_transform(new["transform"])} if by_divergence else new

    _alike(found, shown, f"placed in {case.rows.other}", moved, case, room=0.01 if by_divergence else 0.0)


def _another_way(model: Any, case: Case, shown: Shown, folder: Path, permute: bool) -> None:
    """Fit again from another container, in blocks of a few rows with three threads, and in another order."""
    X, y = case.rows.X, case.target.y
    order = np.arange(len(X))
    if permute:
        order = np.random.default_rng(0).permutation(len(X))
    y = (
        y
        if y is None or isinstance(y, str) or np.array_equal(order, np.arange(len(X)))
        else _permuted(y, order)
    )
    rows = case.rows.other.within(folder).make(X[order])
    with contextlib.ExitStack() as changed:
        changed.enter_context(patch.dict(os.environ, {"LABELFOLD_NUM_THREADS": "3"}))
        for name, value in _SMALL_BLOCKS.items():
            changed.enter_context(patch(name, value))
        other = _fit(case, rows, y)
        found = _shown(other, X)
    if _has_ties(other):  # any rotation of their directions is a solution, with the same products
        found, shown = (
            what | {"transform": what["transform"] @ what["transform"].T} for what in (found, shown)
        )

    def moved() -> Iterator[Shown]:
        for Z in _nudged(X, case):
            moved = _shown(_fit(case, case.rows.other.within(folder).make(Z), case.target.y), X)
            yield (
                moved | {"transform": moved["transform"] @ moved["transform"].T}
                if _has_ties(other)
                else moved
            )

    room = _flat_room(model, other)
    _alike(found, shown, f"in {case.rows.other}, in threads and another order", moved, case, room)


def _flat_room(one: Any, other: Any) -> float:
    """Return how far apart two descents may end that stop by their objective, and agree in it within 10 tol.

    Near its minimum an objective is quadratic, so a relative change of tol moves the variables by its square root.
    """
    values = [getattr(model, "objective_", None) for model in (one, other)]
    tol = float(one.get_params().get("tol", 0))
    if type(one).__name__ in NO_DESCENT or not all(isinstance(v, np.ndarray) and v.size for v in values):
        return 0.0
    a, b = (float(v.ravel()[-1]) for v in values)
    return float(np.sqrt(tol)) if abs(a - b) <= 10 * tol * abs(a) else 0.0


def _has_ties(model: Any) -> bool:
    """Tell whether directions have nearly equal eigenvalues."""
    values = getattr(model, "eigenvalues_", None)
    return values is not None and bool(
        (np.abs(np.diff(values)) <= 0.01 * np.abs(values).max(initial=0.0)).any()
    )


def _free_of_order(case: Case) -> bool:
    """Tell whether a result does not depend on the order of the rows, by initial values, samples, folds or ties."""
    p = case.parameters
    folds = "cv" in map(str, p.values()) or isinstance(p.get("ridge"), list)
    return case.name not in ORDERED and "n_landmarks" not in p and not folds and p.get("metric") != "cosine"


def _permuted(y: Any, order: np.ndarray) -> Any:
    if isinstance(y, list):
        return [y[i] for i in order]
    return y.iloc[order] if hasattr(y, "iloc") else y[order]


def _nudged(X: np.ndarray, case: Case) -> Iterator[np.ndarray]:
    """Yield X with the last digits of its cells changed, more of them each time.

    The round-off of a kernel is relative to its size. If its values hardly differ (a small gamma, a large constant),
    it is much larger relative to the effect of a change of X, so half of the digits are changed.
    """
    if X.dtype.kind != "f" or X.dtype == np.float16:
        X = X.astype(np.float32 if X.dtype == np.float16 else float)
    rng, most, eps = np.random.default_rng(0), np.finfo(X.dtype).max, float(np.finfo(X.dtype).eps)
    for i in range(1, 7):
        size = eps * (32.0 if _has_kernel(case) else 2.0) ** i
        with np.errstate(over="ignore"):
            moved = X.astype(float) * (1 + min(size, 1e-3) * rng.uniform(-1, 1, X.shape))
            yield np.clip(moved, -most, most).astype(X.dtype)


def _has_kernel(case: Case) -> bool:
    return case.name == "KernelPCALS" or case.parameters.get("kernel") is not None


def _equal(found: Shown, shown: Shown, what: str) -> None:
    assert found.keys() == shown.keys(), f"{what}: other outputs"
    for name, values in shown.items():
        assert np.array_equal(found[name], values), (
            f"{what}: {name} differs by {_away(found[name], values):g}"
        )


def _alike(
    found: Shown, shown: Shown, what: str, moved: Callable[[], Iterator[Shown]], case: Case, room: float = 0.0
) -> None:
    """Compare up to round-off: ten times the change of the outputs when the last digits of X are changed.

    This change is computed only if the difference is not small. If a change of X leads to a refusal, the case is at
    the limit of a refusal, and is not compared.
    """
    assert found.keys() == shown.keys(), f"{what}: other outputs"
    tight = 1e-4 if _has_kernel(case) or case.rows.X.dtype in (np.float32, np.float16) else 1e-8
    # Iterations may stop anywhere within their tolerance.
    tight = max(tight, room, 100 * float(case.make().get_params().get("tol", 0)))
    away = {name: _away(found[name], values) for name, values in shown.items()}
    far = {name for name, value in away.items() if value > tight}
    if not far:
        return
    allowed = dict.fromkeys(far, tight)
    with contextlib.suppress(Refused):
        for other in moved():
            changes = {name: _away(other[name], shown[name]) for name in far}
            # Beyond a thousandth, 1e12 times the change of X, the last digits decide between several results.
            allowed = {
                name: max(allowed[name], 10 * c if c < 1e-3 else np.inf) for name, c in changes.items()
            }
            if all(away[name] <= allowed[name] for name in far):
                return
        worst = max(far, key=lambda name: away[name] / allowed[name])
        raise AssertionError(
            f"{what}: {worst} differs by {away[worst]:g} of its size; {allowed[worst]:g} is allowed"
        )


def _away(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference relative to the largest value; the signs of columns may differ."""
    if a.shape != b.shape:
        return np.inf
    largest = np.abs(b).max(initial=0.0)
    if not largest:
        return float(np.abs(a).max(initial=0.0))
    a, b = a / largest, b / largest
    if a.ndim == 2:
        a = a * np.where((a * b).sum(axis=0) < 0, -1.0, 1.0)
    return float(np.abs(a - b).max(initial=0.0))
