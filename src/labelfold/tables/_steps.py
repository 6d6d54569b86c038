"""The steps of a recipe that scikit-learn does not have: from columns of an Arrow table to what its encoders take."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.validation import check_is_fitted

from labelfold.tables._arrow import arrow, distinct, is_text, text_cells, written
from labelfold.tables._dates import UNITS, calendar_parts, instants
from labelfold.tables._numbers import numbers

# What scikit-learn calls a missing value and the rare ones together, and what people do.
_CALLED = {"None": "(missing)", "infrequent_sklearn": "(rare)"}


class ReadStep(TransformerMixin, BaseEstimator):
    """A step that learns nothing: it reads the columns of a table as its parameters say."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Do nothing."""
        self.fitted_ = True
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns."""
        return np.asarray(input_features, dtype=object)


class ReadNumbers(ReadStep):
    """Columns of numbers, typed or written, as one array with NaN where a cell is missing.

    Parameters
    ----------
    writings : dict
        How the numbers of a column of text are written; see `labelfold.tables._numbers`.
    """

    def __init__(self, writings: dict | None = None) -> None:
        self.writings = writings

    def transform(self, X: Any) -> np.ndarray:
        """Return the columns as an array."""
        writings = self.writings or {}
        columns = [numbers(X.column(name), writings.get(name)) for name in X.column_names]
        single = all(column.dtype == np.float32 for column in columns)
        out = np.empty((X.num_rows, len(columns)), dtype=np.float32 if single else np.float64)
        for j, column in enumerate(columns):
            out[:, j] = column
        return out


class ReadDates(ReadStep):
    """Columns of dates as elapsed days and parts of the calendar.

    Parameters
    ----------
    readings : dict
        For each column the ``layouts`` that its dates are written in, where it is one of text, and the ``units`` of
        the calendar to take; see `labelfold.tables._dates`.
    """

    def __init__(self, readings: dict | None = None) -> None:
        self.readings = readings

    def transform(self, X: Any) -> np.ndarray:
        """Return the columns as an array."""
        made = []
        for name in X.column_names:
            reading = (self.readings or {})[name]
            made.append(calendar_parts(*instants(X.column(name), reading["layouts"]), reading["units"]))
        return np.hstack(made)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each part of each date."""
        names = []
        for name in input_features:
            parts = [part for unit in (self.readings or {})[name]["units"] for part in UNITS[unit]]
            names += [f"{name}: {part}" for part in ("days", *parts)]
        return np.array(names, dtype=object)


class ReadLists(ReadStep):
    """Columns of lists of numbers, each of one length, as one array.

    Parameters
    ----------
    widths : dict
        The length of the lists of each column.
    """

    def __init__(self, widths: dict | None = None) -> None:
        self.widths = widths

    def transform(self, X: Any) -> np.ndarray:
        """Return the columns as an array; rows of another length are rows of NaN."""
        return np.hstack([lists(X.column(n), (self.widths or {})[n]) for n in X.column_names])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each place of each list."""
        widths = self.widths or {}
        return np.array([f"{n}[{j}]" for n in input_features for j in range(widths[n])], dtype=object)


class ReadText(ReadStep):
    """One column of text as an array of strings, "" where a cell is missing."""

    def transform(self, X: Any) -> np.ndarray:
        """Return the cells."""
        return written(X.column(0)).fill_null("").to_numpy()


class AsSparse(ReadStep):
    """An array as a sparse matrix that stores every entry, so that no pass looks for zeros."""

    def transform(self, X: Any) -> Any:
        """Return the sparse matrix."""
        n, d = X.shape
        kind = np.int32 if n * d < 2**31 else np.int64  # of both, or scipy widens the other
        places, ends = np.tile(np.arange(d, dtype=kind), n), d * np.arange(n + 1, dtype=kind)
        return sp.csr_array((np.ravel(X), places, ends), shape=(n, d))


class Terms(TfidfVectorizer):
    """scikit-learn's tf-idf of terms, those of one row too where none is in as many rows as asked for."""

    def fit_transform(self, raw_documents: Any, y: Any = None) -> Any:
        """Learn the terms and return their weights."""
        try:
            return super().fit_transform(raw_documents, y)
        except ValueError:  # no term is left
            self.min_df = 1
            return super().fit_transform(raw_documents, y)


class EachValue(TransformerMixin, BaseEstimator):
    """An encoder of each column by itself, applied to its distinct values and spread over the rows.

    Parameters
    ----------
    encoder : transformer
        scikit-learn's OneHotEncoder or FeatureHasher.
    """

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit an encoder for each column."""
        self.encoders_ = []
        for name in X.column_names:
            values, codes = _values(X.column(name))
            self.encoders_.append(clone(self.encoder).fit(_as_input(self.encoder, values[codes])))
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns that the encoders make, side by side."""
        check_is_fitted(self)
        parts = []
        for name, encoder in zip(X.column_names, self.encoders_, strict=True):
            values, codes = _values(X.column(name))
            coded = sp.csr_array(encoder.transform(_as_input(encoder, values)))
            parts.append(coded[codes])
        return sp.hstack(parts, format="csr")

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each value, or for each place that values are hashed to."""
        names: list[str] = []
        for name, encoder in zip(input_features, self.encoders_, strict=True):
            if isinstance(encoder, FeatureHasher):
                names += [f"{name} #{j}" for j in range(encoder.n_features)]
            else:
                made = [value.removeprefix("_") for value in encoder.get_feature_names_out([""])]
                names += [f"{name}={_CALLED.get(value, value)}" for value in made]
        return np.array(names, dtype=object)


def _values(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct cells of a column, None the last of them, and the place of each row's cell."""
    values, codes = distinct(written(column))
    # a place of -1 is the last one
    return np.array([*text_cells(values).to_pylist(), None], dtype=object), codes


def _as_input(encoder: Any, values: np.ndarray) -> Any:
    if isinstance(encoder, FeatureHasher):
        return [[] if value is None else [value] for value in values]
    return values[:, None]


def lists(column: Any, width: int) -> np.ndarray:
    """Return a column of lists, typed or written as [1, 2], as an array (n, width), NaN where the length differs."""
    pa = arrow()
    pc = pa.compute
    if is_text(column.type):
        inner = pc.utf8_trim(text_cells(column), "[]() ")
        inner = pc.replace_substring_regex(inner, r"[\s,;]+", " ")
        column = pc.split_pattern(inner, " ")
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not hasattr(column.type, "value_type"):
        return np.full((len(column), width), np.nan)
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    good = lengths == width
    single = not is_text(column.type.value_type) and column.type.value_type == pa.float32()
    out = np.full((len(column), width), np.nan, dtype=np.float32 if single else np.float64)
    flat = pc.list_flatten(column.filter(pa.array(good)))
    if is_text(flat.type):
        flat = pc.if_else(pc.match_substring_regex(flat, r"^[+-]?[\d.]+(?:[eE][+-]?\d+)?$"), flat, None)
    flat = flat.cast(pa.float32() if single else pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    out[good] = np.where(np.isinf(flat), np.nan, flat).reshape(-1, width)
    return out
