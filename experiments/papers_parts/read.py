"""The cells of each paper, from the rows of the experiments' CSV files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np

from common import RESULTS, Results, published
from nmf_alpha_sets import LABELS, TABLE_2
from nmf_alpha_tuned_report import Table, read_table
from papers_parts.cells import Cell

Row = dict[str, str]
FEWEST = 5  # draws; a spread of fewer says little
# Sets that stand in for the paper's, of which only the order of the methods can be compared.
SUBSTITUTES = {"drsvm": ("news20", "rcv1"), "nmf-alpha": ("aviation", "news of LIBSVM")}


def rows_of(name: str, **where: str) -> list[Row]:
    """Return the rows of an experiment with these values; none where it was not run."""
    path = RESULTS / f"{name}.csv"
    return Results(path).select(**where) if path.is_file() else []


def grouped(rows: Iterable[Row], key: Callable[[Row], tuple[str, ...]]) -> dict[tuple[str, ...], list[Row]]:
    """Return rows by a key, in the order of their first."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def values(rows: Iterable[Row]) -> tuple[float, ...]:
    """Return ours of each draw."""
    return tuple(float(row["ours"]) for row in rows)


def drsvm(part: str, about: str = "", fits: Callable[[Row], bool] = lambda row: True) -> list[Cell]:
    """Return Table II or IV; ``part`` is that of the rows, ``about`` is added to the method's name."""
    rows = [row for row in rows_of("drsvm", part=part) if row["published"] and fits(row)]
    cells = []
    for (dataset, method, parameters), own in grouped(
        rows, lambda row: (row["dataset"], row["method"], row["parameters"])
    ).items():
        setting = parameters if part == "Table IV" else parameters.split()[0]
        cells.append(
            Cell(
                part,
                dataset,
                method + about,
                setting.replace("labels=100 ", "").replace("labels=", "labels "),
                float(own[0]["published"]),
                None,
                values(own),
                same_data=dataset not in SUBSTITUTES["drsvm"],
            )
        )
    return cells


def pca_ls(part: str, shown: str = "") -> list[Cell]:
    """Return Tables 1 and 3 together; ``part`` is added to the tables' names in the rows."""
    cells = []
    for table in ("Table 1", "Table 3"):
        rows = [row for row in rows_of("subspace", part=table + part) if row["published"]]
        for (dataset, method), own in grouped(rows, lambda row: (row["dataset"], row["method"])).items():
            if len(own) < FEWEST:
                continue
            cells.append(
                Cell(table, dataset, method + shown, "", float(own[0]["published"]), None, values(own))
            )
    return cells


def nsdr() -> dict[str, list[Cell]]:
    """Return Table 2 for every way in which parameters were chosen, in the order of the rows."""
    spreads = {key[:2]: cell.spread for key, cell in published("nsdr", "Table 2").items()}
    rows = [row for row in rows_of("nsdr") if row["part"].startswith("Table 2") and row["published"]]
    tables: dict[str, list[Cell]] = defaultdict(list)
    for (part, dataset, method), own in grouped(
        rows, lambda row: (row["part"], row["dataset"], row["method"])
    ).items():
        tables[part].append(
            Cell(
                part,
                dataset,
                method,
                "",
                float(own[0]["published"]),
                spreads.get((dataset, method)),
                values(own),
                higher_is_better=False,
            )
        )
    for cell in _grid_of_nsdr(spreads):
        tables[cell.part].append(cell)
    return tables


def _grid_of_nsdr(spreads: dict[tuple[str, ...], float | None]) -> list[Cell]:
    """Return NSDR at the point of the searched grid that is best on the validation rows of each fold, by set.

    A row is one point from one start; ``relative`` has "test/validation" error of each fold. Ties are averaged.
    """
    rows = [row for row in rows_of("nsdr_grid", part="Grid") if "/" in row["relative"]]
    cells = []
    for (dataset, method), own in grouped(rows, lambda row: (row["dataset"], row["method"])).items():
        errors = np.array([[each.split("/") for each in row["relative"].split()] for row in own], dtype=float)
        test, validation = errors[..., 0], errors[..., 1]
        best = validation == validation.min(axis=0)
        chosen = (test * best).sum(axis=0) / best.sum(axis=0)
        cells.append(
            Cell(
                "Table 2, the grid searched",
                dataset,
                method,
                f"{len(own)} fits",
                float(own[0]["published"]),
                spreads.get((dataset, method)),
                tuple(chosen.tolist()),
                higher_is_better=False,
            )
        )
    return cells


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
                        cells.append(_of_table_2(name + rows, method, str(share), value, found[1].test))
    return sorted(cells, key=_place)


def _place(cell: Cell) -> tuple[int, str, int]:
    """Return the place of a cell in Table 2: by set and share of labels."""
    return list(TABLE_2).index(cell.dataset.split()[0]), cell.dataset, int(cell.setting.split("%")[0])


def nmf_alpha_table() -> Table:
    """Return what was tuned for each split."""
    return read_table(RESULTS / "nmf_alpha_tuned.csv")


def _of_table_2(dataset: str, method: str, share: str, paper: float, ours: Iterable[float]) -> Cell:
    return Cell(
        "Table 2",
        dataset,
        method,
        f"{share}% labelled",
        paper,
        None,
        tuple(map(float, ours)),
        same_data=dataset not in SUBSTITUTES["nmf-alpha"],
    )
