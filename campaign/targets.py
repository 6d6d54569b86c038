"""Targets in many forms, valid and invalid."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from matrices import rare
from scipy import sparse


class Target(NamedTuple):
    """A target, its parameters, and the possible predictions (None for numbers)."""

    y: Any
    parameters: dict[str, Any]
    known: set[Any] | None
    words: str


@st.composite
def class_codes(draw: st.DrawFn) -> np.ndarray:
    """Draw the class of each row; mostly every class has at least two rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n = draw(st.integers(1, 8) if rare(rng, 0.08) else st.integers(9, 36))
    n_classes = draw(st.sampled_from([2, 2, 2, 3, 3, 4, 6]))
    codes = rng.integers(0, n_classes, n)
    codes[: 2 * n_classes] = np.tile(np.arange(n_classes), 2)[:n]
    return codes


@st.composite
def class_targets(draw: st.DrawFn, codes: np.ndarray) -> Target:
    """Draw a form of the classes, with some rows unlabelled."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    hidden = rng.random(len(codes)) < draw(st.sampled_from([0.0, 0.0, 0.3, 0.7]))
    if not rare(rng, 0.1):
        hidden[: 2 * (int(codes.max()) + 1)] = False
    form = draw(st.sampled_from(sorted(_CLASSES)))
    y, parameters, names = _CLASSES[form](codes, hidden)
    known = {names[code] for code in np.unique(codes[~hidden]).tolist()}
    if known == {1} and hidden.any():
        known.add(-1)  # -1 and 1 alone are two classes, with a warning
    return Target(y, parameters, known, f"{form}, {int(hidden.sum())} hidden")


@st.composite
def several_labels(draw: st.DrawFn, n: int) -> Target:
    """Draw several labels a row, in some form."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    Y = (rng.random((n, draw(st.integers(2, 4)))) < draw(st.sampled_from([0.4, 0.4, 0.1]))).astype(float)
    hidden = rng.random(n) < draw(st.sampled_from([0.0, 0.4]))
    form = draw(st.sampled_from(sorted(_SEVERAL)))
    return Target(_SEVERAL[form](Y, hidden), {}, {0, 1}, form)


