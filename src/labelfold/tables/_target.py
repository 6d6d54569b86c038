"""Compares columns with the labels: columns that repeat the target, and informative missing cells."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import stats
from sklearn.feature_selection import f_classif, f_regression

from labelfold.labels import Labels, read_labels

# A column that maps one to one onto the target in at least this many labelled rows is a leak.
LEAST_ROWS = 30
_FEWEST_NAMED = 10
_SIGNIFICANT = 0.01


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
    """

    def __init__(self, y: Any, n: int, unlabeled: Any = -1) -> None:
        self.index, self.values, self.classes = np.empty(0, dtype=int), np.empty(0), True
        if y is None:
            return
        labels = y if isinstance(y, Labels) else _read(y, n, unlabeled)
        if labels is None or np.ndim(labels.values) > 1:  # several labels a row are not compared with columns
            return
        self.index, self.classes = np.asarray(labels.index), labels.task != "regression"
        self.values = np.asarray(labels.values)

    def at(self, places: np.ndarray) -> Target:
        """Return the labels of some rows, given by ascending indices."""
        some = Target(None, len(places))
        here = np.searchsorted(places, self.index)
        there = (here < len(places)) & (places[np.minimum(here, len(places) - 1)] == self.index)
        some.index, some.values, some.classes = here[there], self.values[there], self.classes
        return some

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
        if len(column) < _FEWEST_NAMED:
            return 0
        if not self.classes:
            if np.ptp(column) == 0 or np.ptp(values) == 0:
                return 0
            r = abs(np.corrcoef(column, values)[0, 1])
            return len(column) if r > 1 - 1e-12 else 0
        few = slice(0, 2 * LEAST_ROWS)  # these rows rule out most columns
        for part in (few, slice(None)):
            a, b = column[part], values[part]
            pairs = len(np.unique(np.column_stack([a, b]), axis=0))
            if not pairs == len(np.unique(a)) == len(np.unique(b)):
                return 0
        # distinct values map one to one onto any target
        return len(column) if 1 < pairs <= len(column) // 2 else 0

    def told_by(self, missing: np.ndarray) -> bool:
        """Tell whether missing cells predict the labels (p below 0.01)."""
        gone = missing[self.index] if len(self.index) else np.empty(0, dtype=bool)
        if gone.sum() < 5 or (~gone).sum() < 5:
            return False
        if not self.classes:
            return bool(stats.mannwhitneyu(self.values[gone], self.values[~gone]).pvalue < _SIGNIFICANT)
        codes = self.values.astype(int)
        counts = np.array([np.bincount(codes[part], minlength=codes.max() + 1) for part in (gone, ~gone)])
        counts = counts[:, counts.sum(axis=0) > 0]
        return counts.shape[1] > 1 and bool(stats.chi2_contingency(counts).pvalue < _SIGNIFICANT)

    def goes_with(self, values: np.ndarray) -> np.ndarray:
        """Return a mask of the columns of (n, k) that correlate with the labels (p < 0.01); all without labels."""
        if not len(self.index):
            return np.ones(values.shape[1], dtype=bool)
        columns = values[self.index]
        known = ~np.isnan(columns).any(axis=1)
        columns, labels = columns[known], self.values[known]
        if len(columns) < _FEWEST_NAMED or len(np.unique(labels)) in (1, len(labels)):
            return np.zeros(values.shape[1], dtype=bool)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # constant columns have no correlation
            chance = (f_classif if self.classes else f_regression)(columns, labels)[1]
        return np.nan_to_num(chance, nan=1.0) < _SIGNIFICANT


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
