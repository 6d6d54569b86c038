"""LabelFold beside other methods: the seven sets of the SSL book, open sets, its parts, anchors and new rows.

    python experiments/label_fold.py                          everything, hours on two cores
    python experiments/label_fold.py --quick                  a small test
    python experiments/label_fold.py --parts book open        some parts: book, open, parts, anchors, new, aside
    python experiments/label_fold.py --methods LabelFold svm  some methods
    python experiments/label_fold.py --sets wine usps         some sets
    python experiments/label_fold.py --parts                  only the page, from existing rows

The sets on which decisions were made: views: Digit1, g241c, Text, waveform, optdigits, ionosphere, wine; half-
whitening: BCI; the constants of the weights: the mean of all seven sets of the book; the share of the linear views:
pima; forms, intervals and probabilities: all open sets; Laplace views and their share: wine, ionosphere, sonar,
pima, image, satimage, waveform and optdigits; trees and their share: 21 other tables and the sets of the part
"aside"; the exponent of that share: these, and wine, ionosphere, sonar, pima, image, satimage and optdigits. usps
and mnist49 were used for forms and calibration only, but their means were seen. The sets of the part "aside" were
used for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
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

from common import Report, experiment
from data_sets import accuracy, masked, rng_of
from label_fold_sets import ASIDE, BOOK, COUNTS, OPEN, SETS, SEVERAL, Set, the_set
from labelfold import PCALS, LabelFold
from labelfold.app.registry import METHODS
from labelfold.semi_supervised import _weights
from result_rows import Results, by_seed, grouped, row_key, standard_error, values

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


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = tuple(SETS)
    methods: tuple[str, ...] = ("LabelFold", *PEERS)
    quick: bool = False

    def chosen(self, names: Sequence[str]) -> Iterator[Set]:
        """Yield the sets with these names that are to be run."""
        return (the_set(name, self.quick) for name in names if name in self.sets)

    def budgets(self, sizes: Sequence[int], draws: int = 10) -> list[tuple[int, int]]:
        """Return the numbers of labels with the seeds of their draws."""
        return [(size, seed) for size in sizes for seed in range(2 if self.quick else draws)]


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
    return accuracy(y, guess, rest)


def record(
    results: Results, part: str, data: Set, method: str, run: Callable, budgets: Iterable[tuple[int, int]]
) -> None:
    """Write the rows of one method that are missing; on open sets also LabelFold's leave-one-out score."""
    for n_labelled, seed in budgets:
        row = partial(row_key, part, data, seed=seed, labels=n_labelled)
        if results.has(**row(method)):
            continue
        labelled = data.draw(n_labelled, seed)
        reached = right(data.y, run(labelled), labelled)
        results.add(**row(method), ours=reached)
        if part == "open" and method == "LabelFold":
            low, high = run.model.loo_interval_
            within = float(low <= reached / 100 <= high) if data.y.ndim == 1 else np.nan
            results.add(**row("leave-one-out"), ours=100 * run.model.loo_score_, relative=within)


def book(results: Results, plan: Plan) -> None:
    """Part (a): the book's sets and splits, with unchanged columns."""
    for data in plan.chosen(BOOK):
        budgets = plan.budgets((100, 10), 12)
        if "LabelFold" in plan.methods:
            record(results, "book", data, "LabelFold", Fold(data), budgets)
            if data.name != "Text":
                bare = Fold(data, forms=["as they are"])
                record(results, "book", data, "LabelFold, as they are", bare, budgets)
        for method in (m for m in plan.methods if m in PEERS and m not in ONLY_OPEN):
            if (run := peer(method, data, "as they are")) is not None:
                some = [budget for budget in budgets if budget[1] < SLOW.get(method, (0, 0, 12))[2]]
                record(results, "book", data, method, run, some)


def open_sets(results: Results, plan: Plan) -> None:
    """Part (b): the open sets; for other methods dense columns are scaled to unit variance."""
    for data in plan.chosen((*OPEN, *SEVERAL)):
        most, draws = len(data.y) // 2, 2 if plan.quick else 10
        sizes = [size for size in ([20, 50] if plan.quick else [50, 20, 100, 200]) if size <= most]
        budgets = plan.budgets(sizes)
        if "LabelFold" in plan.methods:
            record(results, "open", data, "LabelFold", Fold(data), budgets)
            record(results, "open", data, "linear view", Fold(data, views=["linear"]), budgets)
        for method in plan.methods:
            if (
                method not in PEERS
                or (method in ONLY_COUNTS and data.name not in COUNTS)
                or data.name in SEVERAL
            ):
                continue
            if (run := peer(method, data, scale_of(data))) is not None:
                at_50, other, _ = SLOW.get(method, (draws, draws, 0))
                if method == "PCA-LS" and sparse.issparse(data.X):  # a fit takes half a minute
                    at_50, other = 2, 0
                some = [(size, seed) for size, seed in budgets if seed < (at_50 if size == 50 else other)]
                record(results, "open", data, method, run, some)


