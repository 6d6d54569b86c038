"""A pass over blocks that this process can read by position."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from threading import Event, Lock
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import Block, CSRBlock, DenseBlock, dense_block_rows
from labelfold.rows._rows import RowFunction, Rows, result_and_sums
from labelfold.rows._sums import Accumulator

# Bytes of the entries in a block of sparse rows, and its smallest number of rows.
SPARSE_BYTES, SPARSE_ROWS = 8_000_000, 4096
# Attribute of a Dask array: the name that the array had when workers found all its values finite. (Assignment to an
# array changes its name, so the check is then repeated.)
KNOWN_FINITE = "_labelfold_finite"


class RowResults:
    """The row results of a pass, written to their rows as blocks finish."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.values: Any = None  # of all rows; None until a block has some
        self._lock = Lock()

    def store(self, start: int, stop: int, result: Any) -> None:
        """Store the results of rows ``start`` to ``stop``."""
        check_results(result, stop - start)
        with self._lock:
            if self.values is None:
                self.values = np.empty((self.n_rows, *result.shape[1:]), dtype=result.dtype)
        self.values[start:stop] = result


class LocalRows(Rows):
    """Rows cut into blocks by position. An adapter defines the cuts and reads a block."""

    # The most blocks that are processed at the same time; None for as many as there are threads.
    max_workers: int | None = None
    # Holds the row results of a pass.
    results: ClassVar[type[RowResults]] = RowResults

    def cuts(self) -> np.ndarray:
        """Return the block boundaries, ascending, from 0 to n."""
        raise NotImplementedError

    def block(self, start: int, stop: int) -> Block:
        """Return rows ``start`` to ``stop``."""
        raise NotImplementedError

    def reader(self) -> Callable[[int, int], Block]:
        """Return a function that reads a block for one worker of a pass; the block is valid until the next one."""
        return self.block

    def sweep(
        self,
        f: RowFunction,
        *aligned: Any,
        shared: tuple[Any, ...] = (),
        most_rows: int | None = None,
        returns: str = "both",
    ) -> tuple[Any, Any]:
        """Make one pass over X: contiguous slabs in threads, merged in order."""
        self.n_passes += 1
        aligned = tuple(self.put(check_aligned(a, self.shape[0])) for a in aligned)
        shared = self.share(shared)
        results = self.results(self.shape[0])

        def run(slab: list[tuple[int, int]], stop: Event) -> Accumulator:
            sums, block = Accumulator(), self.reader()
            for a, b in slab:
                if stop.is_set():
                    break
                made = f(block(a, b), *(h[a:b, ...] for h in aligned), *shared)
                result, partial = result_and_sums(made, returns)
                if result is not None:
                    results.store(a, b, result)
                sums.add(partial)
            return sums

        blocks = blocks_between(self.cuts(), most_rows)
        # The slabs depend only on the blocks and the number of threads, so that results are reproducible.
        ends = threads.even_ends(
            len(blocks), max(1, min(self.max_workers or threads.n_threads(), len(blocks)))
        )
        sums = reduce(Accumulator.merge, threads.run_jobs(run, [blocks[a:b] for a, b in pairwise(ends)]))
        return results.values, sums.finish(self.get)


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

    def reader(self) -> Callable[[int, int], CSRBlock]:
        """Return a function that reads a block for one worker of a pass."""
        return self.block

    def block(self, start: int, stop: int) -> CSRBlock:
        """Return rows ``start`` to ``stop``: views, unless the dtype must change."""
        return CSRBlock.of(self.X, start, stop, self.dtype)

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


def _check_finite_csr(X: Any, first_row: int) -> None:
    if all_finite(X):
        return
    at = int(np.flatnonzero(~np.isfinite(X.data))[0])
    row = int(np.searchsorted(X.indptr, at, side="right")) - 1
    raise not_finite(X.data[at], first_row + row, int(X.indices[at]))


def check_results(result: Any, n_rows: int) -> None:
    """Raise an error if there is not one result for each row of a block."""
    if result.shape[0] != n_rows:
        raise ValueError(
            f"a row function returned {result.shape[0]} results for a block of {n_rows} rows; "
            "it must return one for each row"
        )


def blocks_between(cuts: np.ndarray, most_rows: int | None = None) -> list[tuple[int, int]]:
    """Return the first row and the end of each block, in smaller blocks where they would have too many rows.

    >>> blocks_between(np.array([0, 4, 4, 5]), most_rows=2)
    [(0, 2), (2, 4), (4, 5)]
    """
    if most_rows is not None:
        cuts = np.concatenate([*(a + even_cuts(b - a, most_rows)[:-1] for a, b in pairwise(cuts)), cuts[-1:]])
    return [(a, b) for a, b in pairwise(cuts.tolist()) if b > a]


def even_cuts(n_rows: int, rows_per_block: int) -> np.ndarray:
    """Return boundaries that cut n rows into nearly equal blocks of at most the given size."""
    n_blocks = max(1, -(-n_rows // max(1, int(rows_per_block))))
    return np.array(threads.even_ends(n_rows, n_blocks), dtype=np.int64)


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
    if all_finite(X):
        return
    row, column = map(int, np.argwhere(~np.isfinite(X))[0])
    name = number[row] if isinstance(number, np.ndarray) else number + row
    raise not_finite(X[row, column], int(name), column)


def all_finite(values: Any) -> bool:
    """Return whether all values that an array stores are finite; True for anything but an array of floats."""
    if getattr(getattr(values, "dtype", None), "kind", "") != "f":
        return True
    if sparse.issparse(values):
        values = values.data
    if not isinstance(values, np.ndarray) or values.ndim == 0:
        known = getattr(values, "__dict__", {}).get(KNOWN_FINITE)
        if known is not None and known == values.name:
            return True
        return bool(np.isfinite(values).all())  # those of a Dask array are checked by the workers

    values = np.asarray(values)  # not a matrix, whose products and rows are matrices

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
