"""The sums and rows that the pursuit needs, read once for a fit and for the folds of a cross-validation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labelfold._base import labelled_rows
from labelfold.labels import Labels
from labelfold.numerics._ranges import check_norm
from labelfold.rows import Block, Centered, Rows
from labelfold.subspace._vector_spaces import MatrixSpace, RowsSpace

# Most columns for which a d x d matrix is worth its one pass; with more, only for data that is slow to read again.
# For sparse rows it never is.
_MODERATE = 2048

# Labelled rows that cross-validation takes into memory in any case.
_FEWEST = 64


class LabelledSpace(NamedTuple):
    """The labelled rows, or the rows of a triangular factor with the same products.

    Attributes
    ----------
    space : Space
        Where directions live: its Z has these rows.
    Y : ndarray of shape (l, q)
        Responses.
    ones : ndarray of shape (l,)
        What stands for a 1 in each row.
    """

    space: Any
    Y: np.ndarray
    ones: np.ndarray


class Source:
    """Rows in their own columns: as a d x d matrix where that fits and pays, otherwise read again for every step.

    Parameters
    ----------
    rows : Rows
        All rows.
    labels : Labels
        Which are labelled.
    Y : ndarray of shape (l, q)
        Their responses.
    center : bool
        Whether to take the mean from every row.
    max_gram_bytes : int
        The most memory for a matrix of d x d, and for labelled rows.
    is_slow : bool
        Whether rows cost much to read again, although they are in memory.
    random_state : int
        Seeds ``drawn``.

    Attributes
    ----------
    labels, Y
        As given.
    drawn : ndarray of shape (m,)
        Which of the labelled rows cross-validation is about: all, or as many, drawn at random, as fit the budget.
    mean : ndarray of shape (d,)
        What is taken from every row.
    feature_mean : ndarray
        What `transform` takes from a row's features.
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
        self.labels, self.Y = labels, Y
        some = rows.take(labels.index[:64])
        fits = 8 * d * d <= max_gram_bytes and (d <= _MODERATE or is_slow or not rows.in_memory)
        self.is_matrix = fits and not some.whole().is_sparse
        self.noise = max(10 * np.sqrt(max(n, d)) * eps64, (10 * eps) ** 2 if self.is_matrix else 32 * eps)
        most = max(_FEWEST, int(max_gram_bytes / rows.row_bytes()))
        self.drawn = np.sort(np.random.default_rng(random_state).permutation(len(Y))[:most])
        labelled, mask = labelled_rows(rows, labels, max_gram_bytes)
        self._rows, self._all = rows, None
        # An estimate of the mean: sums of squares about it do not cancel.
        near = np.zeros(d)
        if center:
            near = some.mean().astype(rows.dtype).astype(np.float64)
        if self.is_matrix:
            in_one = mask is not None or labels.all_labelled
            total = self._read_matrix(rows, labels.index if in_one else None, near)
        else:
            total, self.square = rows.sum(_column_sums, shared=(near,))
        square = float(np.trace(self.S) if self.is_matrix else self.square)
        if square:  # where all rows are equal, the pursuit raises the error
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
        """Read squares about ``near``, and in the same pass the labelled rows at index; return the column sums."""
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
        """Return what a pursuit needs, with all labels known or only some of them, which are taken into memory."""
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
        """Return the coordinates of some labelled rows along directions; the rows are taken into memory."""
        held = self._taken(which)
        return np.asarray(held.get(held @ W), dtype=np.float64)

    def components(self, W: np.ndarray) -> np.ndarray:
        """Return directions as what `transform` multiplies a row's features by."""
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