def scale_of(data: Set) -> str:
    """Return how the columns of a set are scaled for other methods."""
    return "as they are" if sparse.issparse(data.X) else "unit variance"


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


def parts(results: Results, plan: Plan) -> None:
    """Part (c): LabelFold without a family, with one family or one form, or with other weights."""
    for data in plan.chosen(OPEN):
        families, budgets = families_of(data), plan.budgets((20, 50), 3)
        dense, counts = not sparse.issparse(data.X), data.name in COUNTS
        forms = FORMS if dense else ("unit rows", "tf-idf", "root counts") if counts else ()
        variants: dict[str, dict[str, Any]] = {"LabelFold": {}}
        variants |= {f"without {one}": {"views": [f for f in families if f != one]} for one in families}
        variants |= {f"only {one}": {"views": [one]} for one in families}
        variants |= {form: {"forms": [form]} for form in forms}
        for variant, parameters in variants.items():
            record(results, "parts", data, variant, Fold(data, **parameters), budgets)
        every = Fold(data)
        for variant, constants in WEIGHTS.items():
            with weighted(**constants):
                record(results, "parts", data, variant, every, budgets)


def anchors(results: Results, plan: Plan) -> None:
    """Part (d): graphs of few anchors, of 1,000, and of all rows as anchors."""
    for data in plan.chosen(("waveform", "optdigits", "usps", "mnist49", "satimage", "image")):
        for m in (300, 1000, len(data.y)):
            variant = "all rows" if m == len(data.y) else f"{m} anchors"
            graph = Fold(data, views=["graph"], n_anchors=m)
            record(results, "anchors", data, variant, graph, plan.budgets((50,)))


def new_rows(results: Results, plan: Plan) -> None:
    """Part (e): a fifth of the rows are new. They are predicted with and without them in training, same labels."""
    for data in plan.chosen(OPEN):
        for _, seed in plan.budgets((50,)):
            order = rng_of(data.name, "fifths", seed).permutation(len(data.y))
            other, old = np.sort(order[::5]), np.setdiff1d(order, order[::5])
            drawn = rng_of(data.name, "new", seed).permutation(old)
            first = np.array([drawn[data.y[drawn] == one][0] for one in np.unique(data.y)])
            labelled = np.concatenate([first, drawn[~np.isin(drawn, first)]])[:50]
            row = partial(row_key, "new", data, seed=seed, labels=len(labelled), new="fifth")
            if results.has(**row("new rows")):
                continue
            known = masked(data.y, labelled)
            seen = LabelFold().fit(data.X, known).transduction_
            results.add(**row("seen in training"), ours=accuracy(data.y, seen, other))
            new = LabelFold().fit(data.X[old], known[old]).predict(data.X[other])
            results.add(**row("new rows"), ours=100 * float(np.mean(new == data.y[other])))


def aside(results: Results, plan: Plan) -> None:
    """Tables on which only trees were chosen: LabelFold with and without its Laplace views, beside fast methods."""
    for data in plan.chosen(ASIDE):
        budgets = plan.budgets((20, 50, 100))
        record(results, "aside", data, "LabelFold", Fold(data), budgets)
        others = [family for family in families_of(data) if family != "laplace"]
        record(results, "aside", data, "without laplace", Fold(data, views=others), budgets)
        for method in ("1-NN", "svm", "rbf-svm", "extra-trees", "logistic", "sklearn-lda", "label-spreading"):
            if method in plan.methods and (run := peer(method, data, scale_of(data))) is not None:
                record(results, "aside", data, method, run, budgets)


Table = dict[tuple[str, str], dict[str, float]]
# What is said of each part, and its numbers of labels.
TITLES = {
    "book": ("The SSL book's sets, its own splits: test error, %", (100, 10)),
    "open": ("Open sets: accuracy, % (several labels a row: micro F1)", (20, 50, 100, 200)),
    "parts": (
        "What each family of views, each form and the weights bring: accuracy, %, three draws",
        (20, 50),
    ),
    "anchors": ("Graph views of few anchors and of all rows: accuracy, %, 50 labels", (50,)),
    "new": ("New rows: accuracy on a fifth of the rows, seen in training and not, %, 50 labels", (50,)),
    "aside": ("Tables that no choice was made on: accuracy, %", (20, 50, 100)),
}


