"""LabelFold beside its usual alternatives, its growth with the rows, refits, and layouts.

    python benchmarks/label_fold.py                 all, about ten minutes on two cores
    python benchmarks/label_fold.py --quick         smaller data
    python benchmarks/label_fold.py --only growth   one table only

Images are mnist.npz of the folder LABELFOLD_DATA, or generated with the same shape. Seconds are wall-clock time with
two threads; peak memory is measured in a separate process (Linux only). umap-learn and openTSNE are left out if they
are not installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from _common import peak_beyond, pinned, slope
from labelfold import LabelFold
from labelfold.semi_supervised._views import FILTERS, View, views_of

THREADS = 2
LABELLED = 50


def images(n: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return n rows of 784 columns and ten classes, and their source; rows repeat if n exceeds the data."""
    rng = np.random.default_rng(0)
    folder = os.environ.get("LABELFOLD_DATA")
    if folder is not None:
        with np.load(Path(folder) / "mnist.npz") as file:
            chosen = rng.permutation(70_000)[:n] if n <= 70_000 else rng.integers(0, 70_000, n)
            return file["X"][chosen].astype(np.float64), file["y"][chosen], "mnist"
    y = np.arange(n) % 10
    sheets = rng.standard_normal((10, 4, 784))
    places = rng.standard_normal((n, 4))
    X = np.einsum("nk,nkd->nd", np.tanh(places), sheets[y]) + 0.5 * rng.standard_normal((n, 784))
    return X, y, "generated"


def some_labels(y: np.ndarray, n_labelled: int, seed: int = 0) -> np.ndarray:
    """Return y with ``n_labelled`` labels, and -1 for the other rows."""
    known = np.full(len(y), -1)
    chosen = np.random.default_rng(seed).permutation(len(y))[:n_labelled]
    known[chosen] = y[chosen]
    return known


def peers(y: np.ndarray) -> dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """Return the usual alternatives: functions of X and known labels that return predictions of all rows."""

    def spreading(X: np.ndarray, known: np.ndarray) -> np.ndarray:
        model = make_pipeline(StandardScaler(), LabelSpreading(kernel="knn", n_neighbors=10))
        return model.fit(X, known)[-1].transduction_

    def searched(X: np.ndarray, known: np.ndarray) -> np.ndarray:
        grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": [1e-4, 1e-3, 1e-2, "scale"]}
        labelled = known >= 0
        model = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3, n_jobs=THREADS)
        return model.fit(X[labelled], known[labelled]).predict(X)

    def umap(X: np.ndarray, known: np.ndarray) -> np.ndarray:
        from umap import UMAP

        Z = UMAP(n_components=10, random_state=0).fit_transform(X, known)
        labelled = known >= 0
        return KNeighborsClassifier(3).fit(Z[labelled], known[labelled]).predict(Z)

    found = {"LabelSpreading": spreading, "GridSearchCV of SVC": searched}
    try:
        import umap as _  # noqa: F401
    except ImportError:
        print("(umap-learn is not installed: left out)")
    else:
        found["umap-learn + kNN"] = umap
    return found


def every_view(form: str) -> list[View]:
    """Return far more views than LabelFold uses: every size, space and filter."""
    principal = [
        View(form, "principal", q, a)
        for q, a in product((2, 3, 5, 10, 20, 50, 100, 200), (0.0, 0.5, 1.0))
        if q > 3 or not a
    ]
    rbf = [View(form, "rbf", q, g) for q, g in product((0, 20), (0.5, 2.0, 8.0))]
    graph = [View(form, "graph", q, s, w) for q, s, w in product((0, 20, 50), (6, 11, 21), FILTERS)]
    return list({*views_of(form), *principal, *rbf, *graph})


