"""What is known of a column, and why there may be nothing to learn from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labelfold.tables._target import LEAST_ROWS, Target

# So many columns whose names only differ in their numbers are the places of one vector.
_VECTOR = 16
# Fewer rows count themselves only in order, and fewer values that all differ are no ids.
FEWEST_COUNTED = 20


@dataclass(frozen=True)
class Column:
    """What a column is and how it is read.

    Attributes
    ----------
    name : str
    role : {"number", "category", "date", "text", "list", "id", "left out"}
    how : str
        What is done with it, or why it is left out, in a few words.
    reading : object
        The writing of numbers, the layouts and units of dates, or the width and the root mean square length of lists.
    missing : int
        Cells without a value.
    levels : int
        Distinct values of a category.
    hashed, told : bool
        Whether a category is hashed; whether missing cells tell something of the labels.
    """

    name: str
    role: str
    how: str = ""
    reading: Any = None
    missing: int = 0
    levels: int = 0
    hashed: bool = False
    told: bool = False
    data: Any = field(default=None, repr=False, compare=False)

    @property
    def used(self) -> bool:
        """Whether it becomes part of X."""
        return self.role not in ("id", "left out")


def left_out(column: Column, target: Target, places: np.ndarray, seen: dict[int, list[Column]]) -> Column:
    """Return the column, or why there is nothing to learn from it.

    Parameters
    ----------
    column : Column
        With its numbers or codes as ``data``.
    target : Target
        The labels of the same rows.
    places : ndarray
        Which rows of the table these are.
    seen : dict
        Columns before it by a hash of their values; this one is added.
    """
    values = column.data
    if values is None:
        return column
    n, coded = len(values), values.dtype.kind in "iu"
    known = values[values >= 0] if coded else values[~np.isnan(values)]
    if n > 1 and len(known) and (known == known[0]).all():
        if len(known) == n:
            return replace(column, role="left out", how="it holds one value")
        # whether there is a value is all that it tells
        return replace(column, role="category", how="1 value", reading=None, levels=1, data=None)
    if column.role == "number" and _counts_rows(column.name, values, places):
        return replace(column, role="id", how="it counts the rows")
    if column.role == "category" and column.levels == len(known) >= FEWEST_COUNTED:
        return replace(column, role="id", how="every row has another value, as ids have")
    repeated = target.repeats(values)
    if repeated >= LEAST_ROWS:
        how = f"it maps one to one onto the target in all {repeated:,} labelled rows, so it is a leak"
        return replace(column, role="left out", how=how)
    key = hash((column.role, values[:: max(n // 1000, 1)].tobytes()))
    for other in seen.setdefault(key, []):
        if np.array_equal(values, other.data, equal_nan=not coded):
            return replace(column, role="left out", how=f"it repeats {other.name!r}")
    seen[key].append(column)
    if repeated:
        return _named(column, f"it maps one to one onto the target in {repeated} labelled rows")
    ordered = n >= FEWEST_COUNTED and column.role == "number" and bool((np.diff(values) > 0).all())
    if ordered and (values == np.round(values)).all():
        return _named(column, "each row has a larger whole number, as ids may have")
    return column


def _named(column: Column, what: str) -> Column:
    """Return the column with something to say of it."""
    return replace(column, how="; ".join(filter(None, [column.how, what])))


def _counts_rows(name: str, values: np.ndarray, places: np.ndarray) -> bool:
    """Tell whether numbers count the rows: in order, or as every whole number from the first to the last, once."""
    n = len(values)
    if n < 3 or np.isnan(values).any():
        return False
    if np.array_equal(values - values[0], places - places[0]):
        return True
    whole = n > places[-1] and n >= FEWEST_COUNTED and values.max() - values.min() == n - 1
    return whole and bool((np.diff(np.sort(values)) == 1).all())


def vector_columns(names: Sequence[str]) -> set[str]:
    """Return the columns that are places of a vector, such as pixels: each stays where it is, constant or not.

    >>> sorted(vector_columns(["age", *(f"pixel {i}" for i in range(20))]))[0]
    'pixel 0'
    """
    stems = Counter(re.sub(r"\d+", "#", name) for name in names if re.search(r"\d", name))
    kept = {stem for stem, times in stems.items() if times >= _VECTOR}
    return {name for name in names if re.sub(r"\d+", "#", name) in kept}
