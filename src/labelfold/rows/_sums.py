"""Sums over rows: what a block adds to them, and how they are accumulated block by block and worker by worker.

A partial sum is a small array or scalar, added in float64, or a `Term`, which adds itself to the accumulator of the
worker, so that no block allocates a large sum of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg import cython_blas, get_blas_funcs, lapack

# Budget: below this many multiplications in a pass SciPy's product is used, since it takes milliseconds, and loading
# the compiled loops a second. Above it a loop takes 0.6 of the time for a product, 0.2 for a Gram matrix
# (benchmarks/limits.py --only compiled), and releases the interpreter's lock.
_SMALL_PRODUCT = 4_000_000
# The C type of the routine's arguments, as far as it does not depend on the precision.
_KNOWN = b"void (char *, char *, int *, int *, "
_NAMES = {np.dtype(np.float64): "dsyrk", np.dtype(np.float32): "ssyrk"}


class Term:
    """A partial sum that adds itself to an accumulator.

    ``finish`` is applied once, on the host, after all partial sums are merged. It outlives the block, so it must be
    small, and picklable if tasks run in other processes.
    """

    finish: Callable[[Any], Any] | None = None

    def add(self, total: Any) -> Any:
        """Return ``total`` with this block added; ``total`` is None for the first block, and may be modified."""
        raise NotImplementedError

    @staticmethod
    def merge(left: Any, right: Any) -> Any:
        """Return the sum of two workers' totals, in float64 if both are on the host."""
        if isinstance(left, np.ndarray):
            # A total from another process may be read-only.
            own = left.dtype == np.float64 and left.flags.writeable
            return np.add(left, right, dtype=np.float64, out=left if own else None)
        return left + right


@dataclass(eq=False)
class ArrayTerm(Term):
    """A complete partial sum, kept in its own dtype until workers are merged (for large sums)."""

    part: Any

    def add(self, total: Any) -> Any:
        """Add the part, in place if that is safe."""
        if total is None:
            return self.part
        if isinstance(total, np.ndarray):
            total += self.part
            return total
        return total + self.part


class CombinedSums(Term):
    """Several partial sums, from which ``finish`` computes one result."""

    def __init__(self, finish: Callable[[tuple], Any], *parts: Any) -> None:
        self.parts = parts
        self.finish = finish

    def add(self, total: Accumulator | None) -> Accumulator:
        """Add every part."""
        total = Accumulator() if total is None else total
        total.add(self.parts)
        return total

    @staticmethod
    def merge(left: Accumulator, right: Accumulator) -> Accumulator:
        """Merge part by part."""
        return left.merge(right)


def _float64(part: Any) -> Any:
    """Return a copy in float64; on a device without float64, the part unchanged."""
    if isinstance(part, (np.ndarray, np.generic, float, int)):
        return np.array(part, dtype=np.float64)
    xp = array_namespace(part)
    try:
        return xp.astype(part, xp.float64)
    except (TypeError, RuntimeError):
        return part


class Accumulator:
    """The running sums of one worker: one total for each partial sum that f returns."""

    def __init__(self) -> None:
        self._single = False
        self._totals: list[Any] | None = None
        self._rules: list[tuple[Callable[..., Any], Callable[..., Any] | None]] = []

    def add(self, partial: Any) -> None:
        """Add one block's partial sums: None, one sum, or a tuple of sums."""
        if partial is None:
            return
        parts = partial if isinstance(partial, tuple) else (partial,)
        if self._totals is None:
            self._single = not isinstance(partial, tuple)
            self._totals = [None] * len(parts)
            terms = [part if isinstance(part, Term) else Term for part in parts]
            self._rules = [(term.merge, term.finish) for term in terms]
        for i, part in enumerate(parts):
            total = self._totals[i]
            if isinstance(part, Term):
                self._totals[i] = part.add(total)
            else:
                self._totals[i] = _float64(part) if total is None else total + part

    def merge(self, other: Accumulator) -> Accumulator:
        """Add another worker's totals to these."""
        if other._totals is None:
            return self
        if self._totals is None:
            return other
        self._totals = [
            rule[0](left, right)
            for rule, left, right in zip(self._rules, self._totals, other._totals, strict=True)
        ]
        return self

    def finish(self, to_host: Callable[[Any], np.ndarray] = np.asarray, dtype: Any = np.float64) -> Any:
        """Return the sums on the host, finished; arrays in float64, or in their own dtype if ``dtype`` is None."""
        if self._totals is None:
            return None
        values = []
        for total, (_, finish) in zip(self._totals, self._rules, strict=True):
            if isinstance(total, Accumulator):
                value = total.finish(to_host, dtype)
            elif isinstance(total, list):
                value = [to_host(part) for part in total]
            elif isinstance(total, tuple):  # parts that are summed in ``finish``
                value = total
            else:
                value = np.asarray(to_host(total), dtype=dtype)
            value = value if finish is None else finish(value)
            values.append(value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value)
        return values[0] if self._single else tuple(values)


def total(term: Term, dtype: Any = np.float64) -> Any:
    """Return the value of a single term, whose block contains all rows; in its own dtype if ``dtype`` is None."""
    sums = Accumulator()
    sums.add(term)
    return sums.finish(dtype=dtype)


