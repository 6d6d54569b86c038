"""Folds over all labelled rows, subsets of the labels for the learning curve, and out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import numpy as np

from labelfold.app.compare._choice import OutOfFold
from labelfold.app.compare._data import Data
from labelfold.app.io import pd
from labelfold.app.registry import METHODS, Method, get_method, install, refuse_other_task, why_not
from labelfold.model_selection import LabelBudgetSplit, RepeatedSemiSupervisedKFold, SemiSupervisedKFold
from labelfold.tables import pixel_columns

# Below _FEW_LABELS labels there are more folds, so that more labels stay in training.
_FOLDS, _MORE_FOLDS, _FEW_LABELS = 5, 10, 40
# With fewer numbers their variance, and so R², cannot be estimated well.
_LEAST_NUMBERS = 8
_MOST_COMPONENTS = 50
# With more labelled rows LabelFold takes long, so quick methods run first and give a first answer.
_MANY_LABELLED = 1000


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


@dataclass(frozen=True)
class Run:
    """A method with a number of components k; None if it does not embed."""

    method: Method
    k: int | None

    @property
    def label(self) -> str:
        """Its name in reports."""
        return self.method.title if self.k is None else f"{self.method.title}, {self.k}"

    def make(self, X: Any, seed: int, scale: bool | str, task: str) -> Any:
        """Return the estimator, not fitted."""
        return self.method.make(self.k, X=X, random_state=seed, scale=scale, task=task)


@dataclass(frozen=True)
class Plan:
    """The runs of each split, the budgets of the curve, the sizes asked for, and methods left out with reasons."""

    runs: list[Run]
    budgets: list[int]
    sizes: list[int]
    left_out: dict[str, str]


def make_plan(
    data: Data,
    methods: Sequence[str | Method] | None,
    budgets: int | Sequence[int] | None,
    components: int | Sequence[int] | None,
    test_size: float,
) -> Plan:
    """Return the plan of a comparison, and check the parameters."""
    if not 0 < test_size < 1:
        raise ValueError(
            f"test_size is the share of labelled rows held out, between 0 and 1, not {test_size}."
        )
    chosen, left_out = _methods(data, methods)
    budgets = [] if budgets is None else _whole("budgets", budgets)
    if budgets:  # raises an error now if there are too few labels for them
        splitter = LabelBudgetSplit(budgets, n_repeats=1, test_size=test_size, task=data.facts.task)
        next(splitter.split(None, data.y))
    sizes = None if components is None else checked_sizes(components, data)
    runs = []
    for method in chosen:
        most = data.X.shape[1] if method.most is None else max(method.most(data.facts), 1)
        ks: list[int | None] = [None]
        if method.embeds:
            ks = sorted({min(k, most) for k in sizes or [_default_size(method, data)]})
        runs += [Run(method, k) for k in ks]
    late = data.labels.n_labelled > _MANY_LABELLED
    runs.sort(key=lambda run: run.method.slow or (late and run.method.own_forms))
    return Plan(runs, budgets, sizes or [], left_out)


def _methods(data: Data, methods: Sequence[str | Method] | None) -> tuple[list[Method], dict[str, str]]:
    """Return the methods to run, and the titles of the others with reasons."""
    if methods is not None:
        methods = [methods] if isinstance(methods, str | Method) else methods
        chosen = [m if isinstance(m, Method) else get_method(m) for m in methods]
        if not chosen:
            raise ValueError("There is no method to compare; name at least one.")
        for method in chosen:
            refuse_other_task(method, data.facts.task)
        return list({m.name: m for m in chosen}.values()), {}
    chosen, left_out = [], {}
    reason: str | None
    for method in METHODS.values():
        if not method.available:
            reason = f"it is not installed ({install(method)})"
        elif not method.compared:
            reason = "it is run only where asked for by name"
        else:
            reason = why_not(method, data.facts)
        if reason:
            left_out[method.title] = reason
        else:
            chosen.append(method)
    if not chosen:
        reasons = "; ".join(f"{title}: {reason}" for title, reason in left_out.items())
        raise ValueError(f"No method suits these data. {reasons}.")
    return chosen, left_out


def _default_size(method: Method, data: Data) -> int:
    """Return the default number of components.

    It is the number of discriminant directions, or more for unsupervised components. In regression LabelFold has two,
    for a map.
    """
    n, d = data.X.shape
    natural = data.facts.most_directions
    if method.most is not None:
        return natural
    if method.by_labels:
        return min(2, d) if data.facts.numbers else natural
    return max(min(max(2 * natural, 20), d - 1, n, _MOST_COMPONENTS), 1)


def checked_sizes(components: int | Sequence[int], data: Data) -> list[int]:
    """Return the given numbers of components, after a check."""
    d = data.X.shape[1]
    sizes = _whole("components", components)
    if not sizes or sizes[0] < 1:
        raise ValueError(f"components are sizes of the embedding, at least 1, not {components}.")
    if sizes[-1] > d:
        raise ValueError(f"An embedding of {sizes[-1]} components is larger than X, which has {d} columns.")
    return sizes


def _whole(name: str, values: Any) -> list[int]:
    """Return whole numbers sorted, without duplicates."""
    try:
        numbers = [int(v) for v in np.atleast_1d(values)]
        if any(number != v for number, v in zip(numbers, np.atleast_1d(values), strict=True)):
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(f"{name} are whole numbers, such as [10, 50], not {values!r}.") from None
    return sorted(set(numbers))


def image_sides(
    d: int, names: Sequence[str] | None, image_shape: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Return the shape of images with d columns: the given one or that of the column names; None if not images."""
    if image_shape is not None:
        shape = tuple(int(side) for side in image_shape)
        if prod(shape) != d or len(shape) not in (2, 3) or shape[2:] not in ((), (3,)):
            said = " x ".join(map(str, shape))
            raise ValueError(f"Images of {said} have {prod(shape)} pixels, and X has {d} columns.")
        return shape
    pixels, found = pixel_columns(names or ())
    return found if len(pixels) == d else None
