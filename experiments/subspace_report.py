"""The page of subspace.py, written from its rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from common import Report
from result_rows import Results, Row, by_seed, grouped, mean_and_error, parameter, spread, values
from subspace_choice import report_choices, report_weights
from subspace_methods import (
    CAUSE,
    HINDSIGHT,
    KERNEL_WEIGHT,
    METHODS,
    MOST,
    N_LANDMARKS,
    NEIGHBOURS,
    SUFFIX,
    TRIED,
    WHOLE,
    toy,
    toy_model,
)

TABLES = ("Table 1", "Table 3")


def write_report(page: Report, results: Results) -> None:
    """Write the page."""
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
        f"{NEIGHBOURS[0]} as in the paper, and kernels are Nystroem features of {N_LANDMARKS} rows; GRF is the "
        "function that propagation leads to, found directly. Pursuits that are only scored on a fold stop at four "
        "digits. "
        "Breast-cancer's columns, which are ordinals, are brought to variance 1. A dash in the paper's place: it had "
        "no figure there.",
    )
    _missing(page, results)
    for part in TABLES:
        _table(page, results, part)
    _library(page, results)
    _whole_grids(page, results)
    report_choices(page, results)
    report_weights(page, results)
    _causes(page, results)
    _beside_the_paper(page, results)
    _drawings(page, results)
    _robustness(page, results)
    _checks(page, results)


def _missing(page: Report, results: Results) -> None:
    """Add a sentence on methods with fewer draws than others."""
    cells = {name: methods for part in TABLES for name, methods in _cells(results, part).items()}
    most = max((len(own) for methods in cells.values() for own in methods.values()), default=0)
    lines = []
    for name, found in cells.items():
        draws = {method: len(found.get(method, [])) for method in METHODS}
        few = [f"{m} ({n} of {most} draws)" if n else m for m, n in draws.items() if n < most]
        if few:
            lines.append(f"{name}: {', '.join(few)}")
    if lines:
        page.text(
            f"**Not run yet, or not for all draws:** {'; '.join(lines)}. The same command goes on from here."
        )


def _cells(results: Results, part: str) -> dict[str, dict[str, list[Row]]]:
    """Return the rows of a part by set and method."""
    sets = grouped(results.select(part=part), "dataset")
    return {name: grouped(sorted(rows, key=_order), "method") for name, rows in sets.items()}


def _order(row: Row) -> int:
    return list(METHODS).index(row["method"])


def _paper(rows: list[Row]) -> str:
    return f"{float(rows[0]['published']):.2f}" if rows[0]["published"] else "–"


def _table(page: Report, results: Results, part: str) -> None:
    cells = _cells(results, part)
    if not cells:
        return
    sources = " and ".join(sorted({row["source"] for row in results.select(part=part)}))
    page.text(f"## {part}", f"Ours ± spread (paper); {sources} data.")
    lines = []
    for name, methods in cells.items():
        texts = {method: spread(rows) for method, rows in methods.items()}
        best = max(values(rows).mean() for rows in methods.values())
        for method, rows in methods.items():
            if values(rows).mean() == best:
                texts[method] = f"**{texts[method].replace(' ', '** ', 1)}"
        shown = (f"{texts[m]} ({_paper(methods[m])})" if m in methods else "" for m in METHODS)
        lines.append([name, *shown])
    page.table(["set", *METHODS], lines)


def _whole_grids(page: Report, results: Results) -> None:
    """Write the cells for which all configurations were tried, beside those with fewer."""
    lines = []
    for part in TABLES:
        few = _cells(results, part)
        for name, cells in _cells(results, part + WHOLE).items():
            for method, rows in cells.items():
                known = results.select(part=part + WHOLE + HINDSIGHT, dataset=name, method=method)
                rules = (
                    spread([row for row in known if parameter(row, "rule") == r]) for r in ("fixed", "best")
                )
                before = spread(few.get(name, {}).get(method, []))
                lines.append([f"{name}, {method}", _paper(rows), spread(rows), before, *rules, len(rows)])
    if lines:
        page.text(
            "## LapRLS with all configurations",
            f"All 150 of LapRLS and all 900 of KLapRLS instead of {MOST}, on the same draws and folds. In hindsight: "
            "the configuration that is best in the mean over the draws, and the best one of each draw.",
        )
        tried = ["all configurations", f"{MOST} configurations", "best in the mean", "best of each draw"]
        page.table(["set, method", "paper", *tried, "draws"], lines)


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
            rows = cells[method]
            if len(rows) < 5:  # a spread of fewer says little
                continue
            hindsight = _hindsight(results, name) if method == "PCA-LS" else ""
            own_draws = _same_draws(results, name, method)
            line = [f"{name}, {method}", _paper(rows), spread(rows), *own_draws, hindsight, len(rows)]
            lines.append(line)
    page.table("set, method | paper | library's choice | paper's choice | gain | best p | draws", lines)


def _same_draws(results: Results, name: str, method: str) -> tuple[str, str]:
    """Return the paper's choice on the draws of the library's, and the gain of the latter with its standard error."""
    paper, library = (
        by_seed(
            row for part in TABLES for row in results.select(part=part + suffix, dataset=name, method=method)
        )
        for suffix in ("", SUFFIX)
    )
    both = np.array([(paper[seed], ours) for seed, ours in library.items() if seed in paper]).reshape(-1, 2)
    gain = mean_and_error(both[:, 1] - both[:, 0])
    return (spread(both[:, 0]) if gain else ""), gain


def _hindsight(results: Results, name: str) -> str:
    """Return the accuracy with the number of directions that is best in the mean over the draws."""
    found = {p: values(own) for p, own in grouped(results.select(part="Figure 4", dataset=name), "p").items()}
    if not found:
        return ""
    p = max(found, key=lambda p: found[p].mean())
    return f"{spread(found[p])} (p = {p})"


def _causes(page: Report, results: Results) -> None:
    """Write the mean ± spread of each rule or configuration, the best in hindsight first."""
    groups = {
        key: {text: values(own) for text, own in grouped(rows, "parameters").items()}
        for key, rows in grouped(results.select(part=CAUSE), "dataset", "method").items()
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


def _beside_the_paper(page: Report, results: Results) -> None:
    gaps = {
        (name, method): (values(rows).mean() - float(rows[0]["published"]), values(rows).std())
        for part in TABLES
        for name, methods in _cells(results, part).items()
        for method, rows in methods.items()
        if rows[0]["published"]
    }
    if not gaps:
        return
    page.text("## Beside the paper")
    lines = []
    for method in METHODS:
        own = [gap for (_, m), gap in gaps.items() if m == method]
        if own:
            within = [sum(abs(gap) <= times * width for gap, width in own) for times in (1, 2)]
            lines.append([method, *(f"{count} of {len(own)}" for count in within)])
    page.table(["method", "within one spread", "within two"], lines)
    outside = {place: gap for place, gap in gaps.items() if abs(gap[0]) > 2 * gap[1]}
    if outside:
        page.text("Further off than two spreads, ours less the paper's, in percentage points:")
        largest = sorted(outside.items(), key=lambda item: -abs(item[1][0]))
        lines = [(", ".join(place), f"{gap:+.2f}", f"{width:.2f}") for place, (gap, width) in largest]
        page.table(["set, method", "difference", "spread"], lines)


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
    X, y, few = toy(name, int(rows[0]["seed"]))
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
        means: dict[str, dict[float, np.ndarray]] = {}
        for (name, value), own in grouped(rows, "dataset", varied).items():
            means.setdefault(name, {})[float(value)] = values(own)
        page.text(f"## {part}")
        levels = sorted({value for line in means.values() for value in line})
        empty = np.empty(0)
        lines = [(f"{v:g}", *(spread(line.get(v, empty)) for line in means.values())) for v in levels]
        page.table([words, *means], lines)
        caption = f"{what}: accuracy (%) on unlabelled rows, mean of the draws, by {words}."
        page.figure(
            f"subspace_{part.lower().replace(' ', '_')}",
            caption,
            lambda plt, m=means, w=words, v=varied: _lines(plt, m, w, 2 if v == "p" else 10),
        )


def _lines(plt: Any, means: dict[str, dict[float, np.ndarray]], words: str, base: int) -> Any:
    figure, axis = plt.subplots(figsize=(7, 4.4), layout="constrained")
    for (name, line), mark in zip(means.items(), "osv^Dx+*", strict=False):
        points = sorted((value, own.mean()) for value, own in line.items())
        axis.plot(*zip(*points, strict=True), marker=mark, label=name)
    axis.set_xscale("log", base=base)
    axis.set_xlabel(words)
    axis.set_ylabel("accuracy (%)")
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _checks(page: Report, results: Results) -> None:
    rows = results.select(part="Check")
    if not rows:
        return
    names, cells = list(grouped(rows, "dataset")), grouped(rows, "dataset", "method")
    page.text(
        "## The estimators themselves",
        "Cross-validation shares kernels, graphs and decompositions between fits. Beside that, each method's own "
        "estimator was fitted once, on the labels of the first draw with the parameters chosen there: how much (%) "
        "of what it predicts is the same, and the processor seconds of its fit.",
    )
    lines = []
    for method in METHODS:
        found = [cells.get((name, method)) for name in names]
        said = (f"{float(r[0]['ours']):.2f}, {float(r[0]['seconds']):.2f} s" if r else "" for r in found)
        lines.append([method, *said])
    page.table(["method", *names], lines)
    page.text(
        f"The paper names 5 minutes for PCA-LS on SecStr, and over 2 hours for its neighbour graph. KPCA-LS has a "
        f"reconstruction weight of {KERNEL_WEIGHT:g}, PCA-LS of 1, as in the paper."
    )
