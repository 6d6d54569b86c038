"""Transformers of a recipe that scikit-learn does not have: from Arrow columns to the input of encoders."""

from __future__ import annotations

import re
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils import murmurhash3_32
from sklearn.utils.validation import check_is_fitted

from labelfold.tables._arrow import distinct, is_text, pa, pc, text_cells, written
from labelfold.tables._dates import UNITS, calendar_parts, instants
from labelfold.tables._numbers import numbers
from labelfold.tables._packed import Packed

# scikit-learn's names of missing and of rare values, and the names in a recipe.
_CALLED = {"None": "(missing)", "infrequent_sklearn": "(rare)"}


class ReadStep(TransformerMixin, BaseEstimator):
    """A stateless transformer of the columns of a table."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Do nothing."""
        self.fitted_ = True
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns."""
        return np.asarray(input_features, dtype=object)


class ReadNumbers(Packed, ReadStep):
    """Converts columns of numbers, typed or text, to an array with NaN for missing cells.

    Parameters
    ----------
    writings : dict
        Number formats of text columns; see `labelfold.tables._numbers`.
    """

    _packed = ("writings",)

    def __init__(self, writings: dict) -> None:
        self.writings = writings

    def transform(self, X: Any) -> np.ndarray:
        """Return the columns as an array."""
        columns = [numbers(X.column(name), self.writings.get(name)) for name in X.column_names]
        single = all(column.dtype == np.float32 for column in columns)
        out = np.empty((X.num_rows, len(columns)), dtype=np.float32 if single else np.float64)
        for j, column in enumerate(columns):
            out[:, j] = column
        return out


class ReadDates(Packed, ReadStep):
    """Converts columns of dates to elapsed days and parts of the calendar.

    Parameters
    ----------
    readings : dict
        For each column the ``layouts`` of its dates, if it is text, and the ``units`` of the calendar to use; see
        `labelfold.tables._dates`.
    """

    _packed = ("readings",)

    def __init__(self, readings: dict) -> None:
        self.readings = readings

    def transform(self, X: Any) -> np.ndarray:
        """Return the columns as an array."""
        made = []
        for name in X.column_names:
            reading = self.readings[name]
            made.append(calendar_parts(*instants(X.column(name), reading["layouts"]), reading["units"]))
        return np.hstack(made)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each part of each date."""
        names = []
        for name in input_features:
            parts = [part for unit in self.readings[name]["units"] for part in UNITS[unit]]
            names += [f"{name}: {part}" for part in ("days", *parts)]
        return np.array(names, dtype=object)


class ReadLists(Packed, ReadStep):
    """Converts columns of lists of numbers of equal length to an array.

    Parameters
    ----------
    widths : dict
        The length of the lists of each column.
    """

    _packed = ("widths",)

    def __init__(self, widths: dict) -> None:
        self.widths = widths

    def transform(self, X: Any) -> np.ndarray:
        """Return the columns as an array; rows of another length are rows of NaN."""
        return np.hstack([lists(X.column(n), self.widths[n]) for n in X.column_names])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each item of each list."""
        return np.array([f"{n}[{j}]" for n in input_features for j in range(self.widths[n])], dtype=object)


class ReadText(ReadStep):
    """Converts a text column to an array of strings, "" for missing cells."""

    def transform(self, X: Any) -> np.ndarray:
        """Return the cells."""
        return written(X.column(0)).fill_null("").to_numpy()


class HashedWords(ReadStep):
    """Converts a text column to counts of hashed words.

    The result is that of scikit-learn's HashingVectorizer in a tenth of the time: Arrow splits the text, and only
    distinct words are hashed.

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int = 2**18) -> None:
        self.n_features = n_features

    def transform(self, X: Any) -> sp.csr_array:
        """Return the counts."""
        texts, codes = distinct(written(X.column(0)))
        texts = pa.concat_arrays([*texts.chunks, pa.array([""], texts.type)])  # index -1 is the last one
        split = pc.utf8_split_whitespace(texts)
        tokens = split.flatten().dictionary_encode()
        hashed = _hashed_words(tokens.dictionary).take(tokens.indices)
        text = pc.list_parent_indices(split).take(pc.list_parent_indices(hashed)).to_numpy()
        words = hashed.flatten().to_numpy()
        counts = sp.coo_array(
            (np.ones(len(words), dtype=np.float32), (text, (words % self.n_features).astype(np.int32))),
            shape=(len(texts), self.n_features),
        )
        return counts.tocsr()[codes]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each hash value."""
        return np.array([f"words #{j}" for j in range(self.n_features)], dtype=object)


def _hashed_words(tokens: Any) -> Any:
    """Return the hashes of the words of each token as a list array; tokens are separated by blanks."""
    tokens = pc.utf8_lower(tokens)
    if not pc.all(pc.string_is_ascii(tokens)).as_py():
        tokens = pc.replace_substring_regex(pc.utf8_normalize(tokens, "NFKD"), r"\p{Mn}", "")
    split = pc.split_pattern_regex(tokens, r"[^\p{L}\p{N}_]+")
    there = pc.not_equal(split.flatten(), "")
    owners = pc.list_parent_indices(split).filter(there).to_numpy()
    words = split.flatten().filter(there).to_pylist()
    hashes = np.abs(np.array([murmurhash3_32(word) for word in words], dtype=np.int64)).astype(np.uint32)
    ends = np.cumsum(np.bincount(owners, minlength=len(tokens)))
    return pa.ListArray.from_arrays(np.append(0, ends).astype(np.int32), hashes)


class AsSparse(ReadStep):
    """Converts an array to a sparse matrix that stores every entry, which avoids a search for zeros.

    Parameters
    ----------
    single : bool, default=False
        Whether entries are float32.
    """

    def __init__(self, *, single: bool = False) -> None:
        self.single = single

    def transform(self, X: Any) -> Any:
        """Return the sparse matrix."""
        n, d = X.shape
        kind = np.int32 if n * d < 2**31 else np.int64  # for both index arrays, otherwise SciPy converts one
        places, ends = np.tile(np.arange(d, dtype=kind), n), d * np.arange(n + 1, dtype=kind)
        return sp.csr_array((np.ravel(X).astype(_dtype(self), copy=False), places, ends), shape=(n, d))


class Terms(TfidfVectorizer):
    """scikit-learn's tf-idf; if no term is in ``min_df`` rows, terms of single rows are used."""

    def fit_transform(self, raw_documents: Any, y: Any = None) -> Any:
        """Learn the terms and return their weights."""
        try:
            return super().fit_transform(raw_documents, y)
        except ValueError:  # no term remains
            self.min_df = 1
            return super().fit_transform(raw_documents, y)


