"""Blocks: some rows of the data, as a function of a pass gets them.

Every block has the same operations, for every storage of its rows:

==============  =====================================================================================
``X @ M``       (m, k), a row result, in the dtype of X
``X.t(H)``      X'H (d, k), a sum over rows
``X.normal(M)``  X'X M (d, k), a sum over rows: X.t(X @ M), perhaps in one read
``X.gram()``    X'X (d, d), a sum over rows: for d within a memory budget
``X.qr(H)``     triangular factor of [X, H], merged like a sum, for the same d
``X.inner(A)``   A'A (k, k), or A'B with a second array: a sum over rows of row results, in float64
``X.colsum()``  column sums (d,), a sum over rows
``X.colsq()``   sums of squares of the columns (d,), a sum over rows
``X.sq()``      squared norm of each row (m,), a row result
``X.min()``     smallest entry of each row (m,), a row result
``X.outer()``   X X' (m, m), only if the block contains all rows
``X.outer(P)``  X (X'P) (m, k), only if the block contains all rows
``X.shift(a)``  the block with the vector a subtracted from every row; ``rest`` is the round-off of a in X.dtype
``X.scale(w)``  the block with row i multiplied by w[i]
``X.double()``  the block in float64, for sums that must not lose digits
``X.single()``  the block in float32 if that is faster, for results that need few digits
``X.narrow()``  the block without columns of zeros, if removing them is cheap; for `outer`
``X.apply(g)``  the dense rows that the feature map g returns
``X.raw``       the rows as a NumPy array, ``csr_array`` or device array, for feature maps
==============  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows._block_sums import (
    CSRGram,
    CSRNormal,
    CSRTransposed,
    DenseGram,
    DenseTransposed,
    Triangle,
    is_small,
    mirror,
    only_column,
)
from labelfold.rows._sums import Finished, Term


class Block:
    """The base of all blocks; see the table above."""

    shape: tuple[int, int]
    dtype: Any
    xp: Any = np
    is_sparse: bool = False
    # Sparse rows on a GPU, as they are stored: what the loops over their entries take.
    sparse_part: Any = None

    # Every kind of block has these operations too, with its own code.
    t: Callable[[Any], Term]
    gram: Callable[[], Term]
    colsum: Callable[[], Any]
    colsq: Callable[[], Any]
    sq: Callable[[], Any]
    outer: Callable[..., Any]

    @property
    def raw(self) -> Any:
        """The rows as a NumPy array, ``csr_array`` or device array, for feature maps."""
        raise NotImplementedError

    def __matmul__(self, M: Any) -> Any:
        raise NotImplementedError

    def shift(self, center: Any, rest: Any = None) -> Block:
        """Return the block with ``center`` and ``rest`` subtracted from every row; sparse rows stay sparse."""
        from labelfold.rows._shifted import ShiftedBlock

        return ShiftedBlock(self, center if rest is None else np.add(center, rest, dtype=np.float64))

    def scale(self, weights: Any) -> Block:
        """Return the block with each row multiplied by its weight."""
        raise NotImplementedError

    def double(self) -> Block:
        """Return the block in float64."""
        raise NotImplementedError

    def single(self) -> Block:
        """Return the block in float32, if that is faster."""
        return self

    def occupied(self) -> np.ndarray:
        """Return a mask of the columns that `narrow` keeps."""
        return np.ones(self.shape[1], dtype=bool)

    def narrow(self, keep: np.ndarray | None = None) -> Block:
        """Return the block, possibly without columns that are zero in every row: X X' does not change."""
        return self

    def apply(self, transform: Callable[[Any], Any]) -> Block:
        """Return the dense rows that a feature map returns for these rows."""
        return DenseBlock(np.asarray(transform(self.raw), dtype=self.dtype))

    def qr(self, H: Any) -> Term:
        """Return the triangular factor of [X, H]."""
        return Triangle(np.hstack([self.dense(), np.asarray(H)]).astype(np.float64, copy=False))

    def counted_product(self, M: Any) -> tuple[Any, Any]:
        """Return X M, and a number above 0 if there are negative entries."""
        return self @ M, self.xp.count_nonzero(self.min() < 0)

    def normal(self, M: Any) -> Term:
        """Return X'X M."""
        return self.t(self @ M)

    def projected_sums(self, M: Any, weights: Any = None) -> tuple[Any, Any]:
        """Return H'H and X'H of H = diag(weights) X M, in float64."""
        H = self @ M
        H = H if weights is None else H * weights[:, None]
        return self.inner(H), self.double().t(H)

    def inner(self, A: Any, B: Any = None) -> Any:
        """Return A'A, or A'B, of arrays with one entry per row, in float64."""
        A = np.asarray(A, dtype=np.float64)
        return A.T @ (A if B is None else np.asarray(B, dtype=np.float64))

    def dense(self) -> np.ndarray:
        """Return the rows as one dense host array, for blocks whose width is within a memory budget."""
        raise NotImplementedError

    def min(self) -> Any:
        """Return the smallest entry of each row."""
        raise NotImplementedError


