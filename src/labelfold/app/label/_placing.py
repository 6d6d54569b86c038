"""Finds the row of each line of a journal, even if the table has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labelfold.app.io import Cells, FileProblem, count
from labelfold.app.label._journal import Journal


class Places:
    """The rows of a table by ids, numbers and content.

    Parameters
    ----------
    cells : Cells
        The rows.
    ids : DataFrame or None
        The id columns; no two rows have the same ids.
    """

    def __init__(self, cells: Cells, ids: Any) -> None:
        self.cells, self.fingerprint = cells, cells.fingerprint()
        self.ids = [] if ids is None else [str(name) for name in ids]
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
