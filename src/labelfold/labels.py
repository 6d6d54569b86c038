"""What is labelled, and in which task: the one place where y is interpreted."""

from __future__ import annotations

import reprlib
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

NUMBERS = Real | Decimal | np.bool_


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
    ([-1.0, 1.0, -1.0], [2, 1])
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
        """Whether every row carries a label."""
        return self.n_labelled == self.n_rows

    def indicator(self) -> np.ndarray:
        """Return the (l, c) 0/1 float64 matrix of who belongs where; for binary it has two columns."""
        self._needs_classes("indicator")
        if self.task == "multilabel":
            return self.values.copy()
        one_hot = np.zeros((self.n_labelled, self.n_classes))
        one_hot[np.arange(self.n_labelled), self.values] = 1.0
        return one_hot

    def signs(self) -> np.ndarray:
        """Return -1/+1 targets, one-vs-rest (l, c); for binary (l,), where +1 is `classes[1]`."""
        self._needs_classes("signs")
        return 2.0 * (self.values if self.task == "binary" else self.indicator()) - 1.0

    def counts(self) -> np.ndarray:
        """Return the number of labelled rows in each class, (c,)."""
        self._needs_classes("counts")
        if self.task == "multilabel":
            return self.values.sum(axis=0).astype(np.intp)
        return np.bincount(self.values, minlength=self.n_classes)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Turn codes into class values; multi-label 0/1 comes back as integers, regression unchanged."""
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
    """Read y: which rows are labelled, in which task, with which values. Never writes to y.

    Parameters
    ----------
    y : array-like of shape (n,), or (n, c) for multi-label, or (n, t) for regression
        Missing values (None, NaN, pandas.NA, a masked entry) always mean unlabelled. A 2-D row is unlabelled
        if all of it is missing or equal to `unlabeled`; a multi-label row of zeros is labelled: it has none.
        Values of only -1 and +1 are two classes, with a warning, where `unlabeled` is -1.
    n_rows : int, optional
        Number of rows of X, which y has to match.
    unlabeled : number, str, bytes or None, default=-1
        The value that means unlabelled beside the missing ones; None: there is none, every value is a class.
        A number never means unlabelled in regression, or in a boolean y.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" reads floats with fractions as regression where that is allowed, everything else as classes.
    allowed : collection of {"binary", "multiclass", "multilabel", "regression"}
        The tasks the estimator takes. Where that is regression alone, "auto" means regression.
    estimator : str
        Its name, for messages.

    Returns
    -------
    Labels

    Raises
    ------
    ValueError
        In one sentence: what was given, what was expected, what to do.
    TypeError
        If `unlabeled` is of a kind that cannot be a label.

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
    array, rows, n = _as_array(y)
    if n_rows is not None and n != n_rows:
        raise ValueError(f"y has {n} rows and X has {n_rows}; pass one label, or one unlabelled mark, a row.")
    if set(allowed) == {"regression"} and task == "auto":
        task = "regression"
    can_regress = "regression" in allowed and task != "classification"
    if task == "regression" or (array.ndim == 2 and not can_regress):
        _check_allowed("regression" if task == "regression" else "multilabel", allowed, estimator)

    classes = np.empty(0)
    if array.ndim == 2:
        found, values, index = _read_matrix(array, unlabeled, task, can_regress)
    else:
        found, values, index, signs = _read_column(array, rows, unlabeled, task)
        if signs:
            _warn(
                "The only values of y are -1 and +1, which is read as two classes although unlabeled=-1; "
                "pass unlabeled=None to say so and silence this warning."
            )
        if found == "regression" and not can_regress:
            raise ValueError(
                f"Unknown label type: continuous, since {estimator} takes classes and y holds fractions such "
                f"as {_show(_fractions(values)[0])}; cut y into classes, or use a method for regression."
            )
    # The marks as messages name them; a number is none in regression.
    mark = None if found == "regression" and isinstance(unlabeled, Real) else unlabeled
    marks = "missing" if mark is None else f"missing or {mark!r}"
    if not len(index):
        raise ValueError(f"y has no labelled row, all of its {n} rows are {marks}; label some of them.")
    if found == "classes":
        classes, values = _encode(values, as_text=isinstance(y, list | tuple))
        if len(classes) == 1:
            others = "" if len(index) == n else f", the other {n - len(index)} being {marks}"
            raise ValueError(
                f"y has one class only, {_show(classes[0])}, in its {len(index)} labelled rows{others}; "
                "label rows of two classes or more, or pass unlabeled=None if every value is a class."
            )
        found = "binary" if len(classes) == 2 else "multiclass"
        if isinstance(unlabeled, Real) and str(unlabeled) in classes.tolist():
            _warn(
                f"y holds the text '{unlabeled}', read as a class although unlabeled={unlabeled!r}; "
                f"pass unlabeled='{unlabeled}' if it marks unlabelled rows, or unlabeled=None if not."
            )
    _check_allowed(found, allowed, estimator)
    if found == "multilabel":
        classes = np.asarray(getattr(y, "columns", np.arange(array.shape[1])))
        empty = classes[~values.any(axis=0)]
        if len(empty):
            _warn(
                f"No labelled row of Y is positive in label columns {_listed(empty)}; "
                "nothing can be learned about them, so label such rows or drop the columns."
            )
    return Labels(found, classes, _mask(index, n), index, values)


