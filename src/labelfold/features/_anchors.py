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
from functools import cached_property, partial
from itertools import chain
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold.features._principal import PrincipalAxes
from labelfold.rows import (
    ArrayTerm,
    Block,
    Featurized,
    Rows,
    SquaredDistances,
    dense,
    dense_block_rows,
    n_threads,
    run_jobs,
    to_host,
)

# Budget: k-means is fitted on at most this many rows for each anchor, whatever the number of rows.
_ROWS_AN_ANCHOR = 40
# Budget: with more rows than this for each anchor, k-means works on mini-batches.
_BATCHES_FROM = 10
# All rows are anchors up to this ratio of rows to requested anchors: k-means
# would have too few rows for each centre.
_ALL_ROWS = 1.5
# Budget of memory: up to this many entries (32 MB) anchors are means of rows, which are dense. Beyond it each anchor
# is one of the rows, which may be sparse.
_DENSE_ENTRIES = 4_000_000
# About the square root of the round-off of float64. Eigenvalues sigma^2 below it are left out, since u_j is divided
# by sigma_j; those within it of 1 count as 1.
_TOLERANCE = 1e-8
# Squared distances below this many times the round-off of squared norms are set to 0.
_ROUND_OFF = 16


class Anchors(BaseEstimator):
    """Points that rows are joined to.

    Parameters
    ----------
    points : ndarray or csr_array of shape (m, p)
        The anchors.
    """

    def __init__(self, points: Any) -> None:
        self.points = points

    @cached_property
    def _squares(self) -> SquaredDistances:
        return SquaredDistances(self.points, centred=True)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to save: the anchors, from which the rest is computed again."""
        return {name: value for name, value in super().__getstate__().items() if name != "_squares"}

    def nearest(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances (n, k) and indices (n, k) of the nearest anchors of some rows, nearest first."""
        n, m = X.shape[0], self.points.shape[0]
        distance, which = np.empty((n, k)), np.empty((n, k), dtype=np.intp)
        step = dense_block_rows(8 * m)
        for start in range(0, n, step):
            some = slice(start, start + step)
            order, norms = self._squares.less_norms(X[some].astype(self.points.dtype, copy=False))
            found, which[some] = _nearest(order, norms, self._squares.norms, k)
            distance[some] = np.sqrt(found)
        return distance, which


