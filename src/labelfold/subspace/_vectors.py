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

    def less(self, other: Vectors) -> Self:
        """Return the part of these vectors that is orthogonal to others."""
        A = other.dot(self.Q)
        return type(self)(*(own - its @ A for own, its in zip(self, other, strict=True)))


class KernelVectors(Vectors):
    """Vectors whose inner product is given by S itself: coefficients of rows in the space of a kernel, with S = K."""

    def dot(self, B: np.ndarray) -> np.ndarray:
        """Return the inner products with other vectors."""
        return self.SQ.T @ B


class SearchVectors:
    """The directions found so far and the vectors of the small space, side by side in memory that is used again.

    Parameters
    ----------
    none : Vectors
        No vectors, of the kind to store.
    capacity : int
        Number of vectors to reserve memory for; more is reserved when there are more.

    Attributes
    ----------
    n_taken, n_vectors : int
        Number of directions found, and of all vectors.
    """

    def __init__(self, none: Vectors, capacity: int) -> None:
        self.kind = type(none)
        self.n_taken = self.n_vectors = 0
        self.columns = [np.empty((len(own), capacity), order="F") for own in none]

    def _part(self, start: int, stop: int) -> Vectors:
        return self.kind(*(own[:, start:stop] for own in self.columns))

    @property
    def all(self) -> Vectors:
        """The directions found and the small space."""
        return self._part(0, self.n_vectors)

    @property
    def taken(self) -> Vectors:
        """The directions found."""
        return self._part(0, self.n_taken)

    @property
    def basis(self) -> Vectors:
        """The small space."""
        return self._part(self.n_taken, self.n_vectors)

    def add(self, new: Vectors) -> None:
        """Add vectors to the small space."""
        stop = self.n_vectors + new.n_vectors
        if stop > self.columns[0].shape[1]:
            kept = self.all
            self.columns = [np.empty((len(own), 2 * stop), order="F") for own in kept]
            for own, its in zip(self.columns, kept, strict=True):
                own[:, : self.n_vectors] = its
        for own, its in zip(self.columns, new, strict=True):
            own[:, self.n_vectors : stop] = its
        self.n_vectors = stop

    def take(self, one: Vectors, u: np.ndarray, v: np.ndarray) -> None:
        """Move a vector to the directions found: the small space is reflected by I - uv', and its first replaced.

        ``v`` has no first entry.
        """
        start = self.n_taken
        for own, its in zip(self.columns, one, strict=True):
            along = own[:, start : self.n_vectors] @ u
            rest = own[:, start + 1 : self.n_vectors].T
            rest -= np.outer(v, along)
            own[:, start] = its[:, 0]
        self.n_taken += 1

    def combine(self, A: np.ndarray) -> None:
        """Replace the small space by combinations of its vectors, with coefficients A (m, k)."""
        new = self.basis @ A
        self.n_vectors = self.n_taken
        self.add(new)
