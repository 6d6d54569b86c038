"""Extra trees on the labelled rows: one more score beside those of the views.

A tree splits on one column at a time, so trees find patterns that views of all columns miss: a few relevant columns
among many, and thresholds. Regression trees on coded labels, split by squared error, are the same as classification
trees split by the Gini index. Each tree is grown without one part of the labelled rows, so that trees also give
out-of-sample predictions of that part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.tree import ExtraTreeRegressor

from labelfold.model_selection import Groups
from labelfold.rows import (
    beside,
    cast,
    dense,
    dense_block_rows,
    double,
    library_of,
    n_threads,
    on_device,
    run_jobs,
)

# Number of parts of the labelled rows; each is left out of some of the trees, as a fold of a 10-fold
# cross-validation.
_PARTS = 10
# Budget of memory: maximum number of columns for trees, which need dense columns.
_MAX_COLUMNS = 5000
# Budget of memory: maximum number of leaves of a tree, and of numbers in the nodes of all trees together (32 MB).
_MAX_LEAVES, _MAX_NUMBERS = 2000, 4_000_000
# Maximum share of trees in the blend. The share falls with a power of their relative error; the exponent is the
# number of labels divided by the second value. Both were chosen by accuracy on the sets that
# experiments/label_fold.py names.
_MAX_SHARE, _ROWS_A_POWER = 0.5, 60
# Budget of memory: number of trees that all rows of a block on a device walk through together.
_TREES_AT_ONCE = 32
# Budget of memory: number of places, of a row in a tree, that are walked at a time. With a tenth of them 16 threads
# take 1.5 times as long for 200,000 rows, since each step then has little work outside the interpreter's lock.
_PLACES = 400_000
# After this many steps, places that have reached a leaf are left out of the walk.
_STEPS = 4
# Larger numbers are clipped to this value, to stay in the range of single precision.
_LARGEST = float(np.finfo(np.float32).max)


class GrownTrees(NamedTuple):
    """Trees, and their out-of-sample predictions of the labelled rows.

    Attributes
    ----------
    trees : TreeNodes
        The score of any row.
    left_out : ndarray of shape (l, c)
        The score of each labelled row by the trees that were grown without it.
    """

    trees: TreeNodes
    left_out: np.ndarray


def grow(
    X: Any,
    Y: np.ndarray,
    scale: np.ndarray | float,
    numbers: bool,
    seed: int,
    groups: Groups | None = None,
    per_part: int = 16,
    weights: np.ndarray | None = None,
) -> GrownTrees | str:
    """Return trees of the labelled rows, or why there are none.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (l, d)
        The labelled rows.
    Y : ndarray of shape (l, c)
        Targets of the score.
    scale : ndarray of shape (c,) or float
        Errors are divided by this before their squares are summed over the columns.
    numbers : bool
        Whether Y holds numbers. A split then considers all columns, otherwise the square root of their number.
    seed : int
    groups : Groups, optional
        Rows that are in the same part.
    per_part : int
        Number of trees for each part of the rows.
    weights : ndarray of shape (l,), optional
        Weights of the rows; all are 1 when None.
    """
    n, c = Y.shape
    groups = Groups.single(n) if groups is None else groups
    parts = min(_PARTS, len(groups))
    per_part = min(per_part, _MAX_NUMBERS // (2 * parts * min(n, _MAX_LEAVES) * c))
    if X.shape[1] > _MAX_COLUMNS:
        return f"trees are grown on {_MAX_COLUMNS:,} columns at most"
    if per_part < 2:
        return f"trees of {n:,} labelled rows and {c:,} columns of y would take too much room"
    X = dense(X)
    middle = X.mean(axis=0)
    size = np.abs(X - middle).max(axis=0)
    if not size.any():
        return "the labelled rows do not differ"
    if parts < 2:
        return "the labelled rows are one group"
    size = np.where(size > 0, size, 1.0)
    order = _spread_order(X, Y, numbers, seed)
    part = np.arange(n) % parts
    if not groups.are_single:
        part = _parts_of_groups(Y, numbers, groups, parts, order)[order]
        parts = part.max() + 1
    # Many splits are equally good. Rounding removes round-off, which would otherwise choose among them.
    scaled, Y = single(X, middle, size)[order], (Y / scale)[order].round(9)
    weights = None if weights is None else weights[order]
    settings = {"max_features": None if numbers else "sqrt", "min_samples_leaf": 1 + (n - 1) // _MAX_LEAVES}

    def grow_without(some: np.ndarray, stop: Event) -> list[list[Any]]:
        """Return the trees that are grown without each of some parts."""
        grown: list[list[Any]] = []
        for i in some:
            if stop.is_set():
                break
            others = part != i
            w = None if weights is None else weights[others]
            seeds = (seed + i * per_part + np.arange(per_part)) % 2**31
            trees = [ExtraTreeRegressor(**settings, random_state=int(one)) for one in seeds]
            with config_context(skip_parameter_validation=True):  # slower than growing a tree
                grown.append(
                    [tree.fit(scaled[others], Y[others], w, check_input=False).tree_ for tree in trees]
                )
        return grown

    jobs = np.array_split(np.arange(parts), min(parts, n_threads()))
    grown = [trees for some in run_jobs(grow_without, jobs) for trees in some]
    left_out = np.empty_like(Y)
    for i, trees in enumerate(grown):
        here = part == i
        mean = np.mean([tree.predict(scaled[here]) for tree in trees], axis=0)
        left_out[order[here]] = mean.reshape(-1, c) * scale
    every = [tree for trees in grown for tree in trees]
    values = np.concatenate([tree.value for tree in every]).reshape(-1, c) * scale
    return GrownTrees(TreeNodes(every, values, middle, size), left_out)


def _spread_order(X: np.ndarray, Y: np.ndarray, numbers: bool, seed: int) -> np.ndarray:
    """Return an order of the rows that spreads each class, or similar numbers, evenly over the parts.

    It depends neither on the order of the rows nor on that of the classes.
    """
    order = np.lexsort(np.hstack([Y, X]).T)
    if numbers:
        return order[np.lexsort(Y[order].T)]
    _, first, kind = np.unique(Y[order], axis=0, return_index=True, return_inverse=True)
    drawn = np.random.default_rng(seed).random(len(Y))
    return order[np.lexsort((drawn, first[kind.ravel()]))]


def _parts_of_groups(
    Y: np.ndarray, numbers: bool, groups: Groups, parts: int, order: np.ndarray
) -> np.ndarray:
    """Return the part of each row if whole groups are dealt to parts, in the order of their first rows."""
    kinds = np.unique(Y, axis=0, return_inverse=True)[1].ravel()
    if numbers:
        kinds = np.argsort(np.argsort(Y[:, 0], kind="stable")) * parts // len(Y)
    first = np.unique(groups.codes[order], return_index=True)[1]
    shares = np.full(parts, 1 / parts)
    dealt = groups.dealt(np.eye(kinds.max() + 1)[kinds], shares, np.argsort(first), strict=False)
    return np.unique(dealt, return_inverse=True)[1].ravel()


def share_of_trees(
    views: np.ndarray, trees: np.ndarray, groups: Groups | None = None
) -> tuple[float, np.ndarray]:
    """Return the share of the trees in the blend, and the shares that it would have without each row's group.

    It is a half if the error of the trees is at most that of the views, otherwise (e_trees / e_views)^(-l / 60) / 2.

    Parameters
    ----------
    views, trees : ndarray of shape (l,)
        Squared leave-one-out errors of the labelled rows, times their weights.
    groups : Groups, optional
        Rows that were left out together. l is the number of groups.
    """
    groups = Groups.single(len(views)) if groups is None else groups
    n, tiny = len(groups), np.finfo(np.float64).tiny

    def share(views: Any, trees: Any, n: int) -> Any:
        behind = np.log(np.maximum(trees, tiny)) - np.log(np.maximum(views, tiny))
        return _MAX_SHARE * np.exp(-n / _ROWS_A_POWER * np.maximum(behind, 0.0))

    each = share(groups.without(views), groups.without(trees), n - 1)
    return float(share(views.sum(), trees.sum(), n)), each


class TreeNodes:
    """The mean over trees of the value of the leaf that a row reaches.

    scikit-learn's own trees are compiled objects, which would trust numbers read from a file. Arrays are safe to
    load, hundreds of trees are one object, and one row walks all of them at the same time.

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

    takes_any_array = True
    roots: np.ndarray
    depth: int
    left: np.ndarray
    right: np.ndarray
    threshold: np.ndarray
    columns: np.ndarray
    column: np.ndarray
    values: np.ndarray
    middle: Any
    size: np.ndarray

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

    @cached_property
    def _steps(self) -> TreeSteps:
        # Whatever numbers a file holds, a walk stays within the arrays.
        nodes = np.concatenate([self.left, self.right, self.roots])
        if nodes.min() < 0 or nodes.max() >= min(len(self.left), len(self.right), len(self.values)):
            raise IndexError("a node of a tree leads to none of its nodes")
        leaf = self.left == np.arange(len(self.left))
        to = 2 * np.column_stack([self.left, self.right]).ravel()
        return TreeSteps(to, *(np.repeat(part, 2) for part in (self.column, self.threshold, leaf)))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to save: the arrays above, from which the rest is computed again."""
        return {name: value for name, value in self.__dict__.items() if name != "_steps"}

    def __call__(self, X: Any) -> np.ndarray:
        """Return the mean value (n, c) of the leaves that rows X (n, d), an array or CSR matrix, reach."""
        if on_device(X):
            return self._mean_on_device(X)
        X = X[:, self.columns]
        middle, size = (None if part is None else part[self.columns] for part in (self.middle, self.size))
        slab = dense_block_rows(8 * X.shape[1])
        slabs = (X[at : at + slab] for at in range(0, X.shape[0], slab))
        parts = [self._mean(single(dense(rows), middle, size)) for rows in slabs]
        return np.concatenate(parts) if parts else np.zeros((0, self.values.shape[1]))

    def _mean(self, X: np.ndarray) -> np.ndarray:
        leaves, n_trees = self._leaves(X), len(self.roots)
        ends = np.arange(0, n_trees * len(X) + 1, n_trees)
        reached = (np.ones(leaves.size), leaves.ravel(), ends)
        return sparse.csr_array(reached, shape=(len(X), len(self.values))) @ self.values / n_trees

    def _mean_on_device(self, X: Any) -> Any:
        """Return the mean for an array of another library, for many trees at once."""
        xp, _ = library_of(X), self._steps  # which checks the nodes
        middle, size = self.middle[self.columns], self.size[self.columns]
        X = double(xp.take(X, beside(X, self.columns), axis=1))
        X = xp.clip((X - beside(X, middle)) / beside(X, size), -_LARGEST, _LARGEST)
        X = xp.astype(X, xp.float32)
        column, left, right, threshold, values = (
            beside(X, part) for part in (self.column, self.left, self.right, self.threshold, self.values)
        )
        total = xp.zeros_like(values[:1, :])
        for some in np.array_split(self.roots, -(-len(self.roots) // _TREES_AT_ONCE)):
            node = beside(X, some)[None, :] + xp.zeros_like(cast(X[:, :1], column.dtype))
            for _ in range(self.depth):
                flat = xp.reshape(node, (-1,))
                own = xp.take_along_axis(X, xp.reshape(xp.take(column, flat), node.shape), axis=1)
                goes_left = xp.reshape(own, (-1,)) <= xp.take(threshold, flat)
                node = xp.reshape(xp.where(goes_left, xp.take(left, flat), xp.take(right, flat)), node.shape)
            for t in range(node.shape[1]):
                total = total + xp.take(values, node[:, t], axis=0)
        return total / len(self.roots)

    def _leaves(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf (n, trees) that each row reaches in each tree; X has the columns of `columns`."""
        at_once = max(1, _PLACES // len(X))
        groups = [self.roots[i : i + at_once] for i in range(0, len(self.roots), at_once)]
        return np.hstack([self._leaves_of(X, roots) for roots in groups])

    def _leaves_of(self, X: np.ndarray, roots: np.ndarray) -> np.ndarray:
        """Return the leaf (n, roots) that each row reaches from some roots."""
        n, values, steps = len(X), np.ascontiguousarray(X.T).ravel(), self._steps
        row, node = np.tile(np.arange(n), len(roots)), np.repeat(2 * roots, n)
        reached, walking = np.empty(len(node), dtype=np.intp), np.arange(len(node))
        for i in range(self.depth):
            right = values.take(n * steps.column.take(node) + row) > steps.threshold.take(node)
            node = steps.to.take(node + right)
            if i % _STEPS == _STEPS - 1:
                on = np.flatnonzero(~steps.leaf.take(node))
                reached[walking] = node
                walking, row, node = walking[on], row[on], node[on]
        reached[walking] = node
        return reached.reshape(len(roots), n).T // 2


class TreeSteps(NamedTuple):
    """The nodes of `TreeNodes` for a walk, each twice. Node i is at 2 i.

    Attributes
    ----------
    to : ndarray of shape (2 nodes,)
        Place of the next node: at 2 i that of a row that goes left, at 2 i + 1 that of one that goes right.
    column, threshold, leaf : ndarray of shape (2 nodes,)
        As in `TreeNodes`, and whether a node is a leaf.
    """

    to: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    leaf: np.ndarray


def single(X: np.ndarray, middle: np.ndarray | None = None, size: np.ndarray | None = None) -> np.ndarray:
    """Return rows in single precision for scikit-learn's trees, with a middle subtracted, and divided by a size."""
    if middle is not None:
        X = np.clip((X - middle) / size, -_LARGEST, _LARGEST)
    return np.ascontiguousarray(X, dtype=np.float32)
