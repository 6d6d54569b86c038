"""Tables 1 and 3 and Figures 1 to 4 of Zhang, Hou, Xiang & Liu (ECML PKDD 2009): PCA-LS beside six other methods.

    python experiments/subspace.py              everything, about an hour on one core
    python experiments/subspace.py --quick      a small test, seconds

The methods are in subspace_methods.py.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from scipy import linalg

from common import experiment
from data_sets import Data, complete, load, masked, reduced, rng_of, several_classes
from labelfold import PCALS
from result_rows import Results, published, row_key, words
from subspace_choice import (
    AUTO,
    BEST_RULE,
    FIRST_SEED,
    FOLDS,
    LIBRARY_RULE,
    PAPER_RULE,
    REPEATS,
    choices,
    fits,
    fold_tasks,
    rules,
    weigh,
)
from subspace_methods import (
    CAUSE,
    HINDSIGHT,
    METHODS,
    MOST,
    N_LANDMARKS,
    NEIGHBOURS,
    PENALTIES,
    REGISTERED,
    SIZES,
    SUFFIX,
    TRIED,
    WHOLE,
    WIDTHS,
    Rows,
    Task,
    check,
    pursuits,
    share_right,
    smooth_linear,
    toy,
    toy_model,
)
from subspace_report import write_report

# Sets of the kernel form; on the others the paper's choice is already better than the paper.
KERNEL_SETS = ("Breast-cancer", "Waveform", "Image", "USPS", "BCI", "Text")
LIBRARY_SIZES = tuple(range(1, 33))
ALPHAS = (0.1, 0.5, 0.9, 0.99, 0.999)  # of LLGC, among the causes
Made = Iterator[tuple[int, str, float, Any]]
"""Of a cause: the index of a draw, a configuration, the accuracy (%) on unlabelled rows, and words beside it."""
# Number of draws computed at once: all if kernels and graphs take most of the time, two if the pursuits do.
TOGETHER = {"PCA-LS": 2, "KPCA-LS": 2}
MOST_AT_ONCE = 3000  # rows; with more, all draws at once, since decompositions are as slow
TABLE_1 = ("G241c", "G241d")
# Sets on which all configurations of LapRLS are tried. With a kernel: the small ones.
WHOLE_SETS = {
    "LapRLS": ("G241c", "G241d", "Breast-cancer", "BCI", "USPS", "Text", "Image", "Waveform"),
    "KLapRLS": ("Breast-cancer", "BCI"),
}
# The file of each set.
FILES = {
    "G241c": "ssl_g241c",
    "G241d": "ssl_g241d",
    "Breast-cancer": "breast_cancer_ljubljana",
    "BCI": "ssl_BCI",
    "USPS": "ssl_USPS",
    "Text": "ssl_Text",
    "Image": "ida_image",
    "Waveform": "ida_waveform",
    "SecStr": "ssl_SecStr",
}


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = tuple(FILES)
    methods: tuple[str, ...] = tuple(METHODS)
    splits: int = 10
    labels: int = 50
    many_labels: int = 500  # labels of the large set
    configurations: int = MOST
    all_configurations: int = 900
    n_landmarks: int = N_LANDMARKS
    most_rows: int | None = None
    toy_rows: int = 200  # rows of each class
    sizes: tuple[int, ...] = SIZES
    robust_weights: tuple[float, ...] = tuple(sorted(PENALTIES))
    robust_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    toy_sizes: tuple[int, ...] = (1, 2, 4, 8, 16)
    toy_widths: tuple[float, ...] = WIDTHS
    choice_sets: int | None = None  # so many of the sets on which rules are compared


QUICK = Plan(
    splits=2,
    labels=30,
    many_labels=40,
    configurations=4,
    all_configurations=8,
    n_landmarks=25,
    most_rows=120,
    toy_rows=40,
    sizes=(1, 2),
    robust_weights=(0.01, 1.0),
    robust_sizes=(1, 2),
    toy_sizes=(1, 2),
    toy_widths=(1.0, 0.25),
    choice_sets=1,
)


@lru_cache(maxsize=1)
def read(name: str, plan: Plan) -> Rows:
    """Return a set by its name in the paper; only the last one is cached, since its kernels are large."""
    data = load(FILES[name], rows=plan.most_rows, columns=None if plan.most_rows is None else 400)
    X, y = complete(data.X, np.where(data.y > 0, 1.0, -1.0))
    if name == "Breast-cancer" and data.source == "real":
        X = (X - X.mean(axis=0)) / X.std(axis=0)  # as in the sources of Image and Waveform
    X, y = reduced(X, y, plan.most_rows, "rows", name)
    return Rows(name, data.source, X, y, name == "SecStr", plan.n_landmarks, plan.configurations, plan.sizes)


def draw(data: Rows, count: int, seed: int) -> np.ndarray:
    """Return random rows to be labelled, with both classes among them."""
    return np.sort(several_classes(rng_of("labels", data.name, count, seed), data.y, count))


def tasks_of(data: Rows, known: np.ndarray, seed: int) -> list[Task]:
    """Return the complete task, to label all other rows, and a task for each fold of the labelled rows."""
    others = np.setdiff1d(np.arange(len(data.y)), known)
    return [Task(known, others), *fold_tasks(data, known, seed, 1)]


def drawn(data: Rows, plan: Plan, seed: int) -> list[Task]:
    """Return the tasks of a draw of as many labels as the plan has for a set."""
    return tasks_of(data, draw(data, labels_of(data, plan), seed), seed)


def accuracies(data: Rows, found: Any, tasks: Sequence[Task]) -> dict[str, np.ndarray]:
    """Return the accuracy (%) of each configuration on each task."""
    right: dict[str, np.ndarray] = defaultdict(lambda: np.full(len(tasks), np.nan))
    for config, i, values in found:
        right[config][i] = share_right(data, tasks[i], values)
    return right


def labels_of(data: Rows, plan: Plan) -> int:
    """Return the number of labelled rows."""
    return plan.many_labels if data.large else plan.labels


def table_of(name: str) -> str:
    """Return the table of the paper that has a set."""
    return "Table 1" if name in TABLE_1 else "Table 3"


def table_value(name: str, method: str) -> float | None:
    """Return the accuracy (%) in the paper, if any."""
    cells = {key[:2]: cell.value for key, cell in published("pca-ls", table_of(name)).items()}
    return cells.get((name, method))


def tables(results: Results, plan: Plan) -> None:
    """Accuracy on unlabelled rows with parameters from cross-validation, by set and method."""
    for name in plan.sets:
        _table(results, plan, name, plan.methods)


def whole_grids(results: Results, plan: Plan) -> None:
    """Tables 1 and 3 with all configurations of LapRLS and KLapRLS, where that takes minutes."""
    plan = replace(plan, configurations=plan.all_configurations)
    for name in plan.sets:
        methods = [m for m, sets in WHOLE_SETS.items() if m in plan.methods and name in sets]
        _table(results, plan, name, methods, WHOLE)


def _table(results: Results, plan: Plan, name: str, methods: Sequence[str], suffix: str = "") -> None:
    """Write the rows of one set."""
    data = read(name, plan) if methods else None
    for method in methods:
        key = row_key(table_of(name) + suffix, data, method, 0)
        seeds = missing(results, key, range(plan.splits))
        step = TOGETHER.get(method, len(seeds)) if len(data.y) <= MOST_AT_ONCE else len(seeds)
        for start in range(0, len(seeds), step or 1):
            _some_draws(results, data, key, plan, seeds[start : start + step])


def missing(results: Results, key: dict[str, Any], seeds: Iterable[int]) -> list[int]:
    """Return the seeds for which a method has no row of this part and set."""
    names = ("part", "dataset", "source", "method")
    there = {row["seed"] for row in results.select(**{name: key[name] for name in names})}
    return [seed for seed in seeds if str(seed) not in there]


def _some_draws(results: Results, data: Rows, key: dict[str, Any], plan: Plan, seeds: list[int]) -> None:
    """Write the rows of some draws of one method."""
    groups = [drawn(data, plan, seed) for seed in seeds]
    run = METHODS[key["method"]]
    # A pursuit is expensive, and the complete task needs only the chosen configuration. Graphs and kernels give
    # results for all tasks at once.
    later = key["method"] in TOGETHER
    tasks = [task for group in groups for task in group[later:]]
    found = accuracies(data, run(data, tasks), tasks)
    value = table_value(data.name, key["method"])
    size = len(groups[0]) - later
    for place, seed in enumerate(seeds):
        here = slice((place + 1) * size - FOLDS, (place + 1) * size)
        inner = {config: float(np.mean(right[here])) for config, right in found.items()}
        best = max(inner, key=inner.__getitem__)
        ours = found[best][place * size]
        if later:
            whole = groups[place][:1]
            ours = accuracies(data, run(data, whole, best), whole)[best][0]
        about = f"labels={labels_of(data, plan)} tried={len(found)} inner={inner[best]:.1f} {best}"
        row = key | {"seed": seed, "parameters": about, "published": "" if value is None else value}
        results.add(**row, ours=float(ours))
    if key["part"].endswith(WHOLE):
        _in_hindsight(results, key, seeds, {config: right[::size] for config, right in found.items()})


def _in_hindsight(
    results: Results, key: dict[str, str], seeds: list[int], found: dict[str, np.ndarray]
) -> None:
    """Write the accuracy of the configuration that is best in the mean over the draws, and of each draw's best."""
    key = key | {"part": key["part"] + HINDSIGHT}
    fixed = max(found, key=lambda config: float(found[config].mean()))
    for i, seed in enumerate(seeds):
        best = max(found, key=lambda config: float(found[config][i]))
        for rule, config in (("fixed", fixed), ("best", best)):
            row = key | {"seed": seed, "parameters": f"rule={rule} {config}"}
            results.add(**row, ours=float(found[config][i]))


