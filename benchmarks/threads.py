"""Every method with one thread and with two: seconds, and how many times as fast two are.

    python benchmarks/threads.py                  everything, about five minutes on two free cores
    python benchmarks/threads.py --only LDA       only methods whose name contains this
    python benchmarks/threads.py --quick          a tenth of the rows, to try the script

Both run in this process in turn, several times, and the least wall-clock time of each counts; compilation is done
before. BLAS has the same number of threads. Data are generated: Gaussian classes, non-negative parts, and documents
with the shape of rcv1v2. The machine must have two free cores: "machine" is what two independent products of matrices
gain from a second thread, the most that can be expected.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from _common import best_of, cores, documents, few_labels as few, options_of
from common import pinned
from labelfold import (
    CCA,
    CNMF,
    DRSVM,
    HSL,
    KLNMF,
    LDA,
    LSDR,
    NSDR,
    OPLS,
    PCALS,
    SSDR,
    SSNMF,
    TSVM,
    KernelPCALS,
    LabelFold,
    LapRLS,
    NMFAlpha,
)


class Case(NamedTuple):
    """A run, and its name."""

    name: str
    run: Callable[[], object]


def dense(n: int, d: int, c: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian classes of full rank."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    return rng.standard_normal((c, d))[y] + rng.standard_normal((n, d)), y


def parts(n: int, d: int, k: int = 16, seed: int = 0) -> np.ndarray:
    """Return non-negative rows of k parts with noise."""
    rng = np.random.default_rng(seed)
    return rng.random((n, k)) @ rng.random((k, d)) + 0.1 * rng.random((n, d))


def cases(scale: int) -> Iterator[Case]:
    """Yield every run; the rows are divided by ``scale``."""
    X, y = dense(100_000 // scale, 200)
    some = few(y, 1000)

    def fit(name: str, model: Any, X: Any, y: Any = None) -> Case:
        return Case(name, lambda: model.fit(X, y))

    yield fit("LDA, Gram matrix", LDA(), X, y)
    yield fit("LDA, iterations", LDA(max_gram_bytes=0), X, y)
    model = LDA().fit(X, y)
    yield Case("LDA.transform", lambda: model.transform(X))
    yield fit("PCALS(8)", PCALS(8), X, some)
    yield fit("DRSVM(10), 20 iterations", DRSVM(10, max_iter=20, tol=0.0), X, some)
    yield fit("SSDR(5)", SSDR(5), X, few(y, 200))
    yield fit("LSDR(10), 20 iterations", LSDR(10, max_iter=20, tol=0.0), X, some)
    yield fit("NSDR(10), 20 iterations", NSDR(10, max_iter=20, tol=0.0), X, few(y, 200))
    yield fit("TSVM", TSVM(), X[: 10_000 // scale], few(y[: 10_000 // scale], 200))
    small, labels = X[: 4000 // scale], few(y[: 4000 // scale], 200)
    yield fit("KernelPCALS(8), exact", KernelPCALS(8), small, labels)
    large, more = X[: 20_000 // scale], few(y[: 20_000 // scale], 1000)
    yield fit("KernelPCALS(8), landmarks", KernelPCALS(8, n_landmarks=500), large, more)
    yield fit("LapRLS", LapRLS(), small, labels)
    yield fit("LabelFold", LabelFold(), small, labels)

    P = parts(50_000 // scale, 200)
    z = few(np.arange(len(P)) % 5, 500)
    yield fit("KLNMF(16), 20 iterations", KLNMF(16, max_iter=20, tol=0.0), P)
    yield fit("SSNMF(16), 20 iterations", SSNMF(16, max_iter=20, tol=0.0), P, z)
    yield fit("CNMF(16), 20 iterations", CNMF(16, max_iter=20, tol=0.0), P, z)
    yield fit("NMFAlpha(16), 20 iterations", NMFAlpha(16, max_iter=20, tol=0.0), P, z)

    D, Y = documents(20_000 // scale, 20_000, 50)
    topic = few(Y.argmax(axis=1), 500)
    for method in (CCA, OPLS, HSL):
        yield fit(f"{method.__name__}, sparse", method(ridge=1.0), D, Y)
    yield fit("DRSVM(10), sparse, 20 iterations", DRSVM(10, max_iter=20, tol=0.0), D, topic)
    yield fit("PCALS(4), sparse", PCALS(4, tol=1e-5), D, topic)
    yield fit("KLNMF(64), sparse, 20 iterations", KLNMF(64, max_iter=20, tol=0.0), D)
    yield fit("SSNMF(64), sparse, 20 iterations", SSNMF(64, max_iter=20, tol=0.0), D, topic)
    factors = KLNMF(64, max_iter=20, tol=0.0).fit(D)
    yield Case("KLNMF.transform, sparse", lambda: factors.transform(D))


def machine() -> float:
    """Return how many times as fast two independent products of matrices are in two threads."""
    A = np.random.default_rng(0).standard_normal((1200, 1200))
    with pinned(1), ThreadPoolExecutor(2) as pool:
        runs = [lambda: [A @ A for _ in range(4)], lambda: list(pool.map(lambda _: A @ A, range(4)))]
        one, two = best_of(5, runs, 2)
    return one / two


def both(case: Case, repeat: int) -> tuple[float, float]:
    """Return the seconds with one thread and with two."""

    def with_threads(threads: int) -> Callable[[], None]:
        def run() -> None:
            with pinned(threads):
                case.run()

        return run

    with_threads(2)()  # compiles
    one, two = best_of(repeat, [with_threads(1), with_threads(2)], 2)
    return one, two


def main() -> None:
    """Print the table."""
    options = options_of(__doc__, quick=False, only="", repeats=3)
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    cores(f"; machine {machine():.2f}")
    print(f"{'':36}{'one, s':>9}{'two, s':>9}{'ratio':>8}")
    for case in cases(10 if options.quick else 1):
        if options.only.lower() in case.name.lower():
            one, two = both(case, options.repeats)
            print(f"{case.name:36}{one:9.3f}{two:9.3f}{one / two:8.2f}", flush=True)


if __name__ == "__main__":
    main()
