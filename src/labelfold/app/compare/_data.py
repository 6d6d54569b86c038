"""The data of a comparison: X, names of columns and rows, and labels, read once and checked before any run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array

from labelfold.app.compare._groups import (
    LikelyGroups,
    groups_of,
    likely_groups,
    not_held_together,
    table_rows,
)
from labelfold.app.compare._scores import Measure, measure_for
from labelfold.app.io import MAX_CLASSES_AS_NUMBERS, Table, count, listed, pd, without_gaps
from labelfold.app.registry import Facts, chosen_form, full_y
from labelfold.labels import Labels, read_labels, wording
from labelfold.model_selection import Groups
from labelfold.rows import dense
from labelfold.tables import Differences, Recipe, as_arrow, in_memory, is_table, pixel_columns

# A choice of presentation: a column is unlike if something is true of its labelled and of its other values in shares
# that differ by at least this. The expected score is then also given without such columns.
_UNLIKE = 0.5
_TASKS = ("binary", "multiclass", "multilabel", "regression")
# Up to this many labelled rows may all have different classes, as when labelling begins with one row of each class.
_MAX_UNSHARED = 30


@dataclass(frozen=True)
class Data:
    """The data of a comparison.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, d)
        The rows.
    y : ndarray
        Class codes with -1 for unlabelled rows; for several labels a row 0 and 1, or numbers, with NaN for
        unlabelled.
    labels : Labels
        The labels as read.
    names : list of str, or None
        Names of the columns.
    ids : list of str, or None
        Names of the rows.
    facts : Facts
        Properties that decide which methods suit.
    notes : list of str
        Sentences for the user.
    doubts : list of str
        Those notes that say how an ambiguous y was read, and what may make the expected score wrong.
    recipe : Recipe or None
        The fitted recipe, if X was a table.
    groups : Groups or None
        Rows that belong together, as given or because they are copies.
    likely_groups : list of LikelyGroups
        Rows that may belong together.
    unlike : dict of str to ndarray
        The columns in which labelled rows differ very much from the others, with the columns of X made of them.
    """

    X: Any
    y: np.ndarray
    labels: Labels
    names: list[str] | None
    ids: list[str] | None
    facts: Facts
    notes: list[str]
    doubts: list[str]
    recipe: Recipe | None = None
    groups: Groups | None = None
    likely_groups: list[LikelyGroups] = field(default_factory=list)
    unlike: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def group_codes(self) -> np.ndarray | None:
        """The group of each row, if there are groups."""
        return None if self.groups is None else self.groups.codes

    @property
    def known_groups(self) -> Groups | None:
        """The groups of the labelled rows, if there are groups."""
        return None if self.groups is None else self.groups.take(self.labels.index)

    @property
    def testable(self) -> np.ndarray:
        """Mask of the labelled rows whose class is in another labelled row, of another group; all without classes."""
        if self.labels.task not in ("binary", "multiclass"):
            return np.ones(self.labels.n_labelled, dtype=bool)
        codes, groups = self.labels.values, self.known_groups
        return (self.counts() if groups is None else groups.n_groups_by_class(codes))[codes] > 1

    @property
    def classes(self) -> list[str]:
        """The classes, or labels, as text; empty if y holds numbers."""
        # whole numbers that are floats only because of NaN are shown without a decimal point
        return [str(int(c)) if isinstance(c, float) and c == int(c) else str(c) for c in self.labels.classes]

    @property
    def truth(self) -> np.ndarray:
        """The labels of the labelled rows: class codes (l,), 0/1 labels (l, c), or numbers (l,)."""
        return self.labels.values.astype(int) if self.facts.multilabel else self.labels.values

    @property
    def unlabelled(self) -> np.ndarray:
        """Indices of the unlabelled rows."""
        return np.flatnonzero(~self.labels.labelled)

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Return the positions of labelled rows among all labelled rows."""
        return np.searchsorted(self.labels.index, rows)

    def with_recipe(self, model: Any) -> Any:
        """Return a model fitted on X as one that takes the user's rows, by a pipeline with the recipe."""
        if self.recipe is None:
            return model
        steps = model.steps if isinstance(model, Pipeline) else [("model", model)]
        return Pipeline([("recipe", self.recipe), *steps])

    def column(self, j: int) -> str:
        """Return the name of a column."""
        return self.names[j] if self.names else f"column {j}"

    def row(self, i: int) -> str:
        """Return the name of a row: its id, or its number from 1."""
        return self.ids[i] if self.ids else f"row {i + 1}"

    def named(self, y: Any) -> str:
        """Return a label as text, from a class code, a row of 0/1 labels, or a number."""
        if self.facts.numbers:
            return "" if np.isnan(y) else f"{y:.6g}"
        if np.ndim(y) == 0:
            return "" if y < 0 else self.classes[int(y)]
        if np.isnan(y).any():
            return ""
        return ", ".join(c for c, has in zip(self.classes, y, strict=True) if has) or "none of them"

    def targets(self) -> np.ndarray:
        """Return y with the user's classes and None for unlabelled rows, to fit the delivered model."""
        if self.facts.multilabel or self.facts.numbers:
            return self.y
        values = np.asarray(self.labels.classes)[self.labels.values]
        if self.labels.all_labelled:
            return values
        y = np.full(self.labels.n_rows, None, dtype=object)
        y[self.labels.index] = values
        return y

    def counts(self) -> np.ndarray:
        """Return the number of labelled rows of each class or label; empty if y holds numbers."""
        return np.zeros(0, dtype=int) if self.facts.numbers else self.labels.counts()

    @property
    def in_unit(self) -> bool:
        """Whether the recipe scaled all columns, as it does if some are not plain numbers."""
        return self.recipe is not None and self.recipe.scales_numbers

    def chosen_form(self, scale: bool | str | None) -> tuple[str, str]:
        """Return the form of the columns, and a sentence about it; see `labelfold.app.registry.chosen_form`."""
        return chosen_form(self.X, scale, self.column, in_unit=self.in_unit)

    def checked_sizes(self, components: int | Sequence[int]) -> list[int]:
        """Return the given numbers of components, sorted, after a check."""
        d = self.X.shape[1]
        sizes = whole_numbers("components", components)
        if not sizes or sizes[0] < 1:
            raise ValueError(f"components are sizes of the embedding, at least 1, not {components}.")
        if sizes[-1] > d:
            raise ValueError(
                f"An embedding of {sizes[-1]} components is larger than X, which has {d} columns."
            )
        return sizes

    @property
    def measure(self) -> Measure:
        """The score of predictions of the labels."""
        return measure_for(self.labels.task, self.counts())

    def fingerprint(self, *settings: Any) -> str:
        """Return a digest of the rows, labels and settings; results with the same digest can be compared."""
        digest = hashlib.sha256(repr((self.X.shape, self.classes, settings)).encode())
        parts = (self.X.data, self.X.indices, self.X.indptr) if self.facts.sparse else (self.X,)
        groups = () if self.groups is None else (self.groups.codes,)
        for part in (*parts, self.y, *groups):
            digest.update(str(part.dtype).encode())
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()


