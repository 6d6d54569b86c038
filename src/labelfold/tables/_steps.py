"""Transformers of a recipe that scikit-learn does not have: from Arrow columns to the input of encoders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils import murmurhash3_32
from sklearn.utils.validation import check_is_fitted

from labelfold.tables import _dates, _numbers
from labelfold.tables._arrow import Packed, distinct, is_text, pa, pc, shown, text_cells, written
from labelfold.tables._dates import UNITS, calendar_parts, instants
from labelfold.tables._limits import MIN_CELLS
from labelfold.tables._numbers import (
    PLAIN,
    as_simple_numbers,
    format_in_words,
    merged,
    numbers,
    plain_spelling,
    respelled,
    with_spelled_flags,
)
from labelfold.tables._unseen import Tally, active, count_far, count_gaps, quoted

# scikit-learn's names of missing and of rare values, and the names in a recipe.
_CALLED = {"None": "(missing)", "infrequent_sklearn": "(rare)"}


class ReadStep(TransformerMixin, BaseEstimator):
    """A stateless transformer of the columns of a table."""

    # Parameters that models of earlier versions lack.
    flags: Sequence[str] = ()
    odd: Mapping[str, float] = MappingProxyType({})

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
    formats : dict
        Number formats of text columns; see `labelfold.tables._numbers`.
    flags : sequence of str
        The columns of 0 and 1 alone; true and false, yes and no are read as 1 and 0.
    odd : dict
        The shares of cells that are no numbers, of columns that have such cells in the rows of `fit`.
    ranges : ndarray of shape (k, 3)
        The smallest and the largest number of each column in the rows of `fit`, and 1 if all are whole.
    """

    _packed = ("formats", "flags", "odd")

    def __init__(
        self, formats: dict, flags: Sequence[str], odd: Mapping[str, float], ranges: np.ndarray
    ) -> None:
        self.formats = formats
        self.flags = flags
        self.odd = odd
        self.ranges = ranges

    def transform(self, X: Any) -> np.ndarray:
        """Return the columns as an array."""
        flags, tally, columns = set(self.flags), active(), []
        for name, range in zip(X.column_names, self.ranges, strict=True):
            cells, number_format = X.column(name), self.formats.get(name)
            made = as_simple_numbers(cells, number_format) if is_text(cells.type) else cells
            column = numbers(made, number_format)
            column = with_spelled_flags(cells, column) if name in flags else column
            if tally is not None:
                self._count(tally, name, cells, column, range, marked=is_text(made.type), flag=name in flags)
            columns.append(column)
        single = all(column.dtype == np.float32 for column in columns)
        out = np.empty((X.num_rows, len(columns)), dtype=np.float32 if single else np.float64)
        for j, column in enumerate(columns):
            out[:, j] = column
        if tally is not None:
            count_far(tally, X.column_names, out, self.ranges)
        return out

    def _count(
        self, tally: Tally, name: str, cells: Any, column: np.ndarray, range: Any, *, marked: bool, flag: bool
    ) -> None:
        """Count the cells that are no numbers, and, of text with marks, those read as another number than written."""
        number_format, gone = self.formats.get(name) or PLAIN, np.isnan(column)
        what, misread = "hold no number as the model reads it", 0
        wrong = _numbers.read_wrongly(written(cells), column, number_format) if marked else None
        if wrong is not None:
            own, other = ("comma", "point") if number_format["decimal"] == "," else ("point", "comma")
            what = f"are written with a decimal {other}, and the model learned a decimal {own}"
        elif is_text(cells.type):
            wrong = _numbers.marked_unlike_learned(written(cells), column, number_format, range)
            if wrong is not None:
                what = "hold a comma or point that meant something else in the learned numbers"
        if wrong is not None:
            gone, misread = gone | wrong, int(np.count_nonzero(wrong))
        if flag and (others := ~gone & (column != 0) & (column != 1)).any():
            gone, what = gone | others, "hold another number than 0 and 1, which the model learned"
        learned = ", ".join(filter(None, ["numbers", format_in_words(number_format)]))
        told = {"kind": "number", "what": what, "misread": misread, "rate": self.odd.get(name, 0.0)}
        count_gaps(tally, name, cells, gone, learned=learned, **told)


