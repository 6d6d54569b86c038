"""Why some figures of Tables 1 and 3 are missed: the same methods on other draws of labels, with other parameters.

Nothing here was used to choose anything: a row says what a rule or a configuration leads to, in hindsight, on draws
that the tables do not report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from common import Report
from result_rows import Results, grouped, row_key, spread, values, words
from subspace_choice import FIRST_SEED, fits, rules
from subspace_methods import METHODS, NEIGHBOURS, PENALTIES, WIDTHS, Rows, Task, smooth_linear

PART = "Cause"
PAPER, LIBRARY, HINDSIGHT = (
    "rule=cv5 loss=accuracy of=paper",
    "rule=cv5x3 loss=log of=all",
    "rule=hindsight",
)
# Draws of each set, by what is asked.
RULES = {"Waveform": 20, "Image": 10}
PROJECTED = {"USPS": 10, "Image": 10}
SPREAD = {"G241d": 10}
SMOOTHED = {"Text": 10}
TRIED = 90  # configurations of KLapRLS of 900
ALPHAS = (0.1, 0.5, 0.9, 0.99, 0.999)
Made = Iterator[tuple[str, float, Any]]
"""For a configuration: the accuracy (%) on the unlabelled rows, and what is said beside it."""


def separated(data: Rows, seed: int) -> Made:
    """PCA-LS with the paper's weight or the library's, and the paper's rule for p, the library's or the best p."""
    for weight in ("1", "auto"):
        found = fits(data, seed, weight)
        for rule, p in rules(found):
            if rule in (PAPER, LIBRARY, HINDSIGHT):
                yield f"{words(weight=weight)} {rule}", found.accuracy[p - 1], p


def projected(data: Rows, tasks: Sequence[Task]) -> Made:
    """PCA+RLS with each configuration, and with that which cross-validation takes."""
    right: dict[str, np.ndarray] = defaultdict(lambda: np.full(len(tasks), np.nan))
    for config, i, said in METHODS["PCA+RLS"](data, tasks):
        right[config][i] = 100 * np.mean((said > 0) == (data.y[tasks[i].asked] > 0))
    best = max(right, key=lambda config: float(right[config][1:].mean()))
    yield words(rule="cv5"), right[best][0], best
    for config, scores in right.items():
        yield config, scores[0], ""


def spread_labels(data: Rows, tasks: Sequence[Task]) -> Iterator[tuple[int, str, float]]:
    """LLGC by graph, alpha and the weight of labels: each 1, or such that both classes have the same sum."""
    graphs = [(words(graph_width=width), data.rbf(width)) for width in WIDTHS]
    graphs += [(words(neighbours=k), data.neighbours[k].toarray()) for k in NEIGHBOURS]
    Y = np.zeros((len(data.y), len(tasks)))
    for i, task in enumerate(tasks):
        Y[task.known, i] = data.y[task.known]
    even = Y / np.where(Y > 0, (Y > 0).sum(axis=0), (Y < 0).sum(axis=0))
    for text, W in graphs:
        np.fill_diagonal(W, 0.0)
        root = 1 / np.sqrt(np.maximum(W.sum(axis=1), np.finfo(float).tiny))
        values, U = linalg.eigh(root[:, None] * W * root, driver="evd")
        for alpha in ALPHAS:
            for labels, given in (("one", Y), ("even", even)):
                F = U @ ((U.T @ given) / (1 - alpha * values)[:, None])
                for i, task in enumerate(tasks):
                    right = 100 * np.mean((F[task.asked, i] > 0) == (data.y[task.asked] > 0))
                    yield i, words(alpha=alpha, labels=labels) + " " + text, right


def smoothed(data: Rows, tasks: Sequence[Task]) -> Iterator[tuple[int, str, float]]:
    """LapRLS with the graph's term not divided by the squared number of rows, for small ridges."""
    X, n = data.centred, len(data.y)
    for width in WIDTHS:
        G = X.T @ (data.laplacian(width) @ X)
        for ridge in PENALTIES[2:]:
            for smoothness in PENALTIES:
                text = words(ridge=ridge, smoothness=smoothness, divided="no", graph_width=width)
                config = {"ridge": ridge, "smoothness": smoothness * n**2}
                for name, i, said in smooth_linear(X, G, config, text, data.y, tasks):
                    right = 100 * np.mean((said > 0) == (data.y[tasks[i].asked] > 0))
                    yield i, name, right


