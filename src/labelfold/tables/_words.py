"""The sentences of a recipe about columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labelfold.tables._column import REPEATS, TELLS

# The replacement of a missing cell, by role.
_INSTEAD = {"category": "a value of its own", "text": "no words", "id": ""}


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
