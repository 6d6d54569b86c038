"""Reads y: which rows are labelled, in which task, with which values. No other module interprets y."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from labelfold.labels._values import (
    as_array,
    as_mask,
    encode,
    fractions,
    held_out_by_scikit_learn,
    listed,
    read_column,
    read_matrix,
    show,
    wording,
)
from labelfold.utils import safe_indexing, warn_user


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of n rows, l of them labelled, over c classes (or t regression targets).

    Attributes
    ----------
    task : {"binary", "multiclass", "multilabel", "regression"}
    classes : ndarray of shape (c,)
        Sorted class values; for multi-label `np.arange(c)` or the table's column names; empty for regression.
    labelled : ndarray of shape (n,), bool
    index : ndarray of shape (l,)
        Positions of the labelled rows, ascending; the rows of `values` are in this order.
    values : ndarray
        Class codes (l,); or the 0/1 indicator (l, c) of a multi-label Y; or float64 targets (l,) or (l, t).

    Examples
    --------
    >>> labels = read_labels(["ham", "spam", None, "ham"])
    >>> labels.classes[labels.values].tolist(), labels.index.tolist()
    (['ham', 'spam', 'ham'], [0, 1, 3])
    >>> labels.signs().tolist(), labels.counts().tolist()
    ([[-1.0], [1.0], [-1.0]], [2, 1])
    """

    task: str
    classes: np.ndarray
    labelled: np.ndarray = field(repr=False)
    index: np.ndarray = field(repr=False)
    values: np.ndarray = field(repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return len(self.labelled)

    @property
    def n_labelled(self) -> int:
        """Number of labelled rows, l."""
        return len(self.index)

    @property
    def n_classes(self) -> int:
        """Number of classes (of label columns for multi-label; 0 for regression), c."""
        return len(self.classes)

    @property
    def all_labelled(self) -> bool:
        """Whether every row has a label."""
        return self.n_labelled == self.n_rows

    def indicator(self) -> np.ndarray:
        """Return the (l, c) 0/1 indicator matrix in float64; for binary it has two columns."""
        self._needs_classes("indicator")
        if self.task == "multilabel":
            return self.values.copy()
        one_hot = np.zeros((self.n_labelled, self.n_classes))
        one_hot[np.arange(self.n_labelled), self.values] = 1.0
        return one_hot

    def distinct(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return the distinct rows of `columns` (g, c), each labelled row's index in them (l,), and their counts.

        For several labels a row, and for numbers, all rows are returned, with None for the indices.
        """
        if self.task in ("binary", "multiclass"):
            return np.eye(self.n_classes), self.values, self.counts().astype(np.float64)
        Y = self.columns()
        return Y, None, np.ones(len(Y))

    def columns(self) -> np.ndarray:
        """Return the targets of the labelled rows as columns: the indicator (l, c), or the numbers (l, t)."""
        if self.task == "regression":
            return self.values.reshape(self.n_labelled, -1)
        return self.indicator()

    def take(self, which: np.ndarray) -> Labels:
        """Return the labels of some labelled rows only; the classes stay the same."""
        n = len(which)
        return Labels(self.task, self.classes, np.ones(n, dtype=bool), np.arange(n), self.values[which])

    def signs(self) -> np.ndarray:
        """Return -1/+1 targets, one-vs-rest (l, c); for two classes (l, 1), where +1 is `classes[1]`."""
        self._needs_classes("signs")
        return 2.0 * (self.values[:, None] if self.task == "binary" else self.indicator()) - 1.0

    def counts(self) -> np.ndarray:
        """Return the number of labelled rows in each class, (c,)."""
        self._needs_classes("counts")
        return self._counts.copy()

    @cached_property
    def _counts(self) -> np.ndarray:
        if self.task == "multilabel":
            return self.values.sum(axis=0).astype(np.intp)
        return np.bincount(self.values, minlength=self.n_classes)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return codes as class values; multi-label 0/1 values as integers, numbers unchanged."""
        if self.task == "regression":
            return np.asarray(codes)
        codes = np.asarray(codes).astype(np.intp)
        return codes if self.task == "multilabel" else self.classes[codes]

    def _needs_classes(self, method: str) -> None:
        if self.task == "regression":
            raise ValueError(
                f"Labels.{method}() needs classes and the task is regression; use Labels.values."
            )


def read_labels(
    y: Any,
    n_rows: int | None = None,
    *,
    unlabeled: float | str | bytes | None = -1,
    task: str = "auto",
    allowed: Collection[str] = ("binary", "multiclass"),
    estimator: str = "This estimator",
) -> Labels:
    """Read y: which rows are labelled, in which task, with which values. y is not modified.

    Parameters
    ----------
    y : array-like of shape (n,), or (n, c) for multi-label, or (n, t) for regression
        Missing values (None, NaN, pandas.NA, a masked entry) always mean unlabelled. A 2-D row is unlabelled
        if all of it is missing or equal to `unlabeled`; a multi-label row of zeros is labelled.
        Values of only -1 and +1 are two classes, with a warning, if `unlabeled` is -1.
    n_rows : int, optional
        Number of rows of X, which must be the number of rows of y.
    unlabeled : number, str, bytes or None, default=-1
        The value that means unlabelled, besides missing values. If None, only missing values do.
        A number never means unlabelled in regression, or in a boolean y.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" reads floats with fractions as regression if that is allowed, everything else as classes.
    allowed : collection of {"binary", "multiclass", "multilabel", "regression"}
        The tasks that the estimator takes. If regression is the only one, "auto" means regression.
    estimator : str
        The estimator's name, for messages.

    Returns
    -------
    Labels

    Raises
    ------
    ValueError
        If y cannot be read, or is of a task that is not allowed.
    TypeError
        If `unlabeled` is of a type that cannot be a label.

    Examples
    --------
    >>> read_labels([2, -1, 0, 1, -1])
    Labels(task='multiclass', classes=array([0, 1, 2]))
    >>> Y = np.array([[1, 1], [np.nan, np.nan], [0, 0]])
    >>> read_labels(Y, allowed=["multilabel"]).labelled
    array([ True, False,  True])
    >>> read_labels([0.5, np.nan, -1.0], allowed=["regression"]).values
    array([ 0.5, -1. ])
    """
    unlabeled = _check_options(unlabeled, task)
    if y is None:
        raise ValueError(
            f"{estimator} requires y to be passed, but the target y is None; "
            "pass one label a row, with -1, NaN or None where there is none."
        )
    array, rows, n = as_array(y)
    if n_rows is not None and n != n_rows:
        raise ValueError(f"y has {n} rows and X has {n_rows}; pass one label, or one unlabelled mark, a row.")
    if set(allowed) == {"regression"} and task == "auto":
        task = "regression"
    can_regress = "regression" in allowed and task != "classification"
    if array.ndim == 2 and task == "auto" and not can_regress and array.dtype.kind == "f":
        _refuse_continuous(array[np.isfinite(array)], estimator, allowed)
    if task == "regression" or (array.ndim == 2 and not can_regress):
        _check_allowed("regression" if task == "regression" else "multilabel", allowed, estimator)

    classes = np.empty(0)
    if array.ndim == 2:
        found, values, index = read_matrix(array, unlabeled, task, can_regress)
    else:
        found, values, index, signs = read_column(array, rows, unlabeled, task)
        if signs:
            warn_user(
                f"The only values of {wording().y} are -1 and +1, which are read as two classes; "
                f"{wording().only_missing} to silence this warning."
            )
        if found == "regression" and not can_regress:
            _refuse_continuous(values, estimator, allowed)
    # The value that means unlabelled, for messages; in regression a number does not.
    mark = None if found == "regression" and isinstance(unlabeled, Real) else unlabeled
    marks = "missing" if mark is None else f"missing or {mark!r}"
    if not len(index):
        raise ValueError(
            f"{wording().start} has no labelled row, all of its {n} rows are {marks}; label some of them."
        )
    if found == "classes":
        classes, values = encode(values, as_text=isinstance(y, list | tuple))
        if len(classes) == 1:
            others = "" if len(index) == n else f", the other {n - len(index)} being {marks}"
            unless = "" if mark is None else f", or {wording().only_missing} if every value is a class"
            raise ValueError(
                f"{wording().start} has one class only, {show(classes[0])}, in its {len(index)} labelled "
                f"rows{others}; label rows of two classes or more{unless}."
            )
        found = "binary" if len(classes) == 2 else "multiclass"
        if unlabeled is not None and "" in classes.tolist():
            warn_user(
                "y holds the empty text '', read as a class; pass unlabeled='' if it marks rows without a label, or "
                "unlabeled=None if not."
            )
        if isinstance(unlabeled, Real) and str(unlabeled) in classes.tolist():
            warn_user(
                f"y holds the text '{unlabeled}', read as a class although unlabeled={unlabeled!r}; "
                f"pass unlabeled='{unlabeled}' if it marks unlabelled rows, or unlabeled=None if not."
            )
    _check_allowed(found, allowed, estimator)
    if found == "multilabel":
        classes = np.asarray(getattr(y, "columns", np.arange(array.shape[1])))
        empty = classes[~values.any(axis=0)]
        if len(empty):
            warn_user(
                f"No labelled row of Y is positive in label columns {listed(empty)}; "
                "nothing can be learned about them, so label such rows or drop the columns."
            )
    if len(index) < n:
        _warn_of_plain_folds(unlabeled, task)
    return Labels(found, classes, as_mask(index, n), index, values)


def _warn_of_plain_folds(unlabeled: Any, task: str) -> None:
    """Warn if scikit-learn's cross-validation holds out unlabelled rows, which cannot be scored."""
    folds = held_out_by_scikit_learn()
    if folds is None or folds[0] is None:
        return
    known = score_mask(safe_indexing(folds[0], folds[1]), unlabeled=unlabeled, task=task)
    if not known.all():
        warn_user(
            f"{(~known).sum()} of the {len(known)} rows that cross-validation holds out are unlabelled: they cannot "
            "be scored, and are lost to training; pass cv=labelfold.model_selection.SemiSupervisedKFold(), which "
            "holds out labelled rows only and keeps all unlabelled rows in training."
        )


def score_targets(
    y: Any,
    n_rows: int | None = None,
    *,
    unlabeled: float | str | bytes | None = -1,
    task: str = "auto",
    classes: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mask of the labelled rows, (n,), and their values, (l, ...), in a dtype that metrics take.

    Unlike `read_labels` it accepts one class and, if `n_rows` is not given, no labelled row. `classes` are those of
    the fitted model. They decide whether -1 is a class or means unlabelled, which a few test rows may not show.

    Examples
    --------
    >>> score_targets([-1, 1, None, -1], classes=np.array([0, 1]))
    (array([False,  True, False, False]), array([1]))
    >>> score_targets([-1, 1, None, -1], classes=np.array([-1, 1]))
    (array([ True,  True, False,  True]), array([-1,  1, -1]))
    """
    _, mask, values = read_batch(y, unlabeled=unlabeled, task=task, classes=classes)
    if n_rows is not None and len(mask) != n_rows:
        raise ValueError(
            f"y has {len(mask)} rows and X has {n_rows}; pass one label, or one unlabelled mark, a row."
        )
    if n_rows is not None and not mask.any():
        raise ValueError("y has no labelled row, so there is nothing to score; give the labels of some rows.")
    return mask, values


def read_batch(
    y: Any,
    *,
    unlabeled: float | str | bytes | None = -1,
    task: str = "auto",
    classes: np.ndarray | None = None,
    has_task: bool = True,
) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the kind of labels ("classes", "multilabel", "regression"), then the results of `score_targets`.

    `has_task` says whether the estimator has a parameter ``task``, for messages.
    """
    unlabeled = _check_options(unlabeled, task)
    array, rows, n = as_array(y, quiet=True)
    if array.ndim == 2:
        found, values, index = read_matrix(
            array, unlabeled, task, can_regress=task != "classification", has_task=has_task
        )
    else:
        settled = classes is not None and len(classes) > 0
        if settled and unlabeled in np.asarray(classes).tolist():
            unlabeled = None
        found, values, index, _ = read_column(array, rows, unlabeled, task, settled)
    return found, as_mask(index, n), values


def score_mask(y: Any, **options: Any) -> np.ndarray:
    """Return the mask of the labelled rows, (n,), as `score_targets` reads them with these options."""
    return score_targets(y, **options)[0]


def check_kind(kind: str, allowed: Collection[str], estimator: str) -> None:
    """Raise an error if an estimator does not take a kind of labels that `read_batch` returned."""
    if kind == "regression" and kind not in allowed:
        raise ValueError(_continuous(estimator, "fractions"))
    if kind != "classes":
        _check_allowed(kind, allowed, estimator)


def _check_options(unlabeled: Any, task: str) -> Any:
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f'task is {task!r}; pass "auto", "classification" or "regression".')
    if isinstance(unlabeled, np.generic):
        unlabeled = unlabeled.item()
    if isinstance(unlabeled, bool) or not isinstance(unlabeled, Real | str | bytes | None):
        raise TypeError(
            f"unlabeled is {show(unlabeled)} of type {type(unlabeled).__name__}; pass a number, a string, "
            "or None where only missing values mean unlabelled."
        )
    # NaN is a missing value, which always means unlabelled.
    return None if unlabeled != unlabeled else unlabeled


def _refuse_continuous(values: np.ndarray, estimator: str, allowed: Collection[str]) -> None:
    """Raise an error if a value is not a whole number."""
    some = fractions(values)
    if len(some):
        what = f"fractions such as {show(some[0])}"
        if "regression" in allowed:  # the task given is classification
            words = wording()
            raise ValueError(
                f"Unknown label type: continuous, since {words.classification} and {words.y} holds {what}; cut it "
                f"into classes, or {words.regression}."
            )
        raise ValueError(_continuous(estimator, what))


def _continuous(estimator: str, what: str) -> str:
    return (
        f"Unknown label type: continuous, since {estimator} takes classes and {wording().y} holds {what}; cut it "
        "into classes, or use a method that takes a continuous y, such as CCA or OPLS."
    )


def _check_allowed(found: str, allowed: Collection[str], estimator: str) -> None:
    if found in allowed:
        return
    todo = {
        "binary": "label rows of more classes",
        "multiclass": "fit one class against the rest at a time",
        "multilabel": "pass one column of Y at a time",
        "regression": "cut it into classes, or use a method that takes a continuous y, such as CCA or OPLS",
    }[found]
    if "regression" in allowed:
        todo += f", or {wording().regression}"
    # scikit-learn's checks search for this wording in binary classifiers.
    lead = (
        "Only binary classification is supported: " if found == "multiclass" and "binary" in allowed else ""
    )
    raise ValueError(
        f"{lead}{estimator} takes {' or '.join(allowed)} targets and {wording().y} is {found}; {todo}."
    )
