"""The space of a kernel, known by the kernel of all rows with each other."""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np

from labelfold.pursuit.spaces import Space
from labelfold.rows import as_rows


class KernelSpace(Space):
    """The space of a kernel: a vector is a sum of the rows' features, of which only products are known.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel of all rows with each other, not centred.
    index : ndarray of shape (l,)
        Which rows are labelled.
    center : bool
        Whether features are centred. That is done to the products, so that K stays as it is.
    noise : float
        See `Space`.
    """

    euclidean = False

    def __init__(self, K: np.ndarray, index: np.ndarray, center: bool, noise: float) -> None:
        self.K, self.index, self.center, self.noise = K, index, center, noise
        self.rows = as_rows(K)
        self.size = len(K)
        self.mean = K.mean(axis=0) if center else np.zeros(len(K))
        self.square = float(np.trace(K) - len(K) * self.mean.mean())
        self._latest: tuple[np.ndarray, np.ndarray] | None = None

    def with_labelled(self, index: np.ndarray) -> KernelSpace:
        """Return the same space with other rows labelled."""
        other = copy(self)
        other.index = index
        for kept in ("_spectrum", "_known"):
            other.__dict__.pop(kept, None)
        return other

    @cached_property
    def _known(self) -> np.ndarray:
        """The labelled rows of K: K itself where they are all."""
        return self.K if len(self.index) == len(self.K) else self.K[self.index]

    def _centered(self, B: np.ndarray) -> np.ndarray:
        return B - B.mean(axis=0) if self.center else B

    def times(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return K_c B, which is S B, and its labelled rows, Z B."""
        latest, self._latest = self._latest, None
        is_latest = latest is not None and latest[0] is B
        KB = latest[1] if is_latest else self._centered(self.rows @ self._centered(B))
        return KB, KB[self.index]

    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""
        B = self._centered(B)
        return self._known @ B - self.mean @ B

    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a: the labelled rows, each as often as a says."""
        B = np.zeros((self.size, *a.shape[1:]))
        B[self.index] = a
        return B

    def labelled_products(self) -> np.ndarray:
        """Return the centred kernel of the labelled rows."""
        m = self.mean[self.index]
        return self.K[np.ix_(self.index, self.index)] - m[:, None] - m + self.mean.mean()

    @property
    def n_labelled(self) -> int:
        """How many labelled rows there are, l."""
        return len(self.index)

    def random(self, k: int, rng: np.random.Generator) -> np.ndarray:
        """Return k sums of rows drawn at random."""
        return self._centered(rng.standard_normal((self.size, k)))

    def dot(self, A: np.ndarray, SA: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Return A'K_c B."""
        return SA.T @ B

    def dot_s(self, A: np.ndarray, SA: np.ndarray, B: np.ndarray, SB: np.ndarray) -> np.ndarray:
        """Return A'K_c K_c B."""
        return SA.T @ SB

    def shortest(self, B: np.ndarray) -> np.ndarray:
        """Return the squared lengths below which vectors are round-off."""
        return self.noise * self.square * (B**2).sum(axis=0)

    def lengths(self, B: np.ndarray) -> np.ndarray:
        """Return the lengths of vectors; their product with K is kept, since it is asked for next."""
        KB = self.times(B)[0]
        self._latest = B, KB
        return np.sqrt(np.maximum(0.0, np.einsum("ij,ij->j", B, KB)))

    def soften(self, B: np.ndarray, ratio: np.ndarray) -> np.ndarray:
        """Return (I + ratio Z'Z)^(-1) B, and keep its product with K, which comes of that of B."""
        KB, seen = self.times(B)
        a = self.excess(seen, ratio)
        soft = B - self.back(a)
        # Centred K of the labelled columns, times a; the mean of a kernel row is that of its column.
        Ka = self._known.T @ a
        if self.center:
            total = a.sum(axis=0)
            Ka -= np.outer(self.mean, total) + self.mean[self.index] @ a - self.mean.mean() * total
        self._latest = soft, KB - Ka
        return soft
