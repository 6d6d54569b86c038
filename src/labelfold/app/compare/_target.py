"""Decides whether a target holds classes or numbers, and rejects targets such as ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.app.io import count
from labelfold.labels import Labels, read_labels, wording

_TASKS = ("binary", "multiclass", "multilabel", "regression")
_FEW = 30  # most labelled rows that may all have different classes
_MANY = 20  # up to this many different whole numbers are classes
_CODES = 0.75  # class codes use at least this share of the numbers from 0 or 1 up


def read_target_labels(
    y: Any,
    n_rows: int | None = None,
    *,
    unlabeled: Any = -1,
    task: str = "auto",
    estimator: str = "compare",
) -> tuple[Labels, list[str]]:
    """Read and check a target.

    Fractions are numbers, and text is classes. Whole numbers are classes, unless there are more than 20 different
    ones, more than half as many as labelled rows, and they are not codes that count up from 0 or 1.

    Parameters
    ----------
    y : array-like
        The target, in any form that `labelfold.labels.read_labels` takes.
    n_rows : int, optional
        Rows of X.
    unlabeled : number, str or None, default=-1
        The value that means unlabelled, besides missing values.
    task : {"auto", "classification", "regression"}, default="auto"
        Overrides the rule above.
    estimator : str
        Name of the caller, for messages.

    Returns
    -------
    labels : Labels
    notes : list of str
        How an ambiguous target was read.

    Examples
    --------
    >>> rents = [410, 395, 1200, 655, 880, 540] * 4 + list(range(2000, 2060, 3))
    >>> labels, notes = read_target_labels(rents)
    >>> labels.task, notes[0][:56]
    ('regression', 'The target holds 26 different whole numbers in 44 labell')
    """
    labels = read_labels(y, n_rows, unlabeled=unlabeled, task=task, allowed=_TASKS, estimator=estimator)
    notes: list[str] = []
    if labels.task == "multiclass" and task == "auto":
        _refuse_ids(labels)
        many = labels.n_classes > max(_MANY, labels.n_labelled / 2)
        if many and labels.classes.dtype.kind in "iuf":
            as_numbers = not _are_codes(labels.classes)
            notes = [_how_it_was_read(labels, as_numbers)]
            labels = _as_numbers(labels) if as_numbers else labels
    if labels.task == "regression":
        _refuse_constant(labels)
    return labels, notes


def _refuse_ids(labels: Labels) -> None:
    """Raise an error if all labels differ, as in an id column, unless there are few."""
    many = labels.all_labelled or labels.n_labelled > _FEW
    if labels.n_classes < labels.n_labelled or not many:
        return
    example = ", ".join(repr(str(c)) for c in labels.classes[:2])
    numbers = ""
    if labels.classes.dtype.kind in "iuf":
        numbers = ', or give --task regression (in Python task="regression") where they are amounts'
    raise ValueError(
        f"{wording().start} has a different label in each of its {labels.n_labelled} labelled rows ({example}, "
        f"...), as a column of ids does; pass one with classes that rows share, or label more rows{numbers}."
    )


def _are_codes(classes: np.ndarray) -> bool:
    """Tell whether whole numbers count up from 0 or 1 with few gaps, as class codes do."""
    low, high = float(classes[0]), float(classes[-1])
    return low in (0.0, 1.0) and len(classes) >= _CODES * (high - low + 1)


def _how_it_was_read(labels: Labels, as_numbers: bool) -> str:
    read, other, option = ("numbers", "classes", "classification") if as_numbers else (
        "classes", "numbers", "regression")  # fmt: skip
    return (
        f"The target holds {labels.n_classes} different whole numbers in {count(labels.n_labelled, 'labelled row')} "
        f'and was read as {read}; --task {option} (in Python task="{option}") reads it as {other}.'
    )


def _as_numbers(labels: Labels) -> Labels:
    """Return classes that are whole numbers as regression targets."""
    values = labels.classes.astype(np.float64)[labels.values]
    return Labels("regression", np.empty(0), labels.labelled, labels.index, values)


def _refuse_constant(labels: Labels) -> None:
    """Raise an error if the numbers are in several columns, or all equal."""
    if labels.values.ndim == 2:
        raise ValueError(
            f"{wording().start} has {labels.values.shape[1]} columns of numbers, and one is predicted at a "
            "time; pass one of them."
        )
    if np.ptp(labels.values) == 0:
        raise ValueError(
            f"{wording().start} has one value only, {labels.values[0]:g}, in "
            f"{count(labels.n_labelled, 'labelled row')}, so there is nothing to predict; pass a column whose "
            "numbers differ, or label more rows."
        )
