"""Compiled: products of the rows of a linear SVM, dense or CSR, with its weights.

Rows are four arguments, so that what uses them is written once: ``(X, None, None, None)`` where they are dense,
``(None, data, indices, indptr)`` where they are CSR. The compiler leaves out what belongs to an argument that is
None. A vector w has one entry more than there are columns, multiplied by ``bias``: 0 without an intercept.
"""

from __future__ import annotations

import numba
import numpy as np

compiled = numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")


@compiled
def squared_norms(X, data, indices, indptr, n, bias):
    """Return the squared norm of each row, the bias included."""
    q = np.empty(n)
    for i in range(n):
        total = 0.0
        if X is not None:
            for j in range(X.shape[1]):
                total += np.float64(X[i, j]) * X[i, j]
        if data is not None:
            for p in range(indptr[i], indptr[i + 1]):
                total += np.float64(data[p]) * data[p]
        q[i] = total + bias * bias
    return q


@compiled
def dot(X, data, indices, indptr, i, w, bias):
    """Return the product of row i with w."""
    total = 0.0
    if X is not None:
        for j in range(X.shape[1]):
            total += X[i, j] * w[j]
    if data is not None:
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * w[np.uintp(indices[p])]
    return total + bias * w[-1]


@compiled
def add(X, data, indices, indptr, i, step, w, bias):
    """Add ``step`` times row i to w."""
    if X is not None:
        for j in range(X.shape[1]):
            w[j] += step * X[i, j]
    if data is not None:
        for p in range(indptr[i], indptr[i + 1]):
            w[np.uintp(indices[p])] += step * data[p]
    w[-1] += step * bias


@compiled
def weights(X, data, indices, indptr, y, alpha, w, bias):
    """Write sum_i alpha_i y_i x_i to w and return its squared norm."""
    w[:] = 0.0
    for i in range(y.size):
        if alpha[i] != 0:
            add(X, data, indices, indptr, i, alpha[i] * y[i], w, bias)
    return squared_norm(w)


@compiled
def squared_norm(w):
    """Return the sum of the squares."""
    total = 0.0
    for j in range(w.size):
        total += w[j] * w[j]
    return total
