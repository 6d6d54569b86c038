"""Active learning: which unlabelled rows to label next, given the predictions of the delivered model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

from labelfold.app.compare._explain import predict_with_confidence
from labelfold.app.compare._settle import nearest, settle
from labelfold.app.registry import UNIT_VARIANCE

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison

_MOST_NEXT = 20
_MOST_SETTLED = 2000  # most unlabelled, and most labelled, rows in `settle`
_MOST_LOOKED_AT = 5000  # most unlabelled, and most labelled, rows in `greedy_sample`


def next_rows(found: Comparison, model: Any, Z: np.ndarray | None) -> tuple[np.ndarray, Any, np.ndarray]:
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


def _next_numbers(found: Comparison, model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = found.data
    rng = np.random.default_rng(found.settings["random_state"])
    rows = np.sort(rng.permutation(data.unlabelled)[:_MOST_LOOKED_AT])
    known = np.sort(rng.permutation(data.labels.n_labelled)[:_MOST_LOOKED_AT])
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
