"""Must-links and cannot-links between rows, from labels or from pairs, as SSDR uses them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from labelfold.labels import Labels


class Links(NamedTuple):
    """The matrix S of n rows, implicitly: S = 11'/n^2 - E mix E' - pairs, where E (n, c) are one-hot codes.

    Attributes
    ----------
    degrees : ndarray of shape (n,)
        D, the row sums of S.
    codes : ndarray of shape (n,)
        The class of each row; -1 for none.
    mix : ndarray of shape (c, c)
    pairs : csr_array of shape (n, n)
        Symmetric; positive for must-links, negative for cannot-links.
    """

    degrees: np.ndarray
    codes: np.ndarray
    mix: np.ndarray
    pairs: sparse.csr_array


def label_links(labels: Labels, cannot_link_weight: float, must_link_weight: float) -> Links:
    """Return the links of classes: must-links within each class, cannot-links between classes."""
    n, c, counts = labels.n_rows, labels.n_classes, labels.counts().astype(np.float64)
    of_same = (counts**2).sum()  # n_M
    of_others = (counts.sum() ** 2 - of_same) / 2  # n_C
    alpha, beta = cannot_link_weight / of_others, must_link_weight / of_same
    mix = (alpha + beta) * np.eye(c) - alpha
    codes = np.full(n, -1, dtype=np.int64)
    codes[labels.index] = labels.values
    degrees = np.full(n, 1 / n)
    degrees[labels.index] -= (mix @ counts)[labels.values]
    return Links(degrees, codes, mix, sparse.csr_array((n, n)))


def pair_links(
    must_links: Any, cannot_links: Any, n: int, cannot_link_weight: float, must_link_weight: float
) -> Links:
    """Return the links of explicit pairs, each counted once."""
    must, cannot = (
        _read_pairs(given, n, name)
        for given, name in ((must_links, "must_links"), (cannot_links, "cannot_links"))
    )
    both = must[np.isin(must @ [n, 1], cannot @ [n, 1])]
    if len(both):
        raise ValueError(
            f"rows {both[0, 0]} and {both[0, 1]} are in must_links and in cannot_links; "
            "leave the pair in one of them."
        )
    if not len(must) + len(cannot):
        raise ValueError("must_links and cannot_links hold no pair; pass one at least, or labels as y.")
    weights = np.repeat(
        [must_link_weight / max(1, len(must)), -cannot_link_weight / max(1, len(cannot))],
        [len(must), len(cannot)],
    )
    i, j = np.vstack([must, cannot]).T
    upper = sparse.csr_array((weights, (i, j)), shape=(n, n))
    pairs = (upper + upper.T).tocsr()
    return Links(1 / n - pairs.sum(axis=1), np.full(n, -1, dtype=np.int64), np.zeros((1, 1)), pairs)


def _read_pairs(pairs: Any, n: int, name: str) -> np.ndarray:
    """Return the distinct pairs (m, 2), with the smaller row first."""
    pairs = np.asarray([] if pairs is None else pairs)
    if not pairs.size:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"{name} holds {pairs.dtype} values of shape {pairs.shape}, where pairs of row numbers are expected: "
            "integers of shape (m, 2)."
        )
    for bad, what in (
        (pairs[((pairs < 0) | (pairs >= n)).any(axis=1)], f"where X has rows 0 to {n - 1}"),
        (pairs[pairs[:, 0] == pairs[:, 1]], "where two different rows are expected"),
    ):
        if len(bad):
            raise ValueError(f"{name} has the pair ({bad[0, 0]}, {bad[0, 1]}), {what}; mend or drop it.")
    return np.unique(np.sort(pairs.astype(np.int64), axis=1), axis=0)
