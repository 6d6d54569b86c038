"""The encoders of the columns of a table, side by side: one transformer for each role."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from labelfold.tables._arrow import Packed, pack, unpack
from labelfold.tables._column import UNLIKE_NUMBERS, Column
from labelfold.tables._limits import BLOCK, MAX_VALUES, SPARSE
from labelfold.tables._roles import HASHED
from labelfold.tables._steps import (
    AsSparse,
    DistinctValueEncoder,
    HashedWords,
    ReadDates,
    ReadLists,
    ReadNumbers,
    ReadText,
    Terms,
)

# A choice: a category with a smaller share of the rows, or with one row, is rare.
_RARE = 0.002
# Budget of columns: largest numbers of words and of character groups of a text column.
_MAX_TERMS = 50_000
# A choice, so that the text counts more: norm of all other columns of a row, relative to a text or list of norm 1.
_BESIDE_TEXT = 0.5
TEXT, _LISTS = "text ", "lists"
# A matrix with more columns than this, of which few entries are not 0, stays sparse. Text always does. A dense matrix
# of this width takes 190 MB for the 120,000 rows that are transformed at a time.
_WIDE = 200
# Budget: a dense matrix of more bytes than this stays sparse if it then takes less than half of them.
_LARGE = 1_000_000_000


class ColumnStack(Packed, ColumnTransformer):
    """A ColumnTransformer whose names of columns are saved as texts."""

    _packed = ("_columns", "_transformer_to_input_indices", "feature_names_in_")
    _of_parts = ("transformers", "transformers_")

    def _validate_column_callables(self, X: Any) -> None:
        """Find the places of the columns; the base class searches the list of names for each of them."""
        places = {name: j for j, name in enumerate(X.column_names)}
        self._columns = [names for _, _, names in self.transformers]
        self._transformer_to_input_indices = {
            title: [places[name] for name in names] for title, _, names in self.transformers
        }

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, columns packed."""
        state = super().__getstate__()
        return state | {name: self._each(pack, state[name]) for name in self._of_parts if name in state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes, packed or not."""
        parts = {name: self._each(unpack, state[name]) for name in self._of_parts if name in state}
        super().__setstate__(state | parts)

    @staticmethod
    def _each(change: Callable[[Any], Any], parts: list) -> list:
        return [(title, part, change(names)) for title, part, names in parts]


def stack(columns: list[Column], n: int) -> ColumnTransformer:
    """Return the transformer of a table of n rows.

    A text or list has norm 1, and all other columns of a row together have a norm of about 0.5. Numbers vary in few
    directions and words in many, so numbers with the same norm would dominate.
    """
    by_role = {role: [c for c in columns if c.role == role] for role in ("number", *UNLIKE_NUMBERS)}
    sparse = _stays_sparse(by_role, n)
    # with many rows the matrix takes most of the memory; its entries are standardised, or weights of words
    single = sparse and n > BLOCK
    mixed = any(by_role[role] for role in UNLIKE_NUMBERS)
    scaled = [("scale", StandardScaler())] if mixed else []
    parts: list[tuple[str, Any, list[str]]] = []

    def add(title: str, some: list[Column], read: Any, *, told: bool = False, after: Sequence = ()) -> None:
        if some:
            impute = SimpleImputer(strategy="median", add_indicator=told, keep_empty_features=True)
            last = [("sparse", AsSparse(single=single))] if sparse else []
            steps = [("read", read), ("impute", impute), *after, *last]
            parts.append((title, Pipeline(steps), _names(some)))

    for title, told in (("numbers", False), ("numbers with telling gaps", True)):
        some = [c for c in by_role["number"] if c.gaps_predict == told]
        formats = {c.name: c.reading for c in some if c.reading is not None}
        ranges = np.array([c.range for c in some], dtype=np.float64).reshape(-1, 3)
        read = ReadNumbers(formats, [c.name for c in some if c.flag], _odd(some), ranges)
        add(title, some, read, told=told, after=scaled)
    for title, hashed in (("categories", False), ("hashed categories", True)):
        some = [c for c in by_role["category"] if c.hashed == hashed]
        if some:
            encoder = FeatureHasher(HASHED, input_type="string") if hashed else _one_hot(n)
            parts.append((title, DistinctValueEncoder(encoder, single=single), _names(some)))
    dates, lists = by_role["date"], by_role["list"]
    add("dates", dates, ReadDates({c.name: c.reading for c in dates}, _odd(dates)), after=scaled)
    add(_LISTS, lists, ReadLists({c.name: c.reading["width"] for c in lists}, _odd(lists)))
    parts += [
        (f"{TEXT}{c.name}", _hashed_text() if c.hashed else _text(n), [c.name]) for c in by_role["text"]
    ]
    return ColumnStack(
        parts,
        n_jobs=1,  # steps count odd cells for the thread that they run in
        sparse_threshold=1.0 if sparse else 0.0,
        transformer_weights=_weights(parts, columns),
        verbose_feature_names_out=False,
    )


def _stays_sparse(by_role: dict[str, list[Column]], n: int) -> bool:
    """Tell whether the matrix of n rows is sparse."""
    full = len(by_role["number"]) + len(by_role["date"]) + sum(c.reading["width"] for c in by_role["list"])
    width = full + sum(HASHED if c.hashed else min(c.levels, MAX_VALUES) for c in by_role["category"])
    stored = full + len(by_role["category"])
    # an entry takes 8 bytes, and 4 more for its column if the matrix is sparse
    large = 8 * n * width > _LARGE and 2 * (8 + 4) * stored <= 8 * width
    return bool(by_role["text"]) or (width > _WIDE and stored < SPARSE * width) or large


def _weights(parts: list, columns: list[Column]) -> dict[str, float] | None:
    """Return the weights of the parts beside text and lists; a text with few words counts as a category."""
    lists = [c for c in columns if c.role == "list"]
    long = [f"{TEXT}{c.name}" for c in columns if c.role == "text" and not c.short]
    if len(lists) == len(columns) or not (lists or long):
        return None
    beside = len(columns) - len(lists) - len(long)
    weights = {}
    for title, _, _ in parts:
        if title == _LISTS:
            weights[title] = 1 / sqrt(sum(c.reading["length"] ** 2 for c in lists))
        elif title not in long:
            weights[title] = _BESIDE_TEXT / sqrt(beside)
    return weights


def _odd(columns: list[Column]) -> dict[str, float]:
    return {column.name: column.odd for column in columns if column.odd}


def _names(columns: list[Column]) -> list[str]:
    return [column.name for column in columns]


def _one_hot(n: int) -> OneHotEncoder:
    rare = max(2, int(_RARE * n))
    return OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=rare, max_categories=MAX_VALUES)


def _text(n: int) -> Pipeline:
    """Return tf-idf of words and word pairs, and of groups of three to five characters, with equal weight."""
    # a word that occurs in a single row does not help for other rows, unless there are few rows
    how: dict[str, Any] = {
        "strip_accents": "unicode",
        "max_features": _MAX_TERMS,
        "min_df": 2 if n > 100 else 1,
    }
    words = Terms(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", sublinear_tf=True, **how)
    characters = Terms(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, **how)
    parts = [("words", words), ("characters", characters)]
    union = FeatureUnion(parts, n_jobs=1, transformer_weights=dict.fromkeys(dict(parts), 0.5**0.5))
    return Pipeline([("read", ReadText()), ("terms", union)])


def _hashed_text() -> Pipeline:
    return Pipeline([("read", HashedWords()), ("weigh", TfidfTransformer(sublinear_tf=True))])
