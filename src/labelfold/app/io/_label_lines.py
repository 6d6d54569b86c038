"""Reads the lines of a file written by `labelfold label`. A damaged line does not affect the others."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import NamedTuple

# A quoted cell may contain line breaks. A row has at most this many lines.
_LINES_OF_A_ROW = 20


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
    if good < last <= good + _LINES_OF_A_ROW and _quotes_open(lines[good:]):
        bad, last = bad - (last - good), good
    finished = last == len(lines) and not left
    return LabelLines(rows, bad, len(content) if finished else sum(len(line) + 1 for line in lines[:last]))


def _quotes_open(lines: Sequence[bytes]) -> bool:
    return b"\n".join(lines).count(b'"') % 2 == 1


def _row_at(lines: Sequence[bytes], start: int, width: int) -> tuple[list[str] | None, int]:
    """Return the row that begins at a line, None if there is none, and its number of lines."""
    for taken in range(1, min(_LINES_OF_A_ROW, len(lines) - start) + 1):
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