def _nearest(
    order: np.ndarray, norms: np.ndarray, point_norms: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k smallest squared distances of each row and their anchors.

    ``order`` are the squared distances (n, m) less the squared norms of the rows.

    Ties for the last place go to the anchors of lowest index, so that every container gives the same answer. Most
    ties involve few anchors, so a larger neighbourhood is sorted before all anchors are.
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


def _ties_in_order(
    order: np.ndarray, norms: np.ndarray, point_norms: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the smallest squared distances and their anchors; those that are equal up to round-off by index.

    The third array numbers the groups of tied anchors. A distance that is all round-off becomes 0: between equal rows
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


def nearest_anchors(rows: Rows, anchors: Anchors, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances (n, k) and indices (n, k) of each row's nearest anchors, in one pass."""
    with np.errstate(over="ignore"):  # overflow in the precision of the rows is refused
        found = rows.get(Featurized(rows, partial(_distances_and_indices, anchors, k)).values())
    return _finite(found[:, :k].copy()), found[:, k:].astype(np.int32)


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


def anchor_graph(Z: sparse.csr_array, n_components: int = 150) -> AnchorGraph:
    """Return the smoothest functions on the graph Z Lambda^-1 Z' of the rows of Z, the constant one left out."""
    n, m = Z.shape
    mass = np.asarray(Z.sum(axis=0)).ravel()
    root = np.where(mass > 0, 1 / np.sqrt(np.where(mass > 0, mass, 1.0)), 0.0)  # Lambda^-1/2
    used = np.flatnonzero(root)
    A = (Z.T @ Z).tocsr()[used][:, used].toarray() * np.outer(root[used], root[used])
    constant = np.sqrt(mass[used] / n)  # the eigenvector of the constant function, sigma = 1
    A -= np.outer(constant, constant)
    largest = [max(0, len(A) - n_components), len(A) - 1]
    squares, V = linalg.eigh(A, subset_by_index=largest, overwrite_a=True, check_finite=False)
    squares, V = np.minimum(squares[::-1], 1.0), V[:, ::-1]
    keep = squares > _TOLERANCE
    squares, V = squares[keep], V[:, keep]
    found = np.zeros((m, len(squares)))
    found[used] = root[used, None] * V / np.sqrt(squares)
    return AnchorGraph(1 - squares, found, 1 + int((squares > 1 - _TOLERANCE).sum()))


class AnchorSpace:
    """The anchors in one space of the rows, and the graphs on them.

    Attributes
    ----------
    anchors : Anchors
    k : int
        Number of nearest anchors to search.
    nearest : tuple of ndarray
        Distances (n, k) and indices (n, k) of each training row's nearest anchors; empty in a saved model.
    graphs : dict of int to AnchorGraph
        The smoothest functions on the graph of the s nearest anchors, by s; empty in a saved model.
    """

    def __init__(self, anchors: Anchors, k: int, nearest: tuple[Any, ...] = ()) -> None:
        self.anchors, self.k, self.nearest = anchors, k, nearest
        self.graphs: dict[int, AnchorGraph] = {}

    def weights(self, nearest: tuple[np.ndarray, np.ndarray], s: int) -> sparse.csr_array:
        """Return Z of rows for their s nearest anchors, given distances and indices of the nearest."""
        return joined(*nearest, s, self.anchors.points.shape[0])

    def without_rows(self) -> AnchorSpace:
        """Return the anchors alone, which is enough for new rows."""
        return AnchorSpace(self.anchors, self.k)


def anchor_spaces(
    rows: Rows, axes: PrincipalAxes, sizes: dict[int, list[int]], n_anchors: int, random_state: int
) -> tuple[dict[int, AnchorSpace], dict[tuple[int, int], str]]:
    """Return anchor graphs of the rows in some spaces, and the reasons why some graphs cannot be made.

    Parameters
    ----------
    rows : Rows
    axes : PrincipalAxes
        Of the rows.
    sizes : dict of int to list of int
        The numbers s of nearest anchors, ascending, by the number q of leading principal coordinates of the space; q
        = 0 is the space of all columns.
    n_anchors : int
        Approximate number of anchors.
    random_state : int
        Seed of k-means.

    Returns
    -------
    spaces : dict of int to AnchorSpace
        By q.
    reasons : dict of (int, int) to str
        By q and s.
    """
    n = rows.shape[0]
    reasons = {
        (q, s): f"{s} neighbours of {n} rows would be all of them"
        for q, some in sizes.items()
        for s in some
        if s >= n
    }
    sizes = {q: [s for s in some if s < n] for q, some in sizes.items() if some[0] < n}
    spaces: dict[int, AnchorSpace] = {}
    for q, anchors in _anchors(rows, axes, sorted(sizes), n_anchors, random_state).items():
        k = min(sizes[q][-1], anchors.points.shape[0])
        within = Featurized(rows, axes.first(q)) if q else rows
        spaces[q] = AnchorSpace(anchors, k, nearest_anchors(within, anchors, k))

    def make_graphs(some: list[tuple[int, int]], stop: Event) -> list[tuple[AnchorGraph | None, str]]:
        return [_graph(spaces[q], s) for q, s in some if not stop.is_set()]

    todo = [(q, s) for q in spaces for s in sizes[q]]
    jobs = [todo[i :: n_threads()] for i in range(min(len(todo), n_threads()))]
    for (q, s), (found, why) in zip(chain(*jobs), chain(*run_jobs(make_graphs, jobs)), strict=True):
        if found is None:
            reasons[q, s] = why
        else:
            spaces[q].graphs[s] = found
    return spaces, reasons


def _graph(space: AnchorSpace, s: int) -> tuple[AnchorGraph | None, str]:
    """Return the graph of the s nearest anchors, or the reason why it cannot be used."""
    m = space.anchors.points.shape[0]
    if s >= m:
        return None, f"{s} neighbours of {m} different anchors would be all of them"
    found = anchor_graph(space.weights(space.nearest, s))
    if found.n_pieces > max(1, len(found.eigenvalues)) / 2:
        return None, f"the graph falls into {found.n_pieces} pieces"
    return found, ""


def _anchors(
    rows: Rows, axes: PrincipalAxes, spaces: list[int], n_anchors: int, random_state: int
) -> dict[int, Anchors]:
    """Return the anchors of each space: all rows if they are few, otherwise k-means of principal coordinates."""
    if not spaces:
        return {}
    n, d = rows.shape
    if n <= _ALL_ROWS * n_anchors:
        X = rows.whole().host()
        return {q: Anchors(axes.first(q)(X) if q else X) for q in spaces}
    size = min(n, _ROWS_AN_ANCHOR * n_anchors)
    chosen = np.sort(check_random_state(random_state).permutation(n)[:size])
    some = rows if size == n else rows.take(chosen)
    C = some.get(Featurized(some, axes.first(max(spaces) or 50)).values())
    centres = cluster(C, n_anchors, random_state)
    found = {q: Anchors(np.ascontiguousarray(centres[:, :q])) for q in spaces}
    if 0 in spaces:
        within = Featurized(rows, axes.first(centres.shape[1]))
        distance, which = nearest_anchors(within, Anchors(centres), 1)
        if len(centres) * d > _DENSE_ENTRIES:
            points = rows.take(rows_around(distance[:, 0], which[:, 0])).whole().host()
        else:
            points = means_around(rows, which[:, 0], len(centres))
        found[0] = Anchors(points)
    return found


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
    return ArrayTerm(dense(total))
