"""Which forms and views LabelFold makes: data, so that the choice is in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labelfold.features import AsTheyAre, Ranks, RootCounts, TfIdf, UnitRows, UnitVariance, looks_like_counts
from labelfold.features._forms import density
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

# Families that "auto" uses on tables only: absolute distances in many columns are costly and gain little; trees help
# on tables, and harm on signals.
_OF_TABLES = ("laplace", "trees")

# Functions of a distance, exp(-g d / mean d): d is the squared distance, or the sum of absolute differences.
KERNELS = ("rbf", "laplace")

# w(lambda): the weight of a function on the graph, given its eigenvalue.
FILTERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "1/(t+.02)^2": lambda t: (t + 0.02) ** -2.0,
    "1/(t+.02)^3": lambda t: (t + 0.02) ** -3.0,
    "1/(t+.02)^6": lambda t: (t + 0.02) ** -6.0,
    "exp(-30t)": lambda t: np.exp(-30 * t),
}

RIDGES = tuple(10.0**p for p in range(-3, 2))

# Families with a reserved share of the weight, and how fast it falls with their loss. Linear views always keep some.
# Laplace views, on tables, differ most from the others, so that a blend gains from them even where their own loss is
# larger.
RESERVED = {"laplace": (0.5, 0.05), "linear": (0.1, 0.0)}

# Functions kept of each graph.
N_EIGENVECTORS = 150

# Rows with a smaller share of non-zeros than this, in more columns than that, are treated like text.
_SPARSE_SHARE, _SPARSE_COLUMNS = 0.1, 200

# Counts with fewer columns than this are a table. Tables with more columns are assumed to have one unit.
_COUNT_COLUMNS, _TABLE_COLUMNS = 50, 100


@dataclass(frozen=True)
class View:
    """A feature map of a form's rows.

    Attributes
    ----------
    form : str
        The form of the columns it starts from, a name of `FORMS`.
    family : {"linear", "principal", "rbf", "laplace", "graph", "trees"}
    space : int
        It works on the first so many principal coordinates; on all columns where 0.
    value : float
        The power of the deviations that coordinates are divided by (principal: 0 plain, 1 whitened); the width g
        (rbf, laplace); the number of nearest anchors (graph).
    filter : str
        What graph functions are weighed by, a name of `FILTERS`.
    prior : float
        Its weight before the labels are seen, beside that of others.
    """

    form: str
    family: str
    space: int = 0
    value: float = 0.0
    filter: str = ""
    prior: float = field(default=1.0, compare=False)

    @property
    def name(self) -> str:
        """What people call it."""
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
    """Return the views that are made of a form."""
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
    """Return the view of all coordinates, in place of one with more coordinates than there are."""
    if view.family == "principal" and not view.value:
        return replace(view, family="linear", space=0)
    return replace(view, space=0)


def merged(views: list[View]) -> list[View]:
    """Return the views without repetition; priors of the same view add up."""
    found: dict[View, View] = {}
    for view in views:
        found[view] = replace(view, prior=view.prior + found[view].prior) if view in found else view
    return list(found.values())


def chosen_views(rows: Rows, forms: Any, views: Any) -> list[View]:
    """Return the views to make of some rows, as the parameters of `LabelFold` say."""
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
