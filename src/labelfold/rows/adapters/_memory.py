"""Rows in memory: NumPy arrays and SciPy CSR matrices and arrays, cut into blocks without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import Block, CSRBlock, DenseBlock
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows.adapters._local import (
    LocalRows,
    all_finite,
    check_finite,
    check_two_dimensional,
    even_cuts,
    floating,
    not_finite,
)

# Sizes of blocks. A block should fit into the cache of a core, and have enough rows to outweigh adding its sums.
DENSE_BYTES = 2 << 20
DENSE_ROWS = 256
DENSE_MOST_BYTES = 32 << 20
SPARSE_BYTES = 8 << 20
SPARSE_ROWS = 4096


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
