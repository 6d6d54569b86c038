"""A page for each paper in docs/papers: published and ours, reached or missed and why, from the rows of results.

    python experiments/papers.py          all pages, seconds; or: make papers

It needs neither data nor matplotlib: numbers come from results/*.csv and published.csv, words from
papers_parts/NAME.toml. What was missed is listed with the cause that is written there.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import RESULTS, Report
from nmf_alpha_tuned_report import write_compared
from papers_parts import read
from papers_parts.cells import Cell, draws, write_counts, write_grid, write_missed
from result_rows import Results, grouped, mean_and_error, parameter, values
from two_stage_parts import classifier_report, scaling_report
from two_stage_parts.sets import BOUND

PAGES = Path(__file__).parents[1] / "docs" / "papers"
TEXTS = Path(__file__).parent / "papers_parts"
RULE = (
    "*Ours* is the mean over the draws ± their standard deviation (the *spread*); the paper's number is in brackets. "
    "*Reached*: ours is at most one spread worse than the paper's. *Better*: it is more than one spread better. "
    "**Missed**: it is more than one spread worse. *Other data*: the paper's set could not be had and another stands "
    "in for it, so that only the order of the methods can be compared."
)
Texts = dict[str, Any]


def two_stage(page: Report, texts: Texts) -> list[Cell]:
    """Table 2, Figures 1 to 5, and a classifier on every real set."""
    results = Results(RESULTS / "two_stage.csv")
    rows = results.select(part="Table 2")
    above = [row for row in rows if not float(row["relative"]) <= BOUND]
    page.text(
        "## Table 2: the same directions",
        f"{len(rows)} comparisons with two direct solutions, {len(above)} further apart than {BOUND:g} of the "
        "solution's norm, so that Table 2 is " + ("**missed**." if above else "**reached** in every cell."),
        texts["table_2"],
    )
    lines = []
    for name, all_rows in grouped(rows, "dataset").items():
        own = [row for row in all_rows if row["published"]]
        svd = [row for row in own if parameter(row, "against") == "svd"]
        largest = (values(svd, "published").max(), values(svd).max(), values(all_rows, "relative").max())
        verdict = "reached" if (values(own, "relative") <= BOUND).all() else "**missed**"
        count = len({(row["method"], row["parameters"]) for row in svd})
        lines.append([name, *(f"{value:.1e}" for value in largest), count, verdict])
    page.table(["set", "published, largest", "ours, largest", "relative, largest", "cells", ""], lines)
    page.text("## A classifier on every real set", classifier_report.ABOUT, texts["classifiers"])
    page.table(classifier_report.HEADER, classifier_report.lines(results))
    page.text("## Figures 1 and 2", texts["figures_1_2"])
    for number in (1, 2):
        page.text(f"![Figure {number}](../../experiments/results/two_stage_figure_{number}.png)")
    page.text("## Figures 3 to 5: time as n and d grow", texts["figures_3_5"], scaling_report.ABOUT)
    if left := scaling_report.not_run(results):
        page.text(left)
    lines = []
    for figure in scaling_report.FIGURES:
        for method, curve in scaling_report.curves_of(results, figure).items():
            sizes = scaling_report.paper_sizes(figure, curve)
            last = sizes[-1]
            line = [f"{figure}, {method}, {scaling_report.grows(figure)} = {sizes[0]} to {last}"]
            line += [str(curve[solver][last]) if solver in curve else "" for solver in scaling_report.SOLVERS]
            for solver in ("lsqr", "iterations", "two-stage"):
                times = curve.get(solver, {})
                wins = sum(times[size].best < curve["direct"][size].best for size in sizes if times)
                line.append(f"{wins} of {len(sizes)} {_kept(wins, len(sizes))}" if times else "")
            lines.append(line)
    page.table(
        [
            "figure, technique, sizes",
            *(f"{solver}, seconds at the largest" for solver in scaling_report.SOLVERS),
            *(f"{solver} faster than direct" for solver in ("lsqr", "iterations", "two-stage")),
        ],
        lines,
    )
    page.text(texts["times"])
    for figure in scaling_report.FIGURES:
        name = "two_stage_figure_" + figure.replace(" ", "_")
        page.text(f"![Figure {figure}](../../experiments/results/{name}.png)")
    return []  # what it printed are distances at the level of rounding, judged above, and curves without numbers


def _kept(count: int, sizes: int) -> str:
    return "reached" if count == sizes else "**missed**"


def drsvm(page: Report, texts: Texts) -> list[Cell]:
    """Tables II and IV, and Table II with the library's weights."""
    paper = read.drsvm("Table II")
    weighted = read.drsvm("Own weights", ", own weights", lambda row: "auto" in row["parameters"])
    ssdr = read.drsvm("SSDR", ", largest magnitude", lambda row: "largest-magnitude" in row["parameters"])
    shown = [*paper, *weighted, *ssdr]
    page.text("## Summary", RULE)
    write_counts(page, shown)
    page.text(texts["summary"])
    for dataset in dict.fromkeys(cell.dataset for cell in paper):
        own = [cell for cell in shown if cell.dataset == dataset]
        page.text(f"## Table II: {dataset}", f"{texts['sets'][dataset]} Draws: {draws(own)}.")
        write_grid(page, own, "", lambda cell: cell.setting, lambda cell: cell.method, texts["digits"])
    sensitivity = read.drsvm("Table IV")
    page.text("## Table IV: weights, 100 labels, L2-DRSVM, 10 draws", texts["table_4"])
    write_grid(page, sensitivity, "", lambda cell: cell.setting, lambda cell: cell.dataset, texts["digits"])
    return shown


