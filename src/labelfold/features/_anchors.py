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
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from labelfold.features._forms import drawn_rows
from labelfold.features._principal import PrincipalAxes
from labelfold.rows import (
    ArrayTerm,
    Block,
    Featurized,
    Rows,
    SquaredDistances,
    any_array,
    cast,
    dense,
    double,
    few_entries,
    gram_of_entries,
    library_of,
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
# Anchors of at most this many entries are centred in each search: with these the search of a single row takes 1.6
# times as long, with four times as many entries 3 to 6 times (benchmarks/limits.py --only anchors).
_CENTRED_ENTRIES = 131_072
# About the square root of the round-off of float64. Eigenvalues sigma^2 below it are left out, since u_j is divided
# by sigma_j; those within it of 1 count as 1.
_TOLERANCE = 1e-8


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
        return self._squares.nearest(X, k)


def nearest_anchors(rows: Rows, anchors: Anchors, k: int) -> Any:
    """Return the distances and the indices of each row's k nearest anchors, (n, 2k), stored with the rows."""
    with np.errstate(over="ignore"):  # overflow in the precision of the rows is refused
        return Featurized(rows, partial(_distances_and_indices, anchors, k)).values()


def parted(found: Any) -> tuple[Any, Any]:
    """Return the distances and the indices that `nearest_anchors` found for some rows."""
    k = found.shape[1] // 2
    return found[:, :k], cast(found[:, k:], library_of(found).int64)


@any_array
def _distances_and_indices(anchors: Anchors, k: int, X: Any) -> Any:
    distance, which = anchors.nearest(X, k)
    xp = library_of(distance)
    return xp.concat([distance, xp.astype(which, distance.dtype)], axis=1)


def joined(distance: Any, which: Any, n_neighbors: int, n_anchors: int) -> Any:
    """Return Z (n, m): each row's weights of its nearest anchors, exp(-4 d^2 / d_s^2), divided by their sum.

    d_s is the distance of the farthest of the s anchors. If it is 0, the weights are equal.
    Z is what `few_entries` makes.
    """
    xp, s = library_of(distance), n_neighbors
    d = double(distance[:, :s])
    last = d[:, -1:]
    w = xp.exp(
        -4 * xp.where(last > 0, d / xp.where(last > 0, last, xp.ones_like(last)), xp.zeros_like(d)) ** 2
    )
    w = w / xp.sum(w, axis=1, keepdims=True)
    return few_entries(w, which[:, :s], n_anchors)


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


def anchor_graph(products: np.ndarray, mass: np.ndarray, n: float, n_components: int = 150) -> AnchorGraph:
    """Return the smoothest functions on the graph Z Lambda^-1 Z' of n rows, the constant one left out.

    Parameters
    ----------
    products, mass : ndarray of shape (m, m), (m,)
        Z'Z and Z'1. With weights D of the rows Z'DZ and Z'D1.
    n : float
        Number of rows, or their total weight.
    n_components : int
        Maximum number of functions.
    """
    root = np.where(mass > 0, 1 / np.sqrt(np.where(mass > 0, mass, 1.0)), 0.0)  # Lambda^-1/2
    used = np.flatnonzero(root)
    A = products[np.ix_(used, used)] * root[used, None]
    A *= root[used]
    constant = np.sqrt(mass[used] / n)  # the eigenvector of the constant function, sigma = 1
    A -= constant[:, None] * constant
    largest = [max(0, len(A) - n_components), len(A) - 1]
    squares, V = linalg.eigh(A, subset_by_index=largest, overwrite_a=True, check_finite=False)
    squares, V = np.minimum(squares[::-1], 1.0), V[:, ::-1]
    keep = squares > _TOLERANCE
    squares, V = squares[keep], V[:, keep]
    found = np.zeros((len(mass), len(squares)))
    found[used] = root[used, None] * V / np.sqrt(squares)
    return AnchorGraph(1 - squares, found, 1 + int((squares > 1 - _TOLERANCE).sum()))


class AnchorSpace:
    """The anchors in one space of the rows, and the graphs on them.

    Attributes
    ----------
    anchors : Anchors
    k : int
        Number of nearest anchors to search.
    nearest : array of shape (n, 2k) or None
        What `nearest_anchors` found for the training rows, stored with them; None in a saved model.
    graphs : dict of int to AnchorGraph
        The smoothest functions on the graph of the s nearest anchors, by s; empty in a saved model.
    """

    def __init__(self, anchors: Anchors, k: int, nearest: Any = None) -> None:
        self.anchors, self.k, self.nearest = anchors, k, nearest
        self.graphs: dict[int, AnchorGraph] = {}

    def weights(self, nearest: tuple[np.ndarray, np.ndarray], s: int) -> sparse.csr_array:
        """Return Z of rows for their s nearest anchors, given distances and indices of the nearest."""
        return joined(*nearest, s, self.anchors.points.shape[0])

    def without_rows(self) -> AnchorSpace:
        """Return the anchors alone, which is enough for new rows."""
        return AnchorSpace(self.anchors, self.k)


def anchor_spaces(
    rows: Rows,
    axes: PrincipalAxes,
    sizes: dict[int, list[int]],
    n_anchors: int,
    random_state: int,
    weights: np.ndarray | None = None,
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
    weights : ndarray of shape (n,), optional
        Weights of the rows; all are 1 when None.

    Returns
    -------
    spaces : dict of int to AnchorSpace
        By q.
    reasons : dict of (int, int) to str
        By q and s.
    """
    n = rows.shape[0] if weights is None else np.count_nonzero(weights)
    reasons = {
        (q, s): f"{s} neighbours of {n} rows would be all of them"
        for q, some in sizes.items()
        for s in some
        if s >= n
    }
    sizes = {q: [s for s in some if s < n] for q, some in sizes.items() if some[0] < n}
    spaces: dict[int, AnchorSpace] = {}
    for q, anchors in _anchors(rows, axes, sorted(sizes), n_anchors, random_state, weights).items():
        k = min(sizes[q][-1], anchors.points.shape[0])
        within = Featurized(rows, axes.first(q)) if q else rows
        spaces[q] = AnchorSpace(anchors, k, nearest_anchors(within, anchors, k))

    todo = [(q, s) for q in spaces for s in sizes[q]]
    sums = {}
    for q, s in todo:
        m = spaces[q].anchors.points.shape[0]
        if s >= m:
            reasons[q, s] = f"{s} neighbours of {m} different anchors would be all of them"
        else:
            given = () if weights is None else (weights,)
            sums[q, s] = rows.sum_aligned(partial(_joined_sums, s, m), spaces[q].nearest, *given)
    # The decompositions take longer than the sums.
    total = float(n if weights is None else weights.sum())
    made = run_jobs(lambda key, _: anchor_graph(sums[key][0], sums[key][1], total), list(sums))
    for (q, s), found in zip(sums, made, strict=True):
        if found.n_pieces > max(1, len(found.eigenvalues)) / 2:
            reasons[q, s] = f"the graph falls into {found.n_pieces} pieces"
        else:
            spaces[q].graphs[s] = found
    return spaces, reasons


@any_array
def _joined_sums(s: int, m: int, nearest: Any, weights: Any = None) -> tuple[Any, Any]:
    """Return Z'DZ and Z'D1 of some rows with weights D, from what `nearest_anchors` found for them."""
    return gram_of_entries(joined(*parted(nearest), s, m), weights)


def _anchors(
    rows: Rows,
    axes: PrincipalAxes,
    spaces: list[int],
    n_anchors: int,
    random_state: int,
    weights: np.ndarray | None,
) -> dict[int, Anchors]:
    """Return the anchors of each space: all rows if they are few, otherwise k-means of principal coordinates."""
    if not spaces:
        return {}
    n, d = rows.shape
    chosen = drawn_rows(n, _ROWS_AN_ANCHOR * n_anchors, weights, random_state)
    some = rows if len(chosen) == n else rows.take(chosen)
    if len(chosen) <= _ALL_ROWS * n_anchors:
        X = some.whole().host()
        return {q: Anchors(axes.first(q)(X) if q else X) for q in spaces}
    C = some.get(Featurized(some, axes.first(max(spaces) or 50)).values())
    centres = cluster(C, n_anchors, random_state, None if weights is None else weights[chosen])
    found = {q: Anchors(np.ascontiguousarray(centres[:, :q])) for q in spaces}
    if 0 in spaces:  # in all columns, from the same rows
        distance, which = (part[:, 0] for part in Anchors(centres).nearest(C, 1))
        if len(centres) * d > _DENSE_ENTRIES:
            near = distance if weights is None else np.where(weights[chosen] > 0, distance, np.inf)
            points = some.take(rows_around(near, which)).whole().host()
        else:
            points = means_around(some, which, len(centres), None if weights is None else weights[chosen])
        found[0] = Anchors(points)
    return found


def cluster(
    points: np.ndarray, n_anchors: int, random_state: Any, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the k-means centres (m, q) of some points, without empty clusters."""
    n = len(points)
    kind = MiniBatchKMeans if n > _BATCHES_FROM * n_anchors else KMeans
    more = {"batch_size": 4096, "max_iter": 20} if kind is MiniBatchKMeans else {"max_iter": 10}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than centres
        means = kind(n_anchors, init="random", n_init=1, random_state=random_state, **more)
        means.fit(points, sample_weight=weights)
    return means.cluster_centers_[np.unique(means.labels_)]


def means_around(
    rows: Rows, nearest: np.ndarray, n_anchors: int, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the mean (m, d) of the rows nearest to each anchor, without anchors that have no row."""
    weights = np.ones(len(nearest)) if weights is None else weights
    sums = rows.sum(_sums_around, nearest, weights, shared=(n_anchors,))
    totals = np.bincount(nearest, weights, minlength=n_anchors)
    return sums[totals > 0] / totals[totals > 0, None]


def rows_around(distance: np.ndarray, nearest: np.ndarray) -> np.ndarray:
    """Return the index of the row nearest to each anchor, without anchors that have no row at a finite distance."""
    order = np.lexsort((distance, nearest))
    order = order[np.isfinite(distance[order])]
    first = np.unique(nearest[order], return_index=True)[1]
    return np.sort(order[first])


def _sums_around(X: Block, nearest: Any, weights: Any, n_anchors: int) -> ArrayTerm:
    raw, nearest = X.host(), to_host(nearest)
    member = sparse.csr_array(
        (to_host(weights).astype(raw.dtype), nearest, np.arange(len(nearest) + 1)),
        shape=(len(nearest), n_anchors),
    )
    total = member.T @ raw
    return ArrayTerm(dense(total))
