"""Generated rows: their values, their dtype, and their container."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
