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
``X.apply(g)``  the rows that the feature map g returns
``X.raw``       the rows as a NumPy array, ``csr_array`` or device array, for feature maps
``X.host()``    the rows as a NumPy array or ``csr_array``
==============  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows._sums import (
    CombinedSums,
    CSRGram,
    CSRTransposed,
    DenseGram,
    DenseTransposed,
    Term,
    Triangle,
    WidenedTransposed,
    add_product,
    is_small,
    mirror,
    only_column,
    unshift,
    unshift_gram,
    unshift_squares,
)

# Bytes of a block of dense rows, which then fits into the cache of a core; its minimum number of rows, so that adding
# its sums costs little in comparison; and the maximum number of bytes of a block of wide rows.
DENSE_BYTES, DENSE_ROWS, MAX_DENSE_BYTES = 2_000_000, 256, 32_000_000
# Share of such a block that fits into the cache together with another array of the same size.
BESIDE = 0.25


def dense_block_rows(row_bytes: float, share: float = 1.0) -> int:
    """Return the number of dense rows of a good block, or of a share of one.

    >>> dense_block_rows(800), dense_block_rows(8e4), dense_block_rows(8e6)
    (2500, 256, 4)
    """
    rows = max(share * DENSE_BYTES // row_bytes, share * DENSE_ROWS)
    return int(max(1, min(rows, share * MAX_DENSE_BYTES // row_bytes)))


class Block:
    """The base of all blocks; the table above lists the operations."""

    shape: tuple[int, int]
    dtype: Any
    xp: Any = np
    is_sparse: bool = False
    # Whether a centre is subtracted from products in place of the rows, which loses digits.
    is_implicit: bool = False
    # "dense" or "sparse" on the host, or "device". Algorithms with a loop for each kind select it by this.
    kind: str = "dense"

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

    def host(self) -> Any:
        """Return the rows as a NumPy array or ``csr_array``."""
        return self.raw

    def apply(self, transform: Callable[[Any], Any]) -> Block:
        """Return the rows that a feature map returns for these rows, dense or sparse."""
        made = transform(self.raw)
        if sparse.issparse(made):
            return CSRBlock.of(made, 0, made.shape[0], self.dtype)
        return DenseBlock(np.asarray(made, dtype=self.dtype))

    def qr(self, H: Any) -> Term:
        """Return the triangular factor of [X, H]."""
        return Triangle(np.hstack([self.dense(), np.asarray(H)]).astype(np.float64, copy=False))

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
    """Rows in compressed sparse form. The arrays are views of those of all rows; `column_copy` is a copy."""

    is_sparse = True
    kind = "sparse"

    def __init__(self, data: Any, indices: Any, indptr: Any, n_columns: int, n_values: int = 0) -> None:
        self.data, self.indices, self.indptr = data, indices, indptr
        self.shape, self.dtype = (len(indptr) - 1, n_columns), data.dtype
        self.n_values = (
            n_values or data.size
        )  # in all blocks of a pass; compiled loops pay off if there are many

    @classmethod
    def of(cls, X: Any, start: int, stop: int, dtype: Any) -> CSRBlock:
        """Return rows ``start`` to ``stop`` of a CSR matrix or array."""
        indptr = X.indptr[start : stop + 1]
        a, b = indptr[0], indptr[-1]
        return cls(X.data[a:b].astype(dtype, copy=False), X.indices[a:b], indptr - a, X.shape[1], X.nnz)

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
        from labelfold.rows import _sparse_products as sparse_products

        return sparse_products.csr_product(self.data, self.indices, self.indptr, M)

    def t(self, H: np.ndarray) -> Term:
        """Return X'H."""
        H = np.asarray(H, dtype=self.dtype)
        if H.ndim == 1:
            return CombinedSums(only_column, self.t(H[:, None]))
        return CSRTransposed(self, H)

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
        from labelfold.rows import _sparse_products as sparse_products

        if P is None:
            return mirror(sparse_products.csr_outer(self.raw))
        return sparse_products.outer_product(self.column_copy, np.asarray(P, dtype=self.dtype))

    @cached_property
    def column_copy(self) -> sparse.csr_array:
        """The columns as rows of a copy, for repeated products with X X'."""
        return self.raw.T.tocsr()

    def double(self) -> CSRBlock:
        """Return the rows in float64."""
        return self if self.dtype == np.float64 else self.with_values(self.data.astype(np.float64))

    def single(self) -> CSRBlock:
        """Return the rows in float32."""
        return self.with_values(self.data.astype(np.float32, copy=False))

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
        return self.with_values(self.data * weights)

    def with_values(self, data: np.ndarray) -> CSRBlock:
        """Return rows with other values of the stored entries."""
        return CSRBlock(data, self.indices, self.indptr, self.shape[1], self.n_values)

    def dense(self) -> np.ndarray:
        """Return the rows as a dense array."""
        return self.raw.toarray()


class ShiftedBlock(Block):
    """X - u a': u[i] times the vector a is subtracted from row i, implicitly, so that X stays sparse."""

    is_implicit = True

    def __init__(self, block: Block, center: np.ndarray, u: np.ndarray | None = None) -> None:
        self.block, self.center = block, np.asarray(center, dtype=np.float64)
        self.shape, self.dtype, self.is_sparse = block.shape, block.dtype, block.is_sparse
        self.kind = block.kind
        self.u = np.ones(block.shape[0], dtype=block.dtype) if u is None else u

    @property
    def raw(self) -> np.ndarray:
        """The shifted rows, which are dense."""
        return self.dense()

    def __matmul__(self, M: np.ndarray) -> np.ndarray:
        shifts = np.asarray(self.center @ M, dtype=self.dtype)
        return self.block @ M - (np.outer(self.u, shifts) if M.ndim == 2 else self.u * shifts)

    def t(self, H: np.ndarray) -> Term:
        """Return X'H - a (u'H)."""
        return CombinedSums(partial(unshift, center=self.center), self.block.t(H), self.u @ H)

    def gram(self) -> Term:
        """Return X'X - X'u a' - a u'X + (u'u) a a'."""
        finish = partial(unshift_gram, center=self.center)
        return CombinedSums(finish, self.block.gram(), self.block.t(self.u[:, None]), self.u @ self.u)

    def colsum(self) -> Term:
        """Return the sum of the rows."""
        return CombinedSums(partial(unshift, center=self.center), self.block.colsum(), self.u.sum())

    def colsq(self) -> Term:
        """Return the squared norm of each column."""
        finish = partial(unshift_squares, center=self.center)
        return CombinedSums(finish, self.block.colsq(), self.block.t(self.u), self.u @ self.u)

    def sq(self) -> np.ndarray:
        """Return the squared norm of each row."""
        cross = self.block @ self.center
        squares = self.block.sq() - 2 * self.u * cross + self.u**2 * (self.center @ self.center)
        return squares.astype(self.dtype, copy=False)

    def min(self) -> np.ndarray:
        """Return the smallest entry of each row, formed a row at a time."""
        raw, u = self.block.raw, self.u
        smallest = [(raw[[i]].toarray() - u[i] * self.center).min() for i in range(len(u))]
        return np.array(smallest, dtype=self.dtype)

    def outer(self, P: np.ndarray | None = None) -> np.ndarray:
        """Return (X - u a')(X - u a')', or its product with P, from products with X and vectors of length m only."""
        cross = self._cross
        rest = cross - (self.center @ self.center) * self.u
        right = np.stack([self.u, rest])
        if P is not None:
            # Two vector products take less time than one product with two rows. They are in float32 only if P is.
            right = np.stack([row.astype(P.dtype) @ P.astype(self.dtype, copy=False) for row in right])
        return add_product(self.block.outer(P), -np.stack([cross, self.u], axis=1), right)

    @cached_property
    def _cross(self) -> np.ndarray:
        """X a."""
        return self.block @ self.center

    def double(self) -> ShiftedBlock:
        """Return the block in float64."""
        if self.dtype == np.float64:
            return self
        return ShiftedBlock(self.block.double(), self.center, self.u.astype(np.float64))

    def single(self) -> ShiftedBlock:
        """Return the block in float32."""
        return ShiftedBlock(self.block.single(), self.center, self.u.astype(np.float32))

    def occupied(self) -> np.ndarray:
        """Return a mask of the columns with an entry or a shift."""
        return self.block.occupied() | (self.center != 0)

    def narrow(self, keep: np.ndarray | None = None) -> ShiftedBlock:
        """Return the block without columns that have neither an entry nor a shift."""
        keep = self.occupied() if keep is None else keep
        return ShiftedBlock(self.block.narrow(keep), self.center[keep], self.u)

    def scale(self, weights: np.ndarray) -> ShiftedBlock:
        """Return the block with each row multiplied by its weight."""
        weights = np.asarray(weights, dtype=self.dtype)
        return ShiftedBlock(self.block.scale(weights), self.center, self.u * weights)

    def dense(self) -> np.ndarray:
        """Return the rows as a dense array."""
        return (self.block.dense() - np.outer(self.u, self.center)).astype(self.dtype, copy=False)


class WidenedBlock(DenseBlock):
    """Rows of another dtype, used in float64. `t` converts some rows at a time; other operations convert all."""

    def __init__(self, X: np.ndarray) -> None:
        self.stored = X
        self.shape, self.dtype = X.shape, np.dtype(np.float64)

    @cached_property
    def X(self) -> np.ndarray:  # type: ignore[override]
        """The rows in float64."""
        return self.stored.astype(np.float64)

    def t(self, H: np.ndarray) -> Term:
        """Return X'H."""
        step = dense_block_rows(8 * max(1, self.shape[1]), BESIDE)
        return WidenedTransposed(self.stored, np.asarray(H, dtype=np.float64), step)
