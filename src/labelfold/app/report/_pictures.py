"""Thumbnails of rows that are images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison

_MOST_BYTES = 4_000_000  # all pictures of a list together
_LARGEST, _SMALLEST = 48, 8  # pixels on a side


def pictures(found: Comparison, rows: Any) -> dict[str, Any] | None:
    """Return rows as thumbnails of one size, one byte for each pixel and channel; None if they are not images."""
    from labelfold.app.report._map import packed

    shape = found.settings["image_shape"]
    if shape is None or not len(rows):
        return None
    height, width, *colours = shape
    room = (_MOST_BYTES / len(rows) / (colours[0] if colours else 1) / (height * width)) ** 0.5
    share = max(min(room, _LARGEST / max(height, width), 1.0), min(_SMALLEST / max(height, width), 1.0))
    X = np.asarray(found.data.X[rows], dtype=np.float32).reshape(len(rows), height, width, -1)
    for axis, side in ((1, height), (2, width)):
        X = _averaged(X, axis, max(round(share * side), 1))
    low, high = float(X.min()), float(X.max())
    seen = np.round(255 * (X - low) / ((high - low) or 1.0))
    return {"height": X.shape[1], "width": X.shape[2], "channels": X.shape[3], "values": packed(seen, "u1")}


def _averaged(X: np.ndarray, axis: int, size: int) -> np.ndarray:
    """Return an array with fewer entries along an axis, each the mean of its share.

    >>> _averaged(np.array([[1.0, 3.0, 5.0, 7.0]]), 1, 2).tolist()
    [[2.0, 6.0]]
    """
    n = X.shape[axis]
    if size >= n:
        return X
    starts = np.arange(size) * n // size
    counts = np.diff(np.append(starts, n)).reshape([-1 if i == axis else 1 for i in range(X.ndim)])
    return np.add.reduceat(X, starts, axis=axis) / counts
