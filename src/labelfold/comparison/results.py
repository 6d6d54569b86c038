"""What a comparison found: rows of results first, then tables, a ranking and an answer in words."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from labelfold.methods import Method

_COLUMNS = [
    "method", "k", "components", "budget", "repeat", "accuracy", "balanced_accuracy", "fit_seconds",
    "transform_seconds", "note", "error",
]  # fmt: skip


@dataclass(frozen=True)
class Map:
    """A method's embedding in the plane.

    Attributes
    ----------
    title : str
        The method.
    points : ndarray of shape (m, 2)
        Where the rows lie.
    code : ndarray of shape (m,)
        Their class, -1 where it was hidden from the method or never known.
    role : ndarray of str
        "labelled", "held back" or "unlabelled".
    budget : int
        How many labels the method was given.
    flat : bool
        Whether the method gave one component only, so that the second coordinate is random.
    """

    title: str
    points: np.ndarray
    code: np.ndarray
    role: np.ndarray
    budget: int
    flat: bool


class Comparison:
    """The outcome of :func:`labelfold.comparison.compare`.

    Attributes
    ----------
    results : DataFrame
        One row a run: method, k (asked for), components (given), budget, repeat, accuracy, balanced_accuracy,
        fit_seconds, transform_seconds, note (warnings) and error.
    table : DataFrame
        One row a method and budget: the mean accuracy, its spread (standard deviation over the repeats), how
        far behind the best method of that budget (paired by repeat) and the seconds.
    ranking : DataFrame
        One row a method, best first: accuracy averaged over the budgets, and how far behind the first.
    best_ : str or None
        The first of the ranking; None where no method ran at every budget.
    answer : str
        The finding in a sentence.
    settings : dict
        What was compared, and how.
    maps : list of Map
        Embeddings in the plane.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    def __init__(
        self,
        rows: list[dict[str, Any]],
        settings: dict[str, Any],
        methods: dict[str, Method],
        maps: list[Map] = (),
        interrupted: bool = False,
    ):
        import pandas as pd

        self.results = pd.DataFrame(rows).reindex(columns=_COLUMNS)
        self.results = self.results.astype(
            {"k": "Int64", "components": "Int64", "note": object, "error": object}
            | dict.fromkeys(["accuracy", "balanced_accuracy", "fit_seconds", "transform_seconds"], float)
        )
        self.settings = settings
        self.methods = methods
        self.maps = list(maps)
        self.interrupted = interrupted

    def label(self, method: str, k: Any) -> str:
        """Return what a method, at a size of the embedding, is called in tables and figures."""
        title = self.methods[method].title
        several = len(self.settings["n_components"]) > 1 and self.methods[method].embeds
        return f"{title}, k = {k}" if several else title

    @cached_property
    def series(self) -> pd.DataFrame:
        """Results with a ``label`` for each method and size, in the order of the plan."""
        return self.results.assign(
            label=[self.label(m, k) for m, k in zip(self.results["method"], self.results["k"], strict=True)]
        )

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a method and budget."""
        import pandas as pd

        groups = self.series.groupby(["label", "budget"], sort=False)
        table = groups.agg(
            method=("method", "first"),
            components=("components", "max"),
            mean=("accuracy", "mean"),
            spread=("accuracy", "std"),
            runs=("accuracy", "count"),
            balanced=("balanced_accuracy", "mean"),
            fit_seconds=("fit_seconds", "mean"),
            transform_seconds=("transform_seconds", "mean"),
            error=("error", "first"),
        ).reset_index()
        behind = [self._behind(at) for _, at in self.series.groupby("budget", sort=False)]
        table = table.merge(pd.concat(behind), on=["label", "budget"], how="left")
        order = {label: i for i, label in enumerate(self.series["label"].unique())}
        table = table.sort_values(["label", "budget"], key=lambda s: s.map(order) if s.name == "label" else s)
        first = ["method", "components", "budget", "mean", "spread", "runs", "behind", "behind_spread"]
        return table[[*first, *table.columns.drop(first)]].reset_index(drop=True)

    def _behind(self, at: pd.DataFrame) -> pd.DataFrame:
        """Return how far each method is behind the best at one budget, paired by repeat."""
        wide = at.pivot(index="repeat", columns="label", values="accuracy")
        gap = _gaps(wide)
        return gap.assign(budget=at["budget"].iloc[0]).reset_index(names="label")

    @cached_property
    def ranking(self) -> pd.DataFrame:
        """One row a method, best first."""
        # a method's repeat counts where all its budgets ran, so that every mean is over the same budgets
        wide = self.series.pivot(index=["label", "repeat"], columns="budget", values="accuracy")
        per_repeat = wide.mean(axis=1, skipna=False).unstack("label")
        gap = _gaps(per_repeat)
        ranking = gap.assign(mean=per_repeat.mean(), runs=per_repeat.count()).reset_index(names="label")
        methods = self.series.drop_duplicates("label").set_index("label")["method"]
        ranking["method"] = ranking["label"].map(methods)
        ranking = ranking.sort_values("mean", ascending=False, na_position="last", kind="stable")
        return ranking[
            ["method", "label", "mean", "behind", "behind_spread", "behind_in", "runs"]
        ].reset_index(drop=True)

    @property
    def best_(self) -> str | None:
        """The first of the ranking."""
        first = self.ranking.iloc[0]
        return None if np.isnan(first["mean"]) else str(first["method"])

    @property
    def answer(self) -> str:
        """The finding in a sentence."""
        from labelfold.comparison.words import answer

        return answer(self)

    def report(self, path: str | os.PathLike) -> Path:
        """Write one offline HTML page: the answer, accuracy by label budget, the table and the maps."""
        from labelfold.comparison.report import write_report

        return write_report(self, path)


def _gaps(wide: pd.DataFrame) -> pd.DataFrame:
    """Return, for accuracies (repeats x methods), the paired distance of each method to the best mean."""
    import pandas as pd

    # a method that failed in some repeats is no yardstick: its mean is over fewer, perhaps easier, ones
    whole = wide.loc[:, wide.count() == wide.count().max()]
    gap = wide.rsub(wide[whole.mean().fillna(-1).idxmax()], axis=0)
    behind_in = (gap > 0).sum().where(gap.count() > 0)
    return pd.DataFrame({"behind": gap.mean(), "behind_spread": gap.std(), "behind_in": behind_in})
