"""Recipe: a transformer from tables of mixed columns to matrices of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.utils.validation import check_is_fitted

from labelfold.rows import gathered, in_order
from labelfold.tables._arrow import (
    Blocks,
    Packed,
    as_arrow,
    filled,
    is_text,
    pa,
    slices,
    stacked,
    written,
)
from labelfold.tables._column import TELLS, UNLIKE_NUMBERS, Column, lines_of, matching, vector_columns
from labelfold.tables._differences import Differences
from labelfold.tables._limits import LABELLED, LEARNED_FROM
from labelfold.tables._roles import columns_of
from labelfold.tables._stack import TEXT, stack
from labelfold.tables._steps import text_names
from labelfold.tables._target import Target
from labelfold.tables._unseen import Tally, UnseenRecords, counting, empty_columns
from labelfold.tables._warning import UnseenValuesWarning
from labelfold.utils import fit_context, warn_user

# The parameters that name columns, with their roles.
ROLES = {role: role for role in ("number", "category", "date", "text", "id")} | {"drop": "left out"}


class Recipe(Packed, TransformerMixin, BaseEstimator):
    """Convert a table of mixed columns to a matrix of numbers.

    * Numbers stay numbers. Missing numbers become the median; if missing cells predict the labels, a further
      column marks them.
    * Categories and flags are one-hot encoded, with rare values in one column, or hashed if there are too many.
    * Dates become elapsed days, and the parts of the calendar that correlate with the labels.
    * Text becomes tf-idf of words and of groups of characters, or of hashed words above 120,000 rows. The matrix is
      then sparse.
    * Lists of numbers become one column for each item.
    * Row counters, ids, empty, constant and repeated columns are left out, and so is a column that maps one to one
      onto the target, or that is missing or one value in 99% of the unlabelled rows and significantly less often in
      labelled ones.

    Decimal commas, thousands separators, percent signs, units, and words for missing cells are recognised if most
    of a column has them. Spellings of one boolean, such as True, yes and 1, are one value. Values that `fit` has not
    seen are not an error in `transform`; if most cells of a column are such, there is an `UnseenValuesWarning`.

    Parameters
    ----------
    number, category, date, text, id, drop : sequence of str
        Columns with a given role; ``*`` and ``?`` match any characters. Columns of `id` and `drop` are left out.
    keep : sequence of str
        Columns that are not left out for any of the reasons above. They are read as what they are.
    unlabeled : number, str or None, default=-1
        The value of y that means unlabelled, besides missing values.

    Attributes
    ----------
    columns_ : list of dict
        For each column its ``name``, ``role`` and ``how`` it is read, or why it is left out.
    transformer_ : ColumnTransformer
        scikit-learn's imputers, encoders and vectorisers of the columns in use.
    used_ : list of str
        The columns that `transform` needs.
    ids_ : list of str
        The id columns.
    differences_ : list of dict
        The columns in use in which labelled rows differ significantly from the others, the largest difference first:
        ``name``, ``what`` is true of its cells, the shares of ``labelled`` rows and of ``others`` for which it is,
        its ``p``, and the ``distance`` of labelled rows from the others.
    n_rows_, n_learned_from_ : int
        Number of rows in `fit`, and number of rows that were used: above 120,000 rows, 100,000 evenly spaced ones and
        up to 20,000 labelled ones.
    n_features_in_ : int
        The number of columns in `fit`.
    feature_names_in_ : ndarray of str
        Their names, if X has names.

    Examples
    --------
    >>> import pandas as pd
    >>> from labelfold import Recipe
    >>> since = ["1.2.2019", "1.2.2019", "7.5.2021", "1.3.2020"]
    >>> table = pd.DataFrame({"age": [31, None, 50, 44], "plan": ["a", "b", "a", "?"], "since": since})
    >>> recipe = Recipe().fit(table)
    >>> for line in recipe.lines():
    ...     print(line)
    age: number; 1 missing, the median in their place
    plan: category; 2 values, one column each, rare ones together; '?' means missing; 1 missing, a value of its own
    since: date; day first; elapsed time, day of month, month, weekday, hour
    >>> recipe.transform(pd.DataFrame({"plan": ["new"], "since": [None], "age": [None]})).shape[0]
    1
    """

    n_rows_: int
    n_learned_from_: int

    _parameter_constraints: dict = {name: ["array-like", str] for name in (*ROLES, "keep")}
    _packed = ("columns_", "used_", "ids_", "differences_", "feature_names_in_")

    def __init__(
        self,
        *,
        number: Sequence[str] = (),
        category: Sequence[str] = (),
        date: Sequence[str] = (),
        text: Sequence[str] = (),
        id: Sequence[str] = (),
        drop: Sequence[str] = (),
        keep: Sequence[str] = (),
        unlabeled: Any = -1,
    ) -> None:
        self.number = number
        self.category = category
        self.date = date
        self.text = text
        self.id = id
        self.drop = drop
        self.keep = keep
        self.unlabeled = unlabeled

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Find the role of each column, and fit the encoders.

        Parameters
        ----------
        X : DataFrame, Arrow table or array of shape (n, d)
            A table of pandas, polars or pyarrow, anything with the Arrow interface, or a Dask table, which stays on
            the workers: one pass finds the number of its rows, and a second one the rows to learn from, which alone
            are sent here.
        y : array-like of shape (n,), optional
            Labels. They are used only to find leaks, missing cells or parts of dates that predict them, and columns
            in which labelled rows differ.
        groups : array-like of shape (n,), optional
            Rows with an equal value belong together. One row of each group is compared with those of other groups.

        Returns
        -------
        self : Recipe
        """
        self.fit_transform(X, y, groups)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None, groups: Any = None) -> np.ndarray | sp.csr_array:
        """Fit, and return the matrix of the rows.

        Parameters
        ----------
        X : DataFrame, Arrow table or array of shape (n, d)
            As in `fit`.
        y : array-like of shape (n,), optional
            Labels, used as in `fit`.
        groups : array-like of shape (n,), optional
            Rows with an equal value belong together, as in `fit`.

        Returns
        -------
        X_out : ndarray or csr_array of shape (n, k)
            As `transform` returns it.
        """
        table, y, groups = self._table(X, reset=True), gathered(y), gathered(groups)
        n = table.num_rows
        if n == 0:
            raise ValueError("Recipe was given a table with 0 samples (rows); at least 1 is expected.")
        given, keep = self._given(table.column_names), self.kept(table.column_names)
        target = Target(y, n, self.unlabeled, groups)
        some, places = _learned_from(table, target)
        target = target.take(places)
        differences = Differences(target.labelled, table.shape[1], target.taking_part)
        columns = columns_of(some, places, n, given, keep, target, differences)
        used = [column for column in columns if column.used]
        if not used:
            reasons = "; ".join(f"{c.name!r}: {c.how}" for c in columns[:5])
            raise ValueError(
                f"No column is left to learn from ({reasons}); name one to keep as a number, a category, a date or "
                "text."
            )
        self.columns_: list[dict[str, Any]] = [
            {"name": c.name, "role": c.role, "how": c.how, "missing": c.missing} for c in columns
        ]
        self.used_: list[str] = [column.name for column in used]
        self.ids_: list[str] = [column.name for column in columns if column.role == "id"]
        self.differences_: list[dict[str, Any]] = differences.result(len(used))
        self.n_rows_, self.n_learned_from_ = n, len(places)
        self.transformer_: ColumnTransformer = stack(used, n)
        made = self._matrix(self.transformer_.fit_transform(_parsed(some, used)))
        if _on_workers(table):
            return table.matrix(*self._work, made[:0])
        return made if len(places) == n else self._transformed(table)[0]

    def transform(self, X: Any) -> np.ndarray | sp.csr_array:
        """Return the matrix of the rows.

        Parameters
        ----------
        X : DataFrame, Arrow table or array
            A table with the columns in use, in any order; other columns are ignored. Of a Dask table the rows, and
            the values never seen, are counted at once, in two passes on the workers.

        Returns
        -------
        X_out : ndarray or csr_array of shape (n, k)
            Sparse if there is text, or categories with very many values. It is then float32 if `fit` had more than
            120,000 rows. Of a Dask table a Dask array with a chunk for each partition, which the workers make
            whenever it is used; ``X_out.persist()`` keeps it in their memory.
        """
        made, tally = self.counted(X)
        if mostly := tally.found().mostly:
            warn_user(
                f"{mostly.sentence}; such cells tell nothing about their rows. Write them as in the table of fit.",
                UnseenValuesWarning,
            )
        return made

    def counted(self, X: Any) -> tuple[Any, Tally]:
        """Return the matrix of the rows, and the counts of the cells that it cannot use.

        Parameters
        ----------
        X : DataFrame, Arrow table or array
            As in `transform`.

        Returns
        -------
        X_out : ndarray or csr_array of shape (n, k)
            As `transform` returns it.
        tally : Tally
            The counts, which `records` takes.
        """
        check_is_fitted(self)
        table = self._table(X, reset=False)
        there = set(table.column_names)
        absent = [name for name in self.used_ if name not in there]
        if absent:
            raise ValueError(
                f"X lacks {len(absent)} of the {len(self.used_)} columns the recipe reads: "
                f"{', '.join(map(repr, absent[:5]))}; add them, with empty cells where nothing is known."
            )
        return self._transformed(table)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of the matrix, such as ``city=Paris`` and ``since: days``.

        Parameters
        ----------
        input_features : object
            Ignored: the columns of the table have names.

        Returns
        -------
        names : ndarray of str of shape (k,)
        """
        check_is_fitted(self)
        names = [name for _, made in self._parts() for name in made]
        return np.array(names, dtype=object)

    def row_names(self, X: Any) -> list[str] | None:
        """Return the names of the rows, from the id columns.

        Parameters
        ----------
        X : DataFrame, Arrow table or array
            As in `transform`.

        Returns
        -------
        names : list of str or None
            None if there are no id columns.
        """
        check_is_fitted(self)
        table = self._table(X, reset=False)
        columns = [
            written(table.column(name)).to_pylist() for name in self.ids_ if name in table.column_names
        ]
        return [", ".join(map(str, row)) for row in zip(*columns, strict=True)] if columns else None

    def unseen(self, X: Any) -> UnseenRecords:
        """Return a record for each column with cells in new rows that `transform` cannot use.

        These are values of a category that `fit` has not seen, and cells that are no number, date or list of the
        learned form. Further records tell of columns whose numbers are mostly far from the learned ones, and of
        columns that are empty.

        Parameters
        ----------
        X : DataFrame, Arrow table or array
            As in `transform`.

        Returns
        -------
        records : list
            Each with ``name``, ``odd`` and ``held``, the numbers of these cells and of all that hold something,
            ``examples``, ``most``, whether these are more than half and more than new rows usually have, and
            ``sentence``. ``mostly`` are the records with ``most``, and ``sentence`` says them all.

        Examples
        --------
        >>> import pandas as pd
        >>> from labelfold import Recipe
        >>> recipe = Recipe().fit(pd.DataFrame({"plan": ["a", "b"] * 9, "paid": [True, False, False] * 6}))
        >>> [one.sentence for one in recipe.unseen(pd.DataFrame({"plan": ["a", "c", "c"], "paid": [1, 0, 1]}))]
        ["2 of 3 cells of 'plan' hold a value the model never saw: 'c'"]
        """
        check_is_fitted(self)
        table = self._table(X, reset=False)
        if _on_workers(table):
            return self.records([table.counted(*self._work)[1]])
        return self.records(tally for _, tally in in_order(self._block, self._blocks(table)))

    def records(self, tallies: Iterable[Tally]) -> UnseenRecords:
        """Return the records of `unseen` about blocks of rows, from their counts.

        Parameters
        ----------
        tallies : iterable of Tally
            The counts of each block, from `counted`.

        Returns
        -------
        records : UnseenRecords
        """
        whole = Tally()
        for tally in tallies:
            whole.merge(tally)
        names = set(self.used_)
        used = [column for column in self.columns_ if column["name"] in names]
        return UnseenRecords([*whole.found(), *empty_columns(whole, used, self.n_learned_from_, whole.rows)])

    def lines(self, most: int = 40, *, plain: bool = True) -> list[str]:
        """Return one line for each column; columns that are treated alike share a line.

        Parameters
        ----------
        most : int, default=40
            Largest number of lines; the last one counts the rest.
        plain : bool, default=True
            Whether to include columns of plain numbers without missing cells.

        Returns
        -------
        lines : list of str
        """
        check_is_fitted(self)
        lines = lines_of(self.columns_, plain=plain)
        if lines and self.n_learned_from_ < self.n_rows_:
            lines.insert(
                0, f"learned from {self.n_learned_from_:,} of {self.n_rows_:,} rows, which the counts are of"
            )
        return lines if len(lines) <= most else [*lines[: most - 1], f"and {len(lines) - most + 1} more"]

    def leak_lines(self) -> list[str]:
        """Return lines about the columns that are left out since they tell which rows are labelled.

        Returns
        -------
        lines : list of str
        """
        check_is_fitted(self)
        return lines_of([column for column in self.columns_ if TELLS in column["how"]], plain=True)

    def leaks_in(self, X: np.ndarray, y: Any, groups: Any, names: Sequence[str]) -> set[str]:
        """Return the names of the columns of an array that tell which rows are labelled.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Labels.
        groups : array-like of shape (n,) or None
            Rows with an equal value belong together.
        names : sequence of str
            The names of the columns.

        Returns
        -------
        leaks : set of str
        """
        return {names[j] for j in Target(y, len(X), self.unlabeled, groups).filled_columns(X)}

    def keep_vectors(self, names: Sequence[str]) -> None:
        """Keep, as numbers, the columns whose names differ only in a number, such as those of pixels.

        Parameters
        ----------
        names : sequence of str
            The names of the columns.
        """
        vectors = vector_columns(names)
        self.set_params(
            number=[*np.atleast_1d(self.number), *vectors], keep=[*np.atleast_1d(self.keep), *vectors]
        )

    def owners(self) -> list[str]:
        """Return for each column of the matrix the column of the table that it is made of.

        Returns
        -------
        names : list of str
        """
        parts = ((set(columns), made) for columns, made in self._parts())
        return [_owner(str(name), columns) for columns, made in parts for name in made]

    def _parts(self) -> Iterator[tuple[list[str], list[str]]]:
        """Yield the columns that are transformed together, with the names of the columns of the matrix."""
        for title, part, columns in self.transformer_.transformers_:
            if title.startswith(TEXT):
                yield columns, [f"{columns[0]}: {term}" for term in text_names(part)]
            else:
                yield columns, list(part.get_feature_names_out(np.asarray(columns, dtype=object)))

    @property
    def scales_numbers(self) -> bool:
        """Whether columns of numbers are scaled to unit variance, as they are beside other columns."""
        return any(column["role"] in UNLIKE_NUMBERS for column in self.columns_)

    def _table(self, X: Any, *, reset: bool) -> Any:
        table: Any
        table, named = as_arrow(X)
        names = table.column_names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"X has more than one column named {twice!r}; give each its own name.")
        if reset:
            self.n_features_in_: int = len(names)
            self.__dict__.pop("feature_names_in_", None)
            if named:
                self.feature_names_in_: np.ndarray = np.array(names, dtype=object)
        elif not named and len(names) != self.n_features_in_:
            raise ValueError(
                f"X has {len(names)} features, but Recipe is expecting {self.n_features_in_} features as input."
            )
        elif not named and hasattr(self, "feature_names_in_"):
            warn_user("X does not have valid feature names, but Recipe was fitted with feature names")
            return table.rename_columns(list(self.feature_names_in_))
        return table

    def _transformed(self, table: Any) -> tuple[Any, Tally]:
        """Return the matrix of the rows, a few blocks in parallel, and the counts of odd cells."""
        if _on_workers(table):
            like, counts = table.counted(*self._work)
            return table.matrix(*self._work, like), counts
        whole = Tally()

        def parts() -> Iterator[Any]:
            for made, tally in in_order(self._block, self._blocks(table)):
                whole.merge(tally)
                yield made

        return self._join(parts(), table.num_rows), whole

    @property
    def _join(self) -> Callable[[Iterable[Any], int], Any]:
        """The function that returns parts of the matrix as one."""
        return stacked if self.transformer_.sparse_output_ else filled

    @property
    def _work(self) -> tuple:
        """What the workers of Dask do with a partition, and the columns that they need."""
        return self._block, self._join, self.used_

    def _blocks(self, table: Any) -> Any:
        return table.read(self.used_) if isinstance(table, Blocks) else slices(table)

    def _block(self, block: Any) -> tuple[Any, Tally]:
        with counting(block.num_rows) as tally:
            return self._matrix(self.transformer_.transform(block.select(self.used_))), tally

    def _matrix(self, made: Any) -> np.ndarray | sp.csr_array:
        return sp.csr_array(made) if self.transformer_.sparse_output_ else made

    def _given(self, names: list[str]) -> dict[str, str]:
        """Return the given roles by column."""
        given: dict[str, str] = {}
        for parameter, role in ROLES.items():
            given |= dict.fromkeys(self._named(parameter, names), role)
        return given

    def kept(self, names: list[str]) -> set[str]:
        """Return those of the columns that `keep` names.

        Parameters
        ----------
        names : list of str
            The names of the columns.

        Returns
        -------
        kept : set of str
        """
        return set(self._named("keep", names))

    def _named(self, parameter: str, names: list[str]) -> list[str]:
        """Return the columns that a parameter names."""
        wanted = getattr(self, parameter)
        named: list[str] = []
        for pattern in [wanted] if isinstance(wanted, str) else wanted:
            found = matching(pattern, names)
            if not found:
                raise ValueError(
                    f"{parameter} names the column {pattern!r}, which X does not have; it has "
                    f"{', '.join(map(repr, names[:8]))}."
                )
            named += found
        return named

    def __sklearn_tags__(self) -> Any:
        """Declare that text and missing cells are accepted, and labels are not needed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.target_tags.required = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _on_workers(table: Any) -> bool:
    """Tell whether the workers of Dask hold a table."""
    return not isinstance(table, pa.Table | Blocks)


