"""The page of NMF-alpha with tuned supervision, from the rows of its CSV."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import Report, Results, parameter, words
from nmf_alpha_sets import LABELS, TABLE_2, TITLES

FAMILY = (
    "NMF-alpha",
    "NMF-alpha, path to 0",
    "NMF-alpha, path up",
    "NMF-alpha, no path",
    "NMF-alpha, perceptron",
    "NMF-alpha, logistic",
    "NMF-alpha, joint",
    "NMF-alpha, kernel",
)


EARLIER = ("NMF", "SSNMF", "CNMF", "SVM", "TSVM")


class Cell(NamedTuple):
    """A method in one setting: its test and validation scores and trade-offs, split by split."""

    seeds: tuple[str, ...]
    test: np.ndarray
    validation: np.ndarray
    multiples: tuple[str, ...]

    @property
    def shown(self) -> str:
        """Return mean and deviation over splits, and the number of splits where it is not five."""
        if len(self.test) == 1:
            return f"{self.test[0]:.1f} [one split]"
        draws = "" if len(self.test) == 5 else f" [{len(self.test)} splits]"
        return f"{self.test.mean():.1f} ± {self.test.std():.1f}{draws}"


class Table:
    """The chosen rows by set, form, labels, r, length and method.

    ``earlier`` are the rows of nmf_alpha.csv, whose methods without a trade-off have the same protocol; its SSNMF was
    tuned once a set. They are used where there are no rows of their own.
    """

    def __init__(self, results: Results, earlier: Results | None = None) -> None:
        found: dict[tuple, list[dict[str, str]]] = {}
        for row in results.select(part="Tuned"):
            names = (parameter(row, name) for name in ("form", "labels", "r", "length"))
            found.setdefault((row["dataset"], *names, row["method"]), []).append(row)
        self.cells = {key: _cell(rows) for key, rows in found.items()}
        sets, before = {key[0] for key in found}, {}
        for row in earlier.select(part="Scores") if earlier else ():
            if row["method"] in EARLIER and row["dataset"] in sets:
                names = parameter(row, "labels"), parameter(row, "r")
                said = row | {"relative": words(validation=row["relative"], multiple="")}
                before.setdefault((row["dataset"], "unit", *names, "as-placed", row["method"]), []).append(
                    said
                )
        for key, rows in before.items():
            if len(rows) > len(found.get(key, ())):
                self.cells[key] = _cell(rows)

    def get(
        self, name: str, percent: int, k: int, method: str, length: str = "as-placed", form: str = "unit"
    ) -> Cell | None:
        """Return a cell, None where there is none."""
        return self.cells.get((name, form, str(percent), str(k), length, method))

    def ranks(self, name: str, method: str) -> list[int]:
        """Return the numbers of components that a method was run with."""
        return sorted({int(key[3]) for key in self.cells if key[0] == name and key[5] == method})

    def best(
        self, name: str, percent: int, method: str, length: str = "as-placed"
    ) -> tuple[int, Cell] | None:
        """Return the number of components that is best on validation rows, of those run on most splits."""
        found = {k: self.get(name, percent, k, method, length) for k in self.ranks(name, method)}
        known = {k: cell for k, cell in found.items() if cell is not None}
        if not known:
            return None
        most = max(len(cell.test) for cell in known.values())
        full = {k: cell for k, cell in known.items() if len(cell.test) == most}
        k = max(full, key=lambda k: full[k].validation.mean())
        return k, full[k]


def _cell(rows: list[dict[str, str]]) -> Cell:
    rows = sorted(rows, key=lambda row: int(row["seed"]))
    said = [dict(word.split("=") for word in row["relative"].split()) for row in rows]
    return Cell(
        tuple(row["seed"] for row in rows),
        np.array([float(row["ours"]) for row in rows]),
        np.array([float(each["validation"]) for each in said]),
        tuple(each["multiple"] for each in said),
    )


def write_report(results: Results, path: Path) -> None:
    """Make the page from the rows alone."""
    page = Report(path)
    before = path.parent / "nmf_alpha.csv"
    table = Table(results, Results(before) if before.is_file() else None)
    names = [name for name in LABELS if any(key[0] == name for key in table.cells)]
    page.text(
        "# NMF-alpha, tuned as in its paper",
        "Y. Cho, L. K. Saul, *Nonnegative matrix factorization for semi-supervised dimensionality reduction*, 2011. "
        "Made by `python experiments/nmf_alpha_tuned.py` from `nmf_alpha_tuned.csv`; sets, splits and scores are "
        "those of [nmf_alpha.md](nmf_alpha.md).",
        "The supervision of NMF-alpha and of SSNMF and the C of the last SVM (1, 10, 100) are chosen on the "
        "validation rows of each split, for each number of components r and each share of labels. The supervision of "
        "NMF-alpha is in units of the sum of X over that of S'X. It falls along a path, 3, 1, 0.3, 0.1, 0.03, 0.01, "
        "40 iterations each, and every fit goes on from the factors of the one before; the first starts where NMF "
        "starts, which has 200 iterations. *Path to 0* goes on to 0.003, 0.001 and 0, which is NMF itself. *Path up* "
        "has the same values in rising order from the factors of NMF; *no path* has 200 iterations from NMF's start "
        "for each value. NMF, SSNMF (tuned once a set), CNMF, SVM and TSVM are those of nmf_alpha.csv where they "
        "were not run again. Rows reach the last SVM *as placed*, divided by one number for all, unless *unit* is "
        "said: then each has length 1. Numbers are means over splits ± their standard deviation, five splits unless "
        "said.",
        "What was looked at before: validation scores of the first split of the newsgroups with 5% labels and r = 32,"
        " for the direction of the path, its values and its number of iterations. Everything else was fixed before.",
    )
    for name in names:
        _published(page, table, name)
        _by_rank(page, table, name)
        _paired(page, table, name)
        _multiples(page, results, table, name)
    _forms(page, table)
    _shares(page, table)
    page.write()


def _published(page: Report, table: Table, name: str) -> None:
    page.text(
        f"## {TITLES[name]}: beside Table 2",
        "Each method with the r that is best on validation rows. *Reached*: within one standard "
        "deviation of the published figure, or above it.",
    )
    lines = []
    shown = (
        ("NMF-alpha", "as-placed"),
        ("NMF-alpha, path to 0", "as-placed"),
        ("NMF-alpha", "unit"),
        ("NMF", "as-placed"),
        ("SSNMF", "as-placed"),
        ("CNMF", "as-placed"),
    )
    for place, percent in enumerate(LABELS[name]):
        published = TABLE_2[name][place][0]
        cells = []
        for method, length in shown:
            found = table.best(name, percent, method, length)
            if found is None:
                cells.append("")
                continue
            k, cell = found
            verdict = ""
            if method in FAMILY and len(cell.test) > 1:
                verdict = ", reached" if cell.test.mean() + cell.test.std() >= published else ", missed"
            cells.append(f"{cell.shown}, r = {k}{verdict}")
        lines.append((f"{percent}%", f"{published:.1f}", *cells))
    titles = (method + (", unit" if length == "unit" else "") for method, length in shown)
    page.table(["labels", "published", *titles], lines)


def _by_rank(page: Report, table: Table, name: str) -> None:
    methods = [m for m in ("NMF", *FAMILY, "SSNMF", "CNMF", "SVM", "TSVM") if table.ranks(name, m)]
    ranks = sorted({k for m in methods for k in table.ranks(name, m)})
    lines = []
    for method in methods:
        for percent in LABELS[name]:
            for length in ("as-placed", "unit"):
                found = [table.get(name, percent, k, method, length) for k in ranks]
                if any(found):
                    label = f"{method}, {percent}%" + (", unit" if length == "unit" else "")
                    lines.append((label, *(cell.shown if cell else "" for cell in found)))
    page.text("Test scores by r (0: raw inputs):")
    page.table(["method, labels", *(f"r = {k}" for k in ranks)], lines)


def _paired(page: Report, table: Table, name: str) -> None:
    """Say in how many settings a method is above another, on the splits that both have."""
    lines = []
    for method in FAMILY:
        for other in ("NMF", "SSNMF", "CNMF", "NMF-alpha"):
            differences = []
            for percent in LABELS[name]:
                for k in table.ranks(name, method):
                    ours, theirs = table.get(name, percent, k, method), table.get(name, percent, k, other)
                    if ours is None or theirs is None or method == other:
                        continue
                    common = sorted(set(ours.seeds) & set(theirs.seeds))
                    if common:
                        differences.append(
                            np.array(
                                [
                                    ours.test[ours.seeds.index(s)] - theirs.test[theirs.seeds.index(s)]
                                    for s in common
                                ]
                            )
                        )
            if differences:
                means = np.array([d.mean() for d in differences])
                clear = sum(len(d) > 1 and d.mean() > d.std() for d in differences)
                lines.append(
                    (
                        f"{method} less {other}",
                        f"{(means > 0).sum()} of {len(means)}",
                        clear,
                        f"{means.mean():+.1f}",
                        f"{means.min():+.1f}",
                        f"{means.max():+.1f}",
                    )
                )
    if lines:
        page.text(
            "In how many settings (share of labels and r) a method is above another, on the splits that both have, "
            "as placed; in how many by more than the deviation of the difference over splits; the mean, least and "
            "the largest difference:"
        )
        page.table(["difference", "above", "clearly", "mean", "least", "largest"], lines)


def _multiples(page: Report, results: Results, table: Table, name: str) -> None:
    rows = [row for row in results.select(part="Path", dataset=name) if row["method"] in (*FAMILY, "SSNMF")]
    rows = [
        row for row in rows if parameter(row, "form") == "unit" and parameter(row, "length") == "as-placed"
    ]
    groups: dict[tuple, dict[str, list[float]]] = {}
    for row in rows:
        key = row["method"], int(parameter(row, "labels")), int(parameter(row, "r"))
        groups.setdefault(key, {}).setdefault(parameter(row, "multiple"), []).append(float(row["ours"]))
    page.text("Validation score by supervision, mean over splits, and what the splits chose:")
    values = sorted({m for group in groups.values() for m in group}, key=float)
    lines = []
    for (method, percent, k), group in sorted(groups.items()):
        cell = table.get(name, percent, k, method)
        if cell is not None:
            means = (f"{np.mean(group[m]):.1f}" if m in group else "" for m in values)
            lines.append((f"{method}, {percent}%, r = {k}", *means, ", ".join(cell.multiples)))
    page.table(["method, labels, r", *values, "chosen"], lines)


def _forms(page: Report, table: Table) -> None:
    forms = list(dict.fromkeys(key[1] for key in table.cells if key[0] == "news"))
    if len(forms) < 2:
        return
    page.text(
        "## Newsgroups: the weights of words",
        "How the paper weighed and pruned its words is not known. Rows of word counts: of *unit* length (as above), "
        "of *sum* 1, *tf-idf* of unit length, *root*s of the counts of unit length, or the *counts* themselves. Test "
        "score (validation score).",
    )
    lines = []
    settings = sorted(
        {(int(k[2]), int(k[3]), k[5], k[4]) for k in table.cells if k[0] == "news" and k[1] != "unit"}
    )
    for percent, k, method, length in settings:
        cells = []
        for form in forms:
            cell = table.get("news", percent, k, method, length, form)
            cells.append(f"{cell.shown} ({cell.validation.mean():.1f})" if cell else "")
        lines.append((f"{method}, {percent}%, r = {k}" + (", unit" if length == "unit" else ""), *cells))
    page.table(["method, labels, r", *forms], lines)


def _shares(page: Report, table: Table) -> None:
    """Show scores on the newsgroups by the share of labels, of which the paper's is not known."""
    percents = sorted({int(key[2]) for key in table.cells if key[0] == "news" and key[1] == "unit"})
    if set(percents) <= set(LABELS["news"]):
        return
    lines = []
    for method, k in (("SVM", 0), ("NMF-alpha", 32)):
        found = [table.get("news", percent, k, method) for percent in percents]
        lines.append((method, *(cell.shown if cell else "" for cell in found)))
    few, some, every = (row[0] for row in TABLE_2["news"])
    page.text(
        "## Newsgroups: the share of labels",
        f"The paper's shares of labels on the newsgroups are not known to us: {few:.1f} and {some:.1f} are its "
        f"figures for two small ones, {every:.1f} for all. Test score by share, SVM on raw inputs and NMF-alpha with "
        "r = 32:",
    )
    page.table(["method", *(f"{percent}%" for percent in percents)], lines)