class ReadDates(Packed, ReadStep):
    """Converts columns of dates to elapsed days and parts of the calendar.

    Parameters
    ----------
    readings : dict
        For each column the ``layouts`` of its dates, if it is text, and the ``units`` of the calendar to use; see
        `labelfold.tables._dates`.
    odd : dict
        As in `ReadNumbers`.
    """

    _packed = ("readings", "odd")

    def __init__(self, readings: dict, odd: Mapping[str, float]) -> None:
        self.readings = readings
        self.odd = odd

    def transform(self, X: Any) -> np.ndarray:
        """Return the columns as an array."""
        made, tally = [], active()
        for name in X.column_names:
            reading = self.readings[name]
            local, universal = instants(X.column(name), reading["layouts"])
            if tally is not None:
                self._count(tally, name, X.column(name), local)
            made.append(calendar_parts(local, universal, reading["units"]))
        return np.hstack(made)

    def _count(self, tally: Tally, name: str, cells: Any, local: np.ndarray) -> None:
        """Count the cells that are no dates, and those that are read as another date than was written."""
        gone, layouts = np.isnan(local), self.readings[name]["layouts"]
        learned = f"dates, {' and '.join(layouts)}" if layouts else "dates"
        what, misread = "hold no date as the model reads it", 0
        strays = np.count_nonzero(gone) > cells.null_count
        wrong = _dates.read_wrongly(cells, local, layouts) if strays else None
        if wrong is not None:
            gone, misread = gone | wrong, int(np.count_nonzero(wrong))
            what = "hold dates with day and month in another order"
        told = {"kind": "date", "what": what, "misread": misread, "rate": self.odd.get(name, 0.0)}
        count_gaps(tally, name, cells, gone, learned=learned, **told)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each part of each date."""
        names = []
        for name in input_features:
            parts = [part for unit in self.readings[name]["units"] for part in UNITS[unit].features]
            names += [f"{name}: {part}" for part in ("days", *parts)]
        return np.array(names, dtype=object)


class ReadLists(Packed, ReadStep):
    """Converts columns of lists of numbers of equal length to an array.

    Parameters
    ----------
    widths : dict
        The length of the lists of each column.
    odd : dict
        As in `ReadNumbers`.
    """

    _packed = ("widths", "odd")

    def __init__(self, widths: dict, odd: Mapping[str, float]) -> None:
        self.widths = widths
        self.odd = odd

    def transform(self, X: Any) -> np.ndarray:
        """Return the columns as an array; rows of another length are rows of NaN."""
        made, tally = [lists(X.column(n), self.widths[n]) for n in X.column_names], active()
        for name, column in zip(X.column_names, made, strict=True):
            if tally is not None:
                learned, gone = f"lists of {self.widths[name]:,} numbers", np.isnan(column).all(axis=1)
                told = {"kind": "list", "what": f"are no {learned}", "rate": self.odd.get(name, 0.0)}
                count_gaps(tally, name, X.column(name), gone, learned=learned, **told)
        return np.hstack(made)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each item of each list."""
        return np.array([f"{n}[{j}]" for n in input_features for j in range(self.widths[n])], dtype=object)


class ReadText(ReadStep):
    """Converts a text column to an array of strings, "" for missing cells."""

    def transform(self, X: Any) -> np.ndarray:
        """Return the cells."""
        return _counted_text(X).fill_null("").to_numpy()


def _counted_text(X: Any) -> Any:
    """Return a column of text, whose cells are counted."""
    text, tally = written(X.column(0)), active()
    if tally is not None:
        tally.text = X.column_names[0]
        tally.add(tally.text, len(text) - text_cells(text).null_count)
    return text


