"""A pass over blocks that this process can read by position."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from threading import Event, Lock
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import Block, CSRBlock, DenseBlock
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows._sums import Accumulator

# Sizes of blocks. A block should fit into the cache of a core, and have enough rows to outweigh adding its sums.
DENSE_BYTES = 2 << 20
DENSE_ROWS = 256
DENSE_MOST_BYTES = 32 << 20
SPARSE_BYTES = 8 << 20
SPARSE_ROWS = 4096
# The attribute of a Dask array with its name, if workers have found all values of the array of this name finite. (An
# array that is assigned to gets another name.)
KNOWN_FINITE = "_labelfold_finite"


class LocalRows(Rows):
    """Rows cut into blocks by position. An adapter defines the cuts and reads a block."""

    def cuts(self) -> np.ndarray:
        """Return the block boundaries, ascending, from 0 to n."""
        raise NotImplementedError

    def block(self, start: int, stop: int) -> Block:
        """Return rows ``start`` to ``stop``."""
        raise NotImplementedError

    @contextmanager
    def reading(self) -> Iterator[Callable[[int, int], Block]]:
        """Provide `block` for one worker of a pass. A block is valid until the worker asks for the next one."""
        yield self.block

    def n_workers(self) -> int:
        """Return the number of blocks that may be processed at the same time."""
        return threads.n_threads()

    def share(self, values: tuple) -> tuple:
        """Return values that every block needs, in the form that blocks need."""
        return tuple(match_dtype(value, self.dtype) for value in values)

    def mapped(self) -> Mapped:
        """Return an empty container for row results."""
        return Mapped(self.shape[0])

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass over X: contiguous slabs in threads, merged in order."""
        self.n_passes += 1
        aligned = tuple(self.put(check_aligned(a, self.shape[0])) for a in aligned)
        shared = self.share(shared)
        mapped = self.mapped()

        def run(slab: list[tuple[int, int]], stop: Event) -> Accumulator:
            sums = Accumulator()
            with self.reading() as block:
                for a, b in slab:
                    if stop.is_set():
                        break
                    result, partial = f(block(a, b), *(h[a:b, ...] for h in aligned), *shared)
                    mapped.store(a, b, result)
                    sums.add(partial)
            return sums

        sums = merge(threads.run_jobs(run, slabs(limit(self.cuts(), most_rows), self.n_workers())))
        return mapped.result(), sums.finish(self.get)


class DenseRows(LocalRows):
    """Rows of a NumPy array."""

    in_memory = True

    def __init__(self, X: np.ndarray, first_row: int = 0, checked: bool = False) -> None:
        self.X = X
        self.shape = X.shape
        self.dtype = floating(X.dtype)
        if not checked:
            check_finite(X, first_row)

    def cuts(self) -> np.ndarray:
        """Return the block boundaries."""
        return even_cuts(self.shape[0], dense_block_rows(self.row_bytes()))

    def block(self, start: int, stop: int) -> DenseBlock:
        """Return rows ``start`` to ``stop``: a view, unless the dtype must change."""
        return DenseBlock(self.X[start:stop].astype(self.dtype, copy=False))

    def whole(self) -> Block:
        """Return all the rows as one block."""
        return self.block(0, self.shape[0])

    def take(self, index: np.ndarray) -> DenseRows:
        """Return the rows at ``index``."""
        return DenseRows(self.X[np.asarray(index)])

    def row_bytes(self) -> float:
        """Return the bytes of one row."""
        return max(1, self.shape[1]) * self.dtype.itemsize


