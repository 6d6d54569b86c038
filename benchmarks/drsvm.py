"""Speed and memory of DRSVM, on sparse data of the shape of rcv1 (from a seeded generator: no data is needed).

    python benchmarks/drsvm.py            about two minutes on two cores
    python benchmarks/drsvm.py --full     also the paper's full sizes; needs 4 GB and five minutes more

Every figure is a ratio of two runs timed side by side (best of several), or seconds if the text says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from _common import peak_beyond
from labelfold.base._descent import descend
from labelfold.factorization._components import random_start
from labelfold.factorization._drsvm import DRSVM, DRSVMProblem, iterates
from labelfold.rows import as_rows
from labelfold.rows._threads import single_blas

N, D, PER_ROW = 100_000, 47_236, 73
LABELLED = 200
# Seconds of an iteration in the paper's Table V (32 cores): update of B, of H, of w with the squared hinge.
TABLE_5 = {
    "rcv1": (697_641, 47_236, 73.2, 0.7049 + 1.4418 + 2.68e-4),
    "news20": (19_996, 1_355_191, 455.0, 0.4409 + 0.2671 + 2.34e-4),
}


def text_like(n: int, d: int, per_row: float, seed: int = 0) -> sparse.csr_array:
    """Return unit-norm rows of about ``per_row`` entries each, with columns drawn by a Zipf-like law."""
    rng = np.random.default_rng(seed)
    weights = 1 / (np.arange(d) + 10.0)
    cumulative = np.cumsum(weights / weights.sum())
    counts = rng.poisson(1.06 * per_row, n) + 1
    columns = np.empty(counts.sum(), dtype=np.int32)
    name = rng.permutation(d).astype(np.int32)
    for start in range(0, len(columns), 1 << 22):
        stop = min(start + (1 << 22), len(columns))
        columns[start:stop] = name[np.minimum(np.searchsorted(cumulative, rng.random(stop - start)), d - 1)]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    X = sparse.csr_array((rng.random(len(columns)) + 0.5, columns, indptr), shape=(n, d))
    X.sum_duplicates()
    sizes = np.diff(X.indptr)
    X.data /= np.repeat(np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1])), sizes)
    return X


def labels_of(n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    y = np.full(n, -1)
    y[rng.permutation(n)[:LABELLED]] = np.arange(LABELLED) % 2
    return y


def iterations(X: sparse.csr_array, k: int, threads: int) -> Callable[[int], None]:
    """Return a function that runs a number of iterations with the squared hinge from random factors."""
    rows, y = as_rows(X), labels_of(X.shape[0])
    index = np.flatnonzero(y >= 0)
    square = rows.squared_norm()
    problem = DRSVMProblem(
        rows=rows,
        index=index,
        T=(2.0 * y[index] - 1)[:, None],
        C=np.ones((len(index), 1)),
        squared_norm=square,
        svm_penalty=1.0,
        reconstruction=1.0,
        factor_penalty=1.0,
        loss="squared_hinge",
        nonnegative=False,
        fit_intercept=False,
        intercept_scaling=1.0,
    )
    start = random_start(rows, k, np.sqrt(square), 0, nonnegative=False)

    def run(count: int) -> None:
        os.environ["LABELFOLD_NUM_THREADS"] = str(threads)
        with threadpool_limits(threads, user_api="blas"), single_blas():
            descend(iterates(problem, start, 0.0), max_iter=count, tol=0)

    return run


class Spent(NamedTuple):
    """Least seconds: wall clock, and all processors together."""

    wall: float
    processors: float

    def less(self, other: Spent, count: int) -> Spent:
        """Return the time of each of the ``count`` iterations by which this run is longer than the other."""
        return Spent((self.wall - other.wall) / count, (self.processors - other.processors) / count)


def best(repeats: int, **jobs: Callable[[], Any]) -> dict[str, Spent]:
    """Return the least time of each job; the jobs take turns."""
    least = dict.fromkeys(jobs, Spent(np.inf, np.inf))
    for _ in range(repeats):
        for name, job in jobs.items():
            wall, processors = time.perf_counter(), time.process_time()
            job()
            spent = time.perf_counter() - wall, time.process_time() - processors
            least[name] = Spent(*map(min, least[name], spent))
    return least


def per_iteration(X: sparse.csr_array, k: int, repeats: int, few: int = 1, many: int = 4) -> Spent:
    """Return the least time of an iteration with two threads, without the rest of a solve."""
    run = iterations(X, k, 2)
    run(1)  # compiles
    found = best(repeats, few=lambda: run(few), many=lambda: run(many))
    return found["many"].less(found["few"], many - few)


def against_the_two_products(X: sparse.csr_array, repeats: int) -> None:
    print(
        f"\nAn iteration over the two sparse products it cannot avoid, X @ B and X.T @ H by SciPy, {_shape(X)}."
    )
    print(
        "By the clock; and by processor time, which neighbours disturb less: with two threads half of it is what two"
    )
    print("idle cores would take. Target by the clock with two threads: 1.2 at k = 10, 0.6 at k = 64.")
    print(
        f"{'k':>4} {'SciPy, s':>9} {'one thread':>11} {'(processor)':>12} {'two threads':>12} {'(processor / 2)':>16}"
    )
    rng = np.random.default_rng(2)
    for k in (10, 64):
        B, H = rng.standard_normal((X.shape[1], k)), rng.standard_normal((X.shape[0], k))
        one, two = iterations(X, k, 1), iterations(X, k, 2)
        one(1), two(1)  # compiles
        found = best(
            repeats,
            products=lambda B=B, H=H: (X @ B, X.T @ H),
            one_few=lambda one=one: one(1),
            one_many=lambda one=one: one(3),
            two_few=lambda two=two: two(1),
            two_many=lambda two=two: two(3),
        )
        scipy = found["products"]
        ours = [found[f"{name}_many"].less(found[f"{name}_few"], 2) for name in ("one", "two")]
        ratios = [
            ours[0].wall / scipy.wall,
            ours[0].processors / scipy.processors,
            ours[1].wall / scipy.wall,
            ours[1].processors / scipy.processors / 2,
        ]
        print("{:>4} {:>9.3f} {:>11.2f} {:>12.2f} {:>12.2f} {:>16.2f}".format(k, scipy.wall, *ratios))


def whole_fits(X: sparse.csr_array, repeats: int) -> None:
    y = labels_of(X.shape[0])
    known = y >= 0
    os.environ.pop("LABELFOLD_NUM_THREADS", None)

    def ours(k: int) -> None:
        DRSVM(k, max_iter=20, tol=1e-4).fit(X, y)

    def theirs(k: int) -> None:
        Z = TruncatedSVD(k, random_state=0).fit_transform(X)
        LinearSVC(random_state=0).fit(Z[known], y[known])

    print(
        "\nA whole fit (SVD start, at most 20 iterations) over TruncatedSVD and LinearSVC, with all threads"
    )
    for k in (10, 64):
        found = best(repeats, ours=lambda k=k: ours(k), theirs=lambda k=k: theirs(k))
        ours_s, theirs_s = found["ours"], found["theirs"]
        by = ours_s.wall / theirs_s.wall, ours_s.processors / theirs_s.processors
        print(
            f"k = {k:>2}: {ours_s.wall:.2f} s over {theirs_s.wall:.2f} s = {by[0]:.2f}; processor time {by[1]:.2f}"
        )


def growth(repeats: int) -> None:
    print("\nGrowth of an iteration, two threads: processor time over that of 50,000 x 47,236 at k = 16")
    base = per_iteration(text_like(50_000, D, PER_ROW), 16, repeats)
    for what, shape, k in (
        ("n twice", (100_000, D), 16),
        ("n four times", (200_000, D), 16),
        ("d twice, as many non-zeros", (50_000, 2 * D), 16),
        ("d four times, as many non-zeros", (50_000, 4 * D), 16),
        ("k twice", (50_000, D), 32),
        ("k four times", (50_000, D), 64),
    ):
        spent = per_iteration(text_like(*shape, PER_ROW), k, repeats)
        print(f"{what:<32} {spent.processors / base.processors:.2f}")


def memory() -> None:
    print(
        "\nPeak memory of a fit (3 iterations) beyond X, over 8 k (n + d) bytes, each in a process of its own"
    )
    for k in (10, 64):
        command = [sys.executable, __file__, "--memory", str(k)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        extra, factors, data = map(float, answer)
        print(
            f"k = {k:>2}: {extra / 1e6:.0f} / {factors / 1e6:.0f} MB = {extra / factors:.1f} (X: {data / 1e6:.0f} MB)"
        )


def measure_memory(k: int) -> None:
    """Print the memory of a fit beyond that before it, and the sizes of the factors and of X."""
    small = text_like(2000, 500, 20)
    DRSVM(k, init="random", max_iter=2).fit(small, labels_of(2000))  # imports and compiles
    X = text_like(N, D, PER_ROW)
    y = labels_of(N)
    extra = peak_beyond(partial(DRSVM(k, max_iter=3).fit, X, y))
    print(extra, 8 * k * (N + D), X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def full_sizes(names: list[str]) -> None:
    if names:
        print(
            "\nThe paper's full sizes, k = 10: seconds an iteration with two threads, beside its Table V (32 cores)"
        )
    for name in names:
        n, d, per_row, published = TABLE_5[name]
        X = text_like(n, d, per_row)
        spent = per_iteration(X, 10, repeats=2, many=3)
        ours = f"{spent.wall:.2f} s ({spent.processors:.2f} of processors)"
        print(f"{name:<7} {_shape(X)}: {ours}; published {published:.2f} s")


def _shape(X: sparse.csr_array) -> str:
    return f"{X.shape[0]:,} x {X.shape[1]:,} with {X.nnz:,} non-zeros"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="also the paper's full sizes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--only", choices=["products", "fits", "growth", "memory", *TABLE_5], help="one table alone"
    )
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.memory:
        measure_memory(arguments.memory)
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; data from the generator, seed 0")
    only = arguments.only
    X = text_like(N, D, PER_ROW) if only in (None, "products", "fits") else None
    if only in (None, "products"):
        against_the_two_products(X, arguments.repeats)
    if only in (None, "fits"):
        whole_fits(X, min(arguments.repeats, 2))
    if only in (None, "growth"):
        growth(min(arguments.repeats, 3))
    if only in (None, "memory"):
        memory()
    full_sizes([name for name in TABLE_5 if arguments.full or only == name])


if __name__ == "__main__":
    main()
