"""Orthonormal vectors of a space, stored with their products with all rows and with the labelled rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelfold.numerics._eigen import orthonormal as orthonormal_columns
from labelfold.subspace._vector_spaces import Space


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
        """Return an empty set of vectors of a space."""
        empty = np.empty((space.size, 0))
        return cls(empty, empty, np.empty((space.n_labelled, 0)))

    @property
    def n_vectors(self) -> int:
        """Number of vectors."""
        return self.Q.shape[1]

    def __matmul__(self, A: np.ndarray) -> Vectors:
        """Return the combinations of them with coefficients A (m, k)."""
        return Vectors(self.Q @ A, self.SQ @ A, self.ZQ @ A)

    def less(self, other: Vectors) -> Vectors:
        """Return the part of these vectors that is orthogonal to others."""
        A = other.Q.T @ self.Q
        return Vectors(*(own - its @ A for own, its in zip(self, other, strict=True)))

    def and_also(self, other: Vectors) -> Vectors:
        """Return these and other vectors together."""
        return Vectors(*(np.hstack(pair) for pair in zip(self, other, strict=True)))


def orthonormal(space: Space, B: np.ndarray, *others: Vectors) -> Vectors:
    """Return an orthonormal basis of the part of B orthogonal to the others, by one product with S."""
    room = max(0, space.size - sum(other.n_vectors for other in others))
    for other in others:
        B = orthonormal_columns(B, other.Q)
    for other in others[:-1]:  # the others are orthogonal up to round-off
        B = B - other.Q @ (other.Q.T @ B)
    B = B[:, :room]
    return Vectors(B, *space.times(B))
