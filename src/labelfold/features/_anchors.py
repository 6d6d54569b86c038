r"""Anchor graphs: a neighbour graph of rows as a function of one row.

A row x is joined to its s nearest of m anchors with weights z(x) (m,), which sum to 1. With Z (n, m) for all rows
and :math:`\Lambda = \mathrm{diag}(Z'1)` the graph of the rows is :math:`Z \Lambda^{-1} Z'`, whose rows sum to 1. Its
eigenvectors are those of an m x m matrix, a sum over rows:

.. math:: \Lambda^{-1/2} Z'Z \Lambda^{-1/2} v_j = \sigma_j^2 v_j, \qquad
          u_j(x) = z(x)' \Lambda^{-1/2} v_j / \sigma_j, \qquad \lambda_j = 1 - \sigma_j^2.

W. Liu, J. He, S.-F. Chang. Large graph construction for scalable semi-supervised learning. ICML 2010.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.extmath import row_norms

from labelfold.rows import ArrayTerm, Block, Featurized, Rows, less_median, short_indices, to_host

# k-means is fitted on at most this many rows for each anchor.
ROWS_AN_ANCHOR = 40

# Above this many rows an anchor, k-means works on mini-batches.
_BATCHES_FROM = 10

# Eigenvalues sigma^2 below this are left out, since u_j is divided by sigma_j.
_LEAST_SQUARE = 1e-8

# Distances of more rows than this are kept in float32.
_SINGLE_ROWS = 100_000

# Matrices larger than this are decomposed in float32 first.
_SINGLE_FROM = 400

# Distances below this many times the square root of the round-off of squares are set to 0.
_ROUND_OFF = 4

# Number of rows with tied anchors whose distances to all anchors are computed at once.
_TIED_ROWS = 512

# Anchors of at most this many values are centred in each call; more would take long.
_CENTRED = 2**17

# Eigenvalues that differ from 1 by less than this belong to further connected components.
_PIECES = 1e-9


class Anchors(BaseEstimator):
    """Points that rows are joined to.

    Parameters
    ----------
    points : ndarray or csr_array of shape (m, p)
        The anchors.
    """

    def __init__(self, points: Any) -> None:
        self.points = points

    def nearest(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances (n, k) and indices (n, k) of the nearest anchors of some rows, nearest first."""
        # With 64-bit indices scikit-learn computes distances in the precision of X, so they are cast.
        X, points = short_indices(X.astype(self.points.dtype, copy=False)), short_indices(self.points)
        if points.size <= _CENTRED:
            X, points = less_median(X, points)
        norms, point_norms = row_norms(X, squared=True)[:, None], row_norms(points, squared=True)
        m = len(point_norms)
        search = NearestNeighbors(n_neighbors=min(k + 1, m), algorithm="brute").fit(points)
        distance, which, group = _settled(search.kneighbors(X), norms, point_norms)
        # Ties for the last place go to the anchors of lowest index, so that every container gives the same answer.
        # Most ties involve few anchors, so a larger neighbourhood is searched before all anchors are.
        tied = np.flatnonzero(group[:, k - 1] == group[:, -1]) if k < m else np.empty(0, dtype=np.intp)
        for more in (min(4 * (k + 1), m), m):
            still = []
            for start in range(0, len(tied), _TIED_ROWS):
                some = tied[start : start + _TIED_ROWS]
                d, w, group = _settled(search.kneighbors(X[some], more), norms[some], point_norms)
                distance[some], which[some] = d[:, : k + 1], w[:, : k + 1]
                still.append(some[group[:, k - 1] == group[:, -1]])
            tied = np.concatenate([tied[:0], *still])
        return distance[:, :k], which[:, :k]


