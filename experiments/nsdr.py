"""Table 2 and Figures 1 to 4 of Grabocka & Schmidt-Thieme: NSDR and LSDR beside SVMs with and without PCA.

    python experiments/nsdr.py              everything, half an hour on one core
    python experiments/nsdr.py --quick      a small test, seconds

`--parts` and `--sets` select parts; `--help` lists them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from common import Report, experiment, seconds
from data_sets import Data, masked, rng_of
from labelfold.factorization._lsdr import LSDR
from labelfold.factorization._nsdr import NSDR
from labelfold.factorization._offset_model import factor_cost
from nsdr_sets import (
    FILES,
    GRIDS,
    METHODS,
    PAPER,
    PENALTIES,
    PUBLISHED,
    TABLE_1,
    TABLE_1_NAMES,
    folds,
    read,
    small_sets,
)
from result_rows import Results, Row, grouped, parameter, row_key, spread, values, words

FACTORS = ("n_components", "row_penalty", "basis_penalty", "reconstruction_share", "C", "degree")
FIGURE_3 = dict(zip(FACTORS, (25, 1e-5, 1e-5, 0.7, 1.0, 1), strict=True))
FIGURE_4 = dict(zip(FACTORS, (11, 1e-6, 1e-5, 0.9, 0.1, 2), strict=True))


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = tuple(FILES)
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


def candidates(method: str, data: Data, seed: int, tries: int) -> list[dict[str, Any]]:
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
    data: Data,
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
    few = masked(y, known)
    if "share" in options:
        options["n_components"] = max(1, round(options.pop("share") * X.shape[1]))
    limits = {"max_iter": min(options.pop("iterations", max_iter), max_iter), "tol": 1e-4}
    if method == "NSDR":
        model = NSDR(**options, **limits, **PAPER, gamma=1.0)
    else:
        model = LSDR(loss=method.split(", ")[1].replace(" ", "_"), **options, **limits, **PAPER)
    return float(np.mean(model.fit(X, few).transduction_[asked] != y[asked]))


def choose(method: str, data: Data, train: np.ndarray, seed: int, plan: Plan) -> tuple[dict[str, Any], float]:
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
                value, _ = PUBLISHED.get((name, method, ""), ("", None))
                results.add(**key, published=value, ours=error, seconds=spent)


def table_2_as_given(results: Results, plan: Plan) -> None:
    """Write the test errors with the parameters that the paper chose, without a search."""
    for name in plan.sets:
        data = read(name, plan.most_rows)
        for method, chosen in zip(TABLE_1_NAMES, TABLE_1[name], strict=True):
            options = dict(zip(TABLE_1_NAMES[method], chosen, strict=True))
            for seed, (train, test) in enumerate(folds(data, plan.folds)):
                key = row_key("Table 2, the paper's parameters", data, method, seed, **options)
                if not results.has(**key):
                    error = errors(method, data, train, test, options, plan.max_iter)
                    results.add(published=PUBLISHED[name, method, ""].value, ours=error, **key)


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
    few = masked(data.y, train)
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


def write_report(page: Report, results: Results) -> None:
    """Make the page from the rows alone."""
    page.text(
        "# LSDR and NSDR",
        "Table 2 and Figures 1 to 4 of J. Grabocka, L. Schmidt-Thieme, *Learning through non-linearly supervised "
        "dimensionality reduction*. Made by `python experiments/nsdr.py` from `nsdr.csv`.",
    )
    _report_table(page, results)
    _report_pictures(page, results)
    _report_convergence(page, results)
    _report_sensitivity(page, results)


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
    sets = grouped(rows, "dataset")
    names = [name for name in FILES if name in sets]
    page.grid("set", names, METHODS, lambda name, method: _cell(rows, name, method))
    given = results.select(part="Table 2, the paper's parameters")
    if given:
        page.text("The same folds with the parameters of the paper's Table 1, nothing searched:")
        names = [name for name in FILES if name in grouped(given, "dataset")]
        page.grid("set", names, list(TABLE_1_NAMES), lambda name, method: _cell(given, name, method))
    page.text("Seconds of processor time that a search took, mean over sets and folds:")
    spent = [f"{values([r for r in rows if r['method'] == m], 'seconds').mean():.2f}" for m in METHODS]
    page.table(METHODS, [spent])
    page.text("### Table 1: what was chosen", "For each method and set, fold by fold.")
    chosen = grouped(results.select(part="Table 1"), "dataset", "method")
    lines = []
    for place in itertools.product(FILES, METHODS):
        own = sorted(chosen.get(place, []), key=lambda row: int(row["seed"]))
        if own:
            cells = [f"{row['parameters']} ({float(row['ours']):.3f})" for row in own]
            lines.append((", ".join(place), "; ".join(cells)))
    page.table(["set, method", "parameters (validation error)"], lines)


def _cell(rows: list[Row], name: str, method: str) -> str:
    """Return the mean error over folds and its deviation, and the published ones."""
    cell = spread([row for row in rows if (row["dataset"], row["method"]) == (name, method)], 3)
    if (paper := PUBLISHED.get((name, method, ""))) is not None:
        cell += " ({:.3f} ± {:.3f})".format(*paper)
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
            titles = ["a) the data", "b) and noise"]
            titles += [f"{c}) {row['method']}" for c, row in zip("cd", rows, strict=True)]
            for axis, title in zip(axes, titles, strict=True):
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
        errors = ("train error", "train error, as new rows", "test error")
        for axis, methods in zip(axes, (("reconstruction", "classification"), errors), strict=True):
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


main = experiment(__doc__, "nsdr", Plan(), QUICK, PARTS, write_report, sets=FILES)

if __name__ == "__main__":
    main()
