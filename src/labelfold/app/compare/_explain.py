"""Explains a fitted model: confidence of predictions, and correlations of its components with columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.pipeline import Pipeline

from labelfold.app.compare._data import medians

_SLAB = 16384  # rows
_LEAST_SHARE = 1e-3  # probabilities are clipped here before the logarithm
MOST_COMPONENTS = 12  # most components shown of a model, and columns of each
_MOST_COLUMNS = 4  # most columns named for a view
_VIEWS = {
    "linear": "linear: weighted sums of all columns",
    "principal": "principal: weighted sums of the main directions of the columns",
    "rbf": "RBF: likeness to labelled rows, by squared differences of the columns",
    "laplace": "Laplace: likeness to labelled rows, by differences summed column by column",
    "graph": "graph: labels passed on between rows that are neighbours in the columns",
    "trees": "extra trees: questions about one column at a time",
}


def predict_with_confidence(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's prediction and its confidence, between 0 and 1.

    For a model from `calibrate` it is 1 / (1 + exp(-a m - b)), with m from `score_gap`: the probability that the
    prediction is right. For another model it is its own probability of the class (multi-label: that all labels are
    right). If the model has scores only, it is the same formula with a = 1 and b = 0, which can only rank rows. NaN
    if the model has neither.

    Parameters
    ----------
    model : classifier
        Fitted.
    X : array or sparse matrix of shape (n, d)
        The rows.

    Returns
    -------
    predicted : ndarray of shape (n,) or (n, c)
    confidence : ndarray of shape (n,)
    """
    predicted = np.asarray(model.predict(X))
    curve = getattr(last_step(model), "confidence_curve_", None)
    shares = _shares(model, X, predicted) if curve is None else None
    if shares is not None:
        if predicted.ndim == 2:
            return predicted, np.maximum(shares, 1 - shares).prod(axis=1)
        return predicted, shares.max(axis=1)
    slope, intercept = (1.0, 0.0) if curve is None else curve
    return predicted, expit(slope * score_gap(model, X, predicted) + intercept)


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline, or the model itself."""
    return model[-1] if isinstance(model, Pipeline) else model


def score_gap(model: Any, X: Any, predicted: np.ndarray) -> np.ndarray:
    """Return the difference between the two highest scores of each row; NaN if the model has no scores.

    For two classes it is twice the absolute score. For several labels a row it is that of the least certain label.
    If the model has probabilities only, their logarithms are the scores.
    """
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X), dtype=float)
        if predicted.ndim == 2:
            return 2 * np.abs(scores).min(axis=1)
        if scores.ndim == 1:
            return 2 * np.abs(scores)
    else:
        shares = _shares(model, X, predicted)
        if shares is None:
            return np.full(len(predicted), np.nan)
        if predicted.ndim == 2:
            shares = np.stack([shares, 1 - shares], axis=-1)
        scores = np.log(np.maximum(shares, _LEAST_SHARE))
    gap = top_gap(scores)
    return gap if gap.ndim == 1 else gap.min(axis=1)


def top_gap(scores: np.ndarray) -> np.ndarray:
    """Return the difference between the two highest scores along the last axis."""
    best = np.partition(scores, -2, axis=-1)
    return best[..., -1] - best[..., -2]


def _shares(model: Any, X: Any, predicted: np.ndarray) -> np.ndarray | None:
    """Return the probabilities of classes or labels; None if the model has none."""
    if not hasattr(model, "predict_proba"):
        return None
    shares = np.asarray(model.predict_proba(X))
    fits = shares.shape == predicted.shape if predicted.ndim == 2 else shares.ndim == 2
    # label propagation gives NaN to rows that no label reaches
    return np.nan_to_num(shares) if fits else None


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
    n = X.shape[0]
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    squares, shared = np.zeros(X.shape[1]), np.zeros((X.shape[1], Z.shape[1]))
    for i in range(0, n, _SLAB):  # slab by slab, so that X is not copied
        rows, placed = X[i : i + _SLAB], Z[i : i + _SLAB]
        if sp.issparse(X):
            squares += np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, X.shape[1])
        else:
            rows = rows - mean
            squares += np.einsum("ij,ij->j", rows, rows)
        shared += rows.T @ placed  # Z is centred, so a sparse X need not be
    if sp.issparse(X):
        squares -= n * mean**2
    scale = np.sqrt(np.maximum(squares, 0))[:, None] * np.linalg.norm(Z, axis=0)
    # below this a column or component is constant up to rounding
    tiny = 1e-7 * np.sqrt(n) * np.maximum(np.abs(mean), 1e-300)[:, None] * np.linalg.norm(Z, axis=0)
    return np.divide(shared, scale, out=np.zeros_like(shared), where=scale > tiny).T


def top_features(strengths: np.ndarray, names: list[str], most: int = 8) -> list[list[tuple[str, float]]]:
    """Return for each component the columns of largest absolute correlation, with the correlation.

    >>> top_features(np.array([[0.1, -0.9, 0.0, 0.5]]), ["a", "b", "c", "d"], most=2)
    [[('b', -0.9), ('d', 0.5)]]
    """
    found = []
    for row in strengths:
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


def view_kinds(model: Any, X: Any = None, names: Sequence[str] = ()) -> list[ViewKind]:
    """Return the kinds of views that a LabelFold blends with a weight of 1% or more, heaviest first.

    Parameters
    ----------
    model : estimator
        Only a LabelFold has views.
    X : array or sparse matrix, optional
        Rows for the correlations of views with columns.
    names : sequence of str
        Names of the columns.

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
            columns = [name for name, _ in top_features(closest, list(names), _MOST_COLUMNS)[0]]
        found.append(ViewKind(_VIEWS.get(family, family), form, share, columns))
    return found


def fit_notes(method: Any, table: Any, data: Any, embedded: Any, expected: Any) -> dict[str, Any]:
    """Return the notes that are saved with a model: its data, and the columns that its components correlate with."""
    labels = data.labels
    numbers = labels.task == "regression"
    tops = None
    if embedded is not None:
        names = [data.column(j) for j in range(data.X.shape[1])]
        tops = top_features(
            correlations(data.X, np.asarray(embedded)[:, :MOST_COMPONENTS]), names, MOST_COMPONENTS
        )
    return {
        "method": method.name,
        "target": table.targets or None,
        # a recipe stores the names itself
        "columns": table.feature_names if data.recipe is None else None,
        "images": table.images,
        "index_base": table.index_base,
        "n_components": None if embedded is None else int(embedded.shape[1]),
        "n_rows": int(data.X.shape[0]),
        "n_labelled": int(labels.n_labelled),
        "counts": None if numbers else labels.counts().tolist(),
        "range": [float(labels.values.min()), float(labels.values.max())] if numbers else None,
        "within": None if expected is None else expected.within,
        "top_features": tops,
        # a recipe stores the medians itself
        "medians": medians(data.X).tolist() if data.recipe is None and not data.facts.sparse else None,
    }