def _settled(
    found: tuple[np.ndarray, np.ndarray], norms: np.ndarray, point_norms: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distances and anchors, with anchors at the same distance up to round-off sorted by index.

    The third array numbers the groups of tied anchors. A distance that is all round-off becomes 0: between equal rows
    it would depend on the container.
    """
    distance, which = found
    lost = np.finfo(distance.dtype).eps * (norms + point_norms[which])  # of squared distances
    distance = np.where(_finite(distance) <= _ROUND_OFF * np.sqrt(lost), 0.0, distance)
    apart = np.diff(distance**2, axis=1) > _ROUND_OFF**2 * lost[:, 1:]
    group = np.hstack([np.zeros((len(distance), 1), int), np.cumsum(apart, axis=1)])
    tied = np.flatnonzero(~apart.all(axis=1))
    order = np.lexsort((which[tied], group[tied]))
    distance[tied] = np.take_along_axis(distance[tied], order, 1)
    which[tied] = np.take_along_axis(which[tied], order, 1)
    return distance, which, group


def nearest_anchors(rows: Rows, anchors: Anchors, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances (n, k) and indices (n, k) of each row's nearest anchors, in one pass."""
    with np.errstate(over="ignore"):  # overflow in the precision of the rows is refused below
        found = rows.get(Featurized(rows, partial(_distances_and_indices, anchors, k)).values())
    dtype = np.float32 if len(found) > _SINGLE_ROWS else found.dtype
    return _finite(found[:, :k].astype(dtype)), found[:, k:].astype(np.int32)


def _distances_and_indices(anchors: Anchors, k: int, X: Any) -> np.ndarray:
    return np.hstack(anchors.nearest(X, k))


def _finite(distance: np.ndarray) -> np.ndarray:
    if not np.isfinite(distance).all():
        raise ValueError("the squares of X overflow; scale X to about 1")
    return distance


def joined(distance: np.ndarray, which: np.ndarray, n_neighbors: int, n_anchors: int) -> sparse.csr_array:
    """Return Z (n, m): each row's weights of its nearest anchors, exp(-4 d^2 / d_s^2), divided by their sum.

    d_s is the distance of the farthest of the s anchors. If it is 0, the weights are equal.
    """
    d, s = distance[:, :n_neighbors].astype(np.float64), n_neighbors
    last = d[:, -1:]
    ratio = np.divide(d, last, out=np.zeros_like(d), where=last > 0)
    w = np.exp(-4 * ratio**2)
    w /= w.sum(axis=1, keepdims=True)
    ends = np.arange(0, s * len(d) + 1, s)
    return sparse.csr_array((w.ravel(), which[:, :s].ravel(), ends), shape=(len(d), n_anchors))


class AnchorGraph(NamedTuple):
    """The smoothest functions on an anchor graph.

    Attributes
    ----------
    eigenvalues : ndarray of shape (k,)
        lambda_j, of the graph's normalised Laplacian, ascending; the constant function is left out.
    map : ndarray of shape (m, k)
        u(x) = z(x)' map, columns orthonormal over the rows that the graph was made of.
    n_pieces : int
        Number of connected components of the graph.
    """

    eigenvalues: np.ndarray
    map: np.ndarray
    n_pieces: int


def anchor_graph(Z: sparse.csr_array, n_components: int) -> AnchorGraph:
    """Return the smoothest functions on the graph Z Lambda^-1 Z' of the rows of Z, the constant one left out."""
    n, m = Z.shape
    mass = np.asarray(Z.sum(axis=0)).ravel()
    root = np.where(mass > 0, 1 / np.sqrt(np.where(mass > 0, mass, 1.0)), 0.0)  # Lambda^-1/2
    used = np.flatnonzero(root)
    A = (Z.T @ Z).tocsr()[used][:, used].toarray() * np.outer(root[used], root[used])
    constant = np.sqrt(mass[used] / n)  # the eigenvector of the constant function, sigma = 1
    A -= np.outer(constant, constant)
    squares, V = _largest(A, min(n_components, len(used)))
    squares = np.minimum(squares, 1.0)
    keep = squares > _LEAST_SQUARE
    squares, V = squares[keep], V[:, keep]
    found = np.zeros((m, len(squares)))
    found[used] = root[used, None] * V / np.sqrt(squares)
    return AnchorGraph(1 - squares, found, 1 + int((squares > 1 - _PIECES).sum()))


def _largest(A: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues of a symmetric matrix, descending, and their vectors.

    For a large matrix they are computed in float32, which halves the time, and refined in float64 by one product
    and a Rayleigh-Ritz step.
    """
    m = len(A)
    dtype = np.float32 if m > _SINGLE_FROM else np.float64
    values, P = linalg.eigh(
        A.astype(dtype), subset_by_index=[m - k, m - 1], overwrite_a=True, check_finite=False
    )
    if dtype == np.float32:
        P = np.linalg.qr(A @ P.astype(np.float64))[0]
        values, turn = np.linalg.eigh(P.T @ A @ P)
        P = P @ turn
    return values[::-1], P[:, ::-1]


def cluster(points: np.ndarray, n_anchors: int, random_state: Any) -> np.ndarray:
    """Return the k-means centres (m, q) of some points, without empty clusters."""
    n = len(points)
    kind = MiniBatchKMeans if n > _BATCHES_FROM * n_anchors else KMeans
    more = {"batch_size": 4096, "max_iter": 20} if kind is MiniBatchKMeans else {"max_iter": 10}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than centres
        means = kind(n_anchors, init="random", n_init=1, random_state=random_state, **more).fit(points)
    return means.cluster_centers_[np.unique(means.labels_)]


def means_around(rows: Rows, nearest: np.ndarray, n_anchors: int) -> np.ndarray:
    """Return the mean (m, d) of the rows nearest to each anchor, without anchors that have no row."""
    sums = rows.sum(_sums_around, nearest, shared=(n_anchors,))
    counts = np.bincount(nearest, minlength=n_anchors)
    return sums[counts > 0] / counts[counts > 0, None]


def rows_around(distance: np.ndarray, nearest: np.ndarray) -> np.ndarray:
    """Return the index of the row nearest to each anchor, without anchors that have no row."""
    order = np.lexsort((distance, nearest))
    first = np.unique(nearest[order], return_index=True)[1]
    return np.sort(order[first])


def _sums_around(X: Block, nearest: Any, n_anchors: int) -> ArrayTerm:
    raw, nearest = X.host(), to_host(nearest)
    member = sparse.csr_array(
        (np.ones(len(nearest), dtype=raw.dtype), nearest, np.arange(len(nearest) + 1)),
        shape=(len(nearest), n_anchors),
    )
    total = member.T @ raw
    return ArrayTerm(total.toarray() if sparse.issparse(total) else total)
