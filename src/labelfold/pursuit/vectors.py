"""Orthonormal vectors of a space, kept with what all rows and the labelled rows make of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelfold.numerics.eigen import orthonormal as orthonormal_columns
from labelfold.pursuit.spaces import Space

# A combination of new vectors of length 1 adds nothing where its squared length is below this: what is known of the
# vectors, S Q and Z Q, would lose as many digits as the root of this has.
_DEPENDENT = 1e-6
# What others leave of a vector is round-off where it is shorter than this, relative to the vector.
_NOTHING = 1e-12


class Vectors(NamedTuple):
    """m vectors as columns.

    Attributes
    ----------
    Q : ndarray of shape (size, m)
        The vectors.
    SQ : ndarray of shape (size, m)
        S Q.
    ZQ : ndarray of shape (l, m)
        Z Q, the scores of the labelled rows.
    """

    Q: np.ndarray
    SQ: np.ndarray
    ZQ: np.ndarray

    @classmethod
    def none(cls, space: Space) -> Vectors:
        """Return no vectors of a space."""
        empty = np.empty((space.size, 0))
        return cls(empty, empty, np.empty((space.n_labelled, 0)))

    @property
    def count(self) -> int:
        """How many there are."""
        return self.Q.shape[1]

    def __matmul__(self, A: np.ndarray) -> Vectors:
        """Return the combinations A (m, k) of them."""
        return Vectors(self.Q @ A, self.SQ @ A, self.ZQ @ A)

    def less(self, space: Space, *others: Vectors) -> Vectors:
        """Return what is left of these vectors orthogonal to others."""
        for other in others:
            A = space.dot(other.Q, other.SQ, self.Q)
            self = Vectors(*(own - its @ A for own, its in zip(self, other, strict=True)))
        return self

    def and_also(self, other: Vectors) -> Vectors:
        """Return these and others."""
        return Vectors(*(np.hstack(pair) for pair in zip(self, other, strict=True)))


def orthonormal(space: Space, B: np.ndarray, *others: Vectors) -> Vectors:
    """Return orthonormal vectors that span what others leave of B, without what is round-off; one product with S."""
    if space.euclidean:
        for other in others:
            B = orthonormal_columns(B, other.Q)
        for other in others[:-1]:  # the others are orthogonal to each other but for round-off
            B = B - other.Q @ (other.Q.T @ B)
        return Vectors(B, *space.times(B))
    new = Vectors(B, *space.times(B))
    before = np.einsum("ij,ij->j", B, new.SQ)
    new = new.less(space, *others).less(space, *others)
    floor = np.maximum(_NOTHING**2 * before, space.shortest(new.Q))
    for _ in range(2):
        G = space.dot(new.Q, new.SQ, new.Q)
        square = np.diagonal(G)
        scale = np.zeros(len(G))
        np.divide(1.0, np.sqrt(np.maximum(square, 0.0)), out=scale, where=square > floor)
        values, U = np.linalg.eigh((G + G.T) / 2 * np.outer(scale, scale))
        keep = values > _DEPENDENT
        new = new @ (scale[:, None] * U[:, keep] / np.sqrt(values[keep]))
        new = new.less(space, *others)
        floor = np.zeros(new.count)
    return new
