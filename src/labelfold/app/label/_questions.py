"""Which row to ask next, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from labelfold import LabelFold

STRATEGIES = {
    "mixed": "rows that would settle others, rows unlike any labelled, and one in four at random",
    "unsure": "the row the model is least sure of, and one in four at random",
    "spread": "rows unlike any labelled, and one in four at random",
    "random": "every row at random",
}

_RANDOM_EVERY = 4


@dataclass(frozen=True)
class Question:
    """A row to label.

    Attributes
    ----------
    row : int
    reason : str
        Why this one, a phrase for the page.
    how : str
        "random", or the name of what chose it: written to the journal.
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
        Of what is drawn at random.
    """

    def __init__(self, n_rows: int, *, seed: int = 0) -> None:
        self.n_rows = n_rows
        self._order = np.random.default_rng(seed).permutation(n_rows)

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
        """Return the next question, or None where every row has been asked or labelled.

        Parameters
        ----------
        fold : LabelFold or None
            Fitted with the labels there are; None while there are fewer than two classes.
        Z : ndarray of shape (n, k) or None
            An embedding: the fold's, or an unsupervised one while there is no fold.
        labelled : ndarray of bool of shape (n,)
        strategy : str
            One of `STRATEGIES`.
        asked : collection of int
            Rows that were shown before, answered or skipped.
        n_answered : int
            Questions answered so far.
        """
        left = ~np.asarray(labelled, dtype=bool)
        left[list(asked)] = False
        if not left.any():
            return None
        if strategy == "random" or n_answered % _RANDOM_EVERY == _RANDOM_EVERY - 1 or fold is None:
            row = int(self._order[left[self._order]][0])
            return Question(row, "drawn at random, to measure the accuracy", "random")
        p = fold.label_distributions_
        rows = np.flatnonzero(left)
        row = int(rows[p[rows].max(axis=1).argmin()])
        first, second = np.argsort(-p[row], kind="stable")[:2]
        return Question(row, f"unsure between {fold.classes_[first]} and {fold.classes_[second]}", "unsure")
