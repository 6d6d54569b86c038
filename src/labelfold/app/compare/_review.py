"""What a report shows beside scores: maps of the best methods, what was predicted for rows held back, components."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import StandardScaler

from labelfold._layout import layout
from labelfold.app._calibrate import calibrate, is_calibrated
from labelfold.app._explain import ViewKind, correlations, last_step, predict_with_confidence, view_kinds
from labelfold.app.compare._expect import HeldBack, hold_back
from labelfold.app.compare._next_rows import next_rows
from labelfold.app.compare._out_of_fold import whole
from labelfold.app.compare._splits import fold_of_rows, from_text
from labelfold.app.registry._partly_labelled import only_missing

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison

_MOST_MAPS = 2
_MOST_POINTS = 20_000
_LANDMARKS = 1000  # of a layout: more take seconds and show no more
_MOST_SHOWN = 12  # components
_MOST_LOOKED_AT = 2000  # rows, to see which columns a view goes along with
_SURE = 0.8  # confidence in another class from which on a label is questioned


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
    predicted : ndarray of shape (m,) or (m, c)
        What the method says of them: class codes, 0 and 1 for several labels, or numbers.
    confidence : ndarray of shape (m,)
        How sure it is; NaN where it does not say.
    axes : pair of str, or None
        What the coordinates are, where they are more than a layout.
    """

    title: str
    points: np.ndarray
    rows: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    axes: tuple[str, str] | None


@dataclass(frozen=True)
class Untold:
    """What the recommended method says of the labelled rows when it is not told their labels.

    Attributes
    ----------
    guess : ndarray of shape (l,) or (l, c)
        Class codes, 0 and 1 for several labels, or numbers.
    confidence : ndarray of shape (l,)
        How sure it is; NaN where it does not say.
    tested : ndarray of bool of shape (l,)
        Which rows were left out once.
    how : str
        How, for a sentence.
    """

    guess: np.ndarray
    confidence: np.ndarray
    tested: np.ndarray
    how: str

    def right(self, truth: np.ndarray) -> np.ndarray:
        """Tell of each labelled row whether all that was said is right."""
        return np.array([np.all(one) for one in self.guess == truth], dtype=bool)

    def doubtful(self, truth: np.ndarray) -> np.ndarray:
        """Return the labelled rows whose label is confidently contradicted, the surest first."""
        rows = np.flatnonzero(self.tested & ~self.right(truth) & (self.confidence >= _SURE))
        return rows[np.argsort(-self.confidence[rows], kind="stable")]


@dataclass(frozen=True)
class Review:
    """Maps, confusion, components and rows to label next of a comparison.

    Attributes
    ----------
    maps : list of Map
        The recommended method's first, and another's, fitted with all labels.
    left_out : Untold or None
        What was predicted for labelled rows without their labels.
    strengths : ndarray of shape (k, d), or None
        Correlation of the columns with the best model's components, or with its scores where it has none.
    parts : list of str
        What these are called.
    views : list of ViewKind
        The kinds of views that it blends, where it is a LabelFold.
    next_rows : ndarray
        Unlabelled rows most worth a label; see `_next_rows`.
    next_predicted : list of str
        What it takes them for.
    next_confidence : ndarray
        How sure it is.
    """

    maps: list[Map] = field(default_factory=list)
    left_out: Untold | None = None
    strengths: np.ndarray | None = None
    parts: list[str] = field(default_factory=list)
    views: list[ViewKind] = field(default_factory=list)
    next_rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    next_predicted: list[str] = field(default_factory=list)
    next_confidence: np.ndarray = field(default_factory=lambda: np.empty(0))


EMPTY = Review()


