"""Figures 2 to 5 and Table 2 of Cho & Saul: NMF-alpha beside NMF, PCA, LDA, SSNMF, CNMF, and SVMs on raw inputs.

    python experiments/nmf_alpha.py              everything, about two hours on one core
    python experiments/nmf_alpha.py --quick      a small test, seconds

The basis images of Figure 2 are drawn by `--parts images`, since they are not in the CSV file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.svm import LinearSVC

import labelfold
from common import Report, experiment
from labelfold import CNMF, LDA, SSNMF, TSVM
from labelfold.factorization._klnmf import gram_root
from labelfold.factorization._nmf_alpha import dual_directions
from labelfold.labels import read_labels
from nmf_alpha_sets import LABELS, RANKS, TITLES, Split, Task, hidden, paper, read, score, split
from result_rows import Results, grouped, parameter, row_key, spread, values, words

REDUCED = ("NMF-alpha", "NMF", "PCA", "SSNMF", "CNMF")
RAW = ("SVM", "TSVM", "LDA")
# Tuned parameters: the C of the last SVM, for every fit, and one trade-off of three values, on the first split.
COSTS = (1.0, 10.0, 100.0)
WEIGHTS = {
    "NMF-alpha": (1.0, 3.0, 10.0),  # supervision, in units of the sum of X over that of S'X
    "SSNMF": (0.01, 0.1, 1.0),  # supervision, in units of ||X||^2 / ||Y||^2
    "TSVM": (0.1, 1.0, 10.0),  # weight of the unlabelled rows
    "LDA": (0.00001, 0.0001, 0.001),  # ridge, in units of ||X||^2
}
# Iterations for divergences; and for squares, with several updates each, without labels and then with them.
ITERATIONS, START_ITERATIONS, SQUARES_ITERATIONS = 200, 30, 15
IMAGES = (0.0, None, 1000.0)  # supervision of Figure 2, in the same units; None: the tuned value
IMAGE_ITERATIONS = 100


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = tuple(LABELS)
    methods: tuple[str, ...] = (*RAW, *REDUCED)
    splits: int = 5
    most_rows: int | None = None
    most_ranks: int | None = None
    most_weights: int | None = None
    image_rank: int = 64

    def ranks(self, name: str) -> tuple[int, ...]:
        """Return the numbers of components for a set."""
        return RANKS[name][: self.most_ranks]


QUICK = Plan(splits=1, most_rows=300, most_ranks=1, most_weights=2, image_rank=4)


class Machine(NamedTuple):
    """Linear SVMs, one against the rest or one for each label; a label that no row or every row has is constant."""

    models: list[Any]
    multilabel: bool

    @classmethod
    def train(cls, Z: Any, y: np.ndarray, C: float) -> Machine:
        """Train on rows with labels."""
        options = {"C": C, "dual": "auto", "tol": 1e-2, "max_iter": 300, "random_state": 0}
        if y.ndim == 1:
            return cls([LinearSVC(**options).fit(Z, y)], False)
        one = [
            LinearSVC(**options).fit(Z, column) if 0 < column.sum() < len(column) else column[0]
            for column in y.T
        ]
        return cls(one, True)

    def predict(self, Z: Any) -> np.ndarray:
        """Return classes or 0/1 labels."""
        if not self.multilabel:
            return self.models[0].predict(Z)
        n = Z.shape[0]
        columns = [m.predict(Z) if hasattr(m, "predict") else np.full(n, m) for m in self.models]
        return np.column_stack(columns)


class Outcome(NamedTuple):
    """The score of a method, and its C."""

    validation: float
    test: float
    C: float


class Places(NamedTuple):
    """The embedding of the labelled, the validation and the test rows."""

    labelled: Any
    validation: Any
    test: Any


def place(task: Task, cut: Split, percent: int, transform: Callable[[Any], Any]) -> Places:
    """Return the embedding of the rows that are needed."""
    known = cut.train[: cut.n_labelled(percent)]
    return Places(*map(transform, (task.X[known], task.X[cut.validation], task.X_test)))


def classify(task: Task, cut: Split, percent: int, places: Places, costs: Sequence[float] = COSTS) -> Outcome:
    """Train SVMs on the labelled rows, with C chosen on validation rows; rows have a mean squared norm of 1."""
    y = task.y[cut.train[: cut.n_labelled(percent)]]
    size = root_mean_square(places.labelled)
    best = Outcome(-1.0, 0.0, 0.0)
    for C in costs:
        machine = Machine.train(places.labelled / size, y, C)
        reached = score(task.y[cut.validation], machine.predict(places.validation / size))
        if reached > best.validation:
            best = Outcome(reached, score(task.y_test, machine.predict(places.test / size)), C)
    return best


def root_mean_square(Z: Any) -> float:
    """Return the root mean square norm of the rows."""
    square = Z.multiply(Z).sum() if sparse.issparse(Z) else (Z**2).sum()
    return float(np.sqrt(square / Z.shape[0]))


def run_svm(task: Task, cut: Split, percent: int, costs: Sequence[float] = COSTS) -> Outcome:
    """Train SVMs on raw inputs."""
    return classify(task, cut, percent, place(task, cut, percent, lambda X: X), costs)


def run_tsvm(task: Task, cut: Split, percent: int, weight: float) -> Outcome:
    """Train a transductive SVM on raw inputs, with the C of an SVM."""
    C = run_svm(task, cut, percent).C
    X = task.X[cut.train]
    size = root_mean_square(X)
    model = TSVM(C, unlabeled_weight=weight, n_stages=4, tol=1e-2).fit(X / size, hidden(task, cut, percent))
    validation, test = (model.predict(X / size) for X in (task.X[cut.validation], task.X_test))
    return Outcome(score(task.y[cut.validation], validation), score(task.y_test, test), C)


def run_lda(task: Task, cut: Split, percent: int, weight: float, costs: Sequence[float] = COSTS) -> Outcome:
    """Project onto the directions of LDA from the labelled rows; for several labels onto one direction each."""
    known = cut.train[: cut.n_labelled(percent)]
    X, y = task.X[known].astype(np.float64), task.y[known]
    ridge = weight * float(X.multiply(X).sum())
    targets = [y] if y.ndim == 1 else [column for column in y.T if 0 < column.sum() < len(column)]
    models = [LDA(ridge=ridge).fit(X, target) for target in targets]
    places = place(
        task, cut, percent, lambda X: np.hstack([m.transform(X.astype(np.float64)) for m in models])
    )
    return classify(task, cut, percent, places, costs)


def run_reduced(task: Task, cut: Split, percent: int, method: str, k: int, weight: float | None) -> Outcome:
    """Reduce all rows to k components, then classify."""
    if method not in ("NMF", "PCA"):
        return classify(
            task, cut, percent, place(task, cut, percent, supervised(task, cut, percent, method, k, weight))
        )
    fit = principal if method == "PCA" else unsupervised
    every = remember(
        method, (task.name, task.form, cut.seed, k), lambda: place(task, cut, 100, fit(task, cut, k))
    )
    return classify(task, cut, percent, every._replace(labelled=every.labelled[: cut.n_labelled(percent)]))


def supervised(
    task: Task, cut: Split, percent: int, method: str, k: int, weight: float | None
) -> Callable[[Any], np.ndarray]:
    """Return the map to k components of a factorisation of the training rows and their labels."""
    X, y = task.X[cut.train], hidden(task, cut, percent)
    if method == "NMF-alpha":
        supervision = weight * unit(task, cut, percent)
        return corrected(
            labelfold.NMFAlpha(k, supervision=supervision, C=1.0, max_iter=ITERATIONS, tol=0.0).fit(X, y)
        )
    options = {"max_iter": SQUARES_ITERATIONS, "tol": 0.0, "init": start_squares(task, cut, k)}
    if method == "CNMF":
        return corrected(CNMF(k, **options).fit(X, y))
    ones = np.nansum(y) if y.ndim == 2 else np.sum(~np.isnan(y))
    return corrected(SSNMF(k, supervision=weight * X.multiply(X).sum() / ones, **options).fit(X, y))


def unit(task: Task, cut: Split, percent: int) -> float:
    """Return the supervision of NMF-alpha at which rows and directions have the same weight."""

    def measure() -> float:
        known = cut.train[: cut.n_labelled(percent)]
        X, labels = task.X[known], read_labels(task.y[known], allowed=("binary", "multiclass", "multilabel"))
        directions = dual_directions(X, labels, 1.0, "ovo").T @ X
        return float(task.X[cut.train].sum() / directions.sum())

    return remember(f"unit of {task.name}, {cut.seed}, {percent}", (), measure)


def unsupervised(task: Task, cut: Split, k: int) -> Callable[[Any], np.ndarray]:
    """Return the map of NMF, with the iterations and initial values of NMF-alpha."""
    model = labelfold.KLNMF(k, corrected=True, max_iter=ITERATIONS, tol=0.0)
    return corrected(model.fit(task.X[cut.train]))


def corrected(model: Any) -> Callable[[Any], np.ndarray]:
    """Return the map of a factorisation, times (V'V)^(1/2) unless it includes this factor: eq. 5."""
    if getattr(model, "corrected", False):
        return model.transform
    root = gram_root(model.components_)
    return lambda X: model.transform(X).astype(np.float64) @ root


def principal(task: Task, cut: Split, k: int) -> Callable[[Any], np.ndarray]:
    """Return the map to the first k principal components; singular vectors if X is wide and sparse."""
    model = remember("directions", (task.name, task.form, cut.seed), lambda: _fit_principal(task, cut))
    return lambda X: model.transform(X.toarray() if isinstance(model, PCA) else X)[:, :k]


def _fit_principal(task: Task, cut: Split) -> Any:
    X = task.X[cut.train]
    most = min(max(RANKS[task.name]), *(size - 1 for size in X.shape))
    if task.name == "mnist":
        return PCA(most, svd_solver="covariance_eigh").fit(X.toarray())
    return TruncatedSVD(most, random_state=0).fit(X)


def start_squares(task: Task, cut: Split, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors (H, V) of unsupervised NMF with squared errors; with supervision 0 any labels will do."""
    X = task.X[cut.train]
    model = SSNMF(k, supervision=0.0, max_iter=START_ITERATIONS, tol=0.0)
    any_labels = np.arange(X.shape[0]) % 2
    return remember("squares", (task.name, task.form, cut.seed, k), lambda: factors(model.fit(X, any_labels)))


def factors(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return H and V."""
    return model.embedding_, model.components_.T


def remember(kind: str, key: tuple, make: Callable[[], Any]) -> Any:
    """Return a cached result for this key; of each kind the last one is kept."""
    if kind not in _made or _made[kind][0] != key:
        _made[kind] = key, make()
    return _made[kind][1]


_made: dict[str, tuple[tuple, Any]] = {}


def tuned(results: Results, plan: Plan, name: str, percent: int, method: str) -> float | None:
    """Return the trade-off of a method for a set and its labels, tuned on the validation rows of the first split."""
    if method not in WEIGHTS:
        return None
    task, cut = read(name, plan.most_rows), split(name, plan.most_rows, 0)
    ranks = plan.ranks(name)
    k = ranks[(len(ranks) - 1) // 2]
    reached = {}
    for weight in WEIGHTS[method][: plan.most_weights]:
        about = {"labels": percent, "r": k if method in REDUCED else 0, "weight": weight}
        key = row_key("Tuning", task, method, 0, **about)
        if not results.has(**key):
            results.add(**key, ours=run(task, cut, percent, method, k, weight).validation)
        reached[weight] = float(results.select(**key)[0]["ours"])
    return max(reached, key=reached.__getitem__)


def run(task: Task, cut: Split, percent: int, method: str, k: int, weight: float | None) -> Outcome:
    """Return the score of a method."""
    if method == "SVM":
        return run_svm(task, cut, percent)
    if method == "TSVM":
        return run_tsvm(task, cut, percent, weight)
    if method == "LDA":
        return run_lda(task, cut, percent, weight)
    return run_reduced(task, cut, percent, method, k, weight)


def scores(results: Results, plan: Plan) -> None:
    """Test and validation scores of every method, set, share of labels, number of components and split."""
    for name in plan.sets:
        task = read(name, plan.most_rows)
        for k in (0, *plan.ranks(name)):  # 0: raw inputs
            methods = [method for method in (RAW if k == 0 else REDUCED) if method in plan.methods]
            for seed, method in product(range(plan.splits), methods):
                cut = split(name, plan.most_rows, seed)
                for percent in LABELS[name]:
                    if method == "TSVM" and percent == 100:
                        continue  # without unlabelled rows it is the SVM
                    key = row_key("Scores", task, method, seed, labels=percent, r=k)
                    if results.has(**key):
                        continue
                    weight = tuned(results, plan, name, percent, method)
                    found = run(task, cut, percent, method, k, weight)
                    value = paper(name, method, percent)
                    published = "" if value is None else value
                    results.add(**key, published=published, ours=found.test, relative=found.validation)


def images(results: Results, plan: Plan) -> None:
    """Figure 2: the components of NMF-alpha on MNIST, from no to strong supervision."""
    task, cut = read("mnist", plan.most_rows), split("mnist", plan.most_rows, 0)
    percent, k = LABELS["mnist"][0], plan.image_rank
    best = tuned(results, plan, "mnist", percent, "NMF-alpha")
    shown = {}
    for weight in (best if weight is None else weight for weight in IMAGES):
        key = row_key("Figure 2", task, "NMF-alpha", 0, labels=percent, r=k, weight=weight)
        X, y = task.X[cut.train], hidden(task, cut, percent)
        # From the same initial values, until the parts hardly change.
        supervision = weight * unit(task, cut, percent)
        model = labelfold.NMFAlpha(k, supervision=supervision, C=1.0, max_iter=IMAGE_ITERATIONS, tol=0.0).fit(
            X, y
        )
        shown[weight] = model.components_
        results.add(**key, ours=likeness(model.components_, X))
    Report(results.path.with_suffix(".md")).figure(
        "nmf_alpha_figure_2", "", lambda plt: draw_basis(plt, shown)
    )


def likeness(V: np.ndarray, X: Any) -> float:
    """Return the similarity of components and rows: the mean over components of the largest cosine with a row."""
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    cosines = (X @ (V / np.linalg.norm(V, axis=1, keepdims=True)).T) / np.where(norms > 0, norms, 1)[:, None]
    return float(cosines.max(axis=0).mean())


def about_tuning() -> str:
    """Return a description of the tuned parameters."""
    return (
        f"Tuned on validation rows: the C of that SVM from {_listed(COSTS)} for every fit; and on the first split "
        "only, at the middle r, one trade-off of three values for each method that has one: the supervision of "
        f"NMF-alpha ({_listed(WEIGHTS['NMF-alpha'])}, in units of the sum of X over that of S'X) and of SSNMF "
        f"({_listed(WEIGHTS['SSNMF'])}, in units of the squares of X over those of Y), the weight of the unlabelled "
        f"rows in TSVM ({_listed(WEIGHTS['TSVM'])}), the ridge of LDA ({_listed(WEIGHTS['LDA'])}, in units of the "
        f"squares of X). NMF and NMF-alpha start alike and have {ITERATIONS} iterations; SSNMF and CNMF, of which an "
        f"iteration makes several updates, {SQUARES_ITERATIONS} after {START_ITERATIONS} without labels."
    )


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def write_report(page: Report, results: Results) -> None:
    """Write the page from the rows alone."""
    page.text(
        "# NMF-alpha",
        "Figures 2 to 5 and Table 2 of Y. Cho, L. K. Saul, *Nonnegative matrix factorization for semi-supervised "
        "dimensionality reduction*, 2011. Made by `python experiments/nmf_alpha.py` from `nmf_alpha.csv`.",
        "Scores on the published test rows: accuracy (%), for the aviation reports 100 times the mean of macro- and "
        "micro-averaged F. Ours are means over splits of the other rows into training rows and a fifth for "
        "validation, with their standard deviation (*spread*). A percentage of the training rows carries labels. "
        "After a reduction to r components, in which all training rows take part, a linear SVM is trained on the "
        "labelled ones; factors are corrected as in eq. 5.",
        about_tuning(),
        "The paper prints numbers for Table 2 only. Its aviation reports have their full vocabulary, ours 500 words "
        "of it: compare the order of the methods there. How its newsgroups were pruned is not known; ours have the "
        "words of at least 20 training documents and at most a tenth of them, rows of unit length.",
    )
    names = [name for name in LABELS if results.select(part="Scores", dataset=name)]
    missing = _missing(results)
    if missing:
        page.text(f"Not run yet, or not for all splits, labels and r: {'; '.join(missing)}.")
    _table_2(page, results, names)
    for name in names:
        _all_methods(page, results, name)
    if results.select(part="Scores", method="NMF-alpha"):
        page.text("## Figure 3")
        caption = (
            "Test score against the number of components: NMF-alpha, with SVM and TSVM on the raw inputs. Bars are "
            "spreads; the hollow square is the number of components that is best on validation rows."
        )
        page.figure("nmf_alpha_figure_3", caption, lambda plt: _curves(plt, results, names))
    for number, others in ((4, ("NMF", "PCA")), (5, ("SSNMF", "CNMF"))):
        points = {other: _points(results, names, other) for other in others}
        if not any(points.values()):
            continue
        page.text(f"## Figure {number}")
        caption = (
            f"NMF-alpha against {' and '.join(others)}: scores less that of the SVM on raw inputs, a point for each "
            "set, share of labels and number of components. Above the diagonal NMF-alpha is better."
        )
        page.figure(f"nmf_alpha_figure_{number}", caption, lambda plt, points=points: _pairs(plt, points))
        page.table(
            ["share of points with NMF-alpha above", *(f"{TITLES[name]}" for name in names)],
            [(other, *(_share(points[other], name) for name in names)) for other in others],
        )
    rows = results.select(part="Figure 2")
    if rows:
        page.text("## Figure 2")
        if (page.path.parent / "nmf_alpha_figure_2.png").is_file():
            about = "Components of NMF-alpha on MNIST, 2% of the rows labelled, from the same start, by supervision."
            page.text(f"![{about}](nmf_alpha_figure_2.png)", f"*{about}*")
        page.text(
            "How much they are like rows: the mean over components of the largest cosine with a training row."
        )
        page.table(
            ["supervision", "likeness"],
            [(parameter(row, "weight"), f"{float(row['ours']):.3f}") for row in rows],
        )
    _tuning(page, results)


def _missing(results: Results, splits: int = 5) -> list[str]:
    """Return sentences on methods with missing rows, set by set."""
    found = []
    for name in LABELS:
        short = []
        for method in (*REDUCED, *RAW):
            places = 1 if method in RAW else len(RANKS[name])
            shares = len(LABELS[name]) - (method == "TSVM")
            if len(results.select(part="Scores", dataset=name, method=method)) < splits * places * shares:
                short.append(method)
        if short:
            found.append(f"{TITLES[name]}: {', '.join(short)}")
    return found


def _mean(results: Results, name: str, method: str, percent: int, k: int, field: str = "ours") -> np.ndarray:
    """Return the values of a field over the splits."""
    rows = results.select(part="Scores", dataset=name, method=method, parameters=words(labels=percent, r=k))
    return values(rows, field)


def _best_rank(results: Results, name: str, method: str, percent: int) -> int | None:
    """Return the best number of components on validation rows, on average over the splits."""
    places = (0,) if method in RAW else RANKS[name]
    reached = {k: _mean(results, name, method, percent, k, "relative") for k in places}
    return max((k for k in reached if len(reached[k])), key=lambda k: reached[k].mean(), default=None)


def _cell(results: Results, name: str, method: str, percent: int, published: float | None = None) -> str:
    k = _best_rank(results, name, method, percent)
    if k is None:
        return ""
    text = spread(_mean(results, name, method, percent, k), 1)
    return text if published is None else f"{text} ({published:.1f})"


def _table_2(page: Report, results: Results, names: Sequence[str]) -> None:
    page.text(
        "## Table 2", "NMF-alpha with the number of components that is best on validation rows, and LDA."
    )
    lines = []
    for name in names:
        for percent in LABELS[name]:
            cells = [_cell(results, name, m, percent, paper(name, m, percent)) for m in ("NMF-alpha", "LDA")]
            lines.append((f"{TITLES[name]}, {percent}%", *cells))
    page.table(["set, labels", "NMF-alpha: ours ± spread (paper)", "LDA: ours ± spread (paper)"], lines)


def _all_methods(page: Report, results: Results, name: str) -> None:
    rows = results.select(part="Scores", dataset=name)
    sources, draws = " and ".join(sorted(grouped(rows, "source"))), len(grouped(rows, "seed"))
    page.text(
        f"## {TITLES[name]}",
        f"{sources.capitalize()} data, {draws} splits. Every method with the number of components that is best on "
        "validation rows (in brackets). With all labels TSVM is the SVM.",
    )
    lines = []
    for method in (*REDUCED, *RAW):
        cells = []
        for percent in LABELS[name]:
            text, k = _cell(results, name, method, percent), _best_rank(results, name, method, percent)
            cells.append(f"{text} [{k}]" if k else text)
        lines.append((method, *cells))
    page.table(["method", *(f"{percent}% labels" for percent in LABELS[name])], lines)
    lines = []
    for method in REDUCED:
        for percent in LABELS[name]:
            found = [_mean(results, name, method, percent, k) for k in RANKS[name]]
            lines.append((f"{method}, {percent}%", *(spread(own, 1) for own in found)))
    page.table(["method, labels", *(f"r = {k}" for k in RANKS[name])], lines)


def _points(results: Results, names: Sequence[str], other: str) -> list[tuple[str, int, float, float]]:
    """Return (set, index of the share of labels, other's score, NMF-alpha's), both relative to that of the SVM."""
    points = []
    for name in names:
        for place, percent in enumerate(LABELS[name]):
            base = _mean(results, name, "SVM", percent, 0)
            for k in RANKS[name]:
                ours, theirs = (_mean(results, name, method, percent, k) for method in ("NMF-alpha", other))
                if len(base) and len(ours) and len(theirs):
                    points.append((name, place, theirs.mean() - base.mean(), ours.mean() - base.mean()))
    return points


def _share(points: list[tuple[str, int, float, float]], name: str) -> str:
    above = [ours > theirs for which, _, theirs, ours in points if which == name]
    return f"{sum(above)} of {len(above)}" if above else ""


def _tuning(page: Report, results: Results) -> None:
    rows = results.select(part="Tuning")
    if not rows:
        return
    page.text("## The trade-offs", "Validation score on the first split; the largest was taken.")
    groups = grouped(rows, "dataset", "method", "labels")
    lines = []
    for name, method, percent in sorted(groups, key=lambda key: (*key[:2], int(key[2]))):
        found = groups[name, method, percent]
        scores = (f"{float(row['ours']):.1f} ({parameter(row, 'weight')})" for row in found)
        lines.append((f"{TITLES[name]}, {method}, {percent}%", *scores))
    page.table(["set, method, labels", "score (weight)", "score (weight)", "score (weight)"], lines)


def _curves(plt: Any, results: Results, names: Sequence[str]) -> Any:
    figure, axes = plt.subplots(
        len(names), 3, figsize=(11, 3.1 * len(names)), layout="constrained", squeeze=False
    )
    for line, name in zip(axes, names, strict=True):
        for axis, percent in zip(line, LABELS[name], strict=True):
            found = {k: _mean(results, name, "NMF-alpha", percent, k) for k in RANKS[name]}
            found = {k: values for k, values in found.items() if len(values)}
            if found:
                means, spreads = ([f(v) for v in found.values()] for f in (np.mean, np.std))
                axis.errorbar(list(found), means, spreads, marker="o", color="tab:red", label="NMF-alpha")
                best = _best_rank(results, name, "NMF-alpha", percent)
                axis.plot(best, np.mean(found[best]), "s", ms=11, mfc="none", mec="black")
            for method, style in (("SVM", "-"), ("TSVM", "--")):
                values = _mean(results, name, method, percent, 0)
                if len(values):
                    axis.axhline(values.mean(), ls=style, color="tab:blue", label=method)
            axis.set_xscale("log", base=2)
            axis.set_xticks(RANKS[name], [str(k) for k in RANKS[name]])
            axis.set_title(f"{TITLES[name]}, {percent}% labels", fontsize=10)
            axis.set_xlabel("components")
    axes[0, 0].legend(fontsize=8)
    return figure


def _pairs(plt: Any, points: dict[str, list[tuple[str, int, float, float]]]) -> Any:
    figure, axes = plt.subplots(1, len(points), figsize=(9, 4.4), layout="constrained")
    colours = {"mnist": "tab:blue", "news": "tab:red", "aviation": "tab:green"}
    for axis, (other, found) in zip(axes, points.items(), strict=True):
        for name, colour in colours.items():
            for place, (mark, share) in enumerate(zip("s^o", ("few", "some", "all"), strict=True)):
                here = [(x, y) for which, at, x, y in found if (which, at) == (name, place)]
                if here:
                    axis.scatter(
                        *zip(*here, strict=True), c=colour, marker=mark, s=22, label=f"{name}, {share}"
                    )
        # Points far below only show that few components are too few.
        low = -25.0
        high = max([2.0, *(max(x, y) for *_, x, y in found)]) + 1
        axis.plot([low, high], [low, high], color="black", lw=0.8)
        axis.axhline(0, color="gray", lw=0.5)
        axis.set_xlim(low, high)
        axis.set_ylim(low, high)
        axis.set_xlabel(f"{other} less SVM")
        axis.set_ylabel("NMF-alpha less SVM")
    axes[0].legend(fontsize=7)
    return figure


def draw_basis(plt: Any, shown: dict[float, np.ndarray]) -> Any:
    """Return pictures of the components, dark on white, for each value of supervision."""
    side = round(np.sqrt(next(iter(shown.values())).shape[1]))
    figure, axes = plt.subplots(1, len(shown), figsize=(4 * len(shown), 4.3), layout="constrained")
    for axis, (weight, V) in zip(axes, shown.items(), strict=True):
        across = int(np.ceil(np.sqrt(len(V))))
        sheet = np.full((across * (side + 1) - 1, across * (side + 1) - 1), 0.8)
        for i, v in enumerate(V):
            top, left = (i // across) * (side + 1), (i % across) * (side + 1)
            sheet[top : top + side, left : left + side] = 1 - (v / max(v.max(), 1e-12)).reshape(side, side)
        axis.imshow(sheet, cmap="gray", vmin=0, vmax=1)
        axis.set_axis_off()
        axis.set_title(f"supervision {weight:g}")
    return figure


PARTS = {"scores": scores, "images": images}


TAKES = {"sets": LABELS, "methods": (*RAW, *REDUCED), "splits": int}
main = experiment(__doc__, "nmf_alpha", Plan(), QUICK, PARTS, write_report, **TAKES)

if __name__ == "__main__":
    main()
