"""Vectors of a space, stored with their products with all rows and with the labelled rows."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np


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

    @property
    def n_vectors(self) -> int:
        """Number of vectors."""
        return self.Q.shape[1]

    def dot(self, B: np.ndarray) -> np.ndarray:
        """Return the inner products with other vectors."""
        return self.Q.T @ B

    def __matmul__(self, A: np.ndarray) -> Self:
        """Return the combinations of them with coefficients A (m, k)."""
        return type(self)(self.Q @ A, self.SQ @ A, self.ZQ @ A)

    def reflected(self, u: np.ndarray, v: np.ndarray) -> Self:
        """Return all but the first after the reflection I - uv', where v has no first entry."""
        return type(self)(*(own[:, 1:] - np.outer(own @ u, v) for own in self))

    def less(self, other: Vectors) -> Self:
        """Return the part of these vectors that is orthogonal to others."""
        A = other.dot(self.Q)
        return type(self)(*(own - its @ A for own, its in zip(self, other, strict=True)))

    def and_also(self, other: Vectors) -> Self:
        """Return these and other vectors together."""
        return type(self)(*(np.hstack(pair) for pair in zip(self, other, strict=True)))


class KernelVectors(Vectors):
    """Vectors whose inner product is given by S itself: coefficients of rows in the space of a kernel, with S = K."""

    def dot(self, B: np.ndarray) -> np.ndarray:
        """Return the inner products with other vectors."""
        return self.SQ.T @ B
