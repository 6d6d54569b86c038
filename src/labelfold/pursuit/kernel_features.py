"""The features of a kernel matrix: rows of numbers whose products are the kernel, as far as round-off tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from labelfold.labels import Labels
from labelfold.pursuit.sources import Source
from labelfold.rows import as_rows

# What is left of a kernel's diagonal is round-off below this many times n eps.
_ROUND_OFF = 10

# Where features have the kernel, what is left is not below zero by more than this many times its largest value.
_NEGATIVE = 1e-3


class KernelSource(Source):
    """Rows in the space of a kernel: K = L L' after a Cholesky factorisation, of which L has the features.

    The factorisation takes the rows in the order that explains K fastest, and stops when nothing is left: r rows then
    span all others. A row's features are :math:`L_r^{-1} k(x)`, of its kernels with these, so that new rows have them
    too.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel of all rows with each other; it is written over.
    labels : Labels
        Which rows are labelled.
    Y : ndarray of shape (l, q)
        Their responses.
    center : bool
        Whether to centre features.
    max_gram_bytes : int
        The most memory for a matrix of r x r, and for labelled rows.
    random_state : int
        As in `Source`.

    Attributes
    ----------
    pivots : ndarray of shape (r,)
        The rows that span all others.
    feature_mean : ndarray of shape (r,)
        The mean of all rows' kernels with these.
    """

    def __init__(
        self,
        K: np.ndarray,
        labels: Labels,
        Y: np.ndarray,
        *,
        center: bool,
        max_gram_bytes: int,
        random_state: int = 0,
    ) -> None:
        L, order = cholesky_features(K)
        self.pivots = order[: L.shape[1]]
        # Rows stay in the order of the factorisation, which spares a copy: labels follow them.
        where = np.empty(len(order), dtype=np.intp)
        where[order] = np.arange(len(order))
        index = where[labels.index]
        sort = np.argsort(index)
        mask = np.zeros(len(order), dtype=bool)
        mask[index] = True
        moved = replace(labels, labelled=mask, index=index[sort], values=labels.values[sort])
        super().__init__(
            as_rows(L),
            moved,
            Y[sort],
            center=center,
            max_gram_bytes=max_gram_bytes,
            random_state=random_state,
        )
        self.triangle = L[: L.shape[1]]
        self.feature_mean = self.triangle @ self.mean

    def components(self, W: np.ndarray) -> np.ndarray:
        """Return directions as multiples of the rows that span all others."""
        return linalg.solve_triangular(self.triangle, W, lower=True, trans=1, check_finite=False)


def cholesky_features(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L (n, r) with L L' = K[order][:, order], lower trapezoidal, and the order; K is written over.

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
    if not np.isfinite(span):
        raise ValueError(
            "the kernel of some rows is NaN or infinite; scale X, or use another kernel or other parameters"
        )
    tol = _ROUND_OFF * n * np.finfo(np.float64).eps * largest
    # K.T of an array in C order is in the order LAPACK wants, and its upper factor is L in C order.
    U, order, rank, _ = lapack.dpstrf(K.T, tol=tol, lower=0, overwrite_a=1)
    L: Any = U.T[:, :rank] if rank else np.zeros((n, 1))
    for start in range(0, rank, 256):
        here = slice(start, start + 256)
        L[here, start:] = np.tril(L[here, start:])
    order = order - 1
    left = diagonal[order] - np.einsum("ij,ij->i", L, L)
    if min(left.min(), largest - span) < -_NEGATIVE * span:
        raise ValueError(
            "the kernel's matrix is not positive semi-definite, so no features have it for products; use another "
            "kernel, such as 'rbf', or other parameters"
        )
    return L, order
