"""The embedding: discriminant directions of the blended score, then principal components of the blended features."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold._base import Kept
from labelfold._warn import warn_user
from labelfold.rows import Rows
from labelfold.semi_supervised._fold import Scores
from labelfold.semi_supervised._solver import Solution

# Directions whose eigenvalue is below this share of the largest are round-off.
_ROUND_OFF = 1e-10


class Embedding(Kept):
    """A row's place: (F(x) - mean) turn. For `Featurized`."""

    def __init__(self, scores: Scores, mean: np.ndarray, turn: np.ndarray) -> None:
        self.scores, self.mean, self.turn = scores, mean, turn

    def __call__(self, X: Any) -> np.ndarray:
        """Return the place of some rows, (n, k)."""
        return (self.scores(X) - self.mean) @ self.turn


def embedding_of(
    found: Solution,
    F: np.ndarray,
    F_labelled: np.ndarray,
    Y: np.ndarray,
    task: str,
    n_components: int | None,
    held: list[Rows],
) -> tuple[Embedding, np.ndarray]:
    """Return the map of rows to the embedding, and the embedding of the training rows."""
    mean, turn = second_stage(F_labelled, Y, task)
    k = turn.shape[1] if n_components is None else n_components
    if k > turn.shape[1]:
        warn_user(f"n_components={k} is more than the {turn.shape[1]} directions there are")
    embedding = Embedding(found.scores, mean, turn[:, :k])
    return embedding, (F - mean) @ embedding.turn


def second_stage(F: np.ndarray, Y: np.ndarray, task: str) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the mean (c,) and turn (c, k) that make discriminant directions of the labelled rows' scores F (l, c).

    The scores are those of a symmetric smoother S, F_c = S Y_c. With the targets T of LDA, Y over the roots of the
    class sizes, the second stage of the two-stage method is :math:`T'ST = E \,\mathrm{diag}(s) E'`, and the directions
    are :math:`Z = S T E \,\mathrm{diag}(s)^{-1/2}`.
    """
    size = (
        np.sqrt(np.maximum(Y.sum(axis=0), 1)) if task != "regression" else np.maximum(Y.std(axis=0), 1e-300)
    )
    mean = F.mean(axis=0)
    T = (Y - Y.mean(axis=0)) / size
    D = T.T @ ((F - mean) / size)
    s, E = np.linalg.eigh((D + D.T) / 2)
    s, E = s[::-1], E[:, ::-1]
    keep = s > _ROUND_OFF * max(s[0], 0.0)
    if task in ("binary", "multiclass"):
        keep[-1] = False  # the scores of a row sum to 1
    if not keep.any():
        return mean, np.zeros((Y.shape[1], 1))
    E = E[:, keep] * np.sign(E[np.abs(E[:, keep]).argmax(axis=0), np.flatnonzero(keep)])
    return mean, E / size[:, None] / np.sqrt(s[keep])
