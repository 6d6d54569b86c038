"""Sums over rows that blocks compute: products and triangular factors, added to the total of each worker."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, lapack

from labelfold.rows._gram_update import add_gram
from labelfold.rows._sums import Term

# Below this many multiplications in a pass SciPy's product is used, because compiling a loop would take longer.
_SMALL_PRODUCT = 4_000_000
# Bytes of the two matrices of a worker up to which one loop over them was faster than two products.
_CACHED = 16 << 20
# Columns that LAPACK factors at a time.
_PANEL = 64


def is_small(multiplications: int) -> bool:
    """Return whether SciPy's product is best for this size."""
    return multiplications < _SMALL_PRODUCT


class DenseTransposed(Term):
    """X'H of dense rows, added into the worker's (d, k) total by one BLAS call."""

    def __init__(self, X: np.ndarray, H: np.ndarray) -> None:
        self.X, self.H = X, H

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum."""
        if total is None:
            return self.X.T @ self.H
        total += self.X.T @ self.H
        return total


class DenseGram(Term):
    """X'X of dense rows, one triangle added into the worker's (d, d) total in place."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = X

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum."""
        X = self.X
        if total is None:
            total = np.zeros((X.shape[1], X.shape[1]), dtype=X.dtype, order="F")
        add_gram(X, total)
        return total

    @staticmethod
    def finish(total: np.ndarray) -> np.ndarray:
        """Return both triangles."""
        return mirror(total.T)


class CSRTransposed(Term):
    """X'H of sparse rows, scattered into the worker's (d, k) total."""

    def __init__(self, block: Any, H: np.ndarray) -> None:
        self.block, self.H = block, H

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum."""
        block, H = self.block, self.H
        if is_small(block.n_values * H.shape[1]):
            product = block.raw.T @ H
            if total is None:
                return product
            total += product
            return total
        from labelfold.rows.loops import _sparse_products as sparse_products

        if total is None and "column_copy" in vars(block):  # it was made before
            columns = block.column_copy
            return sparse_products.csr_product(columns.data, columns.indices, columns.indptr, H)
        if total is None:
            total = np.zeros((block.shape[1], *H.shape[1:]), dtype=block.dtype)
        sparse_products.csr_scatter(block.data, block.indices, block.indptr, H, total)
        return total


class CSRNormal(Term):
    """X'X M of sparse rows, in one loop over them and padded copies of M and of the sum.

    M is the same for all blocks of a pass. Small blocks of the pass may have been added by `CSRTransposed`.
    """

    def __init__(self, block: Any, M: np.ndarray) -> None:
        self.block, self.M = block, M

    @staticmethod
    def pays(block: Any, M: np.ndarray) -> bool:
        """Return whether the loop is faster than two products: for a large block, if M and its padding are small."""
        if M.ndim != 2 or is_small(block.n_values * M.shape[1]):
            return False
        from labelfold.rows.loops._sparse_products import padded_width

        d, k = M.shape
        width = padded_width(k, block.dtype)
        return 3 * width <= 4 * k and 2 * d * width * block.dtype.itemsize <= _CACHED

    def add(self, total: Any) -> _Normal:
        """Add the block's sum."""
        from labelfold.rows.loops._sparse_products import csr_normal

        total = total if isinstance(total, _Normal) else _Normal(self.M, total)
        csr_normal(self.block.data, self.block.indices, self.block.indptr, total.M, total.out)
        return total


class _Normal:
    """The total of `CSRNormal`, an array of k columns; the copy of M is not pickled with it."""

    def __init__(self, M: np.ndarray, begun: np.ndarray | None = None) -> None:
        from labelfold.rows.loops._sparse_products import padded

        self.k = M.shape[1]
        self.M, self.out = padded(M), padded(np.zeros_like(M) if begun is None else begun)

    def __iadd__(self, product: np.ndarray) -> _Normal:  # type: ignore[misc]
        self.out[:, : self.k] += product
        return self

    def __add__(self, other: Any) -> np.ndarray:
        return np.add(np.asarray(self), np.asarray(other), dtype=np.float64)

    def __getstate__(self) -> dict[str, Any]:
        return {"k": self.k, "out": self.out}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.out[:, : self.k], dtype=dtype)