def review(found: Comparison) -> Review:
    """Fit the best methods again on all rows, and look at them."""
    if found.winner is None:
        return EMPTY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were noted in the runs
        model, data = found.fitted(), found.data
        embedded = np.asarray(model.transform(data.X)) if hasattr(model, "transform") else None
        rows, predicted, sure = next_rows(found, model, embedded)
        text = [as_label(data, p) for p in predicted]
        parts, names = _parts(model, data, embedded)
        strengths = None if parts is None else correlations(data.X, parts)
        some = np.random.default_rng(0).permutation(data.X.shape[0])[:_MOST_LOOKED_AT]
        columns = [data.column(j) for j in range(data.X.shape[1])]
        views = view_kinds(model, data.X[some], columns)
        return Review(_maps(found), left_out(found), strengths, names, views, rows, text, sure)


def fit_on_all(found: Comparison, method: str, k: int | None) -> tuple[Any, HeldBack | None]:
    """Return a method fitted on all rows with all labels, and what its confidence was calibrated on, if anything."""
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
        return model, None
    held = hold_back(make, data, s["random_state"])
    return calibrate(model, held), held


def _parts(model: Any, data: Any, embedded: np.ndarray | None) -> tuple[np.ndarray | None, list[str]]:
    """Return what a model makes of the rows, as columns with names: components, or scores of classes."""
    if embedded is not None:
        parts = embedded[:, :_MOST_SHOWN]
        return parts, [f"Component {i + 1}" for i in range(parts.shape[1])]
    if data.facts.numbers:
        return np.asarray(model.predict(data.X), dtype=float)[:, None], ["The predicted number"]
    scores = next((f for f in ("decision_function", "predict_proba") if hasattr(model, f)), None)
    if scores is None:
        return None, []
    parts = np.asarray(getattr(model, scores)(data.X), dtype=float)
    if parts.ndim == 1 or parts.shape[1] == 2 == len(data.classes):
        return parts.reshape(len(parts), -1)[:, -1:], [f"Taken for {data.classes[-1]}"]
    return parts[:, :_MOST_SHOWN], [f"Taken for {name}" for name in data.classes[:_MOST_SHOWN]]


def left_out(found: Comparison) -> Untold | None:
    """Return what the recommended method says of labelled rows without their labels; None where that is unknown."""
    data, model = found.data, found.fitted()
    everyone = np.ones(data.labels.n_labelled, dtype=bool)
    unknown = np.full(data.labels.n_labelled, np.nan)
    if hasattr(model, "loo_predictions_"):
        tested = everyone
        if data.labels.task in ("binary", "multiclass"):
            tested = (
                data.counts()[data.labels.values] > 1
            )  # the only label of a class cannot be predicted without it
        sure = getattr(model, "loo_confidence_", unknown)
        return Untold(codes(data, model.loo_predictions_), sure, tested, "leaving out one row at a time")
    held = found.held_back()
    if held is not None:
        a, b = last_step(model).confidence_curve_
        how = "leaving out one fold at a time"
        return Untold(held.guess, expit(a * held.gaps + b), held.tested, how)
    told = _predicted(found)
    if not told:
        return None
    fold = fold_of_rows(data, found.settings["repeats"], found.settings["random_state"])
    guess, tested = np.zeros_like(data.truth), fold[0] >= 0
    guess[tested] = from_text(told[0], data.truth)
    if data.facts.numbers:
        guess = np.mean([from_text(text, data.truth) for text in told], axis=0)
    return Untold(guess, unknown, tested, "leaving out one fold at a time")


def _predicted(found: Comparison) -> list[str]:
    """Return what the recommended method predicted for the rows held back, in each repeat."""
    best = found.winner
    assert best is not None
    rows = found.results[
        (found.results["method"] == best["method"])
        & (found.results["budget"] == found.data.labels.n_labelled)
        & (found.results["k"].fillna(-1) == (-1 if whole(best["k"]) is None else best["k"]))
    ].dropna(subset="predicted")
    return list(rows["predicted"])


def codes(data: Any, predicted: Any) -> np.ndarray:
    """Return what a model says of rows as the labels are kept: class codes, 0 and 1, or numbers."""
    predicted = np.asarray(predicted)
    if data.facts.numbers or predicted.ndim == 2:
        return predicted
    classes = np.asarray(data.labels.classes)
    return np.searchsorted(classes, predicted.astype(classes.dtype))


