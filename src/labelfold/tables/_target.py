"""Compares columns with the labels: columns that repeat the target, and cells whose being filled tells about it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats
from sklearn.feature_selection import f_classif, f_regression

from labelfold.labels import Labels, read_labels
from labelfold.model_selection import read_groups
from labelfold.tables._limits import MIN_CELLS, MIN_COUNTED, MIN_ROWS, SIGNIFICANCE

# A choice: a column that maps one to one onto the target in at least this many labelled rows is a leak.
MIN_LEAK_ROWS = 30
# A column is a leak if at least this share of the unlabelled rows is empty, and labelled rows are filled oftener, at
# this level over all columns. experiments/honesty.py measures how often a leak is found (its table "filled"), and how
# often an honest column is taken for one ("rare").
_EMPTY, _LEAK_LEVEL = 0.99, 0.001
# It is no mark of a rare class if this share of the labelled rows is filled, or if in each class the share is this
# part of that in all. Classes of fewer labelled rows do not count. The same tables of experiments/honesty.py try
# this.
_MOSTLY_FILLED, _EVENLY, _MIN_CLASS = 0.6, 0.5, 4


@dataclass(frozen=True)
class Filled:
    """In how many rows a column is filled.

    Attributes
    ----------
    labelled, others : tuple of int
        The number of filled rows, and of all rows.
    missing : bool
        Whether missing cells are empty.
    value : float or int, or None
        The number, or the code of the value, that is also empty.
    """

    labelled: tuple[int, int]
    others: tuple[int, int]
    missing: bool
    value: Any


class Target:
    """The labelled rows and their class codes or numbers.

    Parameters
    ----------
    y : array-like, Labels or None
        Labels, or `Labels` that were already read.
    n : int
        The number of rows.
    unlabeled : default=-1
        The value that means unlabelled, besides missing values.
    groups : array-like of shape (n,), optional
        Rows with an equal value belong together. Of each group one row takes part in the comparison of labelled rows
        with others.

    Attributes
    ----------
    index, values : ndarray
        Indices and class codes, or numbers, of labelled rows; empty if rows have several labels.
    labelled : ndarray of shape (n,), bool, or None
        Which rows have a label, or several; None without labels.
    taking_part : ndarray of shape (n,), bool
        Which rows are compared with each other.
    """

    def __init__(self, y: Any, n: int, unlabeled: Any = -1, groups: Any = None) -> None:
        grouped = None if groups is None else read_groups(groups, n)
        self.taking_part = np.ones(n, dtype=bool)
        self.index, self.values, self.classes = np.empty(0, dtype=int), np.empty(0), True
        self.labelled: np.ndarray | None = None
        if y is None:
            return
        labels = y if isinstance(y, Labels) else _read(y, n, unlabeled)
        if labels is None:
            return
        self.labelled = np.asarray(labels.labelled)
        if grouped is not None:
            self.taking_part = np.isin(np.arange(n), grouped.first(self.labelled))
        if np.ndim(labels.values) > 1:  # several labels a row are not compared with columns
            return
        self.index, self.classes = np.asarray(labels.index), labels.task != "regression"
        self.values = np.asarray(labels.values)

    def take(self, places: np.ndarray) -> Target:
        """Return the labels of some rows, given by ascending indices."""
        some = Target(None, len(places))
        here = np.searchsorted(places, self.index)
        there = (here < len(places)) & (places[np.minimum(here, len(places) - 1)] == self.index)
        some.index, some.values, some.classes = here[there], self.values[there], self.classes
        some.labelled = None if self.labelled is None else self.labelled[places]
        some.taking_part = self.taking_part[places]
        return some

    @cached_property
    def labelled_and_others(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the labelled rows and of the others that take part; empty unless there are both."""
        if self.labelled is None or self.labelled.all():
            return np.empty(0, dtype=int), np.empty(0, dtype=int)
        here, others = (np.flatnonzero(some & self.taking_part) for some in (self.labelled, ~self.labelled))
        return (here, others) if len(others) else (others, others)

    def filled(self, values: np.ndarray, columns: int) -> Filled | None:
        """Return in how many rows a column is filled, if that tells which rows are labelled; otherwise None.

        Cells are empty if they are missing or hold the most frequent value of unlabelled rows, or both. The column
        tells if 99% of unlabelled rows are empty, and labelled rows are significantly less often (a one-sided
        hypergeometric test at the level 0.001 over all columns). If some unlabelled rows are filled, labelled rows
        must be so mostly, or in every class: a mark of a rare class is filled in one class only, of which rows were
        looked for.

        Parameters
        ----------
        values : ndarray of shape (n,)
            Numbers, NaN for missing cells, or codes, below 0 for missing cells.
        columns : int
            The number of columns that are asked about.
        """
        here, others = self.labelled_and_others
        if not len(here):
            return None
        few = values[_some(others)]
        there = known_cells(few)
        if 2 * (len(few) - len(there) + _most_frequent(there)[1]) < len(few):  # rules out most columns
            return None
        gone = np.isnan(values) if values.dtype.kind == "f" else values < 0
        value = _most_frequent(values[others][~gone[others]])[0]
        is_value = values == value if value is not None else np.zeros(len(values), dtype=bool)
        for empty, missing, held in (
            (gone, True, None),
            (is_value, False, value),
            (gone | is_value, True, value),
        ):
            a, b = len(here) - int(empty[here].sum()), len(others) - int(empty[others].sum())
            if b > (1 - _EMPTY) * len(others):
                continue
            p = stats.hypergeom.sf(a - 1, len(here) + len(others), a + b, len(here))
            tells = b == 0 or a >= _MOSTLY_FILLED * len(here) or self._in_all_classes(empty)
            if tells and p <= _LEAK_LEVEL / columns:
                return Filled((a, len(here)), (b, len(others)), missing, held)
        return None

    def _in_all_classes(self, empty: np.ndarray) -> bool:
        """Tell whether no class, or half of the numbers, is filled far less often than all labelled rows."""
        index = self.index[self.taking_part[self.index]]
        values = self.values[self.taking_part[self.index]]
        if not len(index):
            return False
        codes = values.astype(int) if self.classes else (values > np.median(values)).astype(int)
        counts = np.bincount(codes)
        large = counts >= _MIN_CLASS
        shares = np.bincount(codes, weights=~empty[index])[large] / counts[large]
        return len(shares) > 1 and bool(shares.min() >= _EVENLY * np.mean(~empty[index]))

    def repeats(self, codes: np.ndarray) -> int:
        """Return the number of labelled rows in which a column maps one to one onto the target; 0 if it does not.

        Parameters
        ----------
        codes : ndarray of shape (n,)
            A code for each value of the column, below 0 if missing. If the target is numeric, the values themselves.
        """
        if not len(self.index):
            return 0
        column = codes[self.index]
        known = ~np.isnan(column) if column.dtype.kind == "f" else column >= 0
        column, values = column[known], self.values[known]
        if len(column) < MIN_ROWS:
            return 0
        if not self.classes:
            if np.ptp(column) == 0 or np.ptp(values) == 0:
                return 0
            r = abs(np.corrcoef(column, values)[0, 1])
            return len(column) if r > 1 - 1e-12 else 0
        few = slice(0, 2 * MIN_LEAK_ROWS)  # these rows rule out most columns
        for part in (few, slice(None)):
            a, b = column[part], values[part]
            pairs = len(np.unique(np.column_stack([a, b]), axis=0))
            if not pairs == len(np.unique(a)) == len(np.unique(b)):
                return 0
        # values that are all distinct map one to one onto any target, which proves nothing
        return len(column) if 1 < pairs <= len(column) // 2 else 0

    def filled_columns(self, X: np.ndarray) -> list[int]:
        """Return the columns of an array that tell which rows are labelled; see `filled`.

        >>> X = np.zeros((100, 3))
        >>> X[:, 0], X[:9, 1] = np.arange(100), 1.0
        >>> Target([0, 1, 1] * 3 + 91 * [None], 100).filled_columns(X)
        [1]
        """
        return [j for j in range(X.shape[1]) if self.filled(X[:, j], X.shape[1]) is not None]

    def predicted_by_gaps(self, missing: np.ndarray) -> bool:
        """Tell whether missing cells predict the labels (p below 0.01)."""
        gone = missing[self.index] if len(self.index) else np.empty(0, dtype=bool)
        if gone.sum() < MIN_CELLS or (~gone).sum() < MIN_CELLS:
            return False
        if not self.classes:
            return bool(stats.mannwhitneyu(self.values[gone], self.values[~gone]).pvalue < SIGNIFICANCE)
        codes = self.values.astype(int)
        counts = np.array([np.bincount(codes[part], minlength=codes.max() + 1) for part in (gone, ~gone)])
        counts = counts[:, counts.sum(axis=0) > 0]
        return counts.shape[1] > 1 and bool(stats.chi2_contingency(counts).pvalue < SIGNIFICANCE)

    def correlated_columns(self, values: np.ndarray) -> np.ndarray:
        """Return a mask of the columns of (n, k) that correlate with the labels (p < 0.01); all without labels."""
        if not len(self.index):
            return np.ones(values.shape[1], dtype=bool)
        columns = values[self.index]
        known = ~np.isnan(columns).any(axis=1)
        columns, labels = columns[known], self.values[known]
        if len(columns) < MIN_ROWS or len(np.unique(labels)) in (1, len(labels)):
            return np.zeros(values.shape[1], dtype=bool)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # constant columns have no correlation
            chance = (f_classif if self.classes else f_regression)(columns, labels)[1]
        return np.nan_to_num(chance, nan=1.0) < SIGNIFICANCE


def _some(rows: np.ndarray) -> np.ndarray:
    """Return a few evenly spaced rows."""
    return rows[:: -(-len(rows) // MIN_COUNTED)]


def known_cells(values: np.ndarray) -> np.ndarray:
    """Return the numbers or codes of non-missing cells."""
    return values[values >= 0] if values.dtype.kind in "iu" else values[~np.isnan(values)]


def _most_frequent(values: np.ndarray) -> tuple[Any, int]:
    """Return the most frequent value and its number of rows; None and 0 if there is none."""
    if not len(values):
        return None, 0
    found, times = np.unique(values, return_counts=True)
    return found[times.argmax()], int(times.max())


def _read(y: Any, n: int, unlabeled: Any) -> Labels | None:
    """Return labels as read; None if there are fewer than two classes."""
    rows = len(y) if hasattr(y, "__len__") else len(np.asarray(y))
    if rows != n:
        raise ValueError(f"y has {rows} rows and X has {n}; pass one label a row.")
    tasks = ("binary", "multiclass", "multilabel", "regression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the estimator that is fitted warns
            return read_labels(y, n, unlabeled=unlabeled, allowed=tasks, estimator="Recipe")
    except ValueError:
        return None
