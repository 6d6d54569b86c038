"""Distances of rows on the host from fixed points: squared Euclidean ones, and sums of absolute differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.utils.extmath import row_norms

from labelfold.rows._host import dense, dense_if_full, short_indices


class SquaredDistances:
    """Squared Euclidean distances of rows from points, in double precision, by one product of matrices.

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
        self.norms: np.ndarray = row_norms(points, squared=True)
        columns = points.T.tocsr() if sparse.issparse(points) else np.ascontiguousarray(points.T)
        self._factors = -2.0 * columns

    def __call__(self, X: Any) -> np.ndarray:
        """Return the squared distances (n, m) of rows X (n, p), an array or CSR matrix."""
        squares, norms = self.less_norms(X)
        squares += norms[:, None]
        return np.maximum(squares, 0.0, out=squares)

    def less_norms(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances (n, m) less the squared norms (n,) of the rows, and these norms.

        They have the same order as the distances. With the norms, round-off may leave them below 0.
        """
        X = X.astype(np.float64, copy=False)
        if self._center is not None:
            X = dense(X) - self._center
        squares = dense(X @ self._factors)
        squares += self.norms
        return squares, row_norms(X, squared=True)


class AbsoluteDistances:
    """Manhattan distances of rows from points: sums of absolute differences.

    Examples
    --------
    >>> AbsoluteDistances(np.array([[0.0, 0.0], [3.0, 4.0]]))(np.array([[0.0, 1.0]]))
    array([[1., 6.]])
    """

    def __init__(self, points: Any) -> None:
        self.points = points

    def __call__(self, X: Any) -> np.ndarray:
        """Return the distances (n, m) of rows X (n, p), an array or CSR matrix."""
        if sparse.issparse(X) and sparse.issparse(self.points) and X.shape[0]:
            # scikit-learn's loop over sparse rows needs 32-bit indices
            return manhattan_distances(short_indices(X), short_indices(self.points))
        return cdist(dense(X), dense(self.points), "cityblock")
