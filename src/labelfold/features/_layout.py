"""A two-dimensional layout of an embedding that preserves neighbours in all components."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.utils import check_array, check_random_state

from labelfold.features._anchors import Anchors, joined

# Iterations of t-SNE with early exaggeration, followed by twice as many without it. From an earlier layout there are
# this many, without exaggeration.
_ITERATIONS = 100
# Budget: iterations between checks of the time limit.
_UNCHECKED = 10

# Number of nearest landmarks among which another row is placed.
_NEIGHBORS = 5


class Layout:
    """Rows in two dimensions; ``numpy.asarray`` returns the points.

    Parameters
    ----------
    points : ndarray of shape (n, 2)
        Coordinates of the rows.
    landmarks : ndarray of shape (m,)
        Indices of the rows that t-SNE laid out; the others are placed among them.
    anchors : Anchors
        The embedding of the landmarks.
    """

    points: np.ndarray
    landmarks: np.ndarray

    def __init__(self, points: np.ndarray, landmarks: np.ndarray, anchors: Anchors) -> None:
        self.points, self.landmarks, self._anchors = points, landmarks, anchors

    def place(self, Z: Any) -> np.ndarray:
        """Return the coordinates of new rows: the mean of their nearest landmarks, weighted by proximity.

        Parameters
        ----------
        Z : array-like of shape (n, k)
            The embedding of the new rows, by the same `transform` as the other rows.

        Returns
        -------
        points : ndarray of shape (n, 2)
        """
        Z = check_array(Z)
        known = self._anchors.points
        if Z.shape[1] != known.shape[1]:
            raise ValueError(
                f"Z has {Z.shape[1]} components, where {known.shape[1]} were laid out; give the same ones"
            )
        k = min(_NEIGHBORS, len(known))
        return joined(*self._anchors.nearest(Z, k), k, len(known)) @ self.points[self.landmarks]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the points."""
        return np.array(self.points, dtype=dtype, copy=True if copy is None else copy)


def layout(
    Z: Any,
    *,
    previous: Layout | None = None,
    perplexity: float = 30.0,
    n_landmarks: int = 2000,
    random_state: Any = 0,
    seconds: float | None = None,
) -> Layout:
    """Return a two-dimensional layout of rows that preserves their neighbours in all components.

    Landmark rows are laid out by t-SNE (openTSNE), and the others are placed among their nearest landmarks. So a
    further row costs only a search among the landmarks.

    Parameters
    ----------
    Z : array-like of shape (n, k)
        An embedding, of `LabelFold` or of any other reduction.
    previous : Layout, default=None
        An earlier layout of the same rows. The new layout starts from it and is aligned with it (Procrustes), so that
        only points whose embedding has changed move.
    perplexity : float, default=30
        Approximate number of neighbours of a row that stay together.
    n_landmarks : int, default=2000
        Number of rows that are laid out by t-SNE; all if there are fewer.
    random_state : int, RandomState instance or None, default=0
        Seed of the landmarks.
    seconds : float, default=None
        Approximate time limit of t-SNE. With ``previous`` there are at least ten iterations, and a further call with
        this layout as ``previous`` continues.

    Returns
    -------
    Layout

    References
    ----------
    P. G. Poličar, M. Stražar, B. Zupan. openTSNE: a modular Python library for t-SNE dimensionality reduction and
    embedding. Journal of Statistical Software 109, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold import layout
    >>> Z = np.repeat(np.eye(3), 30, axis=0) + 0.01 * np.arange(90)[:, None]
    >>> first = layout(Z)  # doctest: +SKIP
    >>> first.points.shape, first.place(Z[:2]).shape  # doctest: +SKIP
    ((90, 2), (2, 2))
    """
    Z = check_array(Z, dtype=np.float64)
    n = len(Z)
    if previous is not None and len(previous.points) != n:
        raise ValueError(
            f"previous has {len(previous.points)} points and Z has {n} rows; give a layout of the same rows"
        )
    chosen = np.arange(n)
    if previous is not None:
        chosen = previous.landmarks
    elif n > n_landmarks:
        chosen = np.sort(check_random_state(random_state).permutation(n)[:n_landmarks])
    start = None if previous is None else previous.points[chosen]
    points = np.empty((n, 2))
    points[chosen] = _tsne(Z[chosen], start, perplexity, seconds)
    laid_out = Layout(points, chosen, Anchors(Z[chosen]))
    rest = np.setdiff1d(np.arange(n), chosen)
    if len(rest):
        points[rest] = laid_out.place(Z[rest])
    if previous is not None:
        laid_out.points = aligned(points, previous.points)
    return laid_out


def aligned(points: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return points rotated, reflected and shifted to be nearest to others (Procrustes); their scale stays.

    Examples
    --------
    >>> import numpy as np
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> aligned(square[:, ::-1] + 5, square).round(6) + 0.0
    array([[0., 0.],
           [1., 0.],
           [1., 1.],
           [0., 2.]])
    """
    here, there = points.mean(axis=0), to.mean(axis=0)
    turn, _ = orthogonal_procrustes(points - here, to - there)
    return (points - here) @ turn + there


def _tsne(Z: np.ndarray, start: np.ndarray | None, perplexity: float, seconds: float | None) -> np.ndarray:
    """Return the layout of a few thousand rows, started from the first principal components or from a layout."""
    began = time.perf_counter()
    if len(Z) < 4:
        return _principal(Z)
    try:
        import openTSNE
    except ImportError:
        raise ImportError(
            "labelfold.layout needs openTSNE, which is not installed; "
            "install it with: pip install 'labelfold[layout]'"
        ) from None
    # One thread: a few thousand rows are too few for several threads, which wait at the end of every iteration.
    affinities = openTSNE.affinity.PerplexityBasedNN(
        Z, min(perplexity, (len(Z) - 1) / 3), method="exact", n_jobs=1, random_state=0
    )
    first = _principal(Z) * 1e-4 if start is None else start.copy()
    found = openTSNE.TSNEEmbedding(first, affinities, negative_gradient_method="bh", n_jobs=1, random_state=0)
    if start is None:
        found.optimize(_ITERATIONS, exaggeration=12, momentum=0.5, inplace=True)
    done = 0
    while done < (2 * _ITERATIONS if start is None else _ITERATIONS):
        found.optimize(_UNCHECKED, momentum=0.8, inplace=True)
        done += _UNCHECKED
        if seconds is not None and time.perf_counter() - began > seconds:
            break
    return np.asarray(found)


def _principal(Z: np.ndarray) -> np.ndarray:
    """Return two principal components of unit standard deviation; 0 if there are fewer."""
    U, s, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
    points = np.zeros((len(Z), 2))
    k = min(2, int((s > 1e-10 * max(s[0], 1e-300)).sum()))
    points[:, :k] = U[:, :k] * np.sign(U[np.abs(U[:, :k]).argmax(axis=0), np.arange(k)]) * np.sqrt(len(Z))
    return points * (s[:2] / max(s[0], 1e-300) if len(s) > 1 else 1.0)
