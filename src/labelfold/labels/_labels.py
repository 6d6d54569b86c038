"""Reads y: which rows are labelled, in which task, with which values. No other module interprets y."""

from __future__ import annotations

import os
import reprlib
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from numbers import Complex, Integral, Real
from types import FrameType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from labelfold.labels._marks import warn_of_left_out, warn_of_two_classes
from labelfold.labels._wording import wording
from labelfold.utils import safe_indexing, warn_user

_NUMBERS = Real | Decimal | np.bool_
# The largest regression target is at most this, and at least its inverse: float32 must not overflow.
_MAX_NUMBER = 1e37
_CROSS_VALIDATION = os.path.join("sklearn", "model_selection", "_validation.py")


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
    weights : ndarray of shape (l,) or None
        Positive weights of the labelled rows; None if each counts once.

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
    weights: np.ndarray | None = field(default=None, repr=False)

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
        return len(self.index) == len(self.labelled)

    @property
    def total(self) -> float:
        """Sum of the weights of the labelled rows: their number, if each counts once."""
        return float(self.n_labelled if self.weights is None else self.weights.sum())

    def row_weights(self) -> np.ndarray:
        """Return the weights of the labelled rows, (l,), ones if there are none."""
        return np.ones(self.n_labelled) if self.weights is None else self.weights

    def class_totals(self) -> np.ndarray:
        """Return the sum of weights of the labelled rows in each class, (c,), in float64."""
        return self.counts().astype(np.float64) if self.weights is None else self.weights @ self.indicator()

    def indicator(self) -> np.ndarray:
        """Return the (l, c) 0/1 indicator matrix in float64; for binary it has two columns."""
        self._needs_classes("indicator")
        if self.task == "multilabel":
            return self.values.copy()
        one_hot = np.zeros((self.n_labelled, self.n_classes))
        one_hot[np.arange(self.n_labelled), self.values] = 1.0
        return one_hot

    def distinct(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return the distinct rows of `columns` (g, c), each labelled row's index in them (l,), and their weights.

        For several labels a row, and for numbers, all rows are returned, with None for the indices.
        """
        if self.task in ("binary", "multiclass"):
            return np.eye(self.n_classes), self.values, self.class_totals()
        return self.columns(), None, self.row_weights()

    def columns(self) -> np.ndarray:
        """Return the targets of the labelled rows as columns: the indicator (l, c), or the numbers (l, t)."""
        if self.task == "regression":
            return self.values.reshape(self.n_labelled, -1)
        return self.indicator()

    def take(self, which: np.ndarray) -> Labels:
        """Return the labels of some labelled rows only; the classes stay the same."""
        n, weights = len(which), None if self.weights is None else self.weights[which]
        return Labels(
            self.task, self.classes, np.ones(n, dtype=bool), np.arange(n), self.values[which], weights
        )

    def signs(self) -> np.ndarray:
        """Return -1/+1 targets, one-vs-rest (l, c); for two classes (l, 1), where +1 is `classes[1]`."""
        self._needs_classes("signs")
        return 2.0 * (self.values[:, None] if self.task == "binary" else self.indicator()) - 1.0

    def counts(self) -> np.ndarray:
        """Return the number of labelled rows in each class, (c,)."""
        self._needs_classes("counts")
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
    weights: np.ndarray | None = None,
    uses_unlabelled: bool = True,
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
    weights : ndarray of shape (n,), optional
        Weights of the rows. A row of weight 0 is read as if it had no label.
    uses_unlabelled : bool, default=True
        Whether the estimator learns from unlabelled rows. If not, and `unlabeled` is no more frequent in y than a
        class, there is a warning: it may be a class itself.

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
        found, values, index = _read_matrix(array, unlabeled, task, can_regress)
    else:
        found, values, index, signs = _read_column(array, rows, unlabeled, task)
        if signs:
            n_marked = int((values == -1).sum())
            warn_of_two_classes(n_marked, len(values) - n_marked)
        elif (
            found == "classes"
            and not uses_unlabelled
            and len(index) < len(rows)
            and values.dtype.kind in "iuf"
        ):
            warn_of_left_out(values, int(_marked(array, unlabeled).sum()), unlabeled, estimator)
        if found == "regression" and not can_regress:
            _refuse_continuous(values, estimator, allowed)
    if weights is not None and len(index):
        counted = weights[index] > 0
        if not counted.any():
            raise ValueError(
                f"sample_weight is 0 in all {len(index)} labelled rows; give some of them a weight."
            )
        values, index = values[counted], index[counted]
        weights = weights[index]
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
                f"{wording().start} has one class only, {_show(classes[0])}, in its {len(index)} labelled "
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
                f"No labelled row of Y is positive in label columns {_listed(empty)}; "
                "nothing can be learned about them, so label such rows or drop the columns."
            )
    if len(index) < n:
        _warn_of_plain_folds(unlabeled, task)
    return Labels(found, classes, _as_mask(index, n), index, values, weights)


def _warn_of_plain_folds(unlabeled: Any, task: str) -> None:
    """Warn if scikit-learn's cross-validation holds out unlabelled rows, which cannot be scored."""
    folds = _held_out_by_scikit_learn()
    if folds is None or folds[0] is None:
        return
    known, _ = score_targets(safe_indexing(folds[0], folds[1]), unlabeled=unlabeled, task=task)
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
    allowed: Collection[str] | None = None,
    estimator: str = "This estimator",
) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the kind of labels ("classes", "multilabel", "regression"), then the results of `score_targets`.

    `has_task` says whether the estimator has a parameter ``task``, and `estimator` is its name, for messages. With
    `allowed` there is an error if labels of this kind are not allowed.
    """
    unlabeled = _check_options(unlabeled, task)
    array, rows, n = as_array(y, quiet=True)
    if array.ndim == 2:
        found, values, index = _read_matrix(
            array, unlabeled, task, can_regress=task != "classification", has_task=has_task
        )
    else:
        are_known = classes is not None and len(classes) > 0
        if are_known and unlabeled in np.asarray(classes).tolist():
            unlabeled = None
        found, values, index, _ = _read_column(array, rows, unlabeled, task, are_known)
    if allowed is not None and len(index):
        if found == "regression" and found not in allowed:
            raise ValueError(_continuous(estimator, "fractions"))
        if found != "classes":
            _check_allowed(found, allowed, estimator)
    return found, _as_mask(index, n), values


def _check_options(unlabeled: Any, task: str) -> Any:
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f'task is {task!r}; pass "auto", "classification" or "regression".')
    if isinstance(unlabeled, np.generic):
        unlabeled = unlabeled.item()
    if isinstance(unlabeled, bool) or not isinstance(unlabeled, Real | str | bytes | None):
        raise TypeError(
            f"unlabeled is {_show(unlabeled)} of type {type(unlabeled).__name__}; pass a number, a string, "
            "or None where only missing values mean unlabelled."
        )
    # NaN is a missing value, which always means unlabelled.
    return None if unlabeled != unlabeled else unlabeled


def _refuse_continuous(values: np.ndarray, estimator: str, allowed: Collection[str]) -> None:
    """Raise an error if a value is not a whole number."""
    some = _fractions(values)
    if len(some):
        what = f"fractions such as {_show(some[0])}"
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


def as_array(y: Any, quiet: bool = False) -> tuple[np.ndarray, np.ndarray, int]:
    """Return y as a 1-D or 2-D array without pandas' missing values, the indices of its rows, and n."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(y, pandas.Series | pandas.api.extensions.ExtensionArray):
        # Missing values are dropped first: a nullable integer column would become float or object.
        kept = ~np.asarray(pandas.isna(y))
        return np.asarray(pandas.Series(y).array[kept]), np.flatnonzero(kept), len(y)
    try:
        if sparse.issparse(y):
            array = y.toarray()
        elif isinstance(y, np.ma.MaskedArray):
            array = y.data.astype(object)
            array[np.ma.getmaskarray(y)] = None
        elif isinstance(y, list | tuple):
            # As objects: NumPy would turn ["a", nan] and ["a", 1] into strings.
            array = np.array(y, dtype=object)
        else:
            array = np.asarray(y.cpu() if hasattr(y, "cpu") else y)  # a tensor may be on a device
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"y of type {type(y).__name__} could not be read as a NumPy array; pass a list, a pandas Series "
            "or an array in main memory."
        ) from error
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        what = f"an array of shape {array.shape}" if array.ndim else f"a single {type(y).__name__}"
        raise ValueError(f"y is {what}; pass one label a row, (n,), or an indicator matrix, (n, c).")
    if array.ndim == 2 and array.shape[1] == 1:
        if not quiet:
            warn_user(
                "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
                "(n_samples,), for example using ravel().",
                DataConversionWarning,
            )
        array = array[:, 0]
    return array, np.arange(len(array)), len(array)


