"""Files of labels: a table of labels beside the rows (``--labels``), and the journal of the labelling page."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from labelfold.app.io._arrow_tables import as_written
from labelfold.app.io._errors import FileProblem, count, did_you_mean, listed, pd, read_from
from labelfold.app.io._files import MIB, is_packed, unpacked_name, writable_file
from labelfold.app.io._sources import Reading, Request, find, read
from labelfold.app.io._writing import append_synced, handle_of, lock, sync_folder
from labelfold.tables import matching

# Usual names of the column of labels, and of the column of row numbers, in labelling tools.
_LABELS = ("label", "labels", "class", "target", "y", "choice", "category", "annotation", "annotations")
ROWS = ("row", "row_number", "row number", "rows", "index")
# Words in a column of labels that mean no label.
NO_LABEL = ("NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "None")
# Columns of a file of `labelfold label`, after the row number and the ids. The last line of a row counts, and an
# empty label removes the label.
JOURNAL = ("label", "time", "who", "how")
# A quoted cell may contain line breaks. So that one open quote does not swallow the file, a row has at most this many
# lines.
_MAX_LINES = 20


class LabelFile:
    """A table with a column of labels and a column that identifies the rows, by an id or a number from 1.

    Parameters
    ----------
    path : path
        A CSV file, or any other table.
    targets : sequence of str
        The column of labels, or several columns of 0 and 1; by default found by name.
    note : callable
        Called with a sentence about what was done.
    """

    def __init__(
        self, path: str | os.PathLike[str], targets: Sequence[str], note: Callable[[str], None]
    ) -> None:
        source, self.path = find(path, Reading())
        self.note = note
        written = self._of_page()
        self.cells = self._of_table(source) if written is None else written
        names = list(self.cells)
        self.journal = set(JOURNAL) <= set(names)
        self.targets = [JOURNAL[0]] if self.journal else self._label_columns(targets)
        # a table may have columns with the names of the journal's columns
        self.keys = (
            names[: names.index(JOURNAL[0])] if self.journal else [n for n in names if n not in self.targets]
        )
        if not self.keys:
            raise FileProblem(
                f"{self.path} has labels but no column that says of which rows; add one of ids, or row."
            )

    def _of_table(self, source: Any) -> Any:
        """Return the cells of any table."""
        frame = read(source, self.path, Request(note=self.note))
        if not hasattr(frame, "select"):
            raise FileProblem(
                f"{self.path} is to hold labels, and has no columns with names; write it as a CSV file."
            )
        return as_written(frame, frame.column_names)

    def _of_page(self) -> Any:
        """Return the readable cells of a file written by `labelfold label`; None for another file."""
        path = self.path
        if not isinstance(path, Path) or is_packed(path) or path.suffix.lower() not in (".csv", ".tsv"):
            return None
        with read_from(path), path.open("rb") as file:
            start = file.readline(MIB)
            header = next(iter(label_lines(start).rows), [])
            if not set(JOURNAL) <= set(header) or len(set(header)) < len(header):
                return None
            content = start + file.read()
        found = label_lines(content)
        if found.whole < len(content):
            self.note(f"The last line of {path} is not finished, and is left out.")
        if found.bad:
            self.note(
                f"{count(found.bad, 'line')} of {path} cannot be read, and no label is taken from there."
            )
        return pd.DataFrame(found.rows[1:], columns=header, dtype=object)

    def _label_columns(self, targets: Sequence[str]) -> list[str]:
        names = list(self.cells)
        found = [name for target in targets for name in matching(target, names)]
        if found:
            return list(dict.fromkeys(found))
        usual = [name for name in names if name.strip().lower() in _LABELS]
        if len(usual) == 1:
            return usual
        if len(names) == 2 and not targets:
            if names[0].isdecimal():
                raise FileProblem(
                    f"{self.path} begins with {names[0]!r}; it needs a header, such as row,label."
                )
            return names[1:]
        hint = did_you_mean(targets[0], names) if targets else ""
        raise FileProblem(
            f"{self.path} should hold a column of labels{hint}; it has {listed(names)}, and --target names the one."
        )

    def merged(self, y: Any, ids: Any, n: int, where: Any) -> Any:
        """Return the labels of n rows: from the file if it has one for the row, otherwise from ``y``.

        Parameters
        ----------
        y : Series, array or None
            The labels of the table itself.
        ids : DataFrame or None
            The id columns of the rows.
        n : int
        where : path
            The source of the rows, for messages.
        """
        rows, named = self._places(ids, n, where)
        columns = {}
        for target in self.targets:
            found = pd.Series(np.full(n, None, dtype=object))
            if y is not None and np.ndim(y) == 1 and len(self.targets) == 1:
                found[:] = _as_text(y)
            told = self.cells[target].iloc[named].to_numpy(dtype=object)
            known = np.array([self.journal or cell_text(value) != "" for value in told], dtype=bool)
            if self.journal:
                known &= ~pd.Series(rows).duplicated(keep="last").to_numpy()
            self._refuse_two(rows[known], told[known], ids, target)
            found.iloc[rows[known]] = [cell_text(value) or None for value in told[known]]
            columns[target] = found
        return columns[self.targets[0]] if len(columns) == 1 else pd.DataFrame(columns)

    def _places(self, ids: Any, n: int, where: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that lines of the file refer to, and the indices of these lines."""
        if ids is not None and (found := self._by_name(ids)) is not None:
            rows, lines, absent = found
        else:
            rows, lines, absent = self._by_number(n, ids, where)
        if len(absent):
            self.note(
                f"{count(len(absent), 'line')} of {self.path} {'are' if len(absent) > 1 else 'is'} of rows that "
                f"{where} does not have, the first of {cell_text(self.cells[self.keys[0]].iloc[absent[0]])!r}."
            )
        return rows, lines

    def _by_name(self, ids: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Match by columns with the names of the ids, or by the column that contains most ids."""
        shared = [name for name in ids if name in self.keys]
        if self.journal and not shared:
            return None  # a journal always has row numbers
        pairs = [(ids[shared], self.cells[shared])] if shared else []
        if not shared and ids.shape[1] == 1:
            pairs = [(ids, self.cells[[key]]) for key in self.keys]
            # a labelling tool may add a folder before the name of a file
            bare = ids.map(lambda name: PurePath(cell_text(name)).name)
            if bare.iloc[:, 0].is_unique:
                pairs += [
                    (bare, self.cells[[k]].map(lambda c: PurePath(cell_text(c)).name)) for k in self.keys
                ]
        best = None
        for mine, theirs in pairs:
            places: dict[tuple, list[int]] = {}
            for line, key in enumerate(_keys(theirs)):
                places.setdefault(key, []).append(line)
            pairs_of = [(i, line) for i, key in enumerate(_keys(mine)) for line in places.get(key, ())]
            if pairs_of:
                rows, lines = np.array(pairs_of).T
                absent = np.setdiff1d(np.arange(len(theirs)), lines)
                if best is None or len(absent) < len(best[2]):
                    best = rows, lines, absent
        return best

    def _by_number(self, n: int, ids: Any, where: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Match by a column of row numbers, from 1."""
        usual = [key for key in self.keys if key.strip().lower() in ROWS]
        for key in usual or (self.keys if ids is None else ()):
            cells = [cell_text(value) for value in self.cells[key]]
            if not all(cell.isdecimal() for cell in cells):
                continue
            numbers = np.array([int(cell) for cell in cells])
            if (numbers == 0).any():
                raise FileProblem(f"{self.path} has a row 0 in {key!r}; rows are numbered from 1.")
            there = numbers <= n
            if there.any():
                return numbers[there] - 1, np.flatnonzero(there), np.flatnonzero(~there)
        if ids is None:
            what = "it has no column of row numbers, and no id is known; name the column of ids with --id"
        else:
            example = ", ".join(map(cell_text, ids.iloc[0]))
            what = f"no cell of {listed(self.keys)} is the name of a row, such as {example!r}"
        raise FileProblem(f"{self.path} speaks of none of the {n:,} rows of {where}: {what}.")

    def _refuse_two(self, rows: np.ndarray, labels: np.ndarray, ids: Any, target: str) -> None:
        """Raise an error if a row has two different labels."""
        seen: dict[int, str] = {}
        for row, label in zip(rows.tolist(), map(cell_text, labels), strict=True):
            if seen.setdefault(row, label) != label:
                name = f"row {row + 1}" if ids is None else repr(", ".join(map(cell_text, ids.iloc[row])))
                raise FileProblem(
                    f"{self.path} has two labels for {name}, {seen[row]!r} and {label!r}; keep one of them."
                )


def _keys(frame: Any) -> Iterable[tuple[str, ...]]:
    return zip(*(map(cell_text, frame[name]) for name in frame), strict=True)


def cell_text(cell: Any) -> str:
    """Return a cell as text, "" if it is missing.

    >>> cell_text(3.0), cell_text(float("nan")), cell_text(" a ")
    ('3', '', 'a')
    """
    if cell is None or cell != cell:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _as_text(y: Any) -> list[str | None]:
    """Return labels as text, None for unlabelled: an empty cell, or -1 unless the classes are -1 and 1."""
    said = [cell_text(value) or None for value in (y.astype(object) if hasattr(y, "astype") else y)]
    classes = {*said} - {None} == {"-1", "1"}
    return said if classes else [None if value == "-1" else value for value in said]


class LabelLines(NamedTuple):
    """The content of a file of labels.

    Attributes
    ----------
    rows : list of list of str
        Cells; the first row is the header.
    bad : int
        Number of lines that cannot be read.
    whole : int
        Number of bytes up to an unfinished last line; the size of the file if every line is finished.
    """

    rows: list[list[str]]
    bad: int
    whole: int


def label_lines(content: bytes) -> LabelLines:
    r"""Read the lines of a file of labels.

    >>> label_lines(b'row,label\n1,a\n2,"b\n'), label_lines(b'row,label\n1,"a\n2,b\n').rows
    (LabelLines(rows=[['row', 'label'], ['1', 'a']], bad=0, whole=14), [['row', 'label'], ['2', 'b']])
    """
    *lines, left = content.split(b"\n")
    rows: list[list[str]] = []
    bad, good, i = 0, 0, 0  # good: number of lines up to the end of the last row
    while i < len(lines):
        row, taken = _row_at(lines, i, len(rows[0]) if rows else 0)
        if row is not None:
            rows.append(row)
            good = i + taken
        bad += row is None
        i += taken
    # an interrupted write of a cell with line breaks leaves complete lines
    last = len(lines)
    if good < last <= good + _MAX_LINES and _quotes_open(lines[good:]):
        bad, last = bad - (last - good), good
    finished = last == len(lines) and not left
    return LabelLines(rows, bad, len(content) if finished else sum(len(line) + 1 for line in lines[:last]))


def _quotes_open(lines: Sequence[bytes]) -> bool:
    return b"\n".join(lines).count(b'"') % 2 == 1


def _row_at(lines: Sequence[bytes], start: int, width: int) -> tuple[list[str] | None, int]:
    """Return the row that begins at a line, None if there is none, and its number of lines."""
    for taken in range(1, min(_MAX_LINES, len(lines) - start) + 1):
        some = lines[start : start + taken]
        if _quotes_open(some):
            continue
        row = _cells(b"\n".join(some), width)
        if row is not None:
            return row, taken
        if taken == 1:
            break
    return None, 1


def _cells(line: bytes, width: int) -> list[str] | None:
    """Return the cells of one row; None if there are not ``width`` cells, or if it is not text."""
    try:
        (row,) = csv.reader(io.StringIO(line.decode("utf-8-sig"), newline=""), strict=True)
    except (ValueError, csv.Error):
        return None
    return row if len(row) == width or not width else None


# Columns after the row number and the ids. The last column holds digests of the row and of the table.
FIELDS = (*JOURNAL, "predicted", "confidence", "content")

_FAR = 1_000_000_000_000  # byte to lock on Windows, far beyond the end of the file


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

    no_class: frozenset[str]
    header: list[str]
    ids: list[str]

    # Names of its columns after the row number and the ids, and names that no class can have, in lower case.
    fields = FIELDS
    no_class = frozenset(word.lower() for word in NO_LABEL) | {"-1"}

    @staticmethod
    def beside(where: Any, reading: Reading) -> Path:
        """Return the default file of a source: beside it, or in the current folder if it is not a file.

        >>> Journal.beside(Path("data/measurements.csv.gz"), Reading()).as_posix()
        'data/measurements.labels.csv'
        """
        path = where if isinstance(where, Path) else getattr(where, "path", None)
        if path is None:
            path = Path(f"{where.url.database or 'database'}.db")
        path = path.resolve() if not path.name else path
        stem = path.name if path.is_dir() else unpacked_name(path).stem
        part = "".join(c if c.isalnum() or c in "-_" else "_" for c in reading.table or reading.sheet or "")
        return path.parent / f"{stem}{'.' if part else ''}{part}.labels.csv"

    @staticmethod
    def refuse_taken(path: str | os.PathLike[str]) -> None:
        """Raise an error if another page writes to the file; called before the table is read."""
        path = Path(path)
        if path.is_file():
            with suppress(OSError), handle_of(path, os.O_RDWR) as handle:  # reported when it is opened
                _lock_journal(handle, path)

    def __init__(
        self, path: str | os.PathLike[str], ids: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> None:
        self.path: Path = Path(path)
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
            _lock_journal(self._handle, self.path)
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


def _lock_journal(handle: int, path: Path) -> None:
    os.lseek(handle, _FAR, os.SEEK_SET)
    if lock(handle) is False:
        raise FileProblem(
            f"{path} is being written by another labelling page; use that one, or end it first."
        )


def _text(rows: Sequence[Sequence[object]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode("utf-8")