def _maps(found: Comparison) -> list[Map]:
    """Place rows in the plane by the best methods that embed, fitted with all labels; labelled rows come first."""
    data = found.data
    rng = np.random.default_rng(found.settings["random_state"])
    known = rng.permutation(data.labels.index)
    if len(data.unlabelled):  # half of the room at most
        known = known[: max(_MOST_POINTS // 2, _MOST_POINTS - len(data.unlabelled))]
    hidden = rng.permutation(data.unlabelled)[: _MOST_POINTS - len(known[:_MOST_POINTS])]
    rows = np.sort(np.concatenate([known[:_MOST_POINTS], hidden]))
    ranked = found.ranking.dropna(subset="mean")
    ranked = ranked[[found.methods[m].embeds for m in ranked["method"]]]
    best = ranked["method"] == found.best_
    maps = []
    for _, row in ranked.iloc[np.argsort(~best, kind="stable")].head(_MOST_MAPS).iterrows():
        try:
            model = found.fitted(row["method"], whole(row["k"]))
            Z = np.asarray(model.transform(data.X[rows]), dtype=float)
            predicted, confidence = predict_with_confidence(model, data.X[rows])
        except Exception:  # the table already has the reason
            continue
        title = found.methods[row["method"]].title
        points, axes = plane(Z, data.X[rows])
        maps.append(Map(title, points, rows, codes(data, predicted), confidence, axes))
    if not maps:  # no method reduces: the columns themselves
        predicted, confidence = predict_with_confidence(found.fitted(), data.X[rows])
        points, axes = plane(_principal(data.X[rows], _MOST_SHOWN), data.X[rows])
        maps.append(Map("principal components", points, rows, codes(data, predicted), confidence, axes))
    return maps


def plane(Z: np.ndarray, X: Any) -> tuple[np.ndarray, tuple[str, str] | None]:
    """Return an embedding in two dimensions, and what the two are where they have names.

    Two components are drawn as they are, and more by a layout that keeps the neighbours in all of them (two principal
    components where openTSNE is not installed). One component is drawn against the principal component of the columns
    that says most beside it.
    """
    if Z.shape[1] == 1:
        other = _beside(Z[:, 0], X)
        return np.column_stack([Z[:, 0], other]), (
            "its one component",
            "the main direction of the columns beside it",
        )
    if Z.shape[1] == 2:
        return Z, ("component 1", "component 2")
    if find_spec("openTSNE") is not None and len(Z) > 3:
        return np.asarray(layout(Z, n_landmarks=_LANDMARKS).points), None
    return TruncatedSVD(2, random_state=0).fit_transform(Z - Z.mean(axis=0)), None


def _beside(z: np.ndarray, X: Any) -> np.ndarray:
    """Return the first principal component of the columns, each of unit variance, less what z tells of it."""
    z, P = z - z.mean(), _principal(X, 3)
    P = P - np.outer(z, z @ P) / max(z @ z, 1e-300)
    return P[:, P.var(axis=0).argmax()]


def _principal(X: Any, k: int) -> np.ndarray:
    """Return up to k principal components of columns brought to unit variance, sparse ones without centring."""
    P = StandardScaler(with_mean=False).fit_transform(X)
    if P.shape[1] > 1:  # one column is its own
        P = TruncatedSVD(min(k + 1, P.shape[1]), random_state=0).fit_transform(P)
    P = np.asarray(P - P.mean(axis=0))
    return P[:, np.argsort(-P.var(axis=0), kind="stable")[:k]]


def as_label(data: Any, predicted: Any) -> str:
    """Return what a model said of a row as text."""
    if np.ndim(predicted):
        return ", ".join(np.asarray(data.classes)[np.asarray(predicted) > 0]) or "none of them"
    return f"{predicted:.6g}" if data.facts.numbers else str(predicted)
