"""A map of all rows that follows the labels without jumps."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from labelfold.app.compare import unit
from labelfold.features import Layout, aligned, layout

# Number of landmarks of t-SNE, and its perplexity. Other rows are placed among the landmarks.
_LANDMARKS, _NEIGHBORS = 500, 20

# Weight of the current embedding; the rest is the first, unsupervised one.
_SHARE = 0.7

# Largest root mean square movement in one update, relative to the size of the map.
_FARTHEST = 0.2

# The quantiles of this level and of 1 minus it are scaled to -1 and 1.
_BEYOND = 0.005


class MovingMap:
    """The map of one session, aligned from one update to the next.

    It lays out the current embedding together with the first one, which does not depend on labels. So a new class, or
    an embedding with one component, changes the map only gradually.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    seed : int, default=0
        Seed of the landmarks.
    """

    def __init__(self, n_rows: int, *, seed: int = 0) -> None:
        self.n_rows, self._seed = n_rows, seed
        self._first: np.ndarray | None = None
        self._last: Layout | None = None
        self._points: np.ndarray | None = None

    def update(self, Z: np.ndarray, *, seconds: float) -> np.ndarray:
        """Return the coordinates of the rows, within about [-1, 1].

        Parameters
        ----------
        Z : ndarray of shape (n, k)
            The embedding; k may change from one update to the next. The first one given should be unsupervised.
        seconds : float
            Approximate time limit of t-SNE. A further update with the same Z continues it.

        Returns
        -------
        points : ndarray of shape (n, 2), float32
        """
        Z = unit(np.asarray(Z, dtype=np.float64).reshape(self.n_rows, -1))
        if self._first is None:
            self._first = Z
        both = [np.sqrt(1 - _SHARE) * self._first, np.sqrt(_SHARE) * Z]
        found = self._lay_out(np.hstack(both), seconds)
        low, high = np.quantile(found, [_BEYOND, 1 - _BEYOND], axis=0)
        points = (found - (low + high) / 2) / (np.max(high - low) / 2 or 1.0)
        if self._points is not None:
            points = aligned(points, self._points)
            moved = np.sqrt(np.mean(np.sum((points - self._points) ** 2, axis=1)))
            part = min(1.0, _FARTHEST / max(moved, 1e-300))
            points = self._points + part * (points - self._points)
        self._points = points
        return points.astype(np.float32)

    def _lay_out(self, R: np.ndarray, seconds: float) -> np.ndarray:
        if self.n_rows < 4 or not R.any() or find_spec("openTSNE") is None:
            return _plane(R)
        self._last = layout(
            R,
            previous=self._last,
            perplexity=_NEIGHBORS,
            n_landmarks=_LANDMARKS,
            random_state=self._seed,
            seconds=seconds,
        )
        return self._last.points


def _plane(R: np.ndarray) -> np.ndarray:
    """Return two principal components; 0 if there are fewer."""
    _, V = np.linalg.eigh(R.T @ R)
    points = np.zeros((len(R), 2))
    points[:, : min(2, R.shape[1])] = R @ V[:, ::-1][:, :2]
    return points
