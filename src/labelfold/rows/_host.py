"""Rows of a block for libraries that take only NumPy and SciPy, and the results of feature maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from labelfold.rows._blocks import Block, CSRBlock
from labelfold.rows.adapters._device_copies import to_host


def host(X: Block) -> Any:
    """Return a block's rows as a NumPy array or ``csr_array``."""
    return X.raw if X.is_sparse and sparse.issparse(X.raw) else to_host(X.raw)


def short_indices(X: Any) -> Any:
    """Return rows on the host, sparse ones with 32-bit indices if these suffice, since some libraries need them."""
    if not sparse.issparse(X) or X.indices.dtype == np.int32 or max(*X.shape, X.nnz) > np.iinfo(np.int32).max:
        return X
    parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return type(X)(parts, shape=X.shape, copy=False)


def formed(X: Block, form: Callable[[Any], Any]) -> Block:
    """Return the result of a feature map for a block: sparse if the map returns sparse rows, otherwise dense."""
    if not X.is_sparse:
        return X.apply(form)
    made = form(X.raw)
    if not sparse.issparse(made):
        return X.apply(lambda _: made)
    return CSRBlock.of(made, 0, made.shape[0], X.dtype)


def largest_one(X: Any) -> Any:
    """Return rows divided by their largest entry; rows of zeros stay unchanged.

    For normalisation: scikit-learn treats rows of norm below 2e-15 as zero, and squares of large entries overflow.

    >>> largest_one(np.array([[1e-200, 2e-200], [0.0, 0.0]]))
    array([[0.5, 1. ],
           [0. , 0. ]])
    """
    if sparse.issparse(X):
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn's check for finite values sums X
            return normalize(X, norm="max")
    largest = np.abs(X).max(axis=1, keepdims=True, initial=0.0)
    return X / np.where(largest > 0, largest, 1)


def dense_if_full(X: Any) -> Any:
    """Return rows on the host; sparse rows with few zeros as a dense array, which takes no more memory.

    >>> type(dense_if_full(sparse.csr_array(np.ones((2, 2))))).__name__
    'ndarray'
    """
    return X.toarray() if sparse.issparse(X) and 1.5 * X.nnz >= np.prod(X.shape) else X


def dense(X: Any) -> np.ndarray:
    """Return rows on the host as a dense array; for few rows, or few columns."""
    return X.toarray() if sparse.issparse(X) else X


def less_median(X: Any, points: Any) -> tuple[Any, Any]:
    """Return rows and points less a median of the points, where these have few zeros; otherwise as they are.

    Squares of what all rows have in common would cost the digits of their distances. The median is an entry of its
    column, so that equal entries stay equal.
    """
    points = dense_if_full(points)
    if sparse.issparse(points):
        return X, points
    center = np.partition(points, len(points) // 2, axis=0)[len(points) // 2]
    return dense(X) - center, points - center
