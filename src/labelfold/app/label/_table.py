"""The table that is labelled: its cells as text, its matrix, and the labels it already has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.app.compare import as_matrix
from labelfold.app.io import FileProblem, Journal, Refusal, Table, count
from labelfold.rows import short_indices
from labelfold.tables import Recipe, pa, written

MAX_CLASSES = 1000  # a choice of presentation: classes that the page takes
_MAX_TEXT = 20_000  # a choice of presentation: characters shown of a cell
_MAX_SEARCHED = 200  # budget: columns in which a text is searched


@dataclass(frozen=True)
class TableToLabel:
    """A table to label.

    Attributes
    ----------
    name : str
        Name of the table.
    target : str
        Name of the target.
    table : Table
        The table as read.
    X : ndarray or csr_array of shape (n, d)
        The matrix of the rows.
    names : list of str, or None
        Names of the columns of X.
    recipe : Recipe or None
        The recipe that made X from the table.
    cells : Cells
        The rows as text.
    ids : DataFrame or None
        Id columns; no two rows have the same ids.
    given : list of str or None
        Labels of the table itself.
    image_shape : tuple of int, or None
        Height, width and channels, if all columns of X are pixels.
    images : list of Path, or None
        The file of each row, if rows are images.
    notes : list of str
        Sentences for the user.
    """

    name: str
    target: str
    table: Table
    X: Any
    names: list[str] | None
    recipe: Recipe | None
    cells: Cells
    ids: Any
    given: Sequence[str | None]
    image_shape: tuple[int, ...] | None = None
    images: list[Path] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def content(self) -> Cells:
        """All columns but the target, for the digests that recognise a row."""
        frame = self.table.frame
        if frame is None or self.table.images is not None:
            return self.cells
        return Cells(frame.select([name for name in frame.column_names if name != self.target]))

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.cells.n)

    def called(self, row: int) -> str:
        """Return the name of a row: its id, or its number from 1."""
        return f"row {row + 1}" if self.ids is None else ", ".join(map(str, self.ids.iloc[row]))


def prepare_table(
    table: Table,
    given: Sequence[str | None],
    *,
    name: str,
    target: str,
    recipe: Recipe | None = None,
    image_shape: tuple[int, ...] | None = None,
) -> TableToLabel:
    """Return a table prepared for labelling.

    The recipe is fitted with the labels of the table itself, to find a column that repeats the target. Later labels
    do not change the recipe, so X stays the same.

    Parameters
    ----------
    table : Table
    given : sequence of str or None
        The labels of the table.
    name, target : str
        Names of the table and of the target.
    recipe : Recipe, optional
        A recipe, perhaps with given roles of columns.
    image_shape : tuple of int, optional
        Height and width, and 3 in colour, if the columns are pixels.
    """
    if len({*given} - {None}) > MAX_CLASSES:
        raise Refusal(
            f"{target} has {len({*given} - {None}):,} different labels in {name}, and the page takes "
            f"{MAX_CLASSES:,} classes; name another --target."
        )
    known = None if all(label is None for label in given) else np.array(list(given), dtype=object)
    shape = image_shape or table.image_shape
    matrix = as_matrix(
        table.to_learn(),
        lambda n: known,
        recipe=recipe,
        images=bool(shape),
        feature_names=table.feature_names,
    )
    cells = Cells(table.raw, table.feature_names)
    ids, notes = _ids(table, matrix.recipe, cells), list(table.notes)
    if ids is not None and ids.astype(str).duplicated().any():
        notes.append(
            f"Some rows have the same {', '.join(map(str, ids))}, so that labels are kept by the number of the row."
        )
        ids = None
    return TableToLabel(
        name,
        target,
        table,
        short_indices(matrix.X),
        matrix.names,
        matrix.recipe,
        cells,
        ids,
        given,
        matrix.image_sides(shape),
        table.image_files,
        notes,
    )


def _ids(table: Table, recipe: Recipe | None, cells: Cells) -> Any:
    """Return the columns that name the rows: the given ones, or those that the recipe found."""
    if table.ids is not None:
        return table.ids.reset_index(drop=True)
    found = [] if recipe is None else [name for name in recipe.ids_ if name not in Journal.fields]
    return table.as_written(found) if found and hasattr(cells.raw, "select") else None


class Cells:
    """The rows of a table, one at a time.

    Parameters
    ----------
    raw : pyarrow.Table, Blocks, ndarray or csr_array of shape (n, d)
        As `Table.raw` holds them. Blocks are read into memory.
    names : sequence of str, or None
        Names of the columns.
    """

    raw: Any
    n: int
    d: int

    def __init__(self, raw: Any, names: Sequence[str] | None = None) -> None:
        if hasattr(raw, "sample"):  # read a block at a time
            raw = pa.concat_tables(raw.read(raw.column_names))
        self.raw, self._table, self._sparse = raw, hasattr(raw, "column_names"), sp.issparse(raw)
        self.n, self.d = raw.shape
        if self._table:
            names = raw.column_names
        self.names: list[str] | None = [str(name) for name in names] if names is not None else None

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
        if self._sparse:
            part = self.raw[[i]]
            held = dict(zip(part.indices.tolist(), part.data.tolist(), strict=True))
            return [(j, f"{held[j]:.6g}") for j in (held if columns is None else columns) if j in held]
        chosen = range(self.d) if columns is None else columns
        if self._table:
            texts = (written(self.raw.column(j).slice(i, 1))[0].as_py() for j in chosen)
            return [(j, (text or "")[:_MAX_TEXT]) for j, text in zip(chosen, texts, strict=True)]
        values = (float(self.raw[i, j]) for j in chosen)
        return [(j, "" if np.isnan(v) else f"{v:.6g}") for j, v in zip(chosen, values, strict=True)]

    def digests(self, rows: Sequence[int] | np.ndarray | None = None, at_once: int = 10_000) -> list[str]:
        """Return a digest of 16 hexadecimal digits for each row.

        Parameters
        ----------
        rows : sequence of int, optional
            Rows to digest; all by default.
        at_once : int, default=10_000
            Rows that are converted to text at once.
        """
        chosen = np.arange(self.n) if rows is None else np.asarray(rows, dtype=np.int64)
        found: list[str] = []
        for start in range(0, len(chosen), at_once):
            some = self._held(chosen[start : start + at_once])
            found += [hashlib.blake2b(held, digest_size=8).hexdigest() for held in some]
        return found

    def _held(self, rows: np.ndarray) -> Iterator[bytes]:
        """Yield the content of some rows as bytes."""
        if self._table:
            # one text for each row; the marks between cells and for missing cells are unlikely to occur in a cell
            columns = [written(column) for column in self.raw.take(rows).columns]
            joined = pa.compute.binary_join_element_wise(
                *columns, "\x1f", null_handling="replace", null_replacement="\x00"
            )
            yield from (text.encode() for text in joined.to_pylist())
        elif self._sparse:
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
        for j in (range(self.d) if columns is None else columns)[:_MAX_SEARCHED]:
            there = pa.compute.match_substring(written(self.raw.column(j)), text, ignore_case=True)
            found |= there.fill_null(False).to_numpy().astype(bool)
        return found


class RowFinder:
    """The rows of a table by ids, numbers and content.

    Parameters
    ----------
    cells : Cells
        The rows.
    ids : DataFrame or None
        The id columns; no two rows have the same ids.
    """

    cells: Cells
    fingerprint: str

    def __init__(self, cells: Cells, ids: Any) -> None:
        self.cells, self.fingerprint = cells, cells.fingerprint()
        self.ids: list[str] = [] if ids is None else [str(name) for name in ids]
        self._names: list[tuple[str, ...]] = []
        if ids is not None:
            self._names = [tuple(map(str, row)) for row in ids.itertuples(index=False)]

    def names(self, row: int) -> tuple[str, ...]:
        """Return the ids of a row."""
        return self._names[row] if self._names else ()

    def contents(self, rows: Sequence[int]) -> list[str]:
        """Return the digests of the table and of each row, as the journal stores them."""
        return [f"{self.fingerprint}-{digest}" for digest in self.cells.digests(rows)]

    def find(self, journal: Journal, where: Any) -> tuple[list[int], list[str]]:
        """Return the row of each line of a journal, -1 if there is none, and sentences about changes.

        Lines with ids are placed by them. Others are placed by their number if the row is unchanged, otherwise by its
        content if exactly one row has it.

        Parameters
        ----------
        journal : Journal
        where : path or str
            Name of the table.
        """
        lines = journal.lines
        if not lines:
            return [], []
        changed = any(line.content and line.content.partition("-")[0] != self.fingerprint for line in lines)
        by_id = bool(self._names) and journal.ids == self.ids
        if by_id:
            places = {names: row for row, names in enumerate(self._names)}
            rows = [places.get(line.names, -1) for line in lines]
        else:
            rows = [line.number - 1 if line.number <= self.cells.n else -1 for line in lines]
        moved = 0
        if changed and not by_id:
            rows, moved = self._by_content(journal, rows, where)
        notes = []
        if changed:
            how = "by their ids" if by_id else "by their number" + (" or by what they hold" if moved else "")
            notes.append(
                f"{where} has changed since rows were labelled; the rows of the labels were found {how}."
            )
        if lost := {line.names or line.number for line, row in zip(lines, rows, strict=True) if row < 0}:
            notes.append(
                f"{journal.path.name} has labels of {count(len(lost), 'row')} that {where} does not have, the first "
                f"of {min(map(str, lost))!r}; they stay in the file and count for nothing."
            )
        return rows, notes

    def _by_content(self, journal: Journal, rows: list[int], where: Any) -> tuple[list[int], int]:
        """Find rows by their content if the row with their number has changed; also return the number found."""
        held = [line.content.partition("-")[2] for line in journal.lines]
        there = sorted(set(rows) - {-1})
        now = dict(zip(there, self.cells.digests(there), strict=True))
        strays = [k for k, row in enumerate(rows) if held[k] and now.get(row) != held[k]]
        if not strays:
            return rows, 0
        places: dict[str, list[int]] = {}
        for row, digest in enumerate(self.cells.digests()):
            places.setdefault(digest, []).append(row)
        # if most rows are unchanged, a row whose old content is gone was edited, not moved
        stay = 2 * len(strays) < len(rows)
        rows, moved = list(rows), 0
        for k in strays:
            found = places.get(held[k], [])
            if found or not stay:
                rows[k] = found[0] if len(found) == 1 else -1
                moved += rows[k] >= 0
        if all(row < 0 for row in rows):
            raise FileProblem(
                f"{where} holds none of the rows that {journal.path} has labels of; name the column of ids with "
                "--id, or another file of labels with -o."
            )
        return rows, moved
