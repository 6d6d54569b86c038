"""Directions in the space of a kernel, without features: coefficients of the rows, with the kernel matrix for S."""

from __future__ import annotations

import numpy as np

from labelfold.numerics import Gram, whitening
from labelfold.rows import run_jobs, shares
from labelfold.subspace._symmetric_loops import row_ranges, upper_products
from labelfold.subspace._vector_spaces import FITTED, NEARLY_FREE, LostDigits, Space
from labelfold.subspace._vectors import KernelVectors, Vectors

# Vectors of which less than this share is new are multiplied with K again, since differences have lost digits.
_LITTLE = 1e-3

# Vectors of which less than this share is new are dropped.
_NOTHING_NEW = 1e-10

# Most vectors for which a loop over half of K, which is symmetric, takes less time than BLAS.
_FEW = 12

# Most round-off of the scores of labelled rows along a direction, relative to these; and of scores along a vector of
# the search, relative to its norm.
_LOST, _USELESS = 1e-9, 1e-6


class KernelSpace(Space):
    r"""Vectors :math:`w = \sum_i a_i \phi(x_i)`, given by their coefficients a (n,).

    The inner product of two vectors is :math:`a'Kb`. Their scores are K a, so ||Xw||^2 = (Ka)'(Ka): as an operator on
    coefficients S is K, and Z' puts numbers at the labelled rows. One product with K serves for the inner products,
    for S and for Z.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix of all rows.
    mean : ndarray of shape (n,)
        The mean of its rows; zeros if features are not centred.
    index : ndarray of shape (l,)
        The labelled rows.
    noise : float
        See `Space`.
    """

    block = 2

    def __init__(self, K: np.ndarray, mean: np.ndarray, index: np.ndarray, noise: float) -> None:
        self.K, self.index, self.noise = K, index, noise
        self.is_centred = bool(mean.any())
        self.size = len(K)
        self.square = float(np.trace(K) - mean.sum())
        # Z as products with coefficients (l, n).
        self.Z = K[index] - mean
        self.Z -= self.Z.mean(axis=1, keepdims=True) if self.is_centred else 0.0
        self.row_noise = float(np.finfo(np.float64).eps * np.linalg.norm(K[index], axis=1).max())

    def none(self) -> KernelVectors:
        """Return an empty set of vectors."""
        return KernelVectors(*super().none())

    def times(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return K B and its labelled rows; the columns of B are centred if features are."""
        C = np.ascontiguousarray(B.T)
        parts = shares(self.size, float(C.size) * self.size)
        if len(C) <= _FEW:
            ranges = row_ranges(self.size, len(parts))
            found = run_jobs(lambda part, stop: upper_products(self.K, C, *part), ranges)
            KB = sum(found[1:], found[0]).T
        else:
            # Products with a few rows on the left read K faster than columns on the right.
            KB = np.hstack(run_jobs(lambda part, stop: C @ self.K[:, part], parts)).T
        KB = self._centred(KB)
        return KB, KB[self.index]

    def _centred(self, B: np.ndarray) -> np.ndarray:
        return B - B.mean(axis=0) if self.is_centred else B

    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""
        return self.Z @ B

    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a."""
        B = np.zeros((self.size, a.shape[1]))
        B[self.index] = a
        return self._centred(B)

    def labelled_products(self) -> np.ndarray:
        """Return Z Z'."""
        return self.Z[:, self.index]

    @property
    def n_labelled(self) -> int:
        """The number l of labelled rows."""
        return len(self.index)

    def norm(self, b: np.ndarray) -> float:
        """Return the norm of a vector as if all eigenvalues of K were equal, which saves a product."""
        return float(np.sqrt(self.square / self.size) * np.linalg.norm(b))

    def orthonormal(self, B: np.ndarray, known: Vectors) -> KernelVectors:
        """Return an orthonormal basis of the part of B orthogonal to known vectors, by a few products with K."""
        B = B - known.Q @ known.dot(B)
        norms = None
        for _ in range(3):
            B = self._centred(B)  # K does not see a constant, which would grow with each step
            found = KernelVectors(B, *self.times(B))
            if norms is None:
                norms = np.sqrt(np.maximum(np.einsum("ij,ij->j", found.Q, found.SQ), 0.0))
            found = found.less(known)
            G = found.dot(found.Q)
            C = whitening((G + G.T) / 2, norms, _NOTHING_NEW)
            is_little = bool((np.abs(C) * norms[:, None] > 1 / _LITTLE).any())
            found = found @ C
            if not is_little:
                break
            B, norms = found.Q, np.ones(found.n_vectors)
        if self.row_noise * np.linalg.norm(found.Q, axis=0).max(initial=0.0) > _USELESS:
            raise LostDigits
        return found

    def check(self, w: np.ndarray, z: np.ndarray) -> None:
        """Raise `LostDigits` if the scores z = Zw have too few digits.

        Coefficients of a direction along which rows vary little are large, and cancel in its scores.
        """
        if self.row_noise * np.linalg.norm(w) > _LOST * np.linalg.norm(z) / np.sqrt(self.n_labelled):
            raise LostDigits

    def fits(self, r: np.ndarray, through: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return least-squares directions of responses r; ``through`` is Z'r."""
        if self.n_labelled <= FITTED:
            ZW = self.Z @ W
            factor = Gram(self.labelled_products() - ZW @ ZW.T, self.size).trusted(0.0)
            if factor is not None:
                return self.back(factor.solve(r))
        return self.back(self.excess(r, np.full(r.shape[1], NEARLY_FREE / self.square)))
