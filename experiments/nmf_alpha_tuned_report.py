"""The page of NMF-alpha with tuned supervision, from the rows of its CSV."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import Report
from nmf_alpha_sets import LABELS, TABLE_2, TITLES
from result_rows import Results, Row, grouped, spread, values, words

TUNED = "NMF-alpha"
ENDS = ", path to 0.01"
VARIANTS = tuple(f"{TUNED}, {name}" for name in ("perceptron", "logistic", "joint", "kernel"))
SHORT = (TUNED + ENDS, *(name + ENDS for name in VARIANTS), f"{TUNED}, path up", f"{TUNED}, no path")
RIVALS = ("NMF", "PCA", "SSNMF", "CNMF")
OTHERS = (*RIVALS, "LDA", "SVM", "TSVM")
FORMS = {"unit": "rows of unit length", "tf-idf": "tf-idf", "libsvm": "LIBSVM's rows, all words"}


class Cell(NamedTuple):
    """A method in one setting: its test and validation scores and what was chosen, split by split."""

    seeds: tuple[str, ...]
    test: np.ndarray
    validation: np.ndarray
    multiples: tuple[str, ...]
    first: tuple[str, ...]

    @property
    def shown(self) -> str:
        """Return mean and deviation over splits, and the number of splits where it is not five."""
        return _shown(self.test)

    def less(self, other: Cell) -> np.ndarray:
        """Return the differences of the test scores on the splits that both have."""
        theirs = dict(zip(other.seeds, other.test, strict=True))
        return np.array(
            [mine - theirs[seed] for seed, mine in zip(self.seeds, self.test, strict=True) if seed in theirs]
        )


class Table:
    """The chosen rows by set, form, labels, r, length and method.

    A split has a row for each C of the SVMs that give the directions; the one that is best on its validation rows
    counts. ``earlier`` are the rows of nmf_alpha.csv, whose methods without a trade-off have the same protocol; its
    SSNMF was tuned once a set. They are used where there are no rows of their own.
    """

    def __init__(self, results: Results, earlier: Results | None = None) -> None:
        keys = ("dataset", "form", "labels", "r", "length", "method")
        self.cells = {key: _cell(rows) for key, rows in grouped(results.select(part="Tuned"), *keys).items()}
        sets = {key[0] for key in self.cells}
        before = grouped(earlier.select(part="Scores") if earlier else (), "dataset", "labels", "r", "method")
        for (name, labels, r, method), rows in before.items():
            key = name, "unit", labels, r, "as-placed", method
            own = self.cells.get(key)
            if method in OTHERS and name in sets and (own is None or len(rows) > len(own.seeds)):
                said = [row | {"relative": words(validation=row["relative"], multiple="")} for row in rows]
                self.cells[key] = _cell(said)

    def get(
        self, name: str, percent: int, k: int, method: str, length: str = "as-placed", form: str = "unit"
    ) -> Cell | None:
        """Return a cell, None where there is none."""
        return self.cells.get((name, form, str(percent), str(k), length, method))

    @property
    def names(self) -> list[str]:
        """The sets on which NMF-alpha was tuned."""
        return [name for name in LABELS if self.ranks(name, TUNED)]

    def ranks(self, name: str, method: str, form: str = "unit") -> list[int]:
        """Return the numbers of components that a method was run with."""
        return sorted({int(key[3]) for key in self.cells if key[:2] == (name, form) and key[5] == method})

    def best(self, name: str, percent: int, method: str, form: str = "unit") -> tuple[int, Cell] | None:
        """Return the number of components that is best on validation rows, of those run on most splits."""
        found = [(k, self.get(name, percent, k, method, form=form)) for k in self.ranks(name, method, form)]
        known = [(k, cell) for k, cell in found if cell is not None]
        most = max((len(cell.test) for _, cell in known), default=0)
        full = [(k, cell) for k, cell in known if len(cell.test) == most]
        return max(full, key=lambda item: item[1].validation.mean(), default=None)

    def differences(self, name: str, method: str, other: str) -> dict[tuple[int, int], np.ndarray]:
        """Return a method less another by share of labels and r, on the splits that both have."""
        found = {}
        for percent in LABELS[name]:
            for k in self.ranks(name, method):
                ours, theirs = self.get(name, percent, k, method), self.get(name, percent, k, other)
                if ours is not None and theirs is not None and len(less := ours.less(theirs)):
                    found[percent, k] = less
        return found


def _cell(rows: list[Row]) -> Cell:
    best: dict[str, dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        said = row | dict(word.split("=") for word in f"{row['parameters']} {row['relative']}".split())
        if float(said["validation"]) > float(best.get(row["seed"], {}).get("validation", "-inf")):
            best[row["seed"]] = said
    chosen = best.values()
    multiples, first = (tuple(said.get(name, "") for said in chosen) for name in ("multiple", "first"))
    return Cell(tuple(best), values(chosen), values(chosen, "validation"), multiples, first)


def _shown(scores: np.ndarray) -> str:
    if len(scores) == 1:
        return f"{scores[0]:.1f} [one split]"
    return spread(scores, 1) + ("" if len(scores) == 5 else f" [{len(scores)} splits]")


def read_table(path: Path) -> Table:
    """Return the table of a CSV, with the rows of nmf_alpha.csv beside it."""
    before = path.with_name("nmf_alpha.csv")
    return Table(Results(path), Results(before) if before.is_file() else None)


def write_report(results: Results, path: Path) -> None:
    """Make the page from the rows alone."""
    page = Report(path)
    table = read_table(results.path)
    page.text(
        "# NMF-alpha, tuned as in its paper",
        "Y. Cho, L. K. Saul, *Nonnegative matrix factorization for semi-supervised dimensionality reduction*, 2011. "
        "Made by `python experiments/nmf_alpha_tuned.py` from `nmf_alpha_tuned.csv`; sets, splits and scores are "
        "those of [nmf_alpha.md](nmf_alpha.md).",
        "Chosen on the validation rows of each split, for each number of components r and each share of labels: the "
        "supervision of NMF-alpha and of SSNMF, the C of the SVMs that give the directions (0.01 and 1, where both "
        "were run), and the C of the last SVM (0.1, 1, 10, 100), all for "
        "rows with a mean squared length of 1. The supervision of NMF-alpha is in units of the sum of X over that of "
        "S'X. It falls along a path, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0, 40 iterations each, and every fit "
        "goes on from the factors of the one before; the first starts where NMF starts, which has 200 iterations. "
        "With 0 the objective is NMF's, but the start is another. On MNIST with C = 0.01 the path begins at 100 and "
        "has no values between 0.03 and 0.",
        "Variants: a *path to 0.01* ends there, and has C = 1 for the directions and 1, 10, 100 for the last SVM; "
        "*path up* has the values in rising order from the factors of NMF; *no path* has 200 iterations from NMF's "
        "start for each value; *perceptron* and *logistic* have other directions; *joint* learns the directions with "
        "the factors; *kernel* factorises RBF kernel values with 1,000 landmarks. NMF, SSNMF (tuned once a set), "
        "CNMF, PCA, LDA, SVM and TSVM are those of nmf_alpha.csv where they were not run again. Numbers are means "
        "over splits ± their standard deviation, five splits unless said.",
        "What was looked at before a choice: validation scores of the first split of the newsgroups with r = 32, "
        "with 5% labels for the direction of the path, its values and its iterations, with 10% for both C; "
        "of MNIST with r = 32 and 10%, and with r = 8 and 64 for C = 0.01 and the longer path. "
        "Test scores of the first splits had been seen when the path was extended to 0 (the splits with 5% labels "
        "had chosen its last value, 0.01), when both C were given other values (the last one had been at the end of "
        "its grid), when other words and shares of labels were tried, and on MNIST when C = 0.01 and the longer path "
        "were tried: with C = 1 few components were no better than NMF's.",
    )
    for name in table.names:
        _published(page, table, name)
        _by_rank(page, table, name)
        write_compared(page, table, name)
        _variants(page, table, name)
        _multiples(page, results, table, name)
    _lengths(page, table)
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
    methods = (TUNED, *OTHERS)
    for percent, (published, _) in zip(LABELS[name], TABLE_2[name], strict=True):
        cells = []
        for method in methods:
            found = table.best(name, percent, method)
            if found is None:
                cells.append("")
                continue
            k, cell = found
            said = f"{cell.shown} (validation {cell.validation.mean():.1f})" + (f", r = {k}" if k else "")
            if method == TUNED and len(cell.test) > 1:
                said += ", reached" if cell.test.mean() + cell.test.std() >= published else ", missed"
            cells.append(said)
        lines.append((f"{percent}%", f"{published:.1f}", *cells))
    page.table(["labels", "published", *methods], lines)


def _by_rank(page: Report, table: Table, name: str) -> None:
    methods = [m for m in (TUNED, *VARIANTS, *SHORT, *OTHERS) if table.ranks(name, m)]
    ranks = sorted({k for m in methods for k in table.ranks(name, m)})
    lines = []
    for method in methods:
        for percent in LABELS[name]:
            found = [table.get(name, percent, k, method) for k in ranks]
            if any(found):
                lines.append((f"{method}, {percent}%", *(cell.shown if cell else "" for cell in found)))
    page.text("Test scores by r (0: raw inputs):")
    page.table(["method, labels", *(f"r = {k}" for k in ranks)], lines)


def compared(table: Table, name: str) -> tuple[list[tuple[str, ...]], list[tuple[str, str]]]:
    """Return in how many settings the tuned method is above each other one, and the settings in which it is not."""
    lines, below = [], []
    for other in RIVALS:
        found = table.differences(name, TUNED, other)
        if not found:
            continue
        lines.append((f"{TITLES[name]}, {other}", *summary(found)))
        below += [
            (f"{TITLES[name]}, {other}, {percent}%, r = {k}", _shown(less))
            for (percent, k), less in found.items()
            if less.mean() <= 0
        ]
    return lines, below


def write_compared(page: Report, table: Table, *names: str) -> None:
    """Write both tables of `compared`, for some sets or all."""
    tables = [compared(table, name) for name in names or table.names]
    page.text(
        "In how many settings (share of labels and r) tuned NMF-alpha is above, on the splits that both have; in how "
        "many above or below by more than the deviation of the difference over splits; the mean, least and largest "
        "difference:"
    )
    head = ["set, above", "settings", "clearly above", "clearly below", "mean", "least", "largest"]
    page.table(head, [line for lines, _ in tables for line in lines])
    if below := [line for _, lines in tables for line in lines]:
        page.text("Where it is not above, the difference:")
        page.table(["set, than, labels, r", "difference"], below)


def summary(found: dict[tuple[int, int], np.ndarray]) -> tuple[str, ...]:
    """Return counts of settings above and clearly above and below, and the mean, least and largest difference."""
    means = np.array([less.mean() for less in found.values()])
    spreads = np.array([less.std() if len(less) > 1 else np.inf for less in found.values()])
    counts = (means > 0).sum(), (means > spreads).sum(), (means < -spreads).sum()
    return (
        f"{counts[0]} of {len(means)}",
        *map(str, counts[1:]),
        *(f"{value:+.1f}" for value in (means.mean(), means.min(), means.max())),
    )


def _variants(page: Report, table: Table, name: str) -> None:
    lines = [
        (f"{method}, {percent}%, r = {k}", other, _shown(less))
        for method in (*VARIANTS, *SHORT)
        for other in (TUNED + ENDS if method in SHORT[1:] else TUNED,)
        for (percent, k), less in table.differences(name, method, other).items()
    ]
    if lines:
        page.text(
            "Variants, test scores less those of NMF-alpha with the same path, on the splits that both have:"
        )
        page.table(["variant, labels, r", "less", "difference"], lines)


def _multiples(page: Report, results: Results, table: Table, name: str) -> None:
    rows = results.select(part="Path", dataset=name, form="unit", length="as-placed")
    rows = [row for row in rows if row["method"] in (TUNED, *VARIANTS, "SSNMF")]
    groups = {
        (method, int(percent), int(k), first): {
            m: values(o).mean() for m, o in grouped(own, "multiple").items()
        }
        for (method, percent, k, first), own in grouped(rows, "method", "labels", "r", "first").items()
    }
    page.text("Validation score by supervision, mean over splits, and what the splits chose:")
    multiples = sorted({m for group in groups.values() for m in group}, key=float)
    lines = []
    for (method, percent, k, first), group in sorted(groups.items()):
        cell = table.get(name, percent, k, method)
        if cell is not None:
            means = (f"{group[m]:.1f}" if m in group else "" for m in multiples)
            chosen = [m for m, own in zip(cell.multiples, cell.first, strict=True) if own == first]
            label = f"{method}, {percent}%, r = {k}" + (f", C = {first}" if first else "")
            lines.append((label, *means, ", ".join(chosen)))
    page.table(["method, labels, r, C of the directions", *multiples, "chosen"], lines)


def _lengths(page: Report, table: Table) -> None:
    lines = []
    for key, cell in table.cells.items():
        name, form, percent, k, length, method = key
        placed = table.get(name, int(percent), int(k), method, form=form)
        if length == "unit" and form == "unit" and placed is not None and len(cell.test) == 5:
            both = (f"{each.shown} ({each.validation.mean():.1f})" for each in (placed, cell))
            lines.append((f"{TITLES[name]}, {method}, {percent}%, r = {k}", *both))
    if lines:
        page.text(
            "## The length of the reduced rows",
            "The last SVM sees reduced rows divided by one number for all (*as placed*, everywhere above). Each row "
            "divided by its own length does not do better on validation rows. Test score (validation score):",
        )
        page.table(["set, method, labels, r", "as placed", "length 1"], lines)


def _forms(page: Report, table: Table) -> None:
    forms = [form for form in FORMS if any(key[:2] == ("news", form) for key in table.cells)]
    if len(forms) < 2:
        return
    page.text(
        "## Newsgroups: words and rows",
        "How the paper weighed and pruned its words is not known, nor which of the published versions of the set it "
        "took. *Rows of unit length* are those of above, split by date. *LIBSVM's rows* are the 15,935 training rows "
        "of the version that LIBSVM publishes, with all of its 62,061 words, of unit length; its test rows are not "
        "there, and a random fifth takes their place. Test score (validation score):",
    )
    settings = sorted(
        {(int(k[2]), int(k[3]), k[5]) for k in table.cells if k[0] == "news" and k[1] != "unit"}
    )
    lines = []
    for percent, k, method in settings:
        found = [table.get("news", percent, k, method, form=form) for form in forms]
        cells = (f"{cell.shown} ({cell.validation.mean():.1f})" if cell else "" for cell in found)
        lines.append((f"{method}, {percent}%" + (f", r = {k}" if k else ""), *cells))
    page.table(["method, labels, r", *(FORMS[form] for form in forms)], lines)


def _shares(page: Report, table: Table) -> None:
    """Show scores on the newsgroups by the share of labels, of which the paper's is not known."""
    percents = sorted({int(key[2]) for key in table.cells if key[:2] == ("news", "unit")})
    if set(percents) <= set(LABELS["news"]):
        return
    lines = []
    for method, k in (("SVM", 0), (TUNED, 32), (TUNED + ENDS, 32)):
        found = [table.get("news", percent, k, method) for percent in percents]
        lines.append((method, *(cell.shown if cell else "" for cell in found)))
    page.text("## Newsgroups: the share of labels", "Test score by share, NMF-alpha with r = 32:")
    page.table(["method", *(f"{percent}%" for percent in percents)], lines)
