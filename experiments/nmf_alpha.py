"""Figures 2 to 5 and Table 2 of Cho & Saul: NMF-alpha beside NMF, PCA, LDA, SSNMF, CNMF, and SVMs on raw inputs.

    python experiments/nmf_alpha.py              everything, about two hours on one core
    python experiments/nmf_alpha.py --quick      a small test, seconds

Real data comes from the folder LABELFOLD_DATA (see DATA.md); otherwise every set is generated with its shape. Each
number is written to nmf_alpha.csv as soon as it is known, and a re-run computes only missing ones; nmf_alpha.md is
written from the CSV file, except for the basis images of Figure 2, which `--parts images` draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
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
from nmf_alpha_report import RAW, REDUCED, draw_basis, write_report
from nmf_alpha_sets import LABELS, RANKS, TABLE_2, Split, Task, hidden, read, score, split
from result_rows import Results, row_key

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
                for at, percent in enumerate(LABELS[name]):
                    if method == "TSVM" and percent == 100:
                        continue  # without unlabelled rows it is the SVM
                    key = row_key("Scores", task, method, seed, labels=percent, r=k)
                    if results.has(**key):
                        continue
                    weight = tuned(results, plan, name, percent, method)
                    found = run(task, cut, percent, method, k, weight)
                    column = {"NMF-alpha": 0, "LDA": 1}.get(method)
                    published = "" if column is None else TABLE_2[name][at][column]
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


PARTS = {"scores": scores, "images": images}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, write the report, and return its path."""

    def write(results: Results, path: Path) -> None:
        write_report(results, path, about_tuning())

    takes = {"sets": LABELS, "methods": (*RAW, *REDUCED), "splits": int}
    return experiment(__doc__, "nmf_alpha", Plan(), QUICK, PARTS, write, arguments, **takes)


if __name__ == "__main__":
    main()
