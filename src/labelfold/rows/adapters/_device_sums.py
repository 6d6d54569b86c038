"""Sums over the rows of an array-API array, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import device

# Number of rows whose sums are computed in the dtype of X; these sums are then added in float64.
RUN = 1024


def by_runs(xp: Any, summed: Callable[..., Any], *arrays: Any) -> Any:
    """Return sums over rows in float64: short runs are summed in the dtype of the arrays, and then added.

    ``summed(xp, *arrays)`` takes arrays of shape (runs, rows, ...) and returns one sum for each run.
    """
    m, width = arrays[0].shape[0], arrays[-1].shape[-1] if arrays[-1].ndim > 1 else 1
    if "32" not in str(arrays[0].dtype):
        return summed(xp, *(a[None, ...] for a in arrays))[0, ...]
    run = max(RUN, 4 * width)  # the sums of all runs are at most as large as the block
    n_runs = m // run
    cut = n_runs * run
    total: Any = None
    if n_runs:
        pieces = (xp.reshape(a[:cut, ...], (n_runs, run, *a.shape[1:])) for a in arrays)
        total = xp.sum(wide(xp, summed(xp, *pieces)), axis=0)
    if cut < m or not n_runs:
        rest = wide(xp, summed(xp, *(a[cut:, ...][None, ...] for a in arrays))[0, ...])
        total = rest if total is None else total + rest
    return total


def products(xp: Any, X: Any, H: Any) -> Any:
    """Return X'H of each run."""
    if H.ndim == 2:
        return products(xp, X, H[..., None])[..., 0]
    return xp.matrix_transpose(X) @ H


def sums(xp: Any, H: Any) -> Any:
    """Return the sum of each run."""
    return xp.sum(H, axis=1)


def squares(xp: Any, X: Any) -> Any:
    """Return the squared norms of each run's columns."""
    return xp.linalg.vector_norm(X, axis=1) ** 2


def wide(xp: Any, x: Any) -> Any:
    """Return an array in float64; unchanged if the device has no float64."""
    return xp.astype(x, xp.float64, copy=False) if has_float64(xp, x) else x


def has_float64(xp: Any, x: Any) -> bool:
    """Return whether the device of an array has float64."""
    return str(device(x)).partition(":")[0] != "mps"
