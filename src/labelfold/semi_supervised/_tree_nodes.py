"""Trees grown by scikit-learn, stored as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labelfold.rows import dense

# Number of entries of a block of rows.
_SLAB = 2**22

# Larger numbers are clipped to this value, to stay in the range of single precision.
_FAR = 1e30


class TreeNodes:
    """The mean over trees of the value of the leaf that a row reaches.

    scikit-learn's own trees are compiled objects, which would trust numbers read from a file. Arrays are safe to
    load, and hundreds of trees are one object. The compiled trees are used while they exist; a model from a file has
    only the arrays. Both lead a row to the same leaves.

    Parameters
    ----------
    trees : sequence of sklearn.tree._tree.Tree
        The ``tree_`` of fitted trees.
    values : ndarray of shape (nodes, c)
        The value of each node; the nodes of one tree follow those of the previous one.
    middle, size : ndarray of shape (d,), optional
        The trees were grown on columns from which ``middle`` was subtracted, divided by ``size``.

    Attributes
    ----------
    roots : ndarray of shape (trees,)
        The first node of each tree.
    columns : ndarray of shape (m,)
        The columns that some tree splits on.
    column, threshold : ndarray of shape (nodes,)
        A row goes left if its value in this one of `columns` is at most the threshold.
    left, right : ndarray of shape (nodes,)
        Index of the next node; a leaf leads to itself.
    depth : int
        Length of the longest path from a root to a leaf.
    """

    def __init__(
        self, trees: Sequence[Any], values: np.ndarray, middle: Any = None, size: Any = None
    ) -> None:
        counts = [tree.node_count for tree in trees]
        self.roots, self.depth = np.cumsum([0, *counts[:-1]]), max(tree.max_depth for tree in trees)
        start, itself = np.repeat(self.roots, counts), np.arange(sum(counts))
        left, right = (
            np.concatenate([getattr(tree, f"children_{side}") for tree in trees])
            for side in ("left", "right")
        )
        leaf = left < 0
        self.left, self.right = np.where(leaf, itself, left + start), np.where(leaf, itself, right + start)
        self.threshold = np.where(leaf, np.inf, np.concatenate([tree.threshold for tree in trees]))
        split = np.where(leaf, 0, np.concatenate([tree.feature for tree in trees]))
        self.columns, self.column = np.unique(split, return_inverse=True)
        self.values, self.middle, self.size = values, middle, size
        self._compiled = list(trees)

    def __call__(self, X: Any) -> np.ndarray:
        """Return the mean value (n, c) of the leaves that rows X (n, d), an array or CSR matrix, reach."""
        columns = slice(None) if self._compiled else self.columns
        X = X[:, columns]
        middle, size = (None if part is None else part[columns] for part in (self.middle, self.size))
        slab = max(1, _SLAB // X.shape[1])
        slabs = (X[at : at + slab] for at in range(0, X.shape[0], slab))
        parts = [self._mean(single(dense(rows), middle, size)) for rows in slabs]
        return np.concatenate(parts) if parts else np.zeros((0, self.values.shape[1]))

    def _mean(self, X: np.ndarray) -> np.ndarray:
        total = np.zeros((len(X), self.values.shape[1]))
        for i, root in enumerate(self.roots):
            leaves = root + self._compiled[i].apply(X) if self._compiled else self._leaves(X, root)
            total += self.values[leaves]
        return total / len(self.roots)

    def _leaves(self, X: np.ndarray, root: int) -> np.ndarray:
        """Return the leaf of one tree that each row reaches."""
        found, walking = np.full(len(X), root), np.arange(len(X))
        for _ in range(self.depth):
            node = found[walking]
            goes_left = X[walking, self.column[node]] <= self.threshold[node]
            found[walking] = np.where(goes_left, self.left[node], self.right[node])
            walking = walking[found[walking] != node]
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to save: the arrays."""
        return {**self.__dict__, "_compiled": []}


def single(X: np.ndarray, middle: np.ndarray | None = None, size: np.ndarray | None = None) -> np.ndarray:
    """Return rows in single precision for scikit-learn's trees, with a middle subtracted, and divided by a size."""
    if middle is not None:
        X = np.clip((X - middle) / size, -_FAR, _FAR)
    return np.ascontiguousarray(X, dtype=np.float32)
