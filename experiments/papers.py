"""A page for each paper in docs/papers: published and ours, reached or missed and why, from the rows of results.

    python experiments/papers.py          all pages, seconds; or: make papers

It needs neither data nor matplotlib: numbers come from results/*.csv and published.csv, words from
papers_parts/NAME.toml. What was missed is listed with the cause that is written there.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import two_stage_report
from common import RESULTS, Report
from nmf_alpha_sets import LABELS
from nmf_alpha_tuned import read_table, write_compared
from nsdr_grid import by_fold, errors_of
from result_rows import Results, Row, grouped, mean_and_error, parameter, published, values
from two_stage_methods import BOUND

PAGES = Path(__file__).parents[1] / "docs" / "papers"
TEXTS = Path(__file__).parent / "papers_parts"
RULE = (
    "*Ours* is the mean over the draws ± their standard deviation (the *spread*); the paper's number is in brackets. "
    "*Reached*: ours is at most one spread worse than the paper's. *Better*: it is more than one spread better. "
    "**Missed**: it is more than one spread worse. *Other data*: the paper's set could not be had and another stands "
    "in for it, so that only the order of the methods can be compared."
)
Texts = dict[str, Any]


REACHED, BETTER, MISSED, OTHER = "reached", "better", "missed", "other data"
NO_CAUSE = "No cause is written yet."


class Cell(NamedTuple):
    """One published number and what our runs give.

    Attributes
    ----------
    part, dataset, method, setting : str
        Where it stands in the paper.
    published : float
        The paper's number.
    deviation : float or None
        The paper's own spread, where it gives one.
    ours : tuple of float
        Ours, a value for each draw.
    higher_is_better : bool
        False for an error.
    same_data : bool
        Whether the set is the paper's.
    """

    part: str
    dataset: str
    method: str
    setting: str
    published: float
    deviation: float | None
    ours: tuple[float, ...]
    higher_is_better: bool = True
    same_data: bool = True

    @property
    def mean(self) -> float:
        """The mean over the draws."""
        return float(np.mean(self.ours))

    @property
    def spread(self) -> float:
        """The standard deviation over the draws."""
        return float(np.std(self.ours))

    @property
    def gain(self) -> float:
        """How much better ours is than published."""
        return (self.mean - self.published) * (1 if self.higher_is_better else -1)

    @property
    def mark(self) -> str:
        """Reached: at most one spread worse than published; better: more than one spread better."""
        if not self.same_data:
            return OTHER
        if self.gain < -self.spread:
            return MISSED
        return BETTER if self.gain > self.spread else REACHED

    @property
    def n_as_good(self) -> int:
        """How many draws are at least as good as published."""
        sign = 1 if self.higher_is_better else -1
        return sum(sign * value >= sign * self.published for value in self.ours)

    @property
    def set_and_setting(self) -> str:
        """The set and the setting in words."""
        return f"{self.dataset}, {self.setting}"

    @property
    def where(self) -> str:
        """Its place in words, which causes are looked up by."""
        return ", ".join(word for word in (self.part, self.dataset, self.method, self.setting) if word)

    def text(self, digits: int) -> str:
        """Return ours, the paper's in brackets, and the mark."""
        paper = f"{self.published:.{digits}f}"
        if self.deviation is not None:
            paper += f" ± {self.deviation:.{digits}f}"
        mark = f"**{self.mark}**" if self.mark == MISSED else self.mark
        return f"{self.mean:.{digits}f} ± {self.spread:.{digits}f} ({paper}) {mark}"


def cause_of(cell: Cell, causes: Sequence[dict[str, str]]) -> str:
    """Return the first written cause whose pattern fits the cell's place, or nothing."""
    return next((cause["why"] for cause in causes if fnmatchcase(cell.where, cause["where"])), "")


def counted(cells: Iterable[Cell]) -> list[list[Any]]:
    """Return a line for each method: how many cells were reached, and how many not."""
    cells = list(cells)
    lines = []
    for method in dict.fromkeys(cell.method for cell in cells):
        marks = [cell.mark for cell in cells if cell.method == method]
        lines.append([method, *(marks.count(mark) for mark in (REACHED, BETTER, MISSED, OTHER))])
    return lines


def write_counts(page: Report, cells: Sequence[Cell]) -> None:
    """Write the table of `counted`."""
    page.table(["method", REACHED, BETTER, MISSED, OTHER], counted(cells))


def write_grid(
    page: Report,
    cells: Sequence[Cell],
    corner: str,
    row: str,
    column: str,
    digits: int,
) -> None:
    """Write cells as a table; ``row`` and ``column`` are the attributes that place a cell."""
    places = [(getattr(cell, row), getattr(cell, column)) for cell in cells]
    at = dict(zip(places, [cell.text(digits) for cell in cells], strict=True))
    names, columns = (list(dict.fromkeys(found)) for found in zip(*places, strict=True))
    page.table([corner, *columns], [[n, *(at.get((n, head), "–") for head in columns)] for n in names])


