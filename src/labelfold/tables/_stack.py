"""Builds the ColumnTransformer of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import sqrt
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from labelfold.tables._blocks import LABELLED, LEARNED_FROM
from labelfold.tables._column import UNLIKE_NUMBERS, Column
from labelfold.tables._columns import HASHED, MOST_VALUES
from labelfold.tables._packed import Packed, pack, unpack
from labelfold.tables._steps import (
    AsSparse,
    EachValue,
    HashedWords,
    ReadDates,
    ReadLists,
    ReadNumbers,
    ReadText,
    Terms,
)

# A category with a smaller share of the rows, or with one row, is rare.
_RARE = 0.002
# Largest numbers of words and of character groups of a text column.
_MOST_TERMS = 50_000
# Norm of all other columns of a row, relative to a text or list of norm 1.
_BESIDE_TEXT = 0.5
_TEXT, _LISTS = "text ", "lists"
# A matrix with more columns than the first value stays sparse below this share of non-zeros. Text always does.
_WIDE, _SPARSE = 200, 0.1
# Up to a third of non-zeros it also stays sparse if the dense array would be larger than this, in bytes.
_LARGE, _THIRD = 2**30, 1 / 3
# Above this many rows a sparse matrix is float32.
_SINGLE_FROM = LEARNED_FROM + LABELLED


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
    single = sparse and n > _SINGLE_FROM
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
        some = [c for c in by_role["number"] if c.told == told]
        writings = {c.name: c.reading for c in some if c.reading is not None}
        ranges = np.array([c.range for c in some], dtype=np.float64).reshape(-1, 3)
        read = ReadNumbers(writings, [c.name for c in some if c.flag], _odd(some), ranges)
        add(title, some, read, told=told, after=scaled)
    for title, hashed in (("categories", False), ("hashed categories", True)):
        some = [c for c in by_role["category"] if c.hashed == hashed]
        if some:
            encoder = FeatureHasher(HASHED, input_type="string") if hashed else _one_hot(n)
            parts.append((title, EachValue(encoder, single=single), _names(some)))
    dates, lists = by_role["date"], by_role["list"]
    add("dates", dates, ReadDates({c.name: c.reading for c in dates}, _odd(dates)), after=scaled)
    add(_LISTS, lists, ReadLists({c.name: c.reading["width"] for c in lists}, _odd(lists)))
    parts += [
        (f"{_TEXT}{c.name}", _hashed_text() if c.hashed else _text(n), [c.name]) for c in by_role["text"]
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
    width = full + sum(HASHED if c.hashed else min(c.levels, MOST_VALUES) for c in by_role["category"])
    share = (full + len(by_role["category"])) / max(width, 1)
    large = 8 * n * width > _LARGE and share <= _THIRD
    return bool(by_role["text"]) or (width > _WIDE and share < _SPARSE) or large


def _weights(parts: list, columns: list[Column]) -> dict[str, float] | None:
    """Return the weights of the parts beside text and lists; a text with few words counts as a category."""
    lists = [c for c in columns if c.role == "list"]
    long = [f"{_TEXT}{c.name}" for c in columns if c.role == "text" and not c.short]
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
    return OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=max(2, int(_RARE * n)),
        max_categories=MOST_VALUES,
    )


def _text(n: int) -> Pipeline:
    """Return tf-idf of words and word pairs, and of groups of three to five characters, with equal weight."""
    kinds = {"words": ("word", (1, 2)), "characters": ("char_wb", (3, 5))}
    made = [(name, _terms(n, analyzer, lengths)) for name, (analyzer, lengths) in kinds.items()]
    half = dict.fromkeys(kinds, 0.5**0.5)
    return Pipeline([("read", ReadText()), ("terms", FeatureUnion(made, n_jobs=1, transformer_weights=half))])


def _hashed_text() -> Pipeline:
    return Pipeline([("read", HashedWords()), ("weigh", TfidfTransformer(sublinear_tf=True))])


def _terms(n: int, analyzer: str, lengths: tuple[int, int]) -> Any:
    how: dict[str, Any] = {"analyzer": analyzer, "ngram_range": lengths, "strip_accents": "unicode"}
    if analyzer == "word":
        how["token_pattern"] = r"(?u)\b\w+\b"
    # a word that occurs in a single row does not help for other rows, unless there are few rows
    return Terms(**how, sublinear_tf=True, max_features=_MOST_TERMS, min_df=2 if n > 100 else 1)


def count_unseen(transformer: ColumnTransformer, block: Any) -> None:
    """Read the columns of a block for the cells that cannot be used, without the steps that follow."""
    for title, part, names in transformer.transformers_:
        columns = block.select(names)
        if not isinstance(part, Pipeline):
            part.transform(columns)
        elif not title.startswith(_TEXT):
            part["read"].transform(columns)
        elif "terms" in part.named_steps:
            dict(part["terms"].transformer_list)["words"].transform(part["read"].transform(columns))


def features_of(transformer: ColumnTransformer, columns: Collection[str]) -> np.ndarray:
    """Return a mask of the columns of a recipe's matrix that are made of some columns of the table."""
    mask: list[bool] = []
    for title, part, names in transformer.transformers_:
        if title.startswith(_TEXT):
            mask += [names[0] in columns] * len(_text_names(part))
            continue
        made = part.get_feature_names_out(np.asarray(names, dtype=object))
        own = [name for name in names if name in columns]
        starts = tuple(f"{name}{mark}" for name in own for mark in ("=", ": ", "[", " #"))
        whole = {*own, *(f"missingindicator_{name}" for name in own)}
        mask += [str(one) in whole or (bool(own) and str(one).startswith(starts)) for one in made]
    return np.array(mask, dtype=bool)


def feature_names(transformer: ColumnTransformer) -> np.ndarray:
    """Return the names of the columns of a recipe's matrix."""
    names: list[str] = []
    for title, part, columns in transformer.transformers_:
        if title.startswith(_TEXT):
            names += [f"{columns[0]}: {term}" for term in _text_names(part)]
        else:
            names += list(part.get_feature_names_out(np.asarray(columns, dtype=object)))
    return np.array(names, dtype=object)


def _text_names(part: Pipeline) -> list[str]:
    if "terms" not in part.named_steps:
        return list(part["read"].get_feature_names_out())
    names: list[str] = []
    for kind, terms in part["terms"].transformer_list:
        quoted = kind == "characters"
        names += [f"'{term}'" if quoted else term for term in terms.get_feature_names_out()]
    return names
