"""Predictions of one row and of 1,000 rows by loaded models: LabelFold beside an SVC and a random forest.

    python benchmarks/latency.py              all, about a minute
    python benchmarks/latency.py --busy       beside processes that keep every core busy
    python benchmarks/latency.py --only text --repeats 100

Each model is fitted on a few labelled rows; LabelFold is saved by `labelfold.save` and loaded again. The rows are
digits (64 columns), counts of 20,000 words (sparse), and a table of numbers, categories, dates and text as a
DataFrame, which every model reads through a `Recipe`. Models predict one row in turn, so that other programs disturb
all of them alike. Seconds are wall-clock time; the median and the 99th percentile are those of the single rows, 1,000
rows are the least of five.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from _common import cores, few_labels, options_of, timed
from labelfold import LabelFold, Recipe, load, save

MODELS = {"LabelFold": LabelFold, "SVC": SVC, "random forest": RandomForestClassifier}
LABELLED = 120


def digits(rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    return load_digits(return_X_y=True)


def text(rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    n, d = 2000, 20_000
    y = np.arange(n) % 3
    words = (d * rng.random((n, 60)) ** 3).astype(int)
    own = d // 2 + 300 * y[:, None] + rng.integers(0, 300, (n, 15))
    columns = np.hstack([words, own]).astype(np.int32)
    ends = np.arange(0, columns.size + 1, columns.shape[1], dtype=np.int32)
    X = sparse.csr_array((np.ones(columns.size), columns.ravel(), ends), shape=(n, d))
    X.sum_duplicates()
    return X, y


def table(rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    n = 2000
    words = np.array(
        ["late", "again", "box", "open", "the", "and", "was", "it", "not", "blue", "very", "order"]
    )
    X = pd.DataFrame({f"measured {j}": rng.standard_normal(n) for j in range(6)})
    X["age"] = rng.integers(18, 80, n)
    X["plan"] = rng.choice(["free", "pro", "team"], n)
    X["city"] = rng.choice([f"city {i}" for i in range(12)], n)
    X["active"] = rng.choice([True, False], n)
    days = np.datetime64("2015-01-01") + rng.integers(0, 3000, n).astype("timedelta64[D]")
    X["since"], X["seen"] = pd.to_datetime(days), days.astype(str)
    X["comment"] = [" ".join(rng.choice(words, 12)) for _ in range(n)]
    return X, (X["measured 0"] + X["measured 1"] > 0).to_numpy().astype(int)


DATA = {"digits": digits, "text": text, "table": table}


def some(X: Any, start: int, stop: int) -> Any:
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]


def fitted(name: str, X: Any, y: np.ndarray) -> Any:
    """Return a fitted model; LabelFold from a file."""
    model = MODELS[name]()
    model = make_pipeline(Recipe(), model) if hasattr(X, "iloc") else model
    known = few_labels(y, LABELLED)
    index = np.flatnonzero(known >= 0)
    if name != "LabelFold":
        return model.fit(X.iloc[index] if hasattr(X, "iloc") else X[index], y[index])
    with tempfile.TemporaryDirectory() as folder:
        return load(save(model.fit(X, known), Path(folder) / "model.skops"))


@contextmanager
def busy_cores(wanted: bool) -> Iterator[None]:
    """Keep every core busy by a process, if wanted."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range((os.cpu_count() or 1) * wanted)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measure(data: str, repeats: int, busy: bool) -> None:
    X, y = DATA[data](np.random.default_rng(0))
    models = {name: fitted(name, X, y) for name in MODELS}
    for model in models.values():
        model.predict(some(X, 0, 1000))
    single = np.empty((repeats, len(models)))
    with busy_cores(busy):
        for i in range(repeats):
            row = some(X, i % len(y), i % len(y) + 1)
            single[i] = [timed(partial(model.predict, row))[0] for model in models.values()]
        many = [
            min(timed(partial(model.predict, some(X, 0, 1000)))[0] for _ in range(5))
            for model in models.values()
        ]
    for j, name in enumerate(models):
        middle, late = 1e3 * np.quantile(single[:, j], [0.5, 0.99])
        print(f"{data:<8} {name:<14} {middle:>8.2f} {late:>8.2f} {1e3 * many[j]:>10.1f}", flush=True)


def main() -> None:
    options = options_of(__doc__, busy=False, only=tuple(DATA), repeats=300)
    warnings.simplefilter("ignore")
    cores(", and a process for each beside" if options.busy else "")
    print(f"{'data':<8} {'model':<14} {'median':>8} {'99%':>8} {'1,000 rows':>10}  (ms)")
    for data in options.only:
        measure(data, options.repeats, options.busy)


if __name__ == "__main__":
    main()
