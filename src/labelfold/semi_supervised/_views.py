"""The list of forms and views of LabelFold. Their choice is in this one place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from labelfold.features import (
    DIRECT,
    ROWS_AN_ANCHOR,
    AnchorGraph,
    Anchors,
    AsTheyAre,
    ColumnForm,
    Formed,
    Ranks,
    RootCounts,
    TfIdf,
    UnitRows,
    UnitVariance,
    anchor_graph,
    cluster,
    density,
    distances,
    joined,
    looks_like_counts,
    means_around,
    nearest_anchors,
    principal_axes,
    rows_around,
    sample,
)
from labelfold.rows import Block, Featurized, Rows, as_rows, n_threads, run_jobs

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
# Number of principal coordinates if the smaller side of X is decomposed directly, and otherwise.
_COORDINATES, _FEWER_COORDINATES = 1000, 100
# Most entries of the matrix of principal directions.
_BASIS = 16_000_000
# Sample size for estimating the mean of a kernel.
_KERNEL_ROWS = 1000
# All rows are anchors if there are at most this many times as many rows as requested anchors.
_ALL_ROWS = 1.5
# Up to this many entries (anchors times columns), anchors are means of rows; beyond it they are rows.
_DENSE_ANCHORS = 4_000_000


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


class PrincipalCoordinates:
    """The first q principal coordinates of rows in their form. For `Featurized`."""

    def __init__(self, basis: np.ndarray, mean: np.ndarray) -> None:
        self.basis = basis
        self.offset = mean @ basis

    def __call__(self, T: Any) -> np.ndarray:
        """Return the coordinates of some rows."""
        return T @ self.basis.astype(T.dtype, copy=False) - self.offset.astype(T.dtype, copy=False)

    def first(self, q: int | None) -> PrincipalCoordinates:
        """Return the first q of these coordinates."""
        some = copy(self)
        some.basis, some.offset = self.basis[:, :q], self.offset[:q]
        return some


class AnchorSpace:
    """The anchors of one space: the first q principal coordinates, or all columns if q is 0.

    Attributes
    ----------
    k : int
        Number of nearest anchors to search.
    joins : tuple of ndarray
        Distances (n, k) and indices (n, k) of each training row's nearest anchors; empty in a saved model.
    """

    def __init__(self, q: int, anchors: Anchors, k: int, joins: tuple = ()) -> None:
        self.q, self.anchors, self.k, self.joins = q, anchors, k, joins


class FormPieces:
    """The parts that views of one form share, learned from all rows without labels.

    Attributes
    ----------
    name, form : str, ColumnForm
        The form.
    mean, total : ndarray of shape (d,), float
        The mean row in the form, and the mean squared distance from it.
    mean_absolute : float
        The mean over pairs of rows of the sum of absolute differences; 0 if no view needs it.
    coordinates, deviations : PrincipalCoordinates, ndarray of shape (q,)
        Principal coordinates and their standard deviations.
    spaces : list of AnchorSpace
    graphs : dict of (int, int) to AnchorGraph
        The smoothest functions on the graph of s nearest anchors in the space of q coordinates, by (q, s).
    scales : dict of str to float
        The mean squared norm of each view's features over all rows, before they are scaled to 1.
    views : list of View
        The views that could be computed.
    """

    mean: np.ndarray
    total: float
    coordinates: PrincipalCoordinates
    deviations: np.ndarray

    def __init__(self, name: str, form: ColumnForm) -> None:
        self.name, self.form = name, form
        self.mean_absolute = 0.0
        self.spaces: list[AnchorSpace] = []
        self.graphs: dict[tuple[int, int], AnchorGraph] = {}
        self.scales: dict[str, float] = {}
        self.views: list[View] = []

    def space(self, q: int) -> AnchorSpace:
        """Return the anchors of the space of q coordinates."""
        return next(space for space in self.spaces if space.q == q)

    def place(self, T: Any, spaces: Collection[int] | None = None, q: int | None = None) -> Placed:
        """Return some rows in the representations that the views need.

        Nearest anchors are searched in the given spaces, and the first q principal coordinates computed; all when
        None.
        """
        C, joins = self.coordinates.first(q)(T), {}
        for space in self.spaces:
            if spaces is None or space.q in spaces:
                joins[space.q] = space.anchors.nearest(C[:, : space.q] if space.q else T, space.k)
        return Placed(T, C, joins, {})

    def place_again(self, T: Any, index: np.ndarray, q: int | None = None) -> Placed:
        """Return the same for training rows, whose nearest anchors are known."""
        joins = {space.q: tuple(part[index] for part in space.joins) for space in self.spaces}
        return Placed(T, self.coordinates.first(q)(T), joins, {})

    def join(self, q: int, s: float, placed: Placed) -> sparse.csr_array:
        """Return z(x) of some rows: their weights for the s nearest anchors of a space."""
        key = (q, int(s))
        if key not in placed.made:
            distance, which = placed.joins[q]
            placed.made[key] = joined(distance, which, int(s), self.space(q).anchors.points.shape[0])
        return placed.made[key]

    def only(self, spaces: Collection[int], q: int) -> FormPieces:
        """Return a copy that can only place new rows among the anchors of some spaces and in q coordinates."""
        some = FormPieces(self.name, self.form)
        some.coordinates = self.coordinates.first(q)
        some.spaces = [
            AnchorSpace(space.q, space.anchors, space.k) for space in self.spaces if space.q in spaces
        ]
        return some


class Placed(NamedTuple):
    """Some rows in the representations that the views of a form need.

    Attributes
    ----------
    T, C : array of shape (n, d), (n, q)
        The rows in the form, and their principal coordinates.
    joins : dict of int to tuple of ndarray
        Distances and indices of their nearest anchors, by space.
    made : dict
        Cached results: z(x) by space and number of neighbours, and distances from the labelled rows by family and
        space.
    """

    T: Any
    C: Any
    joins: dict[int, tuple[np.ndarray, np.ndarray]]
    made: dict[Any, Any]

    def some(self, index: np.ndarray) -> Placed:
        """Return some of the rows."""
        joins = {q: (distance[index], which[index]) for q, (distance, which) in self.joins.items()}
        return Placed(self.T[index], self.C[index], joins, {})


def make_pieces(
    name: str, form: ColumnForm, rows: Rows, views: list[View], n_anchors: int, random_state: Any
) -> tuple[FormPieces, dict[View, str]]:
    """Return the parts that views of a form share, and the reasons why some views cannot be computed.

    Parameters
    ----------
    rows : Rows
        All rows, in the form.
    """
    pieces = FormPieces(name, form)
    most = most_coordinates(*rows.shape)
    axes = principal_axes(rows, most, random_state=random_state)
    pieces.mean, pieces.total, pieces.deviations = axes.mean, axes.total, axes.deviations
    pieces.coordinates = PrincipalCoordinates(axes.basis, axes.mean)
    views, reasons = _with_coordinates(views, len(axes.deviations), most, rows.shape[0])
    left = views
    _make_graphs(
        pieces, rows, [view for view in left if view.family == "graph"], n_anchors, random_state, reasons
    )
    pieces.views = [view for view in left if view not in reasons]
    drawn = None
    if any(view.family in KERNELS for view in left):
        drawn = sample(rows, _KERNEL_ROWS, random_state).astype(np.float64, copy=False)
    if any(view.family == "laplace" for view in left):
        pieces.mean_absolute = float(distances("laplace", drawn, drawn).mean())
    for view in list(pieces.views):
        scale = _scale(view, pieces, rows.shape[0], drawn)
        if scale > 0:
            pieces.scales[view.name] = scale
        else:
            reasons[view] = "its features are the same for all rows"
            pieces.views.remove(view)
    return pieces, reasons


def most_coordinates(n: int, d: int) -> int:
    """Return the number of principal coordinates to compute: all if that is cheap."""
    if min(n, d) > DIRECT:
        return _FEWER_COORDINATES
    return min(_COORDINATES, _BASIS // d)


def _with_coordinates(views: list[View], found: int, most: int, n: int) -> tuple[list[View], dict[View, str]]:
    """Return the views that ``found`` coordinates allow, and the reasons why others cannot be computed.

    The prior of a view with more coordinates than the rank is added to that of the view of all columns.
    """
    can, reasons, complete = [], {}, found < most
    for view in views:
        if not found:
            reasons[view] = "all rows are the same"
        elif view.space > found and not complete:
            reasons[view] = f"{found} principal coordinates were made"
        elif view.space >= found and complete:
            reasons[view] = f"the rank is {found}: it is the same as '{instead(view).name}'"
            can.append(instead(view))
        else:
            can.append(view)
    for view in list(can):
        if (
            view.family == "principal"
            and view.value == 1
            and not view.space
            and not (complete and found <= n / 2)
        ):
            can.remove(view)
            reasons[view] = f"the rank, {found}{'' if complete else ' or more'}, is more than half the rows"
    return merged(can), reasons


def _make_graphs(
    pieces: FormPieces,
    rows: Rows,
    views: list[View],
    n_anchors: int,
    random_state: Any,
    reasons: dict[View, str],
) -> None:
    """Add anchors and graphs to the pieces."""
    n = rows.shape[0]
    for view in views:
        if view.value >= n:
            reasons[view] = f"{view.value:g} neighbours of {n} rows would be all of them"
    views = [view for view in views if view not in reasons]
    if not views:
        return
    todo = []
    for q, anchors in _anchors(pieces, rows, sorted({view.space for view in views}), n_anchors, random_state):
        sizes = sorted({int(view.value) for view in views if view.space == q})
        seen = rows if not q else Featurized(rows, pieces.coordinates.first(q))
        k = min(sizes[-1], anchors.points.shape[0])
        pieces.spaces.append(AnchorSpace(q, anchors, k, nearest_anchors(seen, anchors, k)))
        todo += [(pieces.spaces[-1], s) for s in sizes]
    jobs = [todo[i :: n_threads()] for i in range(min(len(todo), n_threads()))]
    for space, s, found, why in chain.from_iterable(run_jobs(_graphs, jobs)):
        if found is None or why:
            here = [view for view in views if (view.space, view.value) == (space.q, s)]
            reasons.update(dict.fromkeys(here, why))
        else:
            pieces.graphs[space.q, s] = found


def _graphs(
    todo: list[tuple[AnchorSpace, int]], stop: Event
) -> list[tuple[AnchorSpace, int, AnchorGraph | None, str]]:
    """Return the graph for each space and number of neighbours, or the reason why it cannot be used."""
    done: list[tuple[AnchorSpace, int, AnchorGraph | None, str]] = []
    for space, s in todo:
        m = space.anchors.points.shape[0]
        if stop.is_set():
            break
        if s >= m:
            done.append((space, s, None, f"{s} neighbours of {m} different anchors would be all of them"))
            continue
        distance, which = space.joins
        found = anchor_graph(joined(distance, which, s, m), N_EIGENVECTORS)
        pieces = found.n_pieces > max(1, len(found.eigenvalues)) / 2
        done.append((space, s, found, f"the graph falls into {found.n_pieces} pieces" if pieces else ""))
    return done


def _anchors(
    pieces: FormPieces, rows: Rows, spaces: list[int], n_anchors: int, random_state: Any
) -> list[tuple[int, Anchors]]:
    """Return the anchors of each space: all rows if they are few, otherwise k-means of principal coordinates."""
    n, d = rows.shape
    if n <= _ALL_ROWS * n_anchors:
        T = rows.whole().host()
        return [(q, Anchors(T if not q else pieces.coordinates.first(q)(T))) for q in spaces]
    size = min(n, ROWS_AN_ANCHOR * n_anchors)
    chosen = np.sort(check_random_state(random_state).permutation(n)[:size])
    some = rows if size == n else rows.take(chosen)
    C = some.get(Featurized(some, pieces.coordinates.first(max(spaces) or 50)).values())
    centres = cluster(C, n_anchors, random_state)
    found = [(q, Anchors(np.ascontiguousarray(centres[:, :q]))) for q in spaces if q]
    if 0 in spaces:
        within = Featurized(rows, pieces.coordinates.first(centres.shape[1]))
        distance, which = nearest_anchors(within, Anchors(centres), 1)
        if len(centres) * d > _DENSE_ANCHORS:
            points = rows.take(rows_around(distance[:, 0], which[:, 0])).whole().host()
        else:
            points = means_around(rows, which[:, 0], len(centres))
        found.insert(0, (0, Anchors(points)))
    return found


def _scale(view: View, pieces: FormPieces, n: int, drawn: Any) -> float:
    """Return the mean squared norm of a view's features over all rows."""
    squares = pieces.deviations[: view.space or None] ** 2
    if view.family == "linear":
        return pieces.total
    if view.family == "principal":
        return float((squares ** (1 - view.value)).sum())
    if view.family in KERNELS:
        points = drawn if not view.space else pieces.coordinates.first(view.space)(drawn)
        return 1 - float(np.exp(-width(view, pieces) * distances(view.family, points, points)).mean())
    return float(graph_weights(view, pieces).sum() / n)


