"""The page of the experiment on LabelFold, written from its rows."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from common import Report, Results, parameter

Table = dict[tuple[str, str], dict[str, float]]


def write_report(results: Results, path: Path) -> None:
    """Write the page: a section for each part that has rows."""
    report = Report(path)
    report.text("# LabelFold beside its peers")
    sections = {
        "book": _book,
        "open": _open,
        "parts": _parts,
        "anchors": _anchors,
        "new": _new,
        "aside": _aside,
    }
    for part, section in sections.items():
        if results.select(part=part):
            section(report, results)
    report.write()


def _accuracies(results: Results, part: str, n_labelled: int) -> Table:
    """Return the accuracy of every seed, by method and set."""
    found: Table = defaultdict(dict)
    for row in results.select(part=part):
        if parameter(row, "labels") == str(n_labelled):
            found[row["method"], row["dataset"]][row["seed"]] = float(row["ours"])
    return found


def _names(table: Table, at: int) -> list[str]:
    return list(dict.fromkeys(key[at] for key in table))


def _grid(report: Report, table: Table, turn: bool = False) -> None:
    """Add a table of means: a row for each method, a column for each set, and the mean over common sets."""
    sets, methods = _names(table, 1), [m for m in _names(table, 0) if m != "leave-one-out"]
    lines = []
    for method in methods:
        means = [
            np.mean(list(table[method, one].values())) if (method, one) in table else np.nan for one in sets
        ]
        means = [100 - value for value in means] if turn else means
        line = ["" if np.isnan(value) else f"{value:.1f}" for value in means]
        lines.append([method, *line, "" if np.isnan(means).any() else f"{np.mean(means):.1f}"])
    report.table(["", *sets, "mean"], lines)


def _fewer(report: Report, table: Table) -> None:
    """Add a sentence on methods that ran on fewer draws than LabelFold."""
    most = max((len(seeds) for (method, _), seeds in table.items() if method == "LabelFold"), default=0)
    fewer: dict[str, int] = {}
    for (method, _), seeds in table.items():
        if len(seeds) < most:
            fewer[method] = min(len(seeds), fewer.get(method, most))
    if fewer:
        report.text(f"Of {most} draws some have fewer: {', '.join(f'{m} {n}' for m, n in fewer.items())}.")


def _book(report: Report, results: Results) -> None:
    report.text("## The SSL book's sets, its own splits: test error, %")
    for n_labelled in (100, 10):
        table = _accuracies(results, "book", n_labelled)
        if table:
            report.text(f"### {n_labelled} labels")
            _grid(report, table, turn=True)
            _fewer(report, table)


def _open(report: Report, results: Results) -> None:
    report.text("## Open sets: accuracy, % (several labels a row: micro F1)")
    for n_labelled in (20, 50, 100, 200):
        table = _accuracies(results, "open", n_labelled)
        if table:
            report.text(f"### {n_labelled} labels")
            _grid(report, table)
            _fewer(report, table)
            _against_best(report, table)
            _against_linear(report, table)
    _coverage(report, results)


def _against_best(report: Report, table: Table) -> None:
    """Add the paired difference to the method that is best in hindsight, with its standard error."""
    own = {"LabelFold", "linear view", "leave-one-out"}
    lines = []
    for one in _names(table, 1):
        peers = {m: table[m, one] for m in _names(table, 0) if m not in own and (m, one) in table}
        if not peers or ("LabelFold", one) not in table:
            continue
        best = max(peers, key=lambda m: np.mean(list(peers[m].values())))
        ours = table["LabelFold", one]
        gaps = np.array([ours[seed] - peers[best][seed] for seed in ours if seed in peers[best]])
        error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
        lines.append([one, best, f"{gaps.mean():+.1f}", f"{error:.1f}"])
    if lines:
        report.text("LabelFold less the best peer in hindsight, paired draws:")
        report.table(["", "best peer", "difference", "standard error"], lines)


def _against_linear(report: Report, table: Table) -> None:
    gaps = {
        one: np.mean(list(table["LabelFold", one].values()))
        - np.mean(list(table["linear view", one].values()))
        for one in _names(table, 1)
        if ("linear view", one) in table and ("LabelFold", one) in table
    }
    if gaps:
        worst = min(gaps, key=gaps.__getitem__)
        report.text(
            f"Least above the same ridge on the linear view alone: {worst}, {gaps[worst]:+.1f} points."
        )


def _coverage(report: Report, results: Results) -> None:
    """Add how often the interval of the leave-one-out score contains the accuracy on the other rows."""
    lines = []
    for n_labelled in (20, 50, 100, 200):
        rows = [
            row
            for row in results.select(part="open", method="leave-one-out")
            if parameter(row, "labels") == str(n_labelled) and row["relative"] not in ("", "nan")
        ]
        if rows:
            truth = _accuracies(results, "open", n_labelled)
            bias = [float(row["ours"]) - truth["LabelFold", row["dataset"]][row["seed"]] for row in rows]
            share = np.mean([float(row["relative"]) for row in rows])
            lines.append([n_labelled, len(rows), f"{np.mean(bias):+.1f}", f"{100 * share:.0f}"])
    if lines:
        report.text(
            "### Leave-one-out score: mean difference to the accuracy on other rows, coverage of its interval"
        )
        report.table(["labels", "draws", "difference", "coverage, %"], lines)


def _parts(report: Report, results: Results) -> None:
    report.text("## What each family of views, each form and the weights bring: accuracy, %, three draws")
    for n_labelled in (20, 50):
        report.text(f"### {n_labelled} labels")
        _grid(report, _accuracies(results, "parts", n_labelled))


def _anchors(report: Report, results: Results) -> None:
    report.text("## Graph views of few anchors and of all rows: accuracy, %, 50 labels")
    _grid(report, _accuracies(results, "anchors", 50))


def _new(report: Report, results: Results) -> None:
    report.text("## New rows: accuracy on a fifth of the rows, seen in training and not, %, 50 labels")
    _grid(report, _accuracies(results, "new", 50))


def _aside(report: Report, results: Results) -> None:
    report.text("## Tables that no choice was made on: accuracy, %")
    for n_labelled in (20, 50, 100):
        table = _accuracies(results, "aside", n_labelled)
        if table:
            report.text(f"### {n_labelled} labels")
            _grid(report, table)
