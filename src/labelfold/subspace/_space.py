"""The rows as the pursuit reads them: read once for a fit and for the folds of a cross-validation.

A `Space` holds products of directions with the rows, so that the pursuit is written once. S = X'X are the products of
all rows, and Z are the labelled rows. In a `MatrixSpace` S is a d x d matrix, computed in one pass. In a `RowsSpace`
every product with S is a pass. A `KernelSpace` (`_kernel_pcals.py`) has vectors of n coefficients, and the kernel
matrix for S. `TrainingData` reads the rows, and chooses between the first two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg

from labelfold.base import labelled_rows, spread
from labelfold.labels import Labels
from labelfold.numerics import Gram, check_norm, orthonormal, preconditioned_cg, provisional_center
from labelfold.rows import Block, Centered, Rows, Weighted, outer_spectrum

# Budget: maximum number of columns for which a d x d matrix (here 32 MB) is computed; with more columns only if data
# is slow to read again. And the maximum bytes of a sparse row for which the same holds, about 128 entries: the cost
# of the pass grows with their square.
_MATRIX_COLUMNS, _SPARSE_BYTES = 2048, 1536
# Budget: maximum number of labelled rows whose Gram matrix (here 18 MB) is factorised; with more rows its systems are
# solved iteratively.
_FACTORISED = 1500
# Budget: maximum number of columns for matrices that are factorised for every direction, since the time grows with
# the cube of it.
MAX_NEWTON = 512
# Precision: weight of the fit, relative to the squared norm of all rows, at which ridge regression is in effect least
# squares.
_NEARLY_FREE = 1e10


class LabelledSpace(NamedTuple):
    """The labelled rows, or the rows of a triangular factor with the same products.

    Attributes
    ----------
    space : Space
        The space of directions, whose Z has these rows.
    Y : ndarray of shape (l, q)
        Responses.
    ones : ndarray of shape (l,)
        The column of ones for these rows.

    With weights all of them are multiplied by the roots of the weights of the rows, so sums of products are weighted.
    """

    space: Any
    Y: np.ndarray
    ones: np.ndarray


class TrainingData:
    """Rows in their own columns: as a d x d matrix if that fits and pays off, otherwise read again for every step.

    Parameters
    ----------
    rows : Rows
        All rows.
    labels : Labels
        The labels.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows.
    weights : ndarray of shape (n,), optional
        Weights of all rows; all are 1 when None.
    label_weights : ndarray of shape (l,), optional
        Weights of the losses of the labelled rows; all are 1 when None.
    center : bool
        Whether to subtract the mean from every row.
    max_gram_bytes : int
        Largest size of a d x d matrix, and of labelled rows.
    is_slow : bool
        Whether rows are slow to read again, although they are in memory.
    random_state : int
        Seed of ``drawn``.

    Attributes
    ----------
    labels, Y
        As given.
    dimension : float
        The dimension that rows may span, for the default weight of the reconstruction. The number of rows counts here
        by their weights.
    drawn : ndarray of shape (m,)
        Indices of the labelled rows for cross-validation: all, or a random sample that fits the budget.
    mean : ndarray of shape (d,)
        Subtracted from every row.
    feature_mean : ndarray
        Subtracted from the features of a row by `transform`.
    """

    S: np.ndarray
    _all: Any

    def __init__(
        self,
        rows: Rows,
        labels: Labels,
        Y: np.ndarray,
        *,
        weights: np.ndarray | None = None,
        label_weights: np.ndarray | None = None,
        center: bool,
        max_gram_bytes: int,
        is_slow: bool = False,
        random_state: int = 0,
    ) -> None:
        n, d = rows.shape
        eps, eps64 = rows.eps, float(np.finfo(np.float64).eps)
        self.roots = None if weights is None else np.sqrt(weights)
        self.label_roots = None if label_weights is None else np.sqrt(label_weights)
        self.total = float(n if weights is None else weights.sum())
        self.labels, self.Y, self.dimension, self.center = labels, Y, min(self.total, d), center
        near, is_implicit = provisional_center(rows, labels.index, 64)
        self.is_matrix = 8 * d * d <= max_gram_bytes and (
            d <= _MATRIX_COLUMNS or is_slow or not rows.in_memory
        )
        if is_implicit:  # the matrix is at most as large as X
            self.is_matrix &= rows.row_bytes() <= _SPARSE_BYTES and n * rows.row_bytes() >= 8 * d * d
        # Cross-validation reads 64 labelled rows into memory in any case.
        n_drawn = max(64, int(max_gram_bytes / rows.row_bytes()))
        self.drawn = np.sort(np.random.default_rng(random_state).permutation(len(Y))[:n_drawn])
        labelled, mask = labelled_rows(rows, labels, max_gram_bytes)
        self._rows, self._all = rows, None
        # Sums of squares about an estimate of the mean do not cancel.
        near, lost = near if center else np.zeros(d), 0.0
        if self.is_matrix:
            # Sparse rows are squared before they are centred, which loses digits.
            in_one = mask is not None or labels.all_labelled
            total = self._read_matrix(rows, labels.index if in_one else None, near)
            middle = near + total / self.total
            largest = float(np.square(middle).max(initial=0.0)) if center and is_implicit else 0.0
            lost = self.total * d * largest / max(float(np.trace(self.S)), np.finfo(float).tiny)
            if lost > 100:  # more than two digits
                self.is_matrix, self._all, lost = False, None, 0.0
        if not self.is_matrix:
            total, self.square = rows.sum(_column_sums, *self._aligned(), shared=(near,))
            total = np.ravel(total)
        self.noise = 10 * np.sqrt(max(n, d)) * eps64 * (1 + lost)
        self.noise = max(self.noise, (10 * eps) ** 2 if self.is_matrix else 32 * eps)
        square = float(np.trace(self.S) if self.is_matrix else self.square)
        if square:  # if all rows are equal, the pursuit raises the error
            check_norm(square, rows.dtype)
        self._offset = total / self.total  # of the mean row from the centre
        shift = self._offset if center else np.zeros(d)
        self.mean = self.feature_mean = near + shift
        self.labelled = Centered(labelled, self.mean) if mask is None else None
        if self.is_matrix:
            self.S = self.S - self.total * np.outer(shift, shift)
            self.square = float(np.trace(self.S))
            if self._all is not None:
                Z, Y, ones = self._all
                self._all = LabelledSpace(
                    MatrixSpace(self.S, Z - np.outer(ones, shift), self.noise, beside=rows.beside), Y, ones
                )
            return
        self.square -= self.total * float(shift @ shift)
        self.rows = Centered(rows, self.mean) if center else rows
        if self.roots is not None:
            self.rows = Weighted(self.rows, self.roots)
        if mask is not None:
            factor = label_factors(self.roots, self.label_roots, labels.index)
            space = RowsSpace(self.rows, self.rows, self.square, self.noise, mask, factor)
            self._all = LabelledSpace(space, *self._responses(None))

    def _read_matrix(self, rows: Rows, index: np.ndarray | None, near: np.ndarray) -> np.ndarray:
        """Read squares about ``near`` and, in the same pass, the labelled rows at index; return the column sums."""
        if index is None:
            self.S, total = rows.sum(_moments, *self._aligned(), shared=(near,))
            return np.ravel(total)
        d = rows.shape[1]
        Y, ones = self._responses(None)
        H = np.zeros((rows.shape[0], 1 + Y.shape[1]))
        H[index] = np.column_stack([ones, Y])
        self.S, total, T = rows.sum(_moments_and_triangle, H, *self._aligned(), shared=(near,))
        self._all = LabelledSpace(T[:, :d], T[:, d + 1 :], T[:, d])
        return np.ravel(total)

    def _aligned(self) -> tuple[np.ndarray, ...]:
        return () if self.roots is None else (self.roots,)

    def _responses(self, which: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the responses of some labelled rows, or of all, and the column of ones, for the pursuit."""
        return rooted_responses(self.Y, self.label_roots, which)

    def known(self, which: np.ndarray | None = None) -> LabelledSpace:
        """Return the data of a pursuit, with all labels known or only some, whose rows are read into memory."""
        if which is None and self._all is not None:
            return self._all
        labelled = self._taken(which)
        if self.label_roots is not None:
            labelled = Weighted(labelled, self.label_roots if which is None else self.label_roots[which])
        Y, ones = self._responses(which)
        if not self.is_matrix:
            return LabelledSpace(RowsSpace(self.rows, labelled, self.square, self.noise), Y, ones)
        if len(Y) > self.S.shape[0] + 1 + Y.shape[1]:
            T = labelled.sum(_triangle, np.column_stack([ones, Y]))
            d = len(self.S)
            Z, ones, Y = T[:, :d], T[:, d], T[:, d + 1 :]
        else:
            Z = np.asarray(labelled.whole().double().dense(), dtype=np.float64)
        return LabelledSpace(MatrixSpace(self.S, Z, self.noise, beside=self._rows.beside), Y, ones)

    def _taken(self, which: np.ndarray | None) -> Rows:
        if self.labelled is not None:
            return self.labelled if which is None else self.labelled.take(which)
        return Centered(self._rows.take(self.labels.index[which]), self.mean)

    def scores(self, which: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the coordinates of some labelled rows along directions; the rows are read into memory."""
        held = self._taken(which)
        return np.asarray(held.get(held @ W), dtype=np.float64)

    def components(self, W: np.ndarray) -> np.ndarray:
        """Return directions as the matrix that `transform` multiplies features by."""
        return W

    def explained(self, W: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Return the share of the variance along each direction, from the squared norms of all scores."""
        total = self.square
        if not self.center:  # squares are about 0
            squares = squares - self.total * (self._offset @ W) ** 2
            total -= self.total * float(self._offset @ self._offset)
        return squares / total if total > 0 else np.zeros(len(squares))


def rooted_responses(
    Y: np.ndarray, roots: np.ndarray | None, which: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the responses of some rows, or of all, and a column of ones, times the roots of weights."""
    chosen = slice(None) if which is None else which
    if roots is None:
        return Y[chosen], np.ones(len(Y[chosen]))
    return Y[chosen] * roots[chosen, None], roots[chosen]


def label_factors(
    roots: np.ndarray | None, label_roots: np.ndarray | None, index: np.ndarray
) -> np.ndarray | None:
    """Return what turns weighted rows into rows with the weights of their labels, (l, 1); None if nothing."""
    if label_roots is None:
        return None
    return (label_roots if roots is None else label_roots / roots[index])[:, None]


def _moments(X: Block, *context: Any) -> tuple:
    *roots, near = context
    return _squares_and_sums(X.double().shift(near), roots)


def _moments_and_triangle(X: Block, H: Any, *context: Any) -> tuple:
    *roots, near = context
    X = X.double().shift(near)
    return *_squares_and_sums(X, roots), X.scale(H[:, 0]).qr(H)


def _squares_and_sums(X: Block, roots: list[Any]) -> tuple:
    """Return X'DX and X'D1; without roots of weights X'X and X'1."""
    if not roots:
        return X.gram(), X.colsum()
    X = X.scale(roots[0])
    return X.gram(), X.t(roots[0][:, None])


def _triangle(X: Block, H: Any) -> Any:
    return X.double().qr(H)


def _column_sums(X: Block, *context: Any) -> tuple:
    *roots, near = context
    X = X.double().shift(near)
    if not roots:
        return X.colsum(), X.xp.sum(X.sq())
    X = X.scale(roots[0])
    return X.t(roots[0][:, None]), X.xp.sum(X.sq())


class Space(ABC):
    """The interface that the pursuit uses; blocks of vectors are columns.

    Attributes
    ----------
    size : int
        Length of a vector.
    n_labelled : int
        The number l of labelled rows.
    square : float
        The trace of S: the squared norm of all rows.
    noise : float
        Norm of S v for a unit vector v orthogonal to all rows, relative to S: round-off.
    block : int
        Number of vectors by which a search is extended until a direction has settled.
    """

    size: int
    n_labelled: int
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
    def labelled_spectrum(self) -> tuple[np.ndarray, Any]:
        """Return the eigenvalues of Z Z' (l, l) and the vectors, of which products are needed."""

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

    def fits(self, r: np.ndarray, taken: Vectors) -> np.ndarray:
        """Return least-squares directions of responses r, nearly orthogonal to others: with next to no ridge."""
        return self.back(self.excess(r, _NEARLY_FREE / self.square))

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, Any]:
        values, U = self.labelled_spectrum()
        return np.maximum(values, 0.0), U

    def soften(self, B: np.ndarray, ratio: float) -> np.ndarray:
        """Return (I + ratio Z'Z)^(-1) B; in the limit B orthogonal to Z.

        This preconditions residuals if the fit to the labels dominates J.
        """
        return B - self.back(self.excess(self.on_labelled(B), ratio))

    def excess(self, seen: np.ndarray, ratio: float) -> np.ndarray:
        """Return (I / ratio + Z Z')^(-1) times ``seen`` (l, k)."""
        if self.n_labelled <= _FACTORISED:
            values, U = self._spectrum
            return U @ ((U.T @ seen) / (1 / ratio + values[:, None]))

        def products(P: np.ndarray) -> np.ndarray:
            return self.on_labelled(self.back(P))

        return preconditioned_cg(products, seen, 1 / ratio, tol=1e-6, max_iter=60).X


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
    beside : callable, optional
        Keeps a matrix where products with it cost least.
    """

    def __init__(
        self, S: np.ndarray, Z: np.ndarray, noise: float, beside: Callable[[np.ndarray], Any] | None = None
    ) -> None:
        self.S, self.Z, self.noise = S, Z, noise
        self.size, self.n_labelled, self.square = len(S), len(Z), float(np.trace(S))
        keep = beside or np.asarray
        self._S: Any = keep(S)
        self._Z: Any = keep(Z)

    def row_space(self) -> tuple[MatrixSpace, np.ndarray]:
        """Return the space that rows span, in coordinates V (d, m) in which S is diagonal and ascending; and V."""
        values, V = np.linalg.eigh(self.S)
        keep = values > self.noise * max(values[-1], 0.0)
        return MatrixSpace(np.diag(values[keep]), self.Z @ V[:, keep], self.noise), V[:, keep]

    def fits(self, r: np.ndarray, taken: Vectors) -> np.ndarray:
        """Return the least-squares directions of responses r, orthogonal to others."""
        if min(self.Z.shape) > MAX_NEWTON:
            return super().fits(r, taken)
        W, ZW = taken.Q, taken.ZQ
        Z = self.Z - ZW @ W.T
        is_wide = Z.shape[0] < Z.shape[1]
        # The difference of known matrices, unless it would lose more than one digit.
        total = float(np.trace(self.G))
        loses_digits = total - np.square(ZW).sum() < 0.1 * total
        A = Z @ Z.T if is_wide else Z.T @ Z if loses_digits else projected(self.G, W, self.back(ZW))
        if not is_wide:
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
        """Return the eigenvalues of Z Z' and the vectors."""
        return outer_spectrum(self._Z)


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
    factor : ndarray of shape (l, 1), optional
        Multiplies the labelled rows, if all rows are given with a mask.
    """

    def __init__(
        self,
        rows: Rows,
        labelled: Rows,
        square: float,
        noise: float,
        mask: np.ndarray | None = None,
        factor: np.ndarray | None = None,
    ) -> None:
        self.rows, self.labelled, self.square, self.noise, self.mask = rows, labelled, square, noise, mask
        self.factor = np.ones((1, 1)) if factor is None else factor
        self.size = rows.shape[1]
        self.n_labelled = labelled.shape[0] if mask is None else int(mask.sum())

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
        if self.mask is None:
            return np.asarray(rows.get(H), dtype=np.float64)
        return self.factor * np.asarray(rows.pick(H, np.flatnonzero(self.mask)), dtype=np.float64)

    def back(self, a: np.ndarray) -> np.ndarray:
        """Return Z'a."""
        a = a if self.mask is None else self.factor * a
        return self.labelled.t(np.ascontiguousarray(spread(a, self.mask)))

    def labelled_spectrum(self) -> tuple[np.ndarray, Any]:
        """Return the eigenvalues of Z Z' and the vectors."""
        if self.mask is None:
            return np.linalg.eigh(np.asarray(self.labelled.whole().double().outer(), dtype=np.float64))
        rows = self.labelled.take(np.flatnonzero(self.mask))
        products = np.asarray(rows.whole().double().outer(), dtype=np.float64)
        return np.linalg.eigh(self.factor * products * self.factor.T)


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

    def part(self, start: int, stop: int | None) -> Self:
        """Return some of them, as views."""
        return type(self)(*(own[:, start:stop] for own in self))

    def joined(self, other: Vectors) -> Self:
        """Return these vectors and others."""
        return type(self)(*(np.hstack([own, its]) for own, its in zip(self, other, strict=True)))

    def less(self, other: Vectors) -> Self:
        """Return the part of these vectors that is orthogonal to others."""
        A = other.dot(self.Q)
        return type(self)(*(own - its @ A for own, its in zip(self, other, strict=True)))


def _normal(X: Block, B: Any) -> Any:
    return X.normal(B)


def _normal_and_scores(X: Block, B: Any) -> tuple[Any, Any]:
    H = X @ B
    return H, X.t(H)
