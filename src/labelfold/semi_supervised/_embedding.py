"""The embedding: discriminant directions of the blended score, then principal components of the blended features."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from labelfold.features import distances
from labelfold.labels import Labels
from labelfold.numerics import signed
from labelfold.rows import Centered, Featurized, Rows
from labelfold.semi_supervised._fold import BlendedScores, kernel_root
from labelfold.semi_supervised._pieces import (
    FormPieces,
    graph_weights,
    width,
)
from labelfold.semi_supervised._solver import Solution
from labelfold.utils import warn_user

# Directions whose eigenvalue is below this share of the largest are round-off.
_ROUND_OFF = 1e-10

# Features whose variance is below this share of the total are left out of the blend.
_NEGLIGIBLE = 1e-6


class FoldEmbedding:
    """Maps rows to the embedding: (F(x) - mean) turn, then further coordinates if any. For `Featurized`."""

    def __init__(self, scores: BlendedScores, mean: np.ndarray, turn: np.ndarray) -> None:
        self.scores, self.mean, self.turn = scores, mean, turn
        self.blends: list[BlendedFeatures] = []
        self.more: np.ndarray | None = None
        self.shift: np.ndarray | None = None

    def __call__(self, X: Any) -> np.ndarray:
        """Return the embedding of some rows, (n, k)."""
        Z = (self.scores(X) - self.mean) @ self.turn
        if self.more is None:
            return Z
        return np.hstack([Z, self.features(X, Z) @ self.more - self.shift])

    def features(self, X: Any, Z: np.ndarray) -> np.ndarray:
        """Return [Z, G]: the discriminant coordinates and the blended features of some rows."""
        return np.hstack([Z, *(blend(X) for blend in self.blends)])


class BlendedFeatures:
    """The blended features of one form: root-w_v phi_v of all its views, one column for each coordinate.

    Views of the same coordinates differ only in weights, which are added up.
    """

    def __init__(
        self, pieces: FormPieces, shares: dict[Any, float], points: dict[tuple[str, int], Any]
    ) -> None:
        q = len(pieces.deviations)
        squares = np.zeros(q)  # weights of the principal coordinates
        graphs: dict[tuple[int, int], np.ndarray] = {}
        kernels: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for view, share in shares.items():
            share = share / pieces.scales[view.name]
            if view.family == "linear":
                squares += share
            elif view.family == "principal":
                here = slice(view.space or q)
                squares[here] += share * pieces.deviations[here] ** (-2 * view.value)
            elif view.family == "graph":
                key = (view.space, int(view.value))
                graphs[key] = graphs.get(key, 0.0) + share * graph_weights(view, pieces)
            else:
                kernels.setdefault((view.family, view.space), []).append((width(view, pieces), share))
        self.size = np.sqrt(squares * (squares * pieces.deviations**2 > _NEGLIGIBLE))
        self.used = np.flatnonzero(self.size)
        self.graphs = [(*key, _heavy(w, pieces.graphs[key].map)) for key, w in graphs.items()]
        self.kernels = [
            (*key, points[key], terms, kernel_root(_kernel(key[0], points[key], points[key], terms)))
            for key, terms in kernels.items()
        ]

        spaces = {space for space, *_ in self.graphs}
        most = max([0, *spaces, *(space for _, space in kernels), *(self.used[-1:] + 1)])
        self.pieces = pieces.only(spaces, int(most))

    def __call__(self, X: Any) -> np.ndarray:
        """Return the blended features of some rows."""
        placed = self.pieces.place(self.pieces.form._form(X))
        parts = [placed.C[:, self.used] * self.size[self.used]]
        for space, s, turn in self.graphs:
            parts.append(self.pieces.join(space, s, placed) @ turn)
        for family, space, points, terms, root in self.kernels:
            parts.append(_kernel(family, placed.C[:, :space] if space else placed.T, points, terms) @ root)
        return np.hstack(parts)


def embedding_of(
    found: Solution,
    F: np.ndarray,
    index: np.ndarray,
    labels: Labels,
    n_components: int | None,
    rows: Rows,
    pieces: list[FormPieces],
) -> tuple[FoldEmbedding, np.ndarray]:
    """Return the map of rows to the embedding, and the embedding of the training rows.

    Parameters
    ----------
    F : ndarray of shape (n, c)
        The scores of the training rows.
    index : ndarray of shape (l,)
        Indices of the labelled rows.
    labels : Labels
    rows : Rows
        The training rows.
    pieces : list of FormPieces
        The parts that views are built from, by form.
    """
    mean, turn = second_stage(F[index], labels)
    k = turn.shape[1] if n_components is None else n_components
    embedding = FoldEmbedding(found.scores, mean, turn[:, :k])
    Z = (F - mean) @ embedding.turn
    if k <= turn.shape[1]:
        return embedding, Z
    _go_on(embedding, found, k, rows, pieces)
    if embedding.more is None:
        return embedding, Z
    return embedding, np.asarray(rows.get(Featurized(rows, embedding).values()), dtype=np.float64)


def second_stage(F: np.ndarray, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the mean (c,) and rotation (c, k) that turn scores F (l, c) into discriminant coordinates.

    The scores are those of a symmetric smoother S, F_c = S Y_c, at the labelled rows. With the targets T of LDA (Y
    divided by the square roots of the class sizes), the second stage of the two-stage method is
    :math:`T'ST = E \,\mathrm{diag}(s) E'`, and the directions are :math:`Z = S T E \,\mathrm{diag}(s)^{-1/2}`.
    """
    Y = labels.signs() if labels.task == "binary" else labels.columns()
    size = np.ones(1) if labels.task == "binary" else np.sqrt(np.maximum(Y.sum(axis=0), 1))
    if labels.task == "regression":
        size = np.where(np.ptp(Y, axis=0) > 0, Y.std(axis=0), 1.0)
    mean = F.mean(axis=0)
    D = ((Y - Y.mean(axis=0)) / size).T @ ((F - mean) / size)
    s, E = np.linalg.eigh((D + D.T) / 2)
    s, E = s[::-1], E[:, ::-1]
    keep = s > _ROUND_OFF * max(s[0], 0.0)
    if labels.task == "multiclass":
        keep[-1] = False  # the scores of a row sum to 1
    if not keep.any():
        return mean, np.zeros((Y.shape[1], 1))
    return mean, signed(E[:, keep] / size[:, None] / np.sqrt(s[keep]))


