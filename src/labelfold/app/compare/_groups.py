"""Rows of a comparison that belong together: given groups, exact copies, and columns that look like groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from labelfold.labels import Labels
from labelfold.model_selection import Groups, copies_of, read_groups
from labelfold.rows import row_hashes
from labelfold.tables import SIGNIFICANCE, Blocks, as_arrow, distinct_text, is_table, is_text

# Names of columns that identify what a row belongs to, and values that do, such as P017.
_NAMED = re.compile(
    r"(?:^|[\W_])(?:u?id|ids|uuid|guid|key|no|nr|num|number|code|ref)$|(?<=[a-z])I[dD]$|"
    r"patient|subject|person|participant|proband|user|customer|client|member|donor|animal|mouse|household|family|"
    r"student|employee|speaker|author|writer|session|batch|plate|slide|device|machine|sensor|site|station|plot|"
    r"account|vehicle|document|visit|case|group|cluster|block|hospital|clinic|centre|center|school|doctor|mail|mrn|"
    r"(?:^|[\W_])(?:name|file|filename|path|url)$",
    re.IGNORECASE,
)
_CODED = re.compile(r"[A-Za-z]{1,12}[-_. #]?\d+[A-Za-z]?")
_WHOLE = re.compile(r"\d+(?:\.0)?")
# A column of whole numbers with another name may be a group if, in the order of its values, the label changes at
# least this often. It changes once at a threshold and twice around an interval; both are what an amount does that
# predicts the label.
_CHANGES = 3
# Most labelled rows share their value with another one, and the value determines the label of nearly all of these: a
# group may hold one wrong label in 20.
_SHARED, _DETERMINED = 0.5, 0.95
# Budget: the draws of the permutation test grow with the number of columns over which its level holds, up to this
# number of columns, where they are 9,950.
_MAX_COLUMNS = 50
# Budget: of tables with more columns only those with names of ids are examined.
_MANY_COLUMNS = 1000
# A text column with fewer values is a category, as colours are; with more it may name what a row belongs to.
_MANY_VALUES = 8


class LikelyGroups(NamedTuple):
    """Rows that may belong together, but are held out one by one.

    Attributes
    ----------
    found : str
        The sentence that says so.
    cure : str
        How to hold them out together.
    groups : Groups
        Of all rows; those without a label are single.
    """

    found: str
    cure: str
    groups: Groups


def groups_of(
    X: Any, labels: Labels, groups: Any, max_others: int = 5_000
) -> tuple[Groups | None, list[str], list[LikelyGroups]]:
    """Return the groups of the rows, as given or of exact copies, sentences about these, and copies that are none.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        The rows as the methods see them.
    labels : Labels
    groups : array-like of shape (n,), or None
        Equal values for rows that belong together.
    max_others : int, default=5_000
        Number of unlabelled rows that are compared with labelled ones.
    """
    n, given = X.shape[0], None if groups is None else read_groups(groups, X.shape[0])
    if given is not None:
        given.take(labels.index).refuse_one_group()
    others = np.flatnonzero(~labels.labelled)
    some = np.sort(np.random.default_rng(0).permutation(others)[:max_others])
    copies = copies_of(row_hashes(X[labels.index]), row_hashes(X[some]))
    if not copies.n_copies:
        return given, [], []
    said = f"{copies.n_copies:,} of the {labels.n_labelled:,} labelled rows are exact copies of another labelled row"
    if given is not None or not copies.beyond_chance:
        cure = "If they are one case recorded several times, remove them, or name a column that says so with --group"
        if copies.usual:
            said, cure = f"{said}, as other rows are too", ""
        likely = LikelyGroups(said, cure, _of_labelled(copies.groups.codes, labels))
        return Groups.single(n) if given is None else given, [], [likely]
    told = f"{said}, far more often than of other rows, so copies are held out together."
    return _of_labelled(copies.groups.codes, labels), [told], []


def _of_labelled(codes: np.ndarray, labels: Labels, some: np.ndarray | None = None) -> Groups:
    """Return the groups of all rows, given those of the labelled rows, or of some of them; other rows are single."""
    every = np.arange(labels.n_rows) + codes.max(initial=-1) + 1
    every[labels.index if some is None else labels.index[some]] = codes
    return Groups(every).take(np.arange(labels.n_rows))


def not_held_together(
    likely: list[LikelyGroups], groups: Groups | None, labels: Labels
) -> list[LikelyGroups]:
    """Return those whose rows the given groups do not hold together already, joined with these groups."""
    if groups is None:
        return likely
    known, kept = groups.take(labels.index), []
    for one in likely:
        both = groups.joined(one.groups)
        if len(both.take(labels.index)) < len(known):
            kept.append(one._replace(groups=both))
    return kept


def likely_groups(table: Any, labels: Labels, ids: Sequence[Any] | None, most: int = 3) -> list[LikelyGroups]:
    """Return columns that look like groups, up to ``most``.

    Such a column has the name or the values of an id, several labelled rows a value, and determines the label. If it
    holds whole numbers under another name, the label must not follow their order.

    Parameters
    ----------
    table : table or matrix of n rows
        A matrix has no such columns.
    labels : Labels
    ids : sequence, or None
        The names of the rows.
    """
    found = []
    index = labels.index
    if ids is not None:
        codes = np.unique(np.asarray(ids, dtype=str)[index], return_inverse=True)[1].ravel()
        if _determines(codes, labels):
            found.append(_proposed("The ids", "their column", codes, labels))
    if not is_table(table):
        return found
    cells, labelled = table_rows(table, index)
    wide = len(cells.column_names) > _MANY_COLUMNS
    for name in cells.column_names:
        column = cells.column(name)
        found_in = None if wide and _NAMED.search(name) is None else distinct_text(column)
        if found_in is None:
            continue
        values, codes = found_in
        here = np.flatnonzero(codes >= 0)
        whole = all(map(_WHOLE.fullmatch, values))
        named = _NAMED.search(name) is not None or all(map(_CODED.fullmatch, values))
        # any text of many values may name what a row belongs to
        if not named and not whole and not (is_text(column.type) and len(values) >= _MANY_VALUES):
            continue
        if not len(here) or not _determines(codes[here], labels, labelled[here], len(cells.column_names)):
            continue
        if _NAMED.search(name) is None and whole:
            first = [
                labels.values[labelled[codes == code][0]]
                for code in np.argsort(np.array(values, dtype=float))
            ]
            if np.count_nonzero(np.diff(first)) < _CHANGES or labels.task not in ("binary", "multiclass"):
                continue
        found.append(_proposed(repr(name), name, codes[here], labels, labelled[here]))
    return found[:most]


def table_rows(table: Any, index: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return some rows of a table as an Arrow table, and their places in ``index``; of blocks those in the sample."""
    every = np.arange(len(index))
    if isinstance(table, Blocks):
        at = np.minimum(np.searchsorted(table.places, index), len(table.places) - 1)
        kept = table.places[at] == index
        return table.sample.take(at[kept]), every[kept]
    return as_arrow(table)[0].take(index), every


