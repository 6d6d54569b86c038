"""Counts the cells of new rows that a recipe cannot use: values it never saw, and cells it cannot parse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import bdtrc

from labelfold.tables._arrow import pa, shown, text_cells
from labelfold.tables._limits import LENGTH, MIN_ROWS, SAMPLE, SHOWN, SIGNIFICANCE

# A choice: minimum share of odd cells that is expected, for a column that had none in the rows of `fit`.
_MIN_RATE = 0.005


@dataclass
class Unseen:
    """The cells of a column in new rows that a recipe cannot use.

    Attributes
    ----------
    name : str
        The column.
    kind : {"category", "number", "date", "list", "text", "range", "empty"}
        "range" for numbers that are far from the learned ones, "empty" for a column without a cell. These two are
        said, but refuse nothing.
    odd, held : int
        Number of these cells, and of all cells that hold something.
    what : str
        What is wrong with these cells, as the end of a sentence.
    learned : str
        What the recipe learned; "" if it does not keep that.
    rate : float
        The expected share of such cells, from the rows of `fit`.
    misread : int
        Number of cells that are read as another number or date than was written, or of a boolean of which one value
        never occurs.
    columns, rows : int
        Number of columns that were looked at, over all of which chance is judged, and of new rows.
    """

    name: str
    kind: str = ""
    odd: int = 0
    held: int = 0
    what: str = ""
    learned: str = ""
    rate: float = 0.0
    misread: int = 0
    columns: int = 1
    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter, repr=False)

    @property
    def examples(self) -> list[str]:
        """A few of the cells, most frequent first."""
        return [cell for cell, _ in self.counts.most_common(SHOWN)]

    @property
    def most(self) -> bool:
        """Whether more than half of the cells are odd and chance does not explain it, or cells are read wrongly."""
        if self.misread or self.kind in ("range", "empty"):
            return bool(self.misread)
        chance = bdtrc(self.odd - 1, self.held, max(self.rate, _MIN_RATE))
        # a column of numbers of which nothing can be read
        nothing = (
            self.kind in ("number", "date", "list") and self.odd == self.held and 2 * self.held >= self.rows
        )
        return 2 * self.odd > self.held and bool(chance < SIGNIFICANCE / (1 if nothing else self.columns))

    @property
    def sentence(self) -> str:
        """Such as: 12 of 40 cells of 'member' hold a value the model never saw: '0', '1'."""
        shown = ", ".join(map(_short, self.examples))
        sentence = f"{self.odd:,} of {self.held:,} cells of {self.name!r} {self.what}"
        return f"{sentence}: {shown}" if shown else sentence


class UnseenRecords(list[Unseen]):
    """The records of the columns of new rows with cells that a recipe cannot use."""

    @property
    def mostly(self) -> UnseenRecords:
        """The records of columns of which most cells are such."""
        return UnseenRecords(one for one in self if one.most)

    @property
    def sentence(self) -> str:
        """The sentences of a few columns, what the recipe learned of them, and the number of the others."""
        parts = [
            f"{one.sentence}{f' (it learned {one.learned})' * bool(one.learned)}" for one in self[:SHOWN]
        ]
        if (more := len(self) - SHOWN) > 0:
            parts.append(f"and {more:,} more column{'s' * (more > 1)} likewise")
        return "; ".join(parts)


class Tally:
    """Counts of odd cells by column, of one or several blocks of rows."""

    def __init__(self, rows: int = 0) -> None:
        self.columns: dict[str, Unseen] = {}
        self.far: dict[str, Unseen] = {}
        self.rows = rows
        # the text column that is being read, whose words are looked up by a later step
        self.text = ""

    def add(self, name: str, held: int, odd: int = 0, cells: Any = None, **told: Any) -> None:
        """Add a block: the number of cells that hold something, of odd ones, the odd ones, and what to say."""
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = Unseen(name)
        column.held += held
        if odd:
            column.odd += odd
            column.misread += told.pop("misread", 0)
            column.counts.update(cells if isinstance(cells, Counter) else frequent(cells))
            if len(column.counts) > 2 * SAMPLE:  # of many blocks
                column.counts = Counter(dict(column.counts.most_common(SAMPLE)))
            for key, value in told.items():
                setattr(column, key, value)

    def merge(self, other: Tally) -> None:
        """Add the counts of other rows."""
        self.rows += other.rows
        for name, found in other.columns.items():
            told = {key: getattr(found, key) for key in ("kind", "what", "learned", "rate", "misread")}
            self.add(name, found.held, found.odd, found.counts, **told)
        for name, found in other.far.items():
            self.add_far(name, found.odd, list(found.counts), found.learned)

    def found(self) -> UnseenRecords:
        """Return the columns with odd cells. Texts of new words, and numbers out of range, count if most are such."""
        for name, far in self.far.items():
            far.held = self.columns[name].held - self.columns[name].odd
        for column in self.columns.values():
            column.columns, column.rows = len(self.columns), self.rows
        every = [*self.columns.values(), *(far for far in self.far.values() if far.held >= MIN_ROWS)]
        mostly = ("text", "range")
        return UnseenRecords(c for c in every if c.odd > (c.held // 2 if c.kind in mostly else 0))

    def add_far(self, name: str, odd: int, cells: Sequence[str], learned: str) -> None:
        """Add numbers of a block that are far from those that were learned."""
        what = f"are far from the numbers that the model learned, {learned}"
        far = self.far.setdefault(name, Unseen(name, "range", what=what, learned=learned))
        far.odd += odd
        far.counts.update(cells)


_ACTIVE: ContextVar[Tally | None] = ContextVar("labelfold_tally", default=None)


@contextmanager
def counting(rows: int) -> Iterator[Tally]:
    """Count the odd cells that steps find in this thread, in a block of rows."""
    tally = Tally(rows)
    token = _ACTIVE.set(tally)
    try:
        yield tally
    finally:
        _ACTIVE.reset(token)


def active() -> Tally | None:
    """Return the counts that a step adds to; None if nothing is counted, as in `fit`."""
    return _ACTIVE.get()


def stray_cells(column: Any, odd: np.ndarray) -> Any:
    """Return the cells of a column that hold something, of those marked in ``odd``, as text."""
    return text_cells(shown(column.filter(pa.array(odd))), numbers=True).drop_null()


def count_gaps(tally: Tally, name: str, column: Any, gone: np.ndarray, **told: Any) -> None:
    """Add a column that was parsed; ``gone`` marks cells without a result, some of them missing in the table."""
    empty = int(np.count_nonzero(gone))
    if empty == column.null_count:
        tally.add(name, len(gone) - empty)
        return
    cells = stray_cells(column, gone)
    tally.add(name, len(gone) - empty + len(cells), len(cells), cells, **told)


def count_far(tally: Tally, names: Sequence[str], values: np.ndarray, ranges: np.ndarray) -> None:
    """Add the numbers (n, k) that are farther outside the ranges (k, 3) than these are wide."""
    low, high = ranges[:, 0], ranges[:, 1]
    far = (values < low - (high - low)) | (values > high + (high - low))
    counts = far.sum(axis=0)
    for j in map(int, np.flatnonzero(counts)):
        cells = [f"{value:g}" for value in values[far[:, j], j][:SHOWN]]
        tally.add_far(names[j], int(counts[j]), cells, f"{low[j]:g} to {high[j]:g}")


def empty_columns(
    tally: Tally, columns: Sequence[dict[str, Any]], n_learned: int, n_rows: int
) -> list[Unseen]:
    """Return the columns in use of which most cells are empty, if `fit` makes that unlikely."""
    found = []
    for column in columns if n_rows >= MIN_ROWS else ():
        seen = tally.columns.get(column["name"])
        empty = n_rows - (0 if seen is None else seen.held)
        share = max(column["missing"] / n_learned, _MIN_RATE)
        if 2 * empty > n_rows and bdtrc(empty - 1, n_rows, share) < SIGNIFICANCE / len(columns):
            there = n_learned - column["missing"]
            what = f"are empty, where the model learned from {there:,} of {n_learned:,}"
            found.append(Unseen(column["name"], "empty", empty, n_rows, what))
    return found


def share_of_strays(column: Any, gone: np.ndarray) -> float:
    """Return the share of cells without a result among the cells that hold something, in the rows of `fit`."""
    odd = len(stray_cells(column, gone)) if gone.any() else 0
    return odd / (len(gone) - int(np.count_nonzero(gone)) + odd) if odd else 0.0


def frequent(cells: Any) -> Counter[str]:
    """Return the most frequent values of an Arrow column of text with their counts."""
    return Counter(dict(Counter(cells.to_pylist()).most_common(SAMPLE)))


def _short(cell: str) -> str:
    """Return a cell in quotes, cut if it is long."""
    return repr(cell if len(cell) <= LENGTH else f"{cell[:LENGTH]}...")


def quoted(values: Sequence[str], most: int = SHOWN) -> str:
    """Return values for a sentence.

    >>> quoted(["no", "yes"]), quoted("abcdef")
    ("'no' and 'yes'", "'a', 'b', 'c', 'd' and 2 more")
    """
    shown = list(map(_short, values[:most]))
    if len(values) > most:
        return f"{', '.join(shown)} and {len(values) - most:,} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""
