"""Sheets of Excel and OpenDocument workbooks, read with calamine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from labelfold.app.io._arrow_tables import gathered, in_blocks, table_of
from labelfold.app.io._csv import distinct_names
from labelfold.app.io._errors import FileProblem, count, did_you_mean, listed, reporting
from labelfold.app.io._files import refuse_bomb, zip_sizes
from labelfold.app.io._sources import Request

_LINES = 20  # budget: rows that are searched for the header


def read_sheet(path: Path, kind: str, request: Request) -> Any:
    """Read the named sheet, or the first one that is not empty."""
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError

    refuse_bomb(path, path.stat().st_size, sum((zip_sizes(path) or {}).values()))
    with reporting(path, "is not a whole workbook", "save it again", (CalamineError, OSError)):
        try:
            book = CalamineWorkbook.from_path(path)
            rows, name = _rows(path, book, request.reading.sheet)
        except PasswordError:
            raise FileProblem(f"{path} is locked with a password; save it without one.") from None
    if request.reading.sheet is None and len(book.sheet_names) > 1:
        request.note(
            f"{path} has {len(book.sheet_names)} sheets, and {name!r} was read; --sheet names another."
        )
    return gathered(path, _blocks(path, name, rows, request))


def _rows(path: Path, book: Any, wanted: str | None) -> tuple[Iterator[Sequence[Any]], str]:
    """Return the non-empty rows of the sheet asked for, and its name."""
    names = list(book.sheet_names)
    if wanted is not None and wanted not in names:
        hint = did_you_mean(wanted, names)
        raise FileProblem(f"{path} has no sheet {wanted!r}{hint}; it has {listed(names)}.")
    for name in names if wanted is None else [wanted]:
        sheet = book.get_sheet_by_name(name)
        if sheet.start is not None or wanted is not None:
            return (row for row in sheet.iter_rows() if any(cell != "" for cell in row)), name
    raise FileProblem(f"{path} has no sheet with anything in it.")


def _blocks(path: Path, name: str, rows: Iterator[Sequence[Any]], request: Request) -> Iterator[Any]:
    """Yield the rows below the header as Arrow tables."""
    first = list(islice(rows, _LINES))
    if not first:
        raise FileProblem(f"{path} has nothing in sheet {name!r}.")
    # a title above the table fills few cells of its row
    filled = [sum(cell != "" for cell in row) for row in first]
    above = next(i for i, cells in enumerate(filled) if 2 * cells > max(filled))
    if above:
        request.note(f"{path} has {count(above, 'row')} above the names of the columns, which are left out.")
    header, rows = first[above], chain(first[above + 1 :], rows)
    titles = [_title(cell, j) for j, cell in enumerate(header)]
    names = distinct_names(titles)
    if renamed := sorted(set(names) - set(titles)):
        request.note(f"{path} has columns of the same name; the later ones are called {listed(renamed)}.")
    unnamed = {j for j, cell in enumerate(header) if cell == ""}
    for block in in_blocks(rows, len(names)):
        # a column without a name and without a value holds formatting only
        unnamed -= {j for j in unnamed if any(row[j] != "" for row in block)}
        yield table_of(names, [[_value(cell) for cell in row] for row in block]).drop_columns(
            [names[j] for j in unnamed]
        )


def _title(cell: Any, j: int) -> str:
    """Return the name of a column, as a CSV file would have it."""
    return " ".join(str(_value(cell)).split()) if cell != "" else f"Unnamed: {j}"


def _value(cell: Any) -> Any:
    """Return a cell: None if it is empty, and whole numbers as int, since sheets store only floats."""
    if cell == "":
        return None
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53 else cell