class DenseBlock(Block):
    """Rows held in a NumPy array."""

    def __init__(self, X: np.ndarray) -> None:
        self.X, self.shape, self.dtype = X, X.shape, X.dtype

    @property
    def raw(self) -> np.ndarray:
        """The rows."""
        return self.X

    def __matmul__(self, M: np.ndarray) -> np.ndarray:
        return self.X @ np.asarray(M, dtype=self.dtype)

    def t(self, H: np.ndarray) -> Term:
        """Return X'H."""
        return DenseTransposed(self.X, np.asarray(H, dtype=self.dtype))

    def gram(self) -> Term:
        """Return X'X."""
        return DenseGram(self.X)

    def colsum(self) -> np.ndarray:
        """Return the sum of the rows, added up in float64."""
        return self.X.sum(axis=0, dtype=np.float64)

    def colsq(self) -> np.ndarray:
        """Return the squared norm of each column."""
        return np.einsum("ij,ij->j", self.X, self.X)

    def sq(self) -> np.ndarray:
        """Return the squared norm of each row."""
        return np.einsum("ij,ij->i", self.X, self.X)

    def min(self) -> np.ndarray:
        """Return the smallest entry of each row."""
        return self.X.min(axis=1)

    def outer(self, P: np.ndarray | None = None) -> np.ndarray:
        """Return X X', or X X'P."""
        return self.X @ (self.X.T if P is None else self.X.T @ np.asarray(P, dtype=self.dtype))

    def shift(self, center: np.ndarray, rest: np.ndarray | None = None) -> DenseBlock:
        """Return the shifted rows explicitly: a block is small, and no digits are lost to cancellation."""
        X = self.X - np.asarray(center, dtype=self.dtype)
        if rest is not None:
            X -= np.asarray(rest, dtype=self.dtype)
        return DenseBlock(X)

    def double(self) -> DenseBlock:
        """Return the rows in float64."""
        from labelfold.rows._widened import WidenedBlock

        return self if self.dtype == np.float64 else WidenedBlock(self.X)

    def single(self) -> DenseBlock:
        """Return the rows in float32."""
        return DenseBlock(self.X.astype(np.float32, copy=False))

    def scale(self, weights: np.ndarray) -> DenseBlock:
        """Return the weighted rows explicitly."""
        return DenseBlock(self.X * np.asarray(weights, dtype=self.dtype)[:, None])

    def dense(self) -> np.ndarray:
        """Return the rows themselves."""
        return self.X


