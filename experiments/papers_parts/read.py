"""The cells of each paper, from the rows of the experiments' CSV files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from common import RESULTS
from nmf_alpha_sets import LABELS, TABLE_2
from nmf_alpha_tuned_report import Table, read_table
from nsdr_grid_report import by_fold, errors_of
from papers_parts.cells import Cell
from result_rows import Results, Row, grouped, published

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


def drsvm(part: str, about: str = "", fits: Callable[[Row], bool] = lambda row: True) -> list[Cell]:
    """Return Table II or IV; ``part`` is that of the rows, ``about`` is added to the method's name."""
    cells = []
    for cell in cells_of(row for row in rows_of("drsvm", part=part) if fits(row)):
        setting = cell.setting if part == "Table IV" else cell.setting.split()[0]
        setting = setting.replace("labels=100 ", "").replace("labels=", "labels ")
        same = cell.dataset not in SUBSTITUTES["drsvm"]
        cells.append(cell._replace(method=cell.method + about, setting=setting, same_data=same))
    return cells


def pca_ls(part: str, shown: str = "") -> list[Cell]:
    """Return Tables 1 and 3 together; ``part`` is added to the tables' names in the rows."""
    return [
        cell._replace(part=table, method=cell.method + shown)
        for table in ("Table 1", "Table 3")
        for cell in cells_of(row | {"parameters": ""} for row in rows_of("subspace", part=table + part))
        if len(cell.ours) >= FEWEST
    ]


def nsdr() -> dict[str, list[Cell]]:
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


def nmf_alpha() -> list[Cell]:
    """Return Table 2, at the number of components that is best on validation rows."""
    table = nmf_alpha_table()
    cells = []
    for form, rows in (("unit", ""), ("libsvm", " of LIBSVM")):
        for name in TABLE_2:
            for share, paper in zip(LABELS[name], TABLE_2[name], strict=True):
                for method, value in zip(("NMF-alpha", "LDA"), paper, strict=True):
                    found = table.best(name, share, method, form)
                    if found is not None and len(found[1].test) > 1:
                        same = name + rows not in SUBSTITUTES["nmf-alpha"]
                        place = "Table 2", name + rows, method, f"{share}% labelled"
                        cells.append(Cell(*place, value, None, tuple(found[1].test.tolist()), same_data=same))
    return sorted(cells, key=_place)


def _place(cell: Cell) -> tuple[int, str, int]:
    """Return the place of a cell in Table 2: by set and share of labels."""
    return list(TABLE_2).index(cell.dataset.split()[0]), cell.dataset, int(cell.setting.split("%")[0])


def nmf_alpha_table() -> Table:
    """Return what was tuned for each split."""
    return read_table(RESULTS / "nmf_alpha_tuned.csv")
