"""The finding in a sentence, no stronger than the runs allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from labelfold.comparison.results import Comparison


def percent(value: float) -> str:
    """Write a share as a percentage.

    >>> percent(0.9134)
    '91.3%'
    """
    return "–" if value is None or np.isnan(value) else f"{100 * value:.1f}%"


def points(value: float, spread: float) -> str:
    """Write a difference of shares in percentage points, with its spread where there is one.

    >>> points(0.0213, 0.004), points(-0.0213, np.nan), points(-1e-17, 0.01)
    ('2.1 ± 0.4', '−2.1', '0.0 ± 1.0')
    """
    # + 0.0 so that a round-off below zero is no "-0.0"
    number = f"{round(100 * value, 1) + 0.0:.1f}".replace("-", "−")
    return number if np.isnan(spread) else f"{number} ± {100 * spread:.1f}"


def answer(found: Comparison) -> str:
    """Say which method was the most accurate, by how much, and how sure that is."""
    ranking = found.ranking.dropna(subset="mean")
    if ranking.empty:
        partial = found.table.dropna(subset="mean")
        if partial.empty:
            return "No method could be fitted; the table says why for each."
        first = partial.sort_values("mean", ascending=False).iloc[0]
        return f"Stopped too early to tell; so far {first['label']} leads with {percent(first['mean'])}."
    best = ranking.iloc[0]
    name = _with_size(found, best["label"])
    budgets = sorted(found.results["budget"].unique())
    ends = list(dict.fromkeys((budgets[0], budgets[-1])))
    if len(ranking) == 1:
        return f"{name} reached {_at(found, ends, best['label'])}; nothing else ran to compare it with."
    second = ranking.iloc[1]
    other = _with_size(found, second["label"])
    runs, ahead = int(second["runs"]), int(second["behind_in"])
    if (runs > 1 and ahead < runs) or round(100 * second["behind"], 1) == 0:
        return f"{name} and {other} are nearly tied: {_at(found, ends, best['label'], second['label'])}."
    gap = points(second["behind"], second["behind_spread"])
    over = "" if len(budgets) == 1 else " over all budgets"
    sure = f"and ahead in all {runs} repeats" if runs > 1 else "but in a single draw, which proves little"
    return (
        f"{name} was the most accurate: {_at(found, ends, best['label'])}, {gap} points more than "
        f"{other}{over}, {sure}.{_elsewhere(found, best['label'], budgets)}"
    )


def _at(found: Comparison, budgets: list[int], *labels: str) -> str:
    """Write the accuracies of one or two methods at some budgets."""
    means = found.table.set_index(["label", "budget"])["mean"]
    return ", ".join(
        f"{' and '.join(percent(means[label, b]) for label in labels)} with {b} labels" for b in budgets
    )


def _with_size(found: Comparison, label: str) -> str:
    """Name a method with the number of features its classifier sees."""
    rows = found.series[found.series["label"] == label]
    if label != found.methods[rows["method"].iloc[0]].title:
        return label  # which says the size already
    size = rows["components"].dropna()
    if size.empty:
        return f"{label} on all {found.settings['n_columns']:,} columns"
    k = int(size.max())
    return f"{label} with {k} component{'' if k == 1 else 's'}"


def _elsewhere(found: Comparison, best: str, budgets: list[int]) -> str:
    """Name the budgets at which another method was ahead."""
    table = found.table
    lead = table[table["label"] == best].set_index("budget")["behind"]
    first = table[table["behind"] == 0].drop_duplicates("budget").set_index("budget")["label"]
    parts = [f"{first[b]} with {b}" for b in budgets if lead.get(b, 0) > 0]
    verb = "was" if len(parts) == 1 else "were"
    return f" Not at every budget, though: {' and '.join(parts)} labels {verb} ahead." if parts else ""