def _read_column(
    array: np.ndarray, rows: np.ndarray, unlabeled: Any, task: str, are_known: bool = False
) -> tuple[str, np.ndarray, np.ndarray, bool]:
    """Return the task ("classes", "regression"), the labelled values, their rows, and whether -1 is a class."""
    if array.dtype.kind == "T":
        array = array.astype(object)
    values, index = array, rows
    if array.dtype.kind in "fmMO" and (missing := missing_cells(array)).any():
        values, index = array[~missing], rows[~missing]
    # -1 is a valid regression target; a string is not.
    mark = None if task == "regression" and isinstance(unlabeled, Real) else unlabeled
    marked = _marked(values, mark)
    left = np.flatnonzero(~marked) if marked.any() else slice(None)  # a slice copies nothing
    rest, kept = _one_kind(values[left]), index[left]
    if rest.dtype.kind == "f":
        _check_finite(rest, kept)
    if task == "regression":
        if rest.dtype.kind not in "biuf":
            raise ValueError(
                f"{wording().start} holds {_show(rest[0])} and the task is regression; convert it to float64."
            )
        return "regression", _in_range(rest.astype(np.float64)), kept, False
    if rest.dtype.kind == "f" and len(_fractions(rest)):
        return _read_column(array, rows, unlabeled, "regression")
    if (
        not are_known
        and mark == -1
        and marked.any()
        and len(rest)
        and rest.dtype.kind in "iuf"
        and (rest == 1).all()
    ):
        return "classes", _one_kind(values), index, True
    return "classes", rest, kept, False


