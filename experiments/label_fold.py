"""LabelFold beside its peers: the SSL book's seven sets, the open sets, what its parts bring, anchors and new rows.

    python experiments/label_fold.py                          everything, hours on two cores
    python experiments/label_fold.py --quick                  a taste on small pieces
    python experiments/label_fold.py --part book open         some parts: book, open, parts, anchors, new
    python experiments/label_fold.py --methods LabelFold svm  some methods
    python experiments/label_fold.py --report                 only the page, from the rows there are

Real data comes from the folder named by LABELFOLD_DATA (see DATA.md); without it every set is generated in its shape.
Each number is a row of label_fold.csv as soon as it is known, and a re-run makes only the missing ones. The page
label_fold.md is made from the CSV alone.

What was chosen on what: views by Digit1, g241c, Text, waveform, optdigits, ionosphere, wine; half-whitening by BCI;
the weights' constants while looking at the mean of all seven sets of the book; the share of the linear views by pima;
forms, intervals and probabilities by all open sets. satimage, image, sonar, usps and mnist49 decided on forms and
calibration only, but their means were seen. No set here was kept aside.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from common import (
    Results,
    dense_classes,
    dense_labels,
    load,
    result_folder,
    rng_of,
    sparse_text,
    words,
)
from label_fold_report import write_report
from labelfold import LabelFold
from labelfold.app.registry import METHODS

MOST = 3000
BOOK = ("Digit1", "USPS", "COIL", "BCI", "g241c", "g241d", "Text")
NINE = ("g241c", "g241d", "BCI", "USPS", "waveform", "optdigits", "usps", "mnist49", "Text")
OPEN = (*NINE, "wine", "satimage", "ionosphere", "sonar", "pima", "image", "autos", "medicine", "atheism")
SEVERAL = ("scene", "yeast")
# File, rows and columns and classes where it is generated, and the classes that are kept.
SETS: dict[str, tuple[str, int, int, int, tuple[int, ...] | None]] = {
    **{name: (f"ssl_{name}", 1500, 241, 2, None) for name in ("Digit1", "USPS", "g241c", "g241d")},
    "COIL": ("ssl_COIL", 1500, 241, 6, None),
    "BCI": ("ssl_BCI", 400, 117, 2, None),
    "Text": ("ssl_Text", 1500, 11_960, 2, None),
    "waveform": ("ida_waveform", 3000, 21, 2, None),
    "optdigits": ("optdigits", 3000, 64, 10, None),
    "usps": ("usps", 3000, 256, 10, None),
    "mnist49": ("mnist", 3000, 784, 2, (4, 9)),
    "wine": ("wine", 178, 13, 3, None),
    "satimage": ("satimage", 3000, 36, 6, None),
    "ionosphere": ("ionosphere", 351, 34, 2, None),
    "sonar": ("sonar", 208, 60, 2, None),
    "pima": ("pima", 768, 8, 2, None),
    "image": ("ida_image", 2310, 18, 2, None),
    "autos": ("news20_bydate_counts", 1986, 20_000, 2, (7, 8)),
    "medicine": ("news20_bydate_counts", 1977, 20_000, 2, (13, 14)),
    "atheism": ("news20_bydate_counts", 1796, 20_000, 2, (0, 15)),
    "scene": ("scene", 2407, 294, 6, None),
    "yeast": ("yeast", 2417, 103, 14, None),
}
COUNTS = ("autos", "medicine", "atheism")
PEERS = (
    "1-NN",
    "svm",
    "rbf-svm",
    "tsvm",
    "kernel-laprls",
    "label-spreading",
    "umap",
    "pcals",
    "extra-trees",
    "logistic",
    "sklearn-lda",
    "naive-bayes",
    "tf-idf + logistic",
)
ONLY_OPEN = ("extra-trees", "logistic", "sklearn-lda", "naive-bayes", "tf-idf + logistic")
ONLY_COUNTS = ("naive-bayes", "tf-idf + logistic")
ONLY_DENSE = ("sklearn-lda",)
FAMILIES = ("linear", "principal", "rbf", "laplace", "graph")
FORMS = ("as they are", "unit variance", "ranks")


class Set:
    """A data set of at most 3,000 rows, with the book's splits where it has some."""

    def __init__(self, name: str, quick: bool) -> None:
        file, n, d, c, kept = SETS[name]
        self.name = name
        data = load(file, partial(_generate, name, n, d, c))
        X, y, self.source = data.X, data.y, data.source
        if kept is not None and self.source == "real":
            X, y = X[np.isin(y, kept)], y[np.isin(y, kept)]
        if name in COUNTS and self.source == "real":
            X = X[:, np.asarray((X > 0).sum(axis=0)).ravel() >= 2]
        most = 200 if quick else MOST
        self.splits = _splits(file) if X.shape[0] <= most else {}
        if X.shape[0] > most:
            drawn = rng_of(name, "rows").permutation(X.shape[0])[:most]
            X, y = X[drawn], y[drawn]
        self.X, self.y = X, y if y.ndim == 2 else np.unique(y, return_inverse=True)[1]

    def draw(self, n_labelled: int, seed: int) -> np.ndarray:
        """Return which rows are labelled: the book's split where there is one, else one of each class and others."""
        if n_labelled in self.splits:
            return self.splits[n_labelled][seed]
        rng = rng_of(self.name, n_labelled, seed)
        order = rng.permutation(len(self.y))
        if self.y.ndim == 2:
            return order[:n_labelled]
        first = np.unique(self.y[order], return_index=True)[1]
        rest = np.setdiff1d(np.arange(len(order)), first)
        return order[np.concatenate([first, rest])[:n_labelled]]