def pca_ls(page: Report, texts: Texts) -> list[Cell]:
    """Tables 1 and 3, with the paper's choice and with the library's, and baselines with all configurations."""
    paper, own = read.pca_ls(""), read.pca_ls(", library's choice", ", library's choice")
    whole = read.pca_ls(", whole grid", ", whole grid")
    page.text("## Summary", RULE)
    write_counts(page, [*paper, *own, *whole])
    page.text(texts["summary"])
    _write_sets(page, "as the paper chooses", paper, texts["digits"])
    _write_sets(page, "as the library chooses", own, texts["digits"])
    page.text("The library's choice less the paper's on the same draws, mean ± standard error:")
    page.table(["set", "method", "gain"], _gains(own, paper))
    _write_sets(page, "LapRLS with the paper's whole grid", whole, texts["digits"])
    page.text("## Figures 3 and 4", texts["figures"])
    for number in (3, 4):
        page.text(f"![Figure {number}](../../experiments/results/subspace_figure_{number}.png)")
    return [*paper, *own, *whole]


def _write_sets(page: Report, title: str, cells: list[Cell], digits: int) -> None:
    """Write the cells of Tables 1 and 3 by set and method."""
    page.text(f"## Tables 1 and 3, {title}: {draws(cells)} draws")
    write_grid(page, cells, "set", lambda cell: cell.dataset, lambda cell: cell.method, digits)


def _gains(own: list[Cell], paper: list[Cell]) -> list[tuple[str, str, str]]:
    """Return the library's choice less the paper's by set and method: mean and standard error of the difference."""
    known = {(cell.dataset, cell.method): cell.ours for cell in paper}
    lines = []
    for cell in own:
        method = cell.method.split(",")[0]
        gain = np.subtract(cell.ours, known[cell.dataset, method][: len(cell.ours)])
        lines.append((cell.dataset, method, mean_and_error(gain)))
    return lines


def nsdr(page: Report, texts: Texts) -> list[Cell]:
    """Table 2, for every way in which its parameters were chosen."""
    tables = read.nsdr()
    page.text("## Summary", RULE)
    for part, cells in tables.items():
        page.text(f"### {part}")
        write_counts(page, cells)
    page.text(texts["summary"])
    for part, cells in tables.items():
        page.text(f"## {part}: error on the test part, {draws(cells)} values each")
        write_grid(page, cells, "set", lambda cell: cell.dataset, lambda cell: cell.method, texts["digits"])
    return [cell for cells in tables.values() for cell in cells]


def nmf_alpha(page: Report, texts: Texts) -> list[Cell]:
    """Table 2, and in how many settings NMF-alpha is above the others."""
    cells = read.nmf_alpha()
    page.text("## Summary", RULE)
    write_counts(page, cells)
    page.text(texts["summary"], "## Table 2")
    page.text(f"Draws: {draws(cells)} splits each.")
    write_grid(
        page,
        cells,
        "",
        lambda cell: f"{cell.dataset}, {cell.setting}",
        lambda cell: cell.method,
        texts["digits"],
    )
    page.text("## Figures 4 and 5: settings in which NMF-alpha is above", texts["figures"])
    write_compared(page, read.nmf_alpha_table())
    return cells


# Each writes the tables of its page and returns the cells that are held against the paper.
WRITERS: dict[str, Callable[[Report, Texts], list[Cell]]] = {
    "two-stage": two_stage,
    "drsvm": drsvm,
    "pca-ls": pca_ls,
    "nsdr": nsdr,
    "nmf-alpha": nmf_alpha,
}


def write_page(name: str, folder: Path = PAGES) -> Path:
    """Make one page."""
    texts = tomllib.loads((TEXTS / f"{name}.toml").read_text())
    page = Report(folder / f"{name}.md")
    page.text(
        f"# {texts['title']}",
        texts["paper"],
        f"*Made by `make papers` from {texts['files']}; the words are those of "
        f"`experiments/papers_parts/{name}.toml`.*",
        texts["about"],
    )
    cells = WRITERS[name](page, texts)
    if cells:
        write_missed(page, cells, texts["cause"], texts["digits"])
    page.text("## What differs from the paper", "\n".join(f"* {line}" for line in texts["differs"]))
    page.text("## To run it again", f"    {texts['command']}")
    page.parts = [part.strip("\n") if not part.startswith("    ") else part for part in page.parts]
    page.write()
    return page.path


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=PAGES, help="folder of the pages")
    parser.add_argument("--papers", nargs="+", choices=WRITERS, default=list(WRITERS))
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.papers:
        print(f"wrote {write_page(name, options.output)}")


if __name__ == "__main__":
    main()
