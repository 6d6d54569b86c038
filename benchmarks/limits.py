"""Sizes from which another way through labelfold.rows is faster: what its limits are based on.

    python benchmarks/limits.py                  half a minute
    python benchmarks/limits.py --only rows      only tables whose name contains this

Each table has the time of the other way relative to the usual one, in turn, best of several: below 1 the other way is
faster. The limit in use is named beside the table. On another machine it may be elsewhere by a factor of two.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from _common import best_of, options_of
from labelfold.rows import as_rows
from labelfold.rows.adapters import _stream as stream

# A size, and its time relative to the usual way.
Point = tuple[float, float]


def ratio(
    usual: Callable[[], object], other: Callable[[], object], n_threads: int = 1, times: int = 7
) -> float:
    """Return the time of the other way relative to the usual one."""
    usual(), other()  # compiled, and in the cache
    before, after = best_of(times, [usual, other], n_threads)
    return after / before


def rows_between() -> Iterator[Point]:
    """Unwanted rows between two wanted ones, which are read with them: rows of 100 numbers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, np.random.default_rng(0).standard_normal((200_000, 100)))
        rows = as_rows(path)
        for gap in (4, 16, 64, 256):
            index = np.arange(0, rows.shape[0], gap + 1)[:2000]

            def take(limit: int, index: np.ndarray = index) -> None:
                with mock.patch.object(stream, "_MAX_GAP", limit):
                    rows.take(index)

            yield gap, ratio(lambda take=take: take(0), lambda take=take: take(10**9))


TABLES = {
    "rows that are read and not wanted": (rows_between, stream._MAX_GAP),
}


def main() -> None:
    """Print the tables."""
    given = options_of(__doc__, only="")
    for name, (points, limit) in TABLES.items():
        if given.only not in name:
            continue
        print(f"{name}: {' '.join((points.__doc__ or '').split())} The limit is {limit:,.0f}.")
        for size, found in points():
            print(f"{size:14,.0f}  {found:5.2f}")


if __name__ == "__main__":
    main()
