"""CSV as people have it, read by pyarrow: the separator and the encoding are found from the file."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from labelfold.app.io._limits import open_text
from labelfold.app.io._problems import FileProblem, one_line

_SEPARATORS = ",;\t|"
_LOOKED_AT, _LINES = 1 << 18, 200
# pyarrow reads so many bytes at a time; a cell is never longer.
_BLOCK, _LARGEST_BLOCK = 1 << 23, 1 << 30
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}
_WINDOWS = "labelfold.windows-1252"
codecs.register_error(
    _WINDOWS,
    lambda error: (error.object[error.start : error.end].decode("cp1252", "replace"), error.end),  # type: ignore[attr-defined]
)


class Dialect(NamedTuple):
    """How a file is written.

    Attributes
    ----------
    separator : str
    encoding : str
        utf-8, utf-16, or what bytes that are not UTF-8 are read by.
    names : list of str
        The header.
    skipped : int
        Lines up to the end of the header.
    """

    separator: str
    encoding: str
    names: list[str]
    skipped: int


def dialect_of(path: Path, kind: str) -> Dialect:
    """Find how a file is written from its first lines."""
    with open_text(path) as file:
        start = file.read(_LOOKED_AT)
    encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")
    text = codecs.getincrementaldecoder(encoding)(_WINDOWS).decode(start)
    lines = io.StringIO(text, newline="").readlines()
    # the last line may be cut short
    lines = lines[: max(len(lines) - (len(start) == _LOOKED_AT), 1)][:_LINES]
    if not any(line.strip() for line in lines):
        raise FileProblem(f"{path} is empty.")
    usual = "\t" if kind == "tsv" else ","
    separator = max(_SEPARATORS, key=lambda mark: (*_columns(lines, mark), mark == usual))
    if _columns(lines, separator)[1] < 2:  # one column: what separates no cells in it
        separator = next((mark for mark in (usual, *_SEPARATORS) if _columns(lines, mark)[1] == 1), usual)
    rows = csv.reader(lines, delimiter=separator)
    names = next(row for row in rows if row)
    if any(ord(c) < 32 and c not in "\t\r\n" for name in names for c in name):
        raise FileProblem(f"{path} holds binary data, not text; give its real format with --format.")
    names = [name.strip() or f"Unnamed: {j}" for j, name in enumerate(names)]
    return Dialect(separator, encoding, names, rows.line_num)


def _columns(lines: list[str], separator: str) -> tuple[bool, int]:
    """Return whether most lines have as many cells as the header, and how many that has."""
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:
        return False, 0
    if not widths:
        return False, 0
    alike = Counter(widths)[widths[0]] >= 0.9 * len(widths)
    return alike and widths[0] > 1, widths[0] if alike else 0


def read_csv(path: Path, kind: str, note: Callable[[str], None]) -> Any:
    """Return a CSV file as an Arrow table of text, null where a cell is empty.

    Parameters
    ----------
    path : Path
    kind : {"csv", "tsv"}
        What the file's ending says of its separator, where its lines do not say.
    note : callable
        Called with a sentence about what was done to read the file.
    """
    dialect = dialect_of(path, kind)
    repair, block = False, _BLOCK
    while True:
        try:
            with _text(path, dialect, repair) as file:
                return _read(file, dialect._replace(skipped=0) if repair else dialect, block)
        except UnicodeDecodeError as error:
            raise FileProblem(
                f"{path} is not {dialect.encoding} text: {one_line(error)}; save it as UTF-8."
            ) from error
        except FileProblem:
            raise
        except Exception as error:  # pyarrow's, and what the packed file beneath it raises
            text = one_line(error)
            if "UTF8" in text and dialect.encoding == "utf-8":
                dialect = dialect._replace(encoding="windows-1252")
                note(f"{path} is not UTF-8 text throughout; other bytes were read as Windows-1252.")
            elif "straddl" in text and block < _LARGEST_BLOCK:
                block *= 16
            elif "Expected" in text and not repair:
                repair = True
            else:
                raise _no_table(path, kind, text) from error


def _read(file: Any, dialect: Dialect, block: int) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = dialect.names
    unique = names if len(set(names)) == len(names) else [str(j) for j in range(len(names))]
    table = arrow_csv.read_csv(
        file,
        arrow_csv.ReadOptions(block_size=block, column_names=unique, skip_rows=dialect.skipped),
        arrow_csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(unique, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
        ),
    )
    return table.rename_columns(names)


def _text(path: Path, dialect: Dialect, repair: bool) -> BinaryIO:
    """Open a file as UTF-8 bytes, rows that are too short filled up where they are to be repaired."""
    file = open_text(path)
    if dialect.encoding != "utf-8":
        file = io.BufferedReader(_Transcoded(file, dialect.encoding), 1 << 20)
    return _repaired(path, file, dialect) if repair else file


class _Transcoded(io.RawIOBase):
    """A text file in another encoding, read as UTF-8."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self.file, self.left = file, b""
        name = "utf-8" if encoding == "windows-1252" else encoding
        self.decoder = codecs.getincrementaldecoder(name)(_WINDOWS)

    def readable(self) -> bool:
        """Say that this can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        while not self.left:
            part = self.file.read(max(len(buffer) // 3, 1))
            self.left = self.decoder.decode(part, final=not part).encode()
            if not part:
                break
        count = min(len(buffer), len(self.left))
        buffer[:count] = self.left[:count]
        self.left = self.left[count:]
        return count

    def close(self) -> None:
        """Close the file beneath."""
        self.file.close()
        super().close()


def _repaired(path: Path, file: BinaryIO, dialect: Dialect) -> BinaryIO:
    """Return the rows below the header with empty cells where a row has too few, and without empty ones too many."""
    made, width = io.StringIO(), len(dialect.names)
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
    return io.BytesIO(made.getvalue().encode())


def _no_table(path: Path, kind: str, text: str) -> FileProblem:
    text = re.sub(r"^CSV parse error: ", "", text)
    return FileProblem(
        f"{path} is not a whole {kind.upper()} table: {text}; every row needs as many cells as the header."
    )
