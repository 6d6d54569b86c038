"""The result of a comparison: rows of results, tables, a ranking and an answer in words."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from labelfold.app.compare import _review, _words
from labelfold.app.compare._choice import Choice, OutOfFold, choose
from labelfold.app.compare._data import Data
from labelfold.app.compare._expect import HeldOut, by_leave_one_out, if_grouped, without_unlike
from labelfold.app.compare._measure import Measure
from labelfold.app.compare._splits import predictions_of, whole
from labelfold.app.compare._store import COLUMNS
from labelfold.app.io import pd
from labelfold.app.registry import Method
from labelfold.model_selection import one_standard_error

# Recommended unless another method is significantly better: it embeds, and its probabilities are calibrated.
PREFERRED = "labelfold"


class Comparison:
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
        self.left_out = left_out or {}
        self.notes = notes or []
        self.stopped = stopped
        self._refits: dict[tuple[str, int | None], tuple[Any, HeldOut | None]] = {}

    def __repr__(self) -> str:
        """Return the answer and the ranking."""
        return "\n".join([self.answer, "", _words.brief(self).to_string(index=False)])

    def _repr_html_(self) -> str:
        """Return the answer, the ranking and a map, for a notebook."""
        from labelfold.app.report import notebook

        return notebook(self)

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
            label = _chosen(wide.reindex(columns=sizes.index), sizes.fillna(0).to_numpy(float))
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
        size = whole(self.ranking.set_index("label")["k"][choice.chosen])
        own = by_leave_one_out(self.fitted(PREFERRED, size), self.data)
        return choice if own is None else replace(own, chosen=choice.chosen, equal=choice.equal)

    @cached_property
    def out_of_fold(self) -> dict[str, OutOfFold]:
        """The out-of-fold predictions of the labelled rows, by method and size."""
        if self.data is None:
            return {}
        rows = self.results.to_dict("records")
        pairs = dict.fromkeys((row["method"], whole(row["k"])) for row in rows)
        repeats, seed = self.settings["repeats"], self.settings["random_state"]
        found = predictions_of(self.data, rows, pairs, repeats, seed)
        return {self.label(*pair): one for pair, one in found.items()}

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
        return None if self.winner is None else whole(self.winner["k"])

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.stopped == "ctrl-c"

    @property
    def answer(self) -> str:
        """The result in a sentence."""
        return _words.answer(self)

    @property
    def details(self) -> list[str]:
        """Further sentences."""
        return _words.details(self)

    @cached_property
    def other_estimates(self) -> list[str]:
        """Sentences about rows that may belong together, and columns in which labelled rows are unlike the others."""
        if self.winner is None or self.data is None or not (self.data.likely_groups or self.data.unlike):
            return []
        model = self.fitted() if self.best_ == PREFERRED else None
        return [*if_grouped(model, self.data), *without_unlike(model, self.data)]

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
        return self.data.delivered(self.fitted(method, components))

    def fitted(self, method: str | None = None, components: int | None = None) -> Any:
        """Return a method fitted on the matrix of rows, without the recipe; see `refit`. The result is cached."""
        method = self.best_ if method is None else method
        if method is None:
            raise ValueError("No method could be fitted, so there is none to fit again.")
        if method not in self.methods:
            raise ValueError(f"{method!r} was not compared; {', '.join(self.methods)} were.")
        if components is None:
            components = whole(self.ranking.set_index("method")["k"].get(method))
        if (method, components) not in self._refits:
            self._refits[method, components] = _review.fit_on_all(self, method, components)
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

    def report(self, path: str | os.PathLike) -> Path:
        """Write one offline HTML page: the answer, the figures, the maps, and the rows to label next."""
        from labelfold.app.report import write_report

        return write_report(self, path)


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


def _chosen(scores: pd.DataFrame, sizes: np.ndarray) -> str:
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
