"""How tasks reach Dask's workers, which chunks a task gets, and how row state that was lost is computed again."""

from __future__ import annotations

import ctypes
import os
import pickle
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import cache, reduce
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import dask
import numpy as np
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from labelfold.rows import _threads as threads
from labelfold.rows._rows import RowFunction, result_and_sums
from labelfold.rows._sums import Accumulator
from labelfold.rows.adapters._local import RowResults, all_finite, blocks_between, check_finite, memory_rows

Found = TypeVar("Found")
# Maximum number of attempts of a pass if workers are lost.
_ATTEMPTS = 6
# Row state is copied to a second worker after this number of passes, since it is computed again from the last copy.
COPY_EVERY = 8
# The share of a worker's memory that the chunks of one task may take.
_SHARE = 0.4
# Shared values are sent as a part of each task if they take at most this many bytes in all tasks together.
_WITH_TASKS = 1_000_000
# The workers of each client that are known to have labelfold installed.
_ASKED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
# Parameters of glibc's mallopt.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


class Group(NamedTuple):
    """The chunks that one task gets, and the worker that holds them; None if any worker may run the task."""

    members: tuple[int, ...]
    worker: str | None


class LazyTasks:
    """Tasks as graphs, for every scheduler: each pass computes the chunks again, and a group is one chunk.

    Parameters
    ----------
    chunks : list of Delayed
    client : distributed.Client, optional
        The client of a cluster.
    sources : list of Future
        What the chunks are computed from, as far as it is in the memory of the workers.
    """

    def __init__(self, chunks: Sequence[Any], client: Any = None, sources: Sequence[Any] = ()) -> None:
        self.chunks, self.client, self.sources = list(chunks), client, sources

    def groups(self, sizes: np.ndarray, row_bytes: float) -> list[Group]:
        """Return one group for each chunk, so that no worker needs memory for more."""
        return [Group((i,), None) for i in range(len(self.chunks))]

    def share(self, value: Any, n_tasks: int, chained: bool) -> Any:
        """Return a value that every task of a pass needs; in a cluster it is sent once to each worker.

        The client sends it to one worker, from which the others fetch it: a broadcast by the scheduler may wait for
        ever if a worker is lost meanwhile. No task computes the value, so the scheduler forgets the tasks of the pass
        together with it. ``chained`` tells whether the pass computes row state from row state, in which case the
        scheduler has to forget its tasks.
        """
        if self.client is None:
            return dask.delayed(Shared(value), pure=False, traverse=False)
        return self.client.scatter(Shared(value), hash=False)

    def submit(self, f: Callable[..., Any], *args: Any, worker: str | None = None) -> Any:
        """Return the result of a task, to be computed."""
        return dask.delayed(f, pure=False)(*args)

    def together(self, start: Callable[[], Found]) -> Found:
        """Return ``start()``, which submits tasks."""
        return start()

    def kept(self, task: Any) -> Any:
        """Return the row results of a task alone: there are many chunks, and each has sums of its own."""
        return self.submit(parts_of, task)

    def split(self, parts: Sequence[Any], keys: list[list[tuple]], groups: list[Group]) -> dict[tuple, Any]:
        """Return no futures of parts, since the tasks are not assigned to workers."""
        return {}

    def finish(self, kept: Sequence[Any], wanted: Sequence[Any]) -> tuple[list, list]:
        """Return results that stay on the workers, and results that are fetched; a chunk is computed once for all."""
        both = list(dask.persist(*kept, *wanted))
        return both[: len(kept)], list(dask.compute(*both[len(kept) :]))

    def fetch(self, wanted: Sequence[Any]) -> list:
        """Return results of tasks."""
        return self.finish([], wanted)[1]

    def refresh_workers(self) -> None:
        """Ask which workers there are."""

    def parts(self, a: Any) -> list:
        """Return the chunks of a Dask array as arguments of tasks."""
        return list(a.to_delayed().ravel())

    def move(self, groups: list[Group]) -> None:
        """Give other workers to groups whose worker has gone; these groups have none."""

    def check(self) -> None:
        """Raise an error if chunks are lost that cannot be computed again."""
        if any(future.status == "cancelled" for future in self.sources):
            raise RuntimeError(
                "rows of X were lost with a Dask worker and cannot be computed again, since X was scattered to the "
                "workers or what it was computed from is gone; persist an array that Dask reads from files or "
                "computes, and fit again"
            )


