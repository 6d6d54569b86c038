"""SSDR beside the eigenproblem of an explicit matrix, and its growth with rows and columns (generated data).

    python benchmarks/ssdr.py            about two minutes on two cores
    python benchmarks/ssdr.py --quick    smaller data

The alternative computes the d x d matrix X'(D - S)X, without computing S, and its k largest eigenvalues with LAPACK,
which is the direct approach. "equal" is the largest difference of the eigenvalues relative to the first. Seconds are
wall-clock time, best of several in turn; peak memory is measured in a separate process (Linux only).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
from scipy import linalg, sparse

from _common import best_of, documents, peak_beyond, pinned, slope
from labelfold.discriminant._ssdr import SSDR

K, LABELLED = 10, 200
THREADS = 2


def problem(n: int, d: int, dense: bool) -> tuple[np.ndarray | sparse.csr_array, np.ndarray]:
    """Return rows, sparse like documents or dense, and labels of two classes for a few of them."""
    rng = np.random.default_rng(1)
    y = np.full(n, -1)
    y[rng.permutation(n)[:LABELLED]] = np.arange(LABELLED) % 2
    if not dense:
        return documents(n, d, 20)[0], y
    factors = rng.standard_normal((n, 30)) * np.linspace(5, 1, 30)
    return factors @ rng.standard_normal((30, d)) / 5 + rng.standard_normal((n, d)), y


def formed(X: np.ndarray | sparse.csr_array, y: np.ndarray) -> np.ndarray:
    """Return the k largest eigenvalues of X'(D - S)X, computed explicitly."""
    n = len(y)
    E = np.stack([y == 0, y == 1], axis=1).astype(np.float64)
    counts = E.sum(axis=0)
    alpha, beta = 1 / (counts[0] * counts[1]), 20 / (counts**2).sum()
    mix = np.where(np.eye(2) > 0, beta, -alpha)  # S = 11'/n^2 - E mix E'
    degrees = 1 / n - E @ (mix @ counts)
    XE, total = X.T @ E, np.asarray(X.sum(axis=0)).ravel() / n
    weighted = X.multiply(degrees[:, None]).tocsr() if sparse.issparse(X) else X * degrees[:, None]
    A = X.T @ weighted
    A = (A.toarray() if sparse.issparse(A) else A) - np.outer(total, total) + XE @ mix @ XE.T
    d = len(A)
    return linalg.eigh((A + A.T) / 2, subset_by_index=(d - K, d - 1), eigvals_only=True)[::-1]


def against_the_formed_matrix(sizes: list[tuple[int, int, bool]], repeat: int) -> None:
    print(f"k = {K}, {LABELLED} labels; over the eigenvalues of the formed matrix, {THREADS} threads each")
    print(
        f"{'rows x columns':>20} {'':7} {'ours, s':>8} {'formed, s':>10} {'ratio':>6} {'passes':>7} {'equal':>8}"
    )
    for n, d, dense in sizes:
        X, y = problem(n, d, dense)
        model = SSDR(K, max_iter=2000)
        runs = [partial(model.fit, X, y), partial(formed, X, y)]
        with pinned(THREADS):
            model.fit(X, y)  # compiles
            ours, theirs = best_of(repeat, runs, THREADS)
            found = formed(X, y)
        equal = np.abs(model.eigenvalues_ - found).max() / np.abs(found).max()
        kind = "dense" if dense else "sparse"
        row = f"{ours:>8.2f} {theirs:>10.2f} {ours / theirs:>6.2f} {model.n_iter_:>7} {equal:>8.0e}"
        print(f"{n:>10,} x {d:<7,} {kind:7} {row}", flush=True)


def growth(n: int, d: int, repeat: int) -> None:
    """Print seconds of an iteration as rows and columns grow: the difference of many and few iterations."""
    print("\nAn iteration (a pass over X) as X grows; p is the exponent of seconds ~ size^p")
    for what, sizes in (
        ("rows", [(n, d), (2 * n, d), (4 * n, d)]),
        ("columns", [(n, d), (n, 2 * d), (n, 4 * d)]),
    ):
        seconds = []
        for shape in sizes:
            X, y = problem(*shape, dense=False)
            few, many = SSDR(K, tol=1e-14, max_iter=3), SSDR(K, tol=1e-14, max_iter=23)
            with pinned(THREADS):
                few.fit(X, y)  # compiles
                short, long = best_of(repeat, [partial(few.fit, X, y), partial(many.fit, X, y)], THREADS)
            seconds.append((long - short) / (many.n_iter_ - few.n_iter_))
        power = slope([2.0**i for i in range(3)], seconds)
        print(
            f"{what:8} " + ", ".join(f"{1e3 * s:.1f} ms" for s in seconds) + f"; p = {power:.2f}", flush=True
        )


def memory(n: int, d: int) -> None:
    command = [sys.executable, __file__, "--memory", str(n), str(d)]
    extra = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print(
        f"\nPeak memory of a fit of {n:,} x {d:,} beyond X: {extra / 1e6:.0f} MB, "
        f"that is {extra / (8 * K * (n + d)):.1f} "
        f"times k columns of n + d numbers; a d x d matrix has {8e-6 * d * d:,.0f} MB"
    )


def measure_memory(n: int, d: int) -> None:
    """Print the memory of a fit beyond X."""
    SSDR(K, max_iter=2).fit(*problem(6000, 3000, dense=False))  # imports and compiles
    X, y = problem(n, d, dense=False)
    print(peak_beyond(partial(SSDR(K, max_iter=5).fit, X, y)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["formed", "growth", "memory"], help="one table alone")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.memory:
        measure_memory(*options.memory)
        return
    print("data from the generator, seed 1")
    part = 4 if options.quick else 1
    if options.only in (None, "formed"):
        sizes = [(20_000, 400, True), (5000, 2000, True), (10_000, 6000, False), (20_000, 12_000, False)]
        against_the_formed_matrix([(n // part, d // part, dense) for n, d, dense in sizes], options.repeat)
    if options.only in (None, "growth"):
        growth(20_000 // part, 20_000 // part, options.repeat)
    if options.only in (None, "memory"):
        memory(100_000 // part, 50_000 // part)


if __name__ == "__main__":
    main()
