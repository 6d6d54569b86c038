"""The blend of all views: the score of a row, and its embedding.

Scoring takes a few products for each row, for any number of views: the views of a form that are linear in its columns
are one matrix, those of one graph another. The embedding consists of discriminant directions of the score, and then
of principal components of the blended features.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np

from labelfold.features import parted, scatter_rows
from labelfold.labels import Labels
from labelfold.numerics import signed
from labelfold.rows import Block, Featurized, Rows, any_array, beside, library_of, product
from labelfold.semi_supervised._trees import TreeNodes
from labelfold.semi_supervised._views import (
    KERNELS,
    ROUND_OFF,
    TREES,
    FormMap,
    FormRows,
    FormViews,
    View,
    distances,
    distances_from,
    kernel_root,
    landmarks,
)
from labelfold.utils import warn_user

# Features whose variance is below this share of the total are left out of the embedding.
_NEGLIGIBLE = 1e-6


class KernelScore:
    """The score of the RBF or Laplace views of one space: kernels with labelled rows, times coefficients."""

    def __init__(self, family: str, space: int, points: Any) -> None:
        self.family, self.space, self.points = family, space, points
        self.widths: list[float] = []
        self.coefs: list[np.ndarray] = []

    @cached_property
    def _distances(self) -> Callable[[Any], np.ndarray]:
        return distances_from(self.family, self.points)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to save: the labelled rows, from which the rest is computed again."""
        return {name: value for name, value in self.__dict__.items() if name != "_distances"}

    def __call__(self, rows: FormRows) -> np.ndarray:
        """Return the score of some rows, (n, c)."""
        D = self._distances(rows.points(self.space))
        exp = library_of(D).exp
        return sum(exp(-g * D) @ beside(D, coef) for g, coef in zip(self.widths, self.coefs, strict=True))


