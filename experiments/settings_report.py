"""The page of `settings.py`, made from its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from common import Report, Results

BAR = 2.0  # points below the best in hindsight
# Why a method is further below the best in hindsight on a table: (table, method) -> reason.
WHY: dict[tuple[str, str], str] = {}


def write_report(registry: Results, settings: Results, path: Path) -> None:
    """Write how far each method is below its best setting in hindsight, and where that is more than the bar."""
    page = Report(path)
    page.text(
        "# Methods as the registry makes them, beside the best settings in hindsight",
        "Accuracy on the hidden rows (%), mean over the draws of labels. The best in hindsight is the setting with "
        "the highest mean on these very rows, of at most 30: its mean is too high by the luck of so many tries. "
        "± is the standard error of the mean difference over the draws.",
    )
    sets = list(dict.fromkeys(row["dataset"] for row in registry.rows))
    methods = list(dict.fromkeys(row["method"] for row in registry.rows))
    keys = [(s, m) for s in sets for m in methods]
    found = {
        key: _compare(*(r.select(dataset=key[0], method=key[1]) for r in (registry, settings)))
        for key in keys
    }
    gaps = {key: value[3] for key, value in found.items() if value is not None}
    page.text("## Difference (points)")
    lines = [[m, *(_number(gaps.get((s, m), np.nan)) for s in sets)] for m in methods]
    page.table(["method", *sets], lines)
    within = sum(gap >= -BAR for gap in gaps.values())
    page.text(f"{within} of {len(gaps)} are within {BAR:g} points.")
    page.text(f"## More than {BAR:g} points below")
    below = [key for key, gap in gaps.items() if not gap >= -BAR]
    lines = []
    for s, m in below:
        ours, best, which, gap, error, failed = found[s, m]
        why = WHY.get((s, m), failed)
        lines.append([m, s, _number(ours), _number(best), which, f"{_number(gap)} ± {_number(error)}", why])
    page.table(["method", "table", "registry", "in hindsight", "with", "difference", "why not"], lines)
    page.write()


def _compare(
    registered: list[dict[str, str]], tried: list[dict[str, str]]
) -> tuple[float, float, str, float, float, str] | None:
    """Return the registry's mean, the best setting's, that setting, the difference, its error and why it failed."""
    registry = {row["seed"]: float(row["ours"]) for row in registered}
    by_setting: dict[str, dict[str, float]] = {}
    for row in tried:
        by_setting.setdefault(row["parameters"], {})[row["seed"]] = float(row["ours"])
    # settings that were late or failed in a draw have no mean
    means = {setting: float(np.mean(list(values.values()))) for setting, values in by_setting.items()}
    means = {setting: mean for setting, mean in means.items() if not np.isnan(mean)}
    if not registry or not means:
        return None
    best = max(means, key=lambda setting: means[setting])
    gap = np.array([registry[seed] - by_setting[best][seed] for seed in registry if seed in by_setting[best]])
    error = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else np.nan
    failed = next((row["published"] for row in registered if row["published"]), "")
    return float(np.mean(list(registry.values()))), means[best], best, float(gap.mean()), error, failed


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.1f}".replace("-", "−")
