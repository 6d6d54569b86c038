"""The result of a comparison: rows of results, tables, a ranking and an answer in words."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from labelfold.app.compare import _review
from labelfold.app.compare._data import Data
from labelfold.app.compare._held_out import (
    HeldOut,
    by_leave_one_out,
    distance,
    other_estimates,
    predictions_of,
)
from labelfold.app.compare._scores import Choice, Measure, OutOfFold, choose, gap, interval
from labelfold.app.compare._store import COLUMNS, int_or_none
from labelfold.app.io import count, pd
from labelfold.app.registry import Method
from labelfold.model_selection import one_standard_error

# Recommended unless another method is significantly better: it embeds, and its probabilities are calibrated.
PREFERRED = "labelfold"
# A choice of presentation: if the expected score and the score in the table differ by this much, a sentence explains
# why.
_DIFFERENT = 0.02


class Score(NamedTuple):
    """The cross-validated score of a method, with its 90% interval and the number of rows."""

    value: float
    low: float
    high: float
    n_rows: int


class Results:
    """The outcome of :func:`labelfold.compare`.

    Attributes
    ----------
    table : DataFrame
        One row for each method, size and number of labels: the mean score on held-out rows, its spread (standard
        deviation over the repeats), the distance to the best (paired by repeat, with its spread), seconds of fitting
        and of transforming the held-out rows, and the bytes of the embedding of all rows.
    choice : Choice or None
        The recommended method, its expected score on new rows with a 90% interval, the number of labelled rows used
        for it, and the methods that are equally good. None if there are no out-of-fold predictions.
    best_ : str or None
        The recommended method. None if no method could be fitted.
    best_size_ : int or None
        Its number of components: the smallest within one standard error of its best.
    answer : str
        The result in a sentence; ``details`` has further sentences.
    results : DataFrame
        One row for each run.
    ranking : DataFrame
        One row for each method, best first, at the size chosen for it.
    lines : DataFrame
        The table, restricted to the sizes chosen.
    left_out : dict
        Methods that were not run, with the reason.
    notes : list of str
        Further sentences for the user.
    settings : dict
        The settings of the comparison.
    stopped : {None, "ctrl-c", "time limit"}
        Why it ended early.
    """

    results: Any

    def __init__(
        self,
        rows: list[dict[str, Any]],
        settings: dict[str, Any],
        methods: dict[str, Method],
        data: Data,
        left_out: dict[str, str] | None = None,
        notes: list[str] | None = None,
        stopped: str | None = None,
    ):
        types = {int: "Int64", float: "float64", str: "object"}
        self.results = (
            pd.DataFrame(rows)
            .reindex(columns=list(COLUMNS))
            .astype({name: types[kind] for name, kind in COLUMNS.items()})
        )
        # resumed rows may be in another order
        order = {name: i for i, name in enumerate(methods)}
        self.results = self.results.sort_values(
            ["repeat", "budget", "method", "k"],
            key=lambda s: s.map(order) if s.name == "method" else s,
            ignore_index=True,
        )
        self.settings = settings
        self.methods = methods
        self.data = data
        self.left_out: dict[str, str] = left_out or {}
        self.notes: list[str] = notes or []
        self.stopped = stopped
        self._refits: dict[tuple[str, int | None], tuple[Any, HeldOut | None]] = {}

    def __repr__(self) -> str:
        """Return the answer and the ranking."""
        return "\n".join([self.answer, "", self.ranking_as_text().to_string(index=False)])

    def label(self, method: str, k: Any) -> str:
        """Return the name of a method with k components in tables and figures."""
        title = self.methods[method].title
        several = self.methods[method].embeds and len(self.settings["components"]) > 1
        return f"{title}, {k}" if several else title

    @cached_property
    def series(self) -> pd.DataFrame:
        """Results with a ``label`` for each method and size, without a split that was left incomplete."""
        rows = self.results[~self._cut_short()]
        return rows.assign(label=[self.label(m, k) for m, k in zip(rows["method"], rows["k"], strict=True)])

    def _cut_short(self) -> np.ndarray:
        """Return a mask of results of the curve that belong to a split that not every method finished."""
        rows = self.results
        curve = rows["budget"] != self.settings.get("n_labelled")
        if not self.stopped or not curve.any():
            return np.zeros(len(rows), dtype=bool)
        last = rows.loc[curve, "repeat"].max()
        # the largest budgets are run first
        smallest = rows.loc[curve & (rows["repeat"] == last), "budget"].min()
        group = curve & (rows["repeat"] == last) & (rows["budget"] == smallest)
        before = curve & (rows["repeat"] == last - 1) & (rows["budget"] == smallest)
        return (group & (group.sum() < before.sum())).to_numpy(dtype=bool)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row for each method, size and budget."""
        return _summary(self.series, list(self.methods))

    @cached_property
    def lines(self) -> pd.DataFrame:
        """The table at the sizes chosen."""
        return _summary(
            self.series[self.series["label"].isin(self.ranking["label"])], list(self.ranking["method"])
        )

    @cached_property
    def budget_(self) -> int:
        """The budget that decides: the largest one at which the most methods have a result."""
        there = self.results.dropna(subset="score").groupby("budget")["method"].nunique()
        if there.empty:
            return max(self.settings["budgets"])
        return int(there[there == there.max()].index.max())

    @cached_property
    def ranking(self) -> pd.DataFrame:
        """One row for each method, best first."""
        at = self.series[self.series["budget"] == self.budget_]
        wide = at.pivot(index="repeat", columns="label", values="score")
        rows = []
        for method, runs in self.series.groupby("method", sort=False):
            sizes = runs.drop_duplicates("label").set_index("label")["k"]
            label = _smallest_good_size(wide.reindex(columns=sizes.index), sizes.fillna(0).to_numpy(float))
            rows.append({"method": method, "label": label, "k": sizes[label]})
        ranking = pd.DataFrame(rows, columns=["method", "label", "k"]).astype({"k": "Int64"})
        scores = wide.reindex(columns=ranking["label"])
        ranking = ranking.merge(_gaps(scores), left_on="label", right_index=True, how="left")
        ranking["mean"] = ranking["label"].map(scores.mean())
        ranking["runs"] = ranking["label"].map(scores.count()).astype(int)
        return ranking.sort_values(
            "mean", ascending=False, na_position="last", kind="stable", ignore_index=True
        )

    @cached_property
    def choice(self) -> Choice | None:
        """The recommended method, and its expected score."""
        found = self.out_of_fold
        ranked = [label for label in self.ranking["label"] if label in found]
        # a method that cannot be saved is recommended only if there is no other
        kept = [label for label in ranked if self.methods[self._method_of(label)].needs is None] or ranked
        if not kept:
            return None
        # LabelFold first, then the order of the registry, which has simple methods first
        order = [PREFERRED, *self.methods]
        preferred = sorted(kept, key=lambda label: order.index(self._method_of(label)))
        choice = choose({label: found[label] for label in kept}, preferred, self.settings["random_state"])
        if self._method_of(choice.chosen) != PREFERRED:
            return choice
        # leave-one-out uses more labels than folds do
        size = int_or_none(self.ranking.set_index("label")["k"][choice.chosen])
        own = by_leave_one_out(self.fitted(PREFERRED, size), self.data)
        return choice if own is None else replace(own, chosen=choice.chosen, equal=choice.equal)

    @cached_property
    def out_of_fold(self) -> dict[str, OutOfFold]:
        """The out-of-fold predictions of the labelled rows, by method and size."""
        if self.data is None:
            return {}
        rows = self.results.to_dict("records")
        pairs = dict.fromkeys((row["method"], int_or_none(row["k"])) for row in rows)
        repeats, seed = self.settings["repeats"], self.settings["random_state"]
        found = predictions_of(self.data, rows, pairs, repeats, seed)
        return {self.label(*pair): one for pair, one in found.items()}

    def scores(self, draws: int = 200) -> dict[str, Score]:
        """Return the score of each method over folds of all labels, best first, with intervals by a bootstrap."""
        drawn = None
        if self.measure.kind != "accuracy":  # for accuracy the number of rows gives the interval
            rng, n = np.random.default_rng(self.settings["random_state"]), self.settings["n_labelled"]
            drawn = rng.multinomial(n, np.full(n, 1 / n), size=draws).astype(float)
        found = {}
        for label in self.ranking["label"]:
            if label in self.out_of_fold:
                one = self.out_of_fold[label]
                values = np.empty(0) if drawn is None else self.measure.value(drawn @ one.mean_terms)
                found[label] = Score(one.score, *interval(one, one.score, values), one.n_rows)
        return found

    @property
    def measure(self) -> Measure:
        """The score by which methods are compared."""
        if self.data is None:
            return Measure("accuracy", "accuracy")
        return self.data.measure

    def _method_of(self, label: str) -> str:
        return str(self.ranking.set_index("label")["method"][label])

    @cached_property
    def winner(self) -> pd.Series | None:
        """The row of the ranking of the recommended method, or the best one if there is no choice."""
        ranked = self.ranking.dropna(subset="mean")
        if ranked.empty:
            return None
        if self.choice is None:
            return ranked.iloc[0]
        return ranked[ranked["label"] == self.choice.chosen].iloc[0]

    @property
    def best_(self) -> str | None:
        """The recommended method."""
        return None if self.winner is None else str(self.winner["method"])

    @property
    def best_size_(self) -> int | None:
        """Its number of components."""
        return None if self.winner is None else int_or_none(self.winner["k"])

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.stopped == "ctrl-c"

    @property
    def answer(self) -> str:
        """The recommended method and its expected score, with its interval and the number of labels."""
        best, choice, measure = self.winner, self.choice, self.measure
        if best is None:
            return "No method could be fitted; the table has the error of each."
        name = self.title_with_size(best)
        if choice is None:
            return f"{name} reached {measure.stated(best['mean'])} on rows held out."
        told = "its label" if choice.n_groups is None else "a label of its group"
        return (
            f"{name}: expect {measure.stated(choice.expected)} on new rows "
            f"(90% interval {measure.show(choice.low)} to {measure.show(choice.high)}, from "
            f"{choice.rows}, each predicted by models that were not told {told})."
        )

    @property
    def details(self) -> list[str]:
        """Further sentences."""
        return details(self)

    @cached_property
    def other_estimates(self) -> list[str]:
        """Sentences about rows that may belong together, and columns in which labelled rows are unlike the others."""
        if self.winner is None or self.data is None or not (self.data.likely_groups or self.data.unlike):
            return []
        model = self.fitted() if self.best_ == PREFERRED else None
        return other_estimates(model, self.data)

    def ranking_as_text(self) -> pd.DataFrame:
        """Return the ranking as text: one line per method, at the budget that decides."""
        at, show = self.lines[self.lines["budget"] == self.budget_], self.measure.with_spread
        return pd.DataFrame(
            {
                "method": [self.methods[m].title for m in at["method"]],
                self.measure.name: [show(m, s) for m, s in zip(at["mean"], at["spread"], strict=True)],
                "components": [int_or_none(k) or "–" for k in at["components"]],
                "seconds": [f"{t:.2g}" for t in at["fit_seconds"]],
                "what it is": [self.methods[m].gloss for m in at["method"]],
            }
        )

    @property
    def repeats_run(self) -> str:
        """The number of repeats in words; fewer than asked for if the comparison ended early."""
        asked = self.settings["repeats"]
        ran = self.series.groupby("budget")["repeat"].nunique()
        fewest, most = (0, 0) if ran.empty else (int(ran.min()), int(ran.max()))
        if fewest == most == asked:
            return count(asked, "repeat")
        return (
            f"{most if fewest == most else f'{fewest} to {most}'} of the {count(asked, 'repeat')} asked for"
        )

    @property
    def why_two_scores(self) -> str:
        """A sentence on why the expected score differs from that in the table; "" if they hardly differ."""
        choice = self.choice
        one = None if choice is None else self.out_of_fold.get(choice.chosen)
        if choice is None or one is None or abs(choice.expected - one.score) < _DIFFERENT:
            return ""
        said = f"The table has {self.measure.show(one.score)} for it. "
        if getattr(self.fitted(), "loo_score_", None) == choice.expected:
            hidden = f"one label in {self.settings['folds']}"
            return f"{said}That is from folds, which hide {hidden}; the expected score is from leave-one-out."
        return f"{said}The expected score is corrected for the selection of the best method."

    def title_with_size(self, row: Any) -> str:
        """Return the title of a method with its number of components, or of columns."""
        title = self.methods[row["method"]].title
        if not self.methods[row["method"]].embeds:
            return f"{title} on all {count(self.settings['n_columns'], 'column')}"
        size = self.series.loc[self.series["label"] == row["label"], "components"].max()
        return title if int_or_none(size) is None else f"{title} with {count(int(size), 'component')}"

    def _constant_score(self) -> float | None:
        """Return the score of a constant prediction (the most frequent class, or the mean); None if not defined."""
        if self.measure.kind == "r2":
            return 0.0
        counts = self.settings.get("counts")
        return max(counts) / sum(counts) if counts and self.measure.kind == "accuracy" else None

    @property
    def about_a_constant(self) -> str:
        """The sentence about the score of a constant prediction; "" if it is not defined."""
        share = self._constant_score()
        if share is None:
            return ""
        if self.measure.kind == "r2":
            return "Always giving the mean would have an R² of 0"
        return f"Always guessing the most frequent class would give {self.measure.show(share)}"

    def refit(self, method: str | None = None, components: int | None = None) -> Any:
        """Return the recommended method, or another one, fitted on all rows with all labels.

        Parameters
        ----------
        method : str, optional
            The recommended one by default.
        components : int, optional
            The size chosen for the method by default.

        Returns
        -------
        estimator
            It has ``predict`` and, if the method embeds, ``transform``. Its classes are those of y. It takes rows as
            they were given to `compare`: for a table it is a pipeline that begins with the recipe.
        """
        return self.data.with_recipe(self.fitted(method, components))

    def fitted(self, method: str | None = None, components: int | None = None) -> Any:
        """Return a method fitted on the matrix of rows, without the recipe; see `refit`. The result is cached."""
        method = self.best_ if method is None else method
        if method is None:
            raise ValueError("No method could be fitted, so there is none to fit again.")
        if method not in self.methods:
            raise ValueError(f"{method!r} was not compared; {', '.join(self.methods)} were.")
        if components is None:
            components = int_or_none(self.ranking.set_index("method")["k"].get(method))
        if (method, components) not in self._refits:
            self._refits[method, components] = _review.fit_method(self, method, components)
        return self._refits[method, components][0]

    def held_out(self) -> HeldOut | None:
        """Return the out-of-fold predictions that calibrated the recommended method, if folds did."""
        self.fitted()
        return self._refits[str(self.best_), self.best_size_][1]

    @cached_property
    def review(self) -> _review.Review:
        """The content of the report besides scores: maps, confusion, components, rows to label next."""
        return _review.review(self)

    def forgo_review(self) -> None:
        """Leave out of the report everything that needs further fits."""
        self.__dict__["review"] = _review.EMPTY


