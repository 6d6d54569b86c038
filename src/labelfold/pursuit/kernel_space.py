"""The space of a kernel, known by the kernel of all rows with each other."""

from __future__ import annotations

from copy import copy

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
        other.__dict__.pop("_spectrum", None)
        return other

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
        return self.K[self.index] @ B - self.mean @ B

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

    def norm(self, g: np.ndarray) -> float:
        """Return the length of a vector; its product with K is kept, as it is asked for next."""
        Kg = self.times(g)[0]
        self._latest = g, Kg
        return float(np.sqrt(max(0.0, np.vdot(g, Kg))))