def read_data(
    X: Any,
    y: Any,
    *,
    unlabeled: Any = -1,
    ids: Sequence[Any] | None = None,
    recipe: Recipe | None = None,
    task: str = "auto",
    images: bool = False,
    feature_names: Sequence[Any] | None = None,
    groups: Any = None,
) -> Data:
    """Read and check the rows and labels of a comparison.

    With ``images`` the numbered columns of a table are pixels and are all kept. ``feature_names`` are the names of
    the columns of a matrix. Rows with an equal value of ``groups`` belong together.
    """
    X, filled = without_gaps(in_memory(X, "compare"))
    read: list[Any] = []

    def labels_of(n: int) -> Labels:
        read.extend(read_target_labels(y, n, unlabeled=unlabeled, task=task))
        return read[0]

    X = table = as_arrow(X)[0] if is_table(X) else X  # a stream gives its rows once
    X, names, made, called = as_matrix(
        X, labels_of, recipe=recipe, images=images, feature_names=feature_names, groups=groups
    )
    labels, doubts = read
    facts = Facts.of(X, labels)
    ids = called if ids is None else ids
    if ids is not None and len(ids) != X.shape[0]:
        raise ValueError(f"There are {len(ids)} ids for {X.shape[0]} rows; pass one a row.")
    together, about, likely = groups_of(X, labels, groups)
    likely = not_held_together(
        [*likely, *likely_groups(table, labels, ids)], None if groups is None else together, labels
    )
    different = _differences(X, names, labels, facts, made, together, table if groups is None else None)
    n_columns = X.shape[1] if made is None else len(made.used_)
    leaks = [] if made is None else [f"{line}." for line in made.leak_lines()]
    warned = [*leaks, *Differences.sentences(different, n_columns)]
    doubts = [*doubts, *_classes_not_held_out(labels, together), *warned, *about]
    return Data(
        X,
        full_y(labels),
        labels,
        names,
        None if ids is None else [str(i) for i in ids],
        facts,
        [*doubts, *filled, *_notes(X, names, labels)],
        doubts,
        made,
        together,
        likely,
        _unlike(different, made),
    )