class PlacedTasks(LazyTasks):
    """Tasks as futures, for chunks in the memory of a cluster's workers: a task gets many chunks of one worker."""

    def __init__(self, chunks: Sequence[Any], client: Any = None, sources: Sequence[Any] = ()) -> None:
        super().__init__(chunks, client, sources)
        self.threads: dict[str, int] = {}
        self._sent: list = []
        self._last: list = []

    def groups(self, sizes: np.ndarray, row_bytes: float) -> list[Group]:
        """Return as many groups for each worker as it has threads; more, if its memory needs smaller ones."""
        if any(chunk.status != "finished" for chunk in self.chunks):
            distributed_wait(self.chunks)
        places = self.client.who_has(self.chunks)
        copies = [places.get(chunk.key) or ("",) for chunk in self.chunks]
        held: dict[str, list[int]] = defaultdict(list)
        load: dict[str, float] = defaultdict(float)
        # Of the workers with a copy, the one with the fewest rows so far. Chunks with one copy come first.
        for i in sorted(range(len(copies)), key=lambda i: len(copies[i])):
            worker = min(copies[i], key=lambda name: (load[name], name))
            held[worker].append(i)
            load[worker] += sizes[i]
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        self.threads = {name: about["nthreads"] for name, about in workers.items()}
        groups = []
        for worker, members in held.items():
            members.sort()
            about = workers.get(worker, {})
            n_threads, memory = about.get("nthreads", 1), about.get("memory_limit") or np.inf
            least = sizes[members].sum() * row_bytes * n_threads / (_SHARE * memory)
            n_groups = min(len(members), max(n_threads, int(np.ceil(least))))
            ends = threads.even_ends(len(members), n_groups)
            groups += [Group(tuple(members[a:b]), worker or None) for a, b in pairwise(ends)]
        return sorted(groups)

    def share(self, value: Any, n_tasks: int, chained: bool) -> Any:
        """Return a value for every task; a small one travels with the tasks, which saves two round trips."""
        if not chained:
            pickled = Pickled.of(value)
            if len(pickled.data) * n_tasks <= _WITH_TASKS:
                return pickled
        sent = super().share(value, n_tasks, chained)
        self._sent.append(sent)
        return sent

    def submit(self, f: Callable[..., Any], *args: Any, worker: str | None = None) -> Any:
        """Start a task on this worker, or on another one if it is lost."""
        return self.client.submit(f, *args, **_at(worker))

    def together(self, start: Callable[[], Found]) -> Found:
        """Return ``start()``, with all its tasks in one message: the client waits 10 ms before it sends another."""

        async def in_loop() -> Found:  # the loop of the client sends nothing before this ends
            return start()

        return self.client.sync(in_loop)

    def kept(self, task: Any) -> Any:
        """Return the whole result of a task: there are few groups, so that their sums need little memory."""
        return task

    def finish(self, kept: Sequence[Any], wanted: Sequence[Any]) -> tuple[list, list]:
        """Fetch results; the others are futures already.

        The results that the previous pass fetched are released here, after the tasks of this pass were sent. A
        release is a message, and the client waits 10 ms after each. Between two passes it would delay the next one.
        """
        self._last, self._sent = [*self._sent, *wanted], []
        return list(kept), self.fetch(wanted)

    def fetch(self, wanted: Sequence[Any]) -> list:
        """Return results of tasks."""
        return self.client.gather(list(wanted))

    def split(self, parts: Sequence[Any], keys: list[list[tuple]], groups: list[Group]) -> dict[tuple, Any]:
        """Return the parts of each group as futures with the given keys, on the workers of the groups."""
        return {
            future.key: future
            for part, own, group in zip(parts, keys, groups, strict=True)
            for future in self.client.map(
                part_of, [part] * len(own), range(len(own)), key=own, **_at(group.worker)
            )
        }

    def refresh_workers(self) -> None:
        """Ask which workers there are."""
        self.threads = self.client.nthreads()

    def parts(self, a: Any) -> list:
        """Return the chunks of a Dask array as futures."""
        return _futures(self.client.persist(a)) or []

    def move(self, groups: list[Group]) -> None:
        """Assign the groups of workers lost before the last `refresh_workers` to others, and copy their chunks."""
        alive = self.threads
        gone = [g for g, group in enumerate(groups) if group.worker not in alive]
        for g in gone if alive else ():
            load = dict.fromkeys(alive, 0)
            for group in groups:
                if group.worker in load:
                    load[group.worker] += len(group.members)
            worker = min(load, key=lambda name: (load[name] / alive[name], name))
            groups[g] = Group(groups[g].members, worker)
            for i in groups[g].members:
                self.chunks[i] = self.submit(unchanged, self.chunks[i], worker=worker)


