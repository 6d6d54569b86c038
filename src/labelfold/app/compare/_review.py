"""The content of the report besides scores: maps, out-of-fold predictions, components, rows to label next."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

from labelfold.app.compare._expected import HeldOut, calibrate, is_calibrated, predict_held_out
from labelfold.app.compare._explain import (
    ViewKind,
    correlations,
    last_step,
    predict_with_confidence,
    view_kinds,
)
from labelfold.app.compare._splits import whole
from labelfold.app.registry import UNIT_VARIANCE, fit_grouped, only_missing
from labelfold.features import layout

if TYPE_CHECKING:
    from labelfold.app.compare._results import Results
_MOST_MAPS = 2
_MOST_POINTS = 20_000
_LANDMARKS = 1000  # landmarks of a layout; more take seconds and look the same
_MOST_SHOWN = 12  # most components shown
_MOST_LOOKED_AT = 2000  # most rows for the correlations of views with columns
_SURE = 0.8  # least confidence in another class for a label to be listed as doubtful
_MOST_NEXT = 20
_MOST_SETTLED = 2000  # most unlabelled, and most labelled, rows in `settle`
_MOST_SAMPLED = 5000  # most unlabelled, and most labelled, rows in `greedy_sample`


@dataclass(frozen=True)
class Map:
    """A method's embedding in the plane.

    Attributes
    ----------
    title : str
        Title of the method.
    points : ndarray of shape (m, 2)
        Coordinates of the rows.
    rows : ndarray of shape (m,)
        Indices of the rows.
    predicted : ndarray of shape (m,) or (m, c)
        Predictions: class codes, 0/1 labels, or numbers.
    confidence : ndarray of shape (m,)
        Confidence of the predictions; NaN if the method has none.
    axes : pair of str, or None
        Names of the coordinates; None for a layout.
    """

    title: str
    points: np.ndarray
    rows: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    axes: tuple[str, str] | None


@dataclass(frozen=True)
class HeldOutPredictions:
    """Predictions of the recommended method for labelled rows, each made without the row's own label.

    Attributes
    ----------
    guess : ndarray of shape (l,) or (l, c)
        Class codes, 0/1 labels, or numbers.
    confidence : ndarray of shape (l,)
        Confidence of the predictions; NaN if the method has none.
    tested : ndarray of bool of shape (l,)
        The rows that were held out.
    how : str
        "folds" or "leave-one-out", in words.
    """

    guess: np.ndarray
    confidence: np.ndarray
    tested: np.ndarray
    how: str

    def right(self, truth: np.ndarray) -> np.ndarray:
        """Return for each labelled row whether its prediction is right, with all of its labels."""
        return np.array([np.all(one) for one in self.guess == truth], dtype=bool)

    def doubtful(self, truth: np.ndarray) -> np.ndarray:
        """Return the labelled rows for which another class is predicted with high confidence, highest first."""
        rows = np.flatnonzero(self.tested & ~self.right(truth) & (self.confidence >= _SURE))
        return rows[np.argsort(-self.confidence[rows], kind="stable")]


@dataclass(frozen=True)
class Review:
    """The content of the report besides scores.

    Attributes
    ----------
    maps : list of Map
        The map of the recommended method, then of another one, fitted with all labels.
    left_out : HeldOutPredictions or None
        Predictions of labelled rows without their labels.
    strengths : ndarray of shape (k, d), or None
        Correlations of the columns with the components of the best model, or with its scores if it has none.
    parts : list of str
        Names of these components or scores.
    views : list of ViewKind
        The kinds of views of a LabelFold.
    next_rows : ndarray
        Unlabelled rows to label next; see `_next_rows`.
    next_predicted : list of str
        Their predictions.
    next_confidence : ndarray
        The confidences of these predictions.
    """

    maps: list[Map] = field(default_factory=list)
    left_out: HeldOutPredictions | None = None
    strengths: np.ndarray | None = None
    parts: list[str] = field(default_factory=list)
    views: list[ViewKind] = field(default_factory=list)
    next_rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    next_predicted: list[str] = field(default_factory=list)
    next_confidence: np.ndarray = field(default_factory=lambda: np.empty(0))


EMPTY = Review()


def review(found: Results) -> Review:
    """Fit the best methods on all rows, and return the content of the report about them."""
    if found.winner is None:
        return EMPTY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runs recorded the warnings
        model, data = found.fitted(), found.data
        embedded = np.asarray(model.transform(data.X)) if hasattr(model, "transform") else None
        rows, predicted, sure = next_rows(found, model, embedded)
        text = [data.named(code) for code in codes(data, predicted)]
        parts, names = _parts(model, data, embedded)
        strengths = None if parts is None else correlations(data.X, parts)
        some = np.random.default_rng(0).permutation(data.X.shape[0])[:_MOST_LOOKED_AT]
        columns = [data.column(j) for j in range(data.X.shape[1])]
        views = view_kinds(model, data.X[some], columns)
        return Review(_maps(found), left_out(found), strengths, names, views, rows, text, sure)


def fit_on_all(found: Results, method: str, k: int | None) -> tuple[Any, HeldOut | None]:
    """Return a method fitted on all rows with all labels, and the held-out predictions that calibrated it."""
    data = found.data
    s = found.settings

    def make(X: Any) -> Any:
        how = {"random_state": s["random_state"], "scale": s["scale"], "task": data.facts.task}
        return found.methods[method].make(k, X=X, **how)

    model = make(data.X)
    if -1 in np.asarray(data.labels.classes).tolist():
        model = only_missing(model)
    fit_grouped(model, data.X, data.targets(), data.groups)
    if is_calibrated(model) or method != found.best_:
        return model, None
    held = predict_held_out(make, data, s["random_state"])
    return calibrate(model, held), held


def _parts(model: Any, data: Any, embedded: np.ndarray | None) -> tuple[np.ndarray | None, list[str]]:
    """Return the components of the rows, or their scores if there are none, and their names."""
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


def left_out(found: Results) -> HeldOutPredictions | None:
    """Return the predictions of the recommended method for labelled rows, without their labels, if known."""
    data, model = found.data, found.fitted()
    everyone = np.ones(data.labels.n_labelled, dtype=bool)
    unknown = np.full(data.labels.n_labelled, np.nan)
    if hasattr(model, "loo_predictions_"):
        tested = everyone
        if data.labels.task in ("binary", "multiclass"):
            # a class with one label, or in one group, cannot be predicted without it
            tested = data.testable
        sure = getattr(model, "loo_confidence_", unknown)
        predicted = codes(data, model.loo_predictions_)
        return HeldOutPredictions(predicted, sure, tested, "leaving out one row at a time")
    held = found.held_out()
    if held is not None:
        a, b = last_step(model).confidence_curve_
        how = "leaving out one fold at a time"
        return HeldOutPredictions(held.guess, expit(a * held.gaps + b), held.tested, how)
    assert found.winner is not None
    one = found.out_of_fold.get(found.winner["label"])
    if one is None or one.guess is None:
        return None
    guess = one.guess.mean(axis=0) if data.facts.numbers else one.guess[0]
    return HeldOutPredictions(guess, unknown, one.fold[0] >= 0, "leaving out one fold at a time")


def codes(data: Any, predicted: Any) -> np.ndarray:
    """Return predictions in the form of ``Data.truth``: class codes, 0/1 labels, or numbers."""
    predicted = np.asarray(predicted)
    if data.facts.numbers or predicted.ndim == 2:
        return predicted
    classes = np.asarray(data.labels.classes)
    return np.searchsorted(classes, predicted.astype(classes.dtype))


def _maps(found: Results) -> list[Map]:
    """Return the maps of the best methods that embed, fitted with all labels. Labelled rows are preferred."""
    data = found.data
    rng = np.random.default_rng(found.settings["random_state"])
    known = rng.permutation(data.labels.index)
    if len(data.unlabelled):  # labelled rows take at most half of the points
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
        except Exception:  # the table has the error of this method
            continue
        title = found.methods[row["method"]].title
        points, axes = plane(Z, data.X[rows])
        maps.append(Map(title, points, rows, codes(data, predicted), confidence, axes))
    if not maps:  # no method embeds
        predicted, confidence = predict_with_confidence(found.fitted(), data.X[rows])
        points, axes = plane(_principal(data.X[rows], _MOST_SHOWN), data.X[rows])
        maps.append(Map("principal components", points, rows, codes(data, predicted), confidence, axes))
    return maps


def plane(Z: np.ndarray, X: Any) -> tuple[np.ndarray, tuple[str, str] | None]:
    """Return an embedding in two dimensions, and the names of the axes if they have any.

    Two components stay as they are. More become a t-SNE layout, or two principal components if openTSNE is not
    installed. For a single component the second axis is the main principal component of the columns, orthogonal to
    the first axis.
    """
    if Z.shape[1] == 1:
        axes = ("its one component", "the main direction of the columns beside it")
        return np.column_stack([Z[:, 0], _beside(Z[:, 0], X)]), axes
    if Z.shape[1] == 2:
        return Z, ("component 1", "component 2")
    if find_spec("openTSNE") is not None and len(Z) > 3:
        return np.asarray(layout(Z, n_landmarks=_LANDMARKS).points), None
    return TruncatedSVD(2, random_state=0).fit_transform(Z - Z.mean(axis=0)), None


def _beside(z: np.ndarray, X: Any) -> np.ndarray:
    """Return the widest of three principal components of the columns, orthogonal to z."""
    z, P = z - z.mean(), _principal(X, 3)
    P = P - np.outer(z, z @ P) / max(z @ z, 1e-300)
    return P[:, P.var(axis=0).argmax()]


def _principal(X: Any, k: int) -> np.ndarray:
    """Return up to k principal components of the columns, scaled to unit variance; a sparse X is not centred."""
    P = StandardScaler(with_mean=False).fit_transform(X)
    if P.shape[1] > 1:
        P = TruncatedSVD(min(k + 1, P.shape[1]), random_state=0).fit_transform(P)
    P = np.asarray(P - P.mean(axis=0))
    return P[:, np.argsort(-P.var(axis=0), kind="stable")[:k]]


def next_rows(found: Results, model: Any, Z: np.ndarray | None) -> tuple[np.ndarray, Any, np.ndarray]:
    """Return the unlabelled rows to label next, their predictions and confidences.

    For classes they are chosen by `settle` in the embedding Z, or by least confidence if there is no embedding. For
    numbers they are chosen by `greedy_sample`.
    """
    data = found.data
    rows = data.unlabelled
    if not len(rows):
        return rows, [], np.empty(0)
    if data.facts.numbers:
        return _next_numbers(found, model)
    predicted, confidence = predict_with_confidence(model, data.X[rows])
    if np.isnan(confidence).all():
        return rows[:0], [], np.empty(0)
    chosen = np.argsort(confidence, kind="stable")[:_MOST_NEXT]
    if Z is not None:
        rng = np.random.default_rng(found.settings["random_state"])
        some = np.sort(rng.permutation(len(rows))[:_MOST_SETTLED])
        known = np.sort(rng.permutation(data.labels.index)[:_MOST_SETTLED])
        R = StandardScaler(with_mean=False).fit_transform(Z)
        near, away = nearest(R[rows[some]], R[known]), euclidean_distances(R[rows[some]])
        best = settle(away, near, np.nan_to_num(1 - confidence[some]), _MOST_NEXT)
        settling = some[[one.candidate for one in best]]
        # if `settle` returns fewer rows, the least confident ones follow
        chosen = np.concatenate([settling, np.setdiff1d(chosen, settling)])[:_MOST_NEXT].astype(int)
    return rows[chosen], predicted[chosen], confidence[chosen]


def _next_numbers(found: Results, model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = found.data
    rng = np.random.default_rng(found.settings["random_state"])
    rows = np.sort(rng.permutation(data.unlabelled)[:_MOST_SAMPLED])
    known = np.sort(rng.permutation(data.labels.n_labelled)[:_MOST_SAMPLED])
    own, others = data.X[data.labels.index[known]], data.X[rows]
    if found.settings["scale"] == UNIT_VARIANCE:
        scaler = StandardScaler(with_mean=False).fit(data.X)
        own, others = scaler.transform(own), scaler.transform(others)
    predicted = np.asarray(model.predict(data.X[rows]))
    chosen = greedy_sample(others, predicted, own, data.truth[known], _MOST_NEXT)
    return rows[chosen], predicted[chosen], np.full(len(chosen), np.nan)


def greedy_sample(X: Any, predicted: np.ndarray, X_known: Any, y_known: np.ndarray, most: int) -> np.ndarray:
    """Return up to ``most`` rows by improved greedy sampling.

    Each row has the largest distance to its nearest labelled row, where the distance is the product of the distances
    in X and in y. A chosen row then counts as labelled with its prediction. (Wu, Lin & Huang, Active learning for
    regression using greedy sampling, Information Sciences 2019.)

    >>> X = np.array([[0.1], [5.0], [5.1]])
    >>> greedy_sample(X, np.array([0.0, 9.0, 9.0]), np.array([[0.0]]), np.array([1.0]), 2).tolist()
    [2, 0]
    """
    away = euclidean_distances(X, X_known) * np.abs(predicted[:, None] - y_known)
    chosen: list[int] = []
    least = away.min(axis=1)
    while len(chosen) < min(most, len(least)):
        row = int(np.argmax(least))
        if least[row] <= 0:
            break
        chosen.append(row)
        to_row = euclidean_distances(X, X[[row]])[:, 0] * np.abs(predicted - predicted[row])
        least = np.minimum(least, to_row)
    return np.array(chosen, dtype=int)


class Chosen(NamedTuple):
    """A candidate that was chosen.

    Attributes
    ----------
    candidate : int
        Its index among the candidates.
    gain : float
        See the module.
    takes : ndarray of bool of shape (t,)
        The rows that are nearer to it than to any labelled row.
    """

    candidate: int
    gain: float
    takes: np.ndarray


def settle(
    away: np.ndarray, near: np.ndarray | None, unsure: np.ndarray, most: int, allowed: Any = True
) -> list[Chosen]:
    """Return up to ``most`` candidates, greedily by gain.

    Parameters
    ----------
    away : ndarray of shape (t, c)
        Distances between rows and candidates.
    near : ndarray of shape (t,), or None
        Distance of each row from its nearest labelled row; None if no row is labelled.
    unsure : ndarray of shape (t,)
        Uncertainty of each row.
    allowed : ndarray of bool of shape (c,), or True
        Which candidates may be chosen.

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0, 9.0, 9.5])
    >>> away = np.abs(x[:, None] - x)
    >>> [one.candidate for one in settle(away, None, np.ones(5), 2)]
    [2, 3]
    >>> [one.candidate for one in settle(away, np.abs(x - 1.5), np.ones(5), 1)]
    [3]
    """
    near = np.full(len(away), away.max(initial=0.0)) if near is None else near
    chosen: list[Chosen] = []
    while len(chosen) < most:
        nearer = near[:, None] - away
        counts = np.divide(unsure, near, out=np.zeros(len(near)), where=near > 0).astype(away.dtype)
        gains = np.where(allowed, counts @ np.maximum(nearer, 0.0, out=nearer), 0.0)
        best = int(gains.argmax()) if len(gains) else 0
        if not len(gains) or gains[best] <= 0:
            break
        chosen.append(Chosen(best, float(gains[best]), nearer[:, best] > 0))
        near = np.minimum(near, away[:, best])
    return chosen


def nearest(R: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """Return the distance of each row of R, (t, k), from the nearest row of known; None if that is empty."""
    return euclidean_distances(R, known).min(axis=1).astype(R.dtype) if len(known) else None


def unit(R: np.ndarray) -> np.ndarray:
    """Return centred coordinates with a mean squared norm of 1; zeros if all rows are equal."""
    R = np.nan_to_num(np.asarray(R, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    if not R.size:
        return np.zeros((len(R), 1))
    R = R / max(np.abs(R).max(), np.finfo(np.float64).tiny)  # so that squares do not overflow
    R = R - R.mean(axis=0)
    size = np.sqrt(np.square(R).sum(axis=1).mean())
    return R / size if size > 1e-12 else np.zeros_like(R)