def is_small(multiplications: int) -> bool:
    """Return whether SciPy's product is best for this size."""
    return multiplications < _SMALL_PRODUCT


@dataclass(eq=False)
class DenseTransposed(Term):
    """X'H of dense rows, added into the worker's (d, k) total by one BLAS call."""

    X: np.ndarray
    H: np.ndarray

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum."""
        if total is None:
            return self.X.T @ self.H
        total += self.X.T @ self.H
        return total


@dataclass(eq=False)
class DenseGram(Term):
    """X'X of dense rows, one triangle added into the worker's (d, d) total in place."""

    X: np.ndarray

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


@dataclass(eq=False)
class CSRTransposed(Term):
    """X'H of sparse rows, scattered into the worker's (d, k) total."""

    block: Any
    H: np.ndarray

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum."""
        block, H = self.block, self.H
        if is_small(block.n_values * H.shape[1]):
            product = block.raw.T @ H
            if total is None:
                return product
            total += product
            return total
        from labelfold.rows import _sparse_products as sparse_products

        if total is None and "column_copy" in vars(block):  # from an earlier product
            columns = block.column_copy
            return sparse_products.csr_product(columns.data, columns.indices, columns.indptr, H)
        if total is None:
            total = np.zeros((block.shape[1], *H.shape[1:]), dtype=block.dtype)
        sparse_products.csr_scatter(block.data, block.indices, block.indptr, H, total)
        return total


@dataclass(eq=False)
class CSRGram(Term):
    """X'X of sparse rows, one triangle scattered into the worker's (d, d) total."""

    block: Any

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum."""
        block = self.block
        if is_small(block.n_values * block.shape[1]):
            product = (block.raw.T @ block.raw).toarray()
            if total is None:
                return product
            total += product
            return total
        from labelfold.rows import _sparse_products as sparse_products

        if total is None:
            total = np.zeros((block.shape[1], block.shape[1]), dtype=block.dtype)
        sparse_products.csr_gram(block.data, block.indices, block.indptr, total)
        return total

    @staticmethod
    def finish(total: np.ndarray) -> np.ndarray:
        """Return both triangles."""
        return mirror(total)


@dataclass(eq=False)
class Triangle(Term):
    """The triangular factor of all rows stacked. Factors are "added" by factoring them one above the other."""

    rows: np.ndarray

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
    R = lapack.dgeqrf(np.array(A, order="F"), lwork=int(lapack.dgeqrf_lwork(*A.shape)[0]), overwrite_a=1)[0]
    return np.triu(R[: min(A.shape)])


def only_column(sums: tuple[Any, ...]) -> np.ndarray:
    """Return the vector that was summed up as a column."""
    return sums[0][:, 0]


def unshift(sums: tuple[Any, ...], center: np.ndarray) -> np.ndarray:
    """Return X'H - a (u'H) from X'H and u'H."""
    product, weights = sums
    if product.ndim == 1:
        return product - center * weights
    return add_product(product, -center[:, None], weights[None, :])


def unshift_squares(sums: tuple[Any, ...], center: np.ndarray) -> np.ndarray:
    """Return the squared norms of shifted columns from those of X, X'u and u'u."""
    squares, product, weight = sums
    return np.maximum(squares - 2 * center * product + weight * center**2, 0.0)


def unshift_gram(sums: tuple[Any, ...], center: np.ndarray) -> np.ndarray:
    """Return the Gram matrix of shifted rows from that of X, X'u and u'u."""
    gram, product, weight = sums
    cross = product[:, 0] - weight / 2 * center
    return add_product(gram, -np.stack([cross, center], axis=1), np.stack([center, cross]))


def add_product(A: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return A + left @ right, written over A, since A may fill most of the memory.

    If the factors have a higher precision than A, the product is computed in it, and the sum is rounded once.
    """
    A = np.require(A, requirements="W")
    if A.flags.c_contiguous and A.dtype.char in "fd" and np.result_type(left, right) == A.dtype:
        if A.size and right.size:
            # BLAS takes the transposed arrays, which are in Fortran order.
            right, left = (np.ascontiguousarray(factor, dtype=A.dtype) for factor in (right, left))
            get_blas_funcs("gemm", (A,))(1.0, right.T, left.T, beta=1.0, c=A.T, overwrite_c=True)
        return A
    for start in range(0, len(A), 256):
        here = slice(start, start + 256)
        A[here] += left[here] @ right
    return A


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


@dataclass(eq=False)
class WidenedTransposed(Term):
    """X'H in float64, ``step`` rows at a time: a copy of all rows would leave the cache."""

    X: np.ndarray
    H: np.ndarray
    step: int

    def add(self, total: np.ndarray | None) -> np.ndarray:
        """Add the block's sum.

        >>> X, H = np.eye(2, dtype=np.float32), np.array([[3.0], [4.0]])
        >>> WidenedTransposed(X, H, 1).add(None)
        array([[3.],
               [4.]])
        """
        m, d = self.X.shape
        total = np.zeros((d, *self.H.shape[1:])) if total is None else total
        copied = np.empty((min(m, self.step), d))
        for start in range(0, m, self.step):
            some = slice(start, start + self.step)
            own = copied[: m - start]
            own[...] = self.X[some]
            total += own.T @ self.H[some]
        return total