class FormScore:
    """The score of all views of one form.

    Attributes
    ----------
    map : FormMap
        What the views need of a row.
    coef : ndarray of shape (d, c)
        Coefficients of the columns.
    kernels : list of KernelScore
    anchors : dict of int to dict of int to ndarray of shape (m, c)
        Coefficients of the weights of the s nearest anchors in the space of q coordinates, by q and s.
    """

    def __init__(self, map: FormMap, d: int, n_scores: int) -> None:
        self.map, self.coef = map, np.zeros((d, n_scores))
        self.kernels: list[KernelScore] = []
        self.anchors: dict[int, dict[int, np.ndarray]] = {}

    def add(
        self,
        views: FormViews,
        view: View,
        labelled: FormRows,
        alpha: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        """Add the score of a view, k(x, labelled rows) alpha; ``weights`` are those of the labelled rows."""
        if view.family in KERNELS:
            self._add_kernel(views, view, labelled, alpha / views.scales[view], weights)
        elif views.is_of_columns(view, len(alpha)):
            moved = labelled.T.T @ alpha - np.outer(views.axes.mean, alpha.sum(axis=0))
            self.coef += moved / views.scales[view]
        else:
            coef = views.projection(view) @ (views.features(view, labelled).T @ alpha)
            if view.family == "graph":
                q, s = view.graph
                by_size = self.anchors.setdefault(q, {})
                by_size[s] = by_size.get(s, 0.0) + coef
            else:
                self.coef += coef

    def _add_kernel(
        self,
        views: FormViews,
        view: View,
        labelled: FormRows,
        alpha: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        points, chosen = labelled.points(view.space), landmarks(len(alpha))
        g, key = views.width(view), (view.family, view.space)
        score = next((kernel for kernel in self.kernels if (kernel.family, kernel.space) == key), None)
        if score is None:
            score = KernelScore(*key, points[chosen])
            self.kernels.append(score)
        # kernels are centred over the labelled rows
        share = 1 / len(alpha) if weights is None else (weights / weights.sum())[:, None]
        alpha = alpha - share * alpha.sum(axis=0)
        if len(chosen) < len(alpha):
            K = np.exp(-g * distances(view.family, points, points[chosen]))
            root = kernel_root(K[chosen])
            alpha = root @ ((K @ root).T @ alpha)
        score.widths.append(g)
        score.coefs.append(alpha)

    def reduce(self) -> None:
        """Keep only what the score of a new row needs."""
        spaces = [0, *self.anchors, *(kernel.space for kernel in self.kernels)]
        self.map = self.map.reduced(self.anchors, max(spaces))

    def __call__(self, rows: FormRows) -> np.ndarray:
        """Return the score of some rows, (n, c)."""
        return self.of_columns(rows) + self.of_graphs(rows)

    def of_columns(self, rows: FormRows) -> np.ndarray:
        """Return the part of the score from columns and kernels."""
        return sum((kernel(rows) for kernel in self.kernels), start=product(rows.T, self.coef))

    def of_graphs(self, rows: FormRows) -> Any:
        """Return the part of the score from graphs, (n, c), or 0."""
        return sum(
            self.map.anchor_weights(q, s, rows) @ coef
            for q, by_size in self.anchors.items()
            for s, coef in by_size.items()
        )

    def of_found(self, *nearest: Any) -> Any:
        """Return `of_graphs` of rows, given what was found in each space of `anchors`."""
        found = {q: parted(some) for q, some in zip(self.anchors, nearest, strict=True)}
        return self.of_graphs(FormRows(None, None, found, {}))


class BlendedScores:
    """The blended score F, a function of one row. For `Featurized`."""

    takes_any_array = True

    def __init__(self, forms: list[FormScore], bias: np.ndarray) -> None:
        self.forms, self.bias = forms, bias
        self.trees: TreeNodes | None = None
        self.share = 0.0  # share of the trees
        self.shift = 0.0  # added to all scores

    def with_trees(self, trees: TreeNodes, share: float) -> BlendedScores:
        """Return the blend of these scores with those of trees."""
        blended = copy(self)
        blended.trees, blended.share = trees, share
        return blended

    def shifted(self, shift: float) -> BlendedScores:
        """Return these scores plus a number."""
        moved = copy(self)
        moved.shift = shift
        return moved

    def __call__(self, X: Any) -> np.ndarray:
        """Return F(x), (n, c)."""
        constant = product(X[:, :0], np.zeros((0, len(self.bias)))) + beside(X, self.bias)
        F = sum((score(score.map(X)) for score in self.forms), start=constant)
        return (F if self.trees is None else (1 - self.share) * F + self.share * self.trees(X)) + self.shift

    def of_training(self, views: list[FormViews], rows: Rows) -> Any:
        """Return F of the training rows, whose nearest anchors are known, stored with the rows."""
        by_name = {form.name: form for form in views}
        F = rows.map_aligned(partial(_repeated, self.bias))
        for score in self.forms:
            form = by_name[score.map.name]
            if score.anchors:
                nearest = [form.spaces[q].nearest for q in score.anchors]
                F = rows.map_aligned(partial(_with_graphs, score), F, *nearest)
            if score.kernels or score.coef.any():
                F = form.rows.map(_with_columns, F, shared=(score,))
        if self.trees is not None:
            F = rows.map(_with_trees, F, shared=(self.trees, self.share))
        return rows.map_aligned(partial(_plus, self.shift), F) if self.shift else F

    def by_kind(self, X: Any) -> dict[tuple[str, str], np.ndarray]:
        """Return the parts of F(x) by kind of view and form; principal views are part of the linear ones."""
        parts: dict[tuple[str, str], Any] = {}
        for score in self.forms:
            rows, form = score.map(X), score.map.name
            if score.coef.any():
                parts["linear", form] = rows.T @ score.coef
            for kernel in score.kernels:
                parts[kernel.family, form] = parts.get((kernel.family, form), 0.0) + kernel(rows)
            if score.anchors:
                parts["graph", form] = score.of_graphs(rows)
        if self.trees is None:
            return parts
        parts = {kind: (1 - self.share) * part for kind, part in parts.items()}
        return {**parts, (TREES.family, TREES.form): self.share * self.trees(X)}


def _repeated(bias: np.ndarray, start: int, stop: int) -> np.ndarray:
    return np.tile(bias, (stop - start, 1))


@any_array
def _with_graphs(score: FormScore, start: int, stop: int, F: Any, *nearest: Any) -> Any:
    return F + score.of_found(*nearest)


def _with_columns(X: Block, F: Any, score: FormScore) -> Any:
    return F + score.of_columns(score.map.without_anchors(X.raw))


def _with_trees(X: Block, F: Any, trees: TreeNodes, share: float) -> Any:
    return (1 - share) * F + share * trees(X.raw)


@any_array
def _plus(shift: float, start: int, stop: int, F: Any) -> Any:
    return F + shift


class FoldEmbedding:
    """The embedding, a function of one row: (F(x) - mean) turn, then further components if any. For `Featurized`."""

    takes_any_array = True

    def __init__(self, scores: BlendedScores, mean: np.ndarray, turn: np.ndarray) -> None:
        self.scores, self.mean, self.turn = scores, mean, turn
        self.blends: list[BlendedFeatures] = []
        self.further: np.ndarray | None = None
        self.shift: np.ndarray | None = None

    def __call__(self, X: Any) -> np.ndarray:
        """Return the embedding of some rows, (n, k)."""
        if self.further is None or self.shift is None:
            return self._discriminants(X)
        G = self.features(X)
        further = product(G, self.further) - beside(G, self.shift)
        return library_of(G).concat([G[:, : self.turn.shape[1]], further], axis=1)

    def features(self, X: Any) -> np.ndarray:
        """Return the discriminant coordinates and the blended features of some rows. For `Featurized`."""
        Z = self._discriminants(X)
        return library_of(Z).concat([Z, *(blend(X) for blend in self.blends)], axis=1)

    def _discriminants(self, X: Any) -> Any:
        F = self.scores(X)
        return (F - beside(F, self.mean)) @ beside(F, self.turn)


class BlendedFeatures:
    """The blended features of one form: root-w_v phi_v of all its views, one column for each coordinate.

    Views of the same coordinates differ only in weights, which are added up.
    """

    def __init__(self, views: FormViews, weights: dict[View, float], score: FormScore) -> None:
        squares = np.zeros(len(views.axes.deviations))  # weights of the principal coordinates
        graphs: dict[tuple[int, int], Any] = {}
        kernels: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for view, weight in weights.items():
            if view.family == "graph":
                part = weight / views.scales[view] * views.graph_weights(view)
                graphs[view.graph] = graphs.get(view.graph, 0.0) + part
            elif view.family in KERNELS:
                term = (views.width(view), weight / views.scales[view])
                kernels.setdefault((view.family, view.space), []).append(term)
            else:
                factors = views.coordinate_factors(view)
                squares[: len(factors)] += weight * factors**2
        self.size = np.sqrt(squares * (squares * views.axes.deviations**2 > _NEGLIGIBLE))
        self.used = np.flatnonzero(self.size)
        self.graphs = [(q, s, _heavy(w, views.spaces[q].graphs[s].map)) for (q, s), w in graphs.items()]
        points = {(kernel.family, kernel.space): kernel.points for kernel in score.kernels}
        self.kernels = [
            (*key, points[key], terms, kernel_root(_kernel(key[0], points[key], points[key], terms)))
            for key, terms in kernels.items()
        ]
        spaces = {q for q, *_ in self.graphs}
        n_coordinates = max([0, *spaces, *(space for _, space in kernels), *(self.used[-1:] + 1)])
        self.map = views.reduced(spaces, int(n_coordinates))

    def __call__(self, X: Any) -> np.ndarray:
        """Return the blended features of some rows."""
        rows = self.map(X)
        xp = library_of(rows.C)
        coordinates = xp.take(rows.C, beside(rows.C, self.used), axis=1)
        parts = [coordinates * beside(rows.C, self.size[self.used])]
        parts += [self.map.anchor_weights(q, s, rows) @ turn for q, s, turn in self.graphs]
        for family, space, points, terms, root in self.kernels:
            K = _kernel(family, rows.points(space), points, terms)
            parts.append(K @ beside(K, root))
        return xp.concat(parts, axis=1)


def embed(
    scores: BlendedScores,
    weights: dict[View, float],
    F: Any,
    labels: Labels,
    n_components: int | None,
    rows: Rows,
    forms: list[FormViews],
    row_weights: np.ndarray | None = None,
) -> tuple[FoldEmbedding, Any]:
    """Return the map of rows to the embedding, and the embedding of the training rows.

    Parameters
    ----------
    scores : BlendedScores
    weights : dict of View to float
        The weight of each view.
    F : array of shape (n, c)
        The scores of the training rows, stored with them.
    labels : Labels
    n_components : int or None
    rows : Rows
        The training rows.
    forms : list of FormViews
    row_weights : ndarray of shape (n,), optional
        Weights of the training rows; all are 1 when None.
    """
    mean, turn = second_stage(rows.pick(F, labels.index), labels)
    k = turn.shape[1] if n_components is None else n_components
    embedding = FoldEmbedding(scores, mean, turn[:, :k])
    if k > turn.shape[1]:
        _add_components(embedding, weights, k, labels.total, rows, forms, row_weights)
    if embedding.further is None:
        return embedding, rows.result(F, partial(_turned, mean, embedding.turn))
    return embedding, rows.result(Featurized(rows, embedding).values(), _double)


def _turned(mean: np.ndarray, turn: np.ndarray, F: np.ndarray) -> np.ndarray:
    return (F - mean) @ turn


def _double(Z: np.ndarray) -> np.ndarray:
    return Z.astype(np.float64)


def second_stage(F: np.ndarray, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the mean (c,) and rotation (c, k) that turn scores F (l, c) into discriminant coordinates.

    The scores are those of a symmetric smoother S, F_c = S Y_c, at the labelled rows. With the targets T of LDA (Y
    divided by the square roots of the class sizes), the second stage of the two-stage method is
    :math:`T'ST = E \,\mathrm{diag}(s) E'`, and the directions are :math:`Z = S T E \,\mathrm{diag}(s)^{-1/2}`.
    """
    Y = labels.signs() if labels.task == "binary" else labels.columns()
    w = labels.weights
    mean, y_mean = (np.average(A, axis=0, weights=w) for A in (F, Y))
    size = np.ones(1)
    if labels.task == "regression":
        size = np.where(np.ptp(Y, axis=0) > 0, np.sqrt(np.average((Y - y_mean) ** 2, axis=0, weights=w)), 1.0)
    elif labels.task != "binary":
        totals = labels.class_totals()
        size = np.sqrt(np.where(totals > 0, totals, 1.0))
    centred = (Y - y_mean) / size
    D = (centred if w is None else centred * w[:, None]).T @ ((F - mean) / size)
    s, E = np.linalg.eigh((D + D.T) / 2)
    s, E = s[::-1], E[:, ::-1]
    keep = s > ROUND_OFF * max(s[0], 0.0)
    if labels.task == "multiclass":
        keep[-1] = False  # the scores of a row sum to 1
    if not keep.any():
        return mean, np.zeros((Y.shape[1], 1))
    return mean, signed(E[:, keep] / size[:, None] / np.sqrt(s[keep]))


def _add_components(
    embedding: FoldEmbedding,
    weights: dict[View, float],
    k: int,
    n_labelled: float,
    rows: Rows,
    forms: list[FormViews],
    row_weights: np.ndarray | None,
) -> None:
    """Add principal components of the blended features, uncorrelated with the discriminant coordinates."""
    by_name = {form.name: form for form in forms}
    for score in embedding.scores.forms:
        name = score.map.name
        own = {view: weight for view, weight in weights.items() if view.form == name and weight > 0}
        embedding.blends.append(BlendedFeatures(by_name[name], own, score))
    q = embedding.turn.shape[1]
    both = Featurized(rows, embedding.features)
    center = both.mean(row_weights)
    scatter, total = scatter_rows(both, center, row_weights)
    S = scatter.gram() / total
    back = np.linalg.pinv(S[:q, :q]) @ S[:q, q:]  # regression of G on Z
    left = S[q:, q:] - S[q:, :q] @ back
    s, V = np.linalg.eigh((left + left.T) / 2)
    keep = np.flatnonzero(s > ROUND_OFF * max(S.diagonal()[q:].max(initial=0.0), 0.0))[::-1][: k - q]
    if len(keep) < k - q:
        warn_user(
            f"n_components={k} is more than the {q + len(keep)} that the blended views have; "
            f"{q + len(keep)} are kept"
        )
    if len(keep):
        V = signed(V[:, keep]) / np.sqrt(n_labelled)  # on the scale of the discriminant coordinates
        embedding.further = np.vstack([-back @ V, V])
        embedding.shift = center @ embedding.further


def _heavy(weights: np.ndarray, map: np.ndarray) -> np.ndarray:
    """Return the map (m, j) to the graph functions that are not negligible, times the roots of their weights."""
    used = weights > _NEGLIGIBLE * weights.max(initial=0.0)
    return map[:, used] * np.sqrt(weights[used])


def _kernel(family: str, X: Any, points: Any, terms: list[tuple[float, float]]) -> np.ndarray:
    """Return the weighted sum of the kernels of one space."""
    D = distances(family, X, points)
    exp = library_of(D).exp
    return sum(weight * exp(-g * D) for g, weight in terms)
