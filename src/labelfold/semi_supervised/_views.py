"""The views of LabelFold: which there are, and what the views of one form of the columns share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from labelfold.features import (
    FORMS,
    anchor_spaces,
    density,
    drawn_rows,
    looks_like_counts,
    parted,
    principal_axes,
)
from labelfold.rows import AbsoluteDistances, Rows, SquaredDistances, centred_products, dense

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
# Families with a reserved share of the weight, and how fast it falls with their loss. Linear views always keep some.
# Chosen by accuracy on the sets that experiments/label_fold.py names.
# On tables Laplace views differ most from the others, so a blend gains from them even if their own loss is larger.
RESERVED = {"laplace": (0.5, 0.05), "linear": (0.1, 0.0)}
# Definitions of kinds of data, from the shapes of the sets in experiments/label_fold.py. Rows with a smaller share of
# non-zeros than the first value, in more columns than the second, are treated like text.
_SPARSE_SHARE, _SPARSE_COLUMNS = 0.1, 200
# Counts with fewer columns than the first value are a table. Tables with more columns than the second are assumed to
# have one unit.
_COUNT_COLUMNS, _TABLE_COLUMNS = 50, 100
# Budget: from this many rows (a kernel of 8 MB) the mean of a kernel over all rows is estimated. With more labelled
# rows, the kernel is approximated from this many of them by the Nystroem method.
_KERNEL_ROWS = 1000
# Budget: with more labelled rows and more columns than this, a linear view uses principal coordinates, since its
# kernel matrix of the labelled rows would be decomposed in every fit.
_LINEAR_ROWS = 1500
# Precision: eigenvalues of a kernel, or of a covariance, below this share of the largest one are left out. Division
# by their square roots multiplies round-off by at most 1e5.
ROUND_OFF = 1e-10


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

    @property
    def graph(self) -> tuple[int, int]:
        """The space and the number of nearest anchors of a graph view."""
        return self.space, int(self.value)


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


def _of_all_coordinates(view: View) -> View:
    """Return the view of all coordinates that replaces one with more coordinates than exist."""
    if view.family == "principal" and not view.value:
        return replace(view, family="linear", space=0)
    return replace(view, space=0)


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


class FormRows(NamedTuple):
    """Some rows in the representations that the views of a form need.

    Attributes
    ----------
    T, C : array of shape (n, d), (n, q)
        The rows in the form, and their principal coordinates.
    nearest : dict of int to tuple of ndarray
        Distances and indices of their nearest anchors, by space.
    cache : dict
        Weights of the nearest anchors by space and number of neighbours, and distances from the labelled rows by
        family and space.
    """

    T: Any
    C: Any
    nearest: dict[int, tuple[np.ndarray, np.ndarray]]
    cache: dict[Any, Any]

    def take(self, index: np.ndarray) -> FormRows:
        """Return some of the rows."""
        nearest = {q: (distance[index], which[index]) for q, (distance, which) in self.nearest.items()}
        return FormRows(self.T[index], self.C[index], nearest, {})

    def points(self, q: int) -> Any:
        """Return the rows in the space of q coordinates, or of all columns if q is 0."""
        return self.C[:, :q] if q else self.T


class Regressors(NamedTuple):
    """The labelled rows and some other rows in a view.

    Attributes
    ----------
    own : ndarray of shape (l, l) or (l, p)
        The kernel of the labelled rows, or their features if these are fewer than the rows.
    others : ndarray of shape (u, l) or (u, p)
        The kernel of other rows with the labelled rows, or the features of the other rows.
    is_kernel : bool
    """

    own: np.ndarray
    others: np.ndarray
    is_kernel: bool


class FormMap:
    """What the views of one form need of a row, as a function of the row.

    Attributes
    ----------
    name, form : str, ColumnForm
        The form.
    axes : PrincipalAxes
    spaces : dict of int to AnchorSpace
        Anchors, by the number of principal coordinates of their space.
    """

    def __init__(self, name: str, form: Any, axes: Any, spaces: dict[int, Any]) -> None:
        self.name, self.form, self.axes, self.spaces = name, form, axes, spaces

    def __call__(self, X: Any) -> FormRows:
        """Return new rows as the views need them."""
        rows = self.without_anchors(self.form.apply(X))
        for q, space in self.spaces.items():
            rows.nearest[q] = space.anchors.nearest(rows.points(q), space.k)
        return rows

    def without_anchors(self, T: Any) -> FormRows:
        """Return rows in the form as views without a graph need them."""
        return FormRows(T, self.axes(T), {}, {})

    def anchor_weights(self, q: int, s: int, rows: FormRows) -> sparse.csr_array:
        """Return z(x) of some rows: their weights for the s nearest anchors of a space."""
        if (q, s) not in rows.cache:
            rows.cache[q, s] = self.spaces[q].weights(rows.nearest[q], s)
        return rows.cache[q, s]

    def reduced(self, spaces: Iterable[int], q: int) -> FormMap:
        """Return a map with some of the spaces and the first q coordinates, and nothing of the training rows."""
        kept = {space: self.spaces[space].without_rows() for space in sorted(spaces)}
        return FormMap(self.name, self.form, self.axes.first(q), kept)


class FormViews(FormMap):
    """The views of one form, and what they share, learned from all rows without labels.

    Parameters
    ----------
    name : str
        The form, a name of `FORMS`.
    rows : Rows
        The training rows.
    views : list of View
        The views to compute.
    n_anchors : int
        Approximate number of anchors of a graph.
    max_bytes : float
        The rows in the form are kept in memory if they take no more.
    sample : ndarray
        Indices of rows, which `others` represents.
    seed : int
    weights : ndarray of shape (n,), optional
        Weights of the rows; all are 1 when None. Rows of weight 0 are in no sum, but get their place in the views.

    Attributes
    ----------
    rows : Rows
        The training rows in the form.
    n_bytes : float
        The memory that they take beside the rows themselves.
    mean_absolute : float
        The mean over pairs of rows of the sum of absolute differences; 0 if no view needs it.
    scales : dict of View to float
        The views that could be computed, with the mean squared norm of their features over all rows, before they are
        scaled to 1.
    reasons : dict of View to str
        Why the other views cannot be used.
    others : FormRows
        The rows of the sample.
    """

    def __init__(
        self,
        name: str,
        rows: Rows,
        views: list[View],
        *,
        n_anchors: int,
        max_bytes: float,
        sample: np.ndarray,
        seed: int,
        weights: np.ndarray | None = None,
    ) -> None:
        form = FORMS[name]().fit(rows, sample_weight=weights)
        self.rows, self.n_bytes = form.kept(rows, max_bytes)
        super().__init__(name, form, principal_axes(self.rows, weights=weights, random_state=seed), {})
        self.n_counted, self.total = rows.shape[0], float(rows.shape[0])
        if weights is not None:
            self.n_counted, self.total = int(np.count_nonzero(weights)), float(weights.sum())
        self.reasons: dict[View, str] = {}
        views = self._with_coordinates(views)
        graphs = [view for view in views if view.family == "graph"]
        sizes = {q: sorted({int(v.value) for v in graphs if v.space == q}) for q in {v.space for v in graphs}}
        self.spaces, why = anchor_spaces(self.rows, self.axes, sizes, n_anchors, seed, weights)
        self.reasons |= {view: why[view.graph] for view in graphs if view.graph in why}
        drawn: dict[tuple[str, int], np.ndarray] = {}
        drawn_weights, self.mean_absolute = None, 0.0
        if any(view.family in KERNELS for view in views):
            chosen = drawn_rows(rows.shape[0], _KERNEL_ROWS, weights, seed)
            T = self.rows.take(chosen).whole().host().astype(np.float64, copy=False)
            drawn, drawn_weights = self._distances_of(T, views), None if weights is None else weights[chosen]
        if ("laplace", 0) in drawn:
            self.mean_absolute = _mean_of_pairs(drawn["laplace", 0], drawn_weights)
        self.scales: dict[View, float] = {}
        for view in views:
            scale = 0.0 if view in self.reasons else self._scale(view, drawn, drawn_weights)
            if scale > 0:
                self.scales[view] = scale
            else:
                self.reasons.setdefault(view, "its features are the same for all rows")
        self.others = self.of_training(sample)

    def _with_coordinates(self, views: list[View]) -> list[View]:
        """Return the views that the principal coordinates allow; equal ones become one, with the sum of their priors.

        The prior of a view with more coordinates than the rank is added to that of the view of all columns.
        """
        found, complete, n = len(self.axes.deviations), self.axes.complete, self.n_counted
        if not found:
            self.reasons |= dict.fromkeys(views, "all rows are the same")
            return []
        can: dict[View, View] = {}
        for view in views:
            if view.space > found and not complete:
                self.reasons[view] = f"{found} principal coordinates were made"
                continue
            if view.space >= found and complete:
                name = _of_all_coordinates(view).name
                self.reasons[view] = f"the rank is {found}: it is the same as '{name}'"
                view = _of_all_coordinates(view)
            whitened = view.family == "principal" and view.value == 1 and not view.space
            if whitened and not (complete and found <= n / 2):
                more = "" if complete else " or more"
                self.reasons[view] = f"the rank, {found}{more}, is more than half the rows"
                continue
            can[view] = replace(view, prior=view.prior + can[view].prior) if view in can else view
        return list(can.values())

    def of_training(self, index: np.ndarray) -> FormRows:
        """Return some training rows, whose nearest anchors are known."""
        T = self.rows.take(index).whole().double().host()
        nearest = {q: parted(self.rows.pick(space.nearest, index)) for q, space in self.spaces.items()}
        return FormRows(T, self.axes(T), nearest, {})

    def graph_weights(self, view: View) -> np.ndarray:
        """Return w(lambda_j) of a graph view."""
        return FILTERS[view.filter](self.spaces[view.space].graphs[int(view.value)].eigenvalues)

    def width(self, view: View) -> float:
        """Return the factor of distances in a kernel view: its g divided by the mean distance of two rows."""
        if view.family == "laplace":
            return view.value / self.mean_absolute
        spread = float((self.axes.deviations[: view.space] ** 2).sum()) if view.space else self.axes.total
        return view.value / (2 * spread)

    def _distances_of(self, T: Any, views: list[View]) -> dict[tuple[str, int], np.ndarray]:
        """Return the distances between some rows, by the family and the space of the kernels."""
        every = {(view.family, view.space) for view in views if view.family in KERNELS}
        every |= {("laplace", 0) for family, _ in every if family == "laplace"}  # the unit of Laplace kernels
        points = {q: self.axes.first(q)(T) if q else T for _, q in every}
        return {(family, q): distances(family, points[q], points[q]) for family, q in sorted(every)}

    def _scale(
        self, view: View, drawn: dict[tuple[str, int], np.ndarray], weights: np.ndarray | None
    ) -> float:
        """Return the mean squared norm of a view's features over all rows; for a kernel, over the drawn ones."""
        if view.family == "linear":
            return self.axes.total
        if view.family == "principal":
            return float(((self.axes.deviations[: view.space or None] ** 2) ** (1 - view.value)).sum())
        if view.family == "graph":
            return float(self.graph_weights(view).sum() / self.total)
        K = np.exp(-self.width(view) * drawn[view.family, view.space])
        return 1 - _mean_of_pairs(K, weights)

    def is_of_columns(self, view: View, n_labelled: int) -> bool:
        """Return whether a view is computed from the columns themselves."""
        return view.family == "linear" and not _LINEAR_ROWS < n_labelled <= self.rows.shape[1]

    def coordinate_factors(self, view: View) -> np.ndarray:
        """Return the factors of the principal coordinates in a principal or linear view."""
        return self.axes.deviations[: view.space or None] ** -view.value / np.sqrt(self.scales[view])

    def projection(self, view: View) -> np.ndarray:
        """Return the matrix from columns (d, p) to features of a view, or from z(x) (m, p) for a graph view."""
        if view.family == "graph":
            graph = self.spaces[view.space].graphs[int(view.value)]
            return graph.map * np.sqrt(self.graph_weights(view) / self.scales[view])
        factors = self.coordinate_factors(view)
        return self.axes.basis[:, : len(factors)] * factors

    def features(self, view: View, rows: FormRows) -> np.ndarray:
        """Return the features (n, p) of rows in a view that is no kernel."""
        if view.family == "graph":
            return self.anchor_weights(view.space, int(view.value), rows) @ self.projection(view)
        factors = self.coordinate_factors(view)
        return rows.C[:, : len(factors)] * factors

    def regressors(
        self, view: View, labelled: FormRows, others: FormRows, weights: np.ndarray | None = None
    ) -> Regressors:
        """Return the labelled rows and others in a view, scaled to a mean squared norm of 1 over all rows.

        Kernels are centred over the labelled rows with their weights.
        """
        scale, (n, d) = self.scales[view], labelled.T.shape
        if self.is_of_columns(view, n) and n > d:
            own, cross = ((dense(rows.T) - self.axes.mean) / np.sqrt(scale) for rows in (labelled, others))
            return Regressors(own, cross, False)
        if self.is_of_columns(view, n):
            own, cross = (centred_products(rows.T, labelled.T, self.axes.mean) for rows in (labelled, others))
            return Regressors(own / scale, cross / scale, True)
        if view.family in KERNELS:
            chosen = landmarks(n)
            K, L = (self._kernel(view, rows, labelled, chosen) / scale for rows in (labelled, others))
            if len(chosen) == n:
                return Regressors(*_centred(K, L, weights), True)
            mean, root = np.average(K, axis=0, weights=weights), kernel_root(K[chosen])
            return Regressors((K - mean) @ root, (L - mean) @ root, False)
        phi, psi = self.features(view, labelled), self.features(view, others)
        if phi.shape[1] < n:
            return Regressors(phi, psi, False)
        return Regressors(phi @ phi.T, psi @ phi.T, True)

    def _kernel(self, view: View, rows: FormRows, labelled: FormRows, chosen: np.ndarray) -> np.ndarray:
        """Return the kernel of rows with the chosen labelled rows. Views of one space share the distances."""
        key = (view.family, view.space)
        D = rows.cache.get(key)
        if D is None:
            D = distances(view.family, rows.points(view.space), labelled.points(view.space)[chosen])
            if len(chosen) == labelled.T.shape[0]:  # with more labelled rows they take much memory
                rows.cache[key] = D
        return np.exp(-self.width(view) * D)