@st.composite
def number_targets(draw: st.DrawFn, n: int) -> Target:
    """Draw numbers, one or several a row, in some form."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    y = rng.standard_normal((n, draw(st.sampled_from([1, 1, 1, 3]))))
    y = y * draw(st.sampled_from([1e-100, 1e100, 0.0] if rare(rng, 0.1) else [1.0, 1e-3, 1e4]))
    y = y + draw(st.sampled_from([0, 0, 1e6]))
    y[rng.random(n) < draw(st.sampled_from([0.0, 0.4]))] = np.nan
    form = draw(st.sampled_from(sorted(_NUMBERS)))
    return Target(_NUMBERS[form](y[:, 0] if y.shape[1] == 1 else y), {"task": "regression"}, None, form)


@st.composite
def odd_targets(draw: st.DrawFn, codes: np.ndarray) -> Target:
    """Draw a target that must be refused, or is ambiguous."""
    form = draw(st.sampled_from(sorted(_ODD)))
    return Target(_ODD[form](codes), {}, None, form)


WORDS = ["one", "two", "drei", "=4", "", "-1 ", "\x1b[31m", "None"]


def _marked(codes: np.ndarray, hidden: np.ndarray, names: list[Any], mark: Any) -> list[Any]:
    return [mark if gone else names[code] for code, gone in zip(codes.tolist(), hidden, strict=True)]


def _listed(names: list[Any], mark: Any, hold: Any = list, **parameters: Any) -> Any:
    """Return a form: names of the classes, a mark for unlabelled rows, and the container."""

    def form(codes: np.ndarray, hidden: np.ndarray) -> tuple[Any, dict[str, Any], list[Any]]:
        return hold(_marked(codes, hidden, names, mark)), parameters, names

    return form


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _masked(codes: np.ndarray, hidden: np.ndarray) -> tuple[Any, dict[str, Any], list[Any]]:
    return np.ma.masked_array(codes, hidden), {}, list(range(8))


_DAYS = [datetime(2020, 1, 1) + timedelta(days=i) for i in range(8)]
_NUMBERED = list(range(8))
_CLASSES = {
    "codes": _listed(_NUMBERED, -1, np.array),
    "codes, again": _listed(_NUMBERED, -1, np.array),
    "codes in a list": _listed(_NUMBERED, None),
    "codes of a byte": _listed(_NUMBERED, -1, lambda v: np.array(v, dtype=np.int8)),
    "whole floats": _listed([float(i) for i in range(8)], np.nan, np.array),
    "single floats": _listed([float(i) for i in range(8)], np.nan, lambda v: np.array(v, dtype=np.float32)),
    "far codes": _listed([10**9 * i - 7 for i in range(8)], -1, np.array),
    "codes beyond 64 bits": _listed([10**30 + i for i in range(8)], None, _objects),
    "-1 and 1, all told": _listed([-1, 1, 2, 3, 4, 5, 6, 7], np.nan, _objects, unlabeled=None),
    "another mark": _listed(_NUMBERED, 99, np.array, unlabeled=99),
    "words": _listed(WORDS, "?", np.array, unlabeled="?"),
    "words as objects": _listed(WORDS, None, _objects),
    "words in a list": _listed(WORDS, float("nan")),
    "bytes": _listed([word.encode() for word in WORDS], None, _objects),
    "decimals": _listed([Decimal(i) for i in range(8)], None, _objects),
    "days": _listed(_DAYS, None, _objects),
    "a Series of codes": _listed(_NUMBERED, -1, pd.Series),
    "a Series of words": _listed(WORDS, None, pd.Series),
    "a Series of Int64": _listed(_NUMBERED, pd.NA, lambda v: pd.Series(v, dtype="Int64")),
    "a Series of strings": _listed(WORDS, pd.NA, lambda v: pd.Series(v, dtype="string")),
    "a Series of categories": _listed(WORDS, None, lambda v: pd.Series(v, dtype="category")),
    "objects with NA": _listed(WORDS, pd.NA, _objects),
    "masked": _masked,
    "flags": lambda codes, hidden: (
        _objects(_marked(codes % 2, hidden, [False, True], None)),
        {},
        [bool(i % 2) for i in range(8)],
    ),
    "flags of NumPy": lambda codes, hidden: (codes % 2 == 1, {}, [bool(i % 2) for i in range(8)]),
    "a column": lambda codes, hidden: (np.where(hidden, -1, codes)[:, None], {}, _NUMBERED),
}


def _gaps(Y: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    return np.where(hidden[:, None], np.nan, Y)


_SEVERAL = {
    "0 and 1": lambda Y, hidden: Y.astype(int),
    "0 and 1, NaN": _gaps,
    "0 and 1, -1": lambda Y, hidden: np.where(hidden[:, None], -1, Y).astype(int),
    "flags": lambda Y, hidden: Y.astype(bool),
    "sparse": lambda Y, hidden: sparse.csr_array(Y),
    "a DataFrame": lambda Y, hidden: pd.DataFrame(
        _gaps(Y, hidden), columns=[f"l{j}" for j in range(Y.shape[1])]
    ),
    "lists": lambda Y, hidden: _gaps(Y, hidden).tolist(),
    "objects": lambda Y, hidden: np.where(hidden[:, None], None, Y.astype(object)),
}
_NUMBERS = {
    "floats": lambda y: y,
    "single precision": lambda y: np.clip(y, -1e30, 1e30).astype(np.float32),
    "a list": lambda y: y.tolist(),
    "pandas": lambda y: pd.Series(y) if y.ndim == 1 else pd.DataFrame(y),
    "objects": lambda y: np.where(np.isnan(y), None, y.astype(object)),
    "whole numbers": lambda y: np.clip(np.nan_to_num(np.rint(10 * y)), -(2**53), 2**53).astype(int),
}
_ODD = {
    "one class": lambda codes: np.zeros(len(codes), dtype=int),
    "no label": lambda codes: np.full(len(codes), -1),
    "a row too many": lambda codes: np.append(codes, 0),
    "nothing": lambda codes: np.empty(0),
    "None": lambda codes: None,
    "a number": lambda codes: 3,
    "complex": lambda codes: codes + 1j,
    "infinite": lambda codes: np.where(codes == 0, np.inf, codes),
    "mixed": lambda codes: _objects([code if code else "zero" for code in codes.tolist()]),
    "tuples": lambda codes: _objects([(code,) for code in codes.tolist()]),
    "dicts": lambda codes: _objects([{} for _ in codes]),
    "three dimensions": lambda codes: np.zeros((len(codes), 2, 2)),
    "no columns": lambda codes: np.zeros((len(codes), 0)),
    "partly missing": lambda codes: np.where(np.arange(len(codes))[:, None] % 2, [np.nan, 1.0], [0.0, 1.0]),
    "a class each": lambda codes: np.arange(len(codes)),
    "fractions": lambda codes: codes + 0.5,
    "text": lambda codes: "labels",
}


def plain(y: Any) -> str:
    """Return a target as text, to check that it was not changed."""
    if sparse.issparse(y):
        y = y.toarray()
    return repr(np.asarray(y, dtype=object).tolist()) if not isinstance(y, str | list) else repr(y)
