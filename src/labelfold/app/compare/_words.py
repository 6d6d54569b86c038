"""Sentences about the result of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labelfold.app.compare._choice import gap
from labelfold.app.compare._expect import distance
from labelfold.app.compare._splits import whole
from labelfold.app.io import count, pd
from labelfold.app.registry import gloss

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison


# If the expected score and the score in the table differ by this much, a sentence explains why.
_MUCH = 0.02


def answer(found: Comparison) -> str:
    """Return a sentence with the recommended method and its expected score, its interval and the number of labels."""
    best, choice, measure = found.winner, found.choice, found.measure
    if best is None:
        return "No method could be fitted; the table has the error of each."
    name = sized(found, best)
    if choice is None:
        return f"{name} reached {measure.stated(best['mean'])} on rows held out."
    told = "its label" if choice.n_groups is None else "a label of its group"
    return (
        f"{name}: expect {measure.stated(choice.expected)} on new rows "
        f"(90% interval {measure.show(choice.low)} to {measure.show(choice.high)}, from "
        f"{choice.rows}, each predicted by models that were not told {told})."
    )


def two_scores(found: Comparison) -> str:
    """Return a sentence on why the expected score differs from that in the table; "" if they hardly differ."""
    choice = found.choice
    one = None if choice is None else found.out_of_fold.get(choice.chosen)
    if choice is None or one is None or abs(choice.expected - one.score) < _MUCH:
        return ""
    said = f"The table has {found.measure.show(one.score)} for it. "
    if getattr(found.fitted(), "loo_score_", None) == choice.expected:
        hidden = f"one label in {found.settings['folds']}"
        return f"{said}That is from folds, which hide {hidden}; the expected score is from leave-one-out."
    return f"{said}The expected score is corrected for the selection of the best method."


def _standing(found: Comparison) -> list[str]:
    """Return sentences on the equally good methods, or on how far the best is ahead of the next."""
    choice = found.choice
    if choice is None or len(found.out_of_fold) < 2:
        return []
    others = [label for label in choice.equal if label != choice.chosen]
    if others:
        named = [f"{label} ({found.measure.show(found.out_of_fold[label].score)})" for label in others[:3]]
        more = [count(len(others) - 3, "other")] if len(others) > 3 else []
        n = found.settings["n_labelled"]
        return [f"With {n} labels the difference to {_joined(named + more)} is not significant."]
    rest = {label: one for label, one in found.out_of_fold.items() if label != choice.chosen}
    second = max(rest, key=lambda label: rest[label].score)
    ahead, half = gap(found.out_of_fold[choice.chosen], rest[second])
    how = f"{found.measure.difference(ahead, half)}{' points' * found.measure.shares}"
    return [f"It is ahead of the next, {second}, by {how} (90% interval)."]


def details(found: Comparison) -> list[str]:
    """Return further sentences: equally good methods, the size, methods without reduction, other budgets, notes."""
    best = found.winner
    said = [] if found.data is None else [note for note in found.data.doubts if note in found.notes]
    rest = [note for note in found.notes if note not in said]
    if best is not None:
        said += [
            *found.other_estimates,
            *([] if found.choice is None else distance(found.choice)),
            *filter(None, [_what_it_is(found, best), found.measure.gloss, two_scores(found)]),
            *_standing(found),
            *_size(found, best),
            *_without(found, best),
            *_elsewhere(found, best),
            *_guessing(found, best),
        ]
    if found.stopped:
        why = "by Ctrl-C" if found.stopped == "ctrl-c" else "by the time limit"
        never = [m.title for name, m in found.methods.items() if name not in set(found.results["method"])]
        named = _joined(never) if len(never) < 4 else f"{len(never)} methods, which the report names"
        missing = f" There was no time for {named}." if never else ""
        said.append(
            f"It was stopped early {why}: this is what {count(len(found.results), 'run')} gave.{missing}"
        )
    return [*said, *rest]


def _what_it_is(found: Comparison, best: Any) -> str:
    """Return a few words about the recommended method."""
    words = gloss(best["method"])
    return f"{found.methods[best['method']].title}: {words}." if words else ""


def brief(found: Comparison) -> pd.DataFrame:
    """Return the ranking as text: one line per method, at the budget that decides."""
    at, show = found.lines[found.lines["budget"] == found.budget_], found.measure.with_spread
    return pd.DataFrame(
        {
            "method": [found.methods[m].title for m in at["method"]],
            found.measure.name: [show(m, s) for m, s in zip(at["mean"], at["spread"], strict=True)],
            "components": [whole(k) or "–" for k in at["components"]],
            "seconds": [f"{t:.2g}" for t in at["fit_seconds"]],
            "what it is": [gloss(m) for m in at["method"]],
        }
    )


def repeats_run(found: Comparison) -> str:
    """Return the number of repeats in words; fewer than asked for if the comparison ended early."""
    asked = found.settings["repeats"]
    ran = found.series.groupby("budget")["repeat"].nunique()
    least, most = (0, 0) if ran.empty else (int(ran.min()), int(ran.max()))
    if least == most == asked:
        return count(asked, "repeat")
    return f"{most if least == most else f'{least} to {most}'} of the {count(asked, 'repeat')} asked for"


def sized(found: Comparison, row: Any) -> str:
    """Return the title of a method with its number of components, or of columns."""
    title = found.methods[row["method"]].title
    if not found.methods[row["method"]].embeds:
        return f"{title} on all {count(found.settings['n_columns'], 'column')}"
    size = found.series.loc[found.series["label"] == row["label"], "components"].max()
    return title if whole(size) is None else f"{title} with {count(int(size), 'component')}"


def _between(found: Comparison, first: Any, second: Any) -> pd.Series:
    """Return the differences between the scores of two methods, paired by repeat."""
    at = found.series[found.series["budget"] == found.budget_]
    wide = at.pivot(index="repeat", columns="label", values="score")[
        [first["label"], second["label"]]
    ].dropna()
    return wide[first["label"]] - wide[second["label"]]


def _tied(found: Comparison, gap: pd.Series) -> bool:
    """Tell whether two methods are about equal: neither was ahead in all repeats, or the difference rounds to 0."""
    return not ((gap > 0).all() or (gap < 0).all()) or found.measure.negligible(gap.mean())


def _joined(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _size(found: Comparison, best: Any) -> list[str]:
    """Return a sentence if another size scored higher."""
    at = found.table[(found.table["budget"] == found.budget_) & (found.table["method"] == best["method"])]
    top = at.loc[at["mean"].idxmax()]
    if top["label"] == best["label"]:
        return []
    return [
        f"With {count(int(top['components']), 'component')} it reached {found.measure.show(top['mean'])}, which is "
        "within one standard error: the smaller size was taken."
    ]


def _without(found: Comparison, best: Any) -> list[str]:
    """Return a comparison with the best method of the other kind: without reduction, or with it."""
    reduces = found.methods[best["method"]].embeds
    ranked = found.ranking.dropna(subset="mean")
    others = ranked[[found.methods[m].embeds != reduces for m in ranked["method"]]]
    if others.empty:
        return [] if reduces else ["It does not reduce the columns; no method that does could be fitted."]
    other = others.iloc[0]
    gap = _between(found, other, best)
    if gap.empty:
        return []
    verdict = "about as good"
    if not _tied(found, gap):
        size = f"{found.measure.difference(abs(gap.mean()), gap.std())}{' points' * found.measure.shares}"
        verdict = f"{size} {'better' if gap.mean() > 0 else 'worse'}{', in one draw' * (len(gap) == 1)}"
    lead = "Without a reduction" if reduces else "It does not reduce the columns; with a reduction"
    return [f"{lead}, {sized(found, other)} reached {found.measure.show(other['mean'])}: {verdict}."]


def _elsewhere(found: Comparison, best: Any) -> list[str]:
    """Return a sentence with the budgets at which another method was ahead."""
    lines = found.lines[
        [found.methods[m].embeds == found.methods[best["method"]].embeds for m in found.lines["method"]]
    ]
    parts = []
    for budget, at in lines.dropna(subset="mean").groupby("budget"):
        top = at.loc[at["mean"].idxmax()]
        own = at.loc[at["label"] == best["label"], "mean"]
        if budget != found.budget_ and len(own) and top["mean"] > own.iloc[0]:
            parts.append(f"{found.methods[top['method']].title} with {budget}")
    return [f"With fewer labels another method was better: {_joined(parts)} labels."] if parts else []


def _guessing(found: Comparison, best: Any) -> list[str]:
    """Return a sentence if the best is hardly better than a constant prediction."""
    share = guess(found)
    at = found.table[(found.table["label"] == best["label"]) & (found.table["budget"] == found.budget_)]
    if share is None or best["mean"] - at["spread"].fillna(0).max() > share:
        return []
    return [f"{guessing(found)}: the columns hardly help."]


def guess(found: Comparison) -> float | None:
    """Return the score of a constant prediction (the most frequent class, or the mean); None if not defined."""
    if found.measure.kind == "r2":
        return 0.0
    counts = found.settings.get("counts")
    return max(counts) / sum(counts) if counts and found.measure.kind == "accuracy" else None


def guessing(found: Comparison) -> str:
    """Return the sentence about the score of a constant prediction; "" if it is not defined."""
    share = guess(found)
    if share is None:
        return ""
    if found.measure.kind == "r2":
        return "Always giving the mean would have an R² of 0"
    return f"Always guessing the most frequent class would give {found.measure.show(share)}"
