"""Converts y, in any container, to arrays of the labelled rows and their values."""

from __future__ import annotations

import os
import reprlib
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from numbers import Complex, Integral, Real
from types import FrameType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from labelfold.utils import warn_user

NUMBERS = Real | Decimal | np.bool_
_RANGE = (1e-37, 1e37)  # range of the largest regression target: float32 must not overflow
_CROSS_VALIDATION = os.path.join("sklearn", "model_selection", "_validation.py")


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


def read_column(
    array: np.ndarray, rows: np.ndarray, unlabeled: Any, task: str, settled: bool = False
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
                f"{wording().start} holds {show(rest[0])} and the task is regression; convert it to float64."
            )
        return "regression", _in_range(rest.astype(np.float64)), kept, False
    if rest.dtype.kind == "f" and len(fractions(rest)):
        return read_column(array, rows, unlabeled, "regression")
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


def read_matrix(
    array: np.ndarray, unlabeled: Any, task: str, can_regress: bool, has_task: bool = True
) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the task ("multilabel", "regression") of a 2-D y, its labelled rows (l, c), and their positions."""
    Y = _float_matrix(array, unlabeled)
    missing = np.isnan(Y)
    gone = missing.all(axis=1)
    partly = np.flatnonzero(missing.any(axis=1) & ~gone)
    if len(partly):
        raise ValueError(
            f"Y is partly missing in rows {listed(partly)}; fill them in, or make the whole row NaN to "
            "leave it unlabelled."
        )
    index = np.flatnonzero(~gone)
    Y = Y[index]
    _check_finite(Y, index)
    if task == "regression" or (can_regress and len(fractions(Y))):
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
            f"Y has the value {show(rest[0])} in row {row}, column {column}, and a multi-label Y holds 0 "
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
    families = {next((kind for kind in (NUMBERS, str, bytes) if issubclass(t, kind)), t) for t in types}
    names = " and ".join(sorted(t.__name__ for t in types))
    if len(families) > 1:
        raise ValueError(
            f"{wording().start} mixes labels of types {names}; convert them all to one type, such as str."
        )
    if families == {NUMBERS}:
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
    if types <= {type(None), str, int, float, bool}:  # vectorised, since there may be millions of rows
        gone = values == np.array(None)
        return gone | (values != values) if float in types else gone
    odd = {t for t in types if issubclass(t, nan_types)}
    return np.fromiter((type(v) in absent or (type(v) in odd and v != v) for v in values), bool, len(values))


def _marked(values: np.ndarray, mark: Any) -> np.ndarray:
    """Return a mask of the values that equal the mark. A number matches numbers, not booleans; text matches text."""
    kind = values.dtype.kind
    if mark is not None and kind == "O":
        alike: Any = type(mark) if isinstance(mark, str | bytes) else NUMBERS
        types = {
            t for t in set(map(type, values)) if issubclass(t, alike) and not issubclass(t, bool | np.bool_)
        }
        return np.fromiter((type(v) in types and v == mark for v in values), bool, len(values))
    alike = {"i": Real, "u": Real, "f": Real, "U": str, "S": bytes}.get(kind)
    return values == mark if alike and isinstance(mark, alike) else np.zeros(len(values), dtype=bool)


def encode(values: np.ndarray, as_text: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes (c,) and the code of each value (l,)."""
    if (
        values.dtype.kind in "iu"
        and len(values)
        and (low := int(values.min())) + len(values) >= int(values.max())
    ):
        # Counting is linear, where sorting a million numbers takes ten times as long.
        places = (values - values.dtype.type(low) if low else values).astype(np.intp, copy=False)
        present = np.bincount(places) > 0
        classes = np.flatnonzero(present).astype(values.dtype) + values.dtype.type(low)
        return classes, places if present.all() else (np.cumsum(present) - 1)[places]
    if values.dtype.kind not in "USO":
        return np.unique(values, return_inverse=True)
    # Hashing is linear, and much faster than sorting a million strings.
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
    if largest and not _RANGE[0] < largest < _RANGE[1]:
        raise ValueError(
            f"The largest number of {wording().y} is {largest:.1e}, where {_RANGE[0]:.0e} to {_RANGE[1]:.0e} is "
            "expected; multiply all of them by a constant."
        )
    return values


def fractions(values: np.ndarray) -> np.ndarray:
    """Return the values that are not whole numbers."""
    return values[values != np.floor(values)]


def as_mask(index: np.ndarray, n: int) -> np.ndarray:
    """Return a mask of n rows that is true at ``index``."""
    mask = np.full(n, len(index) == n)
    if len(index) < n:
        mask[index] = True
    return mask


def show(value: Any) -> str:
    """Return a short, one-line repr."""
    return " ".join(reprlib.repr(value.item() if isinstance(value, np.generic) else value).split())


def listed(items: np.ndarray, most: int = 5) -> str:
    """Return the first few items as text, and the number of others."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(map(show, items[:most])) + more


def held_out_by_scikit_learn() -> tuple[Any, Any] | None:
    """Return all labels and the held-out rows if scikit-learn's cross-validation is the caller, otherwise None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_CROSS_VALIDATION) and {"y", "test"} <= frame.f_locals.keys():
            return frame.f_locals["y"], frame.f_locals["test"]
        frame = frame.f_back
    return None


@dataclass(frozen=True)
class Wording:
    """The words that depend on the caller: a call in Python, or a command with options.

    Attributes
    ----------
    y : str
        The name of y within a sentence.
    only_missing : str
        How to request that only missing values mean unlabelled.
    regression, classification : str
        How to request regression, and how classification was requested.
    """

    y: str = "y"
    only_missing: str = "pass unlabeled=None"
    regression: str = 'pass task="regression"'
    classification: str = 'task is "classification"'

    @property
    def start(self) -> str:
        """The name of y at the start of a sentence."""
        return self.y if self.y == "y" else self.y[0].upper() + self.y[1:]


_PYTHON = Wording()


_WORDING: ContextVar[Wording] = ContextVar("wording", default=_PYTHON)


def wording() -> Wording:
    """Return the words in use.

    >>> wording().y
    'y'
    """
    return _WORDING.get()


@contextmanager
def worded(**words: str) -> Iterator[None]:
    """Use other words, by the attributes of `Wording`, within a ``with`` block.

    >>> with worded(y="the target"):
    ...     wording().start
    'The target'
    """
    token = _WORDING.set(replace(_WORDING.get(), **words))
    try:
        yield
    finally:
        _WORDING.reset(token)
