"""Rows in the space of an exact kernel, in the two forms that the pursuit of PCALS reads.

`KernelCoefficients` needs no more than products with the kernel matrix. `KernelFeatures` factorises it, which takes
longer if its rank is large, and keeps more digits for directions along which rows vary little.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from labelfold.features import cholesky_features, round_off
from labelfold.labels import Labels
from labelfold.numerics import is_definite
from labelfold.rows import as_rows, single_blas
from labelfold.subspace._direction_search import PROVED
from labelfold.subspace._kernel_space import KernelSpace
from labelfold.subspace._source import LabelledSpace, Source


class KernelFeatures(Source):
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


class KernelCoefficients:
    """Rows in the space of a kernel, of which all vectors are combinations; see `KernelSpace`.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix of all rows.
    labels : Labels
        The labels.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows.
    center : bool
        Whether to centre features.

    Attributes
    ----------
    labels, Y
        As given.
    dimension : int
        As in `Source`: n.
    drawn, pivots : ndarray
        Indices of the labelled rows for cross-validation, and of the rows that span all others: all.
    feature_mean : ndarray of shape (n,)
        The mean kernel values of all rows with these.
    """

    def __init__(self, K: np.ndarray, labels: Labels, Y: np.ndarray, *, center: bool) -> None:
        n = len(K)
        self.K, self.labels, self.Y, self.dimension = K, labels, Y, n
        self.drawn, self.pivots = np.arange(len(Y)), np.arange(n)
        self.feature_mean = K.mean(axis=0) if center else np.zeros(n)
        self.noise = 10 * np.sqrt(n) * float(np.finfo(np.float64).eps)

    def known(self, which: np.ndarray | None = None) -> LabelledSpace:
        """Return the data of a pursuit, with all labels known or only some."""
        chosen = slice(None) if which is None else which
        space = KernelSpace(self.K, self.feature_mean, self.labels.index[chosen], self.noise)
        Y = self.Y[chosen]
        return LabelledSpace(space, Y, np.ones(len(Y)))

    def scores(self, which: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the coordinates of some labelled rows along directions."""
        return (self.K[self.labels.index[which]] - self.feature_mean) @ self.components(W)

    def components(self, W: np.ndarray) -> np.ndarray:
        """Return directions as combinations of all rows."""
        return W - W.mean(axis=0) if self.feature_mean.any() else W


def has_large_rank(K: np.ndarray) -> bool:
    """Return whether the rank of a kernel matrix is known to be large, from a part of it.

    Then a factor has nearly as many columns as K, and maxima in its space cannot be proved.
    """
    some = np.random.default_rng(0).permutation(len(K))[: PROVED + 1]
    if len(some) <= PROVED:
        return False
    A = K[np.ix_(some, some)]
    A.flat[:: len(A) + 1] -= round_off(K)
    with single_blas():  # too small for several threads to gain
        return is_definite(A)