def kernel_smoothed(data: Rows, tasks: Sequence[Task]) -> Iterator[tuple[int, str, float]]:
    """KLapRLS with three times as many configurations as in the tables."""
    for name, i, said in METHODS["KLapRLS"](replace(data, configurations=TRIED), tasks):
        yield i, name, 100 * np.mean((said > 0) == (data.y[tasks[i].asked] > 0))


def causes(
    results: Results, plan: Any, read: Callable[[str], Rows], tasks_of: Callable[[Rows, int], Sequence[Task]]
) -> None:
    """Write the rows that are missing."""

    def add(data: Rows, method: str, seed: int, made: Iterable[tuple[str, float, Any]]) -> None:
        for text, right, beside in list(made):  # a draw is written whole
            key = row_key(PART, data, method, seed) | {"parameters": text}
            results.add(**key, ours=float(right), relative=beside)

    for name in plan.sets:
        for method, sets in (
            ("PCA-LS", RULES),
            ("PCA+RLS", PROJECTED),
            ("LLGC", SPREAD),
            ("LapRLS", SMOOTHED),
            ("KLapRLS", SMOOTHED),
        ):
            if method not in plan.methods or name not in sets:
                continue
            there = grouped(results.select(part=PART, dataset=name, method=method), "seed")
            wanted = range(FIRST_SEED, FIRST_SEED + min(sets[name], plan.splits * 2))
            seeds = [seed for seed in wanted if str(seed) not in there]
            if not seeds:
                continue
            data = read(name)
            together = {"LLGC": spread_labels, "LapRLS": smoothed, "KLapRLS": kernel_smoothed}.get(method)
            if together is not None:
                found: dict[int, list[tuple[str, float, str]]] = defaultdict(list)
                for i, text, right in together(data, [tasks_of(data, seed)[0] for seed in seeds]):
                    found[i].append((text, right, ""))
                for i, seed in enumerate(seeds):
                    add(data, method, seed, found[i])
            for seed in seeds if together is None else ():
                made = separated(data, seed) if method == "PCA-LS" else projected(data, tasks_of(data, seed))
                add(data, method, seed, made)


def report_causes(page: Report, results: Results) -> None:
    """Write the mean ± spread of each rule or configuration, the best in hindsight first."""
    groups = {
        key: {text: values(own) for text, own in grouped(rows, "parameters").items()}
        for key, rows in grouped(results.select(part=PART), "dataset", "method").items()
    }
    if not groups:
        return
    page.text(
        "## Causes",
        "Accuracy (%) on the unlabelled rows, mean ± spread, on draws of labels that the tables do not report. "
        "PCA-LS: by weight and by rule for the number of directions. PCA+RLS: as cross-validation chooses, and the "
        "five best of its 25 configurations. LLGC: the five best of 90: by the width of the graph, or neighbours; by "
        "alpha; and with labels of weight one, or such that both classes have the same sum (*even*). LapRLS: the "
        "five best of 90, with the graph's term not divided by the squared number of rows. KLapRLS: the five best of "
        f"{TRIED} of its 900 configurations.",
    )
    lines = []
    for (name, method), own in groups.items():
        best = sorted(own, key=lambda text: -np.mean(own[text]))
        some = best if method == "PCA-LS" else [t for t in best if t.startswith("rule")] + best[:5]
        shown = [(text, own[text]) for text in dict.fromkeys(some)]
        if method != "PCA-LS":
            tried = [found for text, found in own.items() if not text.startswith("rule")]
            shown.append((f"best of {len(tried)} for each draw", np.max(tried, axis=0)))
        lines += [[f"{name}, {method}", text, spread(found), len(found)] for text, found in shown]
    page.table(["set, method", "parameters", "accuracy", "draws"], lines)
