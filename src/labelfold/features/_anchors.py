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
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.extmath import row_norms

from labelfold.rows import Block, Featurized, Rows
from labelfold.rows._host import host
from labelfold.rows._sums import ArrayTerm
from labelfold.rows.adapters._device_blocks import to_host

# k-means sees at most this many rows an anchor.
_ROWS_AN_ANCHOR = 40

# Above this many rows an anchor, k-means works on mini-batches.
_BATCHES_FROM = 10

# Eigenvalues sigma^2 below this are left out: u_j would be divided by next to nothing.
_LEAST_SQUARE = 1e-8

# Distances of more rows than this are kept in float32.
_SINGLE_ROWS = 100_000

# Matrices larger than this are decomposed in float32 first.
_SINGLE_FROM = 400

# Distances are round-off below this many times the root of what squares lose.
_ROUND_OFF = 4

# Where the second eigenvalue differs from 1 by less than this the graph is in pieces.
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
        """Return the distances (n, k) of the nearest anchors of some rows, nearest first, and which they are."""
        X = X.astype(self.points.dtype, copy=False)
        distance, which = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(self.points).kneighbors(X)
        # Equal rows are apart by round-off, more or less so in another container: that is no distance.
        sizes = row_norms(X, squared=True)[:, None] + row_norms(self.points, squared=True)[which]
        noise = _ROUND_OFF * np.sqrt(np.finfo(distance.dtype).eps * sizes)
        return np.where(_finite(distance) <= noise, 0.0, distance), which


class NearestAnchors:
    """The k nearest anchors of rows as one array: k distances, then k numbers of anchors. For `Featurized`."""

    def __init__(self, anchors: Anchors, k: int) -> None:
        self.anchors, self.k = anchors, k

    def __call__(self, X: Any) -> np.ndarray:
        """Return the (n, 2k) array of some rows; rows in single precision may have no room for a distance."""
        return np.hstack(self.anchors.nearest(X, self.k))


def nearest_anchors(rows: Rows, anchors: Anchors, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances (n, k) of each row's nearest anchors, and which they are: one pass."""
    with np.errstate(over="ignore"):  # what has no room in the precision of the rows is refused below
        found = rows.get(Featurized(rows, NearestAnchors(anchors, k)).values())
    dtype = np.float32 if len(found) > _SINGLE_ROWS else found.dtype
    return _finite(found[:, :k].astype(dtype)), found[:, k:].astype(np.int32)


def _finite(distance: np.ndarray) -> np.ndarray:
    if not np.isfinite(distance).all():
        raise ValueError("the squares of X overflow; scale X to about 1")
    return distance


def joined(distance: np.ndarray, which: np.ndarray, n_neighbors: int, n_anchors: int) -> sparse.csr_array:
    """Return Z (n, m): each row's weights of its nearest anchors, exp(-4 d^2 / d_s^2), divided by their sum.

    d_s is the distance of the last of the s anchors. Where that is 0 the weights are equal.
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
        In how many pieces the graph falls.
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

    Those of a large matrix are found in float32, which halves the time, and mended in float64: by one product, and
    in the space that the vectors then span.
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
    """Return the k-means centres (m, q) of some points, those that are nearest to any."""
    n = len(points)
    kind = MiniBatchKMeans if n > _BATCHES_FROM * n_anchors else KMeans
    more = {"batch_size": 4096, "max_iter": 20} if kind is MiniBatchKMeans else {"max_iter": 10}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than centres
        means = kind(n_anchors, init="random", n_init=1, random_state=random_state, **more).fit(points)
    return means.cluster_centers_[np.unique(means.labels_)]


def sample_size(n_anchors: int) -> int:
    """Return how many rows k-means is shown at most."""
    return _ROWS_AN_ANCHOR * n_anchors


def means_around(rows: Rows, nearest: np.ndarray, n_anchors: int) -> np.ndarray:
    """Return the mean row (m, d) of those that each anchor is nearest to; anchors of no row are left out."""
    sums = rows.sum(_sums_around, nearest, shared=(n_anchors,))
    counts = np.bincount(nearest, minlength=n_anchors)
    return sums[counts > 0] / counts[counts > 0, None]


def rows_around(distance: np.ndarray, nearest: np.ndarray) -> np.ndarray:
    """Return the number of the row that lies nearest to each anchor, for those that are nearest to any."""
    order = np.lexsort((distance, nearest))
    first = np.unique(nearest[order], return_index=True)[1]
    return np.sort(order[first])


def _sums_around(X: Block, nearest: Any, n_anchors: int) -> ArrayTerm:
    raw, nearest = host(X), to_host(nearest)
    member = sparse.csr_array(
        (np.ones(len(nearest), dtype=raw.dtype), nearest, np.arange(len(nearest) + 1)),
        shape=(len(nearest), n_anchors),
    )
    total = member.T @ raw
    return ArrayTerm(total.toarray() if sparse.issparse(total) else total)
