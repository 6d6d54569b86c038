"""Fits and transforms on Dask workers beside NumPy on the same cores: seconds, ratios, bytes and passes.

    python benchmarks/dask_workers.py                                   200,000 x 200 float32
    python benchmarks/dask_workers.py --rows 2000000                    2,000,000 x 200, some minutes, 4 GB of memory
    python benchmarks/dask_workers.py --only DRSVM                      only methods whose name contains this

Workers are processes of one thread each on this machine. The rows are made on the workers, and again in this
process for NumPy. This process, which also computes between the passes over the workers, uses as many threads as
there are workers. Runs are taken in turn, and the fastest counts.
"1/2" is the time of one worker over that of two, "2/np" the time of two workers over that of NumPy, for the fit and
for its median pass. Bytes are those that the scheduler sends and receives during the fit on two workers; the client
talks through the scheduler, so they are all bytes but those between workers.
One worker leaves a core to other programs, and two do not: a run says what share of the cores these took, and counts
only if it is a few percent. A program that takes one of two cores makes two workers as slow as one.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

import dask.array as da
import distributed
import numpy as np
import psutil
from distributed.comm import tcp

from _common import options_of
from common import pinned
from labelfold import DRSVM, KLNMF, LDA, PCALS, SSNMF
from labelfold.rows.adapters._dask import DaskRows
from labelfold.rows.adapters._local import LocalRows

CLASSES, LABELLED, PARTS, CHUNKS = 10, 10_000, 16, 16


def made(start: int, stop: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return non-negative rows that mix 16 parts with weights that depend on the class, and the classes."""
    common = np.random.default_rng(0)
    V = common.random((d, PARTS), dtype=np.float32) ** 4
    taste = 0.2 + 2 * common.random((CLASSES, PARTS), dtype=np.float32) ** 2
    rng = np.random.default_rng([1, start])
    y = rng.integers(CLASSES, size=stop - start)
    X = (taste[y] * rng.random((stop - start, PARTS), dtype=np.float32)) @ V.T
    X += 0.5 * rng.random(X.shape, dtype=np.float32)
    return X, y


class Data(NamedTuple):
    """Rows in memory or on workers, and their classes."""

    X: Any
    y: np.ndarray


def in_memory(n: int, d: int) -> Data:
    """Return all rows as a NumPy array."""
    X, y = np.empty((n, d), dtype=np.float32), np.empty(n, dtype=np.int64)
    for start, stop in cuts(n):
        X[start:stop], y[start:stop] = made(start, stop, d)
    return Data(X, y)


