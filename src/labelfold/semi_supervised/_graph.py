"""Graphs between rows, and their Laplacians. They need all rows in memory."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import laplacian as csgraph_laplacian
from sklearn import config_context
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from labelfold.features import default_gamma
from labelfold.rows import Rows, as_rows, short_indices, stored_values

# Memory budget in MB of a block of distances of sparse rows, in place of scikit-learn's default of 1 GB.
_WORKING_MB = 64

# Maximum entry of X for which squared distances do not overflow; in float32 its inverse is the minimum.
_LARGEST, _LARGEST_SINGLE = 1e145, 1e15


def in_memory(rows: Rows, max_gram_bytes: float, estimator: str) -> Rows:
    """Return the rows in memory; rows of other containers are read if they fit a budget."""
    if rows.in_memory:
        return rows
    n, need = rows.shape[0], rows.shape[0] * rows.row_bytes()
    if need > max_gram_bytes:
        raise ValueError(
            f"{estimator} looks for neighbours among all {n} rows, which takes them in memory, "
            f"{need / 2**20:,.0f} MB, more than max_gram_bytes={max_gram_bytes:,} allows; raise max_gram_bytes, "
            "or fit on some of the rows"
        )
    return rows.take(np.arange(n))


def nearest(rows: Rows, n_neighbors: int, *, metric: str = "euclidean") -> tuple[np.ndarray, np.ndarray]:
    """Return the distances (n, k) and indices (n, k) of each row's nearest neighbours, nearest first.

    Parameters
    ----------
    rows : Rows
        Rows in memory.
    n_neighbors : int
        Number of neighbours of a row, without the row itself; all other rows if there are fewer.
    metric : {"euclidean", "cosine"}, default="euclidean"
        With "cosine" rows are divided by their norms first (rows of zeros stay unchanged).
    """
    X = _points(rows, metric)
    k = min(n_neighbors, X.shape[0] - 1)
    if not k:
        return np.empty((X.shape[0], 0)), np.empty((X.shape[0], 0), dtype=np.int64)
    # scikit-learn's trees do not take sparse rows, and are slower than all pairs for more than a few columns.
    search = NearestNeighbors(n_neighbors=k, algorithm="auto" if X.shape[1] <= 15 else "brute").fit(X)
    with config_context(working_memory=_WORKING_MB):
        return search.kneighbors()


def neighbour_graph(
    distance: np.ndarray,
    neighbour: np.ndarray,
    *,
    weights: str = "binary",
    gamma: float | Literal["auto"] = "auto",
    row_weights: np.ndarray | None = None,
) -> sparse.csr_array:
    """Return W (n x n): a positive weight if one of two rows is among the nearest neighbours of the other, else 0.

    Parameters
    ----------
    distance, neighbour : ndarray of shape (n, k)
        Results of `nearest`.
    weights : {"binary", "heat"}, default="binary"
        1, or exp(-gamma distance^2).
    gamma : float or "auto"
        Parameter of the heat weights; "auto" is one over twice the mean squared distance between neighbours.
    row_weights : ndarray of shape (n,), optional
        Weights of the rows in this mean, in which a pair has the product of both; all are 1 when None.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> neighbour_graph(*nearest(as_rows(np.array([[0.0], [1.0], [3.0]])), 1)).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    n, k = distance.shape
    values = np.ones(n * k)
    if weights == "heat" and k:
        squares = distance.ravel() ** 2
        of_pairs = None if row_weights is None else (row_weights[:, None] * row_weights[neighbour]).ravel()
        mean = np.average(squares, weights=of_pairs)
        values = np.exp(-(1 / (2 * (mean or 1.0)) if gamma == "auto" else gamma) * squares)
    W = sparse.csr_array((values, neighbour.ravel(), k * np.arange(n + 1)), shape=(n, n))
    return sparse.csr_array(W.maximum(W.T))


