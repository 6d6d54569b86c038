"""Distances between rows, as far as a few rows tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from labelfold.rows import Rows


def about_mean(X: Any) -> Any:
    """Return rows less their mean: products that make distances lose no digits then; sparse rows stay as they are."""
    return X if sp.issparse(X) else X - X.mean(axis=0)


def mean_distance(rows: Rows, *, most_rows: int = 1000, random_state: Any = 0) -> float:
    """Return the mean distance between two rows, from at most ``most_rows`` of them, drawn at random.

    Where n is larger the estimate is off by a few tenths of a per cent, and costs no n x n work. Rows that are all
    the same have no distance to go by: 1 is returned.

    Parameters
    ----------
    rows : Rows
        Any rows.
    most_rows : int, default=1000
        How many to look at.
    random_state : int, RandomState instance or None, default=0
        Which.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> mean_distance(as_rows(np.array([[0.0], [1.0], [2.0]])))
    1.3333333333333333
    """
    n = rows.shape[0]
    chosen = np.arange(n)
    if n > most_rows:
        chosen = np.sort(check_random_state(random_state).permutation(n)[:most_rows])
    X = about_mean(rows.take(chosen).whole().double().raw)
    m = len(chosen)
    total = euclidean_distances(X).sum() / max(1, m * (m - 1))
    return float(total) if total > 0 else 1.0
