"""The list of forms and views of LabelFold. Their choice is in this one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labelfold.features import (
    AsTheyAre,
    Ranks,
    RootCounts,
    TfIdf,
    UnitRows,
    UnitVariance,
    density,
    looks_like_counts,
)
from labelfold.rows import Rows

FORMS = {
    "as they are": AsTheyAre,
    "unit variance": UnitVariance,
    "ranks": Ranks,
    "unit rows": UnitRows,
    "tf-idf": TfIdf,
    "root counts": RootCounts,
}

FAMILIES = ("linear", "principal", "rbf", "laplace", "graph", "trees")

# Families that "auto" uses for tables only. Absolute distances are costly in many columns and gain little there;
# trees improve tables, and harm signals.
_OF_TABLES = ("laplace", "trees")

# Functions of a distance, exp(-g d / mean d): d is the squared distance, or the sum of absolute differences.
KERNELS = ("rbf", "laplace")

# w(lambda): the weight of a graph function with eigenvalue lambda.
FILTERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "1/(t+.02)^2": lambda t: (t + 0.02) ** -2.0,
    "1/(t+.02)^3": lambda t: (t + 0.02) ** -3.0,
    "1/(t+.02)^6": lambda t: (t + 0.02) ** -6.0,
    "exp(-30t)": lambda t: np.exp(-30 * t),
}

RIDGES = tuple(10.0**p for p in range(-3, 2))

# Families with a reserved share of the weight, and how fast it falls with their loss. Linear views always keep some.
# On tables Laplace views differ most from the others, so a blend gains from them even if their own loss is larger.
RESERVED = {"laplace": (0.5, 0.05), "linear": (0.1, 0.0)}

# Number of functions kept for each graph.
N_EIGENVECTORS = 150

# Rows with a smaller share of non-zeros than the first value, in more columns than the second, are treated like text.
_SPARSE_SHARE, _SPARSE_COLUMNS = 0.1, 200

# Counts with fewer columns than the first value are a table. Tables with more columns than the second are assumed to
# have one unit.
_COUNT_COLUMNS, _TABLE_COLUMNS = 50, 100


@dataclass(frozen=True)
class View:
    """A feature map of rows in one form.

    Attributes
    ----------
    form : str
        The form of the columns, a name of `FORMS`.
    family : {"linear", "principal", "rbf", "laplace", "graph", "trees"}
    space : int
        Number of leading principal coordinates that it uses; 0 for all columns.
    value : float
        Principal views: the power of the standard deviations by which coordinates are divided (0 unchanged, 1
        whitened). RBF and Laplace views: the width g. Graph views: the number of nearest anchors.
    filter : str
        The weights of graph functions, a name of `FILTERS`.
    prior : float
        Its prior weight, relative to other views.
    """

    form: str
    family: str
    space: int = 0
    value: float = 0.0
    filter: str = ""
    prior: float = field(default=1.0, compare=False)

    @property
    def name(self) -> str:
        """The name shown to users."""
        where = f" on {self.space} coordinates" if self.space else ""
        if self.family == "principal":
            kind = {0.0: "", 0.5: ", half whitened", 1.0: ", whitened"}[self.value]
            return f"principal {self.space or 'all'}{kind}"
        if self.family in KERNELS:
            return f"{self.family} {self.value:g}{where}"
        if self.family == "graph":
            return f"graph {self.value:g}{where}, {self.filter}"
        return "extra trees" if self.family == "trees" else self.family


# Extra trees are not a view: they are blended with the score of all views.
TREES = View("as they are", "trees")


def views_of(form: str) -> tuple[View, ...]:
    """Return the views of a form."""
    linear = [View(form, "linear", prior=2.0)]
    principal = [View(form, "principal", q, prior=p) for q, p in ((2, 1.0), (3, 1.0), (5, 1.0), (20, 0.5))]
    principal += [View(form, "principal", q, 0.5, prior=0.5) for q in (100, 0)]
    principal += [View(form, "principal", q, 1.0, prior=0.5) for q in (20, 50, 0)]
    rbf = [View(form, "rbf", q, g, prior=p) for q, p in ((0, 0.5), (20, 1.0)) for g in (2.0, 8.0)]
    laplace = [View(form, "laplace", 0, g) for g in (0.25, 1.0)]
    graph = [View(form, "graph", 20, 21, w) for w in ("1/(t+.02)^2", "1/(t+.02)^6", "exp(-30t)")]
    graph += [View(form, "graph", 50, 6, w) for w in ("1/(t+.02)^3", "1/(t+.02)^6", "exp(-30t)")]
    return (*linear, *principal, *rbf, *laplace, *graph)


def instead(view: View) -> View:
    """Return the view of all coordinates that replaces one with more coordinates than exist."""
    if view.family == "principal" and not view.value:
        return replace(view, family="linear", space=0)
    return replace(view, space=0)


def merged(views: list[View]) -> list[View]:
    """Return the views without duplicates; priors of equal views are added."""
    found: dict[View, View] = {}
    for view in views:
        found[view] = replace(view, prior=view.prior + found[view].prior) if view in found else view
    return list(found.values())


def chosen_views(rows: Rows, forms: Any, views: Any) -> list[View]:
    """Return the views for some rows, given the parameters of `LabelFold`."""
    forms = forms_for(rows) if isinstance(forms, str) else _known(forms, FORMS, "forms")
    table = rows.shape[1] <= _TABLE_COLUMNS
    if isinstance(views, str):
        given, families = [], [family for family in FAMILIES if table or family not in _OF_TABLES]
    else:
        given = [view for view in views if isinstance(view, View)]
        families = _known([view for view in views if not isinstance(view, View)], FAMILIES, "views")
    made = [view for form in forms for view in views_of(form) if view.family in families]
    return given + made + [TREES] * ("trees" in families)


def forms_for(rows: Rows) -> tuple[str, ...]:
    """Return the forms that suit the values: counts, wide sparse rows, or tables."""
    d = rows.shape[1]
    if d > _COUNT_COLUMNS and looks_like_counts(rows):
        return ("tf-idf", "root counts")
    if d > _SPARSE_COLUMNS and density(rows) < _SPARSE_SHARE:
        return ("unit rows",)
    return ("as they are", "unit variance", "ranks") if d <= _TABLE_COLUMNS else ("as they are", "ranks")


def _known(names: Sequence[str], known: Any, parameter: str) -> list[str]:
    for name in names:
        if name not in known:
            raise ValueError(f"{parameter} names {name!r}, where {', '.join(known)} are known; use those")
    return list(names)
