"""The content of the report besides scores: maps, out-of-fold predictions, components, rows to label next.

Rows of classes to label next: each row t counts as explained by its nearest labelled row. The gain of labelling a
candidate c is

    gain(c) = sum over rows t of  u_t max(0, 1 - d(t, c) / d(t, labelled)),

where u_t is the uncertainty of the model about row t, and d a distance. The gain is large if the rows around c are
uncertain, many, and far from labelled rows. Rows chosen one after the other are spread out. With u = 1 this is the
facility-location objective, which needs no model.

Rows of numbers: improved greedy sampling (Wu, Lin & Huang, Active learning for regression using greedy sampling,
Information Sciences 2019).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

from labelfold.app.compare._data import Data, medians
from labelfold.app.compare._held_out import (
    HeldOut,
    calibrate,
    fit_on_all_rows,
    is_calibrated,
    last_step,
    predict_held_out,
    predict_with_confidence,
)
from labelfold.app.compare._scores import Choice
from labelfold.app.compare._store import int_or_none
from labelfold.app.io import Table
from labelfold.app.registry import UNIT_VARIANCE, Method, without_tuning
from labelfold.features import layout
from labelfold.rows import Block, Centered, as_rows

if TYPE_CHECKING:
    from labelfold.app.compare._results import Results

# Choices of presentation: maps of a report, rows on a map, and components of a model and columns of a component.
_MAX_MAPS, _MAX_POINTS, _MAX_SHOWN = 2, 20_000, 12
# Budget of seconds: landmarks of a layout. The other rows are placed among them.
_LANDMARKS = 1000
# Budget: rows whose distances (a matrix of 32 MB), or correlations with views, are computed.
_MAX_ROWS = 2000
# A choice of presentation: minimum confidence in another class for a label to be listed as doubtful.
_SURE = 0.8


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
        Unlabelled rows to label next; see `next_rows`.
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
        how = found.settings
        rows, predicted, sure = next_rows(data, model, embedded, scale=how["scale"], seed=how["random_state"])
        text = [data.named(code) for code in codes(data, predicted)]
        parts, names = _parts(model, data, embedded)
        strengths = None if parts is None else correlations(data.X, parts)
        some = np.random.default_rng(0).permutation(data.X.shape[0])[:_MAX_ROWS]
        columns = [data.column(j) for j in range(data.X.shape[1])]
        views = view_kinds(model, data.X[some], columns)
        return Review(_maps(found), left_out(found), strengths, names, views, rows, text, sure)


def fit_method(found: Results, method: str, k: int | None) -> tuple[Any, HeldOut | None]:
    """Return a method fitted on all rows with all labels, and the held-out predictions that calibrated it."""
    data = found.data
    s = found.settings

    def make(X: Any) -> Any:
        how = {name: s[name] for name in ("random_state", "scale", "task", "class_weight")}
        return found.methods[method].make(k, X=X, **how)

    model = fit_on_all_rows(make, data)
    if is_calibrated(model) or method != found.best_:
        return model, None
    held = predict_held_out(make, data, s["random_state"])
    return calibrate(model, held), held


def _parts(model: Any, data: Any, embedded: np.ndarray | None) -> tuple[np.ndarray | None, list[str]]:
    """Return the components of the rows, or their scores if there are none, and their names."""
    if embedded is not None:
        parts = embedded[:, :_MAX_SHOWN]
        return parts, [f"Component {i + 1}" for i in range(parts.shape[1])]
    if data.facts.numbers:
        return np.asarray(model.predict(data.X), dtype=float)[:, None], ["The predicted number"]
    scores = next((f for f in ("decision_function", "predict_proba") if hasattr(model, f)), None)
    if scores is None:
        return None, []
    parts = np.asarray(getattr(model, scores)(data.X), dtype=float)
    if parts.ndim == 1 or parts.shape[1] == 2 == len(data.classes):
        return parts.reshape(len(parts), -1)[:, -1:], [f"Taken for {data.classes[-1]}"]
    return parts[:, :_MAX_SHOWN], [f"Taken for {name}" for name in data.classes[:_MAX_SHOWN]]


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
        known = known[: max(_MAX_POINTS // 2, _MAX_POINTS - len(data.unlabelled))]
    hidden = rng.permutation(data.unlabelled)[: _MAX_POINTS - len(known[:_MAX_POINTS])]
    rows = np.sort(np.concatenate([known[:_MAX_POINTS], hidden]))
    ranked = found.ranking.dropna(subset="mean")
    ranked = ranked[[found.methods[m].embeds for m in ranked["method"]]]
    best = ranked["method"] == found.best_
    maps = []
    for _, row in ranked.iloc[np.argsort(~best, kind="stable")].head(_MAX_MAPS).iterrows():
        try:
            model = found.fitted(row["method"], int_or_none(row["k"]))
            Z = np.asarray(model.transform(data.X[rows]), dtype=float)
            predicted, confidence = predict_with_confidence(model, data.X[rows])
        except Exception:  # the table has the error of this method
            continue
        title = found.methods[row["method"]].title
        points, axes = plane(Z, data.X[rows])
        maps.append(Map(title, points, rows, codes(data, predicted), confidence, axes))
    if not maps:  # no method embeds
        predicted, confidence = predict_with_confidence(found.fitted(), data.X[rows])
        points, axes = plane(_principal(data.X[rows], _MAX_SHOWN), data.X[rows])
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


class ChosenRow(NamedTuple):
    """A candidate chosen by its gain.

    Attributes
    ----------
    candidate : int
        Its index among the candidates.
    gain : float
        See the module.
    nearer : ndarray of bool of shape (t,)
        The rows that are nearer to it than to any labelled row.
    """

    candidate: int
    gain: float
    nearer: np.ndarray


def choose_by_gain(
    distances: np.ndarray,
    to_labelled: np.ndarray | None,
    uncertainty: np.ndarray,
    n: int,
    allowed: Any = True,
) -> list[ChosenRow]:
    """Return up to n candidates, greedily by gain; fewer if no other candidate has a gain.

    Parameters
    ----------
    distances : ndarray of shape (t, c)
        Distances between rows and candidates.
    to_labelled : ndarray of shape (t,), or None
        Distance of each row from its nearest labelled row; None if no row is labelled.
    uncertainty : ndarray of shape (t,)
    n : int
    allowed : ndarray of bool of shape (c,), or True
        Which candidates may be chosen.

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0, 9.0, 9.5])
    >>> distances = np.abs(x[:, None] - x)
    >>> [one.candidate for one in choose_by_gain(distances, None, np.ones(5), 2)]
    [2, 3]
    >>> [one.candidate for one in choose_by_gain(distances, np.abs(x - 1.5), np.ones(5), 1)]
    [3]
    """
    near = np.full(len(distances), distances.max(initial=0.0)) if to_labelled is None else to_labelled
    chosen: list[ChosenRow] = []
    while len(chosen) < n:
        nearer = near[:, None] - distances
        weights = np.divide(uncertainty, near, out=np.zeros(len(near)), where=near > 0)
        gains = weights.astype(distances.dtype) @ np.maximum(nearer, 0.0, out=nearer)
        gains = np.where(allowed, gains, 0.0)
        best = int(gains.argmax()) if len(gains) else 0
        if not len(gains) or gains[best] <= 0:
            break
        chosen.append(ChosenRow(best, float(gains[best]), nearer[:, best] > 0))
        near = np.minimum(near, distances[:, best])
    return chosen


def distance_to_labelled(R: np.ndarray, labelled: np.ndarray) -> np.ndarray | None:
    """Return the distance of each row of R, (t, k), from the nearest labelled row; None if there is none."""
    return euclidean_distances(R, labelled).min(axis=1).astype(R.dtype) if len(labelled) else None


def greedy_sample(X: Any, predicted: np.ndarray, X_known: Any, y_known: np.ndarray, n: int) -> np.ndarray:
    """Return up to n rows by improved greedy sampling.

    Each row has the largest distance to its nearest labelled row, where the distance is the product of the distances
    in X and in y. A chosen row then counts as labelled with its prediction.

    >>> X = np.array([[0.1], [5.0], [5.1]])
    >>> greedy_sample(X, np.array([0.0, 9.0, 9.0]), np.array([[0.0]]), np.array([1.0]), 2).tolist()
    [2, 0]
    """
    distance = (euclidean_distances(X, X_known) * np.abs(predicted[:, None] - y_known)).min(axis=1)
    chosen: list[int] = []
    while len(chosen) < min(n, len(distance)):
        row = int(np.argmax(distance))
        if distance[row] <= 0:
            break
        chosen.append(row)
        to_row = euclidean_distances(X, X[[row]])[:, 0] * np.abs(predicted - predicted[row])
        distance = np.minimum(distance, to_row)
    return np.array(chosen, dtype=int)


def next_rows(
    data: Data, model: Any, Z: np.ndarray | None, *, scale: str, seed: int, n: int = 20
) -> tuple[np.ndarray, Any, np.ndarray]:
    """Return the n unlabelled rows to label next, their predictions and confidences.

    For classes they are chosen by gain in the embedding Z, or by least confidence if there is no embedding. For
    numbers they are chosen by greedy sampling in the columns, brought to the form ``scale``.
    """
    rows, rng = data.unlabelled, np.random.default_rng(seed)
    if not len(rows):
        return rows, [], np.empty(0)
    if data.facts.numbers:
        rows = np.sort(rng.permutation(rows)[:_MAX_ROWS])
        known = np.sort(rng.permutation(data.labels.n_labelled)[:_MAX_ROWS])
        own, others = data.X[data.labels.index[known]], data.X[rows]
        predicted = np.asarray(model.predict(others))
        if scale == UNIT_VARIANCE:
            scaler = StandardScaler(with_mean=False).fit(data.X)
            own, others = scaler.transform(own), scaler.transform(others)
        chosen = greedy_sample(others, predicted, own, data.truth[known], n)
        return rows[chosen], predicted[chosen], np.full(len(chosen), np.nan)
    predicted, confidence = predict_with_confidence(model, data.X[rows])
    if np.isnan(confidence).all():
        return rows[:0], [], np.empty(0)
    chosen = np.argsort(confidence, kind="stable")[:n]
    if Z is not None:
        some = np.sort(rng.permutation(len(rows))[:_MAX_ROWS])
        known = np.sort(rng.permutation(data.labels.index)[:_MAX_ROWS])
        R = StandardScaler(with_mean=False).fit_transform(Z)
        near, distances = distance_to_labelled(R[rows[some]], R[known]), euclidean_distances(R[rows[some]])
        best = choose_by_gain(distances, near, np.nan_to_num(1 - confidence[some]), n)
        by_gain = some[[one.candidate for one in best]]
        # the least confident rows follow if few have a gain
        chosen = np.concatenate([by_gain, np.setdiff1d(chosen, by_gain)])[:n].astype(int)
    return rows[chosen], predicted[chosen], confidence[chosen]


_VIEWS = {
    "linear": "linear: weighted sums of all columns",
    "principal": "principal: weighted sums of the main directions of the columns",
    "rbf": "RBF: likeness to labelled rows, by squared differences of the columns",
    "laplace": "Laplace: likeness to labelled rows, by differences summed column by column",
    "graph": "graph: labels passed on between rows that are neighbours in the columns",
    "trees": "extra trees: questions about one column at a time",
}


def correlations(X: Any, Z: np.ndarray) -> np.ndarray:
    """Return the correlation of every component with every column, (k, d); 0 if one of them is constant.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The rows.
    Z : ndarray of shape (n, k)
        Their embedding.

    Examples
    --------
    >>> X = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    >>> correlations(X, np.array([[3.0], [2.0], [1.0]])).round(6).tolist()
    [[-1.0, 0.0]]
    """
    Z = np.asarray(Z, dtype=np.float64)
    Z = Z - Z.mean(axis=0)
    rows = as_rows(X)
    mean = rows.mean()
    squares, products = Centered(rows, mean).sum(_squares_and_products, Z)
    norms = np.linalg.norm(Z, axis=0)
    scale = np.sqrt(np.maximum(squares, 0))[:, None] * norms
    # below this a column or component is constant up to rounding
    tiny = 1e-7 * np.sqrt(len(Z)) * np.maximum(np.abs(mean), 1e-300)[:, None] * norms
    return np.divide(products, scale, out=np.zeros_like(products), where=scale > tiny).T


def _squares_and_products(X: Block, Z: np.ndarray) -> tuple[Any, Any]:
    X = X.double()
    return X.colsq(), X.t(Z)


def top_features(
    strengths: np.ndarray, names: Sequence[str], most: int = _MAX_SHOWN
) -> list[list[tuple[str, float]]]:
    """Return for each of the first components the columns of largest absolute correlation, with the correlation.

    >>> top_features(np.array([[0.1, -0.9, 0.0, 0.5]]), ["a", "b", "c", "d"], most=2)
    [[('b', -0.9), ('d', 0.5)]]
    """
    found = []
    for row in strengths[:_MAX_SHOWN]:
        order = np.argsort(-np.abs(row), kind="stable")[:most]
        found.append([(names[j], float(row[j])) for j in order if row[j] != 0])
    return found


class ViewKind(NamedTuple):
    """The views of one kind and one form of the columns in a LabelFold, and their share of the weight.

    ``columns`` are the columns that correlate most with the scores of these views.
    """

    what: str
    form: str
    share: float
    columns: list[str]


def view_kinds(model: Any, X: Any = None, names: Sequence[str] = (), most: int = 4) -> list[ViewKind]:
    """Return the kinds of views that a LabelFold blends with a weight of 1% or more, heaviest first.

    Parameters
    ----------
    model : estimator
        Only a LabelFold has views.
    X : array or sparse matrix, optional
        Rows for the correlations of views with columns.
    names : sequence of str
        Names of the columns.
    most : int, default=4
        Largest number of columns named for a kind.

    Returns
    -------
    list of ViewKind
    """
    table = getattr(model, "view_weights_", None)
    if table is None:
        return []
    total: dict[tuple[str, str], float] = {}
    for family, form, weight in zip(table["family"], table["form"], table["weight"], strict=True):
        total[str(family), str(form)] = total.get((str(family), str(form)), 0.0) + float(weight)
    scores = {} if X is None else model.view_scores(X)
    found = []
    for (family, form), share in sorted(total.items(), key=lambda item: -item[1]):
        if share < 0.01:
            continue
        part = scores.get(("linear" if family == "principal" else family, form))
        columns = []
        if part is not None:
            closest = np.abs(correlations(X, part)).max(axis=0, keepdims=True)
            columns = [name for name, _ in top_features(closest, names, most)[0]]
        found.append(ViewKind(_VIEWS.get(family, family), form, share, columns))
    return found


def save_fit(
    path: str | os.PathLike[str],
    model: Any,
    method: Method,
    table: Table,
    data: Data,
    embedded: np.ndarray | None,
    expected: Choice | None,
) -> Path:
    """Save a fitted model, as one that takes the user's rows, with notes about its data and its components.

    Parameters
    ----------
    path : path
        The model file.
    model : estimator
        Fitted on the matrix of ``data``.
    method : Method
        The method.
    table : Table
        The table that the data were read from.
    data : Data
        Rows and labels.
    embedded : ndarray of shape (n, k), or None
        The embedding of the rows, if the method embeds.
    expected : Choice or None
        The expected score, if it is known.

    Returns
    -------
    Path
        The file written.
    """
    from labelfold.app.io import save_model

    labels, numbers = data.labels, data.facts.numbers
    tops = None
    if embedded is not None:
        names = [data.column(j) for j in range(data.X.shape[1])]
        tops = top_features(correlations(data.X, embedded[:, :_MAX_SHOWN]), names)
    return save_model(
        data.with_recipe(without_tuning(model)),
        path,
        method=method.name,
        target=table.targets or None,
        # a recipe stores the names itself
        columns=table.feature_names if data.recipe is None else None,
        images=table.images,
        index_base=table.index_base,
        n_components=None if embedded is None else int(embedded.shape[1]),
        n_rows=int(data.X.shape[0]),
        n_labelled=int(labels.n_labelled),
        counts=None if numbers else labels.counts().tolist(),
        range=[float(labels.values.min()), float(labels.values.max())] if numbers else None,
        within=None if expected is None else expected.within,
        top_features=tops,
        # a recipe stores the medians itself
        medians=medians(data.X).tolist() if data.recipe is None and not data.facts.sparse else None,
    )
