"""The views folded into one score. Its cost is a few products for each row, for any number of views."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from labelfold.features import distances
from labelfold.rows import Featurized, Rows, dense
from labelfold.semi_supervised._trees import TreeNodes
from labelfold.semi_supervised._views import (
    KERNELS,
    TREES,
    FormPieces,
    Placed,
    View,
    graph_weights,
    width,
)

# With more labelled rows than this, a kernel view is approximated by the Nystroem method with this many of them.
LANDMARKS = 1000

# With more labelled rows and more columns than this, a linear view uses principal coordinates.
KERNEL_ROWS = 1500


class KernelPart:
    """The RBF or Laplace views of one space: kernels with some labelled rows, times coefficients."""

    def __init__(self, family: str, space: int, points: Any) -> None:
        self.family, self.space, self.points = family, space, points
        self.widths: list[float] = []
        self.coefs: list[np.ndarray] = []


class AnchorPart:
    """The views of one graph: z(x) times coefficients (m, c)."""

    def __init__(self, space: int, s: int, coef: np.ndarray) -> None:
        self.space, self.s, self.coef = space, s, coef


class FoldedForm:
    """All views of one form, folded: coefficients of the columns (d, c), of kernels and of anchors."""

    def __init__(self, d: int, c: int) -> None:
        self.coef = np.zeros((d, c))
        self.kernels: list[KernelPart] = []
        self.joins: list[AnchorPart] = []

    def needs(self) -> tuple[set[int], int]:
        """Return the spaces whose anchors are needed, and the number of principal coordinates needed."""
        spaces = {join.space for join in self.joins}
        return spaces, max([0, *spaces, *(kernel.space for kernel in self.kernels)])

    def columns(self, placed: Placed) -> np.ndarray:
        """Return the part of the score from columns and kernels, (n, c)."""
        F = placed.T @ self.coef
        for kernel in self.kernels:
            points = placed.C[:, : kernel.space] if kernel.space else placed.T
            D = distances(kernel.family, points, kernel.points)
            for g, coef in zip(kernel.widths, kernel.coefs, strict=True):
                F = F + np.exp(-g * D) @ coef
        return F

    def anchors(self, pieces: FormPieces, placed: Placed) -> Any:
        """Return the part of the score from graphs, (n, c), or 0."""
        F: Any = 0.0
        for join in self.joins:
            F = F + pieces.join(join.space, join.s, placed) @ join.coef
        return F


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


def regressors(view: View, pieces: FormPieces, placed: Placed, others: Placed) -> Regressors:
    """Return the labelled rows and others in a view, scaled to a mean squared norm of 1 over all rows."""
    scale, (n, d) = pieces.scales[view.name], placed.T.shape
    if view.family == "linear":
        if min(n, d) <= KERNEL_ROWS and n <= d:
            own, cross = (_linear_kernel(rows.T, placed.T, pieces.mean) for rows in (placed, others))
            return Regressors(own / scale, cross / scale, True)
        own, cross = ((dense(rows.T) - pieces.mean if n > d else rows.C) for rows in (placed, others))
        return Regressors(own / np.sqrt(scale), cross / np.sqrt(scale), False)
    if view.family in KERNELS:
        chosen, g = landmarks(n), width(view, pieces)
        K, L = (np.exp(-g * _away(view, rows, placed)) / scale for rows in (placed, others))
        if len(chosen) == n:
            return Regressors(*_centred(K, L), True)
        root = kernel_root(K[chosen])
        mean = K.mean(axis=0)
        return Regressors((K - mean) @ root, (L - mean) @ root, False)
    phi, psi = _spread(view, pieces, placed), _spread(view, pieces, others)
    if phi.shape[1] < n:
        return Regressors(phi, psi, False)
    return Regressors(phi @ phi.T, psi @ phi.T, True)


def fold_in(view: View, pieces: FormPieces, placed: Placed, alpha: np.ndarray, folded: FoldedForm) -> None:
    """Add a view's score, k(x, labelled rows) alpha, to the coefficients of its form."""
    scale, (n, d) = pieces.scales[view.name], placed.T.shape
    if view.family == "linear":
        if n > KERNEL_ROWS and n <= d:
            folded.coef += pieces.coordinates.basis @ (placed.C.T @ alpha) / scale
        else:
            folded.coef += (placed.T.T @ alpha - np.outer(pieces.mean, alpha.sum(axis=0))) / scale
    elif view.family == "principal":
        folded.coef += _map(view, pieces) @ (_spread(view, pieces, placed).T @ alpha)
    elif view.family in KERNELS:
        _fold_kernel(view, pieces, placed, alpha / scale, folded)
    else:
        coef = _map(view, pieces) @ (_spread(view, pieces, placed).T @ alpha)
        join = next((j for j in folded.joins if (j.space, j.s) == (view.space, int(view.value))), None)
        if join is None:
            folded.joins.append(AnchorPart(view.space, int(view.value), coef))
        else:
            join.coef += coef


