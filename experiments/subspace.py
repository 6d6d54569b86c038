"""Tables 1 and 3 and Figures 1 to 4 of Zhang, Hou, Xiang & Liu (ECML PKDD 2009): PCA-LS beside six other methods.

    python experiments/subspace.py              everything, about an hour on one core
    python experiments/subspace.py --quick      a small test, seconds

Real data comes from the folder LABELFOLD_DATA (see DATA.md); otherwise every set is generated with its shape. Each
number is written to subspace.csv as soon as it is known, and a re-run computes only missing ones; subspace.md is
written from the CSV file. The methods are in subspace_methods.py.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import StratifiedKFold

from common import experiment
from data_sets import Data, dense_classes, load, masked, rng_of, several_classes, sparse_text
from labelfold import KernelPCALS, LapRLS
from result_rows import Results, published, row_key, words
from subspace_causes import causes
from subspace_checks import check
from subspace_choice import choices
from subspace_library import library
from subspace_methods import (
    HINDSIGHT,
    KERNEL_WEIGHT,
    METHODS,
    MOST,
    N_LANDMARKS,
    PENALTIES,
    REGISTERED,
    SIZES,
    WHOLE,
    WIDTHS,
    Rows,
    Task,
    pursuits,
)
from subspace_weight import weigh

FOLDS = 5
# Number of draws computed at once: all if kernels and graphs take most of the time, two if the pursuits do.
TOGETHER = {"PCA-LS": 2, "KPCA-LS": 2}
MOST_AT_ONCE = 3000  # rows; with more, all draws at once, since decompositions are as slow
TABLE_1 = ("G241c", "G241d")
# Sets on which all configurations of LapRLS are tried. With a kernel: the small ones.
WHOLE_SETS = {
    "LapRLS": ("G241c", "G241d", "Breast-cancer", "BCI", "USPS", "Text", "Image", "Waveform"),
    "KLapRLS": ("Breast-cancer", "BCI"),
}
# The file of each set, and the shape of generated data if it is missing.
FILES = {
    "G241c": ("ssl_g241c", 1500, 241),
    "G241d": ("ssl_g241d", 1500, 241),
    "Breast-cancer": ("breast_cancer_ljubljana", 277, 9),
    "BCI": ("ssl_BCI", 400, 117),
    "USPS": ("ssl_USPS", 1500, 241),
    "Text": ("ssl_Text", 1500, 11_960),
    "Image": ("ida_image", 2310, 18),
    "Waveform": ("ida_waveform", 5000, 21),
    "SecStr": ("ssl_SecStr", 83_679, 315),
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
    file, n, d = FILES[name]
    large = name == "SecStr"
    n = n if plan.most_rows is None else min(n, plan.most_rows)

    def generate(rng: np.random.Generator) -> tuple[Any, np.ndarray]:
        if name in ("Text", "SecStr"):
            return sparse_text(rng, n, d if plan.most_rows is None else min(d, 400), 2, 15 if large else 60)
        return dense_classes(rng, n, d, 2)

    data = load(file, generate)
    X, y = data.X, np.where(data.y > 0, 1.0, -1.0)
    if name == "Breast-cancer" and data.source == "real":
        complete = ~np.isnan(X).any(axis=1)
        X, y = X[complete], y[complete]
        X = (X - X.mean(axis=0)) / X.std(axis=0)  # as in the sources of Image and Waveform
    if len(y) > n:
        kept = np.sort(rng_of("rows", name).permutation(len(y))[:n])
        X, y = X[kept], y[kept]
    return Rows(name, data.source, X, y, large, plan.n_landmarks, plan.configurations, plan.sizes)


def draw(data: Rows, count: int, seed: int) -> np.ndarray:
    """Return random rows to be labelled, with both classes among them."""
    return np.sort(several_classes(rng_of("labels", data.name, count, seed), data.y, count))


def tasks_of(data: Rows, known: np.ndarray, seed: int) -> list[Task]:
    """Return the complete task, to label all other rows, and a task for each fold of the labelled rows."""
    others = np.setdiff1d(np.arange(len(data.y)), known)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class may have fewer rows than there are folds
        parts = list(folds.split(known[:, None], data.y[known]))
    return [Task(known, others), *(Task(known[train], known[test]) for train, test in parts)]


def accuracies(data: Rows, found: Any, tasks: Sequence[Task]) -> dict[str, np.ndarray]:
    """Return the accuracy (%) of each configuration on each task."""
    right: dict[str, np.ndarray] = defaultdict(lambda: np.full(len(tasks), np.nan))
    for config, i, values in found:
        # A score of 0 counts for the first class, as with argmax.
        right[config][i] = 100 * np.mean((values > 0) == (data.y[tasks[i].asked] > 0))
    return right


def labels_of(data: Rows, plan: Plan) -> int:
    """Return the number of labelled rows."""
    return plan.many_labels if data.large else plan.labels


def table_value(name: str, method: str) -> float | None:
    """Return the accuracy (%) in the paper, if any."""
    part = "Table 1" if name in TABLE_1 else "Table 3"
    cells = {key[:2]: cell.value for key, cell in published("pca-ls", part).items()}
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
    if methods:
        data = read(name, plan)
        count = labels_of(data, plan)
        part = ("Table 1" if name in TABLE_1 else "Table 3") + suffix
        for method in methods:
            key = row_key(part, data, method, 0)
            seeds = missing(results, key, range(plan.splits))
            step = TOGETHER.get(method, len(seeds)) if len(data.y) <= MOST_AT_ONCE else len(seeds)
            for start in range(0, len(seeds), step or 1):
                _some_draws(results, data, key, count, seeds[start : start + step])


def missing(results: Results, key: dict[str, Any], seeds: Iterable[int]) -> list[int]:
    """Return the seeds for which a method has no row of this part and set."""
    names = ("part", "dataset", "source", "method")
    there = {row["seed"] for row in results.select(**{name: key[name] for name in names})}
    return [seed for seed in seeds if str(seed) not in there]


def _some_draws(results: Results, data: Rows, key: dict[str, Any], count: int, seeds: list[int]) -> None:
    """Write the rows of some draws of one method."""
    groups = [tasks_of(data, draw(data, count, seed), seed) for seed in seeds]
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
        about = f"labels={count} tried={len(found)} inner={inner[best]:.1f} {best}"
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
    """Tables 1 and 3 with the library's choice of the number of directions and of the weight."""
    for name in plan.sets:
        data = read(name, plan)
        count = labels_of(data, plan)
        library(
            results,
            data,
            "Table 1" if name in TABLE_1 else "Table 3",
            range(plan.splits),
            lambda seed: tasks_of(data, draw(data, count, seed), seed),  # noqa: B023
            lambda method: table_value(name, method),  # noqa: B023
            plan.methods,
        )