def write_missed(page: Report, cells: Sequence[Cell], causes: Sequence[dict[str, str]], digits: int) -> None:
    """Write what was missed, by cause."""
    missed = [cell for cell in cells if cell.mark == MISSED]
    page.text("## Missed, and why" if missed else "## Missed: nothing")
    by_cause: dict[str, list[Cell]] = {}
    for cell in missed:
        by_cause.setdefault(cause_of(cell, causes) or NO_CAUSE, []).append(cell)
    for cause, own in by_cause.items():
        page.text(cause)
        page.table(
            "where | published | ours ± spread | worse by | draws at least as good",
            [
                [
                    cell.where,
                    f"{cell.published:.{digits}f}",
                    f"{cell.mean:.{digits}f} ± {cell.spread:.{digits}f}",
                    f"{-cell.gain:.{digits}f}",
                    f"{cell.n_as_good} of {len(cell.ours)}",
                ]
                for cell in own
            ],
        )


def draws(cells: Iterable[Cell]) -> str:
    """Return how many draws the cells have, the fewest and the most."""
    counts = [len(cell.ours) for cell in cells]
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


FEWEST = 5  # draws; a spread of fewer says little
# Sets that stand in for the paper's, of which only the order of the methods can be compared.
SUBSTITUTES = {"drsvm": ("news20", "rcv1"), "nmf-alpha": ("aviation", "news of LIBSVM")}


def cells_of(rows: Iterable[Row], **more: Any) -> list[Cell]:
    """Return a cell for each part, set, method and setting of rows with a published number, in the rows' order."""
    return [
        Cell(*place, float(own[0]["published"]), None, ours_of(own), **more)
        for place, own in grouped(
            [row for row in rows if row["published"]], "part", "dataset", "method", "parameters"
        ).items()
    ]


def ours_of(rows: Iterable[Row]) -> tuple[float, ...]:
    """Return ours of each draw, in the order of the draws."""
    return tuple(float(row["ours"]) for row in sorted(rows, key=lambda row: int(row["seed"])))


def rows_of(name: str, **where: str) -> list[Row]:
    """Return the rows of an experiment with these values."""
    return Results(RESULTS / f"{name}.csv").select(**where)


def drsvm_cells(part: str, about: str = "", fits: Callable[[Row], bool] = lambda row: True) -> list[Cell]:
    """Return Table II or IV; ``part`` is that of the rows, ``about`` is added to the method's name."""
    cells = []
    for cell in cells_of(row for row in rows_of("drsvm", part=part) if fits(row)):
        setting = cell.setting if part == "Table IV" else cell.setting.split()[0]
        setting = setting.replace("labels=100 ", "").replace("labels=", "labels ")
        same = cell.dataset not in SUBSTITUTES["drsvm"]
        cells.append(cell._replace(method=cell.method + about, setting=setting, same_data=same))
    return cells


def pca_ls_cells(part: str, shown: str = "") -> list[Cell]:
    """Return Tables 1 and 3 together; ``part`` is added to the tables' names in the rows."""
    return [
        cell._replace(part=table, method=cell.method + shown)
        for table in ("Table 1", "Table 3")
        for cell in cells_of(row | {"parameters": ""} for row in rows_of("subspace", part=table + part))
        if len(cell.ours) >= FEWEST
    ]


def nsdr_cells() -> dict[str, list[Cell]]:
    """Return Table 2 for every way in which parameters were chosen, in the order of the rows.

    The last is NSDR at the point of the searched grid that is best on the validation rows of each fold, by set.
    """
    paper = published("nsdr", "Table 2")
    rows = [row | {"parameters": ""} for row in rows_of("nsdr") if row["part"].startswith("Table 2")]
    cells = cells_of(rows, higher_is_better=False)
    grid = Results(RESULTS / "nsdr_grid.csv")
    for name in grouped(grid.select(part="Grid"), "dataset"):
        found = errors_of(grid, name)
        value, spread = paper[name, "NSDR", ""]
        place = "Table 2, the grid searched", name, "NSDR", f"{len(found.test)} fits"
        cells.append(Cell(*place, value, spread, tuple(by_fold(found).tolist()), higher_is_better=False))
    tables: dict[str, list[Cell]] = {}
    for cell in cells:
        spread = paper[cell.dataset, cell.method, ""].spread
        tables.setdefault(cell.part, []).append(cell._replace(deviation=spread))
    return tables


def nmf_alpha_cells() -> list[Cell]:
    """Return Table 2, at the number of components that is best on validation rows."""
    table = read_table(RESULTS / "nmf_alpha_tuned.csv")
    cells = []
    for form, rows in (("unit", ""), ("libsvm", " of LIBSVM")):
        for (name, method, setting), (value, _) in published("nmf-alpha", "Table 2").items():
            share = setting.removeprefix("labels=")
            found = table.best(name, int(share), method, form)
            if found is not None and len(found[1].test) > 1:
                same = name + rows not in SUBSTITUTES["nmf-alpha"]
                place = "Table 2", name + rows, method, f"{share}% labelled"
                cells.append(Cell(*place, value, None, tuple(found[1].test.tolist()), same_data=same))
    return sorted(cells, key=_place)


