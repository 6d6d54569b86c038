"""Rows of a Dask array: a pass is one task for the chunks of a worker, whose sums are merged by a tree."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any
from weakref import ref

import dask.array as da
import numpy as np
from scipy import sparse

from labelfold.rows._blocks import Block
from labelfold.rows._rows import RowFunction, Rows, spread_values
from labelfold.rows.adapters._dask_workers import (
    COPY_EVERY,
    ChunkTask,
    DaskState,
    Group,
    LazyTasks,
    PlacedTasks,
    Report,
    Step,
    cut_by_tasks,
    make_group,
    merge_reports,
    parts_of,
    pick_group,
    replaced,
    report_of,
    run_group,
    sources_of,
    sum_group,
    take_group,
    tasks_for,
    with_retries,
)
from labelfold.rows.adapters._local import (
    KNOWN_FINITE,
    check_aligned,
    check_two_dimensional,
    floating,
    memory_rows,
    stacked_rows,
)

# Budget: number of reports that one task merges, all in memory at once.
_FAN_IN = 8
# Attribute of a Dask array that maps its chunks to results of tasks.
_ROW_STATE = "_labelfold_kept"

Make = Callable[[int, list], Any]


class DaskRows(Rows):
    """Rows of a Dask array whose chunks hold NumPy arrays or SciPy sparse matrices."""

    place = "on Dask"

    def __init__(self, X: Any) -> None:
        X = _array(X)
        self.X = X
        self.dtype = floating(X.dtype)
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        sizes = np.array(X.chunks[0], dtype=np.int64)
        self._occupied = np.flatnonzero(sizes)
        self._sizes = sizes[self._occupied]
        self._ends = np.concatenate([[0], np.cumsum(self._sizes)])
        self._checked = False

    @cached_property
    def _tasks(self) -> LazyTasks:
        """How tasks are sent to the workers; the first pass decides, since X may be from another scheduler."""
        tasks = tasks_for(self.X)
        tasks.chunks = [tasks.chunks[i] for i in self._occupied]
        return tasks

    @property
    def resident(self) -> bool:
        """Whether the chunks are in the memory of workers."""
        return isinstance(self._tasks, PlacedTasks)

    @cached_property
    def _groups(self) -> list[Group]:
        return self._tasks.groups(self._sizes, self.row_bytes())

    def sweep(
        self,
        f: RowFunction,
        *aligned: Any,
        shared: tuple[Any, ...] = (),
        most_rows: int | None = None,
        returns: str = "both",
    ) -> tuple[Any, Any]:
        """Make one pass, with a task for each group of chunks."""
        self.n_passes += 1
        work = ChunkTask(f, self.share(shared), most_rows, returns, self.dtype, self._checked)
        only_sums = returns == "sums"
        chained = not only_sums and any(isinstance(a, da.Array) for a in aligned)

        def begin(rows: DaskRows) -> Make:
            sent = rows._tasks.share(work, len(rows._groups), chained)
            return lambda g, columns: rows._submit(
                run_group, g, sent, rows._held(g), rows._spans(g), *columns
            )

        # Results for the user are cut into chunks; row state, which only later passes read, is not.
        kept, report = self._computed(begin, aligned, only_sums, None if only_sums or chained else 2)
        self._checked = True
        return self._assemble(kept, report), report.sums.finish()

    def _computed(
        self,
        begin: Callable[[DaskRows], Make],
        aligned: tuple[Any, ...],
        only_sums: bool = False,
        ndim: int | None = None,
    ) -> tuple[DaskState, Report]:
        """Run a task for each group; the row results stay on their workers, the sums are merged.

        ``ndim`` is the number of dimensions that row results probably have, if they are for the user: then they are
        cut into chunks as soon as they are computed.
        """
        for a in aligned:
            check_aligned(a, self.shape[0])

        def run() -> tuple[DaskState, Report]:
            self._tasks.move(self._groups)
            columns = [self._column(a) for a in aligned]
            make = begin(self)

            def start() -> tuple[list, list, dict]:
                runs = [make(g, [parts[g] for parts, _ in columns]) for g in range(len(self._groups))]
                if only_sums:  # no row results to keep: the result of each task is fetched as it is
                    return [], self._tree(runs), {}
                reports = self._tree([self._submit(report_of, g, task) for g, task in enumerate(runs)])
                return runs, reports, {} if ndim is None else self._cut(runs, ndim)

            # Arrays of this process are sent with the tasks and may be large: such tasks are submitted one by one.
            small = all(isinstance(source, Step) for _, source in columns)
            runs, reports, chunks = self._tasks.together(start) if small else start()
            kept = [self._tasks.kept(task) for task in runs]
            self._tasks.refresh_workers()  # while the tasks run
            parts, found = self._tasks.finish(kept, reports)
            step = self._step(begin, [source for _, source in columns])
            return DaskState(ref(self), parts, step, chunks), merge_reports(found)

        states = [kept for a in aligned if (kept := self._kept(a)) is not None]
        kept, report = with_retries(run, self._tasks, self._groups, states)
        if report.about is not None and kept.step.depth >= COPY_EVERY:
            kept.copy(self._tasks)
        return kept, report

    def _step(self, begin: Callable[[DaskRows], Make], sources: list) -> Step:
        """Return the step that computes row state again. It holds no rows, since a result may outlive them."""
        rows = ref(self)
        step = Step(lambda g, columns: begin(_rows_of(rows))(g, columns), sources)
        if self._tasks.client is None:
            step.keep_copies([])
        return step

    def _tree(self, reports: list) -> list:
        """Merge neighbours, then the results of neighbours, in order, until a few are left to be fetched."""
        while len(reports) > _FAN_IN:
            reports = [
                self._tasks.submit(merge_reports, reports[i : i + _FAN_IN])
                for i in range(0, len(reports), _FAN_IN)
            ]
        return reports

    def _submit(self, f: Callable[..., Any], g: int, *args: Any) -> Any:
        return self._tasks.submit(f, *args, worker=self._groups[g].worker)

    def _held(self, g: int) -> list:
        return [self._tasks.chunks[i] for i in self._groups[g].members]

    def _spans(self, g: int) -> np.ndarray:
        members = list(self._groups[g].members)
        return np.stack([self._ends[members], self._ends[1:][members]], axis=1)

    def _kept(self, a: Any) -> DaskState | None:
        """Return the results of tasks behind a Dask array that these rows have made; None for any other array."""
        kept = getattr(a, "__dict__", {}).get(_ROW_STATE)
        return kept if kept is not None and kept.owner() is self else None

    def _column(self, a: Any) -> tuple[list, Any]:
        """Return a row-aligned array as one argument for each group, and how to compute these again."""
        kept = self._kept(a)
        if kept is not None:
            return kept.parts, kept.step
        if isinstance(a, da.Array):
            cuts = {0: tuple(self._sizes.tolist()), **dict.fromkeys(range(1, a.ndim), -1)}
            parts = self._tasks.parts(a.rechunk(cuts))
        else:
            parts = np.split(np.asarray(a), self._ends[1:-1])
        columns = [[parts[i] for i in group.members] for group in self._groups]
        if isinstance(a, da.Array) and self._tasks.client is not None:
            kept = self._adopted(columns)
            a.__dict__[_ROW_STATE] = kept
            return kept.parts, kept.step
        return columns, columns

    def _adopted(self, columns: list) -> DaskState:
        """Return a Dask array of another origin as row state, with copies, since its own inputs may be lost."""
        rows = ref(self)

        def start(g: int, _: list) -> Any:
            return _rows_of(rows)._submit(make_group, g, _unchanged, _rows_of(rows)._spans(g), columns[g])

        kept, _ = self._tasks.finish([start(g, []) for g in range(len(columns))], [])
        adopted = DaskState(ref(self), kept, Step(start))
        adopted.copy(self._tasks)
        return adopted

    def _cut(self, parts: Sequence[Any], ndim: int) -> dict[tuple, Any]:
        """Return each chunk of row results as the result of a task, on the worker that has it, if rows have workers.

        Dask would run such tasks on any worker, and copy all parts of a group there.
        """
        return self._tasks.split(parts, self._keys(ndim), self._groups)

    def _keys(self, ndim: int) -> list[list[tuple]]:
        """Return the keys of a new Dask array for the chunks of each group."""
        name, zeros = f"labelfold-{uuid.uuid4().hex}", (0,) * (ndim - 1)
        return [[(name, i, *zeros) for i in group.members] for group in self._groups]

    def _assemble(self, kept: DaskState, report: Report) -> Any:
        """Return results of tasks as a Dask array with the chunks of the rows; a persisted one, if they are cut."""
        if report.about is None:
            return None
        shape, dtype = report.about
        ndim = 1 + len(shape)
        if kept.chunks and len(next(iter(kept.chunks))) != 1 + ndim:  # another ndim was expected
            kept.chunks = self._tasks.together(lambda: self._cut(kept.parts, ndim))
        keys = [list(kept.chunks)] if kept.chunks else self._keys(ndim)
        graph, name = kept.chunks or cut_by_tasks(kept.parts, keys), keys[0][0][0]
        chunks = (tuple(self._sizes.tolist()), *((size,) for size in shape))
        made = da.Array(graph, name, chunks, dtype=dtype)
        made.__dict__[_ROW_STATE] = kept
        if report.finite:
            made.__dict__[KNOWN_FINITE] = name
        return made

    def spread(self, index: np.ndarray, values: Any, rest: Any = 0) -> Any:
        """Return a row-aligned array, created on the workers; each gets only the values of its own rows."""
        index, values = np.asarray(index), np.asarray(values)
        shares = self._shares(index)
        own = [partial(spread_values, index=index[here], values=values[here], rest=rest) for here in shares]
        return self._mapped(own)

    def map_aligned(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return row results, computed on the workers."""
        return self._mapped([f] * len(self._groups), *aligned)

    def _mapped(self, functions: Sequence[Callable], *aligned: Any, ndim: int | None = None) -> Any:
        def begin(rows: DaskRows) -> Make:
            return lambda g, columns: rows._submit(make_group, g, functions[g], rows._spans(g), *columns)

        return self._assemble(*self._computed(begin, aligned, ndim=ndim))

    def sum_aligned(self, f: Callable[..., Any], *aligned: Any) -> Any:
        """Return sums over row-aligned arrays, merged by a tree."""

        def begin(rows: DaskRows) -> Make:
            return lambda g, columns: rows._submit(sum_group, g, f, *columns)

        return self._computed(begin, aligned)[1].sums.finish()

    def result(
        self, h: Any, f: Callable[[np.ndarray], np.ndarray] | None = None, at: tuple[Any, ...] | None = None
    ) -> Any:
        """Return a Dask array, whose chunks stay on the workers; an array of the host stays there."""
        if not isinstance(h, da.Array):
            return super().result(h, f, at)
        index, values = (np.zeros(0, dtype=np.int64), None) if at is None else map(np.asarray, at)
        own = [
            partial(replaced, f=f, index=index[here], values=None if values is None else values[here])
            for here in self._shares(index)
        ]
        found = self._mapped(own, h, ndim=h.ndim)
        del found.__dict__[_ROW_STATE]  # otherwise the result would keep h in the workers' memory
        return found

    def _shares(self, index: np.ndarray) -> Iterator[np.ndarray]:
        """Yield for each group a mask of the rows at index that are in it."""
        chunk = np.searchsorted(self._ends, index, side="right") - 1
        for group in self._groups:
            yield np.isin(chunk, group.members)

    def put(self, a: Any) -> Any:
        """Return a row-aligned array as a Dask array with the chunks of the rows."""
        if isinstance(a, da.Array):
            return a
        return self.map_aligned(_unchanged, np.asarray(check_aligned(a, self.shape[0])))

    def get(self, h: Any) -> np.ndarray:
        """Return a row-aligned array as NumPy."""
        kept = self._kept(h)
        if kept is None:
            return np.asarray(h.compute() if isinstance(h, da.Array) else h)
        own = kept
        groups = with_retries(lambda: self._tasks.fetch(own.parts), self._tasks, self._groups, [own])
        numbers = [i for group in self._groups for i in group.members]
        pieces = [piece for group in groups for piece in parts_of(group)]
        return np.concatenate([pieces[at] for at in np.argsort(numbers)])

    def pick(self, h: Any, index: np.ndarray) -> np.ndarray:
        """Return some entries of a row-aligned array as NumPy."""
        if not isinstance(h, da.Array):
            return np.asarray(h)[index]

        def run() -> tuple[list, np.ndarray]:
            parts, _ = self._column(h)
            return self._some(
                index, lambda g, members, own: self._submit(pick_group, g, parts[g], members, own)
            )

        kept = self._kept(h)
        states = [] if kept is None else [kept]
        pieces, order = with_retries(run, self._tasks, self._groups, states)
        found = np.empty((len(order), *h.shape[1:]), dtype=h.dtype)
        found[order] = np.concatenate(pieces) if pieces else found
        return found

    def computed(self, wrapped: Rows, max_bytes: float) -> tuple[Rows, float]:
        """Return the wrapper: the memory of the workers is for the rows and for row state."""
        return wrapped, 0.0

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at ``index``; only the chunks that contain them are read."""

        def start(g: int, members: list[int], own: list) -> Any:
            held, starts = self._held(g), self._spans(g)[:, 0]
            return self._submit(take_group, g, [held[j] for j in members], starts[members], own)

        pieces, order = with_retries(lambda: self._some(index, start), self._tasks, self._groups, [])
        return stacked_rows(pieces, order, self.shape[1], self.dtype)

    def _some(
        self, index: np.ndarray, start: Callable[[int, list[int], list], Any]
    ) -> tuple[list, np.ndarray]:
        """Run tasks for the groups that contain rows at index.

        ``start(g, members, own)`` starts the task of group g, which returns a piece for each of some of its chunks:
        ``members`` are their numbers in the group, ``own`` the rows in each. The pieces are returned in row order,
        with the position in index of each of their rows.
        """
        index = np.asarray(index, dtype=np.int64)
        order = np.argsort(index, kind="stable")
        wanted = index[order]
        bounds = np.searchsorted(wanted, self._ends)
        tasks, numbers = [], []
        for g, group in enumerate(self._groups):
            members = [j for j, i in enumerate(group.members) if bounds[i + 1] > bounds[i]]
            own = [group.members[j] for j in members]
            if own:
                rows = [wanted[bounds[i] : bounds[i + 1]] - self._ends[i] for i in own]
                tasks.append(start(g, members, rows))
                numbers += own
        pieces = [piece for found in self._tasks.fetch(tasks) for piece in found]
        return [pieces[at] for at in np.argsort(numbers)], order

    def row_bytes(self) -> float:
        """Return the bytes of one dense row; the size of a sparse chunk is known only to its worker."""
        return self.shape[1] * self.dtype.itemsize

    def stored_bytes(self) -> float:
        """Return the bytes of all rows; those of sparse chunks are added up by the workers."""
        return self.sum(_block_bytes) if sparse.issparse(self.X._meta) else super().stored_bytes()


def _block_bytes(X: Block) -> float:
    return memory_rows(X.raw, checked=True).row_bytes() * X.shape[0]


def _array(X: Any) -> Any:
    """Return a Dask array or frame as an array of known chunk sizes, with all columns in each chunk."""
    if hasattr(type(X), "to_dask_array"):  # a DataFrame or a Series
        sources_of(X)  # raises an error before Dask does
        masked = {}
        for name, dtype in X.dtypes.items() if X.ndim == 2 else ():
            if getattr(dtype, "kind", "O") not in "fiub":
                raise ValueError(
                    f"Column {name!r} of the Dask DataFrame holds {dtype} values, where numbers are expected; put "
                    "labelfold.Recipe() before it in a pipeline, which reads text, categories and dates, or drop the "
                    "column"
                )
            if not isinstance(
                dtype, np.dtype
            ):  # numbers with a mask of missing ones, which would become objects
                masked[name] = np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64
        X = (X.astype(masked) if masked else X).to_dask_array(lengths=True)
        if X.ndim == 2:
            X = X.map_blocks(np.ascontiguousarray, dtype=X.dtype)  # frames are stored by columns
    if not isinstance(X, da.Array):
        raise TypeError(
            f"X is a Dask {type(X).__name__}, where a Dask array or DataFrame is expected; convert it, for instance "
            "with dask.array.from_delayed or bag.to_dataframe()"
        )
    check_two_dimensional(X.ndim)
    if np.isnan(X.shape).any():
        sources_of(X)
        X = X.copy().compute_chunk_sizes()  # modifies the array
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _rows_of(rows: ref[DaskRows]) -> DaskRows:
    found = rows()
    if found is None:
        raise RuntimeError("the rows of this row state are gone; fit again")
    return found


def _unchanged(start: int, stop: int, part: np.ndarray) -> np.ndarray:
    return part
