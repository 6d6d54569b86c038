"""Active learning on the labelling page: which row to ask next."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from labelfold import LabelFold
from labelfold.app.compare import choose_by_gain, distance_to_labelled
from labelfold.semi_supervised import unsupervised

STRATEGIES = {
    "mixed": "rows that would settle most of what is unsure around them, and one in four at random",
    "unsure": "the row the model is least sure of, and one in four at random",
    "spread": "rows that stand for many others and are unlike the labelled ones, and one in four at random",
    "random": "every row at random",
}
# Budget of the time between two clicks (benchmarks/labelling.py): unlabelled, and labelled rows whose distances are
# computed, a matrix of 6 MB.
_MAX_ROWS = 1200
# Every fourth question, from the first on, is a random row, to measure the accuracy. experiments/labelling.py
# measures the number of labels that the questions need, and how often the interval holds.
_RANDOM_EVERY = 4
# A choice of presentation: a row is called unsure if the probabilities of its two most probable classes differ by at
# most this.
_UNSURE = 0.5


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
        # an embedding, and its coordinates in unit scale
        self._scaled: tuple[Any, np.ndarray] = (None, np.empty((0, 1)))

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
        if len(known) > _MAX_ROWS:
            known = np.sort(self._rng.permutation(known)[:_MAX_ROWS])
        R = self._coordinates(fold, Z, rows)
        distances = euclidean_distances(R).astype(np.float32)
        near = distance_to_labelled(R, self._coordinates(fold, Z, known))
        p = None if fold is None or strategy == "spread" else fold.label_distributions_[rows]
        uncertainty = np.ones(len(rows)) if p is None else 1 - _lead(p)
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
            self._drawn = np.sort(self._rng.permutation(rows)[:_MAX_ROWS])
        return self._drawn

    def _coordinates(self, fold: LabelFold | None, Z: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
        if fold is not None:
            return unsupervised(fold, rows).astype(np.float32)
        if self._scaled[0] is not Z:
            self._scaled = Z, unit_scale(np.asarray(Z))
        return self._scaled[1][rows].astype(np.float32)


def unsure_between(fold: LabelFold, p: np.ndarray) -> str:
    """Return a phrase that names the two most probable classes of a row."""
    first, second = np.argsort(-p, kind="stable")[:2]
    return f"unsure between {fold.classes_[first]} and {fold.classes_[second]}"


def _lead(p: np.ndarray) -> np.ndarray:
    """Return the difference between the two highest probabilities of each row."""
    best = np.partition(p, -2, axis=1)
    return best[:, -1] - best[:, -2]


def unit_scale(R: np.ndarray) -> np.ndarray:
    """Return centred coordinates with a mean squared norm of 1; zeros if all rows are equal."""
    R = np.nan_to_num(np.asarray(R, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    if not R.size:
        return np.zeros((len(R), 1))
    R = R / max(np.abs(R).max(), np.finfo(np.float64).tiny)  # so that squares do not overflow
    R = R - R.mean(axis=0)
    size = np.sqrt(np.square(R).sum(axis=1).mean())
    return R / size if size > 1e-12 else np.zeros_like(R)
