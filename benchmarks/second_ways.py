"""Second ways of computing the same thing that are kept: seconds with each, and without it.

    python benchmarks/second_ways.py
    python benchmarks/second_ways.py --only path texts

A second way stays if a workload takes at least twice as long without it. Seconds are processor seconds of one
process, the least of several runs in which both take turns. `OMP_NUM_THREADS=1` sets one thread.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from sklearn.feature_extraction.text import HashingVectorizer

from _common import best_of, options_of
from drsvm import text_like
from labelfold import DRSVM, LDA, Recipe
from labelfold.app.compare import read_data
from labelfold.app.io import _json_lines, read_table
from labelfold.app.registry import METHODS, _adapters
from labelfold.labels import _labels
from labelfold.rows import _vectors
from labelfold.tables import _steps

ROUNDS = 3
Case = tuple[Callable[[], Any], Any]


def texts_as_labels() -> Case:
    """Time LDA of 1,000,000 x 20 with labels that are Python strings; without: NumPy sorts them."""
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(1_000_000, 20)), np.array([f"class {i}" for i in range(10)], dtype=object)
    y = names[rng.integers(0, 10, len(X))]
    other = patch.object(_labels, "encode", lambda values, as_text: np.unique(values, return_inverse=True))
    return lambda: LDA(ridge=1.0).fit(X, y), other


def path() -> Case:
    """Time LDA with a tuned ridge on 200 x 8,000; without: a fit for each ridge."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 200)
    X = rng.normal(size=(200, 8000)) + np.pad(rng.normal(size=(4, 50)), ((0, 0), (0, 7950)))[y]
    model = METHODS["lda"].make(X=X)

    def each(self: LDA, X: Any, y: Any, ridges: Any) -> list[LDA]:
        return [LDA(self.n_components, ridge=ridge).fit(X, y) for ridge in ridges]

    return lambda: model.fit(X, y), patch.object(LDA, "path", each)


def nested() -> Case:
    """Time PCA + SVM on 50,000 x 784 with 100 labels; without: a fit of PCA for each number of components."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 40)) @ rng.normal(size=(40, 784)) + rng.normal(size=(50_000, 784))
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0)
    y[100:] = -1
    make = _adapters.ReduceThenClassify._fit_reducer

    def apart(self: Any, *args: Any) -> None:
        self.nested = False
        make(self, *args)

    other = patch.object(_adapters.ReduceThenClassify, "_fit_reducer", apart)
    return lambda: METHODS["pca-svm"].make(X=X).fit(X, y), other


def texts() -> Case:
    """Time a recipe of 130,000 texts of 30 words; without: scikit-learn's HashingVectorizer."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i:05d}" for i in range(20_000)], dtype=object)
    drawn = np.minimum(5 * rng.pareto(0.8, (130_000, 30)), len(words) - 1).astype(int)
    table = pa.table({"text": [" ".join(row) for row in words[drawn]]})

    def hashed(self: Any, X: Any) -> Any:
        vectors = HashingVectorizer(
            n_features=self.n_features, alternate_sign=False, norm=None, strip_accents="unicode",
            token_pattern=r"(?u)\b\w+\b", dtype=np.float32,
        )  # fmt: skip
        return vectors.transform(_steps._counted_text(X).fill_null("").to_pylist())

    return lambda: Recipe().fit_transform(table), patch.object(_steps.HashedWords, "transform", hashed)


def json_lines() -> Case:
    """Time a matrix of 100,000 JSON lines of numbers, a category and a date; without pyarrow's parser."""
    rng, file = np.random.default_rng(0), tempfile.NamedTemporaryFile("w", suffix=".jsonl")  # noqa: SIM115
    for i, row in enumerate(rng.normal(size=(100_000, 4)).round(4).tolist()):
        told = {f"measured_{j}": value for j, value in enumerate(row)}
        told |= {"plan": "abc"[i % 3], "since": f"20{10 + i % 10}-0{1 + i % 9}-1{i % 10}"}
        file.write(json.dumps(told | {"label": "yn"[i % 2] if i % 500 < 2 else None}) + "\n")
    file.flush()

    def read() -> Any:
        table = read_table(Path(file.name), target="label")
        return read_data(table.to_learn(), table.y)

    return read, patch.object(_json_lines, "_parsed", lambda chunk, as_text: None)


def vectors() -> Case:
    """Time DRSVM(10) of 50,000 x 47,236 with 75 entries a row; without loops in vector instructions."""
    X = text_like(50_000, 47_236, 75)
    y = np.where(np.arange(len(X.indptr) - 1) < 500, np.arange(len(X.indptr) - 1) % 2, -1)
    model = DRSVM(10, max_iter=20, tol=0)
    return lambda: model.fit(X, y), patch.object(_vectors, "_usable", False)


CASES = {case.__name__: case for case in (texts_as_labels, path, nested, texts, json_lines, vectors)}


def main() -> None:
    options = options_of(__doc__, only=tuple(CASES))
    warnings.simplefilter("ignore")
    print(f"{'':<16} {'with':>7} {'without':>8}  ratio")
    for name in options.only:
        run, other = CASES[name]()

        def without(run: Callable[[], Any] = run, other: Any = other) -> None:
            with other:
                run()

        own, others = best_of(ROUNDS, [run, without], 1)
        what = str(CASES[name].__doc__).removeprefix("Time ")
        print(f"{name:<16} {own:7.2f} {others:8.2f} {others / own:6.1f}  {what}", flush=True)


if __name__ == "__main__":
    main()
