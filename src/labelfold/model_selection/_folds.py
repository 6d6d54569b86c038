"""Cross-validation that holds out labelled rows only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from labelfold.labels import encode, read_batch
from labelfold.model_selection._groups import Groups, read_groups

# Numbers count as this many classes: ranges of equally many rows.
RANGES = 5


class SemiSupervisedKFold(BaseCrossValidator):
    """K folds of the labelled rows; every unlabelled row is in training in all of them.

    Folds are stratified by class, by the labels of a multi-label Y (Sechidis, Tsoumakas & Vlahavas 2011), or by the
    size of continuous targets. Every class and label stays in training in every fold, so the only labelled row of a
    class is never held out. With ``groups`` the rows of a group are held out together.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Whether to draw the folds at random; otherwise they follow the order of the rows.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling.
    unlabeled : number, str or None, default=-1
        The value of y that marks an unlabelled row; missing values always do.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds classes or numbers; "auto" reads floats with fractions as numbers.

    Examples
    --------
    >>> y = [0, 1, 0, 1, -1, -1, 0, 1]
    >>> for train, test in SemiSupervisedKFold(3).split(y, y):
    ...     print(train, test)
    [2 3 4 5 6 7] [0 1]
    [0 1 4 5 6 7] [2 3]
    [0 1 2 3 4 5] [6 7]
    """

    # with metadata routing the groups are asked for
    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        unlabeled: Any = -1,
        task: str = "auto",
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabeled = unlabeled
        self.task = task

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows to train on and the rows to test on, fold by fold.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Only its number of rows is used; it may be None.
        y : array-like of shape (n,) or (n, c)
            Labels in any form that the estimators take.
        groups : array-like of shape (n,), optional
            Rows with an equal value belong together, such as the visits of a patient; rows without a value do not.
            The labelled rows of a group are held out in the same fold. A group that alone has some class stays in
            training.

        Yields
        ------
        train, test : ndarray of int
            Ascending indices. Together they are all rows.
        """
        if not isinstance(self.n_splits, int | np.integer) or self.n_splits < 2:
            raise ValueError(f"n_splits is the number of folds, at least 2, not {self.n_splits!r}.")
        known = LabelStrata.of(X, y, self.unlabeled, self.task, groups)
        rng = check_random_state(self.random_state) if self.shuffle else None
        fold = known.folds(self.n_splits, rng)
        n_held = len(set(fold.tolist()) - {-1})
        if n_held < self.n_splits:
            what, can, every = "labelled rows", int(np.sum(fold >= 0)), len(fold)
            if known.groups is not None:
                what, every = "groups of labelled rows", len(known.groups)
                can = len(set(known.groups.codes[fold >= 0].tolist()))
            raise ValueError(
                f"{self.n_splits} folds need as many {what} that can be held out, and {can} of the {every} can (the "
                "last of a class stays in training); ask for fewer folds, or label more rows."
            )
        for i in range(self.n_splits):
            test = known.index[fold == i]
            yield known.without(test), test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object
            Not used.

        Returns
        -------
        n_splits : int
        """
        return self.n_splits


class RepeatedSemiSupervisedKFold(BaseCrossValidator):
    """Repeated `SemiSupervisedKFold` with different draws.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    n_repeats : int, default=10
        Number of draws.
    random_state : int, RandomState instance or None, default=None
        Seed. With more repeats and the same seed the first repeats stay the same.
    unlabeled : number, str or None, default=-1
        The value of y that marks an unlabelled row; missing values always do.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds classes or numbers; "auto" reads floats with fractions as numbers.

    Examples
    --------
    >>> y = [0, 1, 0, 1, -1, -1, 0, 1]
    >>> len(list(RepeatedSemiSupervisedKFold(3, n_repeats=4, random_state=0).split(y, y)))
    12
    """

    # with metadata routing the groups are asked for
    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(
        self,
        n_splits: int = 5,
        *,
        n_repeats: int = 10,
        random_state: Any = None,
        unlabeled: Any = -1,
        task: str = "auto",
    ) -> None:
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.random_state = random_state
        self.unlabeled = unlabeled
        self.task = task

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows to train on and the rows to test on, fold by fold and repeat by repeat.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Only its number of rows is used; it may be None.
        y : array-like of shape (n,) or (n, c)
            Labels in any form that the estimators take.
        groups : array-like of shape (n,), optional
            Rows with an equal value are held out together; see `SemiSupervisedKFold.split`.

        Yields
        ------
        train, test : ndarray of int
            Ascending indices. Together they are all rows.
        """
        if self.n_repeats < 1:
            raise ValueError(f"n_repeats is at least 1, not {self.n_repeats!r}.")
        rng = check_random_state(self.random_state)
        for _ in range(self.n_repeats):
            once = SemiSupervisedKFold(
                self.n_splits,
                shuffle=True,
                random_state=rng.randint(2**31 - 1),
                unlabeled=self.unlabeled,
                task=self.task,
            )
            yield from once.split(X, y, groups)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds of all repeats together.

        Parameters
        ----------
        X, y, groups : object
            Not used.

        Returns
        -------
        n_splits : int
        """
        return self.n_splits * self.n_repeats


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
        grouped = None if groups is None else read_groups(groups, n).take(index)
        return cls(kind, n, index, values, None if grouped is None or grouped.are_single else grouped)

    @property
    def indicator(self) -> np.ndarray:
        """The indicator of labels, bool (l, c); multi-label rows without labels get an extra one."""
        if self.kind == "classes":
            return np.arange(self.values.max() + 1) == self.values[:, None]
        given = self.values > 0
        none = ~given.any(axis=1, keepdims=True)
        return np.hstack([given, none]) if none.any() else given

    def folds(self, k: int, rng: np.random.RandomState | None) -> np.ndarray:
        """Return the fold of each labelled row; -1 for a row that stays in training."""
        n, shares = len(self.index), np.full(k, 1 / k)
        if self.groups is not None:
            return self.dealt(shares, rng)
        if self.kind == "multilabel":
            return spread_labels(self.indicator, shares, _order(n, rng))
        fold = np.full(n, -1)
        if (
            self.kind == "classes"
        ):  # in turn, class by class: class sizes and fold sizes differ by at most one row
            order = _order(n, rng)
            order = order[np.argsort(self.values[order], kind="stable")]
            order = order[np.bincount(self.values)[self.values[order]] > 1]
            fold[order] = np.arange(len(order)) % k
            return fold
        # in order of the (first) target, so that every fold spans its range
        order = np.argsort(self.values.reshape(n, -1)[:, 0], kind="stable")
        for start in range(0, n, k):
            some = order[start : start + k]
            fold[some] = _order(k, rng)[: len(some)]
        return fold

    def dealt(
        self, shares: np.ndarray, rng: np.random.Generator | np.random.RandomState | None
    ) -> np.ndarray:
        """Return the part of each labelled row if whole groups are dealt to parts; -1 for no part."""
        assert self.groups is not None
        order = np.arange(len(self.groups)) if rng is None else rng.permutation(len(self.groups))
        if self.kind != "regression":
            return self.groups.dealt(self.indicator, shares, order)
        target = self.values.reshape(len(self.values), -1)[:, 0]
        place = np.argsort(np.argsort(target, kind="stable")) * min(RANGES, len(target)) // len(target)
        return self.groups.dealt(np.eye(RANGES)[place], shares, order, strict=False)

    def without(self, held: np.ndarray) -> np.ndarray:
        """Return all rows but the test rows, ascending."""
        rest = np.ones(self.n, dtype=bool)
        rest[held] = False
        return np.flatnonzero(rest)


def _order(n: int, rng: np.random.RandomState | None) -> np.ndarray:
    return np.arange(n) if rng is None else rng.permutation(n)


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