def coordinates_for(views: list[View], pieces: FormPieces, n_labelled: int) -> int:
    """Return the number of principal coordinates that some views need."""
    every = any(view.family == "principal" and not view.space for view in views)
    # A linear view of many rows is computed from principal coordinates.
    if every or n_labelled > KERNEL_ROWS:
        return len(pieces.deviations)
    return max((view.space for view in views), default=0)


def landmarks(n: int) -> np.ndarray:
    """Return the labelled rows that serve as Nystroem landmarks in kernel views."""
    return np.arange(n) if n <= LANDMARKS else np.unique(np.linspace(0, n - 1, LANDMARKS).astype(int))


def _fold_kernel(
    view: View, pieces: FormPieces, placed: Placed, alpha: np.ndarray, folded: FoldedForm
) -> None:
    points, chosen = _points(view, placed), landmarks(len(alpha))
    g, key = width(view, pieces), (view.family, view.space)
    part = next((kernel for kernel in folded.kernels if (kernel.family, kernel.space) == key), None)
    if part is None:
        part = KernelPart(*key, points[chosen])
        folded.kernels.append(part)
    alpha = alpha - alpha.mean(axis=0)
    if len(chosen) < len(alpha):
        K = np.exp(-g * distances(view.family, points, points[chosen]))
        root = kernel_root(K[chosen])
        alpha = root @ ((K @ root).T @ alpha)
    part.widths.append(g)
    part.coefs.append(alpha)


def _map(view: View, pieces: FormPieces) -> np.ndarray:
    """Return the matrix from columns (d, p) to features of a principal view, or from z(x) (m, p) for a graph view."""
    scale = pieces.scales[view.name]
    if view.family == "principal":
        size = _size(view, pieces)
        return pieces.coordinates.basis[:, : len(size)] * size
    return pieces.graphs[view.space, int(view.value)].map * np.sqrt(graph_weights(view, pieces) / scale)


def _spread(view: View, pieces: FormPieces, placed: Placed) -> np.ndarray:
    """Return the features (l, p) of rows in a principal or graph view."""
    if view.family == "principal":
        size = _size(view, pieces)
        return placed.C[:, : len(size)] * size
    return pieces.join(view.space, view.value, placed) @ _map(view, pieces)


def _size(view: View, pieces: FormPieces) -> np.ndarray:
    """Return the factors of the coordinates of a principal view."""
    used = pieces.deviations[: view.space or None]
    return used**-view.value / np.sqrt(pieces.scales[view.name])


def _points(view: View, placed: Placed) -> Any:
    return placed.C[:, : view.space] if view.space else placed.T


def _away(view: View, rows: Placed, placed: Placed) -> np.ndarray:
    """Return the distances of rows from the labelled rows (or landmarks) of a kernel view. Views share them."""
    key, n = (view.family, view.space), placed.T.shape[0]
    if key in rows.made:
        return rows.made[key]
    found = distances(view.family, _points(view, rows), _points(view, placed)[landmarks(n)])
    if n <= LANDMARKS:  # cached only if they take little memory
        rows.made[key] = found
    return found


def _linear_kernel(T: Any, S: Any, mean: np.ndarray) -> np.ndarray:
    """Return the inner products of two sets of rows after the mean is subtracted; sparse rows stay sparse."""
    if not sparse.issparse(T):
        return (T - mean) @ (S - mean).T
    return (T @ S.T).toarray() - (T @ mean)[:, None] - S @ mean + mean @ mean


