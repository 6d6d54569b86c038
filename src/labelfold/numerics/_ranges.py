"""Numbers that cannot be computed with are refused, in the same words everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.rows import Rows

# Norms of X between which its fourth powers (float32: squares) stay within the range of the dtype.
NORMS = {np.dtype(np.float64): (1e-70, 1e70), np.dtype(np.float32): (1e-15, 1e15)}


def check_norm(square: float, dtype: Any = np.float64) -> None:
    """Refuse an X whose squared norm is so large, or so small, that powers of it cannot be computed with.

    Examples
    --------
    >>> check_norm(4.0)
    >>> check_norm(1e200)
    Traceback (most recent call last):
    ValueError: X has a norm of 1.0e+100, where 1e-70 to 1e+70 is expected of float64 values; multiply X by a constant
    """
    low, high = NORMS[np.dtype(dtype)]
    norm = np.sqrt(square)
    if not low <= norm <= high:
        raise ValueError(
            f"X has a norm of {norm:.1e}, where {low:.0e} to {high:.0e} is expected of {np.dtype(dtype)} values; "
            "multiply X by a constant"
        )


def refuse_negative(rows: Rows, smallest: np.ndarray, *, by_choice: bool = False, estimator: str) -> None:
    """Raise a ValueError that names the first negative entry, where the smallest entry of a row is one.

    Parameters
    ----------
    rows : Rows
        The data.
    smallest : ndarray of shape (n,)
        The smallest entry of each row.
    by_choice : bool
        Whether they are refused because of an option, ``nonnegative``.
    estimator : str
        Its name, for messages.
    """
    bad = np.flatnonzero(smallest < 0)
    if not len(bad):
        return
    row = rows.take(bad[:1]).whole().dense()[0]
    column = int(np.flatnonzero(row < 0)[0])
    chosen, way_out = " with nonnegative=True" * by_choice, ", or pass nonnegative=False" * by_choice
    raise ValueError(
        f"Negative values in data passed to {estimator}{chosen}: X holds {row[column]:.6g} at row {bad[0]}, "
        f"column {column} (counted from 0); shift or clip X{way_out}"
    )
