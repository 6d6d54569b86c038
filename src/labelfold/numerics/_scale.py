"""The scale of rows. Default weights are multiples of it, so that they suit any unit of X."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.rows import Block, Rows

# Number of rows whose mean is a provisional centre: near enough to the mean that sums about it keep their digits.
_FEW = 64


def row_spread(rows: Rows, mask: np.ndarray | None = None) -> float:
    """Return the mean squared distance of the rows from their mean, in one pass; 1 if it is 0.

    The mean squared distance between two rows drawn at random is twice as large.

    Parameters
    ----------
    rows : Rows
        Any rows.
    mask : ndarray of bool, shape (n,), optional
        The rows to use; all when None.

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
    # For equal rows the result is only the round-off of their norm. Everything is in double precision except the
    # centre, from which rows in single precision differ by a unit in the last place.
    eps, single = float(np.finfo(np.float64).eps), float(np.finfo(rows.dtype).eps)
    # Sparse rows are centred after squaring, which loses as many digits.
    lost = 10 * eps if some.whole().is_sparse else max((10 * eps) ** 2, 10 * eps * single**2)
    least = lost * float(near @ near)
    return found if found > least else 1.0


def kernel_spread(K: np.ndarray) -> float:
    """Return `row_spread` in the space of a kernel, from the kernel matrix of all rows.

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
