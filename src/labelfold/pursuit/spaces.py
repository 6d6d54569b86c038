"""Where directions live: a space of vectors w in which the rows are known by their products.

Three spaces answer the same questions, so that the pursuit is written once. S is the sum of squares of all rows, R'R;
Z are the labelled rows.

===============  =======================================  =========================  ===============================
space            a vector w is                            S w costs                  for
===============  =======================================  =========================  ===============================
`MatrixSpace`    d numbers                                a product with a d x d     d moderate: one pass in total
                                                          matrix
`RowsSpace`      d numbers                                a pass over X              d large, or no memory for d x d
`KernelSpace`    n numbers e, of which w = sum e_i x_i    a product with the n x n   kernels: the features x_i are
                 in the space of the kernel               kernel matrix              never formed
===============  =======================================  =========================  ===============================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import cached_property

import numpy as np
from scipy import linalg

from labelfold.numerics.krylov import preconditioned_cg
from labelfold.rows import Block, Rows

# Up to so many labelled rows their products with each other are factorised; beyond, solved with by iterations.
_FACTORISED = 1500
_CG_TOL, _CG_ITERATIONS = 1e-6, 60

# The weight of fitting, beside the squared norm of all rows, that makes ridge regression least squares.
_NEARLY_FREE = 1e10


class Space(ABC):
    """What the pursuit asks; blocks of vectors are columns.

    Attributes
    ----------
    size : int
        How many numbers a vector has.
    square : float
        The trace of S: the squared norm of all rows.
    noise : float
        What S leaves of a vector that all rows are orthogonal to, relative to S.
    euclidean : bool
        Whether the inner product of vectors is that of their numbers.
    """

    size: int
    square: float
    noise: float
    euclidean: bool = True

    @abstractmethod
    def times(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return S B, and Z B (l, k)."""

    @abstractmethod
    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""

    @abstractmethod
    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a."""

    @abstractmethod
    def labelled_products(self) -> np.ndarray:
        """Return Z Z' (l, l)."""

    @property
    @abstractmethod
    def n_labelled(self) -> int:
        """How many labelled rows there are, l."""

    def random(self, k: int, rng: np.random.Generator) -> np.ndarray:
        """Return k vectors drawn at random."""
        return rng.standard_normal((self.size, k))

    def dot(self, A: np.ndarray, SA: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Return the inner products of A, of which S A is known, with B."""
        return A.T @ B

    def dot_s(self, A: np.ndarray, SA: np.ndarray, B: np.ndarray, SB: np.ndarray) -> np.ndarray:
        """Return A'S B."""
        return A.T @ SB

    def norm(self, g: np.ndarray) -> float:
        """Return the length of a vector."""
        return float(np.linalg.norm(g))

    def shortest(self, B: np.ndarray) -> np.ndarray | float:
        """Return the squared lengths below which vectors are round-off."""
        return 0.0

    def fits(self, r: np.ndarray, through: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return least-squares directions of responses r, of which ``through`` is Z'r, about orthogonal to W."""
        return self.soften(through, _NEARLY_FREE / self.square)

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        values, U = np.linalg.eigh(self.labelled_products())
        return np.maximum(values, 0.0), U

    def soften(self, B: np.ndarray, ratio: float) -> np.ndarray:
        """Return (I + ratio Z'Z)^(-1) B: with a ratio without end, B less what labelled rows can see of it.

        It is what makes residuals good directions to search in, where fitting the labels outweighs the rest.
        """
        if not ratio:
            return B
        seen = self.on_labelled(B)
        if self.n_labelled <= _FACTORISED:
            values, U = self._spectrum
            a = U @ ((U.T @ seen) / (1 / ratio + values)[:, None])
        else:
            operator = lambda P: self.on_labelled(self.back(P))  # noqa: E731
            a = preconditioned_cg(operator, seen, 1 / ratio, tol=_CG_TOL, max_iter=_CG_ITERATIONS).X
        return B - self.back(a)


class MatrixSpace(Space):
    """Few enough columns for S (d, d) itself; Z (l, d) in memory.

    Parameters
    ----------
    S : ndarray of shape (d, d)
        The sum of squares of all rows.
    Z : ndarray of shape (l, d)
        The labelled rows, or a triangular factor of them.
    noise : float
        See `Space`.
    """

    def __init__(self, S: np.ndarray, Z: np.ndarray, noise: float) -> None:
        self.S, self.Z, self.noise = S, Z, noise
        self.size, self.square = len(S), float(np.trace(S))

    def times(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return S B and Z B."""
        return self.S @ B, self.Z @ B

    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""
        return self.Z @ B

    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a."""
        return self.Z.T @ a

    def labelled_products(self) -> np.ndarray:
        """Return Z Z'."""
        return self.Z @ self.Z.T

    def fits(self, r: np.ndarray, through: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the least-squares directions of responses r, orthogonal to W."""
        Z = self.Z - (self.Z @ W) @ W.T
        rank_tol = max(Z.shape) * np.finfo(np.float64).eps
        return linalg.lstsq(Z, r, cond=rank_tol, lapack_driver="gelsy", check_finite=False)[0]

    @property
    def n_labelled(self) -> int:
        """How many labelled rows there are, l."""
        return len(self.Z)


class RowsSpace(Space):
    """A pass over X for every product with S; nothing of size d x d.

    Parameters
    ----------
    rows : Rows
        All rows, centred where they are to be.
    labelled : Rows
        Those with labels, in memory where they fit, likewise centred.
    square : float
        The squared norm of all rows.
    noise : float
        See `Space`.
    """

    def __init__(self, rows: Rows, labelled: Rows, square: float, noise: float) -> None:
        self.rows, self.labelled, self.square, self.noise = rows, labelled, square, noise
        self.size = rows.shape[1]

    def times(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return S B and Z B; one pass."""
        return self.rows.sum(_normal, shared=(B,)), self.on_labelled(B)

    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""
        return np.asarray(self.labelled.get(self.labelled @ B), dtype=np.float64)

    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a."""
        return self.labelled.t(np.ascontiguousarray(a))

    def labelled_products(self) -> np.ndarray:
        """Return Z Z'."""
        return np.asarray(self.labelled.whole().double().outer(), dtype=np.float64)

    @property
    def n_labelled(self) -> int:
        """How many labelled rows there are, l."""
        return self.labelled.shape[0]


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
        self.size = len(K)
        self.mean = K.mean(axis=0, dtype=np.float64) if center else np.zeros(len(K))
        self.square = float(np.trace(K, dtype=np.float64) - len(K) * self.mean.mean())
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
        if latest is not None and latest[0] is B:
            KB = latest[1]
        else:
            KB = self._centered((self.K @ self._centered(B).astype(self.K.dtype)).astype(np.float64))
        return KB, KB[self.index]

    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""
        B = self._centered(B)
        seen = (self.K[self.index] @ B.astype(self.K.dtype)).astype(np.float64)
        return seen - self.mean @ B

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


def _normal(X: Block, B: np.ndarray) -> object:
    return X.t(X @ B)
