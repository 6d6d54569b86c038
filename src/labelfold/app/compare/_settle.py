"""Active learning: chooses rows to label by uncertainty, density and distance from labelled rows.

Each row t counts as settled by its nearest labelled row. The gain of labelling a candidate c is

    gain(c) = sum over rows t of  u_t max(0, 1 - d(t, c) / d(t, labelled)),

where u_t is the uncertainty of the model about row t, and d a distance. The gain is large if the rows around c are
uncertain, many, and far from labelled rows. Rows chosen one after the other are spread out. With u = 1 this is the
facility-location objective, which needs no model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances


class Chosen(NamedTuple):
    """A candidate that was chosen.

    Attributes
    ----------
    candidate : int
        Its index among the candidates.
    gain : float
        See the module.
    takes : ndarray of bool of shape (t,)
        The rows that are nearer to it than to any labelled row.
    """

    candidate: int
    gain: float
    takes: np.ndarray


def settle(
    away: np.ndarray, near: np.ndarray | None, unsure: np.ndarray, most: int, allowed: Any = True
) -> list[Chosen]:
    """Return up to ``most`` candidates, greedily by gain.

    Parameters
    ----------
    away : ndarray of shape (t, c)
        Distances between rows and candidates.
    near : ndarray of shape (t,), or None
        Distance of each row from its nearest labelled row; None if no row is labelled.
    unsure : ndarray of shape (t,)
        Uncertainty of each row.
    allowed : ndarray of bool of shape (c,), or True
        Which candidates may be chosen.

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0, 9.0, 9.5])
    >>> away = np.abs(x[:, None] - x)
    >>> [one.candidate for one in settle(away, None, np.ones(5), 2)]
    [2, 3]
    >>> [one.candidate for one in settle(away, np.abs(x - 1.5), np.ones(5), 1)]
    [3]
    """
    near = np.full(len(away), away.max(initial=0.0)) if near is None else near
    chosen: list[Chosen] = []
    while len(chosen) < most:
        nearer = near[:, None] - away
        counts = np.divide(unsure, near, out=np.zeros(len(near)), where=near > 0).astype(away.dtype)
        gains = np.where(allowed, counts @ np.maximum(nearer, 0.0, out=nearer), 0.0)
        best = int(gains.argmax()) if len(gains) else 0
        if not len(gains) or gains[best] <= 0:
            break
        chosen.append(Chosen(best, float(gains[best]), nearer[:, best] > 0))
        near = np.minimum(near, away[:, best])
    return chosen


def nearest(R: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """Return the distance of each row of R, (t, k), from the nearest row of known; None if that is empty."""
    return euclidean_distances(R, known).min(axis=1).astype(R.dtype) if len(known) else None


def unit(R: np.ndarray) -> np.ndarray:
    """Return centred coordinates with a mean squared norm of 1; zeros if all rows are equal."""
    R = np.nan_to_num(np.asarray(R, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    if not R.size:
        return np.zeros((len(R), 1))
    R = R / max(np.abs(R).max(), np.finfo(np.float64).tiny)  # so that squares do not overflow
    R = R - R.mean(axis=0)
    size = np.sqrt(np.square(R).sum(axis=1).mean())
    return R / size if size > 1e-12 else np.zeros_like(R)