def _go_on(embedding: FoldEmbedding, found: Solution, k: int, rows: Rows, pieces: list[FormPieces]) -> None:
    """Add principal components of the blended features, uncorrelated with the discriminant coordinates."""
    total, by_name = found.weights.sum(axis=1), {piece.name: piece for piece in pieces}
    for piece, folded in zip(found.scores.pieces, found.scores.folded, strict=True):
        shares = {
            view: w for view, w in zip(found.views, total, strict=True) if view.form == piece.name and w > 0
        }
        points = {(kernel.family, kernel.space): kernel.points for kernel in folded.kernels}
        embedding.blends.append(BlendedFeatures(by_name[piece.name], shares, points))
    own = embedding.turn.shape[1]
    both = Centered(Featurized(rows, partial(_with_features, embedding)))
    S = both.gram() / rows.shape[0]
    back = np.linalg.pinv(S[:own, :own]) @ S[:own, own:]  # regression of G on Z
    left = S[own:, own:] - S[own:, :own] @ back
    s, V = np.linalg.eigh((left + left.T) / 2)
    keep = np.flatnonzero(s > _ROUND_OFF * max(S.diagonal()[own:].max(initial=0.0), 0.0))[::-1][: k - own]
    if len(keep) < k - own:
        warn_user(
            f"n_components={k} is more than the {own + len(keep)} that the blended views have; "
            f"{own + len(keep)} are kept"
        )
    if len(keep):
        V = signed(V[:, keep]) / np.sqrt(len(found.left_out))  # on the scale of the discriminant coordinates
        embedding.more = np.vstack([-back @ V, V])
        embedding.shift = both.center @ embedding.more


def _with_features(embedding: FoldEmbedding, X: Any) -> np.ndarray:
    return embedding.features(X, embedding(X))


def _heavy(weights: np.ndarray, map: np.ndarray) -> np.ndarray:
    """Return the map (m, j) to the graph functions that are not negligible, times the roots of their weights."""
    used = weights > _NEGLIGIBLE * weights.max(initial=0.0)
    return map[:, used] * np.sqrt(weights[used])


def _kernel(family: str, X: Any, points: Any, terms: list[tuple[float, float]]) -> np.ndarray:
    D = distances(family, X, points)
    return np.sum([share * np.exp(-g * D) for g, share in terms], axis=0)
