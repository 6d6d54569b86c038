"""Table 2 and Figures 1 to 4 of Grabocka & Schmidt-Thieme: NSDR and LSDR beside SVMs with and without PCA.

    python experiments/nsdr.py              everything, half an hour on one core
    python experiments/nsdr.py --quick      a small test, seconds

Real data comes from the folder LABELFOLD_DATA (see DATA.md); otherwise every set is generated with its shape. Each
number is written to nsdr.csv as soon as it is known, and a re-run computes only missing ones; nsdr.md is written from
the CSV file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from common import experiment, seconds
from data_sets import Data, rng_of
from labelfold.factorization._lsdr import LSDR
from labelfold.factorization._nsdr import NSDR
from labelfold.factorization._offset_model import factor_cost
from nsdr_report import write_report
from nsdr_sets import (
    GRIDS,
    METHODS,
    PAPER,
    PENALTIES,
    PUBLISHED,
    TABLE_1,
    TABLE_1_NAMES,
    TABLE_2,
    TwoClasses,
    folds,
    read,
    small_sets,
)
from result_rows import Results, row_key, words

FACTORS = ("n_components", "row_penalty", "basis_penalty", "reconstruction_share", "C", "degree")
FIGURE_3 = dict(zip(FACTORS, (25, 1e-5, 1e-5, 0.7, 1.0, 1), strict=True))
FIGURE_4 = dict(zip(FACTORS, (11, 1e-6, 1e-5, 0.9, 0.1, 2), strict=True))


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = tuple(TABLE_2)
    folds: int = 5
    tries: int = 32  # random points of a grid; all if there are fewer
    finalists: int = 4
    splits: int = 3  # splits of the training part, for the final choice
    quick_iter: int = 10  # iterations of all candidates
    max_iter: int = 30
    iterations: tuple[int, ...] = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120)
    penalties: tuple[float, ...] = PENALTIES
    most_rows: int | None = None


QUICK = Plan(
    sets=("sonar", "spect"),
    folds=2,
    tries=4,
    finalists=2,
    splits=1,
    quick_iter=2,
    max_iter=10,
    iterations=(1, 5),
    penalties=(1e-4, 1.0),
    most_rows=60,
)


def candidates(method: str, data: TwoClasses, seed: int, tries: int) -> list[dict[str, Any]]:
    """Return points of the method's grid: all of them, or ``tries`` random ones without repetition."""
    grid = GRIDS[method.split(",")[0]]
    shape = tuple(len(values) for values in grid.values())
    size = int(np.prod(shape))
    rng = rng_of("tries", method, data.name, seed)
    chosen = np.arange(size) if size <= tries else rng.choice(size, tries, replace=False)
    return [
        {name: values[i] for (name, values), i in zip(grid.items(), np.unravel_index(j, shape), strict=True)}
        for j in chosen
    ]


def errors(
    method: str,
    data: TwoClasses,
    known: np.ndarray,
    asked: np.ndarray,
    options: dict[str, Any],
    max_iter: int,
) -> float:
    """Return the error on the rows ``asked``, given the labels of the known rows.

    The factorisations use all rows, as in the paper; rows that are not known are unlabelled.
    """
    options = dict(options)
    X, y = data.X, data.y
    if method.endswith("SVMs"):
        variance = options.pop("variance", None)
        model = SVC(kernel="poly", gamma=1.0, coef0=1.0, max_iter=100_000, **options)
        if variance is not None:
            model = make_pipeline(PCA(variance if variance < 1 else None, svd_solver="full"), model)
        found = model.fit(X[known], y[known]).predict(X[asked])
        return float(np.mean(found != y[asked]))
    few = np.full(len(y), -1)
    few[known] = y[known]
    if "share" in options:
        options["n_components"] = max(1, round(options.pop("share") * X.shape[1]))
    limits = {"max_iter": min(options.pop("iterations", max_iter), max_iter), "tol": 1e-4}
    if method == "NSDR":
        model = NSDR(**options, **limits, **PAPER, gamma=1.0)
    else:
        model = LSDR(loss=method.split(", ")[1].replace(" ", "_"), **options, **limits, **PAPER)
    return float(np.mean(model.fit(X, few).transduction_[asked] != y[asked]))


def choose(
    method: str, data: TwoClasses, train: np.ndarray, seed: int, plan: Plan
) -> tuple[dict[str, Any], float]:
    """Return the parameters with the least validation error, and that error.

    All candidates are fitted on the first split, with few iterations; the best of them on all splits, with many.
    """
    splitter = StratifiedShuffleSplit(plan.splits, test_size=0.25, random_state=seed)
    splits = [(train[a], train[b]) for a, b in splitter.split(train, data.y[train])]
    tried = candidates(method, data, seed, plan.tries)
    quick = [errors(method, data, *splits[0], options, plan.quick_iter) for options in tried]
    best = [tried[i] for i in np.argsort(quick, kind="stable")[: plan.finalists]]
    means = [
        float(np.mean([errors(method, data, *split, options, plan.max_iter) for split in splits]))
        for options in best
    ]
    winner = int(np.argmin(means))
    return best[winner], means[winner]


def table_2(results: Results, plan: Plan) -> None:
    """Write the test error of every set, method and fold."""
    for name in plan.sets:
        data = read(name, plan.most_rows)
        for method in METHODS:
            for seed, (train, test) in enumerate(folds(data, plan.folds)):
                budget = {"tries": plan.tries, "finalists": plan.finalists, "splits": plan.splits}
                key = row_key("Table 2", data, method, seed, **budget)
                if results.has(**key):
                    continue
                spent, (options, validation) = seconds(partial(choose, method, data, train, seed, plan))
                error = errors(method, data, train, test, options, plan.max_iter)
                chosen = row_key("Table 1", data, method, seed, **options)
                results.add(**chosen, ours=validation)
                published = TABLE_2[name][PUBLISHED[method]][0] if method in PUBLISHED else ""
                results.add(**key, published=published, ours=error, seconds=spent)


