"""Checks that numbers are in a range where they can be computed with, with common error messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.numerics._gram import provisional_center
from labelfold.rows import Block, Rows

# Maximum norm of X whose fourth powers (float32: squares) do not overflow, and those of whose inverse do not vanish.
_MAX_NORM = {np.dtype(np.float64): 1e70, np.dtype(np.float32): 1e15}


def check_norm(square: float, dtype: Any = np.float64) -> None:
    """Raise an error if the squared norm of X is so large, or so small, that its powers overflow or vanish.

    Examples
    --------
    >>> check_norm(4.0)
    >>> check_norm(1e200)
    Traceback (most recent call last):
    ValueError: X has a norm of 1.0e+100, where 1e-70 to 1e+70 is expected of float64 values; multiply X by a constant
    """
    high = _MAX_NORM[np.dtype(dtype)]
    low, norm = 1 / high, np.sqrt(square)
    if not low <= norm <= high:
        raise ValueError(
            f"X has a norm of {norm:.1e}, where {low:.0e} to {high:.0e} is expected of {np.dtype(dtype)} values; "
            "multiply X by a constant"
        )


def count_negative(X: Block) -> Any:
    """Return the number of rows of a block with negative entries, a sum over rows."""
    return X.xp.count_nonzero(X.min() < 0)


def refuse_negative(rows: Rows, n_negative: float, *, by_choice: bool = False, estimator: str) -> None:
    """Raise a ValueError that names the first negative entry, if some rows have one.

    Parameters
    ----------
    rows : Rows
        The data.
    n_negative : float
        Above 0 if there are negative entries, from a pass with `count_negative`.
    by_choice : bool
        Whether they are refused because of the option ``nonnegative``.
    estimator : str
        Name of the estimator, for messages.
    """
    if not n_negative:
        return
    bad = np.flatnonzero(np.asarray(rows.get(rows.map(_minima))) < 0)
    row = rows.take(bad[:1]).whole().dense()[0]
    column = int(np.flatnonzero(row < 0)[0])
    chosen, way_out = " with nonnegative=True" * by_choice, ", or pass nonnegative=False" * by_choice
    raise ValueError(
        f"Negative values in data passed to {estimator}{chosen}: X holds {row[column]:.6g} at row {bad[0]}, "
        f"column {column} (counted from 0); shift or clip X{way_out}"
    )


def _minima(X: Block) -> Any:
    return X.min()


def nonnegative_numbers(name: str, values: Any, *, zero: bool = True) -> list[float]:
    """Return a sequence of finite numbers of at least 0 (above 0 without ``zero``) as floats, or raise an error.

    >>> nonnegative_numbers("ridges", (0, 1))
    [0.0, 1.0]
    """
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    inside = np.isfinite(numbers) & (numbers >= 0 if zero else numbers > 0)
    if numbers.ndim != 1 or not len(numbers) or not inside.all():
        raise ValueError(
            f"{name}={values!r} was given, where a sequence of finite numbers {'of at least' if zero else 'above'} 0 "
            "is expected; give one of them or more"
        )
    return numbers.tolist()


def row_spread(rows: Rows, weights: np.ndarray | None = None, *, one_mean: bool = False) -> float:
    """Return the mean squared distance of the rows from their mean, in one pass; 1 if it is 0.

    The mean squared distance between two rows drawn at random is twice as large.

    Parameters
    ----------
    rows : Rows
        Any rows.
    weights : ndarray of shape (n,), optional
        The weights of the rows, or a mask of the rows to use; all 1 when None.
    one_mean : bool
        Whether to take the mean of all entries as the mean of every column. The result is then the number of columns
        times the variance of the entries.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> X = np.array([[1.0, 5.0], [3.0, 9.0]])
    >>> row_spread(as_rows(X)), row_spread(as_rows(X), one_mean=True)
    (5.0, 17.5)
    """
    weights = np.ones(rows.shape[0]) if weights is None else weights.astype(np.float64)
    near, is_implicit = provisional_center(rows, np.flatnonzero(weights))
    square, total = rows.sum(_moments, weights, shared=(near,))
    count = float(weights.sum())
    shift = total[:, 0] / count
    if not np.isfinite(square):
        raise ValueError("the squares of X overflow; scale X to about 1")
    found = float(square) / count - float(shift @ shift)
    if one_mean:
        mean = near + shift
        found += float(np.square(mean - mean.mean()).sum())
    # For equal rows the result is only the round-off of their norm. Everything is in double precision except the
    # centre, from which rows in single precision differ by a unit in the last place.
    eps, single = float(np.finfo(np.float64).eps), float(np.finfo(rows.dtype).eps)
    # Sparse rows are centred after squaring, which loses as many digits.
    lost = 10 * eps if is_implicit else max((10 * eps) ** 2, 10 * eps * single**2)
    return found if found > lost * float(near @ near) else 1.0


def _moments(X: Block, weights: Any, near: Any) -> tuple[Any, Any]:
    X = X.double().shift(near)
    return X.xp.sum(X.sq() * weights), X.t(weights[:, None])
