"""What a report shows beside scores: maps of the best methods, confusion, components, rows to label next."""

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
from labelfold.app.compare._out_of_fold import whole
from labelfold.app.compare._splits import fold_of_rows, from_text
from labelfold.app.registry._partly_labelled import only_missing

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison

_MOST_MAPS = 2
_MOST_POINTS = 2000  # of each kind: a browser draws that many at once
_MOST_NEXT = 20
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
    """

    title: str
    points: np.ndarray
    rows: np.ndarray
    role: np.ndarray
    predicted: list[str]
    confidence: np.ndarray
    flat: bool


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
    strengths : ndarray of shape (k, d), or None
        Correlation of the best model's components with the columns.
    next_rows : ndarray
        Unlabelled rows most worth a label: those the best model is least sure of, spread out.
    next_predicted : list of str
        What it takes them for.
    next_confidence : ndarray
        How sure it is.
    """

    maps: list[Map]
    confusion: np.ndarray | None
    strengths: np.ndarray | None
    next_rows: np.ndarray
    next_predicted: list[str]
    next_confidence: np.ndarray


EMPTY = Review([], None, None, np.empty(0, dtype=int), [], np.empty(0))


def review(found: Comparison) -> Review:
    """Fit the best methods again, on the splits they were compared on and on all rows, and look at them."""
    if found.winner is None:
        return EMPTY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were noted in the runs
        model = found.refit()
        embedded = np.asarray(model.transform(found.data.table())) if hasattr(model, "transform") else None
        strengths = None if embedded is None else correlations(found.data.X, embedded[:, :_MOST_SHOWN])
        return Review(_maps(found), _confusion(found), strengths, *_next(found, model, embedded))


def fit_on_all(found: Comparison, method: str, k: int | None) -> Any:
    """Return a method fitted on all rows with all labels."""
    data = found.data
    s = found.settings

    def make(X: Any) -> Any:
        return found.methods[method].make(k, X=X, random_state=s["random_state"], scale=s["scale"])

    model = make(data.X)
    if -1 in np.asarray(data.labels.classes).tolist():
        model = only_missing(model)
    model.fit(data.table(), data.targets())
    if method != found.best_ or is_calibrated(model):
        return model
    return calibrate(model, hold_back(make, data, s["random_state"]))


def _confusion(found: Comparison) -> np.ndarray | None:
    """Count, over all repeats, what the recommended method took each row held back for."""
    data, best = found.data, found.winner
    assert best is not None
    if data.labels.task == "regression":
        return None
    rows = found.results[
        (found.results["method"] == best["method"])
        & (found.results["budget"] == data.labels.n_labelled)
        & (found.results["k"].fillna(-1) == (-1 if whole(best["k"]) is None else best["k"]))
    ].dropna(subset="predicted")
    c, truth = len(data.classes), data.y[data.labels.index]
    fold = fold_of_rows(data, found.settings["repeats"], found.settings["random_state"])
    total = np.zeros((c, 4 if data.facts.multilabel else c), dtype=int)
    for _, row in rows.iterrows():
        true, guess = (
            truth[fold[row["repeat"]] >= 0].astype(int),
            from_text(row["predicted"], truth.astype(int)),
        )
        if data.facts.multilabel:
            for j, (has, given) in enumerate(((1, 1), (0, 1), (1, 0), (0, 0))):
                total[:, j] += np.sum((true == has) & (guess == given), axis=0)
        else:
            np.add.at(total, (true, guess), 1)
    return total


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
            model = found.refit(row["method"], whole(row["k"]))
            Z = np.asarray(model.transform(data.table(rows)), dtype=float)
            predicted, confidence = predict_with_confidence(model, data.table(rows))
        except Exception:  # the table already says what is wrong with this method
            continue
        flat = Z.shape[1] == 1
        points = np.column_stack([Z[:, 0], rng.uniform(-1, 1, len(Z))]) if flat else plane(Z)
        title = found.methods[row["method"]].title
        said = [as_label(data, p) for p in predicted]
        maps.append(Map(title, points, rows, role, said, confidence, flat))
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
    return str(predicted)


def _next(found: Comparison, model: Any, Z: np.ndarray | None) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Return the unlabelled rows to label next, with what the model takes them for and how sure it is."""
    data = found.data
    rows = data.unlabelled
    if not len(rows):
        return rows, [], np.empty(0)
    predicted, confidence = predict_with_confidence(model, data.table(rows))
    if np.isnan(confidence).all():
        return rows[:0], [], np.empty(0)
    # few enough to be near the boundary, and more than are shown, so that they can be spread out
    pool = max(_MOST_NEXT, min(4 * _MOST_NEXT, len(rows) // 5), len(rows) // 200)
    near = np.argsort(confidence, kind="stable")[:pool]
    chosen = near[:_MOST_NEXT] if Z is None else near[spread_out(Z[rows[near]], _MOST_NEXT)]
    text = [as_label(data, p) for p in predicted[chosen]]
    return rows[chosen], text, confidence[chosen]


def spread_out(Z: np.ndarray, most: int) -> np.ndarray:
    """Return up to ``most`` rows of Z, the first one first and each the farthest from those before it."""
    spread = Z.std(axis=0)
    Z = Z / np.where(spread > 0, spread, 1.0)
    chosen = [0]
    distance = np.linalg.norm(Z - Z[0], axis=1)
    while len(chosen) < min(most, len(Z)):
        farthest = int(np.argmax(distance))
        if distance[farthest] <= 0:
            break
        chosen.append(farthest)
        distance = np.minimum(distance, np.linalg.norm(Z - Z[farthest], axis=1))
    return np.array(chosen)
