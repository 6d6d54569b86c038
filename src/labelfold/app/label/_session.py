"""The state of a labelling session: labels, the current question, the newest model, and listeners."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from labelfold.app.io import Journal, Line, Refusal, did_you_mean, printable
from labelfold.app.label._accuracy import Answer, Expected, curve, expected, forecast
from labelfold.app.label._questions import STRATEGIES, Question, Questions
from labelfold.app.label._table import MAX_CLASSES, RowFinder, TableToLabel
from labelfold.app.label._worker import Predictions, Worker

# Choices of presentation: characters of the name of a class, and doubtful labels in the list.
_MAX_NAME = 200
_MAX_DOUBTS = 100
# How a row can be labelled other than by answering a question.
CLICK, LASSO, CHANGE, SKIP, UNDO, REDO = "click", "lasso", "change", "skip", "undo", "redo"
_OWN = {CLICK, LASSO, CHANGE, SKIP, UNDO, REDO}


class Session:
    """The state of the page. Every method may be called from any thread.

    Parameters
    ----------
    rows : TableToLabel
        The table.
    journal : Journal
        The file of labels; its lines are replayed.
    who : str
        Who labels.
    strategy : str
        How questions are chosen.
    seed : int
    """

    rows: TableToLabel
    journal: Journal
    who: str
    strategy: str
    version: int
    points_version: int
    predictions_version: int

    def __init__(
        self, rows: TableToLabel, journal: Journal, *, who: str, strategy: str = "mixed", seed: int = 0
    ) -> None:
        self.rows, self.journal, self.who = rows, journal, checked_name(who, "--who")
        self._lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        self.marks: Marks = Marks(rows.given)
        self.finder: RowFinder = RowFinder(rows.content, rows.ids)
        placed, told = self.finder.find(journal, rows.name)
        self.notes: list[str] = [*rows.notes, *journal.notes, *told]
        self._replay(placed)
        self.strategy = known_strategy(strategy)
        self._questions = Questions(rows.n, seed=seed)
        self.latest: Predictions | None = None
        self.question: Question | None = None
        self._answered: dict[int, Question] = {}
        self.version, self.points_version, self.predictions_version = 1, 0, 0
        self._begun = False
        self.worker: Worker = Worker(rows.X, self.labels, self._publish, self._tell, seed)
        self._ask()

    def start(self) -> None:
        """Start the worker, unless it runs."""
        if not self.worker.is_alive():
            self.worker.start()

    def close(self) -> None:
        """End the worker and close the journal."""
        self.worker.end()
        self.journal.close()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Register a function that is called after every change; return a function that removes it."""
        with self._lock:
            self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _replay(self, placed: Sequence[int]) -> None:
        """Replay the actions of the journal."""
        known = [(line, row) for line, row in zip(self.journal.lines, placed, strict=True) if row >= 0]
        classes = {*self.marks.classes, *(line.label for line, _ in known)} - {""}
        if len(classes) > MAX_CLASSES:
            raise Refusal(
                f"{self.journal.path} has labels of {len(classes):,} classes, where {MAX_CLASSES:,} at most are "
                "expected; name another file with -o."
            )
        for (_, how), some in groupby(known, key=lambda one: (one[0].time, one[0].how)):
            marks = [
                Mark(row, line.label or None, line.predicted or None, line.confidence) for line, row in some
            ]
            self.marks.apply(how or CLICK, marks)

    def label(self, rows: Sequence[int], label: str | None) -> None:
        """Label rows, or remove their labels if the label is None."""
        chosen = self._known_rows(rows)
        name = None if label is None else checked_name(label, "A class")
        with self._lock:
            if name is not None:
                self._refuse_many(name)
            asked = self.question
            how = LASSO if len(chosen) > 1 else CLICK
            if len(chosen) == 1 and self.marks.codes[chosen[0]] >= 0:
                how = CHANGE
            elif asked is not None and chosen == [asked.row] and name is not None:
                how = asked.how
                self._answered[asked.row] = asked
            self._act(how, [self._mark(row, name) for row in chosen])

    def skip(self, row: int) -> None:
        """Skip a row; it is not asked again."""
        (row,) = self._known_rows([row])
        with self._lock:
            if self.question is not None and self.question.row == row:
                self._answered[row] = self.question
            self._act(SKIP, [Mark(row, self.marks.labels[row])])

    def undo(self) -> None:
        """Undo the last action; a question that it answered is asked again."""
        with self._lock:
            if not self.marks.done:
                raise Refusal("There is nothing to undo.")
            action = self.marks.done[-1]
            self._act(UNDO, [Mark(row, label) for row, label in action.before.items()], ask=False)
            again = self._answered.get(next(iter(action.after))) if len(action.after) == 1 else None
            if again is not None and self.marks.codes[again.row] < 0:
                self.question = again
            self._changed()

    def redo(self) -> None:
        """Redo the action that was undone last."""
        with self._lock:
            if not self.marks.undone:
                raise Refusal("There is nothing to do again.")
            action = self.marks.undone[-1]
            self._act(REDO, [Mark(row, label) for row, label in action.after.items()])

    def choose(self, strategy: str) -> None:
        """Change the strategy of questions."""
        with self._lock:
            self.strategy = known_strategy(strategy)
            self._ask(anew=True)
            self._changed()

    def add_class(self, name: str) -> None:
        """Add a class without rows."""
        name = checked_name(name, "A class")
        with self._lock:
            self._refuse_many(name)
            self.marks.add_class(name)
            self._changed()

    def state(self) -> dict[str, Any]:
        """Return the state for the page, without the map and the predictions of each row."""
        with self._lock:
            marks, answers, latest = self.marks, self.marks.answers(), self.latest
            counts = zip(marks.classes, marks.counts(), strict=True)
            later = forecast(answers)
            return {
                "version": self.version,
                "table": self.rows.name,
                "target": self.rows.target,
                "n": self.rows.n,
                "d": self.rows.cells.d,
                "who": self.who,
                "file": self.journal.path.name,
                "classes": [{"name": name, "count": times} for name, times in counts],
                "labelled": marks.n_labels,
                "skipped": len(marks.skipped),
                "strategies": [{"name": name, "words": words} for name, words in STRATEGIES.items()],
                "strategy": self.strategy,
                "question": None if self.question is None else dict(self.question.__dict__),
                "accuracy": _numbers(expected(answers), "n"),
                "curve": [_numbers(one, "labels", "n") for one in curve(answers)],
                "forecast": _numbers(later, "labels"),
                "doubtful": [] if latest is None else self._doubtful(latest),
                "can_undo": bool(marks.done),
                "can_redo": bool(marks.undone),
                "busy": self.worker.busy,
                "points_version": self.points_version,
                "said_version": self.predictions_version,
                "notes": list(self.notes),
            }

    def points(self) -> bytes:
        """Return the map: x and y of each row, as float32."""
        points = np.zeros((self.rows.n, 2)) if self.latest is None else self.latest.points
        return np.ascontiguousarray(points, dtype="<f4").tobytes()

    def predictions_of_all(self) -> bytes:
        """Return prediction, label, and confidence (0 to 255) of each row, as bytes."""
        with self._lock:
            predicted, sure, codes = *self.predictions(), self.marks.codes.copy()
        bytes_of = np.round(255 * np.clip(sure, 0, 1)).astype("u1").tobytes()
        return b"".join([predicted.astype("<i2").tobytes(), codes.astype("<i2").tobytes(), bytes_of])

    def predictions(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of the predicted class of each row, -1 if there is none, and the confidence."""
        if self.latest is None:
            return np.full(self.rows.n, -1, dtype=np.int16), np.zeros(self.rows.n)
        return self.latest.predicted, self.latest.confidence

    def _act(self, how: str, marks: list[Mark], *, ask: bool = True) -> None:
        """Write an action to the journal, apply it, and request a fit."""
        self._begun = True
        time = self.journal.now()
        contents = self.finder.contents([mark.row for mark in marks])
        lines = [self._line(mark, how, time, held) for mark, held in zip(marks, contents, strict=True)]
        self.journal.append(lines)
        before = self.marks.codes.copy()
        self.marks.apply(how, marks)
        if (before != self.marks.codes).any():
            self.predictions_version += 1
            self.worker.want()
        if ask:
            self._ask()
            self._changed()

    def _line(self, mark: Mark, how: str, time: str, content: str) -> Line:
        return Line(
            mark.row + 1,
            self.finder.names(mark.row) if self.journal.ids == self.finder.ids else (),
            mark.label or "",
            time,
            self.who,
            how,
            mark.predicted or "",
            mark.confidence,
            content,
        )

    def _mark(self, row: int, label: str | None) -> Mark:
        predicted, sure = self.predictions()
        code = int(predicted[row])
        if code < 0 or self.marks.codes[row] >= 0:  # a labelled row has no prediction without its label
            return Mark(row, label)
        return Mark(row, label, self.marks.classes[code], float(sure[row]))

    def _ask(self, anew: bool = False) -> None:
        """Choose a question, unless the current one is still open."""
        now = self.question
        asked = self.marks.asked()
        if not anew and now is not None and now.row not in asked and self.marks.codes[now.row] < 0:
            return
        latest = self.latest
        if anew and now is not None:
            asked.add(now.row)
        self.question = self._questions.next(
            None if latest is None else latest.fold,
            None if latest is None else latest.Z,
            self.marks.labelled,
            strategy=self.strategy,
            asked=asked,
            n_answered=len(self.marks.answers()),
        )

    def _doubtful(self, latest: Predictions) -> list[dict[str, Any]]:
        marks = self.marks
        open_ = [d for d in latest.doubts if marks.labels[d.row] == d.label and d.row not in marks.kept]
        return [{**doubt.__dict__, "id": self.rows.called(doubt.row)} for doubt in open_[:_MAX_DOUBTS]]

    def labels(self) -> tuple[np.ndarray, list[str]]:
        """Return the current labels, None where unlabelled, and the classes in the order of their keys."""
        with self._lock:
            return self.marks.labels.copy(), list(self.marks.classes)

    def _publish(self, latest: Predictions) -> None:
        with self._lock:
            first = self.latest is None or (self.latest.fold is None and latest.fold is not None)
            self.latest = latest
            self.points_version += 1
            self.predictions_version += 1
            # a user who already works on a question keeps it
            self._ask(anew=first and not self._begun)
            self._changed()

    def _tell(self, sentence: str) -> None:
        with self._lock:
            if sentence and sentence not in self.notes:
                self.notes.append(sentence)
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        for listener in list(self._listeners):
            listener()

    def _known_rows(self, rows: Sequence[int]) -> list[int]:
        chosen = list(dict.fromkeys(rows))
        if not chosen:
            raise Refusal("No row was named.")
        if wrong := [row for row in chosen if not 0 <= row < self.rows.n]:
            raise Refusal(f"There is no row {wrong[0]}; rows go from 0 to {self.rows.n - 1}.")
        return chosen

    def _refuse_many(self, name: str) -> None:
        if name not in self.marks.classes and len(self.marks.classes) >= MAX_CLASSES:
            raise Refusal(f"There are {MAX_CLASSES:,} classes already, and no room for {name!r}.")


def known_strategy(name: str) -> str:
    """Return the name of a strategy, or raise an error if there is none of this name."""
    if name not in STRATEGIES:
        hint = did_you_mean(name, STRATEGIES)
        raise Refusal(f"{printable(name)[:60]!r} is no strategy{hint}; there are {', '.join(STRATEGIES)}.")
    return name


def checked_name(name: str, what: str) -> str:
    r"""Return the stripped name of a class, or raise an error if it is not valid.

    >>> checked_name(" setosa ", "A class")
    'setosa'
    """
    name = unicodedata.normalize("NFC", name).strip()
    if not 1 <= len(name) <= _MAX_NAME:
        raise Refusal(f"{what} has a name of 1 to {_MAX_NAME} characters, not {len(name)}.")
    if printable(name) != name or re.search(r"[\n\t\u2028\u2029\ud800-\udfff]", name):
        raise Refusal(f"{what} has a name without control characters, not {ascii(name)[:60]}.")
    if what == "A class" and name.lower() in Journal.no_class:
        raise Refusal(f"{name!r} means that there is no label; give the class another name.")
    return name


def _numbers(found: Expected | None, *more: str) -> dict[str, Any] | None:
    if found is None:
        return None
    return {name: getattr(found, name) for name in ("value", "low", "high", *more)}


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

    n_labels: int

    def __init__(self, given: Sequence[str | None]) -> None:
        n = len(given)
        self.labels: np.ndarray = np.full(n, None, dtype=object)
        self.codes: np.ndarray = np.full(n, -1, dtype=np.int16)
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
