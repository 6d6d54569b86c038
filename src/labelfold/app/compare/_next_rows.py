"""Which unlabelled rows are most worth a label, given what the delivered model says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

from labelfold.app._explain import predict_with_confidence
from labelfold.app._settle import nearest, settle
from labelfold.features._column_kind import UNIT_VARIANCE

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison

_MOST_NEXT = 20
_MOST_SETTLED = 2000  # most unlabelled and labelled rows in the choice of rows to label
_MOST_LOOKED_AT = 5000  # most unlabelled and labelled rows in distance matrices


def next_rows(found: Comparison, model: Any, Z: np.ndarray | None) -> tuple[np.ndarray, Any, np.ndarray]:
    """Return the unlabelled rows to label next, what the model predicts for them and how sure it is.

    Classes: those that settle most of what the model is unsure of, by their places in the embedding Z (see `settle`);
    without an embedding those that it is least sure of. Numbers: see `greedy_sample`.
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
        R = each_alike(Z)
        near, away = nearest(R[rows[some]], R[known]), euclidean_distances(R[rows[some]])
        best = settle(away, near, np.nan_to_num(1 - confidence[some]), _MOST_NEXT)
        settling = some[[one.candidate for one in best]]
        # where nothing is left to settle: the least sure
        chosen = np.concatenate([settling, np.setdiff1d(chosen, settling)])[:_MOST_NEXT].astype(int)
    return rows[chosen], predicted[chosen], confidence[chosen]


def each_alike(Z: np.ndarray) -> np.ndarray:
    """Return an embedding whose coordinates vary alike."""
    spread = Z.std(axis=0)
    return Z / np.where(spread > 0, spread, 1.0)


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
    """Return rows that are far from all labelled ones, and from each other, both in X and in their number.

    The row taken has the largest least product of the two distances (improved greedy sampling: Wu, Lin & Huang,
    Active learning for regression using greedy sampling, Information Sciences 2019). A row taken counts as labelled
    with its prediction.

    >>> X = np.array([[0.1], [5.0], [5.1]])
    >>> greedy_sample(X, np.array([0.0, 9.0, 9.0]), np.array([[0.0]]), np.array([1.0]), 2).tolist()
    [2, 0]
    """
    away = euclidean_distances(X, X_known) * np.abs(predicted[:, None] - y_known)

    def away_from(row: int) -> np.ndarray:
        return euclidean_distances(X, X[[row]])[:, 0] * np.abs(predicted - predicted[row])

    return _farthest_first(away.min(axis=1), away_from, [], most)


def _farthest_first(
    least: np.ndarray, away_from: Callable[[int], np.ndarray], chosen: list[int], most: int
) -> np.ndarray:
    """Return the rows chosen and more, up to ``most``: each the farthest, by its least distance, from them."""
    while len(chosen) < min(most, len(least)):
        farthest = int(np.argmax(least))
        if least[farthest] <= 0:
            break
        chosen.append(farthest)
        least = np.minimum(least, away_from(farthest))
    return np.array(chosen, dtype=int)