class HashedWords(ReadStep):
    """Converts a text column to counts of hashed words.

    The result is that of scikit-learn's HashingVectorizer. Arrow splits the text, and only distinct words are hashed.
    A recipe of 130,000 texts of 30 words takes two to three times as long with HashingVectorizer
    (benchmarks/second_ways.py).

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int = 2**18) -> None:
        self.n_features = n_features

    def transform(self, X: Any) -> sp.csr_array:
        """Return the counts."""
        texts, codes = distinct(_counted_text(X))
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
    """Converts an array to a sparse matrix.

    Parameters
    ----------
    single : bool, default=False
        Whether entries are float32.
    """

    def __init__(self, *, single: bool = False) -> None:
        self.single = single

    def transform(self, X: Any) -> Any:
        """Return the sparse matrix."""
        return sp.csr_array(X, dtype=np.float32 if self.single else np.float64)


class Terms(TfidfVectorizer):
    """scikit-learn's tf-idf; if no term is in ``min_df`` rows, terms of single rows are used."""

    def fit_transform(self, raw_documents: Any, y: Any = None) -> Any:
        """Learn the terms and return their weights."""
        try:
            made = super().fit_transform(raw_documents, y)
        except ValueError:  # no term remains
            self.min_df = 1
            made = super().fit_transform(raw_documents, y)
        if self.analyzer == "word":
            # the share of rows that would have no known term, if they were new
            rows = np.bincount(made.indices, minlength=made.shape[1])
            known = sp.csr_array((rows[made.indices] > self.min_df, made.indices, made.indptr), made.shape)
            odd = len(_worded(raw_documents[known.sum(axis=1) == 0]))
            self.new_rate_ = (odd + 1) / (len(raw_documents) + 2)
        return made

    def transform(self, raw_documents: Any) -> Any:
        """Return the weights of the terms."""
        made, tally = super().transform(raw_documents), active()
        if tally is not None and self.analyzer == "word":
            odd = _worded(raw_documents[np.diff(made.indptr) == 0])
            what = "hold no word that the model knows"
            tally.add(tally.text, 0, len(odd), odd, kind="text", what=what, rate=self.new_rate_)
        return made


def _worded(texts: np.ndarray) -> Any:
    """Return the texts that hold a word and do not mean a missing cell, as an Arrow column."""
    cells = text_cells(pa.chunked_array([texts.tolist()], type=pa.string())).drop_null()
    return cells.filter(pc.match_substring_regex(cells, r"[\p{L}\p{N}_]"))


