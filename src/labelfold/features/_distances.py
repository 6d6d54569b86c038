"""The distances of the RBF and Laplace kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

from labelfold.rows import short_indices


def distances(family: str, X: Any, Y: Any) -> np.ndarray:
    """Return the distances of a kernel between rows: squared Euclidean (RBF) or Manhattan (Laplace)."""
    if not X.shape[0]:
        return np.zeros((0, Y.shape[0]))
    if family == "laplace":
        # scikit-learn's Manhattan distances need 32-bit indices
        return manhattan_distances(short_indices(X), short_indices(Y))
    return euclidean_distances(X, Y, squared=True)
