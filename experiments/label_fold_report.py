"""The page of the experiment on LabelFold, written from its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from common import Report
from result_rows import Results, by_seed, grouped, values

Table = dict[tuple[str, str], dict[str, float]]
# What is said of each part, and its numbers of labels.
PARTS = {
    "book": ("The SSL book's sets, its own splits: test error, %", (100, 10)),
    "open": ("Open sets: accuracy, % (several labels a row: micro F1)", (20, 50, 100, 200)),
    "parts": (
        "What each family of views, each form and the weights bring: accuracy, %, three draws",
        (20, 50),
    ),
    "anchors": ("Graph views of few anchors and of all rows: accuracy, %, 50 labels", (50,)),
    "new": ("New rows: accuracy on a fifth of the rows, seen in training and not, %, 50 labels", (50,)),
    "aside": ("Tables that no choice was made on: accuracy, %", (20, 50, 100)),
}


def write_report(results: Results, path: Path) -> None:
    """Write the page: a section for each part that has rows."""
    report = Report(path)
    report.text("# LabelFold beside its peers")
    for part, (title, sizes) in PARTS.items():
        if not results.select(part=part):
            continue
        report.text(f"## {title}")
        for n_labelled in sizes:
            table = _accuracies(results, part, n_labelled)
            if not table:
                continue
            if part not in ("anchors", "new"):
                report.text(f"### {n_labelled} labels")
            _grid(report, table, turn=part == "book")
            if part in ("book", "open"):
                _fewer(report, table)
            if part == "open":
                _against_best(report, table)
                _against_linear(report, table)
        if part == "open":
            _coverage(report, results)
    report.write()


def _accuracies(results: Results, part: str, n_labelled: int) -> Table:
    """Return the accuracy of every seed, by method and set."""
    rows = results.select(part=part, labels=n_labelled)
    return {key: by_seed(own) for key, own in grouped(rows, "method", "dataset").items()}


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
        rows = results.select(part="open", method="leave-one-out", labels=n_labelled)
        rows = [row for row in rows if row["relative"] not in ("", "nan")]
        if rows:
            truth = _accuracies(results, "open", n_labelled)
            bias = [float(row["ours"]) - truth["LabelFold", row["dataset"]][row["seed"]] for row in rows]
            share = values(rows, "relative").mean()
            lines.append([n_labelled, len(rows), f"{np.mean(bias):+.1f}", f"{100 * share:.0f}"])
    if lines:
        report.text(
            "### Leave-one-out score: mean difference to the accuracy on other rows, coverage of its interval"
        )
        report.table(["labels", "draws", "difference", "coverage, %"], lines)
