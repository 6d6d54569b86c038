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

import ctypes
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cython_blas, get_blas_funcs, lapack

from labelfold.rows._sums import Finished, Term

# Below this many multiplications in a pass SciPy's product is used, because compiling a loop would take longer.
_SMALL_PRODUCT = 4_000_000
# Bytes of the two matrices of a worker up to which one loop over them was faster than two products.
_CACHED = 16 << 20
# Columns that LAPACK factors at a time.
_PANEL = 64
# The C type of the routine's arguments, as far as it does not depend on the precision.
_KNOWN = b"void (char *, char *, int *, int *, "
_NAMES = {np.dtype(np.float64): "dsyrk", np.dtype(np.float32): "ssyrk"}


class Block:
    """The base of all blocks; see the table above."""

    shape: tuple[int, int]
    dtype: Any
    xp: Any = np
    is_sparse: bool = False
    # "dense" or "sparse" on the host, or "device": the key of an algorithm that has a loop of its own for each.
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
        from labelfold.rows._wrappers import ShiftedBlock

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
        from labelfold.rows._wrappers import WidenedBlock

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
    kind = "sparse"
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


def add_gram(X: np.ndarray, total: np.ndarray) -> None:
    """Add the upper triangle of X'X to ``total``, a matrix in Fortran order of the same dtype as X.

    Examples
    --------
    >>> total = np.zeros((2, 2), order="F")
    >>> add_gram(np.array([[1.0, 2.0], [3.0, 4.0]]), total)
    >>> total
    array([[10., 14.],
           [ 0., 20.]])
    """
    m, d = X.shape
    if not X.size:
        return
    if not (X.flags.c_contiguous or X.flags.f_contiguous):
        X = np.ascontiguousarray(X)
    # In C order X is X' to a Fortran routine.
    trans, lda = (b"N", d) if X.flags.c_contiguous else (b"T", m)
    routine = _routine(_NAMES[X.dtype])
    if routine is None:
        (syrk,) = get_blas_funcs(["syrk"], [X])
        syrk(1.0, X.T if trans == b"N" else X, beta=1.0, c=total, trans=trans == b"T", overwrite_c=1)
        return
    n, k, step = (ctypes.byref(ctypes.c_int(size)) for size in (d, m, lda))
    one = np.ones(1, dtype=X.dtype).ctypes
    routine(b"U", trans, n, k, one.data, X.ctypes.data, step, one.data, total.ctypes.data, n)


@cache
def _routine(name: str) -> Callable[..., Any] | None:
    """Return BLAS's routine as a function that releases the lock, or None if its arguments are of other types."""
    capsule = cython_blas.__pyx_capi__[name]
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    kind = python.PyCapsule_GetName(capsule)
    if not kind.startswith(_KNOWN):
        return None
    letter, size, number = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(None, letter, letter, size, size, number, number, size, number, number, size)
    return prototype(python.PyCapsule_GetPointer(capsule, kind))
