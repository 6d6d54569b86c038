"""The page of subspace.py, written from its rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import Report, Results, parameter
from subspace_causes import report_causes
from subspace_choice_report import report_choices
from subspace_library import SUFFIX
from subspace_methods import HINDSIGHT, KERNEL_WEIGHT, METHODS, MOST, NEIGHBOURS, WHOLE
from subspace_weight import report_weights

TABLES = ("Table 1", "Table 3")
CHOSEN = "rule=cv5x3 loss=log of=all"  # the library's rule


def write_report(results: Results, path: Path, plan: Any) -> None:
    """Write the page."""
    page = Report(path)
    page.text(
        "# PCA-LS and kernel PCA-LS",
        "Tables 1 and 3 and Figures 1 to 4 of Y.-M. Zhang, X. Hou, S. Xiang, C.-L. Liu, *Subspace regularization: a "
        "new semi-supervised learning method*, ECML PKDD 2009. Made by `python experiments/subspace.py` from "
        "`subspace.csv`.",
        "Accuracy (%) on the unlabelled rows. Rows to be labelled are drawn at random, 50 of them (SecStr: 500), ten "
        "times; ours is the mean over the draws and its standard deviation (*spread*). The paper gives no spread.",
        "Parameters are chosen for every draw by 5-fold cross-validation on its labels from the paper's grids, by "
        f"every method from at most {MOST} configurations: all 25 of PCA+RLS, 6 of GRF and LLGC, 5 of PCA-LS and 30 "
        f"of KPCA-LS, and {MOST} each of the 150 of LapRLS and the 900 of KLapRLS, drawn once so that every value "
        "comes up about as often. Of equals the first is taken: fewer components, a wider kernel or graph, larger "
        "penalties. The paper tried whole grids, and for SecStr held 100 labels out instead of cross-validating.",
        "LapRLS, PCA+RLS and PCA-LS have intercepts. RBF graphs and kernels are exact, but for SecStr: there GRF and "
        f"LLGC have a graph of {', '.join(map(str, NEIGHBOURS[:-1]))} or {NEIGHBOURS[-1]} neighbours, LapRLS of "
        f"{NEIGHBOURS[0]} as in the paper, and kernels are Nystroem features of {plan.n_landmarks} rows; GRF is the "
        "function that propagation leads to, found directly. Pursuits that are only scored on a fold stop at four "
        "digits. "
        "Breast-cancer's columns, which are ordinals, are brought to variance 1. A dash in the paper's place: it had "
        "no figure there.",
    )
    _missing(page, results, plan)
    for part in TABLES:
        _table(page, results, part)
    _library(page, results)
    _whole_grids(page, results)
    report_choices(page, results, CHOSEN)
    report_weights(page, results)
    report_causes(page, results)
    _beside_the_paper(page, results)
    _drawings(page, results)
    _robustness(page, results)
    _checks(page, results)
    page.write()


def _missing(page: Report, results: Results, plan: Any) -> None:
    """Add a sentence on missing entries of the tables."""
    cells = {name: methods for part in TABLES for name, methods in _cells(results, part).items()}
    lines = []
    for name in plan.sets:
        found = cells.get(name, {})
        draws = {method: found[method][3] if method in found else 0 for method in plan.methods}
        few = [f"{m} ({n} of {plan.splits} draws)" if n else m for m, n in draws.items() if n < plan.splits]
        if few:
            lines.append(f"{name}: {', '.join(few)}")
    if lines:
        page.text(
            f"**Not run yet, or not for all draws:** {'; '.join(lines)}. The same command goes on from here."
        )


def _cells(results: Results, part: str) -> dict[str, dict[str, tuple[float, float, float | None, int]]]:
    """Return mean, spread, the published value and the number of draws, by set and method."""
    cells: dict[str, dict[str, tuple[float, float, float | None, int]]] = {}
    for name in dict.fromkeys(row["dataset"] for row in results.select(part=part)):
        for method in METHODS:
            rows = results.select(part=part, dataset=name, method=method)
            if rows:
                ours = [float(row["ours"]) for row in rows]
                published = float(rows[0]["published"]) if rows[0]["published"] else None
                cells.setdefault(name, {})[method] = np.mean(ours), np.std(ours), published, len(ours)
    return cells


def _table(page: Report, results: Results, part: str) -> None:
    cells = _cells(results, part)
    if not cells:
        return
    sources = " and ".join(sorted({row["source"] for row in results.select(part=part)}))
    page.text(f"## {part}", f"Ours ± spread (paper); {sources} data.")
    lines = []
    for name, methods in cells.items():
        best = max(mean for mean, *_ in methods.values())
        line = [name]
        for method in METHODS:
            if method not in methods:
                line.append("")
                continue
            mean, spread, published, _ = methods[method]
            text = f"**{mean:.2f}**" if mean == best else f"{mean:.2f}"
            line.append(f"{text} ± {spread:.2f} ({'–' if published is None else f'{published:.2f}'})")
        lines.append(line)
    page.table(["set", *METHODS], lines)


def _whole_grids(page: Report, results: Results) -> None:
    """Write the cells for which all configurations were tried, beside those with fewer."""
    lines = []
    for part in TABLES:
        few = _cells(results, part)
        for name, cells in _cells(results, part + WHOLE).items():
            for method, (mean, spread, published, draws) in cells.items():
                before = few.get(name, {}).get(method)
                known = results.select(part=part + WHOLE + HINDSIGHT, dataset=name, method=method)
                lines.append(
                    [
                        f"{name}, {method}",
                        "–" if published is None else f"{published:.2f}",
                        f"{mean:.2f} ± {spread:.2f}",
                        f"{before[0]:.2f} ± {before[1]:.2f}" if before else "",
                        *(_of_rule(known, rule) for rule in ("fixed", "best")),
                        draws,
                    ]
                )
    if lines:
        page.text(
            "## LapRLS with all configurations",
            f"All 150 of LapRLS and all 900 of KLapRLS instead of {MOST}, on the same draws and folds. In hindsight: "
            "the configuration that is best in the mean over the draws, and the best one of each draw.",
        )
        tried = ["all configurations", f"{MOST} configurations", "best in the mean", "best of each draw"]
        page.table(["set, method", "paper", *tried, "draws"], lines)


def _of_rule(rows: list[dict[str, str]], rule: str) -> str:
    own = [float(row["ours"]) for row in rows if parameter(row, "rule") == rule]
    return f"{np.mean(own):.2f} ± {np.std(own):.2f}" if own else ""


def _library(page: Report, results: Results) -> None:
    """Write both tables as the library chooses, beside the paper's choice and the best number of directions."""
    own = {name: cells for part in TABLES for name, cells in _cells(results, part + SUFFIX).items()}
    if not own:
        return
    page.text(
        "## With the library's choice",
        '`PCALS("cv")` as it comes, on the same draws: the weight is "auto", the number of directions is that of 1 '
        "to 32 with the least logarithmic loss in 5-fold cross-validation, folds drawn three times (SecStr, with 500 "
        "labels: once). KPCA-LS: the same, folds drawn once, for each of the paper's six widths; that with the least "
        "loss is taken. "
        "*paper's choice*: on the same draws; *gain*: mean and standard error of the difference. "
        "*best p*: the best number of directions of Figure 4 in hindsight, ten draws, at the paper's weight of 1.",
    )
    lines = []
    for method in ("PCA-LS", "KPCA-LS"):
        for name, cells in own.items():
            if method not in cells:
                continue
            mean, spread, published, draws = cells[method]
            if draws < 5:  # a spread of fewer says little
                continue
            lines.append(
                [
                    f"{name}, {method}",
                    "–" if published is None else f"{published:.2f}",
                    f"{mean:.2f} ± {spread:.2f}",
                    *_same_draws(results, name, method),
                    _hindsight(results, name) if method == "PCA-LS" else "",
                    draws,
                ]
            )
    page.table(
        ["set, method", "paper", "library's choice", "paper's choice", "gain", "best p", "draws"], lines
    )