class CSRBlock(Block):
    """Rows in compressed sparse form: views of the arrays of all rows, and of `column_copy` a copy."""

    is_sparse = True
    # If the adapter stores the transpose: a function that returns it, and the index of the block's first row.
    transpose: tuple[Callable[[], tuple], int] | None = None

    def __init__(self, data: Any, indices: Any, indptr: Any, n_columns: int, n_values: int = 0) -> None:
        self.data, self.indices, self.indptr = data, indices, indptr
        self.shape, self.dtype = (len(indptr) - 1, n_columns), data.dtype
        self.n_values = n_values or data.size  # of all blocks of a pass: compiled loops pay if there are many

    @classmethod
    def of(cls, X: Any, start: int, stop: int, dtype: Any) -> CSRBlock:
        """Return rows ``start`` to ``stop`` of a CSR matrix or array."""
        indptr = X.indptr[start : stop + 1]
        a, b = indptr[0], indptr[-1]
        return cls(X.data[a:b].astype(dtype, copy=False), X.indices[a:b], indptr - a, X.shape[1], X.nnz)

    def _with(self, data: np.ndarray) -> CSRBlock:
        return CSRBlock(data, self.indices, self.indptr, self.shape[1], self.n_values)

    @property
    def raw(self) -> sparse.csr_array:
        """The rows as a SciPy sparse array."""
        return sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape, copy=False)

    def __matmul__(self, M: np.ndarray) -> np.ndarray:
        M = np.asarray(M, dtype=self.dtype)
        if M.ndim == 1:
            return (self @ M[:, None])[:, 0]
        if is_small(self.n_values * M.shape[1]):
            return self.raw @ M
        from labelfold.rows.loops import _sparse_products as sparse_products

        return sparse_products.csr_product(self.data, self.indices, self.indptr, M)

    def t(self, H: np.ndarray) -> Term:
        """Return X'H."""
        H = np.asarray(H, dtype=self.dtype)
        if H.ndim == 1:
            return Finished(self.t(H[:, None]), only_column)
        return CSRTransposed(self, H)

    def normal(self, M: np.ndarray) -> Term:
        """Return X'X M."""
        M = np.asarray(M, dtype=self.dtype)
        return CSRNormal(self, M) if CSRNormal.pays(self, M) else super().normal(M)

    def gram(self) -> Term:
        """Return X'X."""
        return CSRGram(self)

    def colsum(self) -> np.ndarray:
        """Return the sum of the rows, added up in float64."""
        return np.bincount(self.indices, weights=self.data, minlength=self.shape[1])

    def colsq(self) -> np.ndarray:
        """Return the squared norm of each column, added up in float64."""
        return np.bincount(self.indices, weights=self.data * self.data, minlength=self.shape[1])

    def sq(self) -> np.ndarray:
        """Return the squared norm of each row."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
        return np.bincount(rows, weights=self.data * self.data, minlength=self.shape[0]).astype(self.dtype)

    def min(self) -> np.ndarray:
        """Return the smallest entry of each row, where entries that are not stored count as 0."""
        return self.raw.min(axis=1).toarray().ravel()

    def outer(self, P: np.ndarray | None = None) -> np.ndarray:
        """Return X X' row by row, from the columns that each row shares with the others; or X X'P."""
        from labelfold.rows.loops import _sparse_products as sparse_products

        if P is None:
            return mirror(sparse_products.csr_outer(self.raw))
        return sparse_products.outer_product(self.column_copy, np.asarray(P, dtype=self.dtype))

    @cached_property
    def column_copy(self) -> sparse.csr_array:
        """The columns as rows of a copy, for repeated products with X X'."""
        return self.raw.T.tocsr()

    def double(self) -> CSRBlock:
        """Return the rows in float64."""
        return self._with(self.data.astype(np.float64, copy=False))

    def single(self) -> CSRBlock:
        """Return the rows in float32."""
        return self._with(self.data.astype(np.float32, copy=False))

    def occupied(self) -> np.ndarray:
        """Return a mask of the columns with an entry."""
        return np.bincount(self.indices, minlength=self.shape[1]) > 0

    def narrow(self, keep: np.ndarray | None = None) -> CSRBlock:
        """Return the block without empty columns, or only the columns where ``keep`` is true."""
        keep = self.occupied() if keep is None else keep
        place = (np.cumsum(keep) - 1).astype(self.indices.dtype)
        return CSRBlock(self.data, place[self.indices], self.indptr, int(keep.sum()), self.n_values)

    def scale(self, weights: np.ndarray) -> CSRBlock:
        """Return the weighted rows; zeros stay zeros."""
        weights = np.repeat(np.asarray(weights, dtype=self.dtype), np.diff(self.indptr))
        return self._with(self.data * weights)

    def dense(self) -> np.ndarray:
        """Return the rows as a dense array."""
        return self.raw.toarray()