def reasons(results: Results, plan: Plan) -> None:
    """Missed figures once more, on other draws and with other parameters."""
    causes(
        results,
        plan,
        lambda name: read(name, plan),
        lambda data, seed: tasks_of(data, draw(data, labels_of(data, plan), seed), seed),
    )


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


def toy(name: str, plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two overlapping Gaussians or two moons, their classes, and labels of a few rows (-1 for the others)."""
    n = plan.toy_rows
    rng = rng_of("toy", name, n)
    y = np.repeat([0, 1], n)
    if name == "Two Gaussians":
        X = rng.standard_normal((2 * n, 2)) + 1.5 * y[:, None]
        # The labelled row of a class is on the side of its own class.
        side = X.sum(axis=1) > 1.5
        known = np.array([rng.choice(np.flatnonzero((y == c) & (side == c))) for c in (0, 1)])
    else:
        X, y = make_moons(2 * n, noise=0.08, random_state=0)
        known = np.concatenate([rng.choice(np.flatnonzero(y == c), 3, replace=False) for c in (0, 1)])
    return X, y, masked(y, known)


def toy_model(method: str, X: np.ndarray, n_labelled: int, config: str) -> Any:
    """Return an estimator from the text of its parameters, in which the ridge belongs to a mean over rows."""
    value = {name: float(number) for name, number in (word.split("=") for word in config.split())}
    distance = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2)).sum() / (len(X) * (len(X) - 1))
    gamma = 1 / (2 * (value["kernel_width"] * distance) ** 2)
    if method == "KPCA-LS":
        return KernelPCALS(int(value["p"]), gamma=gamma, reconstruction=KERNEL_WEIGHT)
    return LapRLS(
        kernel="rbf",
        gamma=gamma,
        ridge=value["ridge"] * n_labelled,
        smoothness=value["smoothness"],
        graph="rbf",
        graph_gamma=1 / (2 * (value["graph_width"] * distance) ** 2),
    )


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
        X, y, few = toy(name, plan)
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
    "causes": reasons,
    "robustness": robustness,
    "figures": figures,
    "checks": checks,
}


def method_of(name: str) -> str:
    """Return a method by the paper's name or the library's."""
    if (found := REGISTERED.get(name, name)) not in METHODS:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join((*METHODS, *REGISTERED))}")
    return found


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, write the report, and return its path."""
    from subspace_report import write_report

    takes = {"sets": FILES, "methods": method_of, "splits": int}
    return experiment(__doc__, "subspace", Plan(), QUICK, PARTS, write_report, arguments, **takes)


if __name__ == "__main__":
    main()
