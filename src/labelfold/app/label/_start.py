"""The start of a session: views are computed once, with k-means clusters in place of classes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from labelfold import LabelFold

_CLUSTERS = 8
_MOST_LOOKED_AT = 5000


def start(X: Any, *, seed: int = 0) -> LabelFold:
    """Return a LabelFold with computed views. Its classes are clusters until the first `refit`.

    Its ``embedding_`` is an unsupervised one. The first `refit` with labels should be ``full=True``.
    """
    n = X.shape[0]
    some = np.sort(np.random.default_rng(seed).permutation(n)[:_MOST_LOOKED_AT])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer different rows than clusters
        away = KMeans(min(_CLUSTERS, n), n_init=1, random_state=seed).fit_transform(X[some])
    y, own = np.full(n, -1), away.argmin(axis=1)
    for j in np.unique(own):
        here = np.flatnonzero(own == j)
        y[some[here[away[here, j].argsort(kind="stable")[:3]]]] = j  # three rows a cluster
    if len(np.unique(own)) < 2:
        raise ValueError("all rows are the same; give rows that differ")
    return LabelFold(random_state=seed).fit(X, y)