class EachValue(TransformerMixin, BaseEstimator):
    """Encodes each column separately; the encoder gets only the distinct values.

    Parameters
    ----------
    encoder : transformer
        scikit-learn's OneHotEncoder or FeatureHasher.
    single : bool, default=False
        Whether entries are float32.
    """

    def __init__(self, encoder: Any, *, single: bool = False) -> None:
        self.encoder = encoder
        self.single = single

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit an encoder for each column."""
        self.encoders_ = []
        for name in X.column_names:
            values, codes = _values(X.column(name))
            self.encoders_.append(clone(self.encoder).fit(values[codes][:, None]))
        return self

    def transform(self, X: Any) -> Any:
        """Return the encoded columns side by side."""
        check_is_fitted(self)
        n, k = X.num_rows, len(self.encoders_)
        there = np.empty((n, k), dtype=bool)
        places, weights = np.empty((n, k), dtype=np.int32), np.empty((n, k), dtype=_dtype(self))
        width = 0
        for j, (name, encoder) in enumerate(zip(X.column_names, self.encoders_, strict=True)):
            values, codes = _values(X.column(name))
            known, place, weight, wide = _entries(encoder, values)
            there[:, j], places[:, j], weights[:, j] = known[codes], width + place[codes], weight[codes]
            width += wide
        if there.all():
            ends = k * np.arange(n + 1, dtype=np.int32)
            return sp.csr_array((weights.ravel(), places.ravel(), ends), shape=(n, width))
        ends = np.append(0, np.cumsum(there.sum(axis=1, dtype=np.int32), dtype=np.int32))
        return sp.csr_array((weights[there], places[there], ends), shape=(n, width))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each value, or for each hash value."""
        names: list[str] = []
        for name, encoder in zip(input_features, self.encoders_, strict=True):
            if isinstance(encoder, FeatureHasher):
                names += [f"{name} #{j}" for j in range(encoder.n_features)]
            else:
                made = [value.removeprefix("_") for value in encoder.get_feature_names_out([""])]
                names += [f"{name}={_CALLED.get(value, value)}" for value in made]
        return np.array(names, dtype=object)


def _dtype(step: Any) -> type:
    # models saved by earlier versions lack this parameter
    return np.float32 if getattr(step, "single", False) else np.float64


def _entries(encoder: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return the values that have an entry, the column and weight of the entry, and the number of columns.

    A value has at most one entry. FeatureHasher is reimplemented here, in a tenth of its time.
    """
    if isinstance(encoder, FeatureHasher):
        known = np.array([value is not None for value in values])
        hashes = np.array([murmurhash3_32(value or "", seed=0) for value in values], dtype=np.int64)
        return known, np.abs(hashes) % encoder.n_features, np.where(hashes < 0, -1.0, 1.0), encoder.n_features
    coded = sp.csr_array(encoder.transform(_as_learned(encoder, values)[:, None]))
    known = np.diff(coded.indptr) > 0
    place, weight = np.zeros(len(known), dtype=np.int64), np.zeros(len(known))
    place[known], weight[known] = coded.indices, coded.data
    return known, place, weight, coded.shape[1]


def _as_learned(encoder: Any, values: np.ndarray) -> np.ndarray:
    """Return values in the spelling of the fitted encoder, since sources write True, true, 1 or 1.0."""
    learned = set(encoder.categories_[0])
    if learned.issuperset(values):
        return values
    spelled = {_plain(value): value for value in encoder.categories_[0] if value is not None}
    return np.array(
        [v if v in learned or v is None else spelled.get(_plain(v), v) for v in values], dtype=object
    )


def _plain(value: str) -> str:
    """Return a normalised spelling of flags and whole numbers; other values unchanged.

    >>> _plain("TRUE"), _plain("7.0"), _plain("Oslo")
    ('true', '7', 'Oslo')
    """
    lower = value.lower()
    return lower if lower in ("true", "false") else re.sub(r"^([+-]?\d+)\.0+$", r"\1", value)


def _values(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct cells of a column, None last, and the index of each row's cell."""
    values, codes = distinct(written(column))
    # index -1 is the last one
    return np.array([*text_cells(values).to_pylist(), None], dtype=object), codes


def lists(column: Any, width: int) -> np.ndarray:
    """Return a column of lists, typed or text such as [1, 2], as an array (n, width); NaN for other lengths."""
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
