"""Speed of DRSVM, on sparse data of the shape of rcv1 (from a seeded generator: no data is needed).

    python benchmarks/drsvm.py            about a minute on two cores

Every figure is a ratio of two runs timed side by side (best of several), or seconds if the text says so.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from _common import options_of
from labelfold.base._descent import descend
from labelfold.factorization._components import random_start
from labelfold.factorization._drsvm import DRSVM, DRSVMProblem, iterates
from labelfold.rows import as_rows
from labelfold.rows._threads import single_blas

N, D, PER_ROW = 100_000, 47_236, 73
LABELLED = 200


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


def against_the_two_products(X: sparse.csr_array, repeats: int) -> None:
    print("\nAn iteration over the two sparse products it cannot avoid, X @ B and X.T @ H by SciPy,")
    print(f"{X.shape[0]:,} x {X.shape[1]:,} with {X.nnz:,} non-zeros.")
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


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["products", "fits"], help="one table alone")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; data from the generator, seed 0")
    X = text_like(N, D, PER_ROW)
    if arguments.only in (None, "products"):
        against_the_two_products(X, arguments.repeats)
    if arguments.only in (None, "fits"):
        whole_fits(X, min(arguments.repeats, 2))


if __name__ == "__main__":
    main()
