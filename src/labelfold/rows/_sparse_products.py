"""Compiled loops over sparse rows, imported only if a product is large enough to need them.

All loops release the GIL and none is parallel itself: the threads belong to `labelfold.rows._threads`. Loops whose
inner step runs over k columns are compiled for each small k, with that step in vector instructions (`_vectors.py`).
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows import _threads as threads
from labelfold.rows._vectors import add_rows, add_to_rows, run
from labelfold.utils import FAST, compiled

# Largest width k for which a separate loop is compiled, in a sixth of a second.
_MAX_SPECIAL = 128

_compile = compiled(FAST)


def csr_product(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Return X @ M for CSR rows and a (d, k) matrix."""
    M = np.ascontiguousarray(M)
    out = np.empty((len(indptr) - 1, M.shape[1]), dtype=M.dtype)
    run(_gather, special(M.shape[1]), data, indices, indptr, M, out)
    return out


def csr_scatter(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, out: np.ndarray
) -> None:
    """Add X'H to ``out`` for CSR rows and an (m, k) matrix."""
    H = np.ascontiguousarray(H)
    run(_scatter, special(H.shape[1]), data, indices, indptr, H, out)


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
        h = np.empty_like(part[0])
        run(_through, special(len(h)), columns.data, columns.indices, columns.indptr, part, h, out)
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


def special(k: int) -> int:
    """Return k if a loop is compiled for it, 0 for the general loop."""
    return k if k <= _MAX_SPECIAL else 0


# numba caches a nested function only if it closes over numbers alone.
@cache
def _gather(special: int) -> Any:
    if not special:
        return _gather_any

    @_compile
    def gather(data, indices, indptr, M, out):
        for i in range(indptr.size - 1):
            a, b = indptr[i], indptr[i + 1]
            add_rows(data[a:b], out[i], M, indices, a, b - a, special)

    return gather


@cache
def _scatter(special: int) -> Any:
    if not special:
        return _scatter_any

    @_compile
    def scatter(data, indices, indptr, H, out):
        for i in range(indptr.size - 1):
            a, b = indptr[i], indptr[i + 1]
            add_to_rows(data[a:b], H[i], out, indices, a, b - a, special)

    return scatter


@cache
def _through(special: int) -> Any:
    if not special:
        return _through_any

    @_compile
    def through(data, indices, indptr, P, h, out):
        for c in range(indptr.size - 1):
            a, b = indptr[c], indptr[c + 1]
            add_rows(data[a:b], h, P, indices, a, b - a, special)
            add_to_rows(data[a:b], h, out, indices, a, b - a, special)

    return through


@_compile
def _gather_any(data, indices, indptr, M, out):
    for i in range(indptr.size - 1):
        _add_rows_any(data, indices, indptr[i], indptr[i + 1], M, out[i])


@_compile
def _scatter_any(data, indices, indptr, H, out):
    for i in range(indptr.size - 1):
        _add_to_rows_any(data, indices, indptr[i], indptr[i + 1], H[i], out)


@_compile
def _through_any(data, indices, indptr, P, h, out):
    for c in range(indptr.size - 1):
        _add_rows_any(data, indices, indptr[c], indptr[c + 1], P, h)
        _add_to_rows_any(data, indices, indptr[c], indptr[c + 1], h, out)


@_compile
def _add_rows_any(data, indices, first, end, M, row):
    """Set ``row`` to the sum of rows of M, each times an entry: `add_rows` for any width."""
    row[:] = 0
    for p in range(first, end):
        value, source = data[p], M[indices[p]]
        for t in range(row.size):
            row[t] += value * source[t]


@_compile
def _add_to_rows_any(data, indices, first, end, row, out):
    """Add ``row`` times an entry to rows of ``out``: `add_to_rows` for any width."""
    for p in range(first, end):
        value, target = data[p], out[indices[p]]
        for t in range(row.size):
            target[t] += value * row[t]
