"""The page of the experiment on LSDR and NSDR: its tables and figures, from the rows of its CSV."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from common import Report
from nsdr_sets import METHODS, PUBLISHED, TABLE_1_NAMES, TABLE_2, small_sets
from result_rows import Results, Row, grouped, parameter, spread, values


def write_report(results: Results, path: Path) -> None:
    """Make the page from the rows alone."""
    page = Report(path)
    page.text(
        "# LSDR and NSDR",
        "Table 2 and Figures 1 to 4 of J. Grabocka, L. Schmidt-Thieme, *Learning through non-linearly supervised "
        "dimensionality reduction*. Made by `python experiments/nsdr.py` from `nsdr.csv`.",
    )
    _report_table(page, results)
    _report_pictures(page, results)
    _report_convergence(page, results)
    _report_sensitivity(page, results)
    page.write()


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
    lines = [[name, *(_cell(rows, name, method) for method in METHODS)] for name in TABLE_2 if name in sets]
    page.table(["set", *METHODS], lines)
    given = results.select(part="Table 2, the paper's parameters")
    if given:
        page.text("The same folds with the parameters of the paper's Table 1, nothing searched:")
        page.table(
            ["set", *TABLE_1_NAMES],
            [
                [name, *(_cell(given, name, method) for method in TABLE_1_NAMES)]
                for name in TABLE_2
                if name in grouped(given, "dataset")
            ],
        )
    page.text("Seconds of processor time that a search took, mean over sets and folds:")
    spent = [f"{values([r for r in rows if r['method'] == m], 'seconds').mean():.2f}" for m in METHODS]
    page.table(METHODS, [spent])
    page.text("### Table 1: what was chosen", "For each method and set, fold by fold.")
    chosen = grouped(results.select(part="Table 1"), "dataset", "method")
    lines = []
    for place in itertools.product(TABLE_2, METHODS):
        own = sorted(chosen.get(place, []), key=lambda row: int(row["seed"]))
        if own:
            cells = [f"{row['parameters']} ({float(row['ours']):.3f})" for row in own]
            lines.append((", ".join(place), "; ".join(cells)))
    page.table(["set, method", "parameters (validation error)"], lines)


def _cell(rows: list[Row], name: str, method: str) -> str:
    """Return the mean error over folds and its deviation, and the published ones."""
    cell = spread([row for row in rows if (row["dataset"], row["method"]) == (name, method)], 3)
    if method in PUBLISHED:
        cell += " ({:.3f} ± {:.3f})".format(*TABLE_2[name][PUBLISHED[method]])
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
