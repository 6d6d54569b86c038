"""What the campaign gives to estimators: rows, targets and parameters that nobody thought of."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

import labelfold

# Every public estimator that learns from rows of numbers.
ESTIMATORS = (
    "LDA",
    "CCA",
    "OPLS",
    "HSL",
    "SSDR",
    "PCALS",
    "KernelPCALS",
    "LapRLS",
    "TSVM",
    "DRSVM",
    "LSDR",
    "NSDR",
    "KLNMF",
    "NMFAlpha",
    "SSNMF",
    "CNMF",
    "LabelFold",
)
NONNEGATIVE = ("KLNMF", "NMFAlpha", "SSNMF", "CNMF")
NUMBERS = ("CCA", "OPLS", "LabelFold")  # take a target of numbers with task="regression"
SEVERAL = ("LDA", "CCA", "OPLS", "HSL", "LabelFold", "SSNMF")  # take several labels a row
# Not what a user varies, or what only makes a case slow.
_LEFT_ALONE = (
    "random_state",
    "task",
    "unlabeled",
    "max_iter",
    "n_jobs",
    "verbose",
    "callback",
    "kernel_params",
)


@dataclass
class Case:
    """One estimator, its parameters, rows and a target.

    Attributes
    ----------
    name : str
        The estimator.
    parameters : dict
        Those that are not its defaults.
    X : ndarray or csr_array of shape (n, d)
    y : ndarray of shape (n,) or (n, c)
    calm : bool
        Whether X is far from every degenerate case, so that round-off stays small.
    """

    name: str
    parameters: dict[str, Any]
    X: Any = field(repr=False)
    y: np.ndarray = field(repr=False)
    calm: bool

    def make(self) -> Any:
        """Return the estimator, not fitted."""
        model = getattr(labelfold, self.name)()
        fixed = {"random_state": 0} if "random_state" in model.get_params() else {}
        return model.set_params(**fixed | self.parameters)


@st.composite
def cases(draw: st.DrawFn, name: str) -> Case:
    """Draw a case of an estimator."""
    X, calm = draw(rows(nonnegative=name in NONNEGATIVE))
    kinds = ["classes"] * 6 + ["columns"] * (name in SEVERAL) + ["numbers"] * (name in NUMBERS)
    kind = draw(st.sampled_from(kinds))
    y = draw(targets(X.shape[0], kind))
    parameters = draw(parameters_of(name))
    if kind == "numbers":
        parameters["task"] = "regression"
    return Case(name, parameters, X, y, calm and not parameters)


@st.composite
def rows(draw: st.DrawFn, nonnegative: bool) -> tuple[Any, bool]:
    """Draw rows, and whether they are far from every degenerate case."""
    n, d = draw(st.integers(6, 40)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    X = rng.standard_normal((n, d))
    calm = n > d + 4
    for spoil in draw(st.lists(st.sampled_from(sorted(_SPOIL)), max_size=2)):
        X = _SPOIL[spoil](X, rng)
        calm = False
    if nonnegative:
        X = np.abs(X)
    scale = draw(st.sampled_from([1.0, 1.0, 1.0, 1e-6, 1e-3, 1e3, 1e6, 1e-30, 1e30]))
    X, calm = scale * X, calm and 1e-3 <= scale <= 1e3
    if draw(st.integers(0, 3)) == 0:
        X[rng.random(X.shape) < 0.6] = 0.0
        calm = False
    if draw(st.integers(0, 3)) == 0:
        X, calm = X.astype(np.float32), False
    if draw(st.booleans()):
        X = np.asfortranarray(X)
    return (sparse.csr_array(X) if draw(st.integers(0, 4)) == 0 else X), calm


def _low_rank(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[:, :1] @ rng.standard_normal((1, X.shape[1]))


def _twice(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[rng.integers(0, max(len(X) // 2, 1), len(X))]


def _constant(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    X = X.copy()
    X[:, rng.integers(X.shape[1])] = 1.0
    return X


def _zeros(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    X = X.copy()
    X[:, rng.integers(X.shape[1])] = 0.0
    X[rng.integers(len(X))] = 0.0
    return X


_SPOIL = {
    "low rank": _low_rank,
    "rows twice": _twice,
    "a constant column": _constant,
    "zeros": _zeros,
    "an offset": lambda X, rng: X + 1e3,
    "a large offset": lambda X, rng: X + 1e6,
    "whole numbers": lambda X, rng: np.rint(3 * X),
    "columns of other units": lambda X, rng: X * 10.0 ** rng.integers(-4, 5, X.shape[1]),
    "an outlier": lambda X, rng: X + 1e4 * (np.arange(len(X)) == 0)[:, None],
}


@st.composite
def targets(draw: st.DrawFn, n: int, kind: str) -> np.ndarray:
    """Draw a target: classes as numbers or words with gaps, columns of 0 and 1, or numbers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    if kind == "numbers":
        y = rng.standard_normal(n) * draw(st.sampled_from([1.0, 1e-3, 1e4]))
        y[rng.random(n) < draw(st.sampled_from([0.0, 0.5]))] = np.nan
        return y if np.isfinite(y).sum() > 2 else np.nan_to_num(y)
    if kind == "columns":
        return (rng.random((n, draw(st.integers(2, 4)))) < 0.4).astype(int)
    n_classes = draw(st.integers(2, 4))
    codes = rng.integers(0, n_classes, n)
    codes[:n_classes] = np.arange(n_classes)
    codes[n_classes : n_classes + 2] = [0, 1]
    hidden = rng.random(n) < draw(st.sampled_from([0.0, 0.3, 0.7]))
    hidden[: n_classes + 2] = False
    how = draw(st.sampled_from(["codes", "codes", "words", "objects", "far codes"]))
    if how == "codes":
        return np.where(hidden, -1, codes)
    if how == "far codes":
        return np.where(hidden, -1, codes * 1000 + 7)
    words = np.array(["one", "two", "drei", "=4"], dtype=object)[codes]
    words[hidden] = None
    return words if how == "objects" or hidden.any() else words.astype(str)


@st.composite
def parameters_of(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Draw values for up to two parameters, each among those that the estimator says it takes."""
    estimator = getattr(labelfold, name)
    known = {
        p: [c for c in constraints if _values(c) is not None]
        for p, constraints in estimator._parameter_constraints.items()
        if p not in _LEFT_ALONE and isinstance(constraints, list)
    }
    names = sorted(p for p, constraints in known.items() if constraints)
    chosen = draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
    return {p: draw(_values(draw(st.sampled_from(known[p])))) for p in chosen}


def _values(constraint: Any) -> st.SearchStrategy | None:
    """Return a strategy for what a constraint of scikit-learn's allows; None where it is not one to draw from."""
    if constraint is None:
        return st.none()
    if constraint == "boolean":
        return st.booleans()
    if isinstance(constraint, StrOptions):
        return st.sampled_from(sorted(constraint.options - {"precomputed"}))
    if isinstance(constraint, Interval):
        whole = issubclass(constraint.type, Integral)
        values = [1, 2, 3, 5, 10] if whole else [1e-6, 1e-3, 0.1, 0.5, 1.0, 2.0, 100.0, 1e6, 0.0]
        inside = [value for value in values if value in constraint]
        return st.sampled_from(inside) if inside else None
    return None
