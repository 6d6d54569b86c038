"""The description of a column, and the reasons to leave one out."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import isqrt
from typing import Any

import numpy as np

from labelfold.tables._limits import MIN_COUNTED
from labelfold.tables._target import MIN_LEAK_ROWS, Filled, Target, known_cells

# The reason for leaving out a repeated column, before the name of the first.
REPEATS = "it repeats "
# Part of the reason for leaving out a column that is filled in labelled rows.
TELLS = ", so it may tell which rows were labelled, or their label"
_PIXEL = re.compile(r"(?:pixel|px|p)[ _.-]?(\d+)(?:[ _.x,-](\d+))?", re.IGNORECASE)
# If there are columns of these roles, columns of numbers are scaled to unit variance.
UNLIKE_NUMBERS = ("category", "date", "list", "text")
# A choice: a column with more distinct values than this share of the rows cannot help for new rows.
_MAX_DISTINCT = 0.95
# The replacement of a missing cell, by role.
_INSTEAD = {"category": "a value of its own", "text": "no words", "id": ""}


@dataclass(frozen=True)
class Column:
    """The role of a column, and how it is read.

    Attributes
    ----------
    name : str
    role : {"number", "category", "date", "text", "list", "id", "left out"}
    how : str
        How it is converted, or why it is left out, in a few words.
    reading : object
        The format of numbers; the layouts and units of dates; the length and root mean square norm of lists; or the
        reason why categories are not numbers.
    missing : int
        Number of missing cells.
    levels : int
        Number of distinct values of a category.
    hashed : bool
        Whether a category, or the words of a text, are hashed.
    gaps_predict : bool
        Whether missing cells predict the labels.
    short : bool
        Whether a text has few words, so that it counts as a category.
    flag : bool
        Whether a number is always 0 or 1.
    odd : float
        The share of cells that hold something, but no number, date or list.
    range : tuple of (float, float, bool)
        The smallest and the largest number, and whether all are whole.
    """

    name: str
    role: str
    how: str = ""
    reading: Any = None
    missing: int = 0
    levels: int = 0
    hashed: bool = False
    gaps_predict: bool = False
    short: bool = False
    flag: bool = False
    odd: float = 0.0
    range: tuple[float, float, bool] = (-np.inf, np.inf, False)
    data: Any = field(default=None, repr=False, compare=False)

    @property
    def used(self) -> bool:
        """Whether the column is used in the matrix."""
        return self.role not in ("id", "left out")


def left_out(column: Column, target: Target, places: np.ndarray, seen: dict[tuple, str]) -> Column:
    """Return the column, marked as left out if there is a reason.

    Parameters
    ----------
    column : Column
        The column, with its numbers or codes as ``data``.
    target : Target
        The labels of the same rows.
    places : ndarray
        The indices of these rows in the table.
    seen : dict
        Names of earlier columns by a digest of their values. This column is added.
    """
    values = column.data
    if values is None or column.role == "list":
        return column
    known = known_cells(values)
    if is_constant(values):
        if len(known) == len(values):
            return replace(column, role="left out", how="it holds one value")
        # the only information is whether there is a value
        return replace(column, role="category", how="1 value", reading=None, levels=1, data=None)
    if column.role == "number" and _counts_rows(column.name, values, places):
        return replace(column, role="id", how="it counts the rows")
    if column.role == "category" and len(known) >= MIN_COUNTED and column.levels > _MAX_DISTINCT * len(known):
        if column.reading is not None:
            return replace(column, role="left out", how=column.reading)
        if column.levels == len(known):
            return replace(column, role="id", how="every row has another value, as ids have")
        return replace(column, role="left out", how="nearly every row has another value, as ids have")
    repeated = target.repeats(values)
    if repeated >= MIN_LEAK_ROWS:
        how = f"it maps one to one onto the target in all {repeated:,} labelled rows, so it is a leak"
        return replace(column, role="left out", how=how)
    other = seen.setdefault((column.role, _digest(values)), column.name)
    if other != column.name:
        return replace(column, role="left out", how=f"{REPEATS}{other!r}")
    if repeated:
        return with_remark(column, f"it maps one to one onto the target in {repeated} labelled rows")
    ordered = len(values) >= MIN_COUNTED and column.role == "number" and bool((np.diff(values) > 0).all())
    if ordered and (values == np.round(values)).all():
        return with_remark(column, "each row has a larger whole number, as ids may have")
    return column


def filled_where_labelled(column: Column, filled: Filled, value: str) -> Column:
    """Return a column as left out since it is filled in labelled rows; ``value`` counts as empty."""
    held = "filled" if filled.value is None else f"not {value}"
    if filled.missing and filled.value is not None:
        held = f"neither missing nor {value}"
    here, others = ("{:,} of {:,}".format(*part) for part in (filled.labelled, filled.others))
    keep = f"--keep {shlex.quote(column.name)} (in Python: keep=[{column.name!r}])"
    how = f"it is {held} in {here} labelled rows and in {others} others{TELLS}; {keep} keeps it"
    return replace(column, role="left out", how=how)


def is_constant(values: np.ndarray) -> bool:
    """Tell whether a non-missing value occurs in several rows."""
    known = known_cells(values)
    return len(values) > 1 and len(known) > 0 and bool((known == known[0]).all())


def _digest(values: np.ndarray) -> bytes:
    """Return a digest of the values of a column."""
    if values.dtype.kind == "f":
        # one representation of zero, and one of a missing cell
        values = np.where(np.isnan(values), np.nan, values.astype(np.float64) + 0.0)
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=16).digest()


def with_remark(column: Column, what: str) -> Column:
    """Return the column with a further remark, if there is one."""
    return replace(column, how="; ".join(filter(None, [column.how, what])))


def _counts_rows(name: str, values: np.ndarray, places: np.ndarray) -> bool:
    """Tell whether numbers are a row counter: ascending, or a permutation of consecutive whole numbers."""
    n = len(values)
    if n < 3 or np.isnan(values).any():
        return False
    if np.array_equal(values - values[0], places - places[0]):
        return True
    whole = n > places[-1] and n >= MIN_COUNTED and values.max() - values.min() == n - 1
    return whole and bool((np.diff(np.sort(values)) == 1).all())


def matching(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the columns that a pattern matches; an exact name matches only itself.

    >>> matching("label_*", ["label_a", "label_b", "x"]), matching("a*", ["a*", "ab"])
    (['label_a', 'label_b'], ['a*'])
    """
    return [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]


