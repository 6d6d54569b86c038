"""Operations on rows of which only the array library is open: NumPy and SciPy on the host, or that of a device.

Functions of rows that use only these, operators, and names of the array-API standard take arrays of every library.
Such a function says so by `any_array`, and is then applied where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace, device
from scipy import sparse
from sklearn.utils.extmath import row_norms

from labelfold.rows.adapters._device_blocks import has_float64, in_float64, to_device

# Budget of memory: number of rows whose entries are dense at a time on a device.
_ROWS_AT_ONCE = 100_000
_Function = TypeVar("_Function", bound=Callable[..., Any])


def any_array(f: _Function) -> _Function:
    """Decorate a function of rows that takes arrays of every library."""
    f.takes_any_array = True  # type: ignore[attr-defined]
    return f


def library_of(X: Any) -> Any:
    """Return the array namespace of rows: NumPy for those of the host, dense or sparse.

    >>> library_of(np.zeros(2)) is np
    True
    """
    return np if isinstance(X, np.ndarray) or sparse.issparse(X) else array_namespace(X)


def on_device(X: Any) -> bool:
    """Return whether rows are an array of another library than NumPy and SciPy."""
    return library_of(X) is not np


def beside(X: Any, a: np.ndarray) -> Any:
    """Return an array of the host where the rows X are: on their device, or unchanged.

    >>> beside(np.zeros(2), np.ones(1)).tolist()
    [1.0]
    """
    xp = library_of(X)
    if xp is np:
        return a
    lowered = a.dtype == np.float64 and not has_float64(xp, X)
    return to_device(xp, a, device(X), xp.float32 if lowered else None)


def cast(X: Any, dtype: Any) -> Any:
    """Return rows in another dtype of their library.

    >>> cast(np.zeros(1), np.dtype(np.float32)).dtype
    dtype('float32')
    """
    return library_of(X).astype(X, dtype, copy=False) if on_device(X) else X.astype(dtype, copy=False)


def double(X: Any) -> Any:
    """Return rows in float64, where their device has it.

    >>> double(np.zeros(1, dtype=np.float32)).dtype
    dtype('float64')
    """
    return in_float64(library_of(X), X) if on_device(X) else X.astype(np.float64, copy=False)


def product(X: Any, M: Any) -> Any:
    """Return rows times a matrix of the host, as a dense array; on a device in float64.

    >>> product(sparse.csr_array([[0.0, 2.0]]), np.eye(2))
    array([[0., 2.]])
    """
    if on_device(X):
        return double(X) @ beside(X, M)
    found = X @ M
    return found.toarray() if sparse.issparse(found) else found


def squared_norms(X: Any) -> Any:
    """Return the squared norm of each row.

    >>> squared_norms(np.array([[3.0, 4.0]]))
    array([25.])
    """
    return library_of(X).sum(X * X, axis=1) if on_device(X) else row_norms(X, squared=True)


def interpolated(X: Any, ends: np.ndarray, points: np.ndarray, values: np.ndarray) -> Any:
    """Return the columns of dense rows, interpolated by ``np.interp`` between points of their own, in X's dtype.

    Column j has the points, ascending, and the values from ``ends[j]`` to ``ends[j + 1]``.

    >>> interpolated(np.array([[0.5], [3.0]]), np.array([0, 2]), np.array([0.0, 1.0]), np.array([0.0, 10.0]))
    array([[ 5.],
           [10.]])
    """
    parts, xp = [slice(*pair) for pair in pairwise(ends.tolist())], library_of(X)
    if xp is not np:
        x, y = beside(X, points), beside(X, values)
        # A sum has adjacent entries, which torch's search asks for.
        columns = [_interpolated(xp, double(X[:, j]) + 0.0, x[here], y[here]) for j, here in enumerate(parts)]
        return xp.astype(xp.stack(columns, axis=1), X.dtype)
    found = np.empty(X.shape, dtype=X.dtype, order="F")
    for j, here in enumerate(parts):
        found[:, j] = np.interp(X[:, j], points[here], values[here])
    return np.ascontiguousarray(found)


def _interpolated(xp: Any, x: Any, points: Any, values: Any) -> Any:
    last = points.shape[0] - 1
    if not last:
        return xp.zeros_like(x) + values[0]
    right = xp.clip(xp.searchsorted(points, x), 1, last)
    x0, y0 = xp.take(points, right - 1), xp.take(values, right - 1)
    slope = (xp.take(values, right) - y0) / (xp.take(points, right) - x0)
    found = y0 + slope * (x - x0)
    return xp.where(x <= points[0], values[0], xp.where(x >= points[last], values[last], found))


def unit_rows_on_device(X: Any) -> Any:
    """Return rows of a device divided by their norm; rows of zeros stay unchanged."""
    xp = library_of(X)
    for size in (
        partial(xp.max, axis=1, keepdims=True),
        partial(xp.linalg.vector_norm, axis=1, keepdims=True),
    ):
        sizes = size(xp.abs(X))  # the largest entries first, so that squares do not overflow
        X = X / xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    return X


def few_entries(values: Any, columns: Any, n_columns: int) -> Any:
    """Return rows with s entries each, given these (n, s) and their columns (n, s): on the host a ``csr_array``.

    >>> few_entries(np.array([[2.0], [3.0]]), np.array([[1], [0]]), 2).toarray()
    array([[0., 2.],
           [3., 0.]])
    """
    if on_device(values):
        return DeviceEntries(values, columns, n_columns)
    n, s = values.shape
    ends = np.arange(0, s * n + 1, s)
    return sparse.csr_array((values.ravel(), columns.ravel(), ends), shape=(n, n_columns))


def gram_of_entries(Z: Any, weights: Any = None) -> tuple[Any, Any]:
    """Return Z'DZ and Z'D1 of rows made by `few_entries`, with weights D.

    >>> gram_of_entries(few_entries(np.array([[2.0], [3.0]]), np.array([[1], [0]]), 2))[1]
    array([3., 2.])
    """
    if isinstance(Z, DeviceEntries):
        return Z.gram(weights)
    weighted = Z if weights is None else sparse.csr_array(sparse.diags_array(weights) @ Z)
    return (weighted.T @ Z).toarray(), np.asarray(weighted.sum(axis=0)).ravel()


class DeviceEntries:
    """Rows on a device with s entries each (n, s), in the columns (n, s) of m."""

    def __init__(self, values: Any, columns: Any, n_columns: int) -> None:
        self.values, self.columns, self.n_columns = values, columns, n_columns

    def __matmul__(self, coef: np.ndarray) -> Any:
        xp = library_of(self.values)
        coef = beside(self.values, coef)
        parts = (
            self.values[:, j : j + 1] * xp.take(coef, self.columns[:, j], axis=0)
            for j in range(self.values.shape[1])
        )
        return sum(parts, start=xp.zeros_like(coef[:1, :]))

    def gram(self, weights: Any = None) -> tuple[Any, Any]:
        """Return Z'DZ and Z'D1 of these rows Z, with weights D."""
        xp, m = library_of(self.values), self.n_columns
        every = beside(self.values, np.arange(m))[None, :]
        products, mass = 0.0, 0.0
        for start in range(0, self.columns.shape[0], _ROWS_AT_ONCE):
            some = slice(start, min(start + _ROWS_AT_ONCE, self.columns.shape[0]))
            Z = _scattered(xp, self.values[some, :], self.columns[some, :], every)
            weighted = Z if weights is None else Z * weights[some][:, None]
            products, mass = products + weighted.T @ Z, mass + xp.sum(weighted, axis=0)
        return products, mass


def _scattered(xp: Any, weights: Any, which: Any, every: Any) -> Any:
    """Return Z as a dense array."""
    if hasattr(xp, "scatter_add"):  # torch has it, the standard does not
        return xp.scatter_add(xp.zeros_like(weights[:, :1]) + xp.zeros_like(every), 1, which, weights)
    columns = range(weights.shape[1])
    return sum(xp.where(which[:, j : j + 1] == every, weights[:, j : j + 1], 0.0) for j in columns)