def graph_weights(view: View, pieces: FormPieces) -> np.ndarray:
    """Return w(lambda_j) of a graph view."""
    return FILTERS[view.filter](pieces.graphs[view.space, int(view.value)].eigenvalues)


def width(view: View, pieces: FormPieces) -> float:
    """Return the factor of distances in a kernel view: its g divided by the mean distance of two rows."""
    if view.family == "laplace":
        mean = pieces.mean_absolute
    else:
        mean = 2 * (float((pieces.deviations[: view.space] ** 2).sum()) if view.space else pieces.total)
    return view.value / mean


def hold(rows: Rows, most_bytes: float) -> tuple[Rows, float]:
    """Return rows in memory, in float32 if necessary, and their bytes; the rows unchanged if they do not fit."""
    size = rows.shape[0] * rows.row_bytes()
    if rows.in_memory and not isinstance(rows, Formed):
        return rows, 0.0
    if size <= most_bytes:
        return as_rows(rows.whole().host()), size
    if rows.dtype == np.float64 and size <= 2 * most_bytes and not rows.take(np.arange(1)).whole().is_sparse:
        return as_rows(rows.get(rows.map(_single)).astype(np.float32, copy=False)), size / 2
    return rows, 0.0


def _single(X: Block) -> Any:
    return X.single().raw