def chosen_by_library(results: Results, plan: Plan) -> None:
    """Tables 1 and 3 as the library chooses: PCALS("cv") as it comes, and the same rule for the kernel form.

    The rule (logarithmic loss, all numbers of directions up to 32, folds drawn three times, the weight "auto") was
    chosen on other sets, see subspace_choice.py. Of the paper's six widths the kernel form takes the one with the
    least loss, which is KernelPCALS("cv", repeats=1) fitted with each width.
    """
    for name in plan.sets:
        data = read(name, plan)
        for method, choose in (("PCA-LS", linear), ("KPCA-LS", kernel)):
            if method not in plan.methods or (method == "KPCA-LS" and name not in KERNEL_SETS):
                continue
            key = row_key(table_of(name) + SUFFIX, data, method, 0)
            for seed in missing(results, key, range(plan.splits)):
                whole = drawn(data, plan, seed)[0]
                sides, about = choose(data, whole.known, seed)
                row = key | {"seed": seed, "parameters": f"{words(labels=len(whole.known))} {about}"}
                value = table_value(name, method)
                right = share_right(data, whole, np.where(sides[whole.asked], 1.0, -1.0))
                results.add(**row, published="" if value is None else value, ours=right)


def linear(data: Rows, known: np.ndarray, seed: int) -> tuple[np.ndarray, str]:
    """Return the side of every row by PCALS("cv"), and what was chosen; wide rows in their principal coordinates."""
    if data.is_wide:
        return _chosen(data, known, fold_tasks(data, known, seed, REPEATS), {"": data.centred})
    y = masked((data.y > 0).astype(int), known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer directions than 32, where the rows have fewer columns
        model = PCALS("cv").fit(data.X, y)
    about = words(p=model.n_components_, reconstruction=float(model.reconstruction_))
    return model.predict(data.X) > 0, about


def kernel(data: Rows, known: np.ndarray, seed: int) -> tuple[np.ndarray, str]:
    """Return the side of every row by the width and number of directions of least loss, and what these are."""
    spaces = {words(kernel_width=width) + " ": data.features(width) for width in WIDTHS}
    return _chosen(data, known, fold_tasks(data, known, seed, 1), spaces)


def _chosen(
    data: Rows, known: np.ndarray, folds: Sequence[Task], spaces: dict[str, np.ndarray]
) -> tuple[np.ndarray, str]:
    """Return the side of every row by the space and number of directions of least loss on the folds, and these.

    Rows have principal coordinates in each space. Pursuits are shared as in the tables.
    """
    lost: dict[tuple[str, int], list[float]] = defaultdict(list)
    weights = {}
    for name, rows in spaces.items():
        weights[name] = AUTO * data.y[known].var() * rows.shape[1] / float(np.einsum("ij,ij->", rows, rows))
        sizes = tuple(p for p in LIBRARY_SIZES if p <= rows.shape[1])
        for text, i, values in pursuits(data, folds, rows, weights[name], sizes, is_principal=True):
            margin = values * data.y[folds[i].asked]
            lost[name, int(text.split("=")[1])].extend(np.logaddexp(0.0, -2 * margin))
    name, p = min(lost, key=lambda key: float(np.mean(lost[key])))
    whole = Task(known, np.arange(len(data.y)))
    made = pursuits(data, [whole], spaces[name], weights[name], (p,), is_principal=True)
    return next(made)[2] > 0, name + words(p=p, reconstruction=float(weights[name]))


def separated(data: Rows, seeds: Sequence[int], groups: Sequence[list[Task]]) -> Made:
    """PCA-LS with the paper's weight or the library's, and the paper's rule for p, the library's or the best p."""
    for (i, seed), weight in product(enumerate(seeds), ("1", "auto")):
        found = fits(data, seed, weight)
        for rule, p in rules(found):
            if rule in (PAPER_RULE, LIBRARY_RULE, BEST_RULE):
                yield i, f"{words(weight=weight)} {rule}", found.accuracy[p - 1], p


def projected(data: Rows, seeds: Sequence[int], groups: Sequence[list[Task]]) -> Made:
    """PCA+RLS with each configuration, and with that which cross-validation takes."""
    for i, tasks in enumerate(groups):
        right = accuracies(data, METHODS["PCA+RLS"](data, tasks), tasks)
        best = max(right, key=lambda config: float(right[config][1:].mean()))
        yield i, words(rule="cv5"), right[best][0], best
        for config, scores in right.items():
            yield i, config, scores[0], ""


def spread_labels(data: Rows, seeds: Sequence[int], groups: Sequence[list[Task]]) -> Made:
    """LLGC by graph, alpha and the weight of labels: each 1, or such that both classes have the same sum."""
    graphs = [(words(graph_width=width), data.rbf(width)) for width in WIDTHS]
    graphs += [(words(neighbours=k), data.neighbours[k].toarray()) for k in NEIGHBOURS]
    Y = np.zeros((len(data.y), len(groups)))
    for i, (task, *_) in enumerate(groups):
        Y[task.known, i] = data.y[task.known]
    even = Y / np.where(Y > 0, (Y > 0).sum(axis=0), (Y < 0).sum(axis=0))
    for text, W in graphs:
        np.fill_diagonal(W, 0.0)
        root = 1 / np.sqrt(np.maximum(W.sum(axis=1), np.finfo(float).tiny))
        eigenvalues, U = linalg.eigh(root[:, None] * W * root, driver="evd")
        for alpha, (labels, given) in product(ALPHAS, (("one", Y), ("even", even))):
            F = U @ ((U.T @ given) / (1 - alpha * eigenvalues)[:, None])
            for i, (task, *_) in enumerate(groups):
                right = share_right(data, task, F[task.asked, i])
                yield i, words(alpha=alpha, labels=labels) + " " + text, right, ""


def smoothed(data: Rows, seeds: Sequence[int], groups: Sequence[list[Task]]) -> Made:
    """LapRLS with the graph's term not divided by the squared number of rows, for small ridges."""
    X, n, tasks = data.centred, len(data.y), [tasks[0] for tasks in groups]
    for width in WIDTHS:
        G = X.T @ (data.laplacian(width) @ X)
        for ridge, smoothness in product(PENALTIES[2:], PENALTIES):
            text = words(ridge=ridge, smoothness=smoothness, divided="no", graph_width=width)
            config = {"ridge": ridge, "smoothness": smoothness * n**2}
            for name, i, said in smooth_linear(X, G, config, text, data.y, tasks):
                yield i, name, share_right(data, tasks[i], said), ""


def kernel_smoothed(data: Rows, seeds: Sequence[int], groups: Sequence[list[Task]]) -> Made:
    """KLapRLS with three times as many configurations as in the tables."""
    tasks = [tasks[0] for tasks in groups]
    for name, i, said in METHODS["KLapRLS"](replace(data, configurations=TRIED), tasks):
        yield i, name, share_right(data, tasks[i], said), ""


# For a method with a missed figure: what is run, the draws of each set, and whether all draws are computed at once.
CAUSES: dict[str, tuple[Callable[..., Made], dict[str, int], bool]] = {
    "PCA-LS": (separated, {"Waveform": 20, "Image": 10}, False),
    "PCA+RLS": (projected, {"USPS": 10, "Image": 10}, False),
    "LLGC": (spread_labels, {"G241d": 10}, True),
    "LapRLS": (smoothed, {"Text": 10}, True),
    "KLapRLS": (kernel_smoothed, {"Text": 10}, True),
}


def causes(results: Results, plan: Plan) -> None:
    """Missed figures once more, on draws that the tables do not report, with other parameters.

    Nothing here was used to choose anything: a row says what a rule or a configuration leads to, in hindsight.
    """
    for name, (method, (run, sets, at_once)) in product(plan.sets, CAUSES.items()):
        if method not in plan.methods or name not in sets:
            continue
        data = read(name, plan)
        wanted = range(FIRST_SEED, FIRST_SEED + min(sets[name], plan.splits * 2))
        seeds = missing(results, row_key(CAUSE, data, method, 0), wanted)
        for some in [seeds] if at_once and seeds else [[seed] for seed in seeds]:
            found = defaultdict(list)
            for i, *row in run(data, some, [drawn(data, plan, seed) for seed in some]):
                found[i].append(row)
            for i, seed in enumerate(some):  # a draw is written whole
                for text, right, beside in found[i]:
                    key = row_key(CAUSE, data, method, seed) | {"parameters": text}
                    results.add(**key, ours=float(right), relative=beside)


def robustness(results: Results, plan: Plan) -> None:
    """Figures 3 and 4: PCA-LS by the weight of reconstruction, at 16 directions, and by directions, at weight 1."""
    for name in plan.sets:
        if name in TABLE_1:
            continue
        data = read(name, plan)
        count = labels_of(data, plan)
        for part, weights, sizes in (
            ("Figure 3", plan.robust_weights, (min(16, max(plan.robust_sizes)),)),
            ("Figure 4", (1.0,), plan.robust_sizes),
        ):
            for weight in weights:
                rows = {
                    (seed, p): row_key(part, data, "PCA-LS", seed, labels=count, reconstruction=weight, p=p)
                    for seed in range(plan.splits)
                    for p in sizes
                }
                seeds = sorted({seed for (seed, _), row in rows.items() if not results.has(**row)})
                if not seeds:
                    continue
                tasks = [tasks_of(data, draw(data, count, seed), seed)[0] for seed in seeds]
                made = pursuits(data, tasks, data.centred, weight, sizes, is_principal=data.is_wide)
                found = accuracies(data, made, tasks)
                for (seed, p), row in rows.items():
                    if seed in seeds:
                        results.add(**row, ours=float(found[words(p=p)][seeds.index(seed)]))


def checks(results: Results, plan: Plan) -> None:
    """Every method once with its public estimator, beside the cached computation; and its time."""
    for name in plan.sets:
        data = read(name, plan)
        count = labels_of(data, plan)
        known = draw(data, count, 0)
        for method in plan.methods:
            key = row_key("Check", data, method, 0)
            rows = results.select(dataset=name, source=data.source, method=method, seed=0)
            rows = [row for row in rows if row["part"] in ("Table 1", "Table 3")]
            if not rows or not missing(results, key, [0]):
                continue
            config = rows[0]["parameters"].split(" ", 3)[3]
            spent, agreement = check(data, method, config, tasks_of(data, known, 0)[0])
            results.add(**key | {"parameters": config}, ours=agreement, seconds=spent)


def figures(results: Results, plan: Plan) -> None:
    """Figures 1 and 2: the best parameters of each method on the two toy sets, chosen as in the paper."""
    grids = {
        "KPCA-LS": [words(kernel_width=w, p=max(plan.toy_sizes)) for w in plan.toy_widths],
        "KLapRLS": [
            words(ridge=r, smoothness=s, kernel_width=w, graph_width=g)
            for r in (1e-2, 1e-4)
            for s in (1.0, 1e2, 1e4)
            for w in plan.toy_widths
            for g in (1 / 2, 1 / 8, 1 / 16)
        ],
    }
    for part, name in (("Figure 1", "Two Gaussians"), ("Figure 2", "Two moons")):
        X, y, few = toy(name, plan.toy_rows)
        for method, grid in grids.items():
            key = row_key(part, Data(name, X, y, "generated"), method, plan.toy_rows)
            if not missing(results, key, [plan.toy_rows]):
                continue
            tried = {}
            for config in grid:
                model = toy_model(method, X, int((few >= 0).sum()), config).fit(X, few)
                if method == "KLapRLS":
                    tried[config] = model.predict(X)
                    continue
                for p in (p for p in plan.toy_sizes if p <= model.n_components_):
                    tried[f"{config.rsplit(' ', 1)[0]} {words(p=p)}"] = model.predict(X, n_components=p)
            right = {config: 100 * float(np.mean(found == y)) for config, found in tried.items()}
            best = max(right, key=right.__getitem__)
            results.add(**key | {"parameters": best}, ours=right[best])


PARTS: dict[str, Callable[[Results, Plan], None]] = {
    "tables": tables,
    "grids": whole_grids,
    "library": chosen_by_library,
    "choices": choices,
    "weights": weigh,
    "causes": causes,
    "robustness": robustness,
    "figures": figures,
    "checks": checks,
}


def method_of(name: str) -> str:
    """Return a method by the paper's name or the library's."""
    if (found := REGISTERED.get(name, name)) not in METHODS:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join((*METHODS, *REGISTERED))}")
    return found


TAKES = {"sets": FILES, "methods": method_of, "splits": int}
main = experiment(__doc__, "subspace", Plan(), QUICK, PARTS, write_report, **TAKES)

if __name__ == "__main__":
    main()