def beside_peers(n: int, draws: int) -> None:
    X, y, source = images(n)
    print(f"{n:,} x {X.shape[1]} ({source}), {LABELLED} labels, mean of {draws} draws, {THREADS} threads")
    LabelFold().fit(X[:300], some_labels(y[:300], LABELLED))  # imports
    every = [view for form in ("as they are", "ranks") for view in every_view(form)]
    runs: dict[str, Callable] = {
        "LabelFold": lambda X, known: LabelFold().fit(X, known).transduction_,
        f"LabelFold, {len(every)} views": lambda X, known: (
            LabelFold(views=every, forms=[]).fit(X, known).transduction_
        ),
        **peers(y),
    }
    print(f"{'':28} {'seconds':>8} {'accuracy':>9}")
    for name, run in runs.items():
        seconds, right = [], []
        for seed in range(draws):
            known = some_labels(y, LABELLED, seed)
            with pinned(THREADS):
                start = time.perf_counter()
                guess = run(X, known)
                seconds.append(time.perf_counter() - start)
            right.append(np.mean(guess[known < 0] == y[known < 0]))
        print(f"{name:28} {min(seconds):>8.2f} {100 * np.mean(right):>9.1f}", flush=True)


def growth(sizes: list[int]) -> None:
    print(f"\nFit and refit as the rows grow ({LABELLED} labels; refits with 200), 784 columns")
    print(f"{'rows':>10} {'fit, s':>8} {'refit, s':>9} {'new rows, s per 1,000':>22}")
    seconds = []
    for n in sizes:
        X, y, _ = images(n)
        with pinned(THREADS):
            fit, model = timed(partial(LabelFold().fit, X, some_labels(y, LABELLED)))
            known = some_labels(y, 200)
            model.refit(known)
            refit, _ = timed(partial(model.refit, known))
            new, _ = timed(partial(model.predict, X[:5000]))
        seconds.append(fit)
        print(f"{n:>10,} {fit:>8.2f} {refit:>9.3f} {new / min(5, n / 1000):>22.3f}", flush=True)
    print(f"seconds ~ rows^{slope(sizes, seconds):.2f}")


def from_file(n: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, 100))
        rng = np.random.default_rng(0)
        means = rng.standard_normal((5, 100)) / 2
        for start in range(0, n, 50_000):
            stop = min(n, start + 50_000)
            X[start:stop] = means[np.arange(start, stop) % 5] + rng.standard_normal((stop - start, 100))
        X.flush()
        del X
        command = [sys.executable, __file__, "--file", str(path), str(n)]
        seconds, extra = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    print(
        f"\n{n:,} x 100 from a file: {float(seconds):.0f} s, at most {float(extra) / 1e9:.2f} GB beyond the start"
    )


def measure_file(path: str, n: int) -> None:
    y = np.arange(n) % 5
    LabelFold().fit(np.random.default_rng(0).standard_normal((200, 100)), some_labels(y[:200], 20))
    with pinned(THREADS):
        start = time.perf_counter()
        extra = peak_beyond(lambda: LabelFold().fit(path, some_labels(y, LABELLED)))
        print(time.perf_counter() - start, extra)


def layouts(sizes: list[int]) -> None:
    try:
        import openTSNE as _
    except ImportError:
        print("\n(openTSNE is not installed: no layouts)")
        return
    from labelfold import layout

    print("\nLayouts of nine components, and one more from the last")
    for n in sizes:
        rng = np.random.default_rng(0)
        Z = 2 * rng.standard_normal((10, 9))[np.arange(n) % 10] + rng.standard_normal((n, 9))
        with pinned(THREADS):
            first, laid_out = timed(partial(layout, Z))
            again, _ = timed(partial(layout, Z + 0.1, previous=laid_out))
        print(f"{n:>10,} rows {first:>6.1f} s {again:>6.1f} s", flush=True)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds and the result of a run."""
    start = time.perf_counter()
    value = run()
    return time.perf_counter() - start, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["peers", "growth", "file", "layouts"], help="one table alone")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--file", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.file:
        measure_file(options.file[0], int(options.file[1]))
        return
    part = 10 if options.quick else 1
    if options.only in (None, "peers"):
        beside_peers(3000 // min(part, 3), options.draws if not options.quick else 2)
    if options.only in (None, "growth"):
        growth([n // part for n in (12_500, 25_000, 50_000, 100_000)])
    if options.only in (None, "file"):
        from_file(1_000_000 // part)
    if options.only in (None, "layouts"):
        layouts([5000 // part, 100_000 // part])


if __name__ == "__main__":
    main()
