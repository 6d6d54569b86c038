"""Coordinates of the training rows of a LabelFold that do not depend on labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labelfold.rows import host

if TYPE_CHECKING:
    from labelfold.semi_supervised._label_fold import LabelFold

# Number of principal coordinates for each form of the columns.
_COORDINATES = 20


def unsupervised(fold: LabelFold, index: np.ndarray) -> np.ndarray:
    """Return principal coordinates of some training rows in every form of the columns.

    Forms have equal weight: the mean squared norm of each over all rows is 1.

    Parameters
    ----------
    fold : LabelFold
        A fitted model with its training rows.
    index : ndarray of shape (t,)
        Indices of training rows.

    Returns
    -------
    R : ndarray of shape (t, k)
    """
    parts = [np.zeros((len(index), 1))]
    for pieces in fold._pieces:
        spread = pieces.deviations[:_COORDINATES]
        if len(index) and len(spread):
            T = host(fold._held[pieces.name].take(index).whole().double())
            C = pieces.coordinates.first(len(spread))(T)
            parts.append(C / np.sqrt((spread**2).sum()))
    return np.hstack(parts)
