"""Distances of rows from fixed points: squared Euclidean ones, and sums of absolute differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from labelfold.rows._arrays import beside, cast, double, library_of, on_device, product, squared_norms
from labelfold.rows._blocks import dense_block_rows
from labelfold.rows._host import dense, dense_if_full, short_indices
from labelfold.rows.adapters._device_blocks import to_host

# Squared distances below this many times the round-off of squared norms are set to 0.
_ROUND_OFF = 16


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
        self._dtype = points.dtype
        points = dense_if_full(points).astype(np.float64, copy=False)
        self._center: np.ndarray | None = None
        if centred and not sparse.issparse(points):
            self._center = np.partition(points, len(points) // 2, axis=0)[len(points) // 2]
            points = points - self._center
        self.norms: np.ndarray = squared_norms(points)
        self._factors = -2.0 * (
            points.T.tocsr() if sparse.issparse(points) else np.ascontiguousarray(points.T)
        )

    def __call__(self, X: Any) -> Any:
        """Return the squared distances (n, m) of rows X (n, p), an array or CSR matrix."""
        squares, norms = self.less_norms(X)
        squares += norms[:, None]
        return library_of(squares).clip(squares, min=0.0)

    def less_norms(self, X: Any) -> tuple[Any, Any]:
        """Return the squared distances (n, m) less the squared norms (n,) of the rows, and these norms.

        They have the same order as the distances. With the norms, round-off may leave them below 0.
        """
        X = double(X)
        if self._center is not None:
            X = dense(X) - beside(X, self._center)
        squares = product(X, self._factors)
        squares += beside(X, self.norms)
        return squares, squared_norms(X)

    def nearest(self, X: Any, k: int) -> tuple[Any, Any]:
        """Return the distances (n, k) and indices (n, k) of the nearest points of rows, nearest first.

        Points at equal distances, up to round-off, are sorted by index, so that every container gives the same
        answer. A distance that is all round-off is 0.
        """
        if on_device(X):
            return self._nearest_on_device(X, k)
        n, m = X.shape[0], len(self.norms)
        distance, which = np.empty((n, k)), np.empty((n, k), dtype=np.intp)
        step = dense_block_rows(8 * m)
        for start in range(0, n, step):
            some = slice(start, start + step)
            order, norms = self.less_norms(X[some].astype(self._dtype, copy=False))
            found, which[some] = _nearest(order, norms, self.norms, k)
            distance[some] = np.sqrt(found)
        return distance, which

    def _nearest_on_device(self, X: Any, k: int) -> tuple[Any, Any]:
        """Return the same for an array of another library, by the same rules for ties."""
        xp, m = library_of(X), len(self.norms)
        order, norms = self.less_norms(X)
        found, which = _smallest(xp, order, min(k + 1, m))
        found = found + norms[:, None]
        there = xp.reshape(xp.take(beside(X, self.norms), xp.reshape(which, (-1,))), which.shape)
        lost = _ROUND_OFF * float(np.finfo(np.float64).eps) * (norms[:, None] + there)
        found = xp.where(found <= lost, xp.zeros_like(found), found)
        apart = (found[:, 1:] - found[:, :-1]) > lost[:, 1:]
        steps = xp.concat([xp.zeros_like(which[:, :1]), cast(apart, which.dtype)], axis=1)
        group = xp.cumulative_sum(steps, axis=1)
        order = xp.argsort(group * m + which, axis=1)
        distance = xp.sqrt(xp.take_along_axis(found, order, axis=1))[:, :k]
        which = xp.take_along_axis(which, order, axis=1)[:, :k]
        last = to_host(group[:, k - 1] == group[:, -1]) if k < m else np.zeros(0, dtype=bool)
        tied = np.flatnonzero(last)
        if len(tied):  # for the last place: rare
            some = self.nearest(to_host(xp.take(X, beside(X, tied), axis=0)), k)
            place = np.arange(X.shape[0])
            place[tied] = X.shape[0] + np.arange(len(tied))
            distance, which = (
                xp.take(xp.concat([part, cast(beside(X, own), part.dtype)]), beside(X, place), axis=0)
                for part, own in zip((distance, which), some, strict=True)
            )
        return _finite(distance), which


def _nearest(
    order: np.ndarray, norms: np.ndarray, point_norms: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k smallest squared distances of each row and their points.

    ``order`` are the squared distances (n, m) less the squared norms of the rows.

    Ties for the last place go to the points of lowest index, so that every container gives the same answer. Most
    ties involve few points, so a larger neighbourhood is sorted before all points are.
    """
    m = len(point_norms)
    found, which, group = _ties_in_order(order, norms, point_norms, min(k + 1, m))
    tied = np.flatnonzero(group[:, k - 1] == group[:, -1]) if k < m else np.empty(0, dtype=np.intp)
    for more in (min(4 * (k + 1), m), m):
        if not len(tied):
            break
        some, near, group = _ties_in_order(order[tied], norms[tied], point_norms, more)
        found[tied], which[tied] = some[:, : k + 1], near[:, : k + 1]
        tied = tied[group[:, k - 1] == group[:, -1]]
    return found[:, :k], which[:, :k]


def _smallest(xp: Any, D: Any, k: int) -> tuple[Any, Any]:
    """Return the k smallest entries of each row of a device's array, ascending, and their columns."""
    if hasattr(xp, "topk"):  # torch has it, the standard does not
        values, which = xp.topk(D, k, dim=1, largest=False)
        return values, which
    which = xp.argsort(D, axis=1)[:, :k]
    return xp.take_along_axis(D, which, axis=1), which


def _ties_in_order(
    order: np.ndarray, norms: np.ndarray, point_norms: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the smallest squared distances and their points; those that are equal up to round-off by index.

    The third array numbers the groups of tied points. A distance that is all round-off becomes 0: between equal rows
    it would depend on the container.
    """
    each = np.arange(len(order))[:, None]
    if count < len(point_norms):
        which = np.argpartition(order, count - 1, axis=1)[:, :count]
        which = which[each, np.argsort(order[each, which], axis=1)]
    else:
        which = np.argsort(order, axis=1)
    found = _finite(order[each, which] + norms[:, None])
    lost = _ROUND_OFF * np.finfo(np.float64).eps * (norms[:, None] + point_norms[which])
    found = np.where(found <= lost, 0.0, found)
    apart = np.diff(found, axis=1) > lost[:, 1:]
    group = np.hstack([np.zeros((len(found), 1), int), np.cumsum(apart, axis=1)])
    tied = np.flatnonzero(~apart.all(axis=1))
    by_index = np.lexsort((which[tied], group[tied]))
    found[tied], which[tied] = found[tied[:, None], by_index], which[tied[:, None], by_index]
    return found, which, group


def _finite(distance: Any) -> Any:
    xp = library_of(distance)
    if not bool(xp.all(xp.isfinite(distance))):
        raise ValueError("the squares of X overflow; scale X to about 1")
    return distance


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
            return double(_on_device(library_of(X), X, cast(beside(X, dense(self.points)), X.dtype)))
        if sparse.issparse(X) and sparse.issparse(self.points) and X.shape[0]:
            # scikit-learn's loop over sparse rows needs 32-bit indices
            return manhattan_distances(short_indices(X), short_indices(self.points))
        return cdist(dense(X), dense(self.points), "cityblock")


def _on_device(xp: Any, X: Any, Y: Any) -> Any:
    if hasattr(xp, "cdist"):  # torch has it, the standard does not
        return xp.cdist(X, Y, p=1.0)
    return sum(xp.abs(X[:, j : j + 1] - Y[:, j][None, :]) for j in range(X.shape[1]))