def table_2_as_given(results: Results, plan: Plan) -> None:
    """Write the test errors with the parameters that the paper chose, without a search."""
    for name in plan.sets:
        data = read(name, plan.most_rows)
        for method, values in zip(TABLE_1_NAMES, TABLE_1[name], strict=True):
            options = dict(zip(TABLE_1_NAMES[method], values, strict=True))
            for seed, (train, test) in enumerate(folds(data, plan.folds)):
                key = row_key("Table 2, the paper's parameters", data, method, seed, **options)
                if not results.has(**key):
                    error = errors(method, data, train, test, options, plan.max_iter)
                    published = TABLE_2[name][PUBLISHED[method]][0]
                    results.add(published=published, ours=error, **key)


def pictures(results: Results, plan: Plan) -> None:
    """Write the coordinates of the two small sets, reduced to two dimensions in two ways each."""
    # Penalties, weights and degree from the captions; without labels nearly all weight is on the reconstruction.
    small = {"row_penalty": 1e-4, "basis_penalty": 1e-4, "max_iter": 2000, **PAPER}
    large = {
        "row_penalty": 1e-2,
        "basis_penalty": 1e-2,
        "max_iter": 300,
        "reconstruction_share": 0.7,
        **PAPER,
    }
    models = {
        "Figure 1": {
            "unsupervised": LSDR(2, reconstruction_share=1 - 1e-6, classifier_penalty=0.1, **small),
            "LSDR": LSDR(2, reconstruction_share=0.4, classifier_penalty=1e-4, **small),
        },
        "Figure 2": {
            "LSDR": LSDR(2, classifier_penalty=2.0, **large),
            "NSDR": NSDR(2, degree=3, C=0.5, gamma=1.0, **large),
        },
    }
    for part, (X, y) in small_sets().items():
        for method, model in models[part].items():
            key = row_key(part, Data("made", X, y, "generated"), method, 0)
            if results.has(**key | {"parameters": "error"}):
                continue
            fitted = model.fit(X, y)
            for i in range(len(X)):
                for axis in (0, 1):
                    place = key | {"parameters": words(row=i, axis=axis, truth=y[i])}
                    results.add(**place, ours=float(fitted.embedding_[i, axis]))
            error = float(np.mean(fitted.predict(X) != y))
            # For the embedding of the fit, which the figures show.
            placed = np.column_stack([fitted.embedding_, fitted.row_offsets_])
            found = fitted._decide(fitted._scores_of(placed))
            if method == "unsupervised":  # its own SVM is not used, but the best line
                line = SVC(kernel="linear", C=1e6, max_iter=10**6)
                found = line.fit(placed[:, :2], y).predict(placed[:, :2])
            shown = float(np.mean(found != y))
            results.add(**key | {"parameters": "error"}, ours=shown, relative=error)


def convergence(results: Results, plan: Plan) -> None:
    """Write both parts of the objective and both errors on ionosphere after several numbers of iterations."""
    data = read("ionosphere", plan.most_rows)
    train, test = folds(data, plan.folds)[0]
    few = np.full(len(data.y), -1)
    few[train] = data.y[train]
    for count in plan.iterations:
        key = partial(row_key, "Figure 3", data, seed=0, iterations=count)
        if results.has(**key(method="test error")):
            continue
        model = NSDR(**FIGURE_3, **PAPER, gamma=1.0, max_iter=count, tol=0.0).fit(data.X, few)
        weights = {"reconstruction_share": 1.0, "row_penalty": 0.0, "basis_penalty": 0.0}
        factors = model.embedding_, model.row_offsets_, model.components_, model.column_offsets_
        misfit = factor_cost(data.X, *factors, **weights)
        placed = np.column_stack(factors[:2])
        size = sum(float(np.vdot(a, a)) for a in factors[:3])
        penalty = FIGURE_3["row_penalty"] * size  # both penalties are the same
        b = model.reconstruction_share
        rows = {
            "reconstruction": misfit,
            "classification": (model.objective_[-1] - b * misfit - penalty) / (1 - b),
            "train error": np.mean(model._decide(model._scores_of(placed))[train] != data.y[train]),
            "train error, as new rows": np.mean(model.predict(data.X[train]) != data.y[train]),
            "test error": np.mean(model.transduction_[test] != data.y[test]),
        }
        for method, value in rows.items():
            results.add(**key(method=method), ours=float(value))


def sensitivity(results: Results, plan: Plan) -> None:
    """Write the mean error over folds on spect by both penalties, and by C and the degree."""
    data = read("spect", plan.most_rows)
    points = [{"row_penalty": u, "basis_penalty": v} for u in plan.penalties for v in plan.penalties]
    points += [{"C": C, "degree": p} for C in (0.01, 0.1, 1.0, 10.0, 100.0) for p in (1, 2, 3, 4)]
    for point in points:
        key = row_key("Figure 4", data, "NSDR", 0, **point)
        if not results.has(**key):
            halves, options = folds(data, plan.folds), FIGURE_4 | point
            found = [errors("NSDR", data, *fold, options, plan.max_iter) for fold in halves]
            results.add(**key, ours=float(np.mean(found)))


PARTS: dict[str, Callable[[Results, Plan], None]] = {
    "table": table_2,
    "given": table_2_as_given,
    "pictures": pictures,
    "convergence": convergence,
    "sensitivity": sensitivity,
}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, write the report, and return its path."""
    return experiment(__doc__, "nsdr", Plan(), QUICK, PARTS, write_report, arguments, sets=TABLE_2)


if __name__ == "__main__":
    main()