def score_targets(
    y: Any,
    *,
    unlabeled: float | str | bytes | None = -1,
    task: str = "auto",
    classes: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows count when scoring, (n,), and their values, (l, ...), in a dtype that metrics take.

    Unlike `read_labels` it accepts a y with no labelled row or one class. `classes` are those of the fitted
    model: they settle whether -1 is a class or means unlabelled, which a few test rows cannot.

    Examples
    --------
    >>> score_targets([-1, 1, None, -1], classes=np.array([0, 1]))
    (array([False,  True, False, False]), array([1]))
    >>> score_targets([-1, 1, None, -1], classes=np.array([-1, 1]))
    (array([ True,  True, False,  True]), array([-1,  1, -1]))
    """
    unlabeled = _check_options(unlabeled, task)
    array, rows, n = _as_array(y, warn=False)
    if array.ndim == 2:
        _, values, index = _read_matrix(array, unlabeled, task, can_regress=task != "classification")
    else:
        settled = classes is not None and len(classes) > 0
        if settled and unlabeled in np.asarray(classes).tolist():
            unlabeled = None
        _, values, index, _ = _read_column(array, rows, unlabeled, task, settled)
    return _mask(index, n), values


def score_mask(
    y: Any,
    *,
    unlabeled: float | str | bytes | None = -1,
    task: str = "auto",
    classes: np.ndarray | None = None,
) -> np.ndarray:
    """Return which rows count when scoring, (n,): the labelled ones, as `score_targets` reads them."""
    return score_targets(y, unlabeled=unlabeled, task=task, classes=classes)[0]


def _check_options(unlabeled: Any, task: str) -> float | str | bytes | None:
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f'task is {task!r}; pass "auto", "classification" or "regression".')
    if isinstance(unlabeled, np.generic):
        unlabeled = unlabeled.item()
    if isinstance(unlabeled, bool) or not isinstance(unlabeled, Real | str | bytes | None):
        raise TypeError(
            f"unlabeled is {_show(unlabeled)} of type {type(unlabeled).__name__}; pass a number, a string, "
            "or None where only missing values mean unlabelled."
        )
    # NaN as the mark asks for what missing values mean anyway.
    return None if unlabeled != unlabeled else unlabeled


def _check_allowed(found: str, allowed: Collection[str], estimator: str) -> None:
    if found in allowed:
        return
    todo = {
        "binary": "label rows of more classes",
        "multiclass": "fit one class against the rest at a time",
        "multilabel": "pass one column of Y at a time",
        "regression": "cut y into classes, or use a method for regression",
    }[found]
    if "regression" in allowed:
        todo += ', or pass task="regression"'
    # scikit-learn's checks look for this wording in estimators of two classes.
    lead = (
        "Only binary classification is supported: " if found == "multiclass" and "binary" in allowed else ""
    )
    raise ValueError(f"{lead}{estimator} takes {' or '.join(allowed)} targets and y is {found}; {todo}.")


def _as_array(y: Any, warn: bool = True) -> tuple[np.ndarray, np.ndarray, int]:
    """Return y as a 1-D or 2-D array, the rows it covers (pandas drops its missing values) and n."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(y, pandas.Series | pandas.api.extensions.ExtensionArray):
        # Dropped before conversion: a nullable integer column with a gap would come out as float or object.
        kept = ~np.asarray(pandas.isna(y))
        return np.asarray(pandas.Series(y).array[kept]), np.flatnonzero(kept), len(y)
    try:
        if sparse.issparse(y):
            array = y.toarray()
        elif isinstance(y, np.ma.MaskedArray):
            array = np.where(np.ma.getmaskarray(y), None, y.data.astype(object))
        elif isinstance(y, list | tuple):
            # As objects: NumPy would turn ["a", nan] and ["a", 1] into strings.
            array = np.array(y, dtype=object)
        else:
            array = np.asarray(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"y of type {type(y).__name__} could not be read as a NumPy array; pass a list, a pandas Series "
            "or an array in main memory."
        ) from error
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        what = f"an array of shape {array.shape}" if array.ndim else f"a single {type(y).__name__}"
        raise ValueError(f"y is {what}; pass one label a row, (n,), or an indicator matrix, (n, c).")
    if array.ndim == 2 and array.shape[1] == 1:
        if warn:
            _warn(
                "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
                "(n_samples,), for example using ravel().",
                DataConversionWarning,
            )
        array = array[:, 0]
    return array, np.arange(len(array)), len(array)


def _read_column(
    array: np.ndarray, rows: np.ndarray, unlabeled: Any, task: str, settled: bool = False
) -> tuple[str, np.ndarray, np.ndarray, bool]:
    """Return the task ("classes", "regression"), the labelled values, their rows, and if -1 is a class."""
    if array.dtype.kind == "T":
        array = array.astype(object)
    present = ~_missing(array)
    values, index = array[present], rows[present]
    # -1 is a fine regression target; a string cannot be one.
    mark = None if task == "regression" and isinstance(unlabeled, Real) else unlabeled
    marked = _marked(values, mark)
    rest, kept = _one_kind(values[~marked]), index[~marked]
    if rest.dtype.kind == "f":
        _check_finite(rest, kept)
    if task == "regression":
        if rest.dtype.kind not in "biuf":
            raise ValueError(f"y holds {_show(rest[0])} and the task is regression; convert y to float64.")
        return "regression", rest.astype(np.float64), kept, False
    if rest.dtype.kind == "f" and len(_fractions(rest)):
        return _read_column(array, rows, unlabeled, "regression")
    if (
        not settled
        and mark == -1
        and marked.any()
        and len(rest)
        and rest.dtype.kind in "iuf"
        and (rest == 1).all()
    ):
        return "classes", _one_kind(values), index, True
    return "classes", rest, kept, False


def _read_matrix(
    array: np.ndarray, unlabeled: Any, task: str, can_regress: bool
) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the task ("multilabel", "regression") of a 2-D y, its labelled rows (l, c), where they are."""
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
        return "regression", Y, index
    if isinstance(unlabeled, Real):
        kept = np.not_equal(Y, unlabeled).any(axis=1)
        Y, index = Y[kept], index[kept]
    odd = np.argwhere((Y != 0) & (Y != 1))
    if len(odd):
        row, column = odd[0]
        hint = ', or pass task="regression"' if can_regress else ""
        raise ValueError(
            f"Y has the value {Y[row, column]:g} in row {index[row]}, column {column}, and a multi-label Y "
            f"holds 0 and 1; mark each label with 1, the others with 0, an unlabelled row all with NaN{hint}."
        )
    return "multilabel", Y, index


def _float_matrix(array: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return a 2-D y as float64, NaN where missing and in rows that hold nothing but a text mark."""
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    cells = array.astype(object).ravel()
    gone = _missing(cells)
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
    """Return the values, checked to be labels of one kind; Python numbers become a NumPy dtype."""
    if not len(values):
        return np.empty(0)
    if values.dtype.kind in "biufUSmM":
        return values
    types = set(map(type, values.tolist()))
    families = {next((kind for kind in (NUMBERS, str, bytes) if issubclass(t, kind)), t) for t in types}
    names = " and ".join(sorted(t.__name__ for t in types))
    if len(families) > 1:
        raise ValueError(f"y mixes labels of types {names}; convert them all to one type, such as str.")
    if families == {NUMBERS}:
        whole = all(issubclass(t, Integral | np.bool_) for t in types)
        logical = all(issubclass(t, bool | np.bool_) for t in types)
        try:
            return values.astype(bool if logical else np.int64 if whole else np.float64)
        except OverflowError:
            return values  # integers beyond 64 bits still serve as classes
    if any(issubclass(t, Collection | Complex) and not issubclass(t, str | bytes) for t in types):
        raise ValueError(
            f"y holds labels of type {names}; pass one number or string a row, or for several labels a row "
            "the 0/1 matrix that sklearn.preprocessing.MultiLabelBinarizer makes."
        )
    return values


def _missing(values: np.ndarray) -> np.ndarray:
    """Return where values is NaN, NaT, None or pandas.NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    # Without pandas loaded there is no pandas.NA to meet.
    absent = {type(None), type(getattr(sys.modules.get("pandas"), "NA", None))}
    # Only types that have a NaN or NaT are compared: an array in a cell has no single truth value.
    nan_types = float | np.inexact | Decimal | np.datetime64 | np.timedelta64 | datetime
    odd = {t for t in set(map(type, values)) if issubclass(t, nan_types)}
    return np.fromiter((type(v) in absent or (type(v) in odd and v != v) for v in values), bool, len(values))


def _marked(values: np.ndarray, mark: Any) -> np.ndarray:
    """Return where values equals the mark; a number marks numbers, not booleans, and a string strings."""
    kind = values.dtype.kind
    if mark is not None and kind == "O":
        alike = type(mark) if isinstance(mark, str | bytes) else NUMBERS
        types = {
            t for t in set(map(type, values)) if issubclass(t, alike) and not issubclass(t, bool | np.bool_)
        }
        return np.fromiter((type(v) in types and v == mark for v in values), bool, len(values))
    alike = {"i": Real, "u": Real, "f": Real, "U": str, "S": bytes}.get(kind)
    return values == mark if alike and isinstance(mark, alike) else np.zeros(len(values), dtype=bool)


def _encode(values: np.ndarray, as_text: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes (c,) and the code of each value (l,)."""
    if values.dtype.kind not in "USO":
        return np.unique(values, return_inverse=True)
    # Hashing is linear, and far quicker than sorting a million strings.
    names = values.tolist()
    try:
        ordered = sorted(set(names))
    except (TypeError, ValueError, ArithmeticError) as error:
        kind = type(names[0]).__name__
        raise ValueError(
            f"y holds labels of type {kind}, which cannot be sorted; convert them to str or int."
        ) from error
    code = {name: i for i, name in enumerate(ordered)}
    codes = np.fromiter(map(code.__getitem__, names), np.intp, len(names))
    classes = np.empty(len(ordered), dtype=values.dtype)
    classes[:] = ordered
    if as_text and isinstance(ordered[0], str | bytes):
        text = np.array(ordered)
        # NumPy drops NUL characters at the end of a string, which must not merge two classes.
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


def _fractions(values: np.ndarray) -> np.ndarray:
    return values[values != np.floor(values)]


def _mask(index: np.ndarray, n: int) -> np.ndarray:
    mask = np.zeros(n, dtype=bool)
    mask[index] = True
    return mask


def _show(value: Any) -> str:
    """Return a short, one-line repr."""
    return " ".join(reprlib.repr(value.item() if isinstance(value, np.generic) else value).split())


def _listed(items: np.ndarray, most: int = 5) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(map(_show, items[:most])) + more


def _warn(message: str, category: type[Warning] = UserWarning) -> None:
    # 1 is here, 2 is read_labels, 3 is the estimator's fit, 4 is the user's line.
    warnings.warn(message, category, stacklevel=4)