def _same_draws(results: Results, name: str, method: str) -> tuple[str, str]:
    """Return the paper's choice on the draws of the library's, and the gain of the latter with its standard error."""
    rows: dict[str, dict[str, float]] = {"": {}, SUFFIX: {}}
    for suffix, own in rows.items():
        for part in TABLES:
            for row in results.select(part=part + suffix, dataset=name, method=method):
                own[row["seed"]] = float(row["ours"])
    both = [(rows[""][seed], ours) for seed, ours in rows[SUFFIX].items() if seed in rows[""]]
    if len(both) < 2:
        return "", ""
    paper, ours = np.array(both).T
    error = (ours - paper).std(ddof=1) / np.sqrt(len(both))
    return f"{paper.mean():.2f} ± {paper.std():.2f}", f"{(ours - paper).mean():+.2f} ± {error:.2f}"


def _hindsight(results: Results, name: str) -> str:
    """Return the accuracy with the number of directions that is best in the mean over the draws."""
    found: dict[str, list[float]] = {}
    for row in results.select(part="Figure 4", dataset=name):
        found.setdefault(parameter(row, "p"), []).append(float(row["ours"]))
    if not found:
        return ""
    p = max(found, key=lambda p: np.mean(found[p]))
    return f"{np.mean(found[p]):.2f} ± {np.std(found[p]):.2f} (p = {p})"


