"""Containers as rows: which adapter reads a container, and the checks of what an estimator is given."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj
from scipy import sparse
from sklearn import get_config
from sklearn.utils.validation import validate_data

from labelfold.rows._rows import Rows
from labelfold.rows.adapters._device_blocks import has_float64, to_device
from labelfold.rows.adapters._files import file_rows
from labelfold.rows.adapters._local import memory_rows
from labelfold.rows.adapters._stream import IterableRows, memmap_rows
from labelfold.utils import check_feature_names, check_n_features


def as_rows(X: Any, like: Any = None) -> Rows:
    """Return the data as rows.

    Parameters
    ----------
    X : container
        A NumPy array, nested lists or a DataFrame of numbers; a SciPy sparse matrix or array (CSR is used unchanged,
        other formats are converted); a ``numpy.memmap`` or the path of a .npy, Parquet, CSV or svmlight file
        (streamed, see `read_rows`); a list of blocks, or any object or function that returns the same blocks each
        time (streamed); an array-API array such as a torch tensor, dense or sparse (processed on its device); a Dask
        array (dense chunks, or chunks that hold SciPy sparse matrices) or a Dask DataFrame of numbers.
    like : fitted estimator, optional
        Of a file, the columns that the estimator was fitted on are read.

    Returns
    -------
    rows : Rows

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> blocks = [np.ones((2, 3)), np.zeros((1, 3))]
    >>> as_rows(blocks).mean()
    array([0.66666667, 0.66666667, 0.66666667])
    """
    rows = X if isinstance(X, Rows) else _adapted(X, like)
    if not rows.shape[0]:
        raise ValueError("X holds no rows, where at least one row is expected; give it some rows")
    return rows


def validated_rows(estimator: Any, X: Any, *, reset: bool) -> Rows:
    """Return the rows that are given to an estimator, after the checks of scikit-learn.

    With ``reset``, in fit, the number and names of the columns are stored in the estimator; otherwise they are
    compared with those of fit.
    """
    if not is_table(X):
        rows = as_rows(X, None if reset else estimator)  # checks the values, unless they are rows already
        if rows.names is not None:
            _check_names(estimator, rows.names, reset=reset)
        elif rows is not X:
            check_feature_names(estimator, _without_rows(X, rows.shape[1]), reset=reset)
        check_n_features(estimator, rows, reset=reset)
        return rows
    _refuse_odd_table(X)
    try:
        return as_rows(
            validate_data(
                estimator, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False
            )
        )
    except (TypeError, ValueError) as error:
        if cell := _first_unlike_a_number(X):
            why = f" ({error})" if " of type " in cell else ""
            raise (TypeError if isinstance(error, TypeError) else ValueError)(
                f"{cell}, where {type(estimator).__name__} expects numbers; put labelfold.Recipe() before it in a "
                f"pipeline, which reads text, categories and dates, or drop the column{why}"
            ) from None
        raise


def _adapted(X: Any, like: Any) -> Rows:
    if isinstance(X, np.memmap):
        return memmap_rows(X)
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return memory_rows(X)
    if isinstance(X, str | os.PathLike):
        return file_rows(X, getattr(like, "feature_names_in_", None), getattr(like, "n_features_in_", None))
    if is_dask(X):
        from labelfold.rows.adapters._dask import DaskRows

        return DaskRows(X)
    if is_array_api_obj(X):
        from labelfold.rows.adapters._device import DeviceRows, DeviceSparseRows

        return DeviceSparseRows(X) if "sparse" in str(getattr(X, "layout", "")) else DeviceRows(X)
    if _is_blocks(X):
        return IterableRows(X)
    return memory_rows(X.to_numpy() if hasattr(X, "to_numpy") else X)


def is_table(X: Any) -> bool:
    """Return whether X is an in-memory container that scikit-learn's own validation accepts."""
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return not isinstance(X, np.memmap)
    others = isinstance(X, Rows | str | os.PathLike) or is_dask(X) or is_array_api_obj(X) or _is_blocks(X)
    return not others


def _first_unlike_a_number(X: Any) -> str:
    """Return which column of a table holds a value that is not a number, and its row (from 0); "" if none does.

    >>> _first_unlike_a_number(np.array([[1, "2"], [3, "red"]], dtype=object))
    "Column 1 holds 'red' in row 1"
    """
    if sparse.issparse(X):
        return ""
    named = hasattr(X, "columns")
    array = X if named else np.asarray(X)
    if not named and array.ndim != 2:
        return ""
    for name in list(X.columns) if named else range(array.shape[1]):
        values = np.asarray(X[name] if named else array[:, name])
        if values.dtype.kind in "Mm":
            return f"Column {name!r} holds dates or times, such as {values[:1].astype(str)[0]} in row 0"
        if values.dtype.kind not in "biufc" and values.ndim == 1:
            for i, value in enumerate(values):
                try:
                    float(value)
                except (TypeError, ValueError):
                    return f"Column {name!r} holds {_shortened(value)} in row {i}"
    return ""


