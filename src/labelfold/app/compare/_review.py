"""What a report shows beside scores: maps of the best methods, what was predicted for rows held back, components."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfold._layout import layout
from labelfold.app._calibrate import calibrate, is_calibrated
from labelfold.app._explain import correlations, predict_with_confidence
from labelfold.app.compare._expect import hold_back
from labelfold.app.compare._next_rows import next_rows
from labelfold.app.compare._out_of_fold import whole
from labelfold.app.compare._splits import fold_of_rows, from_text
from labelfold.app.registry._partly_labelled import only_missing

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison

_MOST_MAPS = 2
_MOST_POINTS = 2000  # of each kind: a browser draws that many at once
_MOST_SHOWN = 12  # components


@dataclass(frozen=True)
class Map:
    """A method's embedding in the plane.

    Attributes
    ----------
    title : str
        The method.
    points : ndarray of shape (m, 2)
        Where the rows lie.
    rows : ndarray of shape (m,)
        Which they are.
    role : ndarray of str
        "labelled" or "unlabelled".
    predicted : list of str
        What the method says of them, at the size chosen for it.
    confidence : ndarray of shape (m,)
        How sure it is.
    flat : bool
        Whether the method gives one component only, so that the second coordinate is random.
    numbers : ndarray of shape (m,), or None
        The number of each row, predicted where it has none, where y holds numbers.
    """

    title: str
    points: np.ndarray
    rows: np.ndarray
    role: np.ndarray
    predicted: list[str]
    confidence: np.ndarray
    flat: bool
    numbers: np.ndarray | None = None


@dataclass(frozen=True)
class Review:
    """See the module.

    Attributes
    ----------
    maps : list of Map
        The recommended method's first, and another's, fitted with all labels.
    confusion : ndarray of shape (c, c), or (c, 4), or None
        Rows held back, over all repeats: true class by predicted class; with several labels a row, for each label how
        often it was rightly and wrongly given, and missed, and rightly not given.
    held_back : ndarray of shape (l, 2), or None
        Where y holds numbers: those of the labelled rows, and their out-of-fold predictions, mean over the repeats.
    strengths : ndarray of shape (k, d), or None
        Correlation of the best model's components with the columns.
    next_rows : ndarray
        Unlabelled rows most worth a label; see `_next_rows`.
    next_predicted : list of str
        What it takes them for.
    next_confidence : ndarray
        How sure it is.
    """

    maps: list[Map]
    confusion: np.ndarray | None
    held_back: np.ndarray | None
    strengths: np.ndarray | None
    next_rows: np.ndarray
    next_predicted: list[str]
    next_confidence: np.ndarray


EMPTY = Review([], None, None, None, np.empty(0, dtype=int), [], np.empty(0))


def review(found: Comparison) -> Review:
    """Fit the best methods again, on the splits they were compared on and on all rows, and look at them."""
    if found.winner is None:
        return EMPTY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were noted in the runs
        model = found.fitted()
        embedded = np.asarray(model.transform(found.data.X)) if hasattr(model, "transform") else None
        strengths = None if embedded is None else correlations(found.data.X, embedded[:, :_MOST_SHOWN])
        rows, predicted, sure = next_rows(found, model, embedded)
        text = [as_label(found.data, p) for p in predicted]
        shown = _maps(found), _confusion(found), _held_back(found), strengths
        return Review(*shown, rows, text, sure)


def fit_on_all(found: Comparison, method: str, k: int | None) -> Any:
    """Return a method fitted on all rows with all labels."""
    data = found.data
    s = found.settings

    def make(X: Any) -> Any:
        how = {"random_state": s["random_state"], "scale": s["scale"], "task": data.facts.task}
        return found.methods[method].make(k, X=X, **how)

    model = make(data.X)
    if -1 in np.asarray(data.labels.classes).tolist():
        model = only_missing(model)
    model.fit(data.X, data.targets())
    if is_calibrated(model) or method != found.best_:
        return model
    return calibrate(model, hold_back(make, data, s["random_state"]))


def _confusion(found: Comparison) -> np.ndarray | None:
    """Count, over all repeats, what the recommended method took each row held back for."""
    data = found.data
    if data.facts.numbers:
        return None
    c, truth = len(data.classes), data.truth
    fold = fold_of_rows(data, found.settings["repeats"], found.settings["random_state"])
    total = np.zeros((c, 4 if data.facts.multilabel else c), dtype=int)
    for repeat, text in _predicted(found):
        true, guess = truth[fold[repeat] >= 0], from_text(text, truth)
        if data.facts.multilabel:
            for j, (has, given) in enumerate(((1, 1), (0, 1), (1, 0), (0, 0))):
                total[:, j] += np.sum((true == has) & (guess == given), axis=0)
        else:
            np.add.at(total, (true, guess), 1)
    return total


def _held_back(found: Comparison) -> np.ndarray | None:
    """Return the numbers of the labelled rows, and what the recommended method predicted without them."""
    data, told = found.data, _predicted(found)
    if not data.facts.numbers or not told:
        return None
    return np.column_stack([data.truth, np.mean([from_text(text, data.truth) for _, text in told], axis=0)])


def _predicted(found: Comparison) -> list[tuple[int, str]]:
    """Return the repeats of the recommended method, and what it predicted for the rows held back in each."""
    best = found.winner
    assert best is not None
    rows = found.results[
        (found.results["method"] == best["method"])
        & (found.results["budget"] == found.data.labels.n_labelled)
        & (found.results["k"].fillna(-1) == (-1 if whole(best["k"]) is None else best["k"]))
    ].dropna(subset="predicted")
    return list(zip(rows["repeat"], rows["predicted"], strict=True))


def _maps(found: Comparison) -> list[Map]:
    """Place all rows in the plane by the best methods that embed, fitted with all labels."""
    data = found.data
    rng = np.random.default_rng(found.settings["random_state"])
    hidden = np.sort(rng.permutation(data.unlabelled)[:_MOST_POINTS])
    known = np.sort(rng.permutation(data.labels.index)[:_MOST_POINTS])
    rows = np.concatenate([hidden, known])
    role = np.repeat(["unlabelled", "labelled"], [len(hidden), len(known)])
    maps = []
    ranked = found.ranking.dropna(subset="mean")
    ranked = ranked[[found.methods[m].embeds for m in ranked["method"]]]
    best = ranked["method"] == found.best_
    for _, row in ranked.iloc[np.argsort(~best, kind="stable")].head(_MOST_MAPS).iterrows():
        try:
            model = found.fitted(row["method"], whole(row["k"]))
            Z = np.asarray(model.transform(data.X[rows]), dtype=float)
            predicted, confidence = predict_with_confidence(model, data.X[rows])
        except Exception:  # the table already says what is wrong with this method
            continue
        flat = Z.shape[1] == 1
        points = np.column_stack([Z[:, 0], rng.uniform(-1, 1, len(Z))]) if flat else plane(Z)
        title = found.methods[row["method"]].title
        said = [as_label(data, p) for p in predicted]
        known = data.y[rows]
        numbers = np.where(np.isnan(known), predicted, known) if data.facts.numbers else None
        maps.append(Map(title, points, rows, role, said, confidence, flat, numbers))
    return maps


def plane(Z: np.ndarray) -> np.ndarray:
    """Return an embedding in two dimensions: as it is, or a layout that keeps the neighbours in all components.

    Two principal components where openTSNE is not installed.
    """
    if Z.shape[1] == 2:
        return Z
    if find_spec("openTSNE") is not None and len(Z) > 3:
        return np.asarray(layout(Z).points)
    Z = Z - Z.mean(axis=0)
    return Z @ np.linalg.svd(Z, full_matrices=False)[2][:2].T


def as_label(data: Any, predicted: Any) -> str:
    """Return what a model said of a row as text."""
    if np.ndim(predicted):
        return ", ".join(np.asarray(data.classes)[np.asarray(predicted) > 0]) or "none of them"
    return f"{predicted:.6g}" if data.facts.numbers else str(predicted)
