"""Squared distances of rows from fixed points, by one product of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows import beside, dense, dense_if_full, double, library_of, product, squared_norms


class SquaredDistances:
    """Squared Euclidean distances of rows from points, in double precision.

    What depends on the points alone is computed once, so that a single row takes one product of a vector and a
    matrix.

    Parameters
    ----------
    points : ndarray or csr_array of shape (m, p)
        Sparse points with few zeros become dense.
    centred : bool, default=False
        Whether a median of dense points is subtracted from points and rows. Distances are computed from squares, in
        which a large common offset of all rows would cancel digits. The median is an entry of its column, so that
        equal entries stay equal.

    Attributes
    ----------
    norms : ndarray of shape (m,)
        The squared norms of the points, less the median.

    Examples
    --------
    >>> SquaredDistances(np.array([[0.0, 0.0], [3.0, 4.0]]))(np.array([[0.0, 1.0]]))
    array([[ 1., 18.]])
    """

    def __init__(self, points: Any, centred: bool = False) -> None:
        points = dense_if_full(points).astype(np.float64, copy=False)
        self._center: np.ndarray | None = None
        if centred and not sparse.issparse(points):
            self._center = np.partition(points, len(points) // 2, axis=0)[len(points) // 2]
            points = points - self._center
        self.norms: np.ndarray = squared_norms(points)
        self._columns = points.T.tocsr() if sparse.issparse(points) else np.ascontiguousarray(points.T)

    def __call__(self, X: Any) -> np.ndarray:
        """Return the squared distances (n, m) of rows X (n, p), an array or CSR matrix."""
        squares = self.with_norms(X)[0]
        return library_of(squares).clip(squares, min=0.0)

    def with_norms(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances (n, m), which round-off may leave below 0, and the squared norms (n,)."""
        X = double(X)
        if self._center is not None:
            X = dense(X) - beside(X, self._center)
        norms = squared_norms(X)
        squares = -2.0 * product(X, self._columns)
        squares += norms[:, None]
        squares += beside(X, self.norms)
        return squares, norms