def vector_columns(names: Sequence[str], fewest: int = 16) -> list[str]:
    """Return the columns whose names differ only in a number, as those of a vector; ``fewest`` make a vector.

    >>> vector_columns(["age", *(f"v{i}" for i in range(20))])[:2]
    ['v0', 'v1']
    """
    stems = Counter(re.sub(r"\d+", "#", name) for name in names if re.search(r"\d", name))
    kept = {stem for stem, times in stems.items() if times >= fewest}
    return [name for name in names if re.sub(r"\d+", "#", name) in kept]


def pixel_columns(names: Sequence[str]) -> tuple[list[str], tuple[int, int] | None]:
    """Return the columns named as pixels, and the height and width if they form an image.

    Columns named ``pixel_0_0``, ``pixel_0_1``, ... or ``pixel1``, ``pixel2``, ... do.

    >>> pixel_columns(["label", *(f"pixel{i}" for i in range(4))])
    (['pixel0', 'pixel1', 'pixel2', 'pixel3'], (2, 2))
    """
    found = [m for name in names if (m := _PIXEL.fullmatch(name))]
    pixels = [m[0] for m in found]
    if found and all(m[2] for m in found):
        places = np.array([(int(m[1]), int(m[2])) for m in found])
        height, width = (int(s) for s in places.max(axis=0) - places.min(axis=0) + 1)
        expected = np.argwhere(np.ones((height, width))) if height * width == len(found) else None
        in_order = expected is not None and (places - places.min(axis=0) == expected).all()
        return pixels, (height, width) if in_order else None
    side = isqrt(len(found))
    counted = np.diff([int(m[1]) for m in found])
    whole = side * side == len(found) and side > 1 and (counted == 1).all()
    return pixels, (side, side) if whole else None


def lines_of(columns: Sequence[dict[str, Any]], *, plain: bool) -> list[str]:
    """Return lines about columns, leaks first, columns treated alike together. ``plain`` includes plain numbers."""
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for column in columns:
        gaps = column["missing"] > 0
        if plain or column["role"] != "number" or column["how"] or gaps:
            how = next((reason for reason in (REPEATS, TELLS) if reason in column["how"]), column["how"])
            alike.setdefault((column["role"], how, gaps), []).append(column)
    groups = sorted(alike.values(), key=lambda some: TELLS not in some[0]["how"])
    return [_line(some) for some in groups]


def _line(columns: list[dict[str, Any]]) -> str:
    """Return the line about columns that are treated alike."""
    first, names = columns[0], [column["name"] for column in columns]
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    how = first["how"]
    if len({column["how"] for column in columns}) > 1:
        how = f"each repeats another, the first {how.removeprefix(REPEATS)}"
        if TELLS in first["how"]:
            held = first["how"].partition(TELLS)[0].removeprefix("it is ")
            how = f"each is filled in labelled rows (the first {held}){TELLS}; --keep (in Python: keep) keeps one"
    parts = [first["role"], how]
    if first["missing"] and first["role"] != "left out":
        counts = sorted({column["missing"] for column in columns})
        many = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        instead = _INSTEAD.get(first["role"], "the median in their place")
        parts.append(f"{many} missing" + (f", {instead}" if instead else ""))
    return f"{', '.join(names[:5])}{more}: {'; '.join(filter(None, parts))}"
