"""KLNMF and NMFAlpha against scikit-learn's NMF with the same loss and the package ssnmf, on news20 or like counts.

    python benchmarks/nmf.py                    all parts, some minutes on two cores
    python benchmarks/nmf.py --only iteration   one part: see --help
    python benchmarks/nmf.py --quick            a tenth of the rows

Every figure is a ratio of two timings in this run. The data is news20_libsvm from the folder LABELFOLD_DATA, or
counts of the same shape from a seeded generator; the first line of the output names it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF

from _common import best_of, cores, options_of, timed
from common import pinned
from data_sets import load
from labelfold import KLNMF, SSNMF, NMFAlpha
from labelfold.base import descend
from labelfold.factorization._divergence import divergence
from labelfold.factorization._klnmf import divergence_start, iterates, margins, random_factors
from labelfold.rows import Rows, as_rows

N, D, LENGTH = 15_935, 62_061, 116
K = 64


def divergence_factors(
    rows: Rows, start: tuple[Any, np.ndarray], *, max_iter: int, max_beta: float = 1.0, **options: Any
) -> Any:
    """Iterate from ``start``; with ``max_beta=0`` without extrapolation."""
    steps = iterates(rows, start, max_iter=max_iter, max_beta=max_beta)
    return descend(steps, max_iter=max_iter, tol=0, **options)


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
    spent, _ = timed(partial(model.fit, X))
    loss = model.reconstruction_err_**2 / 2
    time_to(X[:2000], 0.0, most=2)  # compiles
    ours, steps = time_to(X, loss)
    print(
        f"\nTo the loss of {n_iter} iterations of scikit-learn's NMF, {loss:.6e}, both from nothing, all threads"
    )
    print(
        f"scikit-learn {spent:.1f} s, KLNMF {ours:.2f} s ({steps} iterations): {spent / ours:.1f} times; target 15"
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


PARTS: dict[str, Callable[[Any, np.ndarray, int], None]] = {
    "iteration": lambda X, y, repeat: iteration(X, repeat),
    "loss": lambda X, y, repeat: same_loss(X, 30),
    "transform": lambda X, y, repeat: transform(X, repeat),
    "ssnmf": lambda X, y, repeat: ssnmf_package(X, y),
}


def main() -> None:
    options = options_of(__doc__, only=tuple(PARTS), quick=False, repeat=2)
    warnings.simplefilter("ignore")
    _, X, y, source = load("news20_libsvm", lambda _: counted_documents(N, D, LENGTH))
    kept = np.arange(X.shape[0])[:: 10 if options.quick else 1]
    X, y = sparse.csr_matrix(X[kept]), y[kept]
    cores(f"; {source}: {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} non-zeros")
    for part in options.only:
        PARTS[part](X, y, options.repeat)


if __name__ == "__main__":
    main()
