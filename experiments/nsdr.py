"""Table 2 and Figures 1 to 4 of Grabocka & Schmidt-Thieme: NSDR and LSDR beside SVMs with and without PCA.

    python experiments/nsdr.py              everything, half an hour on one core
    python experiments/nsdr.py --quick      a small test, seconds

Real data comes from the folder LABELFOLD_DATA (see DATA.md); otherwise every set is generated with its shape. Each
number is written to nsdr.csv as soon as it is known, and a re-run computes only missing ones; nsdr.md is written from
the CSV file.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from common import (
    Report,
    Results,
    dense_classes,
    load,
    one_thread,
    parameter,
    result_folder,
    rng_of,
    seconds,
    words,
)
from labelfold.factorization._lsdr import LSDR
from labelfold.factorization._nsdr import NSDR
from labelfold.factorization._offset_model import factor_cost

# Error and its deviation: NSDR, LSDR (smooth hinge), PCA-SVMs, SVMs.
TABLE_2 = {
    "breast_cancer_w": ((0.070, 0.018), (0.122, 0.013), (0.082, 0.019), (0.073, 0.021)),
    "ionosphere": ((0.066, 0.008), (0.097, 0.016), (0.091, 0.010), (0.140, 0.018)),
    "pi-diabetes": ((0.264, 0.023), (0.279, 0.016), (0.280, 0.006), (0.274, 0.030)),
    "sonar": ((0.106, 0.041), (0.188, 0.042), (0.226, 0.129), (0.226, 0.056)),
    "spect": ((0.138, 0.051), (0.142, 0.056), (0.243, 0.103), (0.206, 0.002)),
}
METHODS = ("NSDR", "LSDR, smooth hinge", "LSDR, logistic", "LSDR, squared", "PCA-SVMs", "SVMs")
PUBLISHED = {"NSDR": 0, "LSDR, smooth hinge": 1, "PCA-SVMs": 2, "SVMs": 3}
FILES = {
    "breast_cancer_w": ("breast_cancer_wisconsin_original", 683, 9),
    "ionosphere": ("ionosphere", 351, 34),
    "pi-diabetes": ("pima", 768, 8),
    "sonar": ("sonar", 208, 60),
    "spect": ("spect", 267, 22),
}
# The paper's ranges. It states none for lambda W, which is 0.1, 1 and 10 in its Table 1. Its two learning rates
# determine the length of a descent; here the number of iterations does.
PENALTIES = tuple(10.0**e for e in range(-6, 2))
# In its model row offsets have the unit of X.
PAPER = {"offset_unit": 1.0}
FACTORS = {
    "row_penalty": PENALTIES,
    "basis_penalty": PENALTIES,
    "share": (0.25, 0.5, 0.75, 1.0),
    "iterations": (10, 30),
}
BETA = {"reconstruction_share": (0.1, 0.5, 0.9)}
MACHINE = {"C": (0.1, 1.0, 10.0), "degree": (1, 2, 3, 4)}
GRIDS = {
    "NSDR": FACTORS | BETA | MACHINE,
    "LSDR": FACTORS | BETA | {"classifier_penalty": (0.1, 1.0, 10.0)},
    "PCA-SVMs": {"variance": (0.5, 0.7, 1.0)} | MACHINE,
    "SVMs": MACHINE,
}
# The paper's own choice for every set, in the order of TABLE_1_NAMES. It does not state NSDR's components for
# ionosphere; they are those of LSDR, which its Figure 3 also uses for NSDR.
TABLE_1 = {
    "breast_cancer_w": ((9, 1e-2, 1.0, 0.9, 10.0, 2), (6, 1e-4, 1e-5, 0.1, 1.0), (1.0, 10.0, 2), (10.0, 2)),
    "ionosphere": ((25, 1e-6, 1e-6, 0.9, 10.0, 2), (25, 1e-6, 1e-5, 0.9, 1.0), (1.0, 1.0, 3), (0.1, 2)),
    "pi-diabetes": ((6, 1e-4, 1.0, 0.1, 0.1, 3), (6, 1e-6, 1e-3, 0.9, 0.1), (1.0, 1.0, 3), (10.0, 3)),
    "sonar": ((60, 1e-2, 1.0, 0.1, 0.1, 2), (45, 1e-6, 1.0, 0.5, 10.0), (0.7, 10.0, 2), (0.1, 3)),
    "spect": ((22, 1e-2, 1e-5, 0.5, 0.1, 3), (16, 1e-2, 1.0, 0.5, 0.1), (1.0, 1.0, 3), (0.1, 2)),
}
TABLE_1_NAMES = {
    "NSDR": ("n_components", "row_penalty", "basis_penalty", "reconstruction_share", "C", "degree"),
    "LSDR, smooth hinge": (
        "n_components",
        "row_penalty",
        "basis_penalty",
        "reconstruction_share",
        "classifier_penalty",
    ),
    "PCA-SVMs": ("variance", "C", "degree"),
    "SVMs": ("C", "degree"),
}
FIGURE_3 = {
    "n_components": 25,
    "row_penalty": 1e-5,
    "basis_penalty": 1e-5,
    "reconstruction_share": 0.7,
    "C": 1.0,
    "degree": 1,
}
FIGURE_4 = {
    "n_components": 11,
    "row_penalty": 1e-6,
    "basis_penalty": 1e-5,
    "reconstruction_share": 0.9,
    "C": 0.1,
    "degree": 2,
}


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


class TwoClasses(NamedTuple):
    """Rows of two classes, with standardised columns."""

    name: str
    X: np.ndarray
    y: np.ndarray
    source: str


@cache
def read(name: str, most_rows: int | None) -> TwoClasses:
    """Return a set by its name in the paper; rows with missing values are left out."""
    file, n, d = FILES[name]
    data = load(file, lambda rng: dense_classes(rng, n, d, 2))
    whole = np.isfinite(data.X).all(axis=1)
    X, y = data.X[whole], (data.y[whole] == data.y.max()).astype(int)
    if most_rows is not None:
        kept = rng_of("rows", name).permutation(len(y))[:most_rows]
        X, y = X[kept], y[kept]
    spread = X.std(axis=0)
    return TwoClasses(name, (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y, data.source)


def folds(data: TwoClasses, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows of each fold."""
    return list(StratifiedKFold(count, shuffle=True, random_state=0).split(data.X, data.y))


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
                key = {"dataset": name, "source": data.source, "method": method, "seed": seed}
                budget = words(tries=plan.tries, finalists=plan.finalists, splits=plan.splits)
                if results.has(part="Table 2", parameters=budget, **key):
                    continue
                spent, (options, validation) = seconds(lambda: choose(method, data, train, seed, plan))  # noqa: B023
                error = errors(method, data, train, test, options, plan.max_iter)
                chosen = {"part": "Table 1", "parameters": words(**options), **key}
                if not results.has(**chosen):
                    results.add(**chosen, ours=validation)
                published = TABLE_2[name][PUBLISHED[method]][0] if method in PUBLISHED else ""
                results.add(
                    part="Table 2", parameters=budget, published=published, ours=error, seconds=spent, **key
                )
        print(f"Table 2: {name} done", flush=True)


