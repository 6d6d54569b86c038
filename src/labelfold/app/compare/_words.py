"""The finding in a sentence, no stronger than the runs allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfold.app.compare._results import whole
from labelfold.app.io._problems import count

if TYPE_CHECKING:
    import pandas as pd

    from labelfold.app.compare._results import Comparison


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
    """Say which method keeps the classes apart best, at which size, by how much, and how sure that is."""
    best = found.winner
    if best is None:
        return "No method could be fitted; the table says why for each."
    rivals = [row for _, row in _rivals(found, best).iterrows()]
    name = sized(found, best)
    at = f"{_right(found)} on rows held back, with {count(found.budget_, 'label')}"
    reached = f"{name} reached {percent(best['mean'])} {at}"
    if not rivals:
        return f"{reached}; nothing else ran to compare it with."
    gaps = [_between(found, best, row) for row in rivals]
    other = sized(found, rivals[0])
    if not len(gaps[0]):
        return f"{reached}; too little ran to compare it with {other}."
    tied = [row for row, gap in zip(rivals, gaps, strict=True) if _tied(gap)]
    if len(tied) == 1:
        also = f"{percent(best['mean'])} and {percent(tied[0]['mean'])}"
        return f"{name} and {sized(found, tied[0])} are nearly tied: {also} {at}."
    if tied:
        named = [f"{sized(found, row)} ({percent(row['mean'])})" for row in tied[:2]]
        more = [count(len(tied) - 2, "other")] if len(tied) > 2 else []
        return f"{reached}, but not ahead of {_joined([*named, *more])} in every repeat."
    runs = len(gaps[0])
    everywhere = "both" if runs == 2 else f"all {runs}"
    sure = f"ahead in {everywhere} repeats" if runs > 1 else "but in a single draw, which proves little"
    return (
        f"{name} keeps the {_things(found)} apart best: {percent(best['mean'])} {at}; that is "
        f"{points(gaps[0].mean(), gaps[0].std())} points more than {other}, {sure}."
    )


def details(found: Comparison) -> list[str]:
    """Say what else should be known: references without a reduction, other budgets, the size, an early end."""
    best = found.winner
    said = []
    if best is not None:
        said += [
            *_size(found, best),
            *_without(found, best),
            *_elsewhere(found, best),
            *_guessing(found, best),
        ]
    if found.stopped:
        why = "by Ctrl-C" if found.stopped == "ctrl-c" else "by the time limit"
        never = [m.title for name, m in found.methods.items() if name not in set(found.results["method"])]
        missing = f" There was no time for {_joined(never)}." if never else ""
        said.append(
            f"It was stopped early {why}: this is what {count(len(found.results), 'run')} gave.{missing}"
        )
    return [*said, *found.notes]


def repeats_run(found: Comparison) -> str:
    """Say how many repeats the means are over, which an early end makes fewer than were asked for."""
    asked = found.settings["repeats"]
    ran = found.series.groupby("budget")["repeat"].nunique()
    least, most = (0, 0) if ran.empty else (int(ran.min()), int(ran.max()))
    if least == most == asked:
        return count(asked, "repeat")
    return f"{most if least == most else f'{least} to {most}'} of the {count(asked, 'repeat')} asked for"


def sized(found: Comparison, row: Any) -> str:
    """Name a method with the number of features its classifier sees."""
    title = found.methods[row["method"]].title
    if not found.methods[row["method"]].embeds:
        return f"{title} on all {count(found.settings['n_columns'], 'column')}"
    size = found.series.loc[found.series["label"] == row["label"], "components"].max()
    return title if whole(size) is None else f"{title} with {count(int(size), 'component')}"


def _right(found: Comparison) -> str:
    return "right" if found.settings["metric"] == "accuracy" else "F1"


def _things(found: Comparison) -> str:
    return "classes" if found.settings["metric"] == "accuracy" else "labels"


def _rivals(found: Comparison, best: Any) -> Any:
    """Return the other rows of the ranking of the same kind: those that embed, where the best does."""
    ranked = found.ranking.dropna(subset="mean")
    kind = found.methods[best["method"]].embeds
    return ranked[[m != best["method"] and found.methods[m].embeds == kind for m in ranked["method"]]]


def _between(found: Comparison, first: Any, second: Any) -> pd.Series:
    """Return by how much the first led, repeat by repeat: the differences are paired."""
    at = found.series[found.series["budget"] == found.budget_]
    wide = at.pivot(index="repeat", columns="label", values="score")[
        [first["label"], second["label"]]
    ].dropna()
    return wide[first["label"]] - wide[second["label"]]


def _tied(gap: pd.Series) -> bool:
    """Tell whether two methods cannot be told apart: neither was ahead in all repeats, or by nothing to speak of."""
    if gap.empty:
        return False
    return not ((gap > 0).all() or (gap < 0).all()) or round(100 * gap.mean(), 1) == 0


def _joined(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _size(found: Comparison, best: Any) -> list[str]:
    """Say that a larger embedding scored higher, where one did."""
    at = found.table[(found.table["budget"] == found.budget_) & (found.table["method"] == best["method"])]
    top = at.loc[at["mean"].idxmax()]
    if top["label"] == best["label"]:
        return []
    return [
        f"With {count(int(top['components']), 'component')} it reached {percent(top['mean'])}, which is within one "
        "standard error: the smaller size was taken."
    ]


def _without(found: Comparison, best: Any) -> list[str]:
    """Compare with what needs no reduction."""
    if not found.methods[best["method"]].embeds:
        return ["It does not reduce the columns; no method that does could be fitted."]
    ranked = found.ranking.dropna(subset="mean")
    others = ranked[[not found.methods[m].embeds for m in ranked["method"]]]
    if others.empty:
        return []
    other = others.iloc[0]
    gap = _between(found, other, best)
    if gap.empty:
        return []
    verdict = "about as good"
    if not _tied(gap):
        size = points(abs(gap.mean()), gap.std())
        verdict = (
            f"{size} points {'better' if gap.mean() > 0 else 'worse'}{', in one draw' * (len(gap) == 1)}"
        )
    return [f"Without a reduction, {sized(found, other)} reached {percent(other['mean'])}: {verdict}."]


def _elsewhere(found: Comparison, best: Any) -> list[str]:
    """Name the budgets at which another method was ahead."""
    lines = found.lines[
        [found.methods[m].embeds == found.methods[best["method"]].embeds for m in found.lines["method"]]
    ]
    parts = []
    for budget, at in lines.dropna(subset="mean").groupby("budget"):
        top = at.loc[at["mean"].idxmax()]
        own = at.loc[at["label"] == best["label"], "mean"]
        if budget != found.budget_ and len(own) and top["mean"] > own.iloc[0]:
            parts.append(f"{found.methods[top['method']].title} with {budget}")
    verb = "was" if len(parts) == 1 else "were"
    return [f"Not at every budget, though: {_joined(parts)} labels {verb} ahead."] if parts else []


def _guessing(found: Comparison, best: Any) -> list[str]:
    """Say so where the best is hardly better than a guess."""
    share = guess(found)
    at = found.table[(found.table["label"] == best["label"]) & (found.table["budget"] == found.budget_)]
    if share is None or best["mean"] - at["spread"].fillna(0).max() > share:
        return []
    return [
        f"Always guessing the most frequent class would give {percent(share)}: hardly anything has been learned."
    ]


def guess(found: Comparison) -> float | None:
    """Return how often the most frequent class would be right; None where rows have several labels."""
    counts = found.settings.get("counts")
    return max(counts) / sum(counts) if counts and found.settings["metric"] == "accuracy" else None
