"""Features whose inner products are a kernel matrix, by a pivoted Cholesky factorisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

from labelfold.features._kernel_map import refuse_infinite

# Residuals of the diagonal of the kernel below this many times n eps are round-off.
_ROUND_OFF = 10

# Tolerance for negative residuals of the kernel, relative to its largest value; beyond it K is not a kernel.
_NEGATIVE = 1e-3


def round_off(K: np.ndarray) -> float:
    """Return the size of residuals of the diagonal of a kernel matrix that are round-off."""
    return _ROUND_OFF * len(K) * float(np.finfo(np.float64).eps * np.diagonal(K).max(initial=0.0))


def cholesky_features(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L (n, r) with L L' = K[order][:, order], lower trapezoidal, and the order; K is overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> L, order = cholesky_features(X @ X.T)
    >>> order.tolist()
    [1, 2, 0]
    >>> L
    array([[2., 0.],
           [0., 1.],
           [1., 0.]])
    """
    n = len(K)
    diagonal = np.diagonal(K).copy()
    largest, span = float(diagonal.max(initial=0.0)), float(max(K.max(), -K.min()))
    refuse_infinite(span)
    tol = round_off(K)
    probe = np.random.default_rng(0).standard_normal(n)
    seen = K @ probe
    # If all rows have the same norm, as with an RBF kernel, the first pivot would depend on the order of the rows. So
    # it is, among the longest rows, the one with the largest similarity to all others.
    longest = diagonal >= (1 - 1e-12) * largest
    names, first = np.arange(n), int(np.where(longest, K.sum(axis=1), -np.inf).argmax())
    K[[0, first]], names[[0, first]] = K[[first, 0]], names[[first, 0]]
    K[:, [0, first]] = K[:, [first, 0]]
    # K.T of a C-ordered array has the order of LAPACK, and its upper factor is L in C order.
    U, order, rank, _ = lapack.dpstrf(K.T, tol=tol, lower=0, overwrite_a=1)
    L: Any = U.T[:, :rank] if rank else np.zeros((n, 1))
    for start in range(0, rank, 256):
        here = slice(start, start + 256)
        L[here, start:] = np.tril(L[here, start:])
    order = names[order - 1]
    left = diagonal[order] - np.einsum("ij,ij->i", L, L)
    missed = seen[order] - L @ (L.T @ probe[order])  # (K - L L') times a random vector
    if min(left.min(), largest - span, -np.abs(missed).max()) < -_NEGATIVE * span:
        raise ValueError(
            "the kernel's matrix is not positive semi-definite, so no features have it for products; centre X "
            "where its columns lie far from 0, or use another kernel, such as 'rbf', or other parameters"
        )
    return L, order