def landmarks(n: int) -> np.ndarray:
    """Return which of n labelled rows kernel views compare rows with: all, or Nystroem landmarks."""
    return np.arange(n) if n <= _KERNEL_ROWS else np.unique(np.linspace(0, n - 1, _KERNEL_ROWS).astype(int))


def distances(family: str, X: Any, Y: Any) -> np.ndarray:
    """Return the distances of a kernel between rows: squared Euclidean (RBF) or Manhattan (Laplace)."""
    return distances_from(family, Y)(X)


def distances_from(family: str, Y: Any) -> Callable[[Any], Any]:
    """Return the function of rows X that gives their distances from rows Y."""
    return AbsoluteDistances(Y) if family == "laplace" else SquaredDistances(Y)


def kernel_root(K: np.ndarray) -> np.ndarray:
    """Return R with R R' the pseudo-inverse of a kernel."""
    s, V = np.linalg.eigh((K + K.T) / 2)
    keep = s > ROUND_OFF * s[-1]
    return V[:, keep] / np.sqrt(s[keep])


def _centred(K: np.ndarray, L: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the kernel of labelled rows (l, l), and of other rows with them (u, l), centred over labelled rows."""
    v = np.full(len(K), 1 / len(K)) if weights is None else weights / weights.sum()
    mean = v @ K
    K = K - mean - mean[:, None] + v @ mean
    return (K + K.T) / 2, L - mean - (L @ v)[:, None] + v @ mean


def _mean_of_pairs(K: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the mean over all pairs of rows, each row with its weight."""
    return float(K.mean() if weights is None else weights @ K @ weights / weights.sum() ** 2)
