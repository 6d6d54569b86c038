"""The cells of a table as text: one row, a search, and digests of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.app.io._extras import pa, pc
from labelfold.tables import written

# Number of characters shown of a cell, and number of columns that are searched.
_LONGEST, _SEARCHED = 20_000, 200
_AT_ONCE = 10_000  # rows whose digests are computed at once


class Cells:
    """The rows of a table, one at a time.

    Parameters
    ----------
    raw : pyarrow.Table, Blocks, ndarray or csr_array of shape (n, d)
        As `Table.raw` holds them. Blocks are read into memory.
    names : sequence of str, or None
        Names of the columns.
    """

    def __init__(self, raw: Any, names: Sequence[str] | None = None) -> None:
        if hasattr(raw, "sample"):  # read a block at a time
            raw = pa.concat_tables(raw.read(raw.column_names))
        self.raw, self._table = raw, hasattr(raw, "column_names")
        self.n, self.d = raw.shape
        if self._table:
            names = raw.column_names
        self.names = [str(name) for name in names] if names is not None else None

    def name(self, j: int) -> str:
        """Return the name of a column."""
        return f"column {j + 1}" if self.names is None else self.names[j]

    def row(self, i: int, columns: Sequence[int] | None = None) -> list[tuple[int, str]]:
        """Return (column, text) for each cell of a row; for a sparse matrix only for the cells that are not 0.

        Parameters
        ----------
        i : int
        columns : sequence of int, optional
            Columns to return; all by default.
        """
        if sp.issparse(self.raw):
            part = self.raw[[i]]
            held = dict(zip(part.indices.tolist(), part.data.tolist(), strict=True))
            return [(j, f"{held[j]:.6g}") for j in (held if columns is None else columns) if j in held]
        chosen = range(self.d) if columns is None else columns
        if self._table:
            texts = (written(self.raw.column(j).slice(i, 1))[0].as_py() for j in chosen)
            return [(j, (text or "")[:_LONGEST]) for j, text in zip(chosen, texts, strict=True)]
        values = (float(self.raw[i, j]) for j in chosen)
        return [(j, "" if np.isnan(v) else f"{v:.6g}") for j, v in zip(chosen, values, strict=True)]

    def digests(self, rows: Sequence[int] | np.ndarray | None = None) -> list[str]:
        """Return a digest of 16 hexadecimal digits for each row.

        Parameters
        ----------
        rows : sequence of int, optional
            Rows to digest; all by default.
        """
        chosen = np.arange(self.n) if rows is None else np.asarray(rows, dtype=np.int64)
        found: list[str] = []
        for start in range(0, len(chosen), _AT_ONCE):
            some = self._held(chosen[start : start + _AT_ONCE])
            found += [hashlib.blake2b(held, digest_size=8).hexdigest() for held in some]
        return found

    def _held(self, rows: np.ndarray) -> Iterator[bytes]:
        """Yield the content of some rows as bytes."""
        if self._table:
            # one text for each row; the marks between cells and for missing cells are unlikely to occur in a cell
            columns = [written(column) for column in self.raw.take(rows).columns]
            joined = pc.binary_join_element_wise(
                *columns, "\x1f", null_handling="replace", null_replacement="\x00"
            )
            yield from (text.encode() for text in joined.to_pylist())
        elif sp.issparse(self.raw):
            for i in rows:
                part = self.raw[[i]]
                order = np.argsort(part.indices, kind="stable")
                kept = order[part.data[order] != 0]
                yield part.indices[kept].astype("<i8").tobytes() + part.data[kept].astype("<f8").tobytes()
        else:
            yield from (row.tobytes() for row in np.asarray(self.raw[rows], dtype="<f8"))

    def fingerprint(self) -> str:
        """Return a digest of the number of rows, the names of columns and 500 evenly spaced rows."""
        digest = hashlib.blake2b(repr((self.n, self.d, self.names)).encode(), digest_size=6)
        for one in self.digests(np.unique(np.linspace(0, self.n - 1, 500).astype(int))):
            digest.update(one.encode())
        return digest.hexdigest()

    def holding(self, text: str, columns: Sequence[int] | None = None) -> np.ndarray:
        """Return a mask (n,) of the rows with a cell that contains a text, ignoring case. All False for a matrix.

        Parameters
        ----------
        text : str
        columns : sequence of int, optional
            Columns to search; the first 200 by default.
        """
        found = np.zeros(self.n, dtype=bool)
        if not self._table:
            return found
        for j in (range(self.d) if columns is None else columns)[:_SEARCHED]:
            there = pc.match_substring(written(self.raw.column(j)), text, ignore_case=True)
            found |= there.fill_null(False).to_numpy().astype(bool)
        return found
