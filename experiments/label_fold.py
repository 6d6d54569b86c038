"""LabelFold beside other methods: the seven sets of the SSL book, open sets, its parts, anchors and new rows.

    python experiments/label_fold.py                          everything, hours on two cores
    python experiments/label_fold.py --quick                  a small test
    python experiments/label_fold.py --part book open         some parts: book, open, parts, anchors, new, aside
    python experiments/label_fold.py --methods LabelFold svm  some methods
    python experiments/label_fold.py --sets wine usps         some sets
    python experiments/label_fold.py --report                 only the page, from existing rows

Real data comes from the folder LABELFOLD_DATA (see DATA.md); otherwise every set is generated with its shape. Each
number is written to label_fold.csv as soon as it is known, and a re-run computes only missing ones. The page
label_fold.md is written from the CSV file.

The sets on which decisions were made: views: Digit1, g241c, Text, waveform, optdigits, ionosphere, wine;
half-whitening:
BCI; the constants of the weights: the mean of all seven sets of the book; the share of the linear views: pima; forms,
intervals and probabilities: all open sets; Laplace views and their share: wine, ionosphere, sonar, pima, image,
satimage, waveform and optdigits; trees and their share: 21 other tables and the sets of the part "aside"; the
exponent of that share: these, and wine, ionosphere, sonar, pima, image, satimage and optdigits. usps and mnist49 were
used for forms and calibration only, but their means were seen. The sets of the part "aside" were used for nothing
else.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from common import Results, result_folder, rng_of, words
from label_fold_report import write_report
from label_fold_sets import ASIDE, BOOK, COUNTS, OPEN, SETS, SEVERAL, Set, masked, the_set
from labelfold import PCALS, LabelFold
from labelfold.app.registry import METHODS
from labelfold.semi_supervised import _weights

Chosen = Callable[[Sequence[str]], list[str]]

PEERS = (
    "1-NN",
    "svm",
    "rbf-svm",
    "tsvm",
    "kernel-laprls",
    "label-spreading",
    "UMAP + kNN",
    "PCA-LS",
    "extra-trees",
    "logistic",
    "sklearn-lda",
    "naive-bayes",
    "tf-idf + logistic",
)
ONLY_OPEN = ("extra-trees", "logistic", "sklearn-lda", "naive-bayes", "tf-idf + logistic")
ONLY_COUNTS = ("naive-bayes", "tf-idf + logistic")
ONLY_DENSE = ("sklearn-lda",)
# Slow methods: number of draws with 50 labels, with other numbers of labels, and number of the book's twelve splits.
SLOW = {"UMAP + kNN": (10, 0, 2), "PCA-LS": (10, 1, 2), "kernel-laprls": (3, 1, 2)}
FAMILIES = ("linear", "principal", "rbf", "laplace", "graph", "trees")
# Constants of the weights: equal weights except for the prior; all weight for the best view; no use of unlabelled
# rows; no reserved share for linear and Laplace views.
WEIGHTS: dict[str, dict[str, Any]] = {
    "equal weights": {"_ROWS_A_POWER": 1e9, "RESERVED": {}},
    "best view alone": {"_ROWS_A_POWER": 0.01, "RESERVED": {}},
    "leave-one-out alone": {"_MORE_ROWS": 0},
    "nothing reserved": {"RESERVED": {}},
}
FORMS = ("as they are", "unit variance", "ranks")


class Fold:
    """LabelFold on one set: views are computed once, and used with the labels of every draw."""

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
    """Return a function of the labelled rows that predicts all rows, or None if the method is not installed."""
    X = data.X

    def classifier(model: Any) -> Callable[[np.ndarray], np.ndarray]:
        return lambda labelled: model.fit(X[labelled], data.y[labelled]).predict(X)

    def scaled(model: Any) -> Any:
        return make_pipeline(StandardScaler(), model) if scale == "unit variance" else model

    if name == "1-NN":
        return classifier(KNeighborsClassifier(1))
    if name == "PCA-LS":
        return lambda labelled: scaled(PCALS("cv")).fit(X, masked(data.y, labelled)).predict(X)
    if name == "UMAP + kNN":
        return _umap(data, scale) if find_spec("umap") else None
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


def _umap(data: Set, scale: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return supervised UMAP of all rows in ten dimensions, and the class of the nearest labelled row in it."""
    from umap import UMAP

    X = StandardScaler().fit_transform(data.X) if scale == "unit variance" else data.X
    X = sparse.csr_matrix(X) if sparse.issparse(X) else X

    def run(labelled: np.ndarray) -> np.ndarray:
        layout = UMAP(n_components=10, metric="cosine" if sparse.issparse(X) else "euclidean", random_state=0)
        Z = layout.fit(X, masked(data.y, labelled)).embedding_
        n_neighbors = 1 if len(labelled) < 10 * len(np.unique(data.y)) else 5
        return KNeighborsClassifier(n_neighbors).fit(Z[labelled], data.y[labelled]).predict(Z)

    return run


def right(y: np.ndarray, guess: np.ndarray, labelled: np.ndarray) -> float:
    """Return the accuracy (micro F1 for several labels a row) on unlabelled rows, in per cent."""
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
        if method == "LabelFold" and isinstance(run, Fold) and part != "parts":
            low, high = run.model.loo_interval_
            within = float(low <= accuracy / 100 <= high) if data.y.ndim == 1 else np.nan
            results.add(**key | {"method": "leave-one-out"}, ours=100 * run.model.loo_score_, relative=within)


