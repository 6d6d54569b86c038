"""The page and its figures, written from the rows."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from common import Report
from result_rows import Results, grouped, parameter, values
from two_stage_parts.classifier_report import report_classifiers
from two_stage_parts.scaling_report import report_scaling
from two_stage_parts.sets import BOUND, SYNTHETIC, TABLE_ORDER, TECHNIQUES


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
        "Made with " + "; ".join(results.made_with()) + ". One thread; times are processor seconds.",
    )
    # A run of some parts, into a separate folder, has no rows of the others.
    for part, write in (
        ("Table 2", _report_table_2),
        ("Figure 1", _report_accuracy),
        ("Classifier", report_classifiers),
        ("Figure 3", report_scaling),
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
        [[name, *(_worst(results, name, against) for against in ("svd", "solver"))] for name in TECHNIQUES],
    )
    report.text("Against the SVD, for each ridge: published / ours / relative.")
    ridges = sorted({float(parameter(row, "ridge")) for row in rows})
    lines = []
    for name, technique in itertools.product(TABLE_ORDER, TECHNIQUES):
        own = results.select(part="Table 2", dataset=name, method=technique, against="svd")
        cells = {float(parameter(row, "ridge")): row for row in own}
        if cells:
            lines.append([f"{name}, {technique}", *(_cell(cells.get(ridge)) for ridge in ridges)])
    report.table(["", *(f"{ridge:g}" for ridge in ridges)], lines)


def _worst(results: Results, method: str, against: str) -> str:
    found = values(results.select(part="Table 2", method=method, against=against), "relative")
    return f"{found.max():.1e}" if len(found) else ""


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
        if not rows:
            continue
        cells = grouped(rows, "method", "solver", "ridge")
        means = {
            (method, solver, float(ridge)): values(own) for (method, solver, ridge), own in cells.items()
        }
        apart = {
            method: values([row for row in own if row["relative"]], "relative")
            for method, own in grouped(rows, "method").items()
        }
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