def _summary(series: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """Return the means over the runs of each method, size and budget."""
    table = series.groupby(["label", "budget"], sort=False).agg(
        method=("method", "first"),
        k=("k", "first"),
        components=("components", "max"),
        mean=("score", "mean"),
        spread=("score", "std"),
        runs=("score", "count"),
        balanced=("balanced_accuracy", "mean"),
        fit_seconds=("fit_seconds", "mean"),
        transform_seconds=("transform_seconds", "mean"),
        embedding_size=("embedding_size", "max"),
        error=("error", "first"),
    ).reset_index()  # fmt: skip
    behind = []
    for budget, at in series.groupby("budget", sort=False):
        gap = _gaps(at.pivot(index="repeat", columns="label", values="score"))
        behind.append(gap.assign(budget=budget).reset_index(names="label"))
    table = table.merge(pd.concat(behind), on=["label", "budget"], how="left")
    place = {method: i for i, method in enumerate(order)}
    table = table.sort_values(
        ["method", "k", "budget"], key=lambda s: s.map(place) if s.name == "method" else s, ignore_index=True
    )
    first = [
        "method",
        "components",
        "budget",
        "mean",
        "spread",
        "fit_seconds",
        "transform_seconds",
        "embedding_size",
    ]
    return table[[*first, *table.columns.drop(first)]]


def _smallest_good_size(scores: pd.DataFrame, sizes: np.ndarray) -> str:
    """Return the label of the smallest size (columns of scores) within one standard error of the best."""
    ran = scores.dropna(axis="columns", how="all")
    whole = ran.dropna()
    if whole.empty:
        return ran.mean().idxmax() if len(ran.columns) else scores.columns[0]
    of = dict(zip(scores.columns, sizes, strict=True))
    return whole.columns[one_standard_error(whole.to_numpy().T, np.array([of[c] for c in whole.columns]))]


def _gaps(wide: pd.DataFrame) -> pd.DataFrame:
    """Return the paired distance of each method to the best one, from scores (repeats x methods)."""
    if wide.empty:
        return pd.DataFrame({"behind": [], "behind_spread": [], "behind_in": []})
    # the best must have all repeats: a mean over fewer, perhaps easier ones cannot be compared
    whole = wide.loc[:, wide.count() == wide.count().max()]
    gap = wide.rsub(wide[whole.mean().fillna(-np.inf).idxmax()], axis=0)
    behind_in = (gap > 0).sum().where(gap.count() > 0)
    return pd.DataFrame({"behind": gap.mean(), "behind_spread": gap.std(), "behind_in": behind_in})


def _equally_good(found: Results) -> list[str]:
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


def details(found: Results) -> list[str]:
    """Return further sentences: equally good methods, the size, methods without reduction, other budgets, notes."""
    best = found.winner
    said = [] if found.data is None else [note for note in found.data.doubts if note in found.notes]
    rest = [note for note in found.notes if note not in said]
    if best is not None:
        method = found.methods[best["method"]]
        what_it_is = f"{method.title}: {method.gloss}." if method.gloss else ""
        said += [
            *found.other_estimates,
            *([] if found.choice is None else distance(found.choice)),
            *filter(None, [what_it_is, found.measure.gloss, found.why_two_scores]),
            *_equally_good(found),
            *_size(found, best),
            *_without_reduction(found, best),
            *_other_budgets(found, best),
            *_like_a_constant(found, best),
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


def _between(found: Results, first: Any, second: Any) -> pd.Series:
    """Return the differences between the scores of two methods, paired by repeat."""
    at = found.series[found.series["budget"] == found.budget_]
    wide = at.pivot(index="repeat", columns="label", values="score")[
        [first["label"], second["label"]]
    ].dropna()
    return wide[first["label"]] - wide[second["label"]]


def _joined(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _size(found: Results, best: Any) -> list[str]:
    """Return a sentence if another size scored higher."""
    at = found.table[(found.table["budget"] == found.budget_) & (found.table["method"] == best["method"])]
    top = at.loc[at["mean"].idxmax()]
    if top["label"] == best["label"]:
        return []
    return [
        f"With {count(int(top['components']), 'component')} it reached {found.measure.show(top['mean'])}, which is "
        "within one standard error: the smaller size was taken."
    ]


def _without_reduction(found: Results, best: Any) -> list[str]:
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
    # otherwise neither was ahead in all repeats, or the difference rounds to 0
    if ((gap > 0).all() or (gap < 0).all()) and not found.measure.negligible(gap.mean()):
        size = f"{found.measure.difference(abs(gap.mean()), gap.std())}{' points' * found.measure.shares}"
        verdict = f"{size} {'better' if gap.mean() > 0 else 'worse'}{', in one draw' * (len(gap) == 1)}"
    lead = "Without a reduction" if reduces else "It does not reduce the columns; with a reduction"
    return [f"{lead}, {found.title_with_size(other)} reached {found.measure.show(other['mean'])}: {verdict}."]


def _other_budgets(found: Results, best: Any) -> list[str]:
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


def _like_a_constant(found: Results, best: Any) -> list[str]:
    """Return a sentence if the best is hardly better than a constant prediction."""
    share = found._constant_score()
    at = found.table[(found.table["label"] == best["label"]) & (found.table["budget"] == found.budget_)]
    if share is None or best["mean"] - at["spread"].fillna(0).max() > share:
        return []
    return [f"{found.about_a_constant}: the columns hardly help."]