def _centred(K: np.ndarray, L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the kernel of labelled rows (l, l), and of other rows with them (u, l), centred over labelled rows."""
    mean = K.mean(axis=0)
    K = K - mean - mean[:, None] + mean.mean()
    return (K + K.T) / 2, L - mean - L.mean(axis=1, keepdims=True) + mean.mean()


def kernel_root(K: np.ndarray) -> np.ndarray:
    """Return R with R R' the pseudo-inverse of a kernel."""
    s, V = np.linalg.eigh((K + K.T) / 2)
    keep = s > 1e-10 * s[-1]
    return V[:, keep] / np.sqrt(s[keep])


class BlendedScores:
    """The blended score, a function of one row. For `Featurized`."""

    def __init__(self, pieces: list[FormPieces], folded: list[FoldedForm], bias: np.ndarray) -> None:
        self.pieces, self.folded, self.bias = pieces, folded, bias
        self.trees: TreeNodes | None = None
        self.share = 0.0  # share of the trees

    def with_trees(self, trees: TreeNodes, share: float) -> BlendedScores:
        """Return the blend of these scores with those of trees."""
        blended = copy(self)
        blended.trees, blended.share = trees, share
        return blended

    def __call__(self, X: Any) -> np.ndarray:
        """Return F(x), (n, c)."""
        F = np.tile(self.bias, (X.shape[0], 1))
        for pieces, folded in zip(self.pieces, self.folded, strict=True):
            placed = pieces.place(pieces.form._form(X), *folded.needs())
            F = F + folded.columns(placed) + folded.anchors(pieces, placed)
        return F if self.trees is None else self.blend(F, self.trees(X))

    def blend(self, views: Any, trees: Any) -> Any:
        """Return F, given the scores of the views and those of the trees."""
        return (1 - self.share) * views + self.share * trees

    def by_kind(self, X: Any) -> dict[tuple[str, str], np.ndarray]:
        """Return the parts of F(x) by kind of view and form; principal views are part of the linear ones."""
        parts = self._views_by_kind(X)
        if self.trees is None:
            return parts
        parts = {kind: (1 - self.share) * part for kind, part in parts.items()}
        return {**parts, (TREES.family, TREES.form): self.share * self.trees(X)}

    def _views_by_kind(self, X: Any) -> dict[tuple[str, str], np.ndarray]:
        parts = {}
        for pieces, folded in zip(self.pieces, self.folded, strict=True):
            placed = pieces.place(pieces.form._form(X), *folded.needs())
            if folded.coef.any():
                parts["linear", pieces.name] = placed.T @ folded.coef
            for family in dict.fromkeys(kernel.family for kernel in folded.kernels):
                own = FoldedForm(*folded.coef.shape)
                own.kernels = [kernel for kernel in folded.kernels if kernel.family == family]
                parts[family, pieces.name] = own.columns(placed)
            if folded.joins:
                parts["graph", pieces.name] = folded.anchors(pieces, placed)
        return parts


def _columns(pieces: FormPieces, folded: FoldedForm, T: Any) -> np.ndarray:
    """Return the part of the score from the columns of rows in their form."""
    q = max((kernel.space for kernel in folded.kernels), default=0)
    return folded.columns(pieces.place(T, (), q))


def training_scores(
    scores: BlendedScores, pieces: list[FormPieces], rows: Rows, held: dict[str, Rows]
) -> np.ndarray:
    """Return F of the training rows; ``held`` has them in each form, and their nearest anchors are known."""
    F, by_name = scores.bias, {piece.name: piece for piece in pieces}
    for piece, folded in zip(scores.pieces, scores.folded, strict=True):
        known = by_name[piece.name]
        F = F + folded.anchors(
            known, Placed(None, None, {space.q: space.joins for space in known.spaces}, {})
        )
        if folded.kernels or folded.coef.any():
            formed = held[piece.name]
            F = F + formed.get(Featurized(formed, partial(_columns, piece, folded)).values())
    if scores.trees is not None:
        F = scores.blend(F, rows.get(Featurized(rows, scores.trees).values()))
    return F
