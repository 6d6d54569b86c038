"""The space of directions: vectors of d numbers, and their products with the rows.

Three spaces have the same interface, so that the pursuit is written once. S = X'X are the products of all rows, and Z
are the labelled rows. In a `MatrixSpace` S is a d x d matrix, computed in one pass. In a `RowsSpace` every product
with S is a pass. A `KernelSpace` (`_kernel_space.py`) has vectors of n coefficients, and the kernel matrix for S.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg

from labelfold.base import spread
from labelfold.numerics import Gram, orthonormal, preconditioned_cg
from labelfold.rows import Block, Rows, outer_spectrum

# Most labelled rows whose Gram matrix is factorised; with more, its systems are solved iteratively.
_FACTORISED = 1500
_CG_TOL, _CG_ITERATIONS = 1e-6, 60
# Most rows or columns for which a complete factorisation for every direction is cheap.
FITTED = 512
# Z'Z without the directions found is the difference of known matrices, if it has at least this share of the trace.
_LEAST_LEFT = 0.1
# Weight of the fit, relative to the squared norm of all rows, at which ridge regression is in effect least squares.
NEARLY_FREE = 1e10


class LostDigits(Exception):
    """The coordinates of a space cannot represent the vectors of a search to enough digits."""


class Space(ABC):
    """The interface that the pursuit uses; blocks of vectors are columns.

    Attributes
    ----------
    size : int
        Length of a vector.
    square : float
        The trace of S: the squared norm of all rows.
    noise : float
        Norm of S v for a unit vector v orthogonal to all rows, relative to S: round-off.
    block : int
        Number of vectors by which a search is extended until a direction has settled.
    """

    size: int
    square: float
    noise: float
    block = 4

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
        """The number l of labelled rows."""

    def none(self) -> Vectors:
        """Return an empty set of vectors."""
        empty = np.empty((self.size, 0))
        return Vectors(empty, empty, np.empty((self.n_labelled, 0)))

    def norm(self, b: np.ndarray) -> float:
        """Return the norm of a vector, or an estimate."""
        return float(np.linalg.norm(b))

    def orthonormal(self, B: np.ndarray, known: Vectors) -> Vectors:
        """Return an orthonormal basis of the part of B orthogonal to known vectors, by one product with S."""
        B = orthonormal(B, known.Q)[:, : max(0, self.size - known.n_vectors)]
        return Vectors(B, *self.times(B))

    def check(self, w: np.ndarray, z: np.ndarray) -> None:  # noqa: B027
        """Raise `LostDigits` if the scores z = Zw of a direction have too few digits."""

    def random(self, k: int, rng: np.random.Generator) -> np.ndarray:
        """Return k random vectors."""
        return rng.standard_normal((self.size, k))

    def principal(self, k: int) -> np.ndarray | None:
        """Return the first k principal directions, if they are known."""
        return None

    def fits(self, r: np.ndarray, through: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return least-squares directions of responses r, nearly orthogonal to W; ``through`` is Z'r."""
        return self.soften(through, np.full(through.shape[1], NEARLY_FREE / self.square))

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, Any]:
        values, U = self.labelled_spectrum()
        return np.maximum(values, 0.0), U

    def labelled_spectrum(self) -> tuple[np.ndarray, Any]:
        """Return the eigenvalues of Z Z' and the vectors, of which products are needed."""
        return np.linalg.eigh(self.labelled_products())

    def soften(self, B: np.ndarray, ratio: np.ndarray) -> np.ndarray:
        """Return (I + ratio Z'Z)^(-1) B, with one ratio for each vector; in the limit B orthogonal to Z.

        This preconditions residuals if the fit to the labels dominates J.
        """
        return B - self.back(self.excess(self.on_labelled(B), ratio))

    def excess(self, seen: np.ndarray, ratio: np.ndarray) -> np.ndarray:
        """Return (I / ratio + Z Z')^(-1) times ``seen`` (l, k)."""
        with np.errstate(divide="ignore"):
            ridge = 1 / ratio
        if self.n_labelled <= _FACTORISED:
            values, U = self._spectrum
            return U @ ((U.T @ seen) / (ridge + values[:, None]))
        if np.isinf(ridge).all():
            return np.zeros_like(seen)

        def products(P: np.ndarray) -> np.ndarray:
            return self.on_labelled(self.back(P))

        return preconditioned_cg(products, seen, float(ridge.min()), tol=_CG_TOL, max_iter=_CG_ITERATIONS).X


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
    is_diagonal : bool
        Whether S is diagonal, with ascending values.
    beside : callable, optional
        Keeps a matrix where products with it cost least.
    """

    def __init__(
        self,
        S: np.ndarray,
        Z: np.ndarray,
        noise: float,
        is_diagonal: bool = False,
        beside: Callable[[np.ndarray], Any] | None = None,
    ) -> None:
        self.S, self.Z, self.noise, self.is_diagonal = S, Z, noise, is_diagonal
        self.size, self.square = len(S), float(np.trace(S))
        keep = beside if beside is not None and self.size > FITTED else np.asarray
        self._S: Any = keep(S)
        self._Z: Any = keep(Z)

    def times(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return S B and Z B."""
        return self._S @ B, self._Z @ B

    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""
        return self._Z @ B

    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a."""
        return self._Z.T @ a

    def labelled_spectrum(self) -> tuple[np.ndarray, Any]:
        """Return the eigenvalues of Z Z' and the vectors, of which products are needed."""
        return outer_spectrum(self._Z)

    def labelled_products(self) -> np.ndarray:
        """Return Z Z'."""
        return self.Z @ self.Z.T

    def row_space(self) -> tuple[MatrixSpace, np.ndarray]:
        """Return the space that rows span, in coordinates V (d, m) in which S is diagonal and ascending; and V."""
        values, V = np.linalg.eigh(self.S)
        keep = values > self.noise * max(values[-1], 0.0)
        return MatrixSpace(np.diag(values[keep]), self.Z @ V[:, keep], self.noise, True), V[:, keep]

    def principal(self, k: int) -> np.ndarray | None:
        """Return the last k coordinates, if S is diagonal."""
        return np.eye(self.size)[:, -k:] if self.is_diagonal else None

    def fits(self, r: np.ndarray, through: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the least-squares directions of responses r, orthogonal to W."""
        if min(self.Z.shape) > FITTED:
            return super().fits(r, through, W)
        ZW = self.Z @ W
        Z = self.Z - ZW @ W.T
        is_wide = Z.shape[0] < Z.shape[1]
        if is_wide:
            A = Z @ Z.T
        else:
            # The difference of known matrices, unless it would lose digits.
            whole = np.trace(self.G)
            is_small = whole - np.square(ZW).sum() < _LEAST_LEFT * whole
            A = Z.T @ Z if is_small else projected(self.G, W, self.back(ZW))
            A += np.trace(A) / len(A) * W @ W.T
        factor = Gram(A, max(Z.shape)).trusted(0.0)
        if factor is not None:
            return Z.T @ factor.solve(r) if is_wide else factor.solve(Z.T @ r)
        rank_tol = max(Z.shape) * np.finfo(np.float64).eps
        return linalg.lstsq(Z, r, cond=rank_tol, lapack_driver="gelsy", check_finite=False)[0]

    @cached_property
    def G(self) -> np.ndarray:
        """Z'Z."""
        return self.Z.T @ self.Z

    @property
    def n_labelled(self) -> int:
        """The number l of labelled rows."""
        return len(self.Z)


class RowsSpace(Space):
    """Every product with S is a pass over X; nothing has size d x d.

    Parameters
    ----------
    rows : Rows
        All rows, centred if necessary.
    labelled : Rows
        The labelled rows, centred in the same way: in memory; or all rows, with a mask.
    square : float
        The squared norm of all rows.
    noise : float
        See `Space`.
    mask : ndarray of bool, optional
        Mask of the labelled rows in ``labelled``, if these are not all of them.
    """

    def __init__(
        self, rows: Rows, labelled: Rows, square: float, noise: float, mask: np.ndarray | None = None
    ) -> None:
        self.rows, self.labelled, self.square, self.noise, self.mask = rows, labelled, square, noise, mask
        self.size = rows.shape[1]

    def times(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return S B and Z B, in one pass."""
        if self.mask is None:
            return self.rows.sum(_normal, shared=(B,)), self.on_labelled(B)
        H, SB = self.rows.sweep(_normal_and_scores, shared=(B,))
        return SB, self._picked(self.rows, H)

    def on_labelled(self, B: np.ndarray) -> np.ndarray:
        """Return Z B."""
        return self._picked(self.labelled, self.labelled @ B)

    def _picked(self, rows: Rows, H: Any) -> np.ndarray:
        H = rows.get(H) if self.mask is None else rows.pick(H, np.flatnonzero(self.mask))
        return np.asarray(H, dtype=np.float64)

    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a."""
        return self.labelled.t(np.ascontiguousarray(spread(a, self.mask)))

    def labelled_products(self) -> np.ndarray:
        """Return Z Z'."""
        rows = self.labelled if self.mask is None else self.labelled.take(np.flatnonzero(self.mask))
        return np.asarray(rows.whole().double().outer(), dtype=np.float64)

    @property
    def n_labelled(self) -> int:
        """The number l of labelled rows."""
        return self.labelled.shape[0] if self.mask is None else int(self.mask.sum())


def _normal(X: Block, B: Any) -> Any:
    return X.normal(B)


def _normal_and_scores(X: Block, B: Any) -> tuple[Any, Any]:
    H = X @ B
    return H, X.t(H)


def projected(S: np.ndarray, W: np.ndarray, SW: np.ndarray) -> np.ndarray:
    """Return (I - WW') S (I - WW') of a symmetric S."""
    half = (SW - W @ (W.T @ SW) / 2) @ W.T
    return S - half - half.T


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