class NumberMatrix(NamedTuple):
    """Rows as a matrix of numbers.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
    names : list of str, or None
        Names of the columns.
    recipe : Recipe or None
        The fitted recipe.
    ids : list of str, or None
        Names of the rows, from the id columns that the recipe found.
    """

    X: Any
    names: list[str] | None
    recipe: Recipe | None = None
    ids: list[str] | None = None

    def image_sides(self, image_shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Return the shape of images: the given one or that of the column names; None if rows are not images."""
        return image_sides(self.X.shape[1], self.names, image_shape)


def as_matrix(
    X: Any,
    labels_of: Callable[[int], Any],
    *,
    recipe: Recipe | None = None,
    images: bool = False,
    feature_names: Sequence[Any] | None = None,
    groups: Any = None,
) -> NumberMatrix:
    """Return rows as a matrix of numbers.

    A recipe converts tables, arrays with missing cells, and arrays with a column that tells which rows are labelled.

    Parameters
    ----------
    X : table, array or sparse matrix
    labels_of : callable
        ``labels_of(n)`` returns the labels of n rows, or None. It is called before the recipe is fitted.
    recipe, images, feature_names
        See `read_data`.
    """
    if is_table(X) or has_gaps(X):
        table = as_arrow(X)[0] if is_table(X) else X
        labels = labels_of(table.num_rows if is_table(table) else len(table))
        made = Recipe() if recipe is None else clone(recipe)
        if images and is_table(table):
            made.keep_vectors(table.column_names)
        X = made.fit_transform(table, labels, groups)
        return NumberMatrix(
            X, [str(name) for name in made.get_feature_names_out()], made, made.row_names(table)
        )
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    labels = labels_of(X.shape[0])
    names = None if feature_names is None else [str(name) for name in feature_names]
    if names is not None and len(names) != X.shape[1]:
        raise ValueError(f"There are {len(names)} feature_names for {X.shape[1]} columns; pass one a column.")
    made = Recipe() if recipe is None else clone(recipe)
    called = [f"x{j}" for j in range(X.shape[1])] if names is None else names
    kept = made.kept(called)
    if sp.issparse(X) or images or pixel_columns(called)[1] is not None or len(set(called)) < len(called):
        return NumberMatrix(X, names)
    if kept.issuperset(made.leaks_in(X, labels, groups, called)):
        return NumberMatrix(X, names)
    made.set_params(number=["*"])
    X = made.fit_transform(X if names is None else as_arrow(X)[0].rename_columns(names), labels, groups)
    return NumberMatrix(X, [str(name) for name in made.get_feature_names_out()], made)


def whole_numbers(name: str, values: Any) -> list[int]:
    """Return whole numbers sorted, without duplicates."""
    try:
        numbers = [int(v) for v in np.atleast_1d(values)]
        if any(number != v for number, v in zip(numbers, np.atleast_1d(values), strict=True)):
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(f"{name} are whole numbers, such as [10, 50], not {values!r}.") from None
    return sorted(set(numbers))


def has_gaps(X: Any) -> bool:
    """Tell whether an array has cells that are not finite numbers. A recipe then converts it.

    >>> has_gaps([[1.0, np.nan]]), has_gaps([["a", 2]]), has_gaps([[1, 2]])
    (True, True, False)
    """
    array = np.asarray(X)  # a sparse matrix becomes an object array without dimensions
    return array.ndim == 2 and (
        array.dtype.kind in "OUS" or (array.dtype.kind == "f" and not np.isfinite(array).all())
    )


def medians(X: Any, max_rows: int = 10_000) -> np.ndarray:
    """Return the median of each column, over at most ``max_rows`` evenly spaced rows.

    >>> medians(np.array([[1.0, 2.0], [3.0, 2.0], [9.0, 5.0]])).tolist()
    [3.0, 2.0]
    """
    return np.median(X[:: -(-len(X) // max_rows)], axis=0)


def _differences(
    X: Any,
    names: list[str] | None,
    labels: Labels,
    facts: Facts,
    recipe: Recipe | None,
    groups: Groups | None,
    table: Any,
) -> list[dict[str, Any]]:
    """Return the columns in which labelled rows differ from the others, the largest difference first.

    If there are groups that the recipe was not told, which are copies, it is fitted once more on one row of each.
    """
    one = None if groups is None or groups.are_single else groups.first(labels.labelled)
    if recipe is not None:
        if one is None or table is None:
            return recipe.differences_
        some, kept = table_rows(table, one)
        try:
            found = clone(recipe).fit(some, _labels_at(labels, one[kept])).differences_
        except ValueError:  # no column of these rows can be used
            return []
        return [column for column in found if column["name"] in recipe.used_]
    taking_part = None if one is None else np.isin(np.arange(X.shape[0]), one)
    found = Differences(labels.labelled, X.shape[1], taking_part)
    add = found.add_sparse if facts.sparse else found.add_matrix
    add(X, str)
    result = []
    for column in found.result(X.shape[1]):
        j = int(column["name"])
        result.append({**column, "name": names[j] if names else f"column {j}", "at": j})
    return result


def _labels_at(labels: Labels, index: np.ndarray) -> Labels:
    """Return the labels of some rows, given by ascending indices."""
    labelled = labels.labelled[index]
    values = labels.values[np.searchsorted(labels.index, index[labelled])]
    return Labels(labels.task, labels.classes, labelled, np.flatnonzero(labelled), values)


def _unlike(different: list[dict[str, Any]], recipe: Recipe | None) -> dict[str, np.ndarray]:
    """Return the columns that differ very much, with the columns of X that are made of them."""
    found: dict[str, np.ndarray] = {}
    far = [one for one in different if one["distance"] >= _UNLIKE]
    owners = recipe.owners() if recipe is not None and far else []
    for one in far:
        if recipe is None:
            found[one["name"]] = np.append(found.get(one["name"], np.empty(0)), one["at"]).astype(int)
            continue
        # an item of a list, as in vector[3], stands for the list
        name = one["name"] if one["name"] in recipe.used_ else one["name"].rpartition("[")[0]
        found[name] = np.flatnonzero([owner == name for owner in owners])
    return found


def _classes_not_held_out(labels: Labels, groups: Groups | None) -> list[str]:
    """Return a sentence about classes with labelled rows in one group, or one labelled row, that are not held out."""
    if labels.task not in ("binary", "multiclass"):
        return []
    together = groups is not None and not groups.are_single
    held = (
        groups.take(labels.index).n_groups_by_class(labels.values) if groups is not None else labels.counts()
    )
    single = [str(c) for c, times in zip(labels.classes, held, strict=True) if times == 1]
    if not single or (len(single) == len(labels.classes) and not together):
        return []
    which, has = listed(single, most=3), "has" if len(single) == 1 else "have"
    what, more = (
        ("labelled rows in one group only", "in other groups") if together else ("one labelled row only", "")
    )
    return [
        f"{which} {has} {what}: how well such rows are predicted cannot be measured, and the expected score leaves "
        f"them out. Label more of them{' ' * bool(more)}{more}."
    ]


def _notes(X: Any, names: list[str] | None, labels: Labels) -> list[str]:
    notes = []
    if labels.all_labelled:
        notes.append("Every row has a label, so this is supervised learning.")
    flat = constant_columns(X)
    if len(flat):
        which = listed([names[j] for j in flat] if names else flat, most=3)
        many = f"{len(flat)} columns hold" if len(flat) > 1 else "1 column holds"
        notes.append(f"{many} one value only and cannot help: {which}.")
    return notes


def outweighing(data: Data, times_usual: float = 30) -> list[str]:
    """Return a sentence about a column whose standard deviation is so many times the median one, if there is one.

    Pixels and counts stay far below.
    """
    if data.facts.sparse:
        return []
    spread = data.X.std(axis=0, dtype=np.float64)
    varying = spread[spread > 0]
    if not len(varying) or varying.max() <= times_usual * np.median(varying):
        return []
    widest, times = data.column(int(spread.argmax())), varying.max() / np.median(varying)
    return [
        f"{widest} varies {times:,.0f} times as much as a typical column and outweighs the others; --scale (in "
        "Python: scale=True) brings all to a common scale."
    ]


def constant_columns(X: Any) -> np.ndarray:
    """Return the indices of the constant columns."""
    low, high = dense(X.min(axis=0)), dense(X.max(axis=0))
    return np.flatnonzero(low == high)


def read_target_labels(
    y: Any,
    n_rows: int | None = None,
    *,
    unlabeled: Any = -1,
    task: str = "auto",
    estimator: str = "compare",
) -> tuple[Labels, list[str]]:
    """Read and check a target.

    Fractions are numbers, and text is classes. Whole numbers are classes, unless there are more than 20 different
    ones, more than half as many as labelled rows, and they are not codes that count up from 0 or 1.

    Parameters
    ----------
    y : array-like
        The target, in any form that `labelfold.labels.read_labels` takes.
    n_rows : int, optional
        Rows of X.
    unlabeled : number, str or None, default=-1
        The value that means unlabelled, besides missing values.
    task : {"auto", "classification", "regression"}, default="auto"
        Overrides the rule above.
    estimator : str
        Name of the caller, for messages.

    Returns
    -------
    labels : Labels
    notes : list of str
        How an ambiguous target was read.

    Examples
    --------
    >>> rents = [410, 395, 1200, 655, 880, 540] * 4 + list(range(2000, 2060, 3))
    >>> labels, notes = read_target_labels(rents)
    >>> labels.task, notes[0][:56]
    ('regression', 'The target holds 26 different whole numbers in 44 labell')
    """
    labels = read_labels(y, n_rows, unlabeled=unlabeled, task=task, allowed=_TASKS, estimator=estimator)
    notes: list[str] = []
    if labels.task == "multiclass" and task == "auto":
        _refuse_ids(labels)
        many = labels.n_classes > max(MAX_CLASSES_AS_NUMBERS, labels.n_labelled / 2)
        if many and labels.classes.dtype.kind in "iuf":
            as_numbers = not _are_codes(labels.classes)
            notes = [_how_it_was_read(labels, as_numbers)]
            labels = _as_numbers(labels) if as_numbers else labels
    if labels.task == "regression":
        _refuse_constant(labels)
    return labels, notes


def _refuse_ids(labels: Labels) -> None:
    """Raise an error if all labels differ, as in an id column, unless there are few."""
    many = labels.all_labelled or labels.n_labelled > _MAX_UNSHARED
    if labels.n_classes < labels.n_labelled or not many:
        return
    example = ", ".join(repr(str(c)) for c in labels.classes[:2])
    numbers = ""
    if labels.classes.dtype.kind in "iuf":
        numbers = ', or give --task regression (in Python task="regression") where they are amounts'
    raise ValueError(
        f"{wording().start} has a different label in each of its {labels.n_labelled} labelled rows ({example}, "
        f"...), as a column of ids does; pass one with classes that rows share, or label more rows{numbers}."
    )


def _are_codes(classes: np.ndarray, share: float = 0.75) -> bool:
    """Tell whether whole numbers are most of those from 0 or 1 up, at least this share, as class codes are."""
    low, high = float(classes[0]), float(classes[-1])
    return low in (0.0, 1.0) and len(classes) >= share * (high - low + 1)


def _how_it_was_read(labels: Labels, as_numbers: bool) -> str:
    read, other, option = ("numbers", "classes", "classification") if as_numbers else (
        "classes", "numbers", "regression")  # fmt: skip
    return (
        f"The target holds {labels.n_classes} different whole numbers in {count(labels.n_labelled, 'labelled row')} "
        f'and was read as {read}; --task {option} (in Python task="{option}") reads it as {other}.'
    )


def _as_numbers(labels: Labels) -> Labels:
    """Return classes that are whole numbers as regression targets."""
    values = labels.classes.astype(np.float64)[labels.values]
    return Labels("regression", np.empty(0), labels.labelled, labels.index, values)


def _refuse_constant(labels: Labels) -> None:
    """Raise an error if the numbers are in several columns, or all equal."""
    if labels.values.ndim == 2:
        raise ValueError(
            f"{wording().start} has {labels.values.shape[1]} columns of numbers, and one is predicted at a "
            "time; pass one of them."
        )
    if np.ptp(labels.values) == 0:
        raise ValueError(
            f"{wording().start} has one value only, {labels.values[0]:g}, in "
            f"{count(labels.n_labelled, 'labelled row')}, so there is nothing to predict; pass a column whose "
            "numbers differ, or label more rows."
        )


def named_rows(table: Table, recipe: Recipe | None) -> Any:
    """Return the id columns, given or found by the recipe; otherwise the row numbers."""
    if table.ids is not None:
        return table.ids
    if recipe is not None and recipe.ids_ and hasattr(table.raw, "select"):
        return table.as_written(recipe.ids_)
    return pd.DataFrame({"row": range(1, table.raw.shape[0] + 1)})


def image_sides(
    d: int, names: Sequence[str] | None, image_shape: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Return the shape of images with d columns: the given one or that of the column names; None if not images."""
    if image_shape is not None:
        shape = tuple(int(side) for side in image_shape)
        if prod(shape) != d or len(shape) not in (2, 3) or shape[2:] not in ((), (3,)):
            said = " x ".join(map(str, shape))
            raise ValueError(f"Images of {said} have {prod(shape)} pixels, and X has {d} columns.")
        return shape
    pixels, found = pixel_columns(names or ())
    return found if len(pixels) == d else None
