"""A cost model of fits on a Dask cluster: its constants measured, its predictions checked, and a plan for many rows.

    python benchmarks/dask_plan.py                                 two workers; some minutes, 4 GB of memory
    python benchmarks/dask_plan.py --check 200000x200              other sizes for the check
    python benchmarks/dask_plan.py --rows 1e9 --columns 1000 --workers 50 --network 1.25e9    another plan

A pass takes

    latency + n / workers (row + operations(d, k) / speed) + exchange / network

seconds: the time of a pass over no data; what each row costs whatever its width; that of its products, the reading of
its values included; and that of the small arrays that each pass sends to the workers and fetches, which counts on a
network only. The constants are measured on two workers of this machine: the latency by sums of columns of a few rows,
the two others by the median pass of each method over 2,000,000 x 40 and 400,000 x 200 values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

import dask_workers as bench
from _common import options_of, timed
from common import pinned
from labelfold.rows import as_rows

WORKERS = 2
SIZES = ((2_000_000, 40), (400_000, 200))  # on which the constants are measured


class Kind(NamedTuple):
    """Passes of one kind: operations a row, and numbers that a pass sends and fetches."""

    operations: Callable[[int], float]
    exchange: Callable[[int], float]


K, C = bench.PARTS, bench.CLASSES
KINDS = {
    "LDA": Kind(lambda d: 2 * d * d, lambda d: d * d),
    "LDA by iterations": Kind(lambda d: 4 * d * C, lambda d: 2 * d * C),
    "DRSVM": Kind(lambda d: 4 * d * 10, lambda d: 2 * d * 10),
    "KLNMF": Kind(lambda d: 8 * d * K, lambda d: 2 * d * K),
    "SSNMF": Kind(lambda d: 4 * d * K, lambda d: 2 * d * K),
}


class Constants(NamedTuple):
    """Seconds of an empty pass, and for one worker of a row and of an operation of each kind; the passes of a fit."""

    latency: float
    row: dict[str, float]
    operation: dict[str, float]
    passes: dict[str, float]

    def of_a_pass(self, name: str, n: float, d: int, workers: int, network: float = np.inf) -> float:
        """Return the seconds of a pass."""
        kind = KINDS[name]
        own = n / workers * (self.row[name] + kind.operations(d) * self.operation[name])
        return self.latency + own + 8 * kind.exchange(d) * np.log2(max(2, workers)) / network


def calibrated(client: Any, counts: bench.Counts, jobs: list[bench.Job]) -> Constants:
    """Measure the constants on the workers of a client."""
    few = bench.on_workers(client, 64, SIZES[0][1], bench.classes(64))
    latency = min(timed(as_rows(few.X).mean)[0] for _ in range(10))
    seconds: dict[str, list[float]] = {name: [] for name in KINDS}
    passes = {}
    for n, d in SIZES:
        data = bench.on_workers(client, n, d, bench.classes(n))
        with counts.watching(n):
            for job in jobs:
                run = bench.timed(job, data, {}, counts, 2)  # the first compiles
                name = job.name.split(",")[0]
                seconds[name].append(max(run.a_pass - latency, 1e-6) * WORKERS / n)
                passes[name] = run.n_passes
    row, operation = {}, {}
    for name, kind in KINDS.items():
        both = np.array([[1.0, kind.operations(d)] for _, d in SIZES])
        scale = 1 / np.array(seconds[name])  # relative errors count
        row[name], operation[name] = nnls(both * scale[:, None], np.ones(len(SIZES)))[0]
    return Constants(latency, row, operation, passes)


def check(client: Any, counts: bench.Counts, jobs: list[bench.Job], found: Constants, n: int, d: int) -> None:
    """Print predicted and measured seconds of a pass, side by side."""
    print(f"\n{n:,} x {d}, {WORKERS} workers: seconds of a pass")
    print(f"{'':20}{'predicted':>10}{'measured':>10}{'ratio':>7}{'passes':>8}")
    data = bench.on_workers(client, n, d, bench.classes(n))
    with counts.watching(n):
        for job in jobs:
            name = job.name.split(",")[0]
            run = bench.timed(job, data, {}, counts, 1)
            predicted = found.of_a_pass(name, n, d, WORKERS)
            line = f"{name:20}{predicted:10.3f}{run.a_pass:10.3f}{run.a_pass / predicted:7.2f}{run.n_passes:8.0f}"
            print(line, flush=True)


def plan(found: Constants, n: float, d: int, workers: int, network: float) -> None:
    """Print passes, bytes and seconds of each method."""
    print(
        f"\nplan for {n:,.0f} x {d:,} float32 on {workers} workers, {n * d * 4 / workers / 1e9:,.0f} GB on each"
    )
    print(f"{'':20}{'passes':>8}{'s a pass':>10}{'s':>9}{'MB a pass':>11}")
    for name, kind in KINDS.items():
        seconds = found.of_a_pass(name, n, d, workers, network)
        exchange = 8 * kind.exchange(d) * min(workers, 8)
        passes = found.passes[name]
        print(f"{name:20}{passes:8.0f}{seconds:10.2f}{passes * seconds:9.0f}{exchange / 1e6:11.2f}")


def main() -> None:
    sizes = ["1000000x200", "10000000x40", "1000000x100"]
    options = options_of(__doc__, check=sizes, rows=1e9, columns=1000, workers=50, network=1.25e9)
    warnings.simplefilter("ignore")
    jobs = [job for job in bench.jobs() if job.name.split(",")[0] in KINDS]
    counts = bench.Counts()
    with bench.cluster(WORKERS) as client, pinned(1):
        counts.address = client.scheduler.address
        found = calibrated(client, counts, jobs)
        print(f"an empty pass: {found.latency * 1e3:.0f} ms; one worker:")
        for name in KINDS:
            speed = 1e-9 / max(found.operation[name], 1e-15)
            costs = f"{found.row[name] * 1e9:6.0f} ns a row, {speed:6.1f} GFLOP/s"
            print(f"{name:20}{costs}, {found.passes[name]:.0f} passes")
        for size in options.check:
            n, d = map(int, size.split("x"))
            check(client, counts, jobs, found, n, d)
    plan(found, options.rows, options.columns, options.workers, options.network)


if __name__ == "__main__":
    main()
