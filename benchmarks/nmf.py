"""KLNMF and NMFAlpha against scikit-learn's NMF with the same loss and MiniBatchNMF, on news20 or similar counts.

    python benchmarks/nmf.py                    all parts, a quarter of an hour on two cores
    python benchmarks/nmf.py --only iteration   one part: see --help
    python benchmarks/nmf.py --quick            a tenth of the rows

Every figure is a ratio of two timings in this run. The data is news20_libsvm from the folder LABELFOLD_DATA, or
counts of the same shape from a seeded generator; the first line of the output names the source.
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
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF, MiniBatchNMF

from _common import best_of, pinned, slope
from labelfold import KLNMF, SSNMF, NMFAlpha
from labelfold.base import descend
from labelfold.factorization._divergence import divergence
from labelfold.factorization._klnmf import (
    divergence_start,
    iterates,
    margins,
    random_factors,
)
from labelfold.rows import Rows, as_rows

N, D, LENGTH = 15_935, 62_061, 116
K = 64


def divergence_factors(
    rows: Rows, start: tuple[Any, np.ndarray], *, max_iter: int, max_beta: float = 1.0, **options: Any
) -> Any:
    """Iterate from ``start``; with ``max_beta=0`` without extrapolation."""
    steps = iterates(rows, start, max_iter=max_iter, max_beta=max_beta)
    return descend(steps, max_iter=max_iter, tol=0, **options)


def data(share: float = 1.0) -> tuple[sparse.csr_matrix, np.ndarray, str]:
    """Return counts, classes, and their source."""
    folder = os.environ.get("LABELFOLD_DATA")
    if folder is None:
        X, y = counted_documents(int(N * share), D, LENGTH)
        return X, y, "generated with the shape of news20_libsvm (set LABELFOLD_DATA for the real one)"
    with np.load(Path(folder) / "news20_libsvm.npz") as file:
        parts = file["X_data"].astype(np.float64), file["X_indices"], file["X_indptr"]
        X = sparse.csr_matrix(parts, shape=tuple(file["X_shape"]))
        keep = np.random.default_rng(0).permutation(X.shape[0])[: int(X.shape[0] * share)]
        return X[np.sort(keep)], file["y"][np.sort(keep)], "news20_libsvm"


def counted_documents(
    n: int, d: int, length: float, n_topics: int = 20, seed: int = 0
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return word counts of documents of about ``length`` words, with Zipf-like frequencies, and their topics."""
    rng = np.random.default_rng(seed)
    frequency = np.cumsum(1 / (np.arange(d) + 10.0))
    frequency /= frequency[-1]
    y = rng.integers(0, n_topics, n)
    own = rng.integers(0, d, (n_topics, max(20, d // 60)))
    lengths = rng.lognormal(np.log(length) - 0.32, 0.8, n).astype(int) + 5
    rows = np.repeat(np.arange(n), lengths)
    columns = np.minimum(np.searchsorted(frequency, rng.random(len(rows))), d - 1)
    topical = rng.random(len(rows)) < 0.3
    columns[topical] = own[y[rows[topical]], rng.integers(0, own.shape[1], topical.sum())]
    X = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, d))
    return X, y


def theirs(X: Any, H: np.ndarray, V: np.ndarray, n_iter: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's factors after ``n_iter`` updates of both."""
    model = NMF(H.shape[1], beta_loss="kullback-leibler", solver="mu", init="custom", max_iter=n_iter, tol=0)
    W = model.fit_transform(X, W=H.copy(), H=np.ascontiguousarray(V.T))
    return W, model.components_.T


def time_to(X: Any, loss: float, k: int = K, most: int = 300) -> tuple[float, int]:
    """Return the seconds and iterations of a fit until it reaches this loss."""
    begun = time.perf_counter()
    rows = as_rows(X)
    H, V = divergence_start(rows, k, "random", margins(rows), 0)
    seconds = []
    found = divergence_factors(
        rows, (H, V), max_iter=most, callback=lambda *_: seconds.append(time.perf_counter() - begun)
    )
    there = np.flatnonzero(np.array(found.objective) <= loss)
    if not len(there):
        return np.inf, most
    return seconds[max(there[0] - 1, 0)], int(there[0]) + 1


def iteration(X: Any, repeat: int) -> None:
    """Time an iteration, without the rest of a fit."""
    rows = as_rows(X)
    H, V = random_factors(rows, K, margins(rows), np.random.default_rng(0))

    def ours(n_iter: int, max_beta: float = 1.0) -> Any:
        return divergence_factors(rows, (H, V), max_iter=n_iter, max_beta=max_beta)

    ours(2)  # compiles
    last = ours(4, max_beta=0).objective
    reached = divergence(X, *theirs(X, H, V, 3))
    print(
        f"\nAn iteration, k = {K}: seconds, and how many times faster than scikit-learn's NMF. Both make the same"
    )
    print(f"updates: after H was updated 3 and 4 times ours is at {last[2]:.6e} and {last[3]:.6e},")
    print(f"theirs at {reached:.6e}")
    print(
        f"{'threads':>8} {'scikit-learn':>13} {'plain':>8} {'faster':>7} {'ahead':>8} {'faster':>7}   target"
    )
    for threads, target in ((1, 9), (2, 15)):
        with pinned(threads):
            times = best_of(
                repeat,
                [
                    lambda: theirs(X, H, V, 1),
                    lambda: theirs(X, H, V, 3),
                    lambda: ours(2, max_beta=0),
                    lambda: ours(12, max_beta=0),
                    lambda: ours(2),
                    lambda: ours(12),
                ],
                threads,
            )
        scikit = (times[1] - times[0]) / 2
        plain, ahead = (times[3] - times[2]) / 10, (times[5] - times[4]) / 10
        print(
            f"{threads:>8} {scikit:>13.3f} {plain:>8.4f} {scikit / plain:>7.1f} {ahead:>8.4f} {scikit / ahead:>7.1f}"
            f"   {target}"
        )


def same_loss(X: Any, n_iter: int) -> None:
    """Time a fit to the loss that scikit-learn reaches in some iterations from its own random factors."""
    model = NMF(
        K, beta_loss="kullback-leibler", solver="mu", init="random", random_state=0, max_iter=n_iter, tol=0
    )
    begun = time.perf_counter()
    model.fit(X)
    spent = time.perf_counter() - begun
    loss = model.reconstruction_err_**2 / 2
    time_to(X[:2000], 0.0, most=2)  # compiles
    ours, steps = time_to(X, loss)
    print(
        f"\nTo the loss of {n_iter} iterations of scikit-learn's NMF, {loss:.6e}, both from nothing, all threads"
    )
    print(
        f"scikit-learn {spent:.1f} s, KLNMF {ours:.2f} s ({steps} iterations): {spent / ours:.1f} times; target 15"
    )


def minibatch(X: Any, n_epochs: int) -> None:
    """Time a fit to the loss that MiniBatchNMF reaches in some epochs."""
    model = MiniBatchNMF(
        K,
        beta_loss="kullback-leibler",
        init="random",
        random_state=0,
        max_iter=n_epochs,
        tol=0,
        max_no_improvement=None,
    )
    begun = time.perf_counter()
    W = model.fit_transform(X)
    spent = time.perf_counter() - begun
    loss = divergence(X, W, model.components_.T)
    time_to(X[:2000], 0.0, most=2)
    ours, steps = time_to(X, loss)
    print(f"\nTo the loss of MiniBatchNMF in {n_epochs} epochs and a transform, {loss:.6e}, all threads")
    print(
        f"MiniBatchNMF {spent:.1f} s, KLNMF {ours:.2f} s ({steps} iterations): {spent / ours:.1f} times faster"
    )


def transform(X: Any, repeat: int) -> None:
    """Time the factors of new rows for a fixed basis, and how far each divergence is from the least."""
    X, new = X[: X.shape[0] * 4 // 5], X[X.shape[0] * 4 // 5 :]
    model = KLNMF(K, max_iter=20, tol=0).fit(X)
    peer = NMF(K, beta_loss="kullback-leibler", solver="mu", init="random", max_iter=1).fit(X[:K])
    peer.components_, peer.n_features_in_ = model.components_.copy(), X.shape[1]
    model.transform(new[:2])  # compiles
    print(f"\nFactors of {new.shape[0]:,} new rows, k = {K}, both with their own tolerances, one thread:")
    print("seconds, and by how much of the rows' sum the divergence lies above ours")
    least = divergence(new, model.transform(new), model.components_.T)
    peers = {"scikit-learn, its tolerance": (200, 1e-4), "scikit-learn, 1,000 iterations": (1000, 0.0)}
    for name, (rounds, tol) in {"KLNMF": (0, 0.0), **peers}.items():
        peer.set_params(max_iter=rounds or 1, tol=tol)
        call = peer.transform if rounds else model.transform
        with pinned(1):
            (seconds,) = best_of(1 if rounds else repeat, [partial(call, new)], 1)
        above = (divergence(new, call(new), model.components_.T) - least) / new.sum()
        print(f"{name:<30} {seconds:>8.2f} {above:>10.1e}")


def acceleration(X: Any, repeat: int, n_iter: int = 200) -> None:
    """Time the plain updates, and the updates with extrapolation until they reach the same loss."""
    rows = as_rows(X)
    start = random_factors(rows, K, margins(rows), np.random.default_rng(0))

    def run(begin: Callable[[Rows], Any], n_iter: int, max_beta: float = 1.0) -> list[float]:
        rows = as_rows(X)
        return divergence_factors(rows, begin(rows), max_iter=n_iter, max_beta=max_beta).objective

    ways = {
        "looking ahead from the same factors": lambda rows: start,
        "a whole fit, tried on some rows first": lambda rows: divergence_start(
            rows, K, "random", margins(rows), 0
        ),
    }
    loss = run(lambda rows: start, n_iter, max_beta=0)[-1]
    steps = {way: int((np.array(run(begin, n_iter)) > loss).sum()) + 1 for way, begin in ways.items()}
    # One more than needed: the final iteration does not extrapolate.
    calls = [partial(run, lambda rows: start, n_iter, max_beta=0)]
    calls += [partial(run, ways[way], steps[way] + 1) for way in ways]
    plain, *times = best_of(repeat, calls, 2)
    print(
        f"\nTo the loss of {n_iter} plain updates, {loss:.6e} in {plain:.1f} s, both cores; target a third of that"
    )
    for way, seconds in zip(ways, times, strict=True):
        print(f"{way}: {seconds:.1f} s ({steps[way]} iterations), {seconds / plain:.2f} of the time")


def memory(quick: bool) -> None:
    """Measure the memory of fits beyond X, each in a separate process."""
    print(
        "\nPeak memory of a fit beyond X (of 5 iterations, random start), MB, and over that of scikit-learn's NMF;"
    )
    print("target: a fifth, which on sparse X is less than the factors themselves")
    for kind in ("sparse float64", "sparse float32", "dense float64"):
        least = None
        for name in ("NMF", "MiniBatchNMF", "KLNMF"):
            command = [sys.executable, __file__, "--measure", name, kind, *(["--quick"] if quick else [])]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            shape, peak, factors = answer.stdout.split()[-3:]
            if least is None:
                least = float(peak)
                print(f"{kind}, {shape}: the factors themselves {float(factors) / 1e6:.0f}")
            print(f"  {name:<13} {float(peak) / 1e6:>6.0f}   {float(peak) / least:.2f}")


def measure(name: str, kind: str, share: float) -> None:
    """Print the shape of X, the peak memory of a fit beyond that before it, and the size of the factors."""
    models = {
        "NMF": NMF(K, beta_loss="kullback-leibler", solver="mu", init="random", max_iter=5, tol=0),
        "MiniBatchNMF": MiniBatchNMF(K, beta_loss="kullback-leibler", init="random", max_iter=5, tol=0),
        "KLNMF": KLNMF(K, max_iter=5, tol=0),
    }
    layout, dtype = kind.split()
    small, _ = counted_documents(700, 1000, 30)
    X = data(share)[0] if layout == "sparse" else counted_documents(int(N * share), 2000, LENGTH)[0]
    small, X = ((A if layout == "sparse" else A.toarray()).astype(dtype) for A in (small, X))
    models[name].fit(small)  # imports and compiles
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _status("VmRSS")
    models[name].fit(X)
    print("x".join(map(str, X.shape)), _status("VmHWM") - before, X.dtype.itemsize * K * sum(X.shape))


def _status(what: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the system does not tell {what}")


def ssnmf_package(X: Any, y: np.ndarray) -> None:
    """Time the package ssnmf, if it is installed, on rows and columns few enough for it."""
    print("\nAgainst the package ssnmf, which wants dense matrices: seconds an iteration, both cores")
    try:
        from ssnmf import SSNMF as Package
    except ImportError as error:
        print(f"skipped: the package ssnmf cannot be imported ({error})")
        return
    most_used = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]))[:2000]
    X = X[:3000][:, most_used]
    labels = y[:3000][X.sum(axis=1).A1 > 0]
    X = sparse.csr_array(X[X.sum(axis=1).A1 > 0])
    dense = X.toarray()
    Y = (labels[:, None] == np.unique(labels)).T.astype(float)

    def package(model: int, n_iter: int) -> None:
        rng = np.random.default_rng(0)
        start = {"A": rng.random((dense.shape[1], 16)), "S": rng.random((16, len(dense)))}
        Package(dense.T, 16, Y=Y, modelNum=model, **start).mult(numiters=n_iter, saveerrs=False)

    def ours(model: type, A: Any, n_iter: int) -> None:
        model(16, max_iter=n_iter, tol=0).fit(A, labels)

    print(f"{dense.shape[0]} x {dense.shape[1]}, 16 components, {len(Y)} classes")
    for number, model, loss in ((3, SSNMF, "squares"), (6, NMFAlpha, "divergences")):
        calls = [partial(package, number, n) for n in (1, 6)]
        calls += [partial(ours, model, A, n) for A in (dense, X) for n in (1, 11)]
        ours(model, dense, 2), ours(model, X, 2)  # compiles
        times = best_of(3, calls, 2)
        theirs = (times[1] - times[0]) / 5
        for layout, i in (("dense", 2), ("sparse", 4)):
            mine = (times[i + 1] - times[i]) / 10
            print(
                f"{loss + ', ' + layout:<20} package {theirs:.4f}, {model.__name__} {mine:.4f}: "
                f"{theirs / mine:.1f} times faster"
            )


def growth(repeat: int) -> None:
    """Time an iteration as one side of the problem grows."""
    print("\nGrowth of an iteration, all threads: exponent p of seconds ~ size^p, by least squares")

    def one(n: int, d: int, length: float, k: int) -> float:
        X, _ = counted_documents(n, d, length)
        rows = as_rows(X)
        start = random_factors(rows, k, margins(rows), np.random.default_rng(0))

        def run(n_iter: int) -> None:
            divergence_factors(rows, start, max_iter=n_iter)

        run(2)
        few, many = best_of(repeat, [lambda: run(2), lambda: run(6)], 2)
        return (many - few) / 4

    base = {"n": 4000, "d": 20_000, "length": 100.0, "k": 32}
    for what, name, factors in (
        ("non-zeros a row", "length", (1, 2, 4, 8)),
        ("rows", "n", (1, 2, 4, 8)),
        ("columns, as many non-zeros", "d", (1, 2, 4, 8)),
        ("components", "k", (0.5, 1, 2, 4)),
    ):
        sizes = [type(base[name])(base[name] * factor) for factor in factors]
        seconds = [one(**{**base, name: size}) for size in sizes]
        listed = ", ".join(f"{size:g}: {1000 * s:.1f} ms" for size, s in zip(sizes, seconds, strict=True))
        print(f"{what:<28} {slope(sizes, seconds):.2f}   ({listed})")


PARTS = ("iteration", "loss", "transform", "acceleration", "minibatch", "memory", "ssnmf", "growth")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    share = 0.1 if arguments.quick else 1.0
    if arguments.measure:
        measure(*arguments.measure, share)
        return
    X, y, source = data(share)
    print(f"{source}: {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} non-zeros; {os.cpu_count()} cores")
    run: dict[str, Callable[[], None]] = {
        "iteration": lambda: iteration(X, arguments.repeat),
        "transform": lambda: transform(X, arguments.repeat),
        "loss": lambda: same_loss(X, 30),
        "acceleration": lambda: acceleration(X, arguments.repeat),
        "minibatch": lambda: minibatch(X, 3),
        "memory": lambda: memory(arguments.quick),
        "ssnmf": lambda: ssnmf_package(X, y),
        "growth": lambda: growth(arguments.repeat),
    }
    for part in arguments.only:
        run[part]()


if __name__ == "__main__":
    main()
