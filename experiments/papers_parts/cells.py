"""A published number beside ours, and whether it was reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from common import Report

REACHED, BETTER, MISSED, OTHER = "reached", "better", "missed", "other data"
NO_CAUSE = "No cause is written yet."


class Cell(NamedTuple):
    """One published number and what our runs give.

    Attributes
    ----------
    part, dataset, method, setting : str
        Where it stands in the paper.
    published : float
        The paper's number.
    deviation : float or None
        The paper's own spread, where it gives one.
    ours : tuple of float
        Ours, a value for each draw.
    higher_is_better : bool
        False for an error.
    same_data : bool
        Whether the set is the paper's.
    """

    part: str
    dataset: str
    method: str
    setting: str
    published: float
    deviation: float | None
    ours: tuple[float, ...]
    higher_is_better: bool = True
    same_data: bool = True

    @property
    def mean(self) -> float:
        """The mean over the draws."""
        return float(np.mean(self.ours))

    @property
    def spread(self) -> float:
        """The standard deviation over the draws."""
        return float(np.std(self.ours))

    @property
    def gain(self) -> float:
        """How much better ours is than published."""
        return (self.mean - self.published) * (1 if self.higher_is_better else -1)

    @property
    def mark(self) -> str:
        """Reached: at most one spread worse than published; better: more than one spread better."""
        if not self.same_data:
            return OTHER
        if self.gain < -self.spread:
            return MISSED
        return BETTER if self.gain > self.spread else REACHED

    @property
    def n_as_good(self) -> int:
        """How many draws are at least as good as published."""
        sign = 1 if self.higher_is_better else -1
        return sum(sign * value >= sign * self.published for value in self.ours)

    @property
    def where(self) -> str:
        """Its place in words, which causes are looked up by."""
        return ", ".join(word for word in (self.part, self.dataset, self.method, self.setting) if word)

    def text(self, digits: int) -> str:
        """Return ours, the paper's in brackets, and the mark."""
        paper = f"{self.published:.{digits}f}"
        if self.deviation is not None:
            paper += f" ± {self.deviation:.{digits}f}"
        mark = f"**{self.mark}**" if self.mark == MISSED else self.mark
        return f"{self.mean:.{digits}f} ± {self.spread:.{digits}f} ({paper}) {mark}"


def cause_of(cell: Cell, causes: Sequence[dict[str, str]]) -> str:
    """Return the first written cause whose pattern fits the cell's place, or nothing."""
    return next((cause["why"] for cause in causes if fnmatchcase(cell.where, cause["where"])), "")


def counted(cells: Iterable[Cell]) -> list[list[Any]]:
    """Return a line for each method: how many cells were reached, and how many not."""
    cells = list(cells)
    lines = []
    for method in dict.fromkeys(cell.method for cell in cells):
        marks = [cell.mark for cell in cells if cell.method == method]
        lines.append([method, *(marks.count(mark) for mark in (REACHED, BETTER, MISSED, OTHER))])
    return lines


def write_counts(page: Report, cells: Sequence[Cell]) -> None:
    """Write the table of `counted`."""
    page.table(["method", REACHED, BETTER, MISSED, OTHER], counted(cells))


def write_grid(
    page: Report,
    cells: Sequence[Cell],
    corner: str,
    row: Callable[[Cell], str],
    column: Callable[[Cell], str],
    digits: int,
) -> None:
    """Write cells as a table of rows and columns."""
    at = {(row(cell), column(cell)): cell.text(digits) for cell in cells}
    columns = list(dict.fromkeys(column(cell) for cell in cells))
    lines = [
        [name, *(at.get((name, head), "–") for head in columns)]
        for name in dict.fromkeys(row(cell) for cell in cells)
    ]
    page.table([corner, *columns], lines)


def write_missed(page: Report, cells: Sequence[Cell], causes: Sequence[dict[str, str]], digits: int) -> None:
    """Write what was missed, by cause."""
    missed = [cell for cell in cells if cell.mark == MISSED]
    page.text("## Missed, and why" if missed else "## Missed: nothing")
    by_cause: dict[str, list[Cell]] = {}
    for cell in missed:
        by_cause.setdefault(cause_of(cell, causes) or NO_CAUSE, []).append(cell)
    for cause, own in by_cause.items():
        page.text(cause)
        page.table(
            ["where", "published", "ours ± spread", "worse by", "draws at least as good"],
            [
                [
                    cell.where,
                    f"{cell.published:.{digits}f}",
                    f"{cell.mean:.{digits}f} ± {cell.spread:.{digits}f}",
                    f"{-cell.gain:.{digits}f}",
                    f"{cell.n_as_good} of {len(cell.ours)}",
                ]
                for cell in own
            ],
        )


def draws(cells: Iterable[Cell]) -> str:
    """Return how many draws the cells have, the fewest and the most."""
    counts = [len(cell.ours) for cell in cells]
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