def cut_by_tasks(parts: Sequence[Any], keys: list[list[tuple]]) -> HighLevelGraph:
    """Return a graph with a task for each part of each group, with the given keys."""
    groups = [part if isinstance(part, Delayed) else dask.delayed(part) for part in parts]
    tasks = {
        key: (part_of, group.key, j)
        for group, own in zip(groups, keys, strict=True)
        for j, key in enumerate(own)
    }
    return HighLevelGraph.from_collections(keys[0][0][0], tasks, dependencies=groups)


def _at(worker: str | None) -> dict[str, Any]:
    """Return the options of a task that runs on this worker, or on another one if it is lost."""
    options = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
    return {"pure": False, **options}


def tasks_for(X: Any) -> LazyTasks:
    """Return how tasks on the chunks of X (one chunk for all columns) reach the scheduler that Dask would choose."""
    tasks = lazy_tasks(X, X.to_delayed()[:, 0])
    futures = None if tasks.client is None else _futures(X)
    return tasks if futures is None else PlacedTasks(futures, tasks.client, futures)


def lazy_tasks(X: Any, chunks: Sequence[Any]) -> LazyTasks:
    """Return how tasks on the chunks of X reach the scheduler, wherever the chunks are."""
    client: Any = getattr(dask.base.get_scheduler(), "__self__", None)
    futures = sources_of(X)
    if not hasattr(client, "scatter"):
        return LazyTasks(chunks)
    _check_workers(client)
    return LazyTasks(chunks, client, futures)


def sources_of(X: Any) -> list:
    """Return what X is computed from, as far as it is in the memory of workers that can be reached."""
    if "distributed" not in sys.modules:
        return []
    from distributed import futures_of

    futures = futures_of(X)
    if any(future.client is None or future.client.status == "closed" for future in futures):
        raise RuntimeError(
            "X is in the memory of Dask workers whose client, or cluster, is closed; connect a client, make X again "
            "from where it was read, and persist it there"
        )
    return futures


def _futures(X: Any) -> list | None:
    """Return the chunks of X if they are in the memory of the workers, or will be; otherwise None."""
    from distributed import futures_of

    held = {future.key: future for future in futures_of(X)}
    keys = list(dask.core.flatten(X.__dask_keys__()))
    return [held[key] for key in keys] if all(key in held for key in keys) else None


def _check_workers(client: Any) -> None:
    """Raise an error if a worker cannot import labelfold; each is asked once."""
    asked = _ASKED.setdefault(client, set())
    new = [worker for worker in client.nthreads() if worker not in asked]
    found = client.run(import_module, "labelfold", workers=new, on_error="return") if new else {}
    without = [worker for worker, value in found.items() if isinstance(value, ImportError)]
    if without:
        raise RuntimeError(
            f"the Dask worker {without[0]}{f' and {len(without) - 1} more' * (len(without) > 1)} cannot import "
            f"labelfold ({found[without[0]]}), where every worker is expected to; install labelfold there, in the "
            "version of this process, or send it as a zip file by client.upload_file"
        )
    asked.update(found)


