"""The cells of each paper, from the rows of the experiments' CSV files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np

from common import RESULTS, Results, parameter, published
from papers_parts.cells import Cell

Row = dict[str, str]
# Sets that stand in for the paper's, of which only the order of the methods can be compared.
SUBSTITUTES = {"drsvm": ("news20", "rcv1"), "nmf-alpha": ("aviation",)}


def results(name: str) -> Results:
    """Return the rows of an experiment."""
    return Results(RESULTS / f"{name}.csv")


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
    rows = [row for row in results("drsvm").select(part=part) if row["published"] and fits(row)]
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
        rows = [row for row in results("subspace").select(part=table + part) if row["published"]]
        for (dataset, method), own in grouped(rows, lambda row: (row["dataset"], row["method"])).items():
            cells.append(
                Cell(table, dataset, method + shown, "", float(own[0]["published"]), None, values(own))
            )
    return cells


def nsdr() -> dict[str, list[Cell]]:
    """Return Table 2 for every way in which parameters were chosen, in the order of the rows."""
    spreads = {key[:2]: cell.spread for key, cell in published("nsdr", "Table 2").items()}
    rows = [row for row in results("nsdr").rows if row["part"].startswith("Table 2") and row["published"]]
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
    return tables


def nmf_alpha() -> list[Cell]:
    """Return Table 2: each method at the number of components that is best on validation rows, by share of labels."""
    rows = [row for row in results("nmf_alpha").select(part="Scores") if row["published"]]
    cells = []
    for (dataset, method, share), own in grouped(
        rows, lambda row: (row["dataset"], row["method"], parameter(row, "labels"))
    ).items():
        sizes = grouped(own, lambda row: (parameter(row, "r"),))
        best = max(sizes.values(), key=lambda rows: np.mean([float(row["relative"]) for row in rows]))
        cells.append(
            Cell(
                "Table 2",
                dataset,
                method,
                f"{share}% labelled",
                float(best[0]["published"]),
                None,
                values(best),
                same_data=dataset not in SUBSTITUTES["nmf-alpha"],
            )
        )
    return cells


def nmf_alpha_pairs() -> list[list[str]]:
    """Return how often NMF-alpha is above another method with as many components, in the mean over the splits."""
    rows = results("nmf_alpha").select(part="Scores")
    means = {
        key: float(np.mean(values(own)))
        for key, own in grouped(rows, lambda row: (row["dataset"], row["method"], row["parameters"])).items()
    }
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    lines = []
    for other in ("NMF", "PCA", "SSNMF", "CNMF"):
        line = [other]
        for dataset in datasets:
            pairs = [
                (value, means[dataset, other, parameters])
                for (name, method, parameters), value in means.items()
                if (name, method) == (dataset, "NMF-alpha") and (dataset, other, parameters) in means
            ]
            line.append(f"{sum(ours > theirs for ours, theirs in pairs)} of {len(pairs)}")
        lines.append(line)
    return [["above", *datasets], *lines]
