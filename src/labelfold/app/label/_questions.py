"""Chooses the next row to ask for, with the reason."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from labelfold import LabelFold
from labelfold.app.compare import nearest, settle, top_gap, unit
from labelfold.semi_supervised import unsupervised

STRATEGIES = {
    "mixed": "rows that would settle most of what is unsure around them, and one in four at random",
    "unsure": "the row the model is least sure of, and one in four at random",
    "spread": "rows that stand for many others and are unlike the labelled ones, and one in four at random",
    "random": "every row at random",
}

# Every fourth question, from the first on, is a random row.
_RANDOM_EVERY = 4

# Number of unlabelled candidates, and of labelled rows that they are compared with.
_LOOKED_AT, _COMPARED = 1200, 1200

# Up to this many answers, the reason shown is that this is one of the first questions.
_FIRST = 12

# A row is called unsure if the probabilities of its two most probable classes differ by at most 1 minus the first
# value. It is called unlike anything labelled if its distance from labelled rows is in the largest share given by
# the second.
_UNSURE, _UNLIKE = 0.5, 0.05


@dataclass(frozen=True)
class Question:
    """A row to label.

    Attributes
    ----------
    row : int
    reason : str
        Why this row is asked, a phrase for the page.
    how : str
        "random", or the name of the strategy; written to the journal.
    """

    row: int
    reason: str
    how: str


class Questions:
    """The questions of one session.

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
        self._unit = np.empty((0, 1))
        self._places: tuple[Any, np.ndarray, np.ndarray] | None = None

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
            Fitted with the current labels; None if there are fewer than two classes.
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
            found = self._unsure(fold, left) if strategy == "unsure" and fold is not None else None
            found = found or self._settling(fold, Z, left, strategy, n_answered)
            if found is not None:
                return found
        row = int(self._order[left[self._order].argmax()])
        return Question(row, "drawn at random, to measure the accuracy", "random")

    @staticmethod
    def _unsure(fold: LabelFold, left: np.ndarray) -> Question:
        p, rows = fold.label_distributions_, np.flatnonzero(left)
        row = int(rows[p[rows].max(axis=1).argmin()])
        return Question(row, unsure_between(fold, p[row]), "unsure")

    def _settling(
        self, fold: LabelFold | None, Z: np.ndarray | None, left: np.ndarray, strategy: str, n_answered: int
    ) -> Question | None:
        """Return the row of largest gain (see `settle`), with the reason; None if all rows are equal."""
        rows = self._look_at(left)
        known = np.flatnonzero(~left)  # with skipped rows, so that their neighbours are not asked instead
        if len(known) > _COMPARED:
            known = np.sort(self._rng.permutation(known)[:_COMPARED])
        R, away, K = self._place(fold, Z, rows, known)
        near = nearest(R, K)
        p = None if fold is None or strategy == "spread" else fold.label_distributions_[rows]
        unsure = np.ones(len(rows)) if p is None else 1 - top_gap(p)
        chosen = settle(away, near, unsure, 1, left[rows])
        if not chosen:
            return None
        i, reasons = chosen[0].candidate, []
        if near is not None and near[i] >= np.quantile(near[left[rows]], 1 - _UNLIKE):
            reasons.append("unlike anything labelled")
        if fold is not None and p is not None and unsure[i] >= _UNSURE:
            reasons.append(unsure_between(fold, p[i]))
        others = chosen[0].takes & (unsure >= _UNSURE)
        count = round((others.sum() - others[i]) * self.n_rows / len(rows))
        if count > 1:
            reasons.append(f"would settle {count:,} others")
        if fold is None and n_answered < _FIRST:
            reasons = ["one of a spread-out first dozen"]
        how = "spread" if p is None else "settle"
        return Question(int(rows[i]), ", ".join(reasons) or "unlike what is labelled nearby", how)

    def _look_at(self, left: np.ndarray) -> np.ndarray:
        """Return the candidates. They stay the same while most of them are unlabelled."""
        if left[self._drawn].sum() < min(len(self._drawn) * 3 // 4, left.sum()) or not len(self._drawn):
            rows = np.flatnonzero(left)
            self._drawn = np.sort(self._rng.permutation(rows)[:_LOOKED_AT])
            self._places = None
        return self._drawn

    def _place(
        self, fold: LabelFold | None, Z: np.ndarray | None, rows: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return coordinates of candidates, their pairwise distances, and coordinates of labelled rows."""
        source = Z if fold is None else fold._pieces
        if self._places is None or self._places[0] is not source:
            if fold is None:
                self._unit = unit(np.asarray(Z))
            R = self._coordinates(fold, rows)
            self._places = (source, R, euclidean_distances(R).astype(np.float32))
        return self._places[1], self._places[2], self._coordinates(fold, known)

    def _coordinates(self, fold: LabelFold | None, rows: np.ndarray) -> np.ndarray:
        found = self._unit[rows] if fold is None else unsupervised(fold, rows)
        return found.astype(np.float32)


def unsure_between(fold: LabelFold, p: np.ndarray) -> str:
    """Return a phrase that names the two most probable classes of a row."""
    first, second = np.argsort(-p, kind="stable")[:2]
    return f"unsure between {fold.classes_[first]} and {fold.classes_[second]}"
