"""The scale of rows: what weights that suit any unit are multiples of."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.rows import Block, Rows

# The mean of so many rows is near enough to that of all for sums about it to keep their digits.
_FEW = 64


def row_spread(rows: Rows, mask: np.ndarray | None = None) -> float:
    """Return the mean squared distance of the rows from their mean, in one pass; 1 where that is 0.

    Two rows drawn at random lie at twice as large a squared distance from each other, on average.

    Parameters
    ----------
    rows : Rows
        Any rows.
    mask : ndarray of bool, shape (n,), optional
        Which rows count; all when None.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> row_spread(as_rows(np.array([[1.0, 5.0], [3.0, 9.0]])))
    5.0
    """
    n = rows.shape[0]
    weights = np.ones(n) if mask is None else mask.astype(np.float64)
    some = rows.take(np.flatnonzero(weights)[:_FEW])
    near = some.mean()
    square, total = rows.sum(_moments, weights, shared=(near,))
    count = float(weights.sum())
    shift = total[:, 0] / count
    if not np.isfinite(square):
        raise ValueError("the squares of X overflow; scale X to about 1")
    found = float(square) / count - float(shift @ shift)
    # What rows that are all the same leave is the round-off of their own length.
    # All is in double precision but the centre: rows in single precision lie off it by one of its last places.
    eps, single = float(np.finfo(np.float64).eps), float(np.finfo(rows.dtype).eps)
    # Squares of sparse rows are centred after they are made, which loses as much of them.
    lost = 10 * eps if some.whole().is_sparse else max((10 * eps) ** 2, 10 * eps * single**2)
    least = lost * float(near @ near)
    return found if found > least else 1.0


def kernel_spread(K: np.ndarray) -> float:
    """Return `row_spread` in the space of a kernel, from the kernel of all rows with each other.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 5.0], [3.0, 9.0]])
    >>> kernel_spread(X @ X.T)
    5.0
    """
    largest = float(np.trace(K)) / len(K)
    found = largest - float(K.mean())
    return found if found > 10 * len(K) * np.finfo(np.float64).eps * abs(largest) else 1.0


def _moments(X: Block, weights: Any, near: Any) -> tuple[Any, Any]:
    X = X.double().shift(near)
    return X.xp.sum(X.sq() * weights), X.t(weights[:, None])
