"""What Dask's workers run. A task gets a group: some chunks of rows, and the parts of aligned arrays in lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from labelfold.rows import _threads as threads
from labelfold.rows._protocol import RowFunction
from labelfold.rows._sums import Accumulator
from labelfold.rows.adapters._local import limit, merge, slabs
from labelfold.rows.adapters._memory import memory_rows


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


class Report(NamedTuple):
    """The sums of some chunks, and shape and dtype of their row results: None if there are none."""

    sums: Accumulator
    about: tuple | None


def run_group(work: Shared, chunks: list, spans: np.ndarray, *columns: list) -> tuple[list, Report]:
    """Return the row results of each chunk of a group, and the sums of all."""
    mapped, sums = [], []
    with threads.single_blas(), np.errstate(all="ignore"):
        for chunk, (start, _), *aligned in zip(chunks, spans, *columns, strict=True):
            own, total = _run_chunk(work.value, chunk, int(start), aligned)
            mapped.append(own)
            sums.append(total)
    return mapped, Report(merge(sums), _about(mapped))


def _run_chunk(work: Work, chunk: Any, start: int, aligned: list) -> tuple[Any, Accumulator]:
    rows = memory_rows(chunk, first_row=start, checked=work.checked)
    rows.dtype = work.dtype
    mapped, sums = rows.mapped(), Accumulator()
    for a, b in slabs(limit(rows.cuts(), work.most_rows), 1)[0]:
        result, partial = work.f(rows.block(a, b), *(h[a:b] for h in aligned), *work.shared)
        mapped.store(a, b, result)
        sums.add(partial)
    return mapped.result(), sums


def make_group(f: Callable[..., Any], spans: np.ndarray, *columns: list) -> tuple[list, Report]:
    """Return ``f(start, stop, *aligned)`` for each chunk of a group."""
    made = [f(*span, *aligned) for span, *aligned in zip(spans.tolist(), *columns, strict=True)]
    return made, Report(Accumulator(), _about(made))


def sum_group(f: Callable[..., Any], *columns: list) -> tuple[None, Report]:
    """Return the sums of ``f(*aligned)`` over the chunks of a group."""
    sums = Accumulator()
    for aligned in zip(*columns, strict=True):
        sums.add(f(*aligned))
    return None, Report(sums, None)


def merge_reports(reports: list[Report]) -> Report:
    """Merge the sums of several groups, in their order."""
    return Report(merge(report.sums for report in reports), reports[0].about)


def pick_group(column: list, members: Sequence[int], index: Sequence[np.ndarray]) -> list:
    """Return some entries of some parts of an aligned array."""
    return [np.asarray(column[j])[own] for j, own in zip(members, index, strict=True)]


def take_group(chunks: list, starts: Sequence[int], index: Sequence[np.ndarray]) -> list:
    """Return some rows of each chunk."""
    return [
        memory_rows(chunk, first_row=int(start)).take(own).X
        for chunk, start, own in zip(chunks, starts, index, strict=True)
    ]


def same(value: Any) -> Any:
    """Return the value: a copy, if the task runs on another worker than that which holds it."""
    return value


def _about(made: list) -> tuple | None:
    return None if made[0] is None else (made[0].shape[1:], made[0].dtype)


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
