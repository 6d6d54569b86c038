"""Rows that belong together: read from ``groups=``, dealt to folds as wholes, and found as exact copies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from labelfold.labels import as_array, missing_cells

# A prior: the correlation within groups is estimated as if there were this many further groups in which it is 1. With
# few groups the estimate is too uncertain to rely on.
_CAUTION = 10


@dataclass(frozen=True)
class Groups:
    """A partition of rows.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        The group of each row, from 0 to the number of groups less one.

    Examples
    --------
    >>> groups = Groups(np.array([0, 1, 0]))
    >>> len(groups), groups.without(np.array([1.0, 2.0, 4.0])).tolist()
    (2, [2.0, 5.0, 2.0])
    """

    codes: np.ndarray

    def __len__(self) -> int:
        return int(self.codes.max(initial=-1)) + 1

    @classmethod
    def single(cls, n: int) -> Groups:
        """Return n rows that do not belong together.

        Parameters
        ----------
        n : int
            Number of rows.

        Returns
        -------
        groups : Groups
        """
        return cls(np.arange(n))

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of rows of each group."""
        return np.bincount(self.codes, minlength=len(self))

    @property
    def are_single(self) -> bool:
        """Whether every row is a group by itself."""
        return len(self) == len(self.codes)

    def take(self, index: np.ndarray) -> Groups:
        """Return the groups of some rows, numbered anew.

        Parameters
        ----------
        index : ndarray
            The rows.

        Returns
        -------
        groups : Groups
        """
        return Groups(np.unique(self.codes[index], return_inverse=True)[1].ravel())

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of values over each group.

        Parameters
        ----------
        values : ndarray of shape (..., n)
            Values of the rows.

        Returns
        -------
        sums : ndarray of shape (..., groups)
        """
        out = np.zeros((len(self), *values.shape[:-1]))
        np.add.at(out, self.codes, np.moveaxis(values, -1, 0))
        return np.moveaxis(out, 0, -1)

    def without(self, values: np.ndarray) -> np.ndarray:
        """Return for each row the sum of values over all rows outside its group.

        Parameters
        ----------
        values : ndarray of shape (..., n)
            Values of the rows.

        Returns
        -------
        sums : ndarray of shape (..., n)
        """
        return values.sum(axis=-1, keepdims=True) - self.sums(values)[..., self.codes]

    @cached_property
    def by_size(self) -> list[np.ndarray]:
        """The rows of the groups as arrays (g, m), one array for each size m."""
        order = np.argsort(self.codes, kind="stable")
        start = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        return [
            order[start[self.sizes == m][:, None] + np.arange(m)]
            for m in np.unique(self.sizes[self.sizes > 0])
        ]

    def joined(self, other: Groups) -> Groups:
        """Return the finest groups that hold the rows of each group of both together.

        Parameters
        ----------
        other : Groups
            Another partition of the same rows.

        Returns
        -------
        groups : Groups

        Examples
        --------
        >>> Groups(np.array([0, 0, 1, 2])).joined(Groups(np.array([0, 1, 1, 2]))).codes.tolist()
        [0, 0, 0, 1]
        """
        n, first = len(self.codes), len(self)
        links = sparse.coo_array(
            (
                np.ones(2 * n),
                (np.tile(np.arange(n), 2), n + np.concatenate([self.codes, first + other.codes])),
            ),
            shape=(2 * n + first + len(other),) * 2,
        )
        return Groups(connected_components(links, directed=False)[1][:n]).take(np.arange(n))

    def first(self, preferred: np.ndarray) -> np.ndarray:
        """Return one row of each group, ascending: the first of those in a mask, if there are any.

        Parameters
        ----------
        preferred : ndarray of bool of shape (n,)
            The mask.

        Returns
        -------
        rows : ndarray of shape (groups,)

        Examples
        --------
        >>> Groups(np.array([0, 0, 1, 1])).first(np.array([False, True, False, False])).tolist()
        [1, 2]
        """
        order = np.lexsort((~preferred, self.codes))
        return np.sort(order[np.unique(self.codes[order], return_index=True)[1]])

    def n_groups_by_class(self, codes: np.ndarray) -> np.ndarray:
        """Return the number of groups that hold each class.

        Parameters
        ----------
        codes : ndarray of shape (n,)
            The class of each row, from 0.

        Returns
        -------
        counts : ndarray of shape (c,)
        """
        pairs = np.unique(np.column_stack([self.codes, codes]), axis=0)
        return np.bincount(pairs[:, 1], minlength=int(codes.max(initial=-1)) + 1)

    def effective(self, values: np.ndarray, weights: np.ndarray | None = None) -> float:
        """Return the number of independent rows with as much information about a mean.

        It is n / (1 + (m - 1) r), with m the mean size of the group of a row, and r the correlation within groups
        (from the analysis of variance), which is drawn towards 1 if there are few groups. With weights it is the
        number whose mean has the variance of the weighted mean: a row of weight 2 is one row.

        Parameters
        ----------
        values : ndarray of shape (n,)
            The values of the rows whose mean it is.
        weights : ndarray of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        n_rows : float

        Examples
        --------
        >>> Groups(np.repeat([0, 1], 5)).effective(np.repeat([0.0, 1.0], 5))
        2.0
        >>> Groups.single(3).effective(np.zeros(3), np.array([1.0, 1.0, 2.0])) == 16 / 6
        True
        """
        n, g = len(self.codes), len(self)
        if n == 0:
            return 0.0
        w = np.ones(n) if weights is None else weights
        squares = float(w @ w)
        if self.are_single:
            return float(w.sum()) ** 2 / squares
        means = self.sums(values) / self.sizes
        between = float((means - values.mean()) ** 2 @ self.sizes) / max(g - 1, 1)
        within = float(((values - means[self.codes]) ** 2).sum()) / (n - g)
        usual = (n - (self.sizes**2).sum() / n) / max(g - 1, 1)
        total = between + (usual - 1) * within
        r = min(max((between - within) / total, 0.0), 1.0) if total > 0 else 1.0
        several = int((self.sizes > 1).sum())
        r = (several * r + _CAUTION) / (several + _CAUTION)
        of_groups = float((self.sums(w) ** 2).sum())
        return float(w.sum() ** 2 / (squares + r * (of_groups - squares)))

    def refuse_one_group(self) -> None:
        """Raise an error if all rows, the labelled ones, are in one group."""
        if len(self) < 2:
            raise ValueError(
                f"The {len(self.codes)} labelled rows are in one group, so none can be held out; label rows of other "
                "groups, or leave out the groups."
            )

    def dealt(
        self, Y: np.ndarray, shares: np.ndarray, order: np.ndarray, *, strict: bool = True
    ) -> np.ndarray:
        """Deal whole groups to parts such that every column of Y is split in nearly the same shares.

        Large groups are dealt first, each to the part that has least of what the group holds.

        Parameters
        ----------
        Y : ndarray of shape (l, q)
            0 and 1: the class, the labels, or the range of the number of each row.
        shares : ndarray of shape (k,)
            Shares of the rows; they sum to 1.
        order : ndarray
            A permutation of the groups, which decides between equal ones.
        strict : bool, default=True
            Whether no part may hold all rows of a column.

        Returns
        -------
        ndarray of shape (l,)
            The part of each row. With ``strict``, -1 for no part: for a group that alone has some column, or where
            otherwise all rows of a column would be in one part.

        Examples
        --------
        >>> groups = Groups(np.array([0, 0, 1, 1, 2, 3]))
        >>> groups.dealt(np.eye(2)[[0, 0, 1, 1, 0, 1]], np.array([0.5, 0.5]), np.arange(4)).tolist()
        [0, 0, 1, 1, 1, 0]
        """
        held = self.sums(Y.T.astype(float)).T  # (g, q)
        part = np.full(len(self), -1)
        alone = (held > 0).sum(axis=0) == (1 if strict else -1)
        free = np.logical_not((held[:, alone] > 0).any(axis=1))
        # the last column counts rows
        held = np.hstack([held, self.sizes[:, None]])
        weight = 1 / np.maximum(held[free].sum(axis=0), 1) ** 2
        load = np.zeros((len(shares), held.shape[1]))
        for i in order[np.argsort(-self.sizes[order], kind="stable")]:
            if free[i]:
                cost = ((load + held[i] / 2) * held[i] * weight).sum(axis=1) / shares
                part[i] = int(np.argmin(cost.round(12)))
                load[part[i]] += held[i]
        for column in held[:, :-1].T if strict else ():
            having = np.flatnonzero(column)
            if len(having) and part[having[0]] >= 0 and (part[having] == part[having[0]]).all():
                part[having[0]] = -1
        return part[self.codes]


def read_groups(groups: Any, n_rows: int) -> Groups:
    """Return the groups of n rows; a row whose group is missing is a group by itself.

    Parameters
    ----------
    groups : array-like of shape (n,)
        Names or numbers, equal for rows that belong together. None, NaN and "" are missing.
    n_rows : int
        Number of rows, n.

    Returns
    -------
    Groups

    Examples
    --------
    >>> read_groups(["ann", "bob", None, "ann", None], 5).codes.tolist()
    [0, 1, 2, 0, 3]
    """
    try:
        values, kept, n = as_array(groups, quiet=True)
    except ValueError as error:
        raise ValueError(f"groups cannot be read: {str(error).replace('y is', 'it is', 1)}") from None
    if values.ndim != 1 or n != n_rows:
        shape = f"an array of shape {values.shape}" if values.ndim != 1 else f"{n} values"
        raise ValueError(f"groups is {shape} for {n_rows} rows; pass one value a row, equal within a group.")
    if values.dtype.kind in "fmMO":
        there = ~missing_cells(values)
        values, kept = values[there], kept[there]
    if values.dtype.kind in "OU":
        values = np.array(list(map(str, values)), dtype=str)
        there = np.char.strip(values) != ""
        values, kept = values[there], kept[there]
    codes = np.full(n_rows, -1)
    codes[kept] = np.unique(values, return_inverse=True)[1].ravel()
    alone = np.flatnonzero(codes < 0)
    codes[alone] = int(codes.max(initial=-1)) + 1 + np.arange(len(alone))
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return Groups(np.argsort(np.argsort(first))[inverse.ravel()])


class Copies(NamedTuple):
    """Exact copies among labelled rows.

    Attributes
    ----------
    groups : Groups
        Of the labelled rows; copies are in one group.
    n_copies : int
        Number of labelled rows that are a copy of another labelled row.
    beyond_chance : bool
        Whether labelled rows are copies of each other significantly more often than of other rows.
    usual : bool
        Whether most of them are copies of other rows as well, as they are in a table of few distinct values.
    """

    groups: Groups
    n_copies: int
    beyond_chance: bool
    usual: bool = False


def copies_of(own: np.ndarray, rest: np.ndarray, n_draws: int = 999, level: float = 0.01) -> Copies:
    """Return the exact copies among labelled rows, and whether there are more than other rows account for.

    In a table of few distinct values independent rows are equal too, and most of them equal other rows as well. If
    they are not, and labelled rows are chosen whatever they hold, they equal each other as often as rows drawn from
    all do: a permutation test compares the numbers of equal pairs.

    Parameters
    ----------
    own, rest : ndarray of shape (l,) and (u,)
        Hashes of the labelled rows, and of some or all of the other rows; see `row_hashes`.
    n_draws, level : int, float
        Number of draws, and level, of the test.

    Returns
    -------
    Copies

    Examples
    --------
    >>> found = copies_of(np.array([3, 5, 8, 9, 7, 2] * 2), np.arange(100, 150))
    >>> found.n_copies, found.beyond_chance
    (12, True)
    """
    l = len(own)  # noqa: E741 - as in the docstrings
    codes, counts = _codes_and_counts(own)
    found = Copies(Groups(codes), int((counts[codes] > 1).sum()), False)
    if not found.n_copies or not len(rest):
        return found
    twins = np.isin(own, rest)
    if 2 * np.count_nonzero(twins & (counts[codes] > 1)) > found.n_copies:
        return found._replace(usual=True)
    # rows without a copy are no part of any pair
    every, among = _codes_and_counts(np.concatenate([own, rest]))
    repeated = np.flatnonzero(among[every] > 1)
    kinds = np.unique(every[repeated], return_inverse=True)[1].ravel()
    seen = _pairs(counts)
    rng, at_least = np.random.default_rng(0), 0
    for _ in range(n_draws):
        drawn = rng.hypergeometric(len(repeated), l + len(rest) - len(repeated), l)
        some = rng.permutation(kinds)[:drawn]
        at_least += _pairs(np.bincount(some)) >= seen
    return found._replace(beyond_chance=(at_least + 1) / (n_draws + 1) <= level)


def _pairs(counts: np.ndarray) -> int:
    return int((counts * (counts - 1)).sum()) // 2


def _codes_and_counts(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _, codes, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return codes.ravel(), counts