def _determines(
    codes: np.ndarray,
    labels: Labels,
    some: np.ndarray | None = None,
    columns: int = 1,
    min_values: int = 4,
) -> bool:
    """Tell whether the value of a column, which several rows share, determines the label beyond chance.

    It has at least ``min_values`` values. The level holds over so many ``columns``.
    """
    values = labels.values if some is None else labels.values[some]
    sizes = np.bincount(codes)
    several = sizes[codes] > 1
    if (sizes > 0).sum() < min_values or several.mean() < _SHARED:
        return False
    codes, values = np.unique(codes[several], return_inverse=True)[1].ravel(), values[several]
    if labels.task == "regression" and values.ndim == 1:
        parts = [values[codes == code] for code in range(codes.max() + 1)]
        left = sum(((part - part.mean()) ** 2).sum() for part in parts)
        total = ((values - values.mean()) ** 2).sum()
        sure = left <= (1 - _DETERMINED) * total and len(parts) > 1
        return bool(sure and stats.f_oneway(*parts).pvalue < SIGNIFICANCE)
    kinds = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    if codes.max() < kinds.max() + 2:  # no more values than a column that tells the classes apart needs
        return False

    def agreeing(kinds: np.ndarray) -> int:
        table = np.zeros((codes.max() + 1, kinds.max() + 1), dtype=int)
        np.add.at(table, (codes, kinds), 1)
        return int(table.max(axis=1).sum())

    seen = agreeing(kinds)
    if seen < _DETERMINED * len(codes):
        return False
    # twice as many draws as the level needs
    columns = min(columns, _MAX_COLUMNS)
    rng, draws = np.random.default_rng(0), (round(2 / SIGNIFICANCE) - 1) * columns
    at_least, allowed = 0, int(SIGNIFICANCE / columns * (draws + 1))
    for _ in range(draws):
        at_least += agreeing(rng.permutation(kinds)) >= seen
        if at_least + 1 > allowed:
            return False
    return True


def _proposed(
    title: str, option: str, codes: np.ndarray, labels: Labels, some: np.ndarray | None = None
) -> LikelyGroups:
    n_values = len(np.unique(codes))
    said = f"{title} may say which rows belong together: {n_values} values determine {len(codes)} labels"
    return LikelyGroups(said, f"Use --group with {option} if they do", _of_labelled(codes, labels, some))
