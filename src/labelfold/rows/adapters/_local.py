"""A pass over blocks that this process can read by position."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from threading import Event, Lock
from typing import Any

import numpy as np

from labelfold.rows import _threads as threads
from labelfold.rows._blocks import Block
from labelfold.rows._protocol import RowFunction, Rows
from labelfold.rows._sums import Accumulator

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
