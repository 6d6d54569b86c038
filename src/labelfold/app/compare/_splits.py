"""Folds over all labelled rows, subsets of the labels for the learning curve, and out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from labelfold.app.compare._choice import OutOfFold
from labelfold.app.compare._data import Data
from labelfold.app.io import pd
from labelfold.model_selection import LabelBudgetSplit, RepeatedSemiSupervisedKFold, SemiSupervisedKFold

# Below _FEW_LABELS labels there are more folds, so that more labels stay in training.
_FOLDS, _MORE_FOLDS, _FEW_LABELS = 5, 10, 40
# With fewer numbers their variance, and so R², cannot be estimated well.
_LEAST_NUMBERS = 8


class Part(NamedTuple):
    """Training rows, their labels (hidden ones marked as unlabelled), and test rows."""

    train: np.ndarray
    y: np.ndarray
    test: np.ndarray


class Split(NamedTuple):
    """The parts that one result is computed from: one part of the curve, or all folds.

    ``budget`` is the number of labels. For folds it is the number of all labels.
    """

    repeat: int
    budget: int
    parts: list[Part]

    @property
    def tested(self) -> np.ndarray:
        """All test rows, part after part."""
        return np.concatenate([part.test for part in self.parts])


def n_folds(data: Data) -> int:
    """Return the number of folds that the labels allow; 0 if there are too few labels."""
    if data.facts.numbers and data.labels.n_labelled < _LEAST_NUMBERS:
        return 0
    together = data.groups is not None and not data.groups.are_single
    classes = data.labels.task in ("binary", "multiclass")
    if together and classes and len(np.unique(data.labels.values[data.testable])) < 2:
        return 0  # the share that is right of one class says nothing
    wanted = _MORE_FOLDS if data.labels.n_labelled < _FEW_LABELS else _FOLDS
    for folds in range(wanted, 1, -1):
        splitter = SemiSupervisedKFold(folds, shuffle=True, random_state=0, task=data.facts.task)
        try:
            next(splitter.split(None, data.y, data.group_codes))
        except ValueError:
            continue
        return folds
    return 0


def fold_splits(data: Data, repeats: int, seed: int) -> Iterator[Split]:
    """Yield, for each repeat, folds over all labelled rows.

    The rows of a fold stay in training as unlabelled rows. Rows of a group are in the same fold.
    """
    folds = n_folds(data)
    if not folds:
        return
    everything = np.arange(data.X.shape[0])
    splitter = RepeatedSemiSupervisedKFold(folds, n_repeats=repeats, random_state=seed, task=data.facts.task)
    drawn = splitter.split(None, data.y, data.group_codes)
    for repeat in range(repeats):
        parts = [Part(everything, _hidden(data.y, test), test) for _, test in islice(drawn, folds)]
        yield Split(repeat, data.labels.n_labelled, parts)


def _hidden(y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return a copy of y in which some rows are unlabelled."""
    y = y.copy()
    y[test] = np.nan if y.dtype.kind == "f" else -1
    return y


def budget_splits(
    data: Data, budgets: Sequence[int], repeats: int, test_size: float, seed: int
) -> Iterator[Split]:
    """Yield the splits of the learning curve, which keep ``budgets`` labels each, largest budget first."""
    if not budgets:
        return
    splitter = LabelBudgetSplit(
        list(budgets)[::-1],
        n_repeats=repeats,
        test_size=test_size,
        random_state=seed,
        task=data.facts.task,
    )
    for problem in splitter.problems(None, data.y, data.group_codes):
        yield Split(problem.repeat, problem.budget, [Part(problem.train, problem.y, problem.test)])


def fold_of_rows(data: Data, repeats: int, seed: int) -> np.ndarray:
    """Return the fold in which each labelled row is held out, (repeats, l); -1 if it never is."""
    found = np.full((repeats, data.labels.n_labelled), -1)
    for split in fold_splits(data, repeats, seed):
        for i, part in enumerate(split.parts):
            found[split.repeat, data.places(part.test)] = i
    return found


def as_text(predicted: np.ndarray) -> str:
    """Return predictions as text for one cell of a CSV file: class codes, 0/1 labels, or numbers.

    >>> as_text(np.array([2, 0])), as_text(np.array([[0, 1], [1, 1]])), as_text(np.array([0.5, 2.0]))
    ('2 0', '01 11', '0.5 2')
    """
    if predicted.dtype.kind == "f":
        rows = predicted.reshape(len(predicted), -1)
        return " ".join(",".join(f"{v:.9g}" for v in row) for row in rows)
    if predicted.ndim == 1:
        return " ".join(map(str, predicted.tolist()))
    return " ".join("".join(map(str, row)) for row in predicted.astype(int).tolist())


def from_text(text: str, like: np.ndarray) -> np.ndarray:
    """Return the predictions that `as_text` wrote; ``like`` is an array of the same kind.

    >>> from_text("01 11", np.zeros((5, 2), dtype=int)).tolist()
    [[0, 1], [1, 1]]
    """
    words = text.split(" ")
    if like.ndim == 2 and like.dtype.kind != "f":
        return np.array([[int(bit) for bit in word] for word in words])
    if like.dtype.kind == "f":
        rows = np.array([[float(v) for v in word.split(",")] for word in words])
        return rows if like.ndim == 2 else rows[:, 0]
    return np.array([int(word) for word in words])


def predictions_of(
    data: Data, rows: list[dict[str, Any]], pairs: Iterable[tuple], repeats: int, seed: int
) -> dict[tuple, OutOfFold]:
    """Return the out-of-fold predictions of (method, size) pairs, with the repeats that each has."""
    fold, truth = fold_of_rows(data, repeats, seed), data.truth
    cells = {
        (row["method"], whole(row["k"]), int(row["repeat"])): row["predicted"]
        for row in rows
        if row["budget"] == data.labels.n_labelled and isinstance(row["predicted"], str)
    }
    found = {}
    for pair in pairs:
        guesses: list[np.ndarray] = []
        while (*pair, len(guesses)) in cells and len(guesses) < repeats:
            guess, held = np.zeros_like(truth), fold[len(guesses)] >= 0
            guess[held] = from_text(cells[*pair, len(guesses)], truth)
            guesses.append(guess)
        if guesses:
            terms = np.array([data.measure.terms(truth, guess) for guess in guesses])
            found[pair] = OutOfFold(
                data.measure, terms, fold[: len(terms)], np.array(guesses), data.known_groups
            )
    return found


def whole(value: Any) -> int | None:
    """Return a cell of a table as int, None if it is missing."""
    return None if pd.isna(value) else int(value)
