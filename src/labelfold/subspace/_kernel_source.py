"""Rows in the space of an exact kernel, in the form that the pursuit of PCALS reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from labelfold.features._cholesky_features import cholesky_features
from labelfold.labels import Labels
from labelfold.rows import as_rows
from labelfold.subspace._source import Source


class KernelSource(Source):
    """Rows in the space of a kernel: K = L L' by a pivoted Cholesky factorisation, with the rows of L as features.

    Pivots are chosen greedily, and the factorisation stops when the residual is zero. The r pivot rows then span all
    others. The features of a row are :math:`L_r^{-1} k(x)`, from its kernel values with the pivots, so new rows have
    them too.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix of all rows; it is overwritten.
    labels : Labels
        The labels.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows.
    center : bool
        Whether to centre features.
    max_gram_bytes : int
        Largest size of an r x r matrix, and of labelled rows.
    random_state : int
        As in `Source`.

    Attributes
    ----------
    pivots : ndarray of shape (r,)
        The rows that span all others.
    feature_mean : ndarray of shape (r,)
        The mean kernel values of all rows with these.
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
        # Rows stay in the order of the factorisation, which avoids a copy; labels are permuted accordingly.
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
        """Return directions as combinations of the pivot rows."""
        return linalg.solve_triangular(self.triangle, W, lower=True, trans=1, check_finite=False)