def book(results: Results, methods: list[str], chosen: Chosen, quick: bool) -> None:
    """Part (a): the book's sets and splits, with unchanged columns."""
    for name in chosen(BOOK):
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
                    some = [budget for budget in budgets if budget[1] < SLOW.get(method, (0, 0, 12))[2]]
                    record(results, "book", data, method, run, some)


def open_sets(results: Results, methods: list[str], chosen: Chosen, quick: bool) -> None:
    """Part (b): the open sets; for other methods dense columns are scaled to unit variance."""
    for name in chosen((*OPEN, *SEVERAL)):
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
                at_50, other, _ = SLOW.get(method, (draws, draws, 0))
                if method == "PCA-LS" and sparse.issparse(data.X):  # a fit takes half a minute
                    at_50, other = 2, 0
                some = [(size, seed) for size, seed in budgets if seed < (at_50 if size == 50 else other)]
                record(results, "open", data, method, run, some)


@contextmanager
def weighted(**constants: Any) -> Iterator[None]:
    """Change constants of the weights of the views."""
    with ExitStack() as stack:
        for name, value in constants.items():
            stack.enter_context(mock.patch.object(_weights, name, value))
        yield


def families_of(data: Set) -> tuple[str, ...]:
    """Return the families to leave out one at a time; trees only for tables."""
    return FAMILIES if data.X.shape[1] <= 100 else FAMILIES[:-1]


def parts(results: Results, methods: list[str], chosen: Chosen, quick: bool) -> None:
    """Part (c): LabelFold without a family, with one family or one form, or with other weights."""
    for name in chosen(OPEN):
        data = the_set(name, quick)
        budgets = [(size, seed) for size in (20, 50) for seed in range(2 if quick else 3)]
        dense = not sparse.issparse(data.X)
        variants: dict[str, dict[str, Any]] = {"LabelFold": {}}
        families = families_of(data)
        variants |= {f"without {one}": {"views": [f for f in families if f != one]} for one in families}
        variants |= {f"only {one}": {"views": [one]} for one in families}
        forms = FORMS if dense else ("unit rows", "tf-idf", "root counts") if name in COUNTS else ()
        variants |= {form: {"forms": [form]} for form in forms}
        for variant, parameters in variants.items():
            record(results, "parts", data, variant, Fold(data, **parameters), budgets)
        every = Fold(data)
        for variant, constants in WEIGHTS.items():
            with weighted(**constants):
                record(results, "parts", data, variant, every, budgets)


def anchors(results: Results, methods: list[str], chosen: Chosen, quick: bool) -> None:
    """Part (d): graphs of few anchors, of 1,000, and of all rows as anchors."""
    for name in chosen(("waveform", "optdigits", "usps", "mnist49", "satimage", "image")):
        data = the_set(name, quick)
        budgets = [(50, seed) for seed in range(2 if quick else 10)]
        for m in (300, 1000, len(data.y)):
            variant = "all rows" if m == len(data.y) else f"{m} anchors"
            record(results, "anchors", data, variant, Fold(data, views=["graph"], n_anchors=m), budgets)


def new_rows(results: Results, methods: list[str], chosen: Chosen, quick: bool) -> None:
    """Part (e): a fifth of the rows are new. They are predicted with and without them in training, same labels."""
    for name in chosen(OPEN):
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


def aside(results: Results, methods: list[str], chosen: Chosen, quick: bool) -> None:
    """Tables on which only trees were chosen: LabelFold with and without its Laplace views, beside fast methods."""
    for name in chosen(ASIDE):
        data = the_set(name, quick)
        budgets = [(size, seed) for size in (20, 50, 100) for seed in range(2 if quick else 10)]
        record(results, "aside", data, "LabelFold", Fold(data), budgets)
        others = [family for family in families_of(data) if family != "laplace"]
        record(results, "aside", data, "without laplace", Fold(data, views=others), budgets)
        for method in ("1-NN", "svm", "rbf-svm", "extra-trees", "logistic", "sklearn-lda", "label-spreading"):
            run = peer(method, data, "as they are" if sparse.issparse(data.X) else "unit variance")
            if method in methods and run is not None:
                record(results, "aside", data, method, run, budgets)


PARTS = {"book": book, "open": open_sets, "parts": parts, "anchors": anchors, "new": new_rows, "aside": aside}


def main(arguments: list[str] | None = None) -> Path:
    """Run the requested parts, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--methods", nargs="+", default=["LabelFold", *PEERS])
    parser.add_argument("--sets", nargs="+", choices=list(SETS))
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--output")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    folder = result_folder(options.quick, options.output)
    results = Results(folder / "label_fold.csv")

    def chosen(names: Sequence[str]) -> list[str]:
        return [name for name in names if options.sets is None or name in options.sets]

    if not options.report:
        for part in options.part:
            PARTS[part](results, options.methods, chosen, options.quick)
    write_report(results, folder / "label_fold.md")
    return folder / "label_fold.md"


if __name__ == "__main__":
    print(main())
