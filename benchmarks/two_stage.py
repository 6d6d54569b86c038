"""The two-stage methods beside their usual alternatives: ratios of seconds, alternative over ours.

    python benchmarks/two_stage.py               everything, about ten minutes
    python benchmarks/two_stage.py --quick       smaller data, about a minute
    python benchmarks/two_stage.py --threads 2   both sides with two threads, wall-clock time

Both sides run in this process with the same number of threads, in turn, several times, and the least time of each
counts; compilation is done before. With one thread (the default) the seconds are processor seconds.

* lsqr: the paper's algorithm, SciPy's LSQR for one target after the other, centred implicitly, with the loosest
  tolerance at which the residual of its normal equations is our relative residual (1e-11 if ours is smaller), the
  largest of any target. With a small ridge only some targets are timed, and the time is scaled to all of them.
* direct: the same directions from the d x d problem: ``solver="direct"``, and SciPy's plain generalised eigh.
* scikit-learn: LinearDiscriminantAnalysis, CCA and PLSRegression. Its CCA takes minutes for all directions, so it
  computes only two, in at most ten iterations each, while ours computes all: the ratio is a lower bound.
* path: seconds of nine ridges, each ten times the previous one, beside those of one fit with the smallest.
* growth: seconds of iterations to a fixed residual, without factorisation, as rows and as columns are added, and the
  slope of their logarithms. A ridge is added to a sum over rows, so its weight is constant only if it grows with the
  number of rows. The weight of a ridge of 1 decreases.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, lsqr
from sklearn import cross_decomposition as sk
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning

from _common import best_of, documents, labelled_documents, pinned, slope
from labelfold import CCA, HSL, LDA, OPLS
from labelfold.numerics import RidgeSolution, ridge_problem
from labelfold.rows import Centered, as_rows

RESIDUAL, LEAST_RESIDUAL = 1e-8, 1e-11


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
    X, Y, source = (*documents(1500, 12_000, 40), "generated, small") if quick else labelled_documents()
    print(f"lsqr: {X.shape[0]} x {X.shape[1]}, {X.nnz} non-zeros, {Y.shape[1]} labels, {source}")
    ones = np.ones(len(Y))
    for method in (CCA(), HSL()):
        T = method._targets(Y, ones)
        T = T - T.mean(axis=0)
        one_lsqr_comparison(table, f"{type(method).__name__} targets", X, T, ridge, sample or T.shape[1])


def one_lsqr_comparison(table: Table, name: str, X: Any, T: np.ndarray, ridge: float, sample: int) -> None:
    mean = np.asarray(X.mean(axis=0)).ravel()
    transposed = X.T.tocsr() if transposed_is_quicker(X) else X.T
    centered = LinearOperator(
        X.shape,
        matvec=lambda w: X @ w - mean @ w,
        rmatvec=lambda r: transposed @ r - mean * r.sum(),
        dtype=np.float64,
    )

    def residual(W: np.ndarray, columns: np.ndarray) -> float:
        worst = 0.0
        for w, t in zip(W.T, T[:, columns].T, strict=True):
            rest = centered.rmatvec(t - centered.matvec(w)) - ridge * w
            worst = max(worst, np.linalg.norm(rest) / np.linalg.norm(centered.rmatvec(t)))
        return worst

    def one_by_one(columns: np.ndarray, tol: float) -> np.ndarray:
        return np.stack(
            [
                lsqr(centered, T[:, j], damp=np.sqrt(ridge), atol=tol, btol=tol, iter_lim=100_000)[0]
                for j in columns
            ],
            axis=1,
        )

    every, columns = np.arange(T.shape[1]), np.linspace(0, T.shape[1] - 1, sample).astype(int)
    some = columns[:: max(1, sample // 4)]
    for way in ("auto", "dual", "krylov") if ridge >= 1 else ("auto", "dual"):

        def ours(way: str = way) -> RidgeSolution:
            return ridge_problem(as_rows(X), T, way=way).solve(ridge)

        found = ours()
        reached = max(residual(found.W, every), LEAST_RESIDUAL)
        tol = next(
            tol for tol in reached * np.logspace(0, -4, 9) if residual(one_by_one(some, tol), some) <= reached
        )
        took = way if way == found.way else f"{way} ({found.way})"
        part = "" if sample == T.shape[1] else f", {sample} targets timed"
        table.compare(
            f"  {name}, ridge {ridge:g}, {took}, {reached:.0e}{part}",
            ours,
            lambda tol=tol: one_by_one(columns, tol),
            scale=T.shape[1] / sample,
            aim=("8x" if ridge == 1 else "100x") if way == "auto" else "",
            peer_runs=1 if ridge < 1 else 2,
        )


def transposed_is_quicker(X: Any) -> bool:
    """Return whether LSQR is faster with a transposed copy; it gets the faster of the two."""
    r, copy = np.ones(X.shape[0]), X.T.tocsr()
    with_copy, without = best_of(20, [lambda: copy @ r, lambda: X.T @ r], 1)
    return with_copy < without


def against_direct(table: Table, quick: bool) -> None:
    n, d, c = (800, 800, 10) if quick else (2000, 2000, 20)
    X, y = classes(n, d, c)
    print(f"direct: {n} x {d} dense, {c} classes, ridge 1, generated")

    def plain() -> None:
        Xc = X - X.mean(axis=0)
        H = np.eye(c)[y] / np.sqrt(np.bincount(y))
        M = Xc.T @ H
        linalg.eigh(M @ M.T, Xc.T @ Xc + np.eye(d), subset_by_index=[d - c + 1, d - 1])

    table.compare("  LDA, scipy.linalg.eigh of the d x d problem", lambda: LDA(ridge=1.0).fit(X, y), plain)
    for method in (LDA, CCA, OPLS):
        table.compare(
            f'  {method.__name__}, solver="direct"',
            lambda method=method: method(ridge=1.0).fit(X, y),
            lambda method=method: method(ridge=1.0, solver="direct").fit(X, y),
            peer_runs=1,
        )


def against_scikit_learn(table: Table, quick: bool) -> None:
    n, d, c = (1000, 300, 10) if quick else (4000, 1000, 20)
    X, y = classes(n, d, c)
    print(f"scikit-learn: {n} x {d} dense, {c} classes, generated")
    for solver in ("svd", "eigen"):
        table.compare(
            f"  LDA, LinearDiscriminantAnalysis(solver={solver!r})",
            lambda: LDA().fit(X, y),
            lambda solver=solver: LinearDiscriminantAnalysis(solver=solver).fit(X, y),
        )
    n, d, c = (500, 500, 10) if quick else (2000, 2000, 20)
    X, y = classes(n, d, c)
    Y = np.eye(c)[y]
    print(f"scikit-learn: {n} x {d} dense, {c} classes, generated")
    table.compare(
        f"  CCA, all {c - 1} directions; CCA(2, max_iter=10)",
        lambda: CCA(ridge=1.0).fit(X, Y),
        lambda: sk.CCA(2, max_iter=10).fit(X, Y),
        aim="20x",
        peer_runs=1,
    )
    table.compare(
        f"  OPLS, all {c - 1} directions; PLSRegression({c - 1})",
        lambda: OPLS(ridge=1.0).fit(X, Y),
        lambda: sk.PLSRegression(c - 1).fit(X, Y),
    )


def classes(n: int, d: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dense Gaussian rows whose means differ by class."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % c
    return rng.standard_normal((n, d)) + rng.standard_normal((c, d))[y] / 2, y


def growth(table: Table, quick: bool) -> None:
    """Time LDA by iterations for growing numbers of rows, then columns, of documents with ten topics."""
    smaller, steps = (4, 4) if quick else (1, 5)
    few, many = 4_000 // smaller, 5_000 // smaller
    for what, shapes in (
        ("rows", [(few * 2**i, 20_000 // smaller) for i in range(steps)]),
        ("columns", [(10_000 // smaller, many * 2**i) for i in range(steps)]),
    ):
        data = [documents(n, d, 10) for n, d in shapes]
        sizes = [shape[what == "columns"] for shape in shapes]
        for rule, ridges in (("a thousandth a row", [n / 1000 for n, _ in shapes]), ("1", [1.0] * steps)):
            took, counts = [], []
            for (X, Y), ridge in zip(data, ridges, strict=True):
                model = LDA(ridge=ridge, max_gram_bytes=0, tol=RESIDUAL).fit(X, Y.argmax(axis=1))
                assert model.residual_ <= RESIDUAL, model.residual_
                counts.append(model.n_iter_)
                fit = partial(model.fit, X, Y.argmax(axis=1))
                took += best_of(table.repeat, [fit], table.threads)
            print(
                f"growth: LDA by iterations to {RESIDUAL:g}, ridge {rule}, {sizes[0]} to {sizes[-1]} {what}:\n"
                f"  {', '.join(f'{t:.2f}' for t in took)} s in {', '.join(map(str, counts))} iterations: "
                f"slope {slope(sizes, took):.2f} (aim: at most 1.1), "
                f"an iteration's {slope(sizes, np.divide(took, counts)):.2f}",
                flush=True,
            )


def paths(table: Table, quick: bool) -> None:
    """Time a path of nine ridges beside one fit, with each method of solution."""
    n, d, c = (500, 500, 10) if quick else (2000, 2000, 20)
    X, y = classes(n, d, c)
    words, Y = documents(*((1000, 8000, 10) if quick else (4000, 40_000, 20)))
    topic = Y.argmax(axis=1)
    for name, rows, one, nine in (
        ("LDA, factorised", X, partial(fit, LDA, X, y), partial(LDA().path, X, y)),
        ("CCA, factorised", X, partial(fit, CCA, X, y), partial(CCA().path, X, y)),
        ("stage 1, sparse, factorised", words, *[partial(first_stage, words, Y)] * 2),
        (
            "LDA, sparse, by iterations",
            words,
            partial(fit, partial(LDA, max_gram_bytes=0), words, topic),
            partial(LDA(max_gram_bytes=0).path, words, topic),
        ),
        (
            "LDA, sparse, as it chooses",
            words,
            partial(fit, LDA, words, topic),
            partial(LDA().path, words, topic),
        ),
    ):
        spread = Centered(as_rows(rows)).squared_norm() / rows.shape[0]
        ridges = spread * 10.0 ** np.arange(-4, 5)
        one(ridges[:1])
        a, b = best_of(table.repeat, [partial(one, ridges[:1]), partial(nine, ridges)], table.threads)
        shape = f"{rows.shape[0]} x {rows.shape[1]}"
        print(f"path: {name}, {shape}: one {a:.2f} s, nine {b:.2f} s: {b / a:.1f} times one", flush=True)


def fit(method: Callable, X: Any, y: np.ndarray, ridges: np.ndarray) -> None:
    method(ridge=ridges[0]).fit(X, y)


def first_stage(X: Any, T: np.ndarray, ridges: np.ndarray) -> None:
    problem = ridge_problem(as_rows(X), T, way="dual")
    problem.prepare(ridges)
    for ridge in ridges:
        problem.solve(ridge)


PARTS = {
    "lsqr": against_lsqr,
    "lsqr-small-ridge": partial(against_lsqr, ridge=1e-4, sample=4),
    "direct": against_direct,
    "scikit-learn": against_scikit_learn,
    "path": paths,
    "growth": growth,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller data, about a minute")
    parser.add_argument("--threads", type=int, default=1, help="for both sides")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    clock = "processor" if options.threads == 1 else "wall"
    print(f"threads: {options.threads} on both sides; {clock} seconds, best of {options.repeat}")
    with pinned(options.threads):
        table = Table(options.threads, options.repeat)
        for part in options.parts:
            PARTS[part](table, options.quick)


if __name__ == "__main__":
    main()