def table_2_as_given(results: Results, plan: Plan) -> None:
    """Write the test errors with the parameters that the paper chose, without a search."""
    for name in plan.sets:
        data = read(name, plan.most_rows)
        for method, values in zip(TABLE_1_NAMES, TABLE_1[name], strict=True):
            options = dict(zip(TABLE_1_NAMES[method], values, strict=True))
            for seed, (train, test) in enumerate(folds(data, plan.folds)):
                key = {"dataset": name, "source": data.source, "method": method, "seed": seed}
                key |= {"part": "Table 2, the paper's parameters", "parameters": words(**options)}
                if not results.has(**key):
                    error = errors(method, data, train, test, options, plan.max_iter)
                    published = TABLE_2[name][PUBLISHED[method]][0]
                    results.add(published=published, ours=error, **key)


def small_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return two small sets, one linearly separable and one not; the last column is noise."""
    rng = rng_of("pictures")
    along = np.linspace(-1, 1, 5)
    flat = np.array([[x, 0.3 * x + s * 0.25] for s in (1, -1) for x in along])
    line = np.column_stack([flat + 0.02 * rng.standard_normal(flat.shape), rng.uniform(-1, 1, 10)])
    angle, radius = rng.uniform(0, 2 * np.pi, 40), np.where(np.arange(40) < 20, 0.35, 1.0)
    curve = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), rng.uniform(-1, 1, 40)])
    return {"Figure 1": (line, np.arange(10) // 5), "Figure 2": (curve, np.arange(40) // 20)}


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
            key = {"part": part, "dataset": "made", "source": "generated", "method": method, "seed": 0}
            if results.has(parameters="error", **key):
                continue
            fitted = model.fit(X, y)
            for i in range(len(X)):
                for axis in (0, 1):
                    name = words(row=i, axis=axis, truth=y[i])
                    if not results.has(parameters=name, **key):
                        results.add(parameters=name, ours=float(fitted.embedding_[i, axis]), **key)
            error = float(np.mean(fitted.predict(X) != y))
            # For the embedding of the fit, which the figures show.
            placed = np.column_stack([fitted.embedding_, fitted.row_offsets_])
            found = fitted._decide(fitted._scores_of(placed))
            if method == "unsupervised":  # its own SVM is not used, but the best line
                found = (
                    SVC(kernel="linear", C=1e6, max_iter=10**6).fit(placed[:, :2], y).predict(placed[:, :2])
                )
            shown = float(np.mean(found != y))
            results.add(parameters="error", ours=shown, relative=error, **key)


def convergence(results: Results, plan: Plan) -> None:
    """Write both parts of the objective and both errors on ionosphere after several numbers of iterations."""
    data = read("ionosphere", plan.most_rows)
    train, test = folds(data, plan.folds)[0]
    few = np.full(len(data.y), -1)
    few[train] = data.y[train]
    for count in plan.iterations:
        key = {"part": "Figure 3", "dataset": data.name, "source": data.source, "seed": 0}
        key["parameters"] = words(iterations=count)
        if results.has(method="test error", **key):
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
            if not results.has(method=method, **key):
                results.add(method=method, ours=float(value), **key)


def sensitivity(results: Results, plan: Plan) -> None:
    """Write the mean error over folds on spect by both penalties, and by C and the degree."""
    data = read("spect", plan.most_rows)
    points = [{"row_penalty": u, "basis_penalty": v} for u in plan.penalties for v in plan.penalties]
    points += [{"C": C, "degree": p} for C in (0.01, 0.1, 1.0, 10.0, 100.0) for p in (1, 2, 3, 4)]
    for point in points:
        key = {"part": "Figure 4", "dataset": data.name, "source": data.source, "method": "NSDR", "seed": 0}
        key["parameters"] = words(**point)
        if results.has(**key):
            continue
        options = FIGURE_4 | point
        spent, found = seconds(
            lambda: [errors("NSDR", data, a, b, options, plan.max_iter) for a, b in folds(data, plan.folds)]  # noqa: B023
        )
        results.add(**key, ours=float(np.mean(found)), seconds=spent)


def write_report(results: Results, path: Path) -> None:
    """Write the page from the rows alone."""
    page = Report(path)
    page.text(
        "# LSDR and NSDR",
        "Table 2 and Figures 1 to 4 of J. Grabocka, L. Schmidt-Thieme, *Learning through non-linearly supervised "
        "dimensionality reduction*. Made by `python experiments/nsdr.py` from `nsdr.csv`.",
    )
    _report_table(page, results)
    _report_pictures(page, results)
    _report_convergence(page, results)
    _report_sensitivity(page, results)
    page.write()


def _report_table(page: Report, results: Results) -> None:
    rows = results.select(part="Table 2")
    if not rows:
        return
    tries, finalists, splits = (parameter(rows[0], name) for name in ("tries", "finalists", "splits"))
    n_folds = len({row["seed"] for row in rows})
    page.text(
        "## Table 2: error on the test part",
        f"Mean over {n_folds} folds ± standard deviation (the paper's in brackets). Columns are standardised over "
        "all rows, and rows with missing values left out. Parameters are chosen inside the training part, with the "
        f"same budget for every method: {tries} points of the paper's grid drawn at random, or all where it has no "
        "more, are fitted with ten iterations and judged on a quarter of the training part; the best "
        f"{finalists} are fitted in full and judged on {splits} such splits. The factorisations see the test rows "
        "without labels, as in the paper. The paper's grid has learning rates, which say how far its descent comes; "
        "here the number of iterations, 10 or 30, is chosen in their place.",
    )
    lines = [
        [name, *(_cell(rows, name, method) for method in METHODS)]
        for name in TABLE_2
        if any(r["dataset"] == name for r in rows)
    ]
    page.table(["set", *METHODS], lines)
    given = results.select(part="Table 2, the paper's parameters")
    if given:
        page.text("The same folds with the parameters of the paper's Table 1, nothing searched:")
        page.table(
            ["set", *TABLE_1_NAMES],
            [
                [name, *(_cell(given, name, method) for method in TABLE_1_NAMES)]
                for name in TABLE_2
                if any(r["dataset"] == name for r in given)
            ],
        )
    page.text("Seconds of processor time that a search took, mean over sets and folds:")
    spent = [np.mean([float(r["seconds"]) for r in rows if r["method"] == m] or [np.nan]) for m in METHODS]
    page.table(METHODS, [[f"{s:.2f}" for s in spent]])
    page.text("### Table 1: what was chosen", "For each method and set, fold by fold.")
    chosen = results.select(part="Table 1")
    page.table(
        ["set, method", "parameters (validation error)"],
        [
            (
                f"{name}, {method}",
                "; ".join(
                    f"{r['parameters']} ({float(r['ours']):.3f})"
                    for r in chosen
                    if (r["dataset"], r["method"]) == (name, method)
                ),
            )
            for name in TABLE_2
            for method in METHODS
            if any((r["dataset"], r["method"]) == (name, method) for r in chosen)
        ],
    )


def _cell(rows: list[dict[str, str]], name: str, method: str) -> str:
    """Return the mean error over folds with its standard deviation, and the published ones."""
    found = [float(r["ours"]) for r in rows if (r["dataset"], r["method"]) == (name, method)]
    cell = f"{np.mean(found):.3f} ± {np.std(found):.3f}" if found else ""
    if method in PUBLISHED:
        cell += " ({:.3f} ± {:.3f})".format(*TABLE_2[name][PUBLISHED[method]])
    return cell


def _points(results: Results, part: str, method: str) -> tuple[np.ndarray, np.ndarray]:
    rows = [r for r in results.select(part=part, method=method) if r["parameters"] != "error"]
    count = len(rows) // 2
    U, y = np.zeros((count, 2)), np.zeros(count, dtype=int)
    for row in rows:
        i, axis = int(parameter(row, "row")), int(parameter(row, "axis"))
        U[i, axis], y[i] = float(row["ours"]), int(parameter(row, "truth"))
    return U, y


def _report_pictures(page: Report, results: Results) -> None:
    made = small_sets()
    texts = {
        "Figure 1": "Ten rows that a line parts, and a column of noise; reduced back to two dimensions without "
        "labels, and by LSDR (smooth hinge). Machines also see the row offset, which is not drawn.",
        "Figure 2": "Forty rows that a curve parts, and a column of noise; reduced back by LSDR and by NSDR of "
        "degree 3.",
    }
    for part, text in texts.items():
        rows = results.select(part=part, parameters="error")
        if not rows:
            continue
        page.text(f"## {part}", text)
        page.table(
            ["method", "error where the fit placed the rows", "error as new rows"],
            [(r["method"], f"{float(r['ours']):.2f}", f"{float(r['relative']):.2f}") for r in rows],
        )

        def draw(plt: Any, part: str = part, rows: list = rows) -> Any:
            X, y = made[part]
            figure = plt.figure(figsize=(12, 3.2), layout="constrained")
            axes = [figure.add_subplot(1, 4, i + 1, projection="3d" if i == 1 else None) for i in range(4)]
            for side, color in ((0, "tab:blue"), (1, "tab:red")):
                axes[0].scatter(*X[y == side, :2].T, c=color, s=18)
                axes[1].scatter(*X[y == side].T, c=color, s=14)
                for axis, row in zip(axes[2:], rows, strict=True):
                    U, truth = _points(results, part, row["method"])
                    axis.scatter(*U[truth == side].T, c=color, s=18)
            for axis, title in zip(
                axes,
                [
                    "a) the data",
                    "b) and noise",
                    *(f"{c}) {r['method']}" for c, r in zip("cd", rows, strict=True)),
                ],
                strict=True,
            ):
                axis.set_title(title, fontsize=10)
                axis.tick_params(labelsize=7)
            return figure

        page.figure(f"nsdr_{part.lower().replace(' ', '_')}", text, draw)


def _report_convergence(page: Report, results: Results) -> None:
    rows = results.select(part="Figure 3")
    if not rows:
        return
    caption = "Ionosphere, C = 1, degree 1, beta 0.7, both penalties 1e-5, 25 components: parts of the objective, and"
    page.text(
        "## Figure 3: convergence",
        "With penalties this small, labelled rows move far from where their entries would put them for next to "
        "nothing: the labels soon cost nothing and the rows are parted where they were placed, but rows that are "
        "placed without labels, test rows and training rows as new ones, are told apart less and less. A slow "
        "descent stops long before that.",
    )

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
        for axis, methods in zip(
            axes,
            (
                ("reconstruction", "classification"),
                ("train error", "train error, as new rows", "test error"),
            ),
            strict=True,
        ):
            for method in methods:
                here = [r for r in rows if r["method"] == method]
                x = [int(parameter(r, "iterations")) for r in here]
                axis.plot(x, [float(r["ours"]) for r in here], "o-", ms=3, label=method)
            axis.set(xlabel="iterations", xscale="log", ylim=(0, None))
            axis.legend()
        return figure

    page.figure("nsdr_figure_3", f"{caption} the errors.", draw)


def _report_sensitivity(page: Report, results: Results) -> None:
    rows = results.select(part="Figure 4")
    if not rows:
        return
    page.text(
        "## Figure 4: sensitivity",
        "Mean error over the folds of spect, all else as the paper's caption has it.",
    )
    pairs = ("row_penalty", "basis_penalty"), ("C", "degree")

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
        for axis, names in zip(axes, pairs, strict=True):
            here = [r for r in rows if r["parameters"].startswith(names[0])]
            values = [sorted({float(parameter(r, name)) for r in here}) for name in names]
            grid = np.full([len(v) for v in values], np.nan)
            for r in here:
                at = tuple(v.index(float(parameter(r, name))) for v, name in zip(values, names, strict=True))
                grid[at] = float(r["ours"])
            image = axis.imshow(grid.T, origin="lower", cmap="viridis", aspect="auto")
            axis.set_xticks(range(len(values[0])), [f"{v:g}" for v in values[0]], fontsize=7)
            axis.set_yticks(range(len(values[1])), [f"{v:g}" for v in values[1]], fontsize=7)
            axis.set(xlabel=names[0], ylabel=names[1])
            figure.colorbar(image, ax=axis, label="error")
        return figure

    page.figure(
        "nsdr_figure_4", "Error on spect by both penalties, and by C and the degree of the kernel.", draw
    )


PARTS: dict[str, Callable[[Results, Plan], None]] = {
    "table": table_2,
    "given": table_2_as_given,
    "pictures": pictures,
    "convergence": convergence,
    "sensitivity": sensitivity,
}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, write the report, and return its path."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small pieces of everything, seconds")
    parser.add_argument("--output", help="folder for the results")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=TABLE_2)
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    if options.sets:
        plan = Plan(**(vars(plan) | {"sets": tuple(options.sets)}))
    folder = result_folder(options.quick, options.output)
    results = Results(folder / "nsdr.csv")
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in options.parts:
            PARTS[part](results, plan)
    write_report(results, folder / "nsdr.md")
    print(f"Report: {folder / 'nsdr.md'}")
    return folder / "nsdr.md"


if __name__ == "__main__":
    main()
