"""Active learning: which unlabelled rows to label next, for the report and for the labelling page.

Classes: each row t counts as explained by its nearest labelled row. The gain of labelling a candidate c is

    gain(c) = sum over rows t of  u_t max(0, 1 - d(t, c) / d(t, labelled)),

where u_t is the uncertainty of the model about row t, and d a distance. The gain is large if the rows around c are
uncertain, many, and far from labelled rows. Rows chosen one after the other are spread out. With u = 1 this is the
facility-location objective, which needs no model.

Numbers: improved greedy sampling (Wu, Lin & Huang, Active learning for regression using greedy sampling, Information
Sciences 2019).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

from labelfold import LabelFold
from labelfold.app.compare._data import Data
from labelfold.app.compare._held_out import predict_with_confidence, top_gap
from labelfold.app.registry import UNIT_VARIANCE
from labelfold.semi_supervised import unsupervised

STRATEGIES = {
    "mixed": "rows that would settle most of what is unsure around them, and one in four at random",
    "unsure": "the row the model is least sure of, and one in four at random",
    "spread": "rows that stand for many others and are unlike the labelled ones, and one in four at random",
    "random": "every row at random",
}
# Numbers of unlabelled and of labelled rows whose distances are computed: for a report, and for a question of the
# labelling page, which is answered between two clicks.
_MAX_ROWS, _MAX_ROWS_OF_QUESTION = 2000, 1200
# Every fourth question, from the first on, is a random row, to measure the accuracy.
_RANDOM_EVERY = 4
# A row is called unsure if the probabilities of its two most probable classes differ by at most this.
_UNSURE = 0.5


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


@dataclass(frozen=True)
class Question:
    """A row to label on the page.

    Attributes
    ----------
    row : int
    reason : str
        Why this row is asked, a phrase for the page.
    how : str
        "random", "unsure", "spread", or "settle" for a row of largest gain; written to the journal.
    """

    row: int
    reason: str
    how: str


class Questions:
    """The questions of one session of the labelling page.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    seed : int, default=0
        Seed.
    """

    def __init__(self, n_rows: int, *, seed: int = 0) -> None:
        self.n_rows = n_rows
        self._rng = np.random.default_rng(seed)
        self._order = self._rng.permutation(n_rows)
        self._drawn = np.empty(0, dtype=int)
        self._scaled = np.empty((0, 1))
        # what the coordinates are from, coordinates of the candidates, and the distances between them
        self._cached: tuple[Any, np.ndarray, np.ndarray] | None = None

    def next(
        self,
        fold: LabelFold | None,
        Z: np.ndarray | None,
        labelled: np.ndarray,
        *,
        strategy: str,
        asked: Collection[int],
        n_answered: int,
    ) -> Question | None:
        """Return the next question, or None if every row has been asked or labelled.

        Parameters
        ----------
        fold : LabelFold or None
            Fitted with the current labels; None if there are fewer than two classes. Every call gets a refit of the
            same model.
        Z : ndarray of shape (n, k) or None
            An unsupervised embedding, used if there is no fold.
        labelled : ndarray of bool of shape (n,)
        strategy : str
            One of `STRATEGIES`.
        asked : collection of int
            Rows that were shown before, answered or skipped.
        n_answered : int
            Questions answered so far.
        """
        if strategy not in STRATEGIES:
            raise ValueError(f"there is no strategy {strategy!r}; give one of {', '.join(STRATEGIES)}")
        left = ~np.asarray(labelled, dtype=bool)
        left[np.fromiter(asked, dtype=int, count=len(asked))] = False
        if not left.any():
            return None
        if strategy != "random" and n_answered % _RANDOM_EVERY and (fold is not None or Z is not None):
            if strategy == "unsure" and fold is not None:
                p, rows = fold.label_distributions_, np.flatnonzero(left)
                row = int(rows[p[rows].max(axis=1).argmin()])
                return Question(row, unsure_between(fold, p[row]), "unsure")
            found = self._by_gain(fold, Z, left, strategy, n_answered)
            if found is not None:
                return found
        row = int(self._order[left[self._order].argmax()])
        return Question(row, "drawn at random, to measure the accuracy", "random")

    def _by_gain(
        self, fold: LabelFold | None, Z: np.ndarray | None, left: np.ndarray, strategy: str, n_answered: int
    ) -> Question | None:
        """Return the row of largest gain, with the reason; None if all rows are equal."""
        rows = self._candidates(left)
        # skipped rows count as labelled, so that their neighbours are not asked instead
        known = np.flatnonzero(~left)
        if len(known) > _MAX_ROWS_OF_QUESTION:
            known = np.sort(self._rng.permutation(known)[:_MAX_ROWS_OF_QUESTION])
        R, distances = self._distances(fold, Z, rows)
        near = distance_to_labelled(R, self._coordinates(fold, known))
        p = None if fold is None or strategy == "spread" else fold.label_distributions_[rows]
        uncertainty = np.ones(len(rows)) if p is None else 1 - top_gap(p)
        chosen = choose_by_gain(distances, near, uncertainty, 1, left[rows])
        if not chosen:
            return None
        i, reasons = chosen[0].candidate, []
        if near is not None and near[i] >= np.quantile(near[left[rows]], 0.95):
            reasons.append("unlike anything labelled")
        if fold is not None and p is not None and uncertainty[i] >= _UNSURE:
            reasons.append(unsure_between(fold, p[i]))
        others = chosen[0].nearer & (uncertainty >= _UNSURE)
        count = round((others.sum() - others[i]) * self.n_rows / len(rows))
        if count > 1:
            reasons.append(f"would settle {count:,} others")
        if fold is None and n_answered < 12:
            reasons = ["one of a spread-out first dozen"]
        how = "spread" if p is None else "settle"
        return Question(int(rows[i]), ", ".join(reasons) or "unlike what is labelled nearby", how)

    def _candidates(self, left: np.ndarray) -> np.ndarray:
        """Return the candidates. They stay the same while most of them are unlabelled."""
        if left[self._drawn].sum() < min(len(self._drawn) * 3 // 4, left.sum()) or not len(self._drawn):
            rows = np.flatnonzero(left)
            self._drawn = np.sort(self._rng.permutation(rows)[:_MAX_ROWS_OF_QUESTION])
            self._cached = None
        return self._drawn

    def _distances(
        self, fold: LabelFold | None, Z: np.ndarray | None, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return coordinates of the candidates, and their pairwise distances."""
        source = Z if fold is None else LabelFold
        if self._cached is None or self._cached[0] is not source:
            if fold is None:
                self._scaled = unit_scale(np.asarray(Z))
            R = self._coordinates(fold, rows)
            self._cached = (source, R, euclidean_distances(R).astype(np.float32))
        return self._cached[1], self._cached[2]

    def _coordinates(self, fold: LabelFold | None, rows: np.ndarray) -> np.ndarray:
        found = self._scaled[rows] if fold is None else unsupervised(fold, rows)
        return found.astype(np.float32)


def unsure_between(fold: LabelFold, p: np.ndarray) -> str:
    """Return a phrase that names the two most probable classes of a row."""
    first, second = np.argsort(-p, kind="stable")[:2]
    return f"unsure between {fold.classes_[first]} and {fold.classes_[second]}"


def unit_scale(R: np.ndarray) -> np.ndarray:
    """Return centred coordinates with a mean squared norm of 1; zeros if all rows are equal."""
    R = np.nan_to_num(np.asarray(R, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    if not R.size:
        return np.zeros((len(R), 1))
    R = R / max(np.abs(R).max(), np.finfo(np.float64).tiny)  # so that squares do not overflow
    R = R - R.mean(axis=0)
    size = np.sqrt(np.square(R).sum(axis=1).mean())
    return R / size if size > 1e-12 else np.zeros_like(R)
