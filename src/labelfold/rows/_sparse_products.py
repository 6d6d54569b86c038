"""Compiled loops over sparse rows, imported only if a product is large enough to need them.

All loops release the GIL and none is parallel itself: the threads belong to `labelfold.rows._threads`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows import _threads as threads
from labelfold.utils import FAST, compiled

_compile = compiled(FAST)


def csr_product(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Return X @ M for CSR rows and a (d, k) matrix."""
    M = np.ascontiguousarray(M)
    out = np.empty((len(indptr) - 1, M.shape[1]), dtype=M.dtype)
    _gather(data, indices, indptr, M, out)
    return out


def csr_scatter(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, out: np.ndarray
) -> None:
    """Add X'H to ``out`` for CSR rows and an (m, k) matrix."""
    _scatter(data, indices, indptr, np.ascontiguousarray(H), out)


@_compile
def csr_gram(data, indices, indptr, out):
    """Add the lower triangle of X'X to ``out``, for CSR rows with sorted indices."""
    for i in range(indptr.size - 1):
        for p in range(indptr[i], indptr[i + 1]):
            value = data[p]
            row = out[indices[p]]
            for q in range(indptr[i], p + 1):
                row[indices[q]] += value * data[q]


def csr_outer(X: sparse.csr_array) -> np.ndarray:
    """Return the lower triangle of X X' as a dense array, each row from the columns it shares with rows above."""
    n = X.shape[0]
    T = X.T.tocsr()
    out = np.zeros((n, n), dtype=X.dtype)
    # Number of stored entries above each entry in its column.
    above = np.empty(X.nnz, dtype=np.int64)
    above[np.argsort(X.indices, kind="stable")] = np.arange(X.nnz)
    above -= T.indptr[X.indices]
    work = np.concatenate([[0], np.cumsum(above + 1)])[X.indptr]
    pieces = np.unique(np.searchsorted(work, np.linspace(0, work[-1], threads.n_threads() + 1)))
    pieces[0], pieces[-1] = 0, n

    def fill(piece: tuple[int, int], stop: Any) -> None:
        _outer(X.data, X.indices, X.indptr, above, T.data, T.indices, T.indptr, *piece, out)

    threads.run_jobs(fill, list(itertools.pairwise(pieces)))
    return out


def outer_product(columns: sparse.csr_array, P: np.ndarray) -> np.ndarray:
    """Return X (X'P) for the columns of X, as the rows of a CSR matrix, and an (n, k) matrix P.

    A row of X'P is used as soon as it is computed, so that neither memory nor cache has to hold a d x k matrix. Each
    thread has some columns of P, so nothing is merged.
    """
    cuts = np.unique(np.linspace(0, P.shape[1], threads.n_threads() + 1).astype(int))

    def fill(piece: tuple[int, int], stop: Any) -> np.ndarray:
        part = np.ascontiguousarray(P[:, slice(*piece)])
        out = np.zeros_like(part)
        _gather_and_scatter(columns.data, columns.indices, columns.indptr, part, out)
        return out

    parts = threads.run_jobs(fill, list(itertools.pairwise(cuts)))
    return np.hstack([np.empty_like(P[:, :0]), *parts])


@_compile
def _outer(data, indices, indptr, above, t_data, t_indices, t_indptr, start, stop, out):
    for i in range(start, stop):
        row = out[i]
        for p in range(indptr[i], indptr[i + 1]):
            value = data[p]
            first = t_indptr[indices[p]]
            for q in range(first, first + above[p] + 1):
                row[t_indices[q]] += value * t_data[q]


@_compile
def _gather(data, indices, indptr, M, out):
    for i in range(indptr.size - 1):
        _add_rows(data[indptr[i] : indptr[i + 1]], indices, indptr[i], M, out[i])


@_compile
def _scatter(data, indices, indptr, H, out):
    for i in range(indptr.size - 1):
        _add_to_rows(data[indptr[i] : indptr[i + 1]], indices, indptr[i], H[i], out)


@_compile
def _gather_and_scatter(data, indices, indptr, P, out):
    h = np.empty_like(P[0])
    for c in range(indptr.size - 1):
        values = data[indptr[c] : indptr[c + 1]]
        _add_rows(values, indices, indptr[c], P, h)
        _add_to_rows(values, indices, indptr[c], h, out)


@_compile
def _add_rows(values, indices, first, M, row):
    """Set ``row`` to the sum of values[j] times row indices[first + j] of M."""
    row[:] = 0
    m, j = values.size, 0
    # Four rows at a time: `row` is read and written a quarter as often.
    while j + 4 <= m:
        a, b, c, d = values[j], values[j + 1], values[j + 2], values[j + 3]
        A, B = M[indices[first + j]], M[indices[first + j + 1]]
        C, D = M[indices[first + j + 2]], M[indices[first + j + 3]]
        for t in range(row.size):
            row[t] += a * A[t] + b * B[t] + c * C[t] + d * D[t]
        j += 4
    while j < m:
        a, A = values[j], M[indices[first + j]]
        for t in range(row.size):
            row[t] += a * A[t]
        j += 1


@_compile
def _add_to_rows(values, indices, first, row, out):
    """Add values[j] times ``row`` to row indices[first + j] of ``out``."""
    for j in range(values.size):
        value, target = values[j], out[indices[first + j]]
        for t in range(row.size):
            target[t] += value * row[t]
