"""Generated rows (their values, dtype and container), and targets in many forms, valid and invalid."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy import sparse

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from containers import CONTAINERS

# Containers whose packages are slow: used in a few cases in a hundred.
_SLOW = [c for c in CONTAINERS if c.kind == "dask" or c.name.startswith("strict")]
_QUICK = [c for c in CONTAINERS if c not in _SLOW and c.needs is None]
DENSE = [c for c in _QUICK if not c.is_sparse]


def rare(rng: np.random.Generator, share: float) -> bool:
    """Return True in a given share of cases; hypothesis itself would draw it more often."""
    return rng.random() < share


class Drawn(NamedTuple):
    """Rows as a plain array, the two containers in which they are passed, and a description."""

    X: np.ndarray
    container: Any
    other: Any
    words: tuple[str, ...]


@st.composite
def matrices(draw: st.DrawFn, codes: np.ndarray, nonnegative: bool) -> Drawn:
    """Draw rows, one for each code; in half of the cases the rows of a class are close together."""
    n = len(codes)
    d = draw(st.integers(1, 8) | st.integers(1, 8) | st.integers(9, 50))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    X = _VALUES[draw(st.sampled_from(sorted(_VALUES)))](rng, n, d)
    words = [f"{n} x {d}"]
    if draw(st.booleans()):
        X = X + 2.0 * rng.standard_normal((int(codes.max(initial=0)) + 1, d))[codes]
        words.append("classes apart")
    for spoil in draw(st.lists(st.sampled_from(sorted(_SPOIL)), max_size=2)):
        X = _SPOIL[spoil](X, rng)
        words.append(spoil)
    if nonnegative and not rare(rng, 0.05):
        X = np.abs(X)
    scale = draw(st.sampled_from(_FAR if rare(rng, 0.1) else _SCALES))
    with np.errstate(over="ignore", under="ignore"):
        X = scale * X
        words += [f"times {scale:g}"] * (scale != 1)
        if rare(rng, 0.2):
            X[rng.random(X.shape) < 0.6] = 0.0
            words.append("many zeros")
        dtype = draw(st.sampled_from(_DTYPES))
        X = _cast(X, dtype)
    words += [np.dtype(dtype).name] * (dtype != np.float64)
    if rare(rng, 0.02) and X.dtype.kind == "f":
        bad = draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e308]))
        with np.errstate(over="ignore"):
            X[rng.integers(n), rng.integers(d)] = bad
        words.append(f"one cell {bad}")
    container, other = draw(_containers(X, rng)), draw(_containers(X, rng))
    return Drawn(X, container, other, (*words, f"in {container}, or {other}"))


@st.composite
def _containers(draw: st.DrawFn, X: np.ndarray, rng: np.random.Generator) -> Any:
    """Draw the containers of the rows; SciPy's sparse arrays and the array API have no float16."""
    container = draw(st.sampled_from(_SLOW if rare(rng, 0.02) else _QUICK))
    no_halves = container.is_sparse or container.kind == "device"
    return DENSE[0] if X.dtype == np.float16 and no_halves else container


_SCALES = [1.0] * 6 + [1e-6, 1e-3, 1e3, 1e6]
_FAR = [1e-30, 1e30, 1e100, 1e-100, 1e150, 1e-150, 1e300, 1e-300]
_DTYPES = [np.float64] * 12 + [np.float32] * 5 + [np.float16, np.int64, np.int8, np.uint8, bool]


def _cast(X: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the rows in a dtype, limited to its range, since overflow would only give cases of NaN."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        most = np.finfo(dtype).max
        return np.clip(X, -most, most).astype(dtype)
    if dtype.kind == "b":
        return np.median(X) < X
    info = np.iinfo(dtype)
    return np.clip(np.rint(3 * X), max(info.min, -(2**53)), min(info.max, 2**53)).astype(dtype)


def _low_rank(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[:, :1] @ rng.standard_normal((1, X.shape[1]))


def _nearly_dependent(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    X = X.copy()
    X[:, -1] = X[:, 0] / 3 + 10.0 ** -rng.integers(6, 16) * rng.standard_normal(len(X))
    return X


def _twice(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[rng.integers(0, max(len(X) // 2, 1), len(X))]


def _constant(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    X = X.copy()
    X[:, rng.integers(X.shape[1])] = 10.0 ** rng.integers(-3, 9)
    return X


def _zeros(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    X = X.copy()
    X[:, rng.integers(X.shape[1])] = 0.0
    X[rng.integers(len(X))] = 0.0
    return X


def _one_cell(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    only = np.zeros_like(X)
    only[rng.integers(len(X)), rng.integers(X.shape[1])] = 1.0
    return only


_VALUES = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "normal again": lambda rng, n, d: rng.standard_normal((n, d)),
    "uniform": lambda rng, n, d: rng.random((n, d)),
    "counts": lambda rng, n, d: rng.poisson(1.5, (n, d)).astype(float),
    "heavy tails": lambda rng, n, d: rng.standard_t(1.5, (n, d)),
}
_SPOIL = {
    "low rank": _low_rank,
    "nearly dependent columns": _nearly_dependent,
    "rows twice": _twice,
    "a constant column": _constant,
    "zeros": _zeros,
    "nothing but zeros": lambda X, rng: 0.0 * X,
    "every row the same": lambda X, rng: np.repeat(X[:1], len(X), axis=0),
    "one cell": _one_cell,
    "an offset": lambda X, rng: X + 1e3,
    "a large offset": lambda X, rng: X + 10.0 ** rng.integers(5, 9),
    "whole numbers": lambda X, rng: np.rint(3 * X),
    "columns of other units": lambda X, rng: X * 10.0 ** rng.integers(-4, 5, X.shape[1]),
    "units far apart": lambda X, rng: X * 10.0 ** rng.integers(-60, 61, X.shape[1]),
    "an outlier": lambda X, rng: X + 1e4 * (np.arange(len(X)) == 0)[:, None],
    "equal columns": lambda X, rng: X[:, rng.integers(0, max(X.shape[1] // 2, 1), X.shape[1])],
}


def stored(X: Any) -> bytes | None:
    """Return the bytes of a container; None if it is not in memory."""
    if sparse.issparse(X):
        parts = (X.data, X.indices, X.indptr) if hasattr(X, "indptr") else (X.data,)
    elif isinstance(X, list):
        return b"".join(stored(block) or b"" for block in X)
    elif isinstance(X, np.ndarray):
        parts = (X,)
    elif hasattr(X, "to_numpy"):
        parts = (X.to_numpy(),)
    else:
        return None
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


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
