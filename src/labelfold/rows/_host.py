"""Forms of rows on the host: NumPy arrays and SciPy matrices as other libraries need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows._arrays import beside, cast, on_device, unit_rows_on_device
from labelfold.rows._blocks import dense_block_rows


def short_indices(X: Any) -> Any:
    """Return rows on the host, sparse ones with 32-bit indices if these suffice, since some libraries need them."""
    if not sparse.issparse(X) or X.indices.dtype == np.int32 or max(*X.shape, X.nnz) > np.iinfo(np.int32).max:
        return X
    parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return type(X)(parts, shape=X.shape, copy=False)


def divided_by_maximum(X: Any) -> Any:
    """Return rows divided by their largest magnitude; rows of zeros stay unchanged.

    For normalisation: squares of large entries overflow, and those of small ones vanish.

    >>> divided_by_maximum(np.array([[1e-200, 2e-200], [0.0, 0.0]]))
    array([[0.5, 1. ],
           [0. , 0. ]])
    """
    return _divided(X, _by_row(np.maximum, abs(stored_values(X)), X))


def unit_rows(X: Any) -> Any:
    """Return rows divided by their norm; rows of zeros stay unchanged.

    >>> unit_rows(np.array([[3e200, 4e200], [0.0, 0.0]])).round(12)
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    if on_device(X):
        return unit_rows_on_device(X)
    X = divided_by_maximum(X)
    return _divided(X, np.sqrt(_by_row(np.add, stored_values(X) ** 2, X)))


def _by_row(reduce: np.ufunc, values: np.ndarray, X: Any) -> np.ndarray:
    """Return the reduction of the values that each row of X stores; 0 for rows that store none."""
    found = np.zeros(X.shape[0], dtype=values.dtype)
    if not sparse.issparse(X):
        return reduce.reduce(values, axis=1, out=found) if X.shape[1] else found
    filled = np.flatnonzero(np.diff(X.indptr))
    found[filled] = reduce.reduceat(values, X.indptr[filled]) if len(filled) else 0.0
    return found


def _divided(X: Any, sizes: np.ndarray) -> Any:
    """Return rows divided by numbers; a row whose number is 0 stays unchanged."""
    sizes = np.where(sizes > 0, sizes, 1)
    if not sparse.issparse(X):
        return X / sizes[:, None]
    return sparse.csr_array((X.data / sizes.repeat(np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape)


def dense_if_full(X: Any) -> Any:
    """Return rows on the host; sparse rows with few zeros as a dense array, which takes no more memory.

    >>> type(dense_if_full(sparse.csr_array(np.ones((2, 2))))).__name__
    'ndarray'
    """
    return X.toarray() if sparse.issparse(X) and 1.5 * X.nnz >= np.prod(X.shape) else X


def dense(X: Any) -> np.ndarray:
    """Return rows on the host as a dense array; for few rows, or few columns."""
    return X.toarray() if sparse.issparse(X) else X


def stored_values(X: Any) -> np.ndarray:
    """Return the entries of an array, or those that a sparse matrix stores.

    >>> stored_values(sparse.csr_array([[0.0, 2.0], [3.0, 0.0]]))
    array([2., 3.])
    """
    return X.data if sparse.issparse(X) else X


def on_entries(X: Any, f: Callable[..., Any], *columns: np.ndarray) -> Any:
    """Return rows with entries f(entries, *columns); of sparse rows, the stored entries.

    Each further argument has a number for each column.

    >>> on_entries(sparse.csr_array([[0.0, 2.0]]), np.multiply, np.array([3.0, 4.0])).toarray()
    array([[0., 8.]])
    """
    if not sparse.issparse(X):
        made = f(X, *(beside(X, column) for column in columns))
        return cast(made, X.dtype)
    data = f(X.data, *(column[X.indices] for column in columns))
    return sparse.csr_array((data.astype(X.dtype, copy=False), X.indices, X.indptr), shape=X.shape)


def centred_products(X: Any, Y: Any, mean: np.ndarray) -> np.ndarray:
    """Return the inner products of two sets of rows after a mean is subtracted; sparse rows stay sparse.

    >>> centred_products(np.array([[1.0, 3.0]]), np.array([[2.0, 4.0]]), np.array([1.0, 2.0]))
    array([[2.]])
    """
    # Not row-wise: products of rows with rows, whose difference to the mean is dense.
    if not sparse.issparse(X):
        return (X - mean) @ (Y - mean).T
    return (X @ Y.T).toarray() - (X @ mean)[:, None] - Y @ mean + mean @ mean


def row_hashes(X: Any) -> np.ndarray:
    """Return a 64-bit hash of each row; equal rows have equal hashes, dense or sparse, in float32 or float64.

    >>> a, b = row_hashes(np.array([[0.0, 1.0], [1.0, 0.0]])), row_hashes(sparse.csr_array([[0.0, 1.0]]))
    >>> bool(a[0] == b[0]), bool(a[0] == a[1])
    (True, False)
    """
    factors = np.random.default_rng(0).integers(2**64, size=X.shape[1], dtype=np.uint64) | np.uint64(1)
    out = np.zeros(X.shape[0], dtype=np.uint64)
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        np.add.at(out, row, _mixed(X.data) * factors[X.indices])
        return out
    step = dense_block_rows(8 * max(X.shape[1], 1))
    for i in range(0, X.shape[0], step):
        out[i : i + step] = (_mixed(X[i : i + step]) * factors).sum(axis=1, dtype=np.uint64)
    return out


def _mixed(values: Any) -> np.ndarray:
    """Return the bits of numbers, mixed so that their sums over a row differ; 0 for zero of either sign."""
    bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return bits ^ (bits >> np.uint64(29))
