"""What Dask's workers run. A task gets a group: some chunks of rows, and the parts of aligned arrays in lists."""

from __future__ import annotations

import ctypes
import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from labelfold.rows import _threads as threads
from labelfold.rows._protocol import RowFunction
from labelfold.rows._sums import Accumulator
from labelfold.rows.adapters._local import all_finite, check_finite, limit, merge, slabs
from labelfold.rows.adapters._memory import memory_rows

# Parameters of glibc's mallopt.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


class Work(NamedTuple):
    """What a pass does with each chunk; ``checked`` if an earlier pass found all values finite."""

    f: RowFunction
    shared: tuple
    most_rows: int | None
    dtype: np.dtype
    checked: bool


class Shared:
    """A value that is sent as one object (a tuple would be sent item by item)."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Pickled(NamedTuple):
    """A small value as bytes, which travel with tasks."""

    data: bytes

    @classmethod
    def of(cls, value: Any) -> Pickled:
        """Return the value pickled; Dask knows how to pickle functions of the user's script as well."""
        from distributed.protocol.pickle import dumps

        return cls(dumps(value))

    @property
    def value(self) -> Any:
        """The value."""
        return pickle.loads(self.data)


class Report(NamedTuple):
    """Sums of some chunks; shape and dtype of their row results, or None; whether all row results are finite."""

    sums: Accumulator
    about: tuple | None
    finite: bool = True


class Made(NamedTuple):
    """The result of a task: for each chunk of a group its row results, and the sums of the group."""

    parts: list
    report: Report


def run_group(shared: Shared | Pickled, chunks: list, spans: np.ndarray, *columns: Any) -> Made:
    """Return the row results of each chunk of a group, and the sums of all."""
    _reuse_memory()
    work, finite = shared.value, True
    mapped, sums = [], Accumulator()
    with threads.single_blas(), np.errstate(all="ignore"):
        for chunk, (start, _), *aligned in zip(chunks, spans, *map(parts_of, columns), strict=True):
            own, total, in_range = _run_chunk(work, chunk, int(start), aligned)
            mapped.append(own)
            sums = sums.merge(total)
            finite &= in_range
    return Made(mapped, Report(sums, _about(mapped), finite))


@cache
def _reuse_memory() -> None:
    """Let glibc keep freed memory of a few MB, which the next block needs again.

    It does so by itself, but not if MALLOC_TRIM_THRESHOLD_ is set, as Dask does for its workers: then a temporary
    array of each block is returned to the system and fetched again, page by page, which doubled the time of a pass.
    The values are those that glibc would reach. Chunks are larger and are still returned to the system at once.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        with suppress(OSError, AttributeError):  # another C library
            mallopt = ctypes.CDLL("libc.so.6").mallopt
            mallopt(_M_MMAP_THRESHOLD, 32 << 20)
            mallopt(_M_TRIM_THRESHOLD, 64 << 20)


def _run_chunk(work: Work, chunk: Any, start: int, aligned: list) -> tuple[Any, Accumulator, bool]:
    by_block = isinstance(chunk, np.ndarray) and not work.checked
    rows = memory_rows(chunk, first_row=start, checked=work.checked or by_block)
    rows.dtype = work.dtype
    mapped, sums, finite = rows.mapped(), Accumulator(), True
    for a, b in slabs(limit(rows.cuts(), work.most_rows), 1)[0]:
        if by_block:
            check_finite(chunk[a:b], start + a)  # the block is in the cache afterwards
        result, partial = work.f(rows.block(a, b), *(h[a:b] for h in aligned), *work.shared)
        mapped.store(a, b, result)
        sums.add(partial)
        finite &= _finite(result)  # while it is in the cache
    return mapped.result(), sums, finite


def make_group(f: Callable[..., Any], spans: np.ndarray, *columns: Any) -> Made:
    """Return ``f(start, stop, *aligned)`` for each chunk of a group."""
    made = [
        f(*span, *aligned) for span, *aligned in zip(spans.tolist(), *map(parts_of, columns), strict=True)
    ]
    return Made(made, Report(Accumulator(), _about(made), all(map(_finite, made))))


def sum_group(f: Callable[..., Any], *columns: Any) -> Made:
    """Return the sums of ``f(*aligned)`` over the chunks of a group."""
    sums = Accumulator()
    for aligned in zip(*map(parts_of, columns), strict=True):
        sums.add(f(*aligned))
    return Made([], Report(sums, None))


def merge_reports(reports: Sequence[Report | Made]) -> Report:
    """Merge the sums of several groups, in their order."""
    own = [report.report if isinstance(report, Made) else report for report in reports]
    return Report(merge(report.sums for report in own), own[0].about, all(report.finite for report in own))


def parts_of(column: Made | list) -> list:
    """Return the parts of an aligned array: results of a task, or a list."""
    return column.parts if isinstance(column, Made) else column


def part_of(column: Made | list, j: int) -> Any:
    """Return one part of an aligned array."""
    return parts_of(column)[j]


def report_of(made: Made) -> Report:
    """Return the sums of a group."""
    return made.report


def pick_group(column: Any, members: Sequence[int], index: Sequence[np.ndarray]) -> list:
    """Return some entries of some parts of an aligned array."""
    return [np.asarray(part_of(column, j))[own] for j, own in zip(members, index, strict=True)]


def take_group(chunks: list, starts: Sequence[int], index: Sequence[np.ndarray]) -> list:
    """Return some rows of each chunk; only these are checked to be finite."""
    return [_taken(*each) for each in zip(chunks, starts, index, strict=True)]


def _taken(chunk: Any, start: int, index: np.ndarray) -> Any:
    try:
        return memory_rows(chunk, checked=True).take(index).X
    except ValueError:
        memory_rows(chunk, first_row=int(start))  # its error has the number of the row among all
        raise


def same(value: Any) -> Any:
    """Return the value: a copy, if the task runs on another worker than that which holds it."""
    return value


def _about(made: list) -> tuple | None:
    return None if made[0] is None else (made[0].shape[1:], made[0].dtype)


def _finite(made: np.ndarray | None) -> bool:
    return made is None or made.dtype.kind != "f" or all_finite(made)


def replaced(
    start: int,
    stop: int,
    part: np.ndarray,
    *,
    f: Callable[[np.ndarray], np.ndarray] | None,
    index: np.ndarray,
    values: np.ndarray | None,
) -> np.ndarray:
    """Return ``f(part)`` with ``values`` in the rows at ``index``; a new array."""
    found = part.copy() if f is None else f(part)
    inside = (index >= start) & (index < stop)
    if inside.any():
        found[index[inside] - start] = values[inside]  # type: ignore[index]
    return found


def repeat(start: int, stop: int, part: np.ndarray, *, k: int, divisor: float, dtype: np.dtype) -> np.ndarray:
    """Return k equal columns, ``part`` over ``divisor``."""
    return np.repeat(part.astype(dtype)[:, None] / divisor, k, axis=1)
