"""Numbers whose powers leave the range of floating point are refused, in the same words everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

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
