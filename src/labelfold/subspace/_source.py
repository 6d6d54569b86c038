"""The sums and rows that the pursuit needs, read once for a fit and for the folds of a cross-validation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labelfold.base import labelled_rows
from labelfold.labels import Labels
from labelfold.numerics import check_norm
from labelfold.rows import Block, Centered, Rows
from labelfold.subspace._vector_spaces import MatrixSpace, RowsSpace

# Most columns for which a d x d matrix is worth its one pass; with more columns only if data is slow to read again.
_MODERATE = 2048

# Most bytes of a sparse row for which the same holds, about 128 entries: the cost of the pass grows with their
# square.
_SPARSE_BYTES = 1536

# Sparse rows are squared before they are centred. The matrix is not used if that costs more than two digits.
_LOST = 100.0

# Number of labelled rows that cross-validation reads into memory in any case.
_FEWEST = 64


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
    """

    space: Any
    Y: np.ndarray
    ones: np.ndarray


class Source:
    """Rows in their own columns: as a d x d matrix if that fits and pays off, otherwise read again for every step.

    Parameters
    ----------
    rows : Rows
        All rows.
    labels : Labels
        The labels.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows.
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
    dimension : int
        The dimension that rows may span, for the default weight of the reconstruction.
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
        center: bool,
        max_gram_bytes: int,
        is_slow: bool = False,
        random_state: int = 0,
    ) -> None:
        n, d = rows.shape
        eps, eps64 = rows.eps, float(np.finfo(np.float64).eps)
        self.labels, self.Y, self.dimension = labels, Y, min(n, d)
        some = rows.take(labels.index[:64])
        self.is_matrix = 8 * d * d <= max_gram_bytes and (d <= _MODERATE or is_slow or not rows.in_memory)
        is_sparse = some.whole().is_sparse
        if is_sparse:  # the matrix is at most as large as X
            self.is_matrix &= rows.row_bytes() <= _SPARSE_BYTES and n * rows.row_bytes() >= 8 * d * d
        most = max(_FEWEST, int(max_gram_bytes / rows.row_bytes()))
        self.drawn = np.sort(np.random.default_rng(random_state).permutation(len(Y))[:most])
        labelled, mask = labelled_rows(rows, labels, max_gram_bytes)
        self._rows, self._all = rows, None
        # An estimate of the mean, so that sums of squares about it do not cancel.
        near, lost = np.zeros(d), 0.0
        if center:
            near = some.mean().astype(rows.dtype).astype(np.float64)
        if self.is_matrix:
            in_one = mask is not None or labels.all_labelled
            total = self._read_matrix(rows, labels.index if in_one else None, near)
            largest = float(np.square(near + total / n).max(initial=0.0)) if center and is_sparse else 0.0
            lost = n * d * largest / max(float(np.trace(self.S)), np.finfo(float).tiny)
            if lost > _LOST:
                self.is_matrix, self._all, lost = False, None, 0.0
        if not self.is_matrix:
            total, self.square = rows.sum(_column_sums, shared=(near,))
        self.noise = 10 * np.sqrt(max(n, d)) * eps64 * (1 + lost)
        self.noise = max(self.noise, (10 * eps) ** 2 if self.is_matrix else 32 * eps)
        square = float(np.trace(self.S) if self.is_matrix else self.square)
        if square:  # if all rows are equal, the pursuit raises the error
            check_norm(square, rows.dtype)
        shift = total / n if center else np.zeros(d)
        self.mean = self.feature_mean = near + shift
        self.labelled = Centered(labelled, self.mean) if mask is None else None
        if self.is_matrix:
            self.S = self.S - n * np.outer(shift, shift)
            if self._all is not None:
                Z, Y, ones = self._all
                self._all = LabelledSpace(
                    MatrixSpace(self.S, Z - np.outer(ones, shift), self.noise, beside=rows.beside), Y, ones
                )
            return
        self.square -= n * float(shift @ shift)
        self.rows = Centered(rows, self.mean) if center else rows
        if mask is not None:
            space = RowsSpace(self.rows, self.rows, self.square, self.noise, mask)
            self._all = LabelledSpace(space, Y, np.ones(len(Y)))

    def _read_matrix(self, rows: Rows, index: np.ndarray | None, near: np.ndarray) -> np.ndarray:
        """Read squares about ``near`` and, in the same pass, the labelled rows at index; return the column sums."""
        if index is None:
            self.S, total = rows.sum(_moments, shared=(near,))
            return total
        d = rows.shape[1]
        H = np.zeros((rows.shape[0], 1 + self.Y.shape[1]))
        H[index] = np.column_stack([np.ones(len(index)), self.Y])
        self.S, total, T = rows.sum(_moments_and_triangle, H, shared=(near,))
        self._all = LabelledSpace(T[:, :d], T[:, d + 1 :], T[:, d])
        return total

    def known(self, which: np.ndarray | None = None) -> LabelledSpace:
        """Return the data of a pursuit, with all labels known or only some, whose rows are read into memory."""
        if which is None and self._all is not None:
            return self._all
        labelled = self._taken(which)
        Y = self.Y if which is None else self.Y[which]
        ones = np.ones(len(Y))
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


def _moments(X: Block, near: Any) -> tuple:
    X = X.double().shift(near)
    return X.gram(), X.colsum()


def _moments_and_triangle(X: Block, H: Any, near: Any) -> tuple:
    X = X.double().shift(near)
    return X.gram(), X.colsum(), X.scale(H[:, 0]).qr(H)


def _triangle(X: Block, H: Any) -> Any:
    return X.double().qr(H)


def _column_sums(X: Block, near: Any) -> tuple:
    X = X.double().shift(near)
    return X.colsum(), X.xp.sum(X.sq())