def _read_matrix(
    array: np.ndarray, unlabeled: Any, task: str, can_regress: bool, has_task: bool = True
) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the task ("multilabel", "regression") of a 2-D y, its labelled rows (l, c), and their positions."""
    Y = _float_matrix(array, unlabeled)
    missing = np.isnan(Y)
    gone = missing.all(axis=1)
    partly = np.flatnonzero(missing.any(axis=1) & ~gone)
    if len(partly):
        raise ValueError(
            f"Y is partly missing in rows {_listed(partly)}; fill them in, or make the whole row NaN to "
            "leave it unlabelled."
        )
    index = np.flatnonzero(~gone)
    Y = Y[index]
    _check_finite(Y, index)
    if task == "regression" or (can_regress and len(_fractions(Y))):
        return "regression", _in_range(Y), index
    if isinstance(unlabeled, Real):
        mark: Any = unlabeled
        kept = np.not_equal(Y, mark).any(axis=1)
        Y, index = Y[kept], index[kept]
    odd = np.argwhere((Y != 0) & (Y != 1))
    if len(odd):
        row, column = odd[0]
        hint = f", or {wording().regression}" if can_regress and has_task else ""
        raise ValueError(
            f"Y has the value {Y[row, column]:g} in row {index[row]}, column {column}, and a multi-label Y "
            f"holds 0 and 1; mark each label with 1, the others with 0, an unlabelled row all with NaN{hint}."
        )
    return "multilabel", Y, index


def _float_matrix(array: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return a 2-D y as float64, with NaN for missing values and for rows of text that means unlabelled."""
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    cells = array.astype(object).ravel()
    gone = missing_cells(cells)
    if isinstance(unlabeled, str | bytes):
        marked = _marked(cells, unlabeled).reshape(array.shape).all(axis=1)
        gone |= np.repeat(marked, array.shape[1])
    rest = _one_kind(cells[~gone])
    if rest.dtype.kind not in "biuf":
        row, column = divmod(int(np.flatnonzero(~gone)[0]), array.shape[1])
        raise ValueError(
            f"Y has the value {_show(rest[0])} in row {row}, column {column}, and a multi-label Y holds 0 "
            "and 1; sklearn.preprocessing.MultiLabelBinarizer makes such a matrix from names."
        )
    Y = np.full(cells.size, np.nan)
    Y[~gone] = rest
    return Y.reshape(array.shape)


def _one_kind(values: np.ndarray) -> np.ndarray:
    """Check that the values are of one kind, and return them; Python numbers get a NumPy dtype."""
    if not len(values):
        return np.empty(0)
    if values.dtype.kind in "biufUSmM":
        return values
    types = set(map(type, values.tolist()))
    families = {next((kind for kind in (_NUMBERS, str, bytes) if issubclass(t, kind)), t) for t in types}
    names = " and ".join(sorted(t.__name__ for t in types))
    if len(families) > 1:
        raise ValueError(
            f"{wording().start} mixes labels of types {names}; convert them all to one type, such as str."
        )
    if families == {_NUMBERS}:
        whole = all(issubclass(t, Integral | np.bool_) for t in types)
        logical = all(issubclass(t, bool | np.bool_) for t in types)
        try:
            return values.astype(bool if logical else np.int64 if whole else np.float64)
        except OverflowError:
            return values  # integers beyond 64 bits still serve as classes
    if any(issubclass(t, Collection | Complex) and not issubclass(t, str | bytes) for t in types):
        raise ValueError(
            f"{wording().start} holds labels of type {names}; pass one number or string a row, or for several "
            "labels a row the 0/1 matrix that sklearn.preprocessing.MultiLabelBinarizer makes."
        )
    return values


