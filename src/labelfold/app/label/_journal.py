"""The file of labels: an append-only CSV file. A line is synced to disk before its label is shown as done.

The newest line of a row counts, and an empty label removes the label. `labelfold compare` and `labelfold fit` read
the file by ``--labels``, and spreadsheets can open it.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from labelfold.app.io import (
    JOURNAL,
    ROWS,
    FileProblem,
    append_synced,
    count,
    handle_of,
    label_lines,
    lock,
    sync_folder,
    writable_file,
)

# Columns after the row number and the ids. The last column holds digests of the row and of the table.
FIELDS = (*JOURNAL, "predicted", "confidence", "content")
_FAR = 1 << 40  # byte to lock on Windows, far beyond the end of the file


@dataclass(frozen=True)
class Line:
    """A line of the journal.

    Attributes
    ----------
    number : int
        The row, from 1.
    names : tuple of str
        The ids of the row.
    label : str
        Empty if the label is removed.
    time : str
        The lines of one action have the same time.
    who, how : str
        Who gave the label, and how the row was chosen: the name of the strategy for a question, otherwise "click",
        "lasso", "change", "skip", "undo" or "redo".
    predicted : str
        The prediction before; empty if there was none.
    confidence : float or None
    content : str
        Digests of the table and of the row.
    """

    number: int
    names: tuple[str, ...]
    label: str
    time: str
    who: str
    how: str
    predicted: str = ""
    confidence: float | None = None
    content: str = ""


class Journal:
    """A file of labels, open and locked until it is closed.

    Parameters
    ----------
    path : path
        The file; it is created if missing.
    ids : sequence of str
        The columns that name the rows.
    columns : sequence of str
        All columns of the table. The column of row numbers gets a name that none of them has.

    Attributes
    ----------
    lines : list of Line
        The lines in the file when it was opened.
    ids : list of str
        The id columns that the file has.
    notes : list of str
        Sentences for the user.
    """

    def __init__(
        self, path: str | os.PathLike[str], ids: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> None:
        self.path = Path(path)
        self.notes: list[str] = []
        self.lines: list[Line] = []
        if taken := [name for name in ids if name in FIELDS]:
            raise FileProblem(
                f"The id column {taken[0]!r} has the name of a column of the file of labels; give it another name."
            )
        writable_file(self.path)
        how = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            self._handle = os.open(self.path, how, 0o666)
        except OSError as error:
            raise FileProblem(
                f"Labels cannot be written to {self.path}: {error.strerror or error}; name another file with -o."
            ) from error
        try:
            _take(self._handle, self.path)
            self._open([str(name) for name in ids], columns)
        except BaseException:
            os.close(self._handle)
            raise

    def _open(self, ids: list[str], columns: Sequence[str]) -> None:
        number = next((name for name in ROWS if name not in columns), ROWS[0])
        self.header, self.ids = [number, *ids, *FIELDS], ids
        first = _text([self.header])
        with open(self._handle, "rb", closefd=False) as file:
            file.seek(0)
            held = file.read()
        found, begun = label_lines(held), first.startswith(held)
        whole = 0 if begun and held != first else found.whole
        # the file is not changed before it is known to be a journal
        table = [] if begun else self._table(found.rows)
        if whole < len(held):
            self.notes.append(
                f"The last line of {self.path.name} was not finished when labelling was interrupted, and is left "
                f"out: {held[whole:][:80].decode('utf-8', 'replace').strip(chr(0))!r}."
            )
            os.ftruncate(self._handle, whole)
            os.fsync(self._handle)
        self._size = whole
        if whole == 0:
            self._write(first)
            sync_folder(self.path.parent)
        if not table:
            return
        self.header = table[0]
        self.ids = self.header[1 : self.header.index(JOURNAL[0])]
        bad = found.bad
        for cells in table[1:]:
            line = self._line(cells)
            self.lines += [] if line is None else [line]
            bad += line is None
        if bad:
            self.notes.append(
                f"{count(bad, 'line')} of {self.path.name} cannot be read, and "
                f"{'count' if bad > 1 else 'counts'} for nothing."
            )

    def _table(self, table: list[list[str]]) -> list[list[str]]:
        """Return the cells of a journal, or raise an error if the file is not a journal."""
        header = table[0] if table else []
        if not set(JOURNAL) <= set(header) or header.index(JOURNAL[0]) == 0:
            raise FileProblem(
                f"{self.path} is there and was not written by labelfold label; name another file with -o, or rename "
                "that one, and give it as --labels if it holds labels."
            )
        return table

    def _line(self, cells: list[str]) -> Line | None:
        if len(cells) != len(self.header) or not cells[0].isdecimal() or not cells[0].isascii():
            return None
        named = dict(zip(self.header, cells, strict=True))
        try:
            confidence = float(named["confidence"]) if named.get("confidence") else None
        except ValueError:
            confidence = None
        rest = {name: named.get(name, "") for name in (*JOURNAL, "predicted", "content")}
        return Line(int(cells[0]), tuple(named[name] for name in self.ids), confidence=confidence, **rest)

    def now(self) -> str:
        """Return the time of an action, later than that of every earlier line."""
        moment = datetime.now(UTC)
        with suppress(ValueError, IndexError, TypeError):  # the clock may have been set back
            last = datetime.fromisoformat(self.lines[-1].time)
            moment = max(moment, last + timedelta(microseconds=1))
        return moment.isoformat(timespec="microseconds")

    def append(self, lines: Sequence[Line]) -> None:
        """Append lines. They are on disk when this returns.

        On failure the file is unchanged, and FileProblem is raised.
        """
        self._refuse_changed()
        rows = []
        for line in lines:
            sure = "" if line.confidence is None else f"{line.confidence:.4f}"
            told = {**line.__dict__, self.header[0]: line.number, "confidence": sure}
            told |= dict(zip(self.ids, line.names, strict=False))
            rows.append([told.get(name, "") for name in self.header])
        self._write(_text(rows))
        self.lines += lines

    def _write(self, content: bytes) -> None:
        try:
            append_synced(self._handle, content, self._size)
        except OSError as error:
            raise FileProblem(
                f"The label was not written to {self.path}: {error.strerror or error}; make room, and label the row "
                "again."
            ) from error
        self._size += len(content)

    def _refuse_changed(self) -> None:
        """Raise an error if another program has changed, moved or removed the file."""
        here = os.fstat(self._handle)
        there = None
        with suppress(OSError):
            there = os.stat(self.path)
        if there is None or not os.path.samestat(here, there) or here.st_size != self._size:
            what = "removed" if there is None else "changed"
            raise FileProblem(
                f"{self.path} was {what} by another program, so that nothing is written to it; end labelfold label "
                "and start it again."
            )

    def close(self) -> None:
        """Close and unlock the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def refuse_taken(path: str | os.PathLike[str]) -> None:
    """Raise an error if another page writes to the file; called before the table is read."""
    path = Path(path)
    if not path.is_file():
        return
    with suppress(OSError), handle_of(path, os.O_RDWR) as handle:  # an error is reported when it is opened
        _take(handle, path)


def _take(handle: int, path: Path) -> None:
    os.lseek(handle, _FAR, os.SEEK_SET)
    if lock(handle) is False:
        raise FileProblem(
            f"{path} is being written by another labelling page; use that one, or end it first."
        )


def _text(rows: Sequence[Sequence[object]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode("utf-8")