def write_report(report: Report, results: Results) -> None:
    """Write the page: a section for each part that has rows."""
    report.text("# LabelFold beside its peers")
    for part, (title, sizes) in TITLES.items():
        if not results.select(part=part):
            continue
        report.text(f"## {title}")
        for n_labelled in sizes:
            table = _accuracies(results, part, n_labelled)
            if not table:
                continue
            if part not in ("anchors", "new"):
                report.text(f"### {n_labelled} labels")
            _grid(report, table, turn=part == "book")
            if part in ("book", "open"):
                _fewer(report, table)
            if part == "open":
                _against_best(report, table)
                _against_linear(report, table)
        if part == "open":
            _coverage(report, results)


def _accuracies(results: Results, part: str, n_labelled: int) -> Table:
    """Return the accuracy of every seed, by method and set."""
    rows = results.select(part=part, labels=n_labelled)
    return {key: by_seed(own) for key, own in grouped(rows, "method", "dataset").items()}


def _names(table: Table, at: int) -> list[str]:
    return list(dict.fromkeys(key[at] for key in table))


def _grid(report: Report, table: Table, turn: bool = False) -> None:
    """Add a table of means: a row for each method, a column for each set, and the mean over common sets."""
    sets, methods = _names(table, 1), [m for m in _names(table, 0) if m != "leave-one-out"]
    lines = []
    for method in methods:
        means = [
            np.mean(list(table[method, one].values())) if (method, one) in table else np.nan for one in sets
        ]
        means = [100 - value for value in means] if turn else means
        line = ["" if np.isnan(value) else f"{value:.1f}" for value in means]
        lines.append([method, *line, "" if np.isnan(means).any() else f"{np.mean(means):.1f}"])
    report.table(["", *sets, "mean"], lines)


def _fewer(report: Report, table: Table) -> None:
    """Add a sentence on methods that ran on fewer draws than LabelFold."""
    most = max((len(seeds) for (method, _), seeds in table.items() if method == "LabelFold"), default=0)
    fewer: dict[str, int] = {}
    for (method, _), seeds in table.items():
        if len(seeds) < most:
            fewer[method] = min(len(seeds), fewer.get(method, most))
    if fewer:
        report.text(f"Of {most} draws some have fewer: {', '.join(f'{m} {n}' for m, n in fewer.items())}.")


def _against_best(report: Report, table: Table) -> None:
    """Add the paired difference to the method that is best in hindsight, with its standard error."""
    own = {"LabelFold", "linear view", "leave-one-out"}
    lines = []
    for one in _names(table, 1):
        peers = {m: table[m, one] for m in _names(table, 0) if m not in own and (m, one) in table}
        if not peers or ("LabelFold", one) not in table:
            continue
        best = max(peers, key=lambda m: np.mean(list(peers[m].values())))
        ours = table["LabelFold", one]
        gaps = np.array([ours[seed] - peers[best][seed] for seed in ours if seed in peers[best]])
        lines.append([one, best, f"{gaps.mean():+.1f}", f"{standard_error(gaps):.1f}"])
    if lines:
        report.text("LabelFold less the best peer in hindsight, paired draws:")
        report.table(["", "best peer", "difference", "standard error"], lines)


def _against_linear(report: Report, table: Table) -> None:
    gaps = {
        one: np.mean(list(table["LabelFold", one].values()))
        - np.mean(list(table["linear view", one].values()))
        for one in _names(table, 1)
        if ("linear view", one) in table and ("LabelFold", one) in table
    }
    if gaps:
        worst = min(gaps, key=gaps.__getitem__)
        report.text(
            f"Least above the same ridge on the linear view alone: {worst}, {gaps[worst]:+.1f} points."
        )


def _coverage(report: Report, results: Results) -> None:
    """Add how often the interval of the leave-one-out score contains the accuracy on the other rows."""
    lines = []
    for n_labelled in (20, 50, 100, 200):
        rows = results.select(part="open", method="leave-one-out", labels=n_labelled)
        rows = [row for row in rows if row["relative"] not in ("", "nan")]
        if rows:
            truth = _accuracies(results, "open", n_labelled)
            bias = [float(row["ours"]) - truth["LabelFold", row["dataset"]][row["seed"]] for row in rows]
            share = values(rows, "relative").mean()
            lines.append([n_labelled, len(rows), f"{np.mean(bias):+.1f}", f"{100 * share:.0f}"])
    if lines:
        report.text(
            "### Leave-one-out score: mean difference to the accuracy on other rows, coverage of its interval"
        )
        report.table(["labels", "draws", "difference", "coverage, %"], lines)


PARTS = {"book": book, "open": open_sets, "parts": parts, "anchors": anchors, "new": new_rows, "aside": aside}


TAKES = {"methods": ("LabelFold", *PEERS), "sets": SETS}
main = experiment(__doc__, "label_fold", Plan(), Plan(quick=True), PARTS, write_report, threads=None, **TAKES)

if __name__ == "__main__":
    main()
