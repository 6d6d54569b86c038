"""The temporary file that holds the rows of a decoded file, so that later passes only read numbers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.rows._protocol import Rows
from labelfold.rows.adapters._memory import memory_rows
from labelfold.rows.adapters._stream import FileCSRRows, FileRows

# Types in which column indices and values of sparse rows are stored, where they hold them exactly.
_NARROW_INDICES, _NARROW_VALUES = (np.uint16,), (np.uint8, np.float32)


class Cache:
    """Rows in a temporary file: dense blocks, or sparse ones.

    The file is in the folder that ``TMPDIR`` names. It has no name of its own, so no other process can read it half
    written, and the system removes it when the rows are no longer used or the process ends, for whatever reason.

    Parameters
    ----------
    source : path
        The file that is decoded, for messages.
    """

    def __init__(self, source: Any) -> None:
        self.source, self.n_bytes = source, 0
        self.file: Any = None
        self.dtype: Any = None
        self.starts = [0]
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        self.kinds: list[tuple[np.dtype, np.dtype]] = []

    def expect(self, n_bytes: float, free: int | None = None) -> None:
        """Raise an error if there is no room for this many bytes; ``free`` is the room that was measured before."""
        free = _room() if free is None else free
        if n_bytes > free:
            self.close()
            raise self._no_room(f"needs {_said(n_bytes)} there and finds {_said(free)}")

    def keep(self, X: Any, times: float) -> None:
        """Append rows, checked to be finite; after the first, check that there is room for so many times as much."""
        free = _room() if len(self.starts) == 1 else None
        self.add(memory_rows(X, first_row=self.starts[-1]).X)
        if free is not None:
            self.expect(self.n_bytes * times, free)

    def add(self, X: Any) -> None:
        """Append dense rows, or sparse ones as a block."""
        self.starts.append(self.starts[-1] + X.shape[0])
        self.dtype = X.dtype
        if not sparse.issparse(X):
            self.write(X)
            return
        self.offsets.append(self.n_bytes)
        self.sizes.append(X.nnz)
        indices = narrowed(X.indices.astype(np.int32, copy=False), _NARROW_INDICES)
        data = narrowed(X.data, _NARROW_VALUES)
        self.kinds.append((indices.dtype, data.dtype))
        for part in (X.indptr.astype(np.int32, copy=False), indices, data):
            self.write(part)

    def write(self, array: np.ndarray, at: int | None = None) -> None:
        """Write the bytes of an array, at the end or at a place."""
        view = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        try:
            if self.file is None:
                self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the rows close it
            self.file.seek(self.n_bytes if at is None else at)
            while len(view):
                view = view[self.file.write(view) :]
        except OSError as error:
            self.close()
            raise self._no_room(f"cannot write there ({error.strerror})") from error
        self.n_bytes = max(self.n_bytes, self.file.tell())

    def close(self) -> None:
        """Remove the file."""
        if self.file is not None:
            self.file.close()

    def rows(self, n_columns: int | None, *, first_column: int = 0, checked: bool = True) -> Rows:
        """Return the rows, which close the file in the end.

        Parameters
        ----------
        n_columns : int or None
        first_column : int
            The index of the first column in sparse rows.
        checked : bool
            Whether dense rows are known to be finite.
        """
        if n_columns is None or not self.starts[-1]:
            raise ValueError(
                f"{self.source} holds no rows, where at least one row is expected; give it some rows"
            )
        shape = (self.starts[-1], n_columns)
        if not self.offsets:
            return FileRows(self.file, shape, self.dtype, checked=checked)
        starts, offsets, sizes = map(np.array, (self.starts, self.offsets, self.sizes))
        return FileCSRRows(self.file, shape, self.dtype, starts, offsets, sizes, self.kinds, first_column)

    def _no_room(self, why: str) -> OSError:
        return OSError(
            f"{self.source} is decoded to a temporary file in {tempfile.gettempdir()}, but labelfold {why}; name a "
            "folder with more room by the environment variable TMPDIR"
        )


def _room() -> int:
    """Return the free bytes in the folder of temporary files."""
    return shutil.disk_usage(tempfile.gettempdir()).free


def narrowed(values: np.ndarray, kinds: Sequence[type]) -> np.ndarray:
    """Return the values in the first narrower type that holds all of them exactly, or else as they are.

    >>> narrowed(np.array([1.0, 255.0]), (np.uint8, np.float32)).dtype
    dtype('uint8')
    >>> narrowed(np.array([1.0, 0.1]), (np.uint8, np.float32)).dtype
    dtype('float64')
    """
    for kind in kinds:
        is_whole = np.dtype(kind).kind == "u"
        if np.dtype(kind).itemsize < values.itemsize and (is_whole or values.dtype.kind == "f"):
            with np.errstate(invalid="ignore", over="ignore"):
                found: np.ndarray = values.astype(kind)
            if (found == values).all():
                return found
    return values


def _said(n_bytes: float) -> str:
    """Return a size in words.

    >>> _said(3.2e9), _said(5e4)
    ('3,200 MB', '1 MB')
    """
    return f"{max(1, round(n_bytes / 1e6)):,} MB"