def rbf_graph(
    rows: Rows,
    gamma: float | Literal["auto", "scale"],
    *,
    metric: str = "euclidean",
    max_gram_bytes: float,
    row_weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return W (n x n): exp(-gamma distance^2) between two rows, and 0 on the diagonal.

    ``gamma`` is a number, or a rule of `default_gamma`, for which rows may have weights.
    """
    n = rows.shape[0]
    if 8 * n * n > max_gram_bytes:
        raise ValueError(
            f"an RBF graph of {n} rows is a {n} x {n} matrix of {8 * n * n / 2**20:,.0f} MB, more than "
            f"max_gram_bytes={max_gram_bytes:,} allows; use graph='knn', or raise max_gram_bytes"
        )
    X = _points(rows, metric)
    if isinstance(gamma, str):
        gamma = default_gamma(as_rows(X), row_weights, gamma)
    W = euclidean_distances(X, squared=True)
    W *= -gamma
    np.exp(W, out=W)
    np.fill_diagonal(W, 0.0)
    return W


def given_graph(W: Any, n: int) -> Any:
    """Return the user's weights W (n x n) as CSR or dense float64, or raise an error if they are not valid."""
    # Not row-wise: the user's own matrix of pairs of rows.
    W = sparse.csr_array(W, dtype=np.float64) if sparse.issparse(W) else np.asarray(W, dtype=np.float64)
    if W.shape != (n, n):
        shape = " x ".join(map(str, W.shape))
        raise ValueError(f"graph is {shape}, where {n} x {n} is expected; give a weight to each pair of rows")
    values = stored_values(W)
    if not np.isfinite(values).all() or values.min(initial=0.0) < 0:
        raise ValueError("graph has negative or missing weights; give 0 where rows are not joined")
    gap = abs(W - W.T).max() if W.size else 0.0
    if gap > 1e-8 * values.max(initial=0.0):
        raise ValueError("graph is not symmetric; pass (W + W.T) / 2, or the larger of both")
    return W


def laplacian(W: Any, *, normalized: bool = False, row_weights: np.ndarray | None = None) -> Any:
    """Return D - W, or I - D^(-1/2) W D^(-1/2) with a row of zeros for a row without neighbours.

    With weights of rows it gives the sum over repeated rows, which are not joined to each other: edges have the
    products of both weights.

    Examples
    --------
    >>> laplacian(np.array([[0.0, 2.0], [2.0, 0.0]]))
    array([[ 2., -2.],
           [-2.,  2.]])
    """
    if row_weights is not None:
        W = _on_both_sides(W, row_weights)
    L = as_rows(csgraph_laplacian(W, normed=normalized)).whole().raw  # CSR, where SciPy returns triples
    return _on_both_sides(L, np.sqrt(row_weights)) if normalized and row_weights is not None else L


def _on_both_sides(A: Any, w: np.ndarray) -> Any:
    """Return diag(w) A diag(w)."""
    D = sparse.diags_array(w)
    return D @ A @ D


def _points(rows: Rows, metric: str) -> Any:
    """Return the rows for scikit-learn's neighbour search: float64, 32-bit indices, divided by norms for "cosine"."""
    block = rows.whole().double()
    largest = float(max(block.raw.max(), -block.raw.min()))
    if largest > _LARGEST:
        raise ValueError(f"X has entries of {largest:.1e}, whose squares overflow; divide X by a constant")
    if rows.dtype == np.float32 and largest and not 1 / _LARGEST_SINGLE <= largest <= _LARGEST_SINGLE:
        raise ValueError(
            f"X has entries of {largest:.1e}, whose squares leave the range of float32; pass float64, or multiply X "
            "by a constant"
        )
    if metric == "cosine":
        norms = np.sqrt(block.sq())
        return short_indices(block.scale(1 / np.where(norms > 0, norms, 1.0)).raw)
    X = short_indices(block.raw)
    # Centred, so that distances computed from products do not cancel. Not row-wise: sparse rows keep their zeros.
    return X if sparse.issparse(X) else X - X.mean(axis=0)
