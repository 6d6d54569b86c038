"""Reads y for the splitters: which rows are labelled, and the strata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labelfold.labels import encode, read_batch
from labelfold.model_selection._groups import Groups, deal_groups, read_groups

# Ranges of equally many numbers, whose rows are dealt evenly.
_RANGES = 5


@dataclass(frozen=True)
class LabelStrata:
    """The labelled rows of y.

    Attributes
    ----------
    kind : {"classes", "multilabel", "regression"}
    n : int
        Number of rows.
    index : ndarray of shape (l,)
        Indices of the labelled rows, ascending.
    values : ndarray
        Class codes (l,), a 0/1 indicator (l, c), or targets (l,) or (l, t).
    groups : Groups or None
        The groups of the labelled rows, which are held out as wholes.
    """

    kind: str
    n: int
    index: np.ndarray
    values: np.ndarray
    groups: Groups | None = None

    @classmethod
    def of(cls, X: Any, y: Any, unlabeled: Any, task: str = "auto", groups: Any = None) -> LabelStrata:
        """Read y, and the groups of its rows if there are any. Of X only the number of rows is used."""
        if y is None:
            raise ValueError(
                "A split of partly labelled rows needs y; pass one label a row, with -1, NaN or None where there is "
                "none."
            )
        kind, mask, values = read_batch(y, unlabeled=unlabeled, task=task)
        n = len(mask) if X is None else (X.shape[0] if hasattr(X, "shape") else len(X))
        if n != len(mask):
            raise ValueError(
                f"y has {len(mask)} rows and X has {n}; pass one label, or one unlabelled mark, a row."
            )
        if not mask.any():
            raise ValueError(
                f"y has no labelled row among its {n}, so none can be held out; label some of them."
            )
        if kind == "classes":
            values = encode(values, as_text=False)[1]
        index = np.flatnonzero(mask)
        grouped = None if groups is None else read_groups(groups, n).some(index)
        return cls(kind, n, index, values, None if grouped is None or grouped.are_single else grouped)

    @property
    def indicator(self) -> np.ndarray:
        """The indicator of labels, bool (l, c); multi-label rows without labels get an extra one."""
        if self.kind == "classes":
            return np.arange(self.values.max() + 1) == self.values[:, None]
        given = self.values > 0
        none = ~given.any(axis=1, keepdims=True)
        return np.hstack([given, none]) if none.any() else given

    def dealt(
        self, shares: np.ndarray, rng: np.random.Generator | np.random.RandomState | None
    ) -> np.ndarray:
        """Return the part of each labelled row if whole groups are dealt to parts; -1 for no part."""
        assert self.groups is not None
        order = np.arange(len(self.groups)) if rng is None else rng.permutation(len(self.groups))
        if self.kind != "regression":
            return deal_groups(self.indicator, self.groups, shares, order)
        target = self.values.reshape(len(self.values), -1)[:, 0]
        place = np.argsort(np.argsort(target, kind="stable")) * min(_RANGES, len(target)) // len(target)
        return deal_groups(np.eye(_RANGES)[place], self.groups, shares, order, strict=False)

    def without(self, held: np.ndarray) -> np.ndarray:
        """Return all rows but the test rows, ascending."""
        rest = np.ones(self.n, dtype=bool)
        rest[held] = False
        return np.flatnonzero(rest)


def spread_labels(Y: np.ndarray, shares: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Assign multi-label rows to parts such that every label is split in the same shares.

    Iterative stratification (Sechidis, Tsoumakas & Vlahavas 2011): the rarest label first, each of its rows to the
    part that lacks most rows of this label.

    Parameters
    ----------
    Y : ndarray of bool, shape (l, c)
        Indicator of the labels.
    shares : ndarray of shape (k,)
        Shares of the rows; they sum to 1.
    order : ndarray of shape (l,)
        The order in which rows are assigned.

    Returns
    -------
    ndarray of shape (l,)
        The part of each row; -1 for no part, if the row is the only one with some label, or if otherwise all rows
        with that label would be in one part.
    """
    part = np.full(len(Y), -1)
    free = np.logical_not(Y[:, Y.sum(axis=0) == 1].any(axis=1))
    want = shares[:, None] * Y[free].sum(axis=0)  # rows of each label that each part lacks
    room = shares * free.sum()
    while free.any():
        left = Y[free].sum(axis=0)
        rarest = int(np.argmin(np.where(left > 0, left, np.inf)))
        for row in order[free[order] & Y[order, rarest]]:
            # the part that lacks most; in a tie the one with most room
            best = int(np.lexsort((-room, -want[:, rarest]))[0])
            part[row] = best
            want[best] -= Y[row]
            room[best] -= 1
            free[row] = False
    for label in np.flatnonzero(Y.any(axis=0)):
        having = np.flatnonzero(Y[:, label])
        if part[having[0]] >= 0 and (part[having] == part[having[0]]).all():
            part[having[0]] = -1  # all its rows were assigned to one part by other labels
    return part