class CSRGram(Term):
    """X'X of sparse rows, one triangle scattered into the worker's (d, d) total."""

    def __init__(self, block: Any) -> None:
        self.block = block

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum."""
        from labelfold.rows.loops import _sparse_products as sparse_products

        block = self.block
        if total is None:
            total = np.zeros((block.shape[1], block.shape[1]), dtype=block.dtype)
        sparse_products.csr_gram(block.data, block.indices, block.indptr, total)
        return total

    @staticmethod
    def finish(total: np.ndarray) -> np.ndarray:
        """Return both triangles."""
        return mirror(total)


class Triangle(Term):
    """The triangular factor of all rows stacked. Factors are "added" by factoring them one above the other."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def add(self, total: list[np.ndarray] | None) -> list[np.ndarray]:
        """Stack the block's rows."""
        # Rows are collected first, because factoring a few rows costs as much as factoring many.
        total = [] if total is None else total
        total.append(self.rows)
        width = self.rows.shape[1]
        if sum(map(len, total)) >= max(3 * width, 64):
            total[:] = [triangle_of(np.vstack(total))]
        return total

    @staticmethod
    def merge(left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
        """Stack the factors of two workers."""
        return [triangle_of(np.vstack([*left, *right]))]

    @staticmethod
    def finish(total: list[np.ndarray]) -> np.ndarray:
        """Return the factor of all rows."""
        return triangle_of(np.vstack(total))


def triangle_of(A: np.ndarray) -> np.ndarray:
    """Return the triangular factor R of A = Q R."""
    if not A.size:
        return np.zeros((min(A.shape), A.shape[1]))
    # NumPy's qr gains little from a second thread.
    R = lapack.dgeqrf(np.array(A, order="F"), lwork=_PANEL * A.shape[1], overwrite_a=1)[0]
    return np.triu(R[: min(A.shape)])


def only_column(total: np.ndarray) -> np.ndarray:
    """Return the vector that was summed up as a column."""
    return total[:, 0]


def unshift(sums: tuple, center: np.ndarray) -> np.ndarray:
    """Return X'H - a (u'H) from X'H and u'H."""
    product, weights = sums
    if product.ndim == 1:
        return product - center * weights
    return less_outer(product, center[:, None], weights[None, :])


def unshift_squares(sums: tuple, center: np.ndarray) -> np.ndarray:
    """Return the squared norms of shifted columns from those of X, X'u and u'u."""
    squares, product, weight = sums
    return np.maximum(squares - 2 * center * product + weight * center**2, 0.0)


def unshift_gram(sums: tuple, center: np.ndarray) -> np.ndarray:
    """Return the Gram matrix of shifted rows from that of X, X'u and u'u."""
    gram, product, weight = sums
    cross = product[:, 0] - weight / 2 * center
    return less_outer(gram, np.stack([cross, center], axis=1), np.stack([center, cross]))


def less_outer(A: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return A - left @ right, written over A, since A may fill most of the memory.

    Factors of more digits than A are multiplied with them, and the difference is rounded once.
    """
    A = np.require(A, requirements="W")
    add = add_product if np.result_type(left, right) == A.dtype else _add_by_blocks
    add(A, left, -right)
    return A


def add_product(A: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Add left @ right to A, in place and without a second array of its size."""
    right = np.ascontiguousarray(right, dtype=A.dtype)
    left = np.ascontiguousarray(left, dtype=A.dtype)
    if A.flags.c_contiguous and A.dtype.char in "fd" and A.size and right.size:
        # BLAS takes the transposed arrays, which are in Fortran order.
        get_blas_funcs("gemm", (A,))(1.0, right.T, left.T, beta=1.0, c=A.T, overwrite_c=True)
        return
    _add_by_blocks(A, left, right)


def _add_by_blocks(A: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    for start in range(0, len(A), 256):
        here = slice(start, start + 256)
        A[here] += left[here] @ right


def mirror(A: np.ndarray) -> np.ndarray:
    """Return A with its lower triangle copied to its upper one, a tile at a time."""
    A = np.require(A, requirements="W")
    for start in range(0, len(A), 256):
        here, below = slice(start, start + 256), slice(start + 256, None)
        A[here, here] = np.tril(A[here, here]) + np.tril(A[here, here], -1).T
        A[here, below] = A[below, here].T
    return A
