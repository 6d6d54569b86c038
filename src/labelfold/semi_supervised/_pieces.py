"""The parts that views of one form share: one decomposition, one k-means and one neighbour search for each space."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
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
    ColumnForm,
    Formed,
    anchor_graph,
    cluster,
    distances,
    joined,
    means_around,
    nearest_anchors,
    principal_axes,
    rows_around,
    sample,
)
from labelfold.rows import Block, Featurized, Rows, as_rows, host, n_threads, run_jobs
from labelfold.semi_supervised._view_list import FILTERS, KERNELS, N_EIGENVECTORS, View, instead, merged

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
        T = host(rows.whole())
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
            points = host(rows.take(rows_around(distance[:, 0], which[:, 0])).whole())
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
        return as_rows(host(rows.whole())), size
    if rows.dtype == np.float64 and size <= 2 * most_bytes and not rows.take(np.arange(1)).whole().is_sparse:
        return as_rows(rows.get(rows.map(_single)).astype(np.float32, copy=False)), size / 2
    return rows, 0.0


def _single(X: Block) -> Any:
    return X.single().raw