class CSRRows(LocalRows):
    """Rows of a SciPy CSR matrix or array."""

    in_memory = True
    is_sparse = True

    def __init__(self, X: Any, first_row: int = 0, checked: bool = False) -> None:
        if not X.has_canonical_format:
            # Repeated entries must be summed, and only sorted rows are known to have none.
            tidy = X.copy()
            tidy.sum_duplicates()
            X = tidy
        self.X = X
        self.shape = X.shape
        self.dtype = floating(X.dtype)
        self._columns: tuple | None = None
        self._keeps_columns = False
        if not checked:
            _check_finite_csr(X, first_row)

    def cuts(self) -> np.ndarray:
        """Return boundaries of blocks with about the same number of stored values."""
        bytes_each = self.dtype.itemsize + self.X.indices.itemsize
        n_blocks = round(self.X.nnz * bytes_each / SPARSE_BYTES)
        n_blocks = min(n_blocks, self.shape[0] // SPARSE_ROWS)
        # Every thread gets a block if its share of the work outweighs merging one more (d, k) sum.
        n_threads = threads.n_threads()
        n_blocks = max(1, n_blocks, min(n_threads, self.X.nnz // max(1, 4 * self.shape[1])))
        if n_blocks > n_threads:
            n_blocks += -n_blocks % n_threads  # the same number for each thread
        targets = np.linspace(0, self.X.nnz, n_blocks + 1)[1:-1]
        inner = np.searchsorted(self.X.indptr, targets)
        return np.concatenate([[0], inner, [self.shape[0]]]).astype(np.int64)

    def sweep(
        self, f: RowFunction, *aligned: Any, shared: tuple = (), most_rows: int | None = None
    ) -> tuple[Any, Any]:
        """Make one pass over X."""
        # With the transpose, a sum over each column gathers from an array of n rows. Without it, the sum scatters
        # into an array of d rows. Chunks of other adapters are not swept, and so do not store a transpose.
        self._keeps_columns = self.shape[1] > self.shape[0] // 2
        return super().sweep(f, *aligned, shared=shared, most_rows=most_rows)

    def block(self, start: int, stop: int) -> CSRBlock:
        """Return rows ``start`` to ``stop``: views, unless the dtype must change."""
        block = CSRBlock.of(self.X, start, stop, self.dtype)
        if self._keeps_columns:
            block.transpose = (self.columns, start)
        return block

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the transpose, X by columns, computed on first use: its values, row indices and boundaries."""
        if self._columns is None:
            X = self.X.tocsc()
            self._columns = (X.data.astype(self.dtype, copy=False), X.indices, X.indptr)
        return self._columns

    def whole(self) -> Block:
        """Return all the rows as one block."""
        return self.block(0, self.shape[0])

    def take(self, index: np.ndarray) -> CSRRows:
        """Return the rows at ``index``."""
        return CSRRows(self.X[np.asarray(index)])

    def row_bytes(self) -> float:
        """Return the bytes of an average row."""
        bytes_each = self.dtype.itemsize + self.X.indices.itemsize
        return self.X.nnz / max(1, self.shape[0]) * bytes_each + self.X.indptr.itemsize


def memory_rows(X: Any, first_row: int = 0, checked: bool = False) -> DenseRows | CSRRows:
    """Return rows of a NumPy array, a SciPy sparse matrix or array of any format, or nested lists.

    ``first_row`` is the number of the first row in error messages. ``checked`` if all values are known to be finite.
    """
    if sparse.issparse(X):
        check_two_dimensional(X.ndim)
        return CSRRows(X.tocsr(), first_row, checked)
    try:
        X = np.asarray(X)
    except ValueError as problem:
        raise ValueError(
            "X holds rows of unequal length, where two dimensions are expected: rows and columns; "
            "give every row the same columns"
        ) from problem
    check_two_dimensional(X.ndim)
    return DenseRows(X, first_row, checked)


def stacked_rows(pieces: Sequence[Any], order: np.ndarray, n_columns: int, dtype: np.dtype) -> Rows:
    """Return taken pieces as rows; ``order`` has the position among the requested rows of each stacked row."""
    if not pieces:
        pieces = [np.empty((0, n_columns), dtype=dtype)]
    stack = sparse.vstack(pieces, format="csr") if any(map(sparse.issparse, pieces)) else np.vstack(pieces)
    rows = memory_rows(stack[np.argsort(order, kind="stable")])
    rows.dtype = dtype
    return rows


def dense_block_rows(row_bytes: float) -> int:
    """Return the number of dense rows of a good block."""
    rows = max(DENSE_BYTES // row_bytes, DENSE_ROWS)
    return int(max(1, min(rows, DENSE_MOST_BYTES // row_bytes)))


def _check_finite_csr(X: Any, first_row: int) -> None:
    if X.dtype.kind != "f" or all_finite(X.data):
        return
    at = int(np.flatnonzero(~np.isfinite(X.data))[0])
    row = int(np.searchsorted(X.indptr, at, side="right")) - 1
    raise not_finite(X.data[at], first_row + row, int(X.indices[at]))


class Mapped:
    """The row results of a pass, written to their rows as blocks finish."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self._value: Any = None
        self._lock = Lock()

    def store(self, start: int, stop: int, result: Any) -> None:
        """Store the results of rows ``start`` to ``stop``, if there are any."""
        if result is None:
            return
        if result.shape[0] != stop - start:
            raise ValueError(
                f"a row function returned {result.shape[0]} results for a block of {stop - start} rows; "
                "it must return one for each row"
            )
        self.write(start, stop, result)

    def write(self, start: int, stop: int, result: Any) -> None:
        """Write checked results to their rows."""
        with self._lock:
            if self._value is None:
                self._value = np.empty((self.n_rows, *result.shape[1:]), dtype=result.dtype)
        self._value[start:stop] = result

    def result(self) -> Any:
        """Return the results of all rows; None if there are none."""
        return self._value


def slabs(cuts: np.ndarray, n_workers: int) -> list[list[tuple[int, int]]]:
    """Return the blocks in contiguous runs, one for each worker; they depend only on the cuts and that number."""
    blocks = [(a, b) for a, b in pairwise(cuts.tolist()) if b > a]
    if min(n_workers, len(blocks)) == 1:
        return [blocks]
    ends = np.linspace(0, len(blocks), min(n_workers, len(blocks)) + 1).round().astype(int)
    return [blocks[a:b] for a, b in pairwise(ends)]


def merge(sums: Iterable[Accumulator]) -> Accumulator:
    """Merge the sums of workers, in their order."""
    total = Accumulator()
    for one in sums:
        total = total.merge(one)
    return total


def even_cuts(n_rows: int, rows_per_block: int) -> np.ndarray:
    """Return boundaries that cut n rows into nearly equal blocks of at most the given size."""
    n_blocks = max(1, -(-n_rows // max(1, int(rows_per_block))))
    if n_blocks == 1:
        return np.array([0, n_rows], dtype=np.int64)
    return np.linspace(0, n_rows, n_blocks + 1).round().astype(np.int64)


def limit(cuts: np.ndarray, most_rows: int | None) -> np.ndarray:
    """Return the boundaries, with further ones for blocks that would have too many rows."""
    if most_rows is None:
        return cuts
    pieces = [a + even_cuts(b - a, most_rows)[:-1] for a, b in pairwise(cuts) if b > a]
    return np.concatenate([*pieces, cuts[-1:]])


def match_dtype(value: Any, dtype: np.dtype) -> Any:
    """Return a floating NumPy array in the dtype of X; other values unchanged."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.astype(dtype, copy=False)
    return value


def check_aligned(a: Any, n_rows: int) -> Any:
    """Return ``a`` if it has one entry per row."""
    if a.shape[0] != n_rows:
        raise ValueError(
            f"an aligned array has {a.shape[0]} entries for {n_rows} rows; it must have one for each row"
        )
    return a


def floating(dtype: Any) -> np.dtype:
    """Return the floating dtype for computations with data of this dtype: float32, or else float64."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fiub":
        raise ValueError(
            f"X holds {dtype} values, where real numbers are expected; convert or drop those columns"
        )
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)


def check_two_dimensional(ndim: int) -> None:
    """Raise a ValueError for anything but a matrix."""
    if ndim != 2:
        raise ValueError(
            f"X has {ndim} dimension{'s' * (ndim != 1)}, where two are expected: rows and columns; "
            "reshape a single column with X.reshape(-1, 1), a single row with X.reshape(1, -1)"
        )


def check_finite(X: np.ndarray, number: int | np.ndarray) -> None:
    """Raise a ValueError that names the first row of a dense block with NaN or infinity.

    ``number`` is the number of the first row, or of each row, in the message.
    """
    if X.dtype.kind != "f" or all_finite(X):
        return
    row, column = map(int, np.argwhere(~np.isfinite(X))[0])
    name = number[row] if isinstance(number, np.ndarray) else number + row
    raise not_finite(X[row, column], int(name), column)


def all_finite(values: Any) -> bool:
    """Return whether all values are finite."""
    if not isinstance(values, np.ndarray) or values.ndim == 0:
        known = getattr(values, "__dict__", {}).get(KNOWN_FINITE)
        if known is not None and known == values.name:
            return True
        return bool(np.isfinite(values).all())  # those of a Dask array are looked at by the workers

    values = np.asarray(values)

    def finite(piece: slice) -> bool:
        # A finite sum has finite terms. It is faster to compute, and a sum of squares by BLAS is the fastest.
        own = values[piece]
        flat = own.reshape(-1) if own.flags.c_contiguous and own.dtype.char in "fd" else None
        total = own.sum() if flat is None else flat @ flat
        return bool(np.isfinite(total) or np.isfinite(own).all())

    with np.errstate(over="ignore", invalid="ignore"), threads.single_blas():
        return all(threads.each_piece(finite, len(values), math.prod(values.shape[1:])))


def not_finite(value: float, row: int, column: int) -> ValueError:
    """Return the error for a value that is not a finite number."""
    what = "NaN" if np.isnan(value) else "infinity"
    return ValueError(
        f"X contains {what} at row {row}, column {column} (counted from 0), where finite numbers are expected; "
        "impute or drop such rows or columns first, for instance with sklearn.impute.SimpleImputer."
    )
