"""The cells of a table as people see them: one row as text, a search, and a digest of what a row holds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.tables._arrow import written

# A cell is shown up to so many characters; a search looks at so many columns.
_LONGEST, _SEARCHED = 20_000, 200


class Cells:
    """The rows of a table, one at a time.

    Parameters
    ----------
    raw : pyarrow.Table, Blocks, ndarray or csr_array of shape (n, d)
        As `Table.raw` holds them. Blocks are read into memory.
    names : sequence of str, or None
        What the columns are called.
    """

    def __init__(self, raw: Any, names: Sequence[str] | None = None) -> None:
        if hasattr(raw, "sample"):  # read a block at a time
            import pyarrow as pa

            raw = pa.concat_tables(raw.read(raw.column_names))
        self.raw, self._table = raw, hasattr(raw, "column_names")
        self.n, self.d = raw.shape
        if self._table:
            names = raw.column_names
        self.names = [str(name) for name in names] if names is not None else None

    def name(self, j: int) -> str:
        """Return what a column is called."""
        return f"column {j + 1}" if self.names is None else self.names[j]

    def row(self, i: int, columns: Sequence[int] | None = None) -> list[tuple[int, str]]:
        """Return cells of a row as text with their columns; of a sparse matrix those that are not 0.

        Parameters
        ----------
        i : int
        columns : sequence of int, optional
            Which ones; all unless given.
        """
        if self._table:
            chosen = range(self.d) if columns is None else columns
            cells = ((j, written(self.raw.column(j).slice(i, 1))[0].as_py()) for j in chosen)
            return [(j, (cell or "")[:_LONGEST]) for j, cell in cells]
        if sp.issparse(self.raw):
            part = self.raw[[i]]
            held = dict(zip(part.indices.tolist(), part.data.tolist(), strict=True))
            return [(j, f"{held[j]:.6g}") for j in (held if columns is None else columns) if j in held]
        chosen = range(self.d) if columns is None else columns
        return [
            (j, "" if np.isnan(v) else f"{v:.6g}") for j, v in ((j, float(self.raw[i, j])) for j in chosen)
        ]

    def digest(self, i: int) -> str:
        """Return 16 hexadecimal digits that two rows share only where their cells are the same."""
        if self._table:
            held = repr([self.raw.column(j)[i].as_py() for j in range(self.d)]).encode()
        elif sp.issparse(self.raw):
            part = self.raw[[i]]
            order = np.argsort(part.indices, kind="stable")
            kept = order[part.data[order] != 0]
            held = part.indices[kept].astype("<i8").tobytes() + part.data[kept].astype("<f8").tobytes()
        else:
            held = np.asarray(self.raw[i], dtype="<f8").tobytes()
        return hashlib.blake2b(held, digest_size=8).hexdigest()

    def digests(self) -> list[str]:
        """Return the digest of every row."""
        if not self._table:
            return [self.digest(i) for i in range(self.n)]
        found = []
        for start in range(0, self.n, 10_000):
            columns = [column.to_pylist() for column in self.raw.slice(start, 10_000).columns]
            rows = (repr(list(cells)).encode() for cells in zip(*columns, strict=True))
            found += [hashlib.blake2b(row, digest_size=8).hexdigest() for row in rows]
        return found

    def fingerprint(self) -> str:
        """Return 12 hexadecimal digits of the number of rows, the names of columns and 500 evenly spaced rows."""
        digest = hashlib.blake2b(repr((self.n, self.d, self.names)).encode(), digest_size=6)
        for i in np.unique(np.linspace(0, self.n - 1, 500).astype(int)):
            digest.update(self.digest(int(i)).encode())
        return digest.hexdigest()

    def holding(self, text: str, columns: Sequence[int] | None = None) -> np.ndarray:
        """Tell which rows have a cell with some text in it, whatever its case; of a matrix none has.

        Parameters
        ----------
        text : str
        columns : sequence of int, optional
            Where to look; in the first 200 columns unless given.
        """
        found = np.zeros(self.n, dtype=bool)
        if not self._table:
            return found
        import pyarrow.compute as pc

        for j in (range(self.d) if columns is None else columns)[:_SEARCHED]:
            there = pc.match_substring(written(self.raw.column(j)), text, ignore_case=True)
            found |= there.fill_null(False).to_numpy().astype(bool)
        return found