class Step:
    """How row state was computed: a task for each group, from earlier state. The tasks can be run again.

    Parameters
    ----------
    make : callable
        ``make(g, columns)`` starts the task of group g, where ``columns`` holds an argument for each of ``inputs``.
    inputs : sequence of Step or list
        Earlier row state, or one argument for each group.
    """

    def __init__(self, make: Callable[[int, list], Any], inputs: Sequence[Any] = ()) -> None:
        self.make: Callable[[int, list], Any] | None = make
        self.inputs = tuple(inputs)
        self.depth: int = 1 + max((each.depth for each in inputs if isinstance(each, Step)), default=0)
        self.copies: list = []

    def recomputed(self, g: int, done: dict) -> Any:
        """Return the state of group g, computed again from the last copies; ``done`` collects the states."""
        if (self, g) not in done:
            columns = [
                each.recomputed(g, done) if isinstance(each, Step) else each[g] for each in self.inputs
            ]
            if self.make is None and not self.copies:
                raise RuntimeError(
                    "the row state of a fit was on a single Dask worker, which has gone; fit again, with two workers "
                    "or more, which keep copies for each other"
                )
            done[self, g] = self.copies[g] if self.make is None else self.make(g, columns)
        return done[self, g]

    def keep_copies(self, copies: list) -> None:
        """Store copies of the state, and drop the inputs from which it was computed."""
        self.make, self.inputs, self.depth, self.copies = None, (), 0, copies


class DaskState:
    """A row-aligned array on the workers: for each group a list of parts, one for each chunk.

    ``chunks`` holds the parts as futures, by their keys in a Dask array, if they have been cut.
    """

    def __init__(
        self, owner: Callable[[], Any], parts: list, step: Step, chunks: dict[tuple, Any] | None = None
    ) -> None:
        self.owner, self.parts, self.step, self.chunks = owner, parts, step, chunks or {}

    def copy(self, tasks: LazyTasks) -> None:
        """Copy each part to a second worker, if there is one, so that one of the two may be lost."""
        workers = sorted(tasks.client.nthreads())
        if len(workers) < 2:
            self.step.keep_copies([])
            return
        after = dict(pairwise([*workers, workers[0]]))
        places = tasks.client.who_has(self.futures())
        copies = []
        for part in self.futures():
            held = places.get(part.key) or workers
            copies.append(
                tasks.client.submit(
                    unchanged,
                    part,
                    workers=[after.get(held[0], workers[0])],
                    allow_other_workers=True,
                    pure=False,
                )
            )
        try:
            distributed_wait(copies)
        except CancelledError:  # a worker went; the next pass tries again
            return
        self.step.keep_copies(copies)

    def futures(self) -> list:
        """Return the futures of the parts."""
        return [part.dask[part.key] if isinstance(part, Delayed) else part for part in self.parts]

    def restore(self, tasks: LazyTasks, groups: list[Group], done: dict) -> None:
        """Compute parts again that no worker holds."""
        futures = self.futures()
        places = tasks.client.who_has([future for future in futures if future.status != "cancelled"])
        lost = [g for g, future in enumerate(futures) if not places.get(future.key)]
        for g in lost:
            again = self.step.recomputed(g, done)
            self.parts[g] = tasks.submit(unchanged, again, worker=groups[g].worker)
        if lost:
            self.parts = tasks.finish(self.parts, [])[0]
            self.step.depth = COPY_EVERY  # its copies may be lost as well


def distributed_wait(futures: list) -> None:
    """Wait for futures; raise an error if one was lost."""
    from distributed import wait

    wait(futures)


