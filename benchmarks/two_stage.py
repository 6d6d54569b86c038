"""The two-stage methods beside their usual alternatives: ratios of seconds, alternative over ours.

    python benchmarks/two_stage.py               everything, some minutes
    python benchmarks/two_stage.py --quick       smaller data, about a minute
    python benchmarks/two_stage.py --threads 2   both sides with two threads, wall-clock time

Both sides run in this process with the same number of threads, in turn, several times, and the least time of each
counts; compilation is done before. With one thread (the default) the seconds are processor seconds.

* lsqr: the paper's algorithm, SciPy's LSQR for one target after the other, centred implicitly, with the loosest
  tolerance at which the residual of its normal equations is our relative residual (1e-11 if ours is smaller), the
  largest of any target. With a small ridge only some targets are timed, and the time is scaled to all of them.
* scikit-learn: its CCA takes minutes for all directions, so it computes only two, in at most ten iterations each,
  while ours computes all: the ratio is a lower bound.
* path: a fit for each of ten ridges, beside one call of `path`, and beside one fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.cross_decomposition import CCA as Peer
from sklearn.exceptions import ConvergenceWarning

from _common import best_of, documents, options_of
from common import pinned
from data_sets import load
from labelfold import CCA, HSL
from labelfold.numerics import RidgeSolution, ridge_problem
from labelfold.rows import as_rows
from two_stage_methods import centred, one_by_one

LEAST_RESIDUAL = 1e-11


class Table:
    """Rows of the report, printed immediately."""

    def __init__(self, threads: int, repeat: int) -> None:
        self.threads, self.repeat = threads, repeat
        print(f"\n{'':66s}{'peer s':>9s}{'ours s':>9s}{'ratio':>9s}{'aim':>7s}")

    def compare(
        self,
        name: str,
        ours: Callable,
        peer: Callable,
        *,
        scale: float = 1.0,
        aim: str = "",
        peer_runs: int = 0,
    ) -> None:
        """Time both and print their ratio; the seconds of the alternative are multiplied by ``scale``."""
        ours()  # compiled before it is timed
        a, b = best_of(peer_runs or self.repeat, [ours, peer], self.threads)
        if peer_runs:
            a = min(a, *best_of(self.repeat, [ours], self.threads))
        print(f"{name:66s}{scale * b:9.2f}{a:9.3f}{scale * b / a:8.1f}x{aim:>7s}", flush=True)


def against_lsqr(table: Table, quick: bool, ridge: float = 1.0, sample: int = 0) -> None:
    """Time stage 1 with the targets of CCA and of HSL; LSQR for ``sample`` of the targets, or all if it is 0."""
    if quick:
        X, Y, source = *documents(1500, 12_000, 40), "generated, small"
    else:
        _, X, Y, source = load("rcv1v2_subset1", lambda _: documents(6_000, 47_236, 101))
    Y = Y.astype(np.float64)
    print(f"lsqr: {X.shape[0]} x {X.shape[1]}, {X.nnz} non-zeros, {Y.shape[1]} labels, {source}")
    ones = np.ones(len(Y))
    for method in (CCA(), HSL()):
        T = method._targets(Y, ones)
        T = T - T.mean(axis=0)
        one_lsqr_comparison(table, f"{type(method).__name__} targets", X, T, ridge, sample or T.shape[1])


def one_lsqr_comparison(table: Table, name: str, X: Any, T: np.ndarray, ridge: float, sample: int) -> None:
    centered = centred(X, X.T.tocsr() if transposed_is_quicker(X) else X.T)

    def residual(W: np.ndarray, columns: np.ndarray) -> float:
        worst = 0.0
        for w, t in zip(W.T, T[:, columns].T, strict=True):
            rest = centered.rmatvec(t - centered.matvec(w)) - ridge * w
            worst = max(worst, np.linalg.norm(rest) / np.linalg.norm(centered.rmatvec(t)))
        return worst

    def lsqr(columns: np.ndarray, tol: float) -> np.ndarray:
        return one_by_one(centered, T[:, columns], ridge, tol, 100_000)[0]

    every, columns = np.arange(T.shape[1]), np.linspace(0, T.shape[1] - 1, sample).astype(int)
    some = columns[:: max(1, sample // 4)]
    for way in ("auto", "dual", "krylov") if ridge >= 1 else ("auto", "dual"):

        def ours(way: str = way) -> RidgeSolution:
            return ridge_problem(as_rows(X), T, way=way).solve(ridge)

        found = ours()
        reached = max(residual(found.W, every), LEAST_RESIDUAL)
        tol = next(
            tol for tol in reached * np.logspace(0, -4, 9) if residual(lsqr(some, tol), some) <= reached
        )
        took = way if way == found.way else f"{way} ({found.way})"
        part = "" if sample == T.shape[1] else f", {sample} targets timed"
        table.compare(
            f"  {name}, ridge {ridge:g}, {took}, {reached:.0e}{part}",
            ours,
            lambda tol=tol: lsqr(columns, tol),
            scale=T.shape[1] / sample,
            aim=("8x" if ridge == 1 else "100x") if way == "auto" else "",
            peer_runs=1 if ridge < 1 else 2,
        )


def transposed_is_quicker(X: Any) -> bool:
    """Return whether LSQR is faster with a transposed copy; it gets the faster of the two."""
    r, copy = np.ones(X.shape[0]), X.T.tocsr()
    with_copy, without = best_of(20, [lambda: copy @ r, lambda: X.T @ r], 1)
    return with_copy < without


def against_scikit_learn(table: Table, quick: bool) -> None:
    n, c = (500, 10) if quick else (2000, 20)
    rng = np.random.default_rng(0)
    y = np.arange(n) % c
    X = rng.standard_normal((n, n)) + rng.standard_normal((c, n))[y] / 2
    Y = np.eye(c)[y]
    print(f"scikit-learn: {n} x {n} dense, {c} classes, generated")
    table.compare(
        f"  CCA, all {c - 1} directions; CCA(2, max_iter=10)",
        lambda: CCA(ridge=1.0).fit(X, Y),
        lambda: Peer(2, max_iter=10).fit(X, Y),
        aim="20x",
        peer_runs=1,
    )


def against_separate_fits(table: Table, quick: bool) -> None:
    n, c = (500, 10) if quick else (2000, 20)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, n)), np.arange(n) % c
    words, topics = documents(*((1500, 12_000, 40) if quick else (6000, 47_236, 101)))
    ridges = np.logspace(-2, 3, 10).tolist()
    print(f"path: {len(ridges)} ridges from {ridges[0]:g} to {ridges[-1]:g}")
    for name, data in (
        (f"{n} x {n} dense", (X, np.eye(c)[y])),
        (f"{words.shape[0]} x {words.shape[1]} sparse", (words, topics)),
    ):
        table.compare(
            f"  CCA, {name}, a fit for each; path",
            lambda data=data: CCA().path(*data, ridges),
            lambda data=data: [CCA(ridge=ridge).fit(*data) for ridge in ridges],
            peer_runs=1,
        )
        table.compare(
            f"  CCA, {name}, one fit, smallest ridge; path",
            lambda data=data: CCA().path(*data, ridges),
            lambda data=data: CCA(ridge=ridges[0]).fit(*data),
        )


PARTS = {
    "path": against_separate_fits,
    "lsqr": against_lsqr,
    "lsqr-small-ridge": partial(against_lsqr, ridge=1e-4, sample=4),
    "scikit-learn": against_scikit_learn,
}


def main() -> None:
    options = options_of(__doc__, quick=False, threads=1, repeat=3, parts=tuple(PARTS))
    warnings.simplefilter("ignore", ConvergenceWarning)
    clock = "processor" if options.threads == 1 else "wall"
    print(f"threads: {options.threads} on both sides; {clock} seconds, best of {options.repeat}")
    with pinned(options.threads):
        table = Table(options.threads, options.repeat)
        for part in options.parts:
            PARTS[part](table, options.quick)


if __name__ == "__main__":
    main()
