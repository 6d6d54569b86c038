"""Coordinates of the training rows of a LabelFold that no label has a part in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labelfold.rows._host import host
from labelfold.semi_supervised._view_list import FILTERS

if TYPE_CHECKING:
    from labelfold.semi_supervised._label_fold import LabelFold

# Principal coordinates and functions of a graph, of each form of the columns.
_PRINCIPAL, _FUNCTIONS = 20, 40
_FILTER = "1/(t+.02)^2"


def unsupervised(fold: LabelFold, index: np.ndarray) -> np.ndarray:
    """Return principal coordinates and the smoothest functions of a neighbour graph, of some training rows.

    Every form of the columns gives both, and each counts alike: over the rows its mean squared norm is the same.

    Parameters
    ----------
    fold : LabelFold
        Fitted, with its training rows.
    index : ndarray of shape (t,)
        Which of them.

    Returns
    -------
    R : ndarray of shape (t, k)
    """
    parts = []
    for pieces in fold._pieces:
        T = host(fold._held[pieces.name].take(index).whole().double())
        placed = pieces.place_again(T, index, _PRINCIPAL)
        spread = pieces.deviations[:_PRINCIPAL]
        parts.append(placed.C[:, : len(spread)] / np.sqrt(max((spread**2).sum(), 1e-300)))
        if pieces.graphs:
            graph = max(pieces.graphs, key=lambda graph: (graph.s, graph.space))
            weights = FILTERS[_FILTER](graph.eigenvalues[:_FUNCTIONS])
            map = graph.map[:, :_FUNCTIONS] * np.sqrt(weights / weights.sum() * fold._n_rows)
            parts.append(pieces.join(graph.space, graph.s, placed) @ map)
    return np.hstack(parts) if parts else np.zeros((len(index), 1))