def _refuse_odd_table(X: Any) -> None:
    """Raise an error for a data frame with a name twice, or rows of different lengths in a list.

    >>> _refuse_odd_table([[1.0], [1.0, 2.0]])
    Traceback (most recent call last):
    ValueError: X holds rows of different lengths, where each row has a number for every column; fill the gaps first
    """
    names = list(X.columns) if hasattr(X, "columns") else []
    if len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise ValueError(f"X has more than one column named {twice!r}; give each column a name of its own")
    if isinstance(X, list | tuple) and len({len(row) for row in X if isinstance(row, list | tuple)}) > 1:
        raise ValueError(
            "X holds rows of different lengths, where each row has a number for every column; fill the gaps first"
        )


def _shortened(value: Any) -> str:
    """Return a value as text for a message.

    >>> _shortened("a" * 50), _shortened(["x"])
    ("'aaaaaaaaaaaaaaaaaaaaaaaaa...'", "['x'] of type list")
    """
    text = repr(value)
    text = text if len(text) <= 32 else f"{text[:26]}...{text[-1]}"
    return text if isinstance(value, str) else f"{text} of type {type(value).__name__}"


def _without_rows(X: Any, n_columns: int) -> Any:
    """Return a table without rows that has the columns of X, with their names if X has names.

    >>> _without_rows([[1.0, 2.0]], 2).shape
    (0, 2)
    """
    if not hasattr(X, "columns"):
        return np.empty((0, n_columns))
    return getattr(X, "_meta", X)  # the empty pandas frame of a Dask frame


def _check_names(estimator: Any, names: list[str], *, reset: bool) -> None:
    """Store the names of the columns of a file, or compare them with those of `fit`."""
    if reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif list(getattr(estimator, "feature_names_in_", names)) != names:
        now, then = (", ".join(map(repr, some[:5])) for some in (names, list(estimator.feature_names_in_)))
        raise ValueError(
            f"X has the columns {now}, ..., where {type(estimator).__name__} was fitted on {then}, ...; give it the "
            "same columns in the same order"
        )


def alike(X: Any, made: np.ndarray) -> Any:
    """Return numbers about rows as an array of the library and device of X, if scikit-learn dispatches arrays.

    Otherwise, and of values such as text, they stay NumPy.

    >>> alike([[1.0]], np.array(["ham"]))
    array(['ham'], dtype='<U3')
    """
    numbers = made.dtype.kind in "biuf"
    if not numbers or not get_config()["array_api_dispatch"] or is_table(X) or not is_array_api_obj(X):
        return made
    xp = array_namespace(X)
    if made.dtype == np.float64 and not has_float64(xp, X):
        made = made.astype(np.float32)
    return to_device(xp, made, device(X))


def check_fits(
    rows: Rows,
    estimator: str,
    instead: str,
    *,
    n_rows: int | None = None,
    n_columns: int = 0,
    max_gram_bytes: float | None = None,
) -> None:
    """Raise an error if rows of another container take too much of the memory of this process.

    Parameters
    ----------
    rows : Rows
        Rows in memory, which take no more, or others, which are about to be read.
    estimator, instead : str
        Who reads them, and what to do with more rows.
    n_rows : int, optional
        Number of the rows that are read; all when None.
    n_columns : int
        Number of columns that each of them gets in memory, if these are more.
    max_gram_bytes : float, optional
        The budget of the estimator; half of the memory of this machine when None.
    """
    n, d = rows.shape
    n_rows, d = n if n_rows is None else n_rows, max(d, n_columns)
    wide = n_columns * rows.dtype.itemsize
    budget = memory_bytes() / 2 if max_gram_bytes is None else max_gram_bytes
    # The size of sparse rows on Dask takes a pass, which those that fit as dense rows do without.
    on_device = (
        rows.xp is not np and max_gram_bytes is None
    )  # its memory is the limit, not that of this process
    if rows.in_memory or on_device or n_rows * max(rows.row_bytes(), wide) <= budget:
        return
    n_bytes = n_rows * max(rows.stored_bytes() / n, wide)
    check_bytes(n_bytes, (n_rows, d), rows.place, estimator, instead, max_gram_bytes)


def check_bytes(
    n_bytes: float,
    shape: tuple[int, int],
    place: str,
    reader: str,
    instead: str,
    max_gram_bytes: float | None = None,
) -> None:
    """Raise the error of `check_fits` if rows of this shape and place take more than the budget."""
    budget = memory_bytes() / 2 if max_gram_bytes is None else max_gram_bytes
    if n_bytes <= budget:
        return
    (n, d), held = shape, int(budget * shape[0] // n_bytes)
    own = "half of the memory of this machine" if max_gram_bytes is None else "max_gram_bytes"
    raise ValueError(
        f"{reader} reads rows into the memory of this process: {n:,} x {d:,} {place} are {n_bytes:,.0f} bytes, "
        f"of which {own}, {budget:,.0f} bytes, holds {held:,} rows; "
        f"{instead}{'' if max_gram_bytes is None else ', or raise max_gram_bytes'}"
    )


def memory_bytes() -> float:
    """Return the size of the memory of this machine; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def gathered(value: Any) -> Any:
    """Return a Dask array as NumPy, and any other value unchanged."""
    return value.compute() if is_dask(value) and hasattr(value, "compute") else value


def is_dask(X: Any) -> bool:
    """Return whether X is a collection of Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and "dask" in sys.modules


def _is_blocks(X: Any) -> bool:
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(getattr(block, "ndim", 0) == 2 for block in X)
    if isinstance(X, Iterator) or callable(X):
        return True
    return hasattr(X, "__iter__") and not hasattr(X, "__array__") and not hasattr(X, "__getitem__")
