"""Distances of rows from fixed points: squared Euclidean ones, and sums of absolute differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from labelfold.rows._arrays import beside, double, library_of, on_device, product, squared_norms
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


class AbsoluteDistances:
    """Manhattan distances of rows from points: sums of absolute differences.

    Examples
    --------
    >>> AbsoluteDistances(np.array([[0.0, 0.0], [3.0, 4.0]]))(np.array([[0.0, 1.0]]))
    array([[1., 6.]])
    """

    def __init__(self, points: Any) -> None:
        self.points = points

    def __call__(self, X: Any) -> Any:
        """Return the distances (n, m) of rows X (n, p), an array or CSR matrix."""
        if on_device(X):
            points = beside(X, np.asarray(dense(self.points), dtype=np.float64))
            return _on_device(library_of(X), double(X), points)
        if sparse.issparse(X) and sparse.issparse(self.points) and X.shape[0]:
            # scikit-learn's loop over sparse rows needs 32-bit indices
            return manhattan_distances(short_indices(X), short_indices(self.points))
        return cdist(dense(X), dense(self.points), "cityblock")


def _on_device(xp: Any, X: Any, Y: Any) -> Any:
    if hasattr(xp, "cdist"):  # torch has it, the standard does not
        return xp.cdist(X, Y, p=1.0)
    return sum(xp.abs(X[:, j : j + 1] - Y[:, j][None, :]) for j in range(X.shape[1]))