def _learned_from(table: Any, target: Target) -> tuple[Any, np.ndarray]:
    """Return the rows to fit on, and their indices: all, or evenly spaced and labelled ones if there are many."""
    if isinstance(table, Blocks):
        return table.sample, table.places
    n = table.num_rows
    if n <= LEARNED_FROM + LABELLED:
        places = np.arange(n)
        return table.take(places) if _on_workers(table) else table, places
    places = np.union1d(np.linspace(0, n - 1, LEARNED_FROM).astype(int), target.index[:LABELLED])
    return table.take(places), places


def _parsed(table: Any, used: list[Column]) -> Any:
    """Return the columns in use; text columns of numbers are parsed."""
    table = table.select([column.name for column in used])
    for j, column in enumerate(used):
        if column.role == "number" and column.data is not None and is_text(table.column(j).type):
            table = table.set_column(j, column.name, pa.array(column.data))
    return table


def _owner(name: str, columns: Collection[str]) -> str:
    """Return the column of a part that one of its columns in the matrix is made of.

    >>> columns = {"city", "since"}
    >>> [_owner(name, columns) for name in ("city=Paris", "since: days", "missingindicator_city")]
    ['city', 'since', 'city']
    """
    ends = [found.start() for found in re.finditer(r"=|: |\[| #", name)]
    called = [name, name.removeprefix("missingindicator_"), *(name[:end] for end in reversed(ends))]
    return next(one for one in called if one in columns)
