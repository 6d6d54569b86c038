"""Reads CSV files with pyarrow. The separator and the encoding are detected."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from labelfold.app.io._arrow_tables import Stream, checked, is_large
from labelfold.app.io._errors import FileProblem, arrow_csv, listed, one_line, pa, printable
from labelfold.app.io._files import BLOCK, MAX_LINE, MIB, generated, open_text
from labelfold.app.io._sources import Request

_SEPARATORS = ",;\t|"
# Budget: number of first lines from which the layout is detected. More of a file is read if they are fewer than the
# second number.
LINES, _WHOLE_LINES = 500, 3
# The largest size of a cell; pyarrow reads blocks of at most this size.
_LARGEST_BLOCK = 1024 * MIB
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
        start = part = file.read(MIB)
        while part and max(map(start.count, (b"\n", b"\r"))) < _WHOLE_LINES and len(start) < MAX_LINE:
            part = file.read(MIB)
            start += part
    encoding, errors = (_found(start), WINDOWS) if given is None else (_known(path, given), "strict")
    text = _decoded(path, codecs.getincrementaldecoder(encoding)(errors), start)
    lines = io.StringIO(text, newline="").readlines()
    # the last line may be cut short
    lines = lines[: max(len(lines) - (len(start) >= MIB), 1)][:LINES]
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


def read_csv(path: Path, kind: str, request: Request) -> Any:
    """Read a text file with named columns, all cells as text; a large file as a `Stream`."""
    file = CsvFile(path, kind, request.note, request.reading.encoding)
    if is_large(path):
        return checked(path, Stream(file.dialect.names, file.blocks, file.attempt))
    return checked(path, file.attempt(file.table))


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
        self.repair, self.block = False, BLOCK

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
                    self.block = min(16 * self.block, _LARGEST_BLOCK)
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
    while part := file.read(MIB):
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
        if made.tell() > MIB:
            yield made.getvalue().encode()
            made.seek(0)
            made.truncate()
    yield made.getvalue().encode()
