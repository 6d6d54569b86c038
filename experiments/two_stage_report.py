"""The page and its figures, written from the rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from common import Report, slope
from result_rows import Results, by_seed, grouped, parameter, spread, values
from two_stage_methods import ALL, BOUND, CLASSIFIER, SOLVERS, SYNTHETIC, TABLE_ORDER, TECHNIQUES, Plan


def write_report(report: Report, results: Results) -> None:
    """Write the page and its figures from the rows alone."""
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


class Compared(NamedTuple):
    """One technique on one set: values over the splits by (measure, solver), and the ridges chosen."""

    dataset: str
    method: str
    values: dict[tuple[str, str], dict[str, float]]
    ridges: list[float]

    def cell(self, measure: str, solver: str) -> str:
        """Return mean and spread in percent."""
        return spread(100 * np.array(list(self.values.get((measure, solver), {}).values())), 1)

    @property
    def apart(self) -> float:
        """The largest difference between both solvers on a split, in percentage points."""
        pairs = [
            (self.values[measure, SOLVERS[0]], self.values[measure, SOLVERS[1]])
            for measure in ("AUC", "accuracy")
        ]
        return max(100 * abs(a[seed] - b[seed]) for a, b in pairs for seed in a.keys() & b.keys())

    @property
    def n_splits(self) -> int:
        """How many splits there are."""
        return min(len(values) for values in self.values.values())


def compared(results: Results) -> Iterator[Compared]:
    """Return the sets and techniques in the order of the rows."""
    for (dataset, method), own in grouped(results.select(part=CLASSIFIER), "dataset", "method").items():
        found = {key: by_seed(rows) for key, rows in grouped(own, "measure", "solver").items()}
        ridges = sorted({float(parameter(row, "ridge")) for row in own}) if method != ALL else []
        yield Compared(dataset, method, found, ridges)


def classifier_lines(results: Results) -> list[list[str]]:
    """Return a line for each set and technique, under `HEADER`."""
    found = []
    for case in compared(results):
        if case.n_splits < 2:  # no spread yet
            continue
        if case.method == ALL:
            cells = [case.cell("AUC", "none"), "", case.cell("accuracy", "none"), "", "", ""]
        else:
            cells = [case.cell(measure, solver) for measure in ("AUC", "accuracy") for solver in SOLVERS]
            chosen = [f"{case.ridges[0]:g}", f"{case.ridges[-1]:g}"]
            cells += [f"{case.apart:.2g}", " to ".join(dict.fromkeys(chosen))]
        found.append([f"{case.dataset}, {case.method}", *cells, str(case.n_splits)])
    return found


HEADER = (
    "set, technique | AUC, direct | AUC, two-stage | accuracy, direct | accuracy, two-stage | most apart | ridges | "
    "splits"
)
CLASSIFIERS = (
    "A linear SVM (C = 1) on the embedding: mean AUC over classes or labels, and accuracy (of rows; of sets with "
    "several labels, of single labels), in percent, mean ± standard deviation over random halves for training and "
    "testing. The ridge is chosen for each split on a third of its training half among the eight of Table 2. *Most "
    "apart* is the largest difference between both solvers on any split, in percentage points. *all columns* is the "
    "same SVM without a reduction."
)


def report_classifiers(report: Report, results: Results) -> None:
    """Write the table."""
    report.text("## A classifier on every real set", CLASSIFIERS)
    report.table(HEADER, classifier_lines(results))


STYLES = {"direct": "oC0-", "lsqr": "sC1-", "iterations": "^C2-", "two-stage": "xC3-"}
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
    missing += [f"{solver} at all sizes" for solver in STYLES if solver not in solvers]
    more = "`python experiments/two_stage.py --parts scaling` adds it."
    return f"**Not run yet:** {'; '.join(missing)}. {more}" if missing else ""


TIMES = (
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
        TIMES
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
                    for solver in STYLES
                    if solver in curve
                ],
            )
        report.table(
            [
                f"slope of log time in log {axis}",
                *STYLES,
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
    return [*(of(solver, sizes) for solver in STYLES), of("iterations", every), " to ".join(counts), *ratios]


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
        for solver, style in STYLES.items():
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