class DistinctValueEncoder(TransformerMixin, BaseEstimator):
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
        self.encoders_, rates = [], []
        hashes: list[np.ndarray] = [np.empty(0, dtype=np.int32)]
        for name in X.column_names:
            values, codes = learned_values(X.column(name))
            cells = np.array([*values, None], dtype=object)[codes][:, None]  # index -1 is the last one
            self.encoders_.append(clone(self.encoder).fit(cells))
            hashes.append(np.unique(_hashes(values if isinstance(self.encoder, FeatureHasher) else [])))
            counts = np.bincount(codes[codes >= 0])
            # a new row has a new value about as often as a row has a value of its own (Good and Turing), give or take
            # two standard deviations
            own = np.count_nonzero(counts == 1)
            rates.append(min((own + 2 * np.sqrt(own) + 1) / (counts.sum() + 2), 1.0))
        self.rates_ = np.array(rates)
        # the values that are hashed, one column after the other
        self.hashes_, self.ends_ = np.concatenate(hashes), np.cumsum([len(some) for some in hashes])
        return self

    def transform(self, X: Any) -> Any:
        """Return the encoded columns side by side."""
        check_is_fitted(self)
        n, k, tally = X.num_rows, len(self.encoders_), active()
        there = np.empty((n, k), dtype=bool)
        places = np.empty((n, k), dtype=np.int32)
        weights = np.empty((n, k), dtype=np.float32 if self.single else np.float64)
        width = 0
        for j, (name, encoder) in enumerate(zip(X.column_names, self.encoders_, strict=True)):
            values, codes = _values(X.column(name))
            values, new = self._as_learned(j, values)
            known, place, weight, wide = _entries(encoder, values)
            there[:, j], places[:, j], weights[:, j] = known[codes], width + place[codes], weight[codes]
            width += wide
            if tally is not None:
                self._count(tally, j, name, values, codes, new)
        if there.all():
            ends = k * np.arange(n + 1, dtype=np.int32)
            return sp.csr_array((weights.ravel(), places.ravel(), ends), shape=(n, width))
        ends = np.append(0, np.cumsum(there.sum(axis=1, dtype=np.int32), dtype=np.int32))
        return sp.csr_array((weights[there], places[there], ends), shape=(n, width))

    def _as_learned(self, j: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values of column j in the spelling of the learned ones, and a mask of those never learned."""
        if not isinstance(self.encoders_[j], FeatureHasher):
            learned = self._learned(j)
            spelled = np.array(respelled(values.tolist(), learned), dtype=object)
            known = {*learned, None}
            return spelled, np.array([value not in known for value in spelled], dtype=bool)
        if not hasattr(self, "hashes_"):  # a model of an earlier version
            return values, np.zeros(len(values), dtype=bool)
        hashes = self.hashes_[self.ends_[j] : self.ends_[j + 1]]
        there = np.array([value is not None for value in values], dtype=bool)
        new = there & ~np.isin(_hashes(values), hashes)
        values = values.copy()
        for spell in (plain_spelling, "{}.0".format):
            left = np.flatnonzero(new)
            spelled = np.array([spell(value) for value in values[left]], dtype=object)
            found = np.isin(_hashes(spelled), hashes)
            values[left[found]], new[left[found]] = spelled[found], False
        return values, new

    def _count(
        self, tally: Tally, j: int, name: str, values: np.ndarray, codes: np.ndarray, new: np.ndarray
    ) -> None:
        """Count the cells of column j with a value that was not learned."""
        times = np.bincount(codes + 1, minlength=len(values))
        times = np.append(times[1:], times[0])  # index -1 is the last one
        held = len(codes) - int(sum(times[i] for i, value in enumerate(values) if value is None))
        if not new.any():
            tally.add(name, held)
            return
        cells: Counter[str] = Counter()
        for i in np.flatnonzero(new):
            cells[values[i]] += int(times[i])
        odd, learned = sum(cells.values()), self._learned(j)
        there = {value for i, value in enumerate(values) if times[i] and not new[i]} - {None}
        # one value of a boolean in another spelling
        half = len(learned) == 2 and len(there) < 2 and odd >= max(MIN_CELLS, held / 5)
        rate = float(self.rates_[j]) if hasattr(self, "rates_") else 0.0  # none in models of earlier versions
        told = {"kind": "category", "learned": quoted(learned), "rate": rate}
        what = "hold a value the model never saw"
        tally.add(name, held, odd, cells, misread=odd if half else 0, what=what, **told)

    def _learned(self, j: int) -> list[str]:
        """Return the values of column j that were learned; none if they are hashed."""
        encoder = self.encoders_[j]
        hashed = isinstance(encoder, FeatureHasher)
        return [] if hashed else [value for value in encoder.categories_[0] if value is not None]

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


def _entries(encoder: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return the values that have an entry, the column and weight of the entry, and the number of columns.

    A value has at most one entry.
    """
    hashed = isinstance(encoder, FeatureHasher)
    cells = [[] if value is None else [value] for value in values] if hashed else values[:, None]
    coded = sp.csr_array(encoder.transform(cells))
    known = np.diff(coded.indptr) > 0
    place, weight = np.zeros(len(known), dtype=np.int64), np.zeros(len(known))
    place[known], weight[known] = coded.indices, coded.data
    return known, place, weight, coded.shape[1]


def _hashes(values: Any) -> np.ndarray:
    """Return the hashes of values, as scikit-learn's FeatureHasher has them."""
    return np.array([murmurhash3_32(value or "", seed=0) for value in values], dtype=np.int32)


def _values(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct cells of a column, None last, and the index of each row's cell."""
    values, codes = distinct(shown(column))
    # index -1 is the last one
    return np.array([*text_cells(values).to_pylist(), None], dtype=object), codes


def learned_values(column: Any) -> tuple[list[str], np.ndarray]:
    """Return the values of a category to learn, and the index of each row's value, -1 for missing cells."""
    cells, codes = _values(column)
    there = np.array([cell is not None for cell in cells[:-1]], dtype=bool)
    counts = np.bincount(codes[codes >= 0], minlength=len(there))
    spelled = merged(cells[:-1][there].tolist(), counts[there].tolist())
    places = {value: i for i, value in enumerate(dict.fromkeys(spelled))}
    index = np.full(len(cells), -1)
    index[:-1][there] = [places[value] for value in spelled]
    return list(places), index[codes]


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


def text_names(part: Any) -> list[str]:
    """Return the names of the terms that a pipeline makes of a column of text."""
    if "terms" not in part.named_steps:
        return list(part["read"].get_feature_names_out())
    names: list[str] = []
    for kind, terms in part["terms"].transformer_list:
        quoted = kind == "characters"
        names += [f"'{term}'" if quoted else term for term in terms.get_feature_names_out()]
    return names