def _beside_the_paper(page: Report, results: Results) -> None:
    gaps = [
        (name, method, mean, spread, published)
        for part in TABLES
        for name, methods in _cells(results, part).items()
        for method, (mean, spread, published, _) in methods.items()
        if published is not None
    ]
    if not gaps:
        return
    page.text("## Beside the paper")
    lines = []
    for method in METHODS:
        own = [(abs(mean - published), spread) for _, m, mean, spread, published in gaps if m == method]
        if own:
            within = [sum(gap <= times * spread for gap, spread in own) for times in (1, 2)]
            lines.append([method, *(f"{count} of {len(own)}" for count in within)])
    page.table(["method", "within one spread", "within two"], lines)
    outside = sorted(
        ((mean - published, spread, name, method) for name, method, mean, spread, published in gaps),
        key=lambda gap: -abs(gap[0]),
    )
    outside = [gap for gap in outside if abs(gap[0]) > 2 * gap[1]]
    if outside:
        page.text("Further off than two spreads, ours less the paper's, in percentage points:")
        page.table(
            ["set, method", "difference", "spread"],
            [(f"{name}, {method}", f"{gap:+.2f}", f"{spread:.2f}") for gap, spread, name, method in outside],
        )


def _drawings(page: Report, results: Results) -> None:
    for number, name in ((1, "Two Gaussians"), (2, "Two moons")):
        rows = results.select(part=f"Figure {number}")
        if not rows:
            continue
        page.text(f"## Figure {number}")
        said = "; ".join(f"{r['method']} {float(r['ours']):.1f}% right with {r['parameters']}" for r in rows)
        caption = (
            f"{name}: decision boundaries of kernel PCA-LS and kernel LapRLS, labelled rows ringed, with the "
            f"parameters that do best on all rows, as in the paper. {said}."
        )
        page.figure(f"subspace_figure_{number}", caption, lambda plt, n=name, r=rows: _boundaries(plt, n, r))


