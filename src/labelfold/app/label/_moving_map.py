"""A map of all rows that moves with the labels, and never jumps."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from labelfold._layout import Layout, aligned, layout
from labelfold.app._settle import unit

# t-SNE lays out so many rows, each with about so many neighbours; the others lie among them.
_LANDMARKS, _NEIGHBORS = 500, 20

# The share of the present embedding in the map, beside the first one: that of rows without labels.
_SHARE = 0.7

# In one update the points move by no more than this share of the map's size, as the root of the mean square.
_FARTHEST = 0.2

# The size of the map is where all but so many points lie.
_BEYOND = 0.005


class MovingMap:
    """The map of one session, aligned from one update to the next.

    It lays out neighbours in the embedding and in the first one that it was given, which belongs to the rows alone.
    So a class that appears, or an embedding of one component, moves the map and does not break it.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    seed : int, default=0
        Which rows are landmarks.
    """

    def __init__(self, n_rows: int, *, seed: int = 0) -> None:
        self.n_rows, self._seed = n_rows, seed
        self._first: np.ndarray | None = None
        self._last: Layout | None = None
        self._points: np.ndarray | None = None

    def update(self, Z: np.ndarray, *, seconds: float) -> np.ndarray:
        """Return where the rows lie, within about [-1, 1].

        Parameters
        ----------
        Z : ndarray of shape (n, k)
            The embedding; k may change from one update to the next. The first one given should be unsupervised.
        seconds : float
            How long t-SNE may take, about. A further update with the same Z goes on.

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
    """Return two principal components, 0 where there are fewer."""
    _, V = np.linalg.eigh(R.T @ R)
    points = np.zeros((len(R), 2))
    points[:, : min(2, R.shape[1])] = R @ V[:, ::-1][:, :2]
    return points