def _splits(file: str) -> dict[int, np.ndarray]:
    """Return the book's labelled rows, a row for each split, by their number."""
    path = Path(os.environ.get("LABELFOLD_DATA", "")) / f"{file}.npz"
    if not file.startswith("ssl_") or not path.is_file():
        return {}
    with np.load(path) as data:
        return {size: np.asarray(data[f"idxLabs_{size}"], dtype=int) for size in (10, 100)}


def _generate(
    name: str, n: int, d: int, c: int, rng: np.random.Generator
) -> tuple[np.ndarray | sparse.csr_array, np.ndarray]:
    if name in SEVERAL:
        return dense_labels(rng, n, d, c)
    return sparse_text(rng, n, d, c, 60) if d > 2000 else dense_classes(rng, n, d, c)


@lru_cache(maxsize=1)
def the_set(name: str, quick: bool) -> Set:
    """Return a data set; the last one is kept."""
    return Set(name, quick)


def masked(y: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """Return y with -1, or rows of NaN, where it is not labelled."""
    known = np.full(len(y), -1) if y.ndim == 1 else np.full(y.shape, np.nan)
    known[labelled] = y[labelled]
    return known


class Fold:
    """LabelFold on one set: its views are made once, and the labels of every draw are used in turn."""

    def __init__(self, data: Set, **parameters: Any) -> None:
        self.data, self.parameters, self.model = data, parameters, None

    def __call__(self, labelled: np.ndarray) -> np.ndarray:
        """Return the predictions for all rows."""
        known = masked(self.data.y, labelled)
        if self.model is None:
            self.model = LabelFold(**self.parameters).fit(self.data.X, known)
        else:
            self.model.refit(known, full=True)
        return self.model.transduction_


def peer(name: str, data: Set, scale: str) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function of the labelled rows that predicts all rows, or None where the method is not there."""
    X = data.X

    def classifier(model: Any) -> Callable[[np.ndarray], np.ndarray]:
        return lambda labelled: model.fit(X[labelled], data.y[labelled]).predict(X)

    if name == "1-NN":
        return classifier(KNeighborsClassifier(1))
    if name == "tf-idf + logistic":
        return classifier(
            make_pipeline(TfidfTransformer(sublinear_tf=True), LogisticRegression(max_iter=1000))
        )
    method = METHODS[name]
    if not method.available or (name in ONLY_DENSE and sparse.issparse(X)):
        return None

    def run(labelled: np.ndarray) -> np.ndarray:
        return method.make(X=X, scale=scale).fit(X, masked(data.y, labelled)).predict(X)

    return run


def right(y: np.ndarray, guess: np.ndarray, labelled: np.ndarray) -> float:
    """Return the accuracy (micro F1 for several labels a row) on the rows without a label, in per cent."""
    rest = np.setdiff1d(np.arange(len(y)), labelled)
    if y.ndim == 2:
        return 100 * f1_score(y[rest], guess[rest], average="micro", zero_division=1.0)
    return 100 * float(np.mean(guess[rest] == y[rest]))


def record(
    results: Results, part: str, data: Set, method: str, run: Callable, budgets: Iterator | list, **more: Any
) -> None:
    """Write the rows of one method that are missing."""
    for n_labelled, seed in budgets:
        key = {
            "part": part,
            "dataset": data.name,
            "source": data.source,
            "method": method,
            "parameters": words(labels=n_labelled, **more),
            "seed": seed,
        }
        if results.has(**key):
            continue
        labelled = data.draw(n_labelled, seed)
        start = time.process_time()
        guess = run(labelled)
        spent = time.process_time() - start
        accuracy = right(data.y, guess, labelled)
        results.add(**key, ours=accuracy, seconds=spent)
        if isinstance(run, Fold) and method == "LabelFold" and part != "parts":
            low, high = run.model.loo_interval_
            within = float(low <= accuracy / 100 <= high) if data.y.ndim == 1 else np.nan
            results.add(**key | {"method": "leave-one-out"}, ours=100 * run.model.loo_score_, relative=within)


def book(results: Results, methods: list[str], quick: bool) -> None:
    """Part (a): the book's sets and splits, columns as they are."""
    for name in BOOK:
        data = the_set(name, quick)
        budgets = [(size, seed) for size in (100, 10) for seed in range(2 if quick else 12)]
        if "LabelFold" in methods:
            record(results, "book", data, "LabelFold", Fold(data), budgets)
            if name != "Text":
                record(
                    results,
                    "book",
                    data,
                    "LabelFold, as they are",
                    Fold(data, forms=["as they are"]),
                    budgets,
                )
        for method in methods:
            if method in PEERS and method not in ONLY_OPEN:
                run = peer(method, data, "as they are")
                if run is not None:
                    record(results, "book", data, method, run, budgets)


def open_sets(results: Results, methods: list[str], quick: bool) -> None:
    """Part (b): the open sets; columns of unit variance for the peers, where X is dense."""
    for name in (*OPEN, *SEVERAL):
        data = the_set(name, quick)
        sizes = [20, 50] if quick else [50, 20, 100, 200]
        most = len(data.y) // 2
        draws = 2 if quick else 10
        budgets = [(size, seed) for size in sizes if size <= most for seed in range(draws)]
        if "LabelFold" in methods:
            record(results, "open", data, "LabelFold", Fold(data), budgets)
            record(results, "open", data, "linear view", Fold(data, views=["linear"]), budgets)
        for method in methods:
            if method not in PEERS or (method in ONLY_COUNTS and name not in COUNTS) or name in SEVERAL:
                continue
            scale = "as they are" if sparse.issparse(data.X) else "unit variance"
            run = peer(method, data, scale)
            if run is not None:
                chosen = [budget for budget in budgets if method != "umap" or budget[0] == 50]
                record(results, "open", data, method, run, chosen)


def parts(results: Results, methods: list[str], quick: bool) -> None:
    """Part (c): LabelFold without a family, with one family or one form, at 20 and 50 labels."""
    for name in OPEN:
        data = the_set(name, quick)
        budgets = [(size, seed) for size in (20, 50) for seed in range(2 if quick else 10)]
        dense = not sparse.issparse(data.X)
        variants: dict[str, dict[str, Any]] = {"LabelFold": {}}
        variants |= {f"without {one}": {"views": [f for f in FAMILIES if f != one]} for one in FAMILIES}
        variants |= {f"only {one}": {"views": [one]} for one in FAMILIES}
        forms = FORMS if dense else ("unit rows", "tf-idf", "root counts") if name in COUNTS else ()
        variants |= {form: {"forms": [form]} for form in forms}
        for variant, parameters in variants.items():
            record(results, "parts", data, variant, Fold(data, **parameters), budgets)


def anchors(results: Results, methods: list[str], quick: bool) -> None:
    """Part (d): graphs of few anchors, of 1,000, and of all rows as anchors."""
    for name in ("waveform", "optdigits", "usps", "mnist49", "satimage", "image"):
        data = the_set(name, quick)
        budgets = [(50, seed) for seed in range(2 if quick else 10)]
        for m in (300, 1000, len(data.y)):
            variant = "all rows" if m == len(data.y) else f"{m} anchors"
            record(results, "anchors", data, variant, Fold(data, views=["graph"], n_anchors=m), budgets)


def new_rows(results: Results, methods: list[str], quick: bool) -> None:
    """Part (e): a fifth of the rows are new. They are predicted with and without them in training, same labels."""
    for name in OPEN:
        data = the_set(name, quick)
        for seed in range(2 if quick else 10):
            order = rng_of(name, "fifths", seed).permutation(len(data.y))
            other, old = np.sort(order[::5]), np.setdiff1d(order, order[::5])
            classes = np.unique(data.y)
            drawn = rng_of(name, "new", seed).permutation(old)
            first = np.array([drawn[data.y[drawn] == one][0] for one in classes])
            labelled = np.concatenate([first, drawn[~np.isin(drawn, first)]])[:50]
            key = {"part": "new", "dataset": data.name, "source": data.source, "seed": seed}
            key["parameters"] = words(labels=len(labelled), new="fifth")
            if results.has(**key, method="new rows"):
                continue
            known = masked(data.y, labelled)
            seen = LabelFold().fit(data.X, known).transduction_[other]
            new = LabelFold().fit(data.X[old], known[old]).predict(data.X[other])
            truth = data.y[other]
            results.add(**key, method="seen in training", ours=100 * float(np.mean(seen == truth)))
            results.add(**key, method="new rows", ours=100 * float(np.mean(new == truth)))


PARTS = {"book": book, "open": open_sets, "parts": parts, "anchors": anchors, "new": new_rows}


def main(arguments: list[str] | None = None) -> Path:
    """Run the parts asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--methods", nargs="+", default=["LabelFold", *PEERS])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--output")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    folder = result_folder(options.quick, options.output)
    results = Results(folder / "label_fold.csv")
    if not options.report:
        for part in options.part:
            PARTS[part](results, options.methods, options.quick)
    write_report(results, folder / "label_fold.md")
    return folder / "label_fold.md"


if __name__ == "__main__":
    print(main())
