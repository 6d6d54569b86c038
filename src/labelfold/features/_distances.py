"""Distances between rows that RBF and Laplace kernels are functions of."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances


def distances(family: str, X: Any, Y: Any) -> np.ndarray:
    """Return the distances between rows that a kernel is a function of: squared, or sums of absolute differences."""
    if not X.shape[0]:
        return np.zeros((0, Y.shape[0]))
    if family == "laplace":
        return manhattan_distances(_narrow(X), _narrow(Y))
    return euclidean_distances(X, Y, squared=True)


def _narrow(X: Any) -> Any:
    """Return sparse rows with 32-bit indices, which are all that scikit-learn's absolute distances take."""
    if not sparse.issparse(X) or X.indices.dtype == np.int32:
        return X
    return sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