def on_workers(client: Any, n: int, d: int, y: np.ndarray) -> Data:
    """Return the same rows as a Dask array, whose chunks are in the memory of the workers, as many on each."""
    workers = sorted(client.nthreads())
    parts = []
    for i, (start, stop) in enumerate(cuts(n)):
        place = [workers[i * len(workers) // CHUNKS]]
        made_there = client.submit(
            _only_rows, start, stop, d, workers=place
        )  # an idle worker must not take it
        parts.append(da.from_delayed(made_there, (stop - start, d), dtype=np.float32))
    X = client.persist(da.concatenate(parts))
    distributed.wait(X)
    places = client.who_has(distributed.futures_of(X))
    held = [sum(worker in some for some in places.values()) for worker in workers]
    if max(held) > min(held):
        print(f"the workers hold {held} chunks, so a pass waits for some of them", file=sys.stderr)
    return Data(X, y)


def _only_rows(start: int, stop: int, d: int) -> np.ndarray:
    return made(start, stop, d)[0]


def classes(n: int) -> np.ndarray:
    """Return the classes of the rows alone."""
    return np.concatenate([made(start, stop, 1)[1] for start, stop in cuts(n)])


def cuts(n: int) -> list[tuple[int, int]]:
    """Return the bounds of the chunks."""
    ends = np.linspace(0, n, CHUNKS + 1).astype(int)
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


class Counts:
    """Bytes to and from the scheduler, and the seconds of each pass."""

    def __init__(self) -> None:
        self.address = ""
        self.reset()

    def reset(self) -> None:
        """Start again from 0."""
        self.n_bytes = 0
        self.passes: list[float] = []

    @contextmanager
    def watching(self, n: int) -> Iterator[None]:
        """Count what the scheduler, which is in this process, reads and writes, and passes over all rows."""
        write, read = tcp.TCP.write, tcp.read_bytes_rw
        sweeps = {kind: kind.sweep for kind in (DaskRows, LocalRows)}

        async def counted_write(comm: Any, *args: Any, **options: Any) -> Any:
            n_bytes = await write(comm, *args, **options)
            if comm.local_address == self.address:
                self.n_bytes += n_bytes or 0
            return n_bytes

        async def counted_read(stream: Any, n_bytes: int) -> Any:
            found = await read(stream, n_bytes)
            if self.address.endswith(f":{stream.socket.getsockname()[1]}"):
                self.n_bytes += n_bytes
            return found

        def timed(sweep: Callable) -> Callable:
            def run(rows: Any, *args: Any, **options: Any) -> Any:
                start = time.perf_counter()
                try:
                    return sweep(rows, *args, **options)
                finally:
                    if rows.shape[0] == n:
                        self.passes.append(time.perf_counter() - start)

            return run

        tcp.TCP.write, tcp.read_bytes_rw = counted_write, counted_read
        for kind, sweep in sweeps.items():
            kind.sweep = timed(sweep)
        try:
            yield
        finally:
            tcp.TCP.write, tcp.read_bytes_rw = write, read
            for kind, sweep in sweeps.items():
                kind.sweep = sweep


class Job(NamedTuple):
    """A fit, or a transform by the model of an earlier fit."""

    name: str
    run: Callable[[Data, dict], Any]


def jobs() -> list[Job]:
    """Return the jobs."""

    def fit(name: str, model: Any, n_labelled: int | None = None) -> Job:
        def run(data: Data, models: dict) -> None:
            y = data.y if n_labelled is None else np.where(np.arange(len(data.y)) < n_labelled, data.y, -1)
            models[name.split(",")[0]] = model.fit(data.X, y)

        return Job(name, run)

    def transform(name: str) -> Job:
        def run(data: Data, models: dict) -> None:
            Z = models[name].transform(data.X)
            if isinstance(Z, da.Array):
                distributed.wait(Z.persist())

        return Job(f"{name}.transform", run)

    five = {"max_iter": 5, "tol": 0}
    return [
        fit("LDA", LDA()),
        fit("LDA by iterations", LDA(max_gram_bytes=0, tol=1e-4)),
        fit("PCALS", PCALS(8), LABELLED),
        fit("DRSVM, 5 iterations", DRSVM(10, **five), LABELLED),
        fit("KLNMF, 5 iterations", KLNMF(PARTS, **five)),
        fit("SSNMF, 5 iterations", SSNMF(PARTS, **five), LABELLED),
        transform("LDA"),
        transform("SSNMF"),
    ]


class Run(NamedTuple):
    """Seconds of a run and of its median pass, the number of passes, and bytes to and from the scheduler."""

    total: float
    a_pass: float
    n_passes: int
    n_bytes: int


def timed(job: Job, data: Data, models: dict, counts: Counts, repeat: int = 1) -> Run:
    """Return the fastest of some runs."""
    runs = []
    for _ in range(repeat):
        counts.reset()
        start = time.perf_counter()
        job.run(data, models)
        total = time.perf_counter() - start
        runs.append(Run(total, float(np.median(counts.passes)), len(counts.passes), counts.n_bytes))
    return min(runs, key=lambda run: run.total)


def measured(
    chosen: list[Job], n: int, d: int, workers: list[int], repeat: int, counts: Counts
) -> dict[tuple[str, str], Run]:
    """Return the fastest run of each job for NumPy and for each number of workers, taken in turn."""
    runs: dict[tuple[str, str], Run] = {}
    with ExitStack() as stack:
        stack.enter_context(counts.watching(n))
        data = in_memory(n, d)
        places: dict[str, tuple[Any, Data, int]] = {"numpy": (None, data, workers[-1])}
        for n_workers in workers:
            client = stack.enter_context(cluster(n_workers))
            places[f"dask {n_workers}"] = (client, on_workers(client, n, d, data.y), n_workers)
            warm = on_workers(client, 4_000, d, data.y[:4_000])
            with client.as_current():
                models: dict[str, Any] = {}
                for job in chosen:
                    job.run(warm, models)  # imports, and compiled loops
        models_of: dict[str, dict] = {name: {} for name in places}
        for job in chosen:
            begun = spent()
            for _ in range(repeat):
                for name, (client, own, threads) in places.items():
                    with pinned(threads), nullcontext() if client is None else client.as_current():
                        counts.address = "none" if client is None else client.scheduler.address
                        run = timed(job, own, models_of[name], counts)
                    best = runs.get((job.name, name), run)
                    runs[job.name, name] = min(best, run, key=lambda one: one.total)
            seconds, all_cores, own_cores = np.subtract(spent(), begun)
            share = max(0.0, all_cores - own_cores) / seconds / (psutil.cpu_count() or 1)
            for name in places:
                say(job.name, name, runs)
            print(f"other programs took {share:.0%} of the cores meanwhile", file=sys.stderr, flush=True)
    return runs


def spent() -> tuple[float, float, float]:
    """Return the time, the seconds that the cores have been busy, and those for this process and its children."""
    cores, this = psutil.cpu_times(), psutil.Process()
    idle = cores.idle + getattr(cores, "iowait", 0.0)
    guests = getattr(cores, "guest", 0.0) + getattr(cores, "guest_nice", 0.0)  # part of user and nice
    own = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return time.perf_counter(), sum(cores) - idle - guests, sum(one.user + one.system for one in own)


def say(job: str, where: str, runs: dict[tuple[str, str], Run]) -> None:
    """Print a run to standard error, to show progress."""
    run = runs[job, where]
    text = f"{job} on {where}: {run.total:.3f} s, {run.n_passes} passes of {run.a_pass:.3f} s"
    print(text, file=sys.stderr, flush=True)


@contextmanager
def cluster(n_workers: int) -> Iterator[Any]:
    """Give a client of workers that are processes with one thread."""
    options = {"n_workers": n_workers, "threads_per_worker": 1, "memory_limit": 0}
    with (
        distributed.LocalCluster(**options, dashboard_address=":0") as own,
        distributed.Client(own) as client,
    ):
        yield client


def report(chosen: list[Job], workers: list[int], runs: dict[tuple[str, str], Run]) -> None:
    """Print a line for each job."""
    few, many = workers[0], workers[-1]
    names = ["numpy", *(f"dask {k}" for k in workers)]
    heads = "".join(f"{name:>8}" for name in names)
    ratios = f"{f'{few}/{many}':>7}{f'{many}/np':>7}"
    print(f"{'':22}{'fit, seconds':>{8 * len(names)}}{'':14}{'median pass':>{8 * len(names)}}")
    print(f"{'':22}{heads}{ratios}{heads}{ratios}{'passes':>7}{'kB':>8}{'a pass':>8}")
    for job in chosen:
        own = [runs[job.name, name] for name in names]
        columns = ""
        for value in (lambda run: run.total, lambda run: run.a_pass):
            seconds = [value(run) for run in own]
            columns += "".join(f"{one:8.3f}" for one in seconds)
            columns += f"{seconds[1] / seconds[-1]:7.2f}{seconds[-1] / seconds[0]:7.2f}"
        last = own[-1]
        sent = f"{last.n_bytes / 1e3:8.0f}{last.n_bytes / 1e3 / last.n_passes:8.1f}"
        print(f"{job.name:22}{columns}{last.n_passes:7}{sent}", flush=True)


def main() -> None:
    options = options_of(__doc__, rows=200_000, columns=200, workers=[1, 2], repeat=2, only="")
    warnings.simplefilter("ignore")
    fits = {job.name.partition(".")[0] for job in jobs() if options.only in job.name}
    chosen = [
        job for job in jobs() if job.name.split(".")[0].split(",")[0] in {f.split(",")[0] for f in fits}
    ]
    runs = measured(chosen, options.rows, options.columns, options.workers, options.repeat, Counts())
    print(f"{options.rows:,} x {options.columns:,} float32")
    report(chosen, options.workers, runs)


if __name__ == "__main__":
    main()
