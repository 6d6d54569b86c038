"""Figures 3 to 5 of the page: time as n and d grow, from the rows alone."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from common import Report, slope
from result_rows import Results, grouped, parameter, values
from two_stage_parts.sets import Plan

SOLVERS = {"direct": "oC0-", "lsqr": "sC1-", "iterations": "^C2-", "two-stage": "xC3-"}
FIGURES = ("3 left", "3 right", "4", "5")


class Times(NamedTuple):
    """Processor seconds of a solver at one size, and its check (iterations or directions)."""

    seconds: list[float]
    check: int

    @property
    def best(self) -> float:
        """The least of the rounds."""
        return min(self.seconds)

    def __str__(self) -> str:
        return f"{self.best:.2f}" + (f" (to {max(self.seconds):.2f})" if len(self.seconds) > 1 else "")


Curves = dict[str, dict[str, dict[int, Times]]]
"""By technique, solver and size."""


def grows(figure: str) -> str:
    """Return which of n and d grows in a figure."""
    return "n" if figure in ("3 left", "4") else "d"


def curves_of(results: Results, figure: str) -> Curves:
    """Return the times of a figure."""
    found = grouped(results.select(part=f"Figure {figure}"), "method", "solver", grows(figure))
    curves: Curves = {}
    for (method, solver, size), rows in sorted(found.items(), key=lambda item: int(item[0][2])):
        times = Times(values(rows, "seconds").tolist(), int(float(rows[0]["ours"])))
        curves.setdefault(method, {}).setdefault(solver, {})[int(size)] = times
    return curves


def paper_sizes(figure: str, curve: dict[str, dict[int, Times]]) -> list[int]:
    """Return the sizes of the paper that a curve has; all where it has none."""
    sizes = sorted(set(curve["two-stage"]) & set(dict(Plan().sizes)[figure]))
    return sizes or sorted(curve["two-stage"])


def not_run(results: Results) -> str:
    """Return a sentence on what of the plan has no rows yet, or nothing."""
    plan = dict(Plan().sizes)
    missing = []
    for figure in FIGURES:
        for method, curve in curves_of(results, figure).items():
            left = [str(size) for size in plan[figure] if size not in curve["two-stage"]]
            if left:
                missing.append(f"Figure {figure}, {method}, {grows(figure)} = {', '.join(left)}")
    solvers = {
        solver for figure in FIGURES for curve in curves_of(results, figure).values() for solver in curve
    }
    missing += [f"{solver} at all sizes" for solver in SOLVERS if solver not in solvers]
    more = "`python experiments/two_stage.py --parts scaling` adds it."
    return f"**Not run yet:** {'; '.join(missing)}. {more}" if missing else ""


ABOUT = (
    "Ridge 1; rows drawn at random, columns the most frequent ones, so that non-zeros grow more slowly than d. "
    "*direct* and *lsqr* are the paper's two approaches as its text describes them: *direct* factors X'X + g I and "
    "applies Lanczos; *lsqr* is its two-stage approach, scipy's LSQR for one target after the other, to a tolerance "
    "of 1e-8 (for the first technique of a set; the others have as many targets). *two-stage* is the estimator of "
    "the library as it comes, which at these sizes factorises the smaller of X'X and XX'; *iterations* is the "
    "estimator held to its iterative solver (`max_gram_bytes=0`), tolerance 1e-8. Processor seconds: the least of "
    "two rounds, taken in turn, and the larger one; one round beyond the paper's sizes."
)


def report_scaling(report: Report, results: Results) -> None:
    """Write the tables and figures of the times."""
    report.text(
        "## Figures 3 to 5: time as n and d grow",
        ABOUT
        + " Sizes beyond the paper's (right of the dotted line) are for the first technique. Of the three "
        "expansions of HSL not all are timed, since they differ in H alone.",
        "The paper prints its curves without numbers, and the copy of it that was at hand has no pictures: what is "
        "compared is what its text says of them (both times grow; the two-stage time is far below the direct one).",
    )
    left = not_run(results)
    if left:
        report.text(left)
    for figure in FIGURES:
        rows = results.select(part=f"Figure {figure}")
        if not rows:
            continue
        curves = curves_of(results, figure)
        axis = grows(figure)
        stays = "d" if axis == "n" else "n"
        report.text(f"### Figure {figure}: {rows[0]['dataset']}, {stays} = {parameter(rows[0], stays)}")
        for method, curve in curves.items():
            report.table(
                [f"{method}, {axis} =", *map(str, sizes := paper_sizes(figure, curve))],
                [
                    [f"{solver}, seconds", *(str(curve[solver][size]) for size in sizes)]
                    for solver in SOLVERS
                    if solver in curve
                ],
            )
        report.table(
            [
                f"slope of log time in log {axis}",
                *SOLVERS,
                "iterations, all sizes",
                "iterations needed",
                "direct / lsqr",
                "direct / iterations",
                "direct / two-stage",
            ],
            [[method, *_slopes(curve, paper_sizes(figure, curve))] for method, curve in curves.items()],
        )
        names = {"lsqr": "LSQR", "iterations": "the estimator's iterations", "two-stage": "the estimator"}
        faster = [
            f"than {words} at {_faster(curves, solver)}"
            for solver, words in names.items()
            if any(solver in curve for curve in curves.values())
        ]
        report.text(
            "The slopes are over the paper's sizes; the ratios at its largest. The direct approach was faster "
            + "; ".join(faster)
            + "."
        )
        caption = (
            f"Figure {figure}: processor seconds against {axis}, both axes logarithmic; bars: all rounds."
        )
        draw = partial(_draw, curves=curves, figure=figure)
        report.figure("two_stage_figure_" + figure.replace(" ", "_"), caption, draw)


def _slopes(curve: dict[str, dict[int, Times]], sizes: list[int]) -> list[str]:
    def of(solver: str, at: list[int]) -> str:
        return f"{slope(at, [curve[solver][size].best for size in at]):.2f}" if solver in curve else ""

    every = sorted(curve["iterations"])
    counts = [str(curve["iterations"][size].check) for size in (every[0], every[-1])]
    direct = curve["direct"][sizes[-1]].best
    ratios = [
        f"{direct / curve[solver][sizes[-1]].best:.1f}" if solver in curve else ""
        for solver in ("lsqr", "iterations", "two-stage")
    ]
    return [*(of(solver, sizes) for solver in SOLVERS), of("iterations", every), " to ".join(counts), *ratios]


def _faster(curves: Curves, other: str) -> str:
    """Say where the direct approach was faster than another."""
    lost = [
        f"{method} {size} ({curve[other][size].best / times.best:.1f} times)"
        for method, curve in curves.items()
        if other in curve
        for size, times in curve["direct"].items()
        if times.best < curve[other].get(size, times).best
    ]
    return ", ".join(lost) or "no size"


def _draw(plt: Any, curves: Curves, figure: str) -> Any:
    page, axes = plt.subplots(
        1, len(curves), figsize=(3.0 * len(curves) + 1.4, 3.6), sharey=True, squeeze=False
    )
    for axis, (method, curve) in zip(axes[0], curves.items(), strict=True):
        for solver, style in SOLVERS.items():
            if solver not in curve:
                continue
            sizes = sorted(curve[solver])
            at = [curve[solver][size] for size in sizes]
            bars = np.array([[t.best - min(t.seconds), max(t.seconds) - t.best] for t in at]).T
            axis.errorbar(sizes, [t.best for t in at], bars, fmt=style, label=solver, ms=5, capsize=2)
        axis.set_xscale("log")
        axis.set_yscale("log")
        largest = max(paper_sizes(figure, curve))
        sizes = sorted(curve["two-stage"])
        if sizes[-1] > largest:
            axis.axvline(largest, color="grey", ls=":", lw=1)
        axis.set_title(method)
        axis.set_xlabel(grows(figure))
        axis.grid(alpha=0.3, which="both")
        wide = sizes[-1] > 20 * sizes[0]
        marks = (500, 2000, 10000, 50000) if wide else (100, 200, 500, 1000, 2000, 5000, 10000)
        ticks = [n for n in marks if 0.9 * sizes[0] <= n <= 1.1 * sizes[-1]]
        axis.set_xticks(ticks, [f"{n:,}" for n in ticks])
        axis.minorticks_off()
    axes[0][0].set_ylabel("seconds")
    axes[0][0].legend()
    page.tight_layout()
    return page