def with_retries(
    run: Callable[[], Found], tasks: LazyTasks, groups: list[Group], states: Sequence[DaskState]
) -> Found:
    """Return ``run()``; if a worker goes meanwhile, compute again what was lost with it, and repeat."""
    if tasks.client is None:
        return run()
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    for attempt in range(_ATTEMPTS):
        try:
            return run()
        except KilledWorker as error:
            raise RuntimeError(
                f"{error.allowed_failures + 1} Dask workers died while they ran the same task, probably for lack of "
                "memory; give the workers more memory, or X smaller chunks"
            ) from None
        except (CancelledError, CommClosedError, TimeoutError) as error:
            if attempt + 1 == _ATTEMPTS:
                raise RuntimeError(
                    f"a pass over X failed {_ATTEMPTS} times, since Dask workers went away ({error}); fit again when "
                    "the cluster is steady"
                ) from error
        time.sleep(0.1 * 2**attempt)
        tasks.check()
        tasks.refresh_workers()
        done: dict = {}
        for state in states:
            state.restore(tasks, groups, done)
    raise AssertionError


class ChunkTask(NamedTuple):
    """What a pass does with each chunk; ``checked`` if an earlier pass found all values finite."""

    f: RowFunction
    shared: tuple
    most_rows: int | None
    returns: str
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
    about: tuple[Any, ...] | None
    finite: bool = True


class TaskResult(NamedTuple):
    """The result of a task: for each chunk of a group its row results, and the sums of the group."""

    parts: list
    report: Report


def run_group(shared: Shared | Pickled, chunks: list, spans: np.ndarray, *columns: Any) -> TaskResult:
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
    return TaskResult(mapped, Report(sums, _about(mapped), finite))


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


def _run_chunk(work: ChunkTask, chunk: Any, start: int, aligned: list) -> tuple[Any, Accumulator, bool]:
    by_block = isinstance(chunk, np.ndarray) and not work.checked
    rows = memory_rows(chunk, first_row=start, checked=work.checked or by_block)
    rows.dtype = work.dtype
    results, sums, finite = RowResults(rows.shape[0]), Accumulator(), True
    for a, b in blocks_between(rows.cuts(), work.most_rows):
        if by_block:
            check_finite(chunk[a:b], start + a)  # the block is in the cache afterwards
        made = work.f(rows.block(a, b), *(h[a:b] for h in aligned), *work.shared)
        result, partial = result_and_sums(made, work.returns)
        if result is not None:
            results.store(a, b, result)
            finite &= all_finite(result)  # while it is in the cache
        sums.add(partial)
    return results.values, sums, finite


def make_group(f: Callable[..., Any], spans: np.ndarray, *columns: Any) -> TaskResult:
    """Return ``f(start, stop, *aligned)`` for each chunk of a group."""
    made = [
        f(*span, *aligned) for span, *aligned in zip(spans.tolist(), *map(parts_of, columns), strict=True)
    ]
    return TaskResult(made, Report(Accumulator(), _about(made), all(map(all_finite, made))))


def sum_group(f: Callable[..., Any], *columns: Any) -> TaskResult:
    """Return the sums of ``f(*aligned)`` over the chunks of a group."""
    sums = Accumulator()
    for aligned in zip(*map(parts_of, columns), strict=True):
        sums.add(f(*aligned))
    return TaskResult([], Report(sums, None))


def merge_reports(reports: Sequence[Report | TaskResult]) -> Report:
    """Merge the sums of several groups, in their order."""
    own = [report.report if isinstance(report, TaskResult) else report for report in reports]
    sums = reduce(Accumulator.merge, (report.sums for report in own))
    return Report(sums, own[0].about, all(report.finite for report in own))


def parts_of(column: TaskResult | list) -> list:
    """Return the parts of an aligned array: results of a task, or a list."""
    return column.parts if isinstance(column, TaskResult) else column


def part_of(column: TaskResult | list, j: int) -> Any:
    """Return one part of an aligned array."""
    return parts_of(column)[j]


def report_of(made: TaskResult) -> Report:
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


def unchanged(value: Any) -> Any:
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