def _place(cell: Cell) -> tuple[int, str, int]:
    """Return the place of a cell in Table 2: by set and share of labels."""
    return list(LABELS).index(cell.dataset.split()[0]), cell.dataset, int(cell.setting.split("%")[0])


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
    page.text("## A classifier on every real set", two_stage_report.CLASSIFIERS, texts["classifiers"])
    page.table(two_stage_report.HEADER, two_stage_report.classifier_lines(results))
    page.text("## Figures 1 and 2", texts["figures_1_2"])
    for number in (1, 2):
        page.text(f"![Figure {number}](../../experiments/results/two_stage_figure_{number}.png)")
    page.text("## Figures 3 to 5: time as n and d grow", texts["figures_3_5"], two_stage_report.TIMES)
    if left := two_stage_report.not_run(results):
        page.text(left)
    lines = []
    for figure in two_stage_report.FIGURES:
        for method, curve in two_stage_report.curves_of(results, figure).items():
            sizes = two_stage_report.paper_sizes(figure, curve)
            last = sizes[-1]
            line = [f"{figure}, {method}, {two_stage_report.grows(figure)} = {sizes[0]} to {last}"]
            line += [
                str(curve[solver][last]) if solver in curve else "" for solver in two_stage_report.STYLES
            ]
            for solver in ("lsqr", "iterations", "two-stage"):
                times = curve.get(solver, {})
                wins = sum(times[size].best < curve["direct"][size].best for size in sizes if times)
                line.append(f"{wins} of {len(sizes)} {_kept(wins, len(sizes))}" if times else "")
            lines.append(line)
    page.table(
        [
            "figure, technique, sizes",
            *(f"{solver}, seconds at the largest" for solver in two_stage_report.STYLES),
            *(f"{solver} faster than direct" for solver in ("lsqr", "iterations", "two-stage")),
        ],
        lines,
    )
    page.text(texts["times"])
    for figure in two_stage_report.FIGURES:
        name = "two_stage_figure_" + figure.replace(" ", "_")
        page.text(f"![Figure {figure}](../../experiments/results/{name}.png)")
    return []  # what it printed are distances at the level of rounding, judged above, and curves without numbers


def _kept(count: int, sizes: int) -> str:
    return "reached" if count == sizes else "**missed**"


def drsvm(page: Report, texts: Texts) -> list[Cell]:
    """Tables II and IV, and Table II with the library's weights."""
    paper = drsvm_cells("Table II")
    weighted = drsvm_cells("Own weights", ", own weights", lambda row: "auto" in row["parameters"])
    ssdr = drsvm_cells("SSDR", ", largest magnitude", lambda row: "largest-magnitude" in row["parameters"])
    shown = [*paper, *weighted, *ssdr]
    page.text("## Summary", RULE)
    write_counts(page, shown)
    page.text(texts["summary"])
    for dataset in dict.fromkeys(cell.dataset for cell in paper):
        own = [cell for cell in shown if cell.dataset == dataset]
        page.text(f"## Table II: {dataset}", f"{texts['sets'][dataset]} Draws: {draws(own)}.")
        write_grid(page, own, "", "setting", "method", texts["digits"])
    sensitivity = drsvm_cells("Table IV")
    page.text("## Table IV: weights, 100 labels, L2-DRSVM, 10 draws", texts["table_4"])
    write_grid(page, sensitivity, "", "setting", "dataset", texts["digits"])
    return shown


def pca_ls(page: Report, texts: Texts) -> list[Cell]:
    """Tables 1 and 3, with the paper's choice and with the library's, and baselines with all configurations."""
    paper, own = pca_ls_cells(""), pca_ls_cells(", library's choice", ", library's choice")
    whole = pca_ls_cells(", whole grid", ", whole grid")
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
    write_grid(page, cells, "set", "dataset", "method", digits)


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
    tables = nsdr_cells()
    page.text("## Summary", RULE)
    for part, cells in tables.items():
        page.text(f"### {part}")
        write_counts(page, cells)
    page.text(texts["summary"])
    for part, cells in tables.items():
        page.text(f"## {part}: error on the test part, {draws(cells)} values each")
        write_grid(page, cells, "set", "dataset", "method", texts["digits"])
    return [cell for cells in tables.values() for cell in cells]


def nmf_alpha(page: Report, texts: Texts) -> list[Cell]:
    """Table 2, and in how many settings NMF-alpha is above the others."""
    cells = nmf_alpha_cells()
    page.text("## Summary", RULE)
    write_counts(page, cells)
    page.text(texts["summary"], "## Table 2")
    page.text(f"Draws: {draws(cells)} splits each.")
    write_grid(page, cells, "", "set_and_setting", "method", texts["digits"])
    page.text("## Figures 4 and 5: settings in which NMF-alpha is above", texts["figures"])
    write_compared(page, read_table(RESULTS / "nmf_alpha_tuned.csv"))
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
