"""Reads CSV files with pyarrow. The separator and the encoding are detected."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelfold.app.io._problems import (
    FileProblem,
    arrow_csv,
    generated,
    listed,
    one_line,
    open_text,
    pa,
    pc,
    printable,
)
from labelfold.tables import written

_SEPARATORS = ",;\t|"
_LOOKED_AT, _LINES = 1 << 18, 200
# If the first lines are very long, more of the file is read: until it has this many lines, or this many bytes.
_WHOLE_LINES, _LONGEST_START = 3, 1 << 26
# Bytes that pyarrow reads at a time, and the largest size of a cell.
_BLOCK, _LARGEST_BLOCK = 1 << 23, 1 << 30
# Byte-order marks. That of UTF-32 begins with that of UTF-16, so it comes first.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
WINDOWS = "labelfold.windows-1252"
_MIXED = "utf-8 and windows-1252"
# Number of characters shown of a cell, and number of columns that are searched.
_LONGEST, _SEARCHED = 20_000, 200
_AT_ONCE = 10_000  # rows whose digests are computed at once


csv.field_size_limit(max(csv.field_size_limit(), _LARGEST_BLOCK))


codecs.register_error(
    WINDOWS,
    lambda error: (error.object[error.start : error.end].decode("cp1252", "replace"), error.end),  # type: ignore[attr-defined]
)


class Dialect(NamedTuple):
    """The layout of a CSV file.

    Attributes
    ----------
    separator : str
    encoding : str
        The given encoding, or utf-8, utf-16, or cp1252 for other bytes.
    errors : str
        How bytes that the encoding cannot decode are handled.
    header : list of str
        The column names as written.
    names : list of str
        The column names, made unique.
    skipped : int
        Number of lines up to the end of the header.
    """

    separator: str
    encoding: str
    errors: str
    header: list[str]
    names: list[str]
    skipped: int


def dialect_of(path: Path, kind: str, given: str | None = None) -> Dialect:
    """Detect the layout of a file from its first lines."""
    with open_text(path) as file:
        start = part = file.read(_LOOKED_AT)
        while part and max(map(start.count, (b"\n", b"\r"))) < _WHOLE_LINES and len(start) < _LONGEST_START:
            part = file.read(_LOOKED_AT)
            start += part
    encoding, errors = (_found(start), WINDOWS) if given is None else (_known(path, given), "strict")
    text = _decoded(path, codecs.getincrementaldecoder(encoding)(errors), start)
    lines = io.StringIO(text, newline="").readlines()
    # the last line may be cut short
    lines = lines[: max(len(lines) - (len(start) >= _LOOKED_AT), 1)][:_LINES]
    if not any(line.strip() for line in lines):
        raise FileProblem(f"{path} is empty.")
    usual = "\t" if kind == "tsv" else ","
    above = _above_header(lines)
    lines = lines[above:]
    separator = max(_SEPARATORS, key=lambda mark: (_columns(lines, mark), mark == usual))
    if _columns(lines, separator) < 2:
        # rows of different lengths, or a single column: take a separator that does not occur in the cells
        alone = [mark for mark in _SEPARATORS if _columns(lines, mark) == 1]
        separator = usual if usual in lines[0] or not alone else alone[0]
    rows = csv.reader(lines, delimiter=separator)
    names = next(row for row in rows if row)
    skipped = above + rows.line_num
    steering = sum(ord(c) < 32 and c not in "\t\r\n" for name in names for c in name)
    if "\0" in "".join(names) or 3 * steering > sum(map(len, names)):
        raise FileProblem(
            f"{path} holds binary data, not text; give its format with --format, or its encoding with --encoding."
        )
    body = [row for row in rows if row]
    if body and all(len(row) == len(names) + 1 for row in body) and any(row[-1] for row in body):
        names = ["", *names]  # R writes no header cell above the row names
    header = [
        printable(re.sub(r"[\r\n]+", " ", name.strip())) or f"Unnamed: {j}" for j, name in enumerate(names)
    ]
    return Dialect(separator, encoding, errors, header, distinct_names(header), skipped)


def distinct_names(header: list[str]) -> list[str]:
    """Return names made unique.

    >>> distinct_names(["a", "a", "a.1", "a"])
    ['a', 'a.2', 'a.1', 'a.3']
    """
    taken, seen, names = set(header), set(), []
    numbers: dict[str, Iterator[int]] = {}  # the next number for each name
    for name in header:
        if name in seen:
            tries = (f"{name}.{i}" for i in numbers.setdefault(name, count(1)))
            name = next(new for new in tries if new not in taken)
            taken.add(name)
        seen.add(name)
        names.append(name)
    return names


def _above_header(lines: list[str]) -> int:
    r"""Return the number of lines above the header: ``sep=;`` of a spreadsheet, and comments after #.

    >>> _above_header(["# made today\n", "a,b\n", "1,2\n"]), _above_header(["#a,b\n", "1,2\n"])
    (1, 0)
    """
    if re.fullmatch(rf"sep=[{_SEPARATORS}]\s*", lines[0]):
        return 1
    above = next((i for i, line in enumerate(lines) if not line.startswith("#")), 0)
    # a header may also begin with #; it has as many cells as the rows
    cells = max(_columns(lines[above:], mark) for mark in _SEPARATORS) if above else 0
    while above and cells > 1 and any(lines[above - 1].count(mark) == cells - 1 for mark in _SEPARATORS):
        above -= 1
    return above if cells > 1 else 0


def _found(start: bytes) -> str:
    """Detect the encoding from the first bytes of a file; UTF-8 by default."""
    marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    if marked is not None:
        return marked
    # for most languages every other byte of UTF-16 is zero
    low, high = (start[place::2].count(0) for place in (1, 0))
    often = 0.4 * len(start) / 2
    return "utf-16-le" if low > often > high else "utf-16-be" if high > often > low else "utf-8"


def _known(path: Path, given: str) -> str:
    """Return the normalised name of a text encoding, or raise an error if there is no such encoding."""
    try:
        "".encode(given)  # also refuses codecs that do not encode text
        name = codecs.lookup(given).name
        return "utf-8-sig" if name == "utf-8" else name  # with or without a byte-order mark
    except (LookupError, ValueError):
        raise FileProblem(
            f"--encoding is the name of an encoding of text, such as utf-8, cp1251 or shift_jis, not {given!r}."
        ) from None


def _decoded(path: Path, decoder: codecs.IncrementalDecoder, part: bytes, *, final: bool = False) -> str:
    """Decode the next bytes of a file, or name the byte that the given encoding cannot decode."""
    try:
        return decoder.decode(part, final)
    except UnicodeError as error:
        raise FileProblem(
            f"{path} is not text in the encoding given: {one_line(error)}; give another."
        ) from None


def _columns(lines: list[str], separator: str) -> int:
    """Return the number of cells of the header if most lines have as many or all have one more; otherwise 0."""
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:
        return 0
    if not widths:
        return 0
    header, body = widths[0], widths[1:] or widths
    often = max(body.count(header), body.count(header + 1) if header > 1 else 0)
    return header if often >= 0.9 * len(body) else 0


class CsvFile:
    """A CSV file, read as text with null for empty cells, at once or in blocks.

    Parameters
    ----------
    path : Path
    kind : {"csv", "tsv"}
        The format by the ending of the file. It decides the separator if the lines do not.
    note : callable
        Called with a sentence for each step taken to read the file.
    encoding : str, optional
        The encoding; detected by default.
    """

    def __init__(
        self, path: Path, kind: str, note: Callable[[str], None], encoding: str | None = None
    ) -> None:
        self.path, self.kind, self.note = path, kind, note
        self.dialect = dialect_of(path, kind, encoding)
        if self.dialect.encoding not in ("utf-8", "utf-8-sig"):
            note(f"{path} was read as {self.dialect.encoding}.")
        if renamed := sorted(set(self.dialect.names) - set(self.dialect.header)):
            note(f"{path} has columns of the same name; the later ones are called {listed(renamed)}.")
        self.repair, self.block = False, _BLOCK

    def attempt(self, action: Callable[[], Any]) -> Any:
        """Call ``action`` on the file; if its rows or encoding are faulty, repair them and call it again."""
        while True:
            try:
                return action()
            except FileProblem:
                raise
            except Exception as error:  # from pyarrow, or from unpacking the file
                text = one_line(error).removeprefix("CSV parse error: ")
                if "UTF8" in text and self.dialect.encoding == "utf-8":
                    self.dialect = self.dialect._replace(encoding=_MIXED)
                    self.note(
                        f"{self.path} is not UTF-8 text throughout; other bytes were read as Windows-1252; "
                        "--encoding names another encoding."
                    )
                elif "straddl" in text and self.block < _LARGEST_BLOCK:
                    self.block *= 16
                elif "Expected" in text and not self.repair:
                    self.repair = True
                else:
                    raise FileProblem(
                        f"{self.path} is not a whole {self.kind.upper()} table: {text}; every row "
                        "needs as many cells as the header."
                    ) from error

    def table(self) -> Any:
        """Return the whole file as an Arrow table."""
        with self._open() as file:
            return arrow_csv.read_csv(file, *self._options())

    def blocks(self, columns: list[str]) -> Iterator[Any]:
        """Yield some columns of the file as Arrow tables, a block at a time."""
        with self._open() as file, arrow_csv.open_csv(file, *self._options(columns)) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def _options(self, columns: list[str] | None = None) -> tuple[Any, Any, Any]:
        names = self.dialect.names
        skipped = 0 if self.repair else self.dialect.skipped
        return (
            arrow_csv.ReadOptions(block_size=self.block, column_names=names, skip_rows=skipped),
            arrow_csv.ParseOptions(delimiter=self.dialect.separator, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
                include_columns=columns,
            ),
        )

    def _open(self) -> BinaryIO:
        """Open the file as UTF-8 bytes; in repair mode rows of a wrong length are corrected."""
        file = open_text(self.path)
        if self.dialect.encoding != "utf-8":
            file = generated(file, _transcoded(self.path, file, self.dialect))
        if self.repair:
            file = generated(file, _repaired(self.path, file, self.dialect))
        return file


def _transcoded(path: Path, file: BinaryIO, dialect: Dialect) -> Iterator[bytes]:
    """Yield a text file in another encoding as UTF-8."""
    encoding = "utf-8" if dialect.encoding == _MIXED else dialect.encoding
    decoder = codecs.getincrementaldecoder(encoding)(dialect.errors)
    while part := file.read(1 << 20):
        yield _decoded(path, decoder, part).encode()
    yield _decoded(path, decoder, b"", final=True).encode()


def _repaired(path: Path, file: BinaryIO, dialect: Dialect) -> Iterator[bytes]:
    """Yield the rows below the header; missing cells are added, and surplus empty cells removed."""
    width, made = len(dialect.names), io.StringIO()
    rows = csv.reader(io.TextIOWrapper(file, "utf-8", newline=""), delimiter=dialect.separator)
    write = csv.writer(made, delimiter=dialect.separator, lineterminator="\n").writerow
    for row in rows:
        if rows.line_num <= dialect.skipped or not row:
            continue
        if any(cell.strip() for cell in row[width:]):
            raise FileProblem(
                f"{path} has more cells than the header has names in line {rows.line_num}: {len(row)} for {width}; "
                "give every column a name, and put cells that hold a separator in quotes."
            )
        write([*row, *[""] * (width - len(row))][:width])
        if made.tell() > 1 << 20:
            yield made.getvalue().encode()
            made.seek(0)
            made.truncate()
    yield made.getvalue().encode()


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
