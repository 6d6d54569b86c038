"""Speed of DRSVM, on sparse data of the shape of rcv1 (from a seeded generator: no data is needed).

    python benchmarks/drsvm.py            about a minute on two cores

Every figure is a ratio of two runs timed side by side (best of several), or seconds if the text says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.svm import LinearSVC

from _common import best_of, cores, few_labels, options_of
from common import pinned
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
    return few_labels(np.arange(n) % 2, LABELLED)


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
        with pinned(threads), single_blas():
            descend(iterates(problem, start, 0.0), max_iter=count, tol=0)

    return run


def against_the_two_products(X: sparse.csr_array, repeats: int) -> None:
    print("\nAn iteration over the two sparse products it cannot avoid, X @ B and X.T @ H by SciPy,")
    print(f"{X.shape[0]:,} x {X.shape[1]:,} with {X.nnz:,} non-zeros, by the clock.")
    print("Target with two threads: 1.2 at k = 10, 0.6 at k = 64.")
    print(f"{'k':>4} {'SciPy, s':>9} {'one thread':>11} {'two threads':>12}")
    rng = np.random.default_rng(2)
    for k in (10, 64):
        B, H = rng.standard_normal((X.shape[1], k)), rng.standard_normal((X.shape[0], k))
        runs = [partial(iterations(X, k, threads), count) for threads in (1, 2) for count in (1, 3)]
        runs[0](), runs[2]()  # compiles
        scipy, *ours = best_of(repeats, [lambda B=B, H=H: (X @ B, X.T @ H), *runs], 2)
        ratios = ((many - few) / 2 / scipy for few, many in zip(ours[::2], ours[1::2], strict=True))
        print("{:>4} {:>9.3f} {:>11.2f} {:>12.2f}".format(k, scipy, *ratios))


def whole_fits(X: sparse.csr_array, repeats: int) -> None:
    y = labels_of(X.shape[0])
    known = y >= 0

    def ours(k: int) -> None:
        DRSVM(k, max_iter=20, tol=1e-4).fit(X, y)

    def theirs(k: int) -> None:
        Z = TruncatedSVD(k, random_state=0).fit_transform(X)
        LinearSVC(random_state=0).fit(Z[known], y[known])

    print(
        "\nA whole fit (SVD start, at most 20 iterations) over TruncatedSVD and LinearSVC, all threads, by the clock"
    )
    for k in (10, 64):
        a, b = best_of(repeats, [partial(ours, k), partial(theirs, k)], 2)
        print(f"k = {k:>2}: {a:.2f} s over {b:.2f} s = {a / b:.2f}")


def main() -> None:
    options = options_of(__doc__, repeats=5, only=("products", "fits"))
    warnings.simplefilter("ignore")
    cores("; data from the generator, seed 0")
    X = text_like(N, D, PER_ROW)
    if "products" in options.only:
        against_the_two_products(X, options.repeats)
    if "fits" in options.only:
        whole_fits(X, min(options.repeats, 2))


if __name__ == "__main__":
    main()
