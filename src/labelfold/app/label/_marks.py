"""The current labels, computed from the actions in the journal; undo and redo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from labelfold.app.label._honest import Answer

# How a row can be labelled other than by answering a question.
CLICK, LASSO, CHANGE, SKIP, UNDO, REDO = "click", "lasso", "change", "skip", "undo", "redo"
_OWN = {CLICK, LASSO, CHANGE, SKIP, UNDO, REDO}


@dataclass(frozen=True)
class Mark:
    """A label of a row, None if it is removed, with the prediction before."""

    row: int
    label: str | None
    predicted: str | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Action:
    """One action (a key or a lasso): how, and the labels of its rows before and after."""

    how: str
    before: dict[int, str | None] = field(repr=False)
    after: dict[int, str | None] = field(repr=False)


class Marks:
    """The labels of all rows, the classes in the order of their keys, and what can be undone.

    Parameters
    ----------
    given : sequence of str or None
        The labels of the table itself. They are not answers to questions.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Text, None where unlabelled.
    codes : ndarray of int16 of shape (n,)
        Indices in ``classes``, -1 where unlabelled.
    classes : list of str
        A class keeps its index once it has one.
    skipped : set of int
        Rows that were skipped.
    kept : set of int
        Rows whose label was confirmed; they are no longer listed as doubtful.
    done, undone : list of Action
    """

    def __init__(self, given: Sequence[str | None]) -> None:
        n = len(given)
        self.labels = np.full(n, None, dtype=object)
        self.codes = np.full(n, -1, dtype=np.int16)
        self.classes: list[str] = []
        self.skipped: set[int] = set()
        self.kept: set[int] = set()
        self.done: list[Action] = []
        self.undone: list[Action] = []
        self._places: dict[str, int] = {}
        self._asked: dict[int, tuple[str | None, float, str, int]] = {}
        for name in sorted({label for label in given if label is not None}, key=_natural):
            self.add_class(name)
        for row, label in enumerate(given):
            self._set(row, label)
        self.n_labels = int((self.codes >= 0).sum())

    def add_class(self, name: str) -> None:
        """Add a class, unless it exists."""
        if name not in self._places:
            self._places[name] = len(self.classes)
            self.classes.append(name)

    def _set(self, row: int, label: str | None) -> None:
        self.labels[row] = label
        if label is not None:
            self.add_class(label)
        self.codes[row] = -1 if label is None else self._places[label]

    def apply(self, how: str, marks: Sequence[Mark]) -> None:
        """Apply an action of the page or of the journal."""
        before = {mark.row: self.labels[mark.row] for mark in marks}
        after = {mark.row: mark.label for mark in marks}
        asked = how not in _OWN
        for mark in marks:
            old = self.labels[mark.row]
            if asked and mark.row not in self._asked:
                sure = 0.0 if mark.confidence is None else mark.confidence
                self._asked[mark.row] = mark.predicted, sure, how, self.n_labels
            if old is not None and mark.label == old and how in (CLICK, CHANGE):
                self.kept.add(mark.row)
            elif mark.label != old:
                self.kept.discard(mark.row)
            self.n_labels += (mark.label is not None) - (old is not None)
            self._set(mark.row, mark.label)
        if how == UNDO:
            back = self.done.pop() if self.done else None
            if back is not None:
                self.undone.append(back)
                self.skipped.difference_update(back.after if back.how == SKIP else ())
            return
        if how == REDO:
            again = self.undone.pop() if self.undone else Action(CHANGE, before, after)
        else:
            self.undone.clear()
            again = Action(how, before, after)
        self.done.append(again)
        if again.how == SKIP:
            self.skipped.update(again.after)

    @property
    def labelled(self) -> np.ndarray:
        """A mask (n,) of the labelled rows."""
        return self.codes >= 0

    def asked(self) -> set[int]:
        """Return the rows that were asked and then answered or skipped."""
        return self.skipped | {row for row in self._asked if self.codes[row] >= 0}

    def answers(self) -> list[Answer]:
        """Return the answered questions, each with the current label and the prediction before the first answer."""
        return [
            Answer(row, str(self.labels[row]), predicted, confidence, how, n_labels)
            for row, (predicted, confidence, how, n_labels) in self._asked.items()
            if self.codes[row] >= 0
        ]

    def counts(self) -> list[int]:
        """Return the number of rows of each class."""
        return [int(n) for n in np.bincount(self.codes[self.codes >= 0], minlength=len(self.classes))]


def _natural(name: str) -> tuple[bool, float, str]:
    """Return a sort key: numbers by size, then text."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name