def _boundaries(plt: Any, name: str, rows: Sequence[dict[str, str]]) -> Any:
    from subspace import Plan, toy, toy_model

    X, y, few = toy(name, Plan(toy_rows=int(rows[0]["seed"])))
    low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
    grid = np.meshgrid(*(np.linspace(a, b, 160) for a, b in zip(low, high, strict=True)))
    points = np.column_stack([axis.ravel() for axis in grid])
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharey=True)
    for axis, row in zip(axes, sorted(rows, key=lambda r: r["method"], reverse=True), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = toy_model(row["method"], X, int((few >= 0).sum()), row["parameters"]).fit(X, few)
        values = model.decision_function(points).reshape(grid[0].shape)
        axis.contourf(*grid, values > 0, levels=[-0.5, 0.5, 1.5], colors=["tab:red", "tab:blue"], alpha=0.12)
        axis.contour(*grid, values, levels=[0.0], colors="black", linewidths=1.5)
        for c, colour, mark in ((0, "tab:red", "o"), (1, "tab:blue", "x")):
            axis.scatter(*X[y == c].T, c=colour, marker=mark, s=14, linewidths=0.9)
            axis.scatter(
                *X[few == c].T, marker="o", s=130, facecolors="none", edgecolors="black", linewidths=2
            )
        axis.set_title(f"{row['method']}: {float(row['ours']):.1f}% right")
    return figure


def _robustness(page: Report, results: Results) -> None:
    figures = (
        ("Figure 3", "reconstruction", "weight of the reconstruction", "PCA-LS at 16 directions"),
        ("Figure 4", "p", "directions", "PCA-LS at a weight of 1"),
    )
    for part, varied, words, what in figures:
        rows = results.select(part=part)
        if not rows:
            continue
        means: dict[str, dict[float, tuple[float, float]]] = {}
        for name in dict.fromkeys(row["dataset"] for row in rows):
            own = [row for row in rows if row["dataset"] == name]
            for value in sorted({float(parameter(row, varied)) for row in own}):
                at = [float(row["ours"]) for row in own if float(parameter(row, varied)) == value]
                means.setdefault(name, {})[value] = float(np.mean(at)), float(np.std(at))
        page.text(f"## {part}")
        values = sorted({value for line in means.values() for value in line})
        page.table(
            [words, *means],
            [
                (
                    f"{value:g}",
                    *(f"{m[value][0]:.2f} ± {m[value][1]:.2f}" if value in m else "" for m in means.values()),
                )
                for value in values
            ],
        )
        caption = f"{what}: accuracy (%) on unlabelled rows, mean of the draws, by {words}."
        page.figure(
            f"subspace_{part.lower().replace(' ', '_')}",
            caption,
            lambda plt, m=means, w=words, v=varied: _lines(plt, m, w, 2 if v == "p" else 10),
        )


def _lines(plt: Any, means: dict[str, dict[float, tuple[float, float]]], words: str, base: int) -> Any:
    figure, axis = plt.subplots(figsize=(7, 4.4), layout="constrained")
    for (name, line), mark in zip(means.items(), "osv^Dx+*", strict=False):
        axis.plot(list(line), [mean for mean, _ in line.values()], marker=mark, label=name)
    axis.set_xscale("log", base=base)
    axis.set_xlabel(words)
    axis.set_ylabel("accuracy (%)")
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _checks(page: Report, results: Results) -> None:
    rows = results.select(part="Check")
    if not rows:
        return
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    page.text(
        "## The estimators themselves",
        "Cross-validation shares kernels, graphs and decompositions between fits. Beside that, each method's own "
        "estimator was fitted once, on the labels of the first draw with the parameters chosen there: how much (%) "
        "of what it predicts is the same, and the processor seconds of its fit.",
    )
    lines = []
    for method in METHODS:
        line = [method]
        for name in names:
            found = [row for row in rows if (row["dataset"], row["method"]) == (name, method)]
            line.append(f"{float(found[0]['ours']):.2f}, {float(found[0]['seconds']):.2f} s" if found else "")
        lines.append(line)
    page.table(["method", *names], lines)
    page.text(
        f"The paper names 5 minutes for PCA-LS on SecStr, and over 2 hours for its neighbour graph. KPCA-LS has a "
        f"reconstruction weight of {KERNEL_WEIGHT:g}, PCA-LS of 1, as in the paper."
    )
