"""The page and its figures, written from the rows."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from common import Report, Results, parameter, slope
from two_stage_parts.sets import BOUND, SYNTHETIC, TABLE_ORDER, TECHNIQUES, Plan

SOLVERS = ("direct", "iterations", "two-stage")


def write_report(results: Results, path: Path) -> None:
    """Write the page and its figures from the rows alone."""
    report = Report(path)
    sources = {row["dataset"]: row["source"] for row in results.rows}
    made = [name for name, source in sources.items() if source == "generated" and name not in SYNTHETIC]
    report.text(
        "# The two-stage approach against the direct one",
        "Table 2 and Figures 1 to 5 of L. Sun, B. Ceran, J. Ye, *A scalable two-stage approach for a class of "
        "dimensionality reduction techniques*, KDD 2010. Made by `python experiments/two_stage.py` from "
        "`two_stage.csv`.",
        f"Generated in the shape of the real set: {', '.join(made)}."
        if made
        else "All sets but Syn1 to Syn4 are real.",
        "Made with "
        + "; ".join(sorted({row["versions"] for row in results.rows}))
        + ". One thread; times are "
        "processor seconds.",
    )
    # A run of some parts, into a separate folder, has no rows of the others.
    for part, write in (
        ("Table 2", _report_table_2),
        ("Figure 1", _report_accuracy),
        ("Figure 3", _report_scaling),
    ):
        if any(row["part"].startswith(part) for row in results.rows):
            write(report, results)
    report.write()


def _report_table_2(report: Report, results: Results) -> None:
    rows = results.select(part="Table 2")
    worst = max(rows, key=lambda row: float(row["relative"]))
    above = [row for row in rows if not float(row["relative"]) <= BOUND]
    report.text(
        "## Table 2: the same directions",
        f"{len(rows)} comparisons, {len(above)} above the bound of {BOUND:g}; the largest relative distance is "
        f"{float(worst['relative']):.1e} ({worst['dataset']}, {worst['method']}, {worst['parameters']}).",
        "W is the two-stage solution. W0 comes from a singular value decomposition of the centred X, written in the "
        'experiment (theorem 4), and once more from the library\'s `solver="direct"` (for the two sets of 5,000 '
        "columns at ridge 0 and 1 only). The published number is absolute and scales with the units of X; "
        "*relative* divides ours by the norm of W0W0'.",
    )
    report.table(
        ["worst relative distance", "from the SVD", 'from `solver="direct"`'],
        [
            [name, *(_worst(rows, method=name, against=against) for against in ("svd", "solver"))]
            for name in TECHNIQUES
        ],
    )
    report.text("Against the SVD, for each ridge: published / ours / relative.")
    ridges = sorted({float(parameter(row, "ridge")) for row in rows})
    lines = []
    for name, technique in itertools.product(TABLE_ORDER, TECHNIQUES):
        cells = {
            float(parameter(row, "ridge")): row
            for row in rows
            if (row["dataset"], row["method"], parameter(row, "against")) == (name, technique, "svd")
        }
        if cells:
            lines.append([f"{name}, {technique}", *(_cell(cells.get(ridge)) for ridge in ridges)])
    report.table(["", *(f"{ridge:g}" for ridge in ridges)], lines)


def _worst(rows: list[dict[str, str]], method: str, against: str) -> str:
    values = [
        float(r["relative"]) for r in rows if r["method"] == method and parameter(r, "against") == against
    ]
    return f"{max(values):.1e}" if values else ""


def _cell(row: dict[str, str] | None) -> str:
    if row is None:
        return ""
    published = f"{float(row['published']):.1e}" if row["published"] else "-"
    return f"{published}<br>{float(row['ours']):.1e}<br>**{float(row['relative']):.0e}**"


def _report_accuracy(report: Report, results: Results) -> None:
    report.text(
        "## Figures 1 and 2: the same predictions",
        "Random halves for training and for testing, as in the paper (which draws curves without numbers, and "
        "says neither how many splits nor which C of the SVM): a linear SVM with C = 1 on the embedding, "
        "scaled by one number to a mean square of 1.",
    )
    for part, measure in (("Figure 1", "mean AUC"), ("Figure 2", "accuracy")):
        rows = results.select(part=part)
        means, apart = {}, {}
        for row in rows:
            key = row["method"], parameter(row, "solver"), float(parameter(row, "ridge"))
            means.setdefault(key, []).append(float(row["ours"]))
            if row["relative"]:
                apart.setdefault(row["method"], []).append(float(row["relative"]))
        if not rows:
            continue
        methods, ridges = list(apart), sorted({key[2] for key in means})
        splits = len(means[methods[0], "direct", ridges[0]])
        report.text(f"### {part}: {measure} on {rows[0]['dataset']}, mean of {splits} splits")
        report.table(
            ["", *(f"{ridge:g}" for ridge in ridges), "most apart"],
            [
                [
                    f"{method}, {solver}",
                    *(f"{np.mean(means[method, solver, ridge]):.4f}" for ridge in ridges),
                    f"{max(apart[method]):.1e}" if solver == "two-stage" else "",
                ]
                for method in methods
                for solver in ("direct", "two-stage")
            ],
        )
        draw = partial(_draw_accuracy, means=means, methods=methods, ridges=ridges, measure=measure)
        caption = f"{part}: {measure} on {rows[0]['dataset']} by ridge; rings: direct, crosses: two-stage."
        report.figure("two_stage_" + part.lower().replace(" ", "_"), caption, draw)


def _draw_accuracy(plt: Any, means: dict, methods: list[str], ridges: list[float], measure: str) -> Any:
    figure, axes = plt.subplots(
        1, len(methods), figsize=(2.6 * len(methods) + 1.2, 3.2), sharey=True, squeeze=False
    )
    for axis, method in zip(axes[0], methods, strict=True):
        for solver, style in (("direct", "o"), ("two-stage", "x")):
            values = [np.mean(means[method, solver, ridge]) for ridge in ridges]
            face = {"markerfacecolor": "none"} if style == "o" else {}
            axis.plot(range(len(ridges)), values, style + "-", label=solver, markersize=8, lw=0.8, **face)
        axis.set_title(method)
        axis.set_xticks(range(len(ridges)), [f"{ridge:g}" for ridge in ridges], rotation=60)
        axis.set_xlabel("ridge")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel(measure)
    axes[0][0].legend()
    figure.tight_layout()
    return figure


def _report_scaling(report: Report, results: Results) -> None:
    report.text(
        "## Figures 3 to 5: time as n and d grow",
        "Ridge 1; rows drawn at random, columns the most frequent ones, so that non-zeros grow more slowly than d. "
        "*direct* is the paper's: factor X'X + g I, then Lanczos. *two-stage* is the estimator as it comes, which "
        "at these sizes factorises the smaller of X'X and XX'. *iterations* is the estimator held to its iterative "
        "solver (`max_gram_bytes=0`), tolerance 1e-8: what the paper's claim of linear cost is about, which holds "
        "an iteration; how many are needed may grow with the data too. "
        "Times are the best of several, taken side by side. Sizes beyond the paper's (right of the dotted line) are "
        "for the first technique, and for the direct approach only as far as 5,000 columns. Of the paper's sizes "
        "Figures 4 and 5 take about every second; of the three expansions of HSL one, for they differ in H alone.",
    )
    for figure in ("3 left", "3 right", "4", "5"):
        rows = results.select(part=f"Figure {figure}")
        if not rows:
            continue
        grows = "n" if figure in ("3 left", "4") else "d"
        stays = "d" if grows == "n" else "n"
        curves: dict[str, dict[str, dict[int, dict[str, str]]]] = {}
        for row in rows:
            curve = curves.setdefault(row["method"], {}).setdefault(parameter(row, "solver"), {})
            curve[int(parameter(row, grows))] = row
        there = {int(parameter(row, grows)) for row in rows}
        paper = there & set(dict(Plan().sizes)[figure]) or there
        report.text(f"### Figure {figure}: {rows[0]['dataset']}, {stays} = {parameter(rows[0], stays)}")
        report.table(
            [
                f"slope of time in {grows}",
                *(f"{s}, paper's sizes" for s in SOLVERS),
                "iterations, all sizes",
                "per iteration, all sizes",
                "how many iterations",
                "direct / iterations, paper's largest",
                "direct / two-stage, paper's largest",
            ],
            [[method, *_slopes(curve, paper)] for method, curve in curves.items()],
        )
        lost = [
            f"{row['method']} {parameter(row, 'n')} x {parameter(row, 'd')} ({float(row['relative']):.2f})"
            for row in rows
            if parameter(row, "solver") == "direct" and float(row["relative"]) < 1
        ]
        report.text(
            "The direct approach was faster than the two-stage one (time over its time) at: "
            + ("; ".join(lost) if lost else "no size")
            + "."
        )
        draw = partial(_draw_scaling, curves=curves, grows=grows, paper=paper)
        caption = f"Figure {figure}: processor seconds against {grows}, both axes logarithmic."
        report.figure("two_stage_figure_" + figure.replace(" ", "_"), caption, draw)


def _slopes(curve: dict[str, dict[int, dict[str, str]]], paper: set[int]) -> list[str]:
    def times(solver: str, sizes: Any, each: bool = False) -> list[float]:
        rows = [curve[solver][size] for size in sizes]
        return [float(row["seconds"]) / (float(row["ours"]) if each else 1) for row in rows]

    known = sorted(paper & set(curve["two-stage"]))
    every = sorted(curve["iterations"])
    cells = [slope(known, times(solver, known)) for solver in SOLVERS]
    cells += [slope(every, times("iterations", every)), slope(every, times("iterations", every, True))]
    counts = [curve["iterations"][size]["ours"] for size in (every[0], every[-1])]
    direct, iterations = (float(curve[solver][known[-1]]["relative"]) for solver in ("direct", "iterations"))
    ratios = [f"{direct / iterations:.1f}", f"{direct:.1f}"]
    return [*(f"{value:.2f}" for value in cells), " to ".join(counts), *ratios]


def _draw_scaling(plt: Any, curves: dict, grows: str, paper: set[int]) -> Any:
    figure, axes = plt.subplots(
        1, len(curves), figsize=(3.0 * len(curves) + 1.4, 3.4), sharey=True, squeeze=False
    )
    for axis, (method, curve) in zip(axes[0], curves.items(), strict=True):
        for solver, style in zip(SOLVERS, ("o-", "^-", "x-"), strict=True):
            sizes = sorted(curve[solver])
            axis.loglog(sizes, [float(curve[solver][n]["seconds"]) for n in sizes], style, label=solver, ms=5)
        if max(curve["two-stage"]) > max(paper):
            axis.axvline(max(paper), color="grey", ls=":", lw=1)
        axis.set_title(method)
        axis.set_xlabel(grows)
        axis.grid(alpha=0.3, which="both")
        sizes = curve["two-stage"]
        wide = max(sizes) > 20 * min(sizes)
        marks = (500, 2000, 10000, 50000) if wide else (100, 200, 500, 1000, 2000, 5000, 10000)
        ticks = [n for n in marks if 0.9 * min(sizes) <= n <= 1.1 * max(sizes)]
        axis.set_xticks(ticks, [f"{n:,}" for n in ticks])
        axis.minorticks_off()
    axes[0][0].set_ylabel("seconds")
    axes[0][0].legend()
    figure.tight_layout()
    return figure