def missing_cells(values: np.ndarray) -> np.ndarray:
    """Return a mask of the values that are NaN, NaT, None or pandas.NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    # If pandas is not loaded, y cannot hold pandas.NA.
    absent = {type(None), type(getattr(sys.modules.get("pandas"), "NA", None))}
    # Only types that have a NaN or NaT are compared, since comparing an array in a cell gives no single bool.
    nan_types = float | np.inexact | Decimal | np.datetime64 | np.timedelta64 | datetime
    types = set(map(type, values))
    odd = {t for t in types if issubclass(t, nan_types)}
    return np.fromiter((type(v) in absent or (type(v) in odd and v != v) for v in values), bool, len(values))


def _marked(values: np.ndarray, mark: Any) -> np.ndarray:
    """Return a mask of the values that equal the mark. A number matches numbers, not booleans; text matches text."""
    kind = values.dtype.kind
    if mark is not None and kind == "O":
        alike: Any = type(mark) if isinstance(mark, str | bytes) else _NUMBERS
        types = {
            t for t in set(map(type, values)) if issubclass(t, alike) and not issubclass(t, bool | np.bool_)
        }
        return np.fromiter((type(v) in types and v == mark for v in values), bool, len(values))
    alike = {"i": Real, "u": Real, "f": Real, "U": str, "S": bytes}.get(kind)
    return values == mark if alike and isinstance(mark, alike) else np.zeros(len(values), dtype=bool)


def encode(values: np.ndarray, as_text: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes (c,) and the code of each value (l,)."""
    if values.dtype.kind != "O":
        return np.unique(values, return_inverse=True)
    # LDA of 1,000,000 x 20 with text labels takes 2.4 times as long if the objects are sorted
    # (benchmarks/second_ways.py).
    names = values.tolist()
    try:
        ordered = sorted(set(names))
    except (TypeError, ValueError, ArithmeticError) as error:
        kind = type(names[0]).__name__
        raise ValueError(
            f"{wording().start} holds labels of type {kind}, which cannot be sorted; convert them to str or int."
        ) from error
    code = {name: i for i, name in enumerate(ordered)}
    codes = np.fromiter(map(code.__getitem__, names), np.intp, len(names))
    classes = np.empty(len(ordered), dtype=values.dtype)
    classes[:] = ordered
    if as_text and isinstance(ordered[0], str | bytes):
        text = np.array(ordered)
        # NumPy drops trailing NUL characters of a string; two classes must not become one by that.
        classes = text if text.tolist() == ordered else classes
    return classes, codes


def _check_finite(values: np.ndarray, rows: np.ndarray) -> None:
    bad = np.isinf(values)
    if bad.any():
        row = rows[np.argwhere(bad)[0, 0]]
        raise ValueError(
            f"Input y contains infinity or a value too large for dtype('float64') in row {row}; "
            "put a number there, or NaN for unlabelled."
        )


def _in_range(values: np.ndarray) -> np.ndarray:
    """Raise an error if the numbers overflow or vanish in float32, the precision of some predictions."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest and not 1 / _MAX_NUMBER < largest < _MAX_NUMBER:
        raise ValueError(
            f"The largest number of {wording().y} is {largest:.1e}, where {1 / _MAX_NUMBER:.0e} to {_MAX_NUMBER:.0e} "
            "is expected; multiply all of them by a constant."
        )
    return values


def _fractions(values: np.ndarray) -> np.ndarray:
    """Return the values that are not whole numbers."""
    return values[values != np.floor(values)]


def _as_mask(index: np.ndarray, n: int) -> np.ndarray:
    """Return a mask of n rows that is true at ``index``."""
    mask = np.zeros(n, dtype=bool)
    mask[index] = True
    return mask


def _show(value: Any) -> str:
    """Return a short, one-line repr."""
    return " ".join(reprlib.repr(value.item() if isinstance(value, np.generic) else value).split())


def _listed(items: np.ndarray, n_shown: int = 5) -> str:
    """Return the first few items as text, and the number of others."""
    more = f" and {len(items) - n_shown} more" if len(items) > n_shown else ""
    return ", ".join(map(_show, items[:n_shown])) + more


def _held_out_by_scikit_learn() -> tuple[Any, Any] | None:
    """Return all labels and the held-out rows if scikit-learn's cross-validation is the caller, otherwise None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_CROSS_VALIDATION) and {"y", "test"} <= frame.f_locals.keys():
            return frame.f_locals["y"], frame.f_locals["test"]
        frame = frame.f_back
    return None
