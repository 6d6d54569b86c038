"""The inputs of the campaign: an estimator or a tool, its parameters, rows and a target."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np
from drawn import (
    Drawn,
    Target,
    class_codes,
    class_targets,
    matrices,
    number_targets,
    odd_targets,
    rare,
    several_labels,
)
from hypothesis import strategies as st
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, StrOptions
from tools import TOOLS, ToolCase, tool_cases

import labelfold
from labelfold import features

_FEATURE_MAPS = {made.__name__: made for made in (*features.FORMS.values(), features.Principal)}
FORMS = tuple(_FEATURE_MAPS)
# Every public estimator that learns from numeric rows, every feature map, and the other tools.
METHODS = tuple(name for name in labelfold._ESTIMATORS if name != "Recipe")
ESTIMATORS = (*METHODS, *FORMS, *TOOLS)
NONNEGATIVE = ("KLNMF", "NMFAlpha", "SSNMF", "CNMF", "RootCounts", "TfIdf")
# Parameters that do not change a result, or are drawn with y.
_LEFT_ALONE = ("random_state", "task", "unlabeled", "verbose", "on_interrupt")
_KERNELS = ["rbf", "rbf", "linear", "poly", "poly", "sigmoid", "laplacian", "cosine", "chi2"]
_OF_KERNELS = ("gamma", "degree", "coef0")
_TAKES = {"rbf": ("gamma",), "laplacian": ("gamma",), "chi2": ("gamma",), "sigmoid": ("gamma", "coef0")}
_TAKES["poly"] = _OF_KERNELS
# Values of parameters that are lists or names, which constraints do not state.
_NAMED = {
    "kernel": _KERNELS,
    "ridge": ["cv", [0.1, 1.0], [0.0, 1e3, 1e-9]],
    "priors": [None, [0.5, 0.5], [0.2, 0.3, 0.5], [1.0, 0.0]],
    "candidates": [[1], [1, 2], [2, 50], []],
    "views": ["auto", ["linear"], ["rbf", "laplace"], ["graph"], []],
    "forms": ["auto", ["as they are"], ["ranks", "unit rows"], ["tf-idf"], []],
    "ridges": [None, [0.1], [1e-9, 1e9], [0.0]],
    "positive_fraction": [None, 0.5, 0.01, 1.0, [0.2, 0.8]],
    "class_weight": [None, "balanced", {0: 1.0, 1: 5.0}],
    "graph": ["knn", "rbf"],
    "init": ["random"],
    "max_iter": [1, 2, 7],
    "max_gram_bytes": [1, 2000, 100_000],
}
_WHOLE = [1, 2, 3, 5, 10]
_REAL = [1e-3, 0.1, 0.5, 0.9, 1.0, 2.0, 100.0]
_FAR = {
    True: [0, 1, 40, 1000, 10**9, 2**70],
    False: [0.0, 1e-300, 1e-100, 1e-12, 1e-6, 1e6, 1e12, 1e100, 1e300],
}
_WRONG = [
    -1,
    0,
    -0.5,
    1e400,
    float("nan"),
    True,
    None,
    "auto",
    "nonsense",
    "precomputed",
    [],
    (),
    {},
    2.5,
    b"",
]
_WRONG += [np.float32(0.5), 1j]


@dataclass
class Case:
    """One estimator, its parameters, rows and a target.

    Attributes
    ----------
    name : str
        The estimator.
    parameters : dict
        Parameters that differ from the defaults.
    rows : Drawn
        The rows and their containers.
    target : Target
    """

    name: str
    parameters: dict[str, Any]
    rows: Drawn = field(repr=False)
    target: Target = field(repr=False)

    def make(self) -> Any:
        """Return the estimator, not fitted."""
        return home(self.name)().set_params(**self.parameters)

    def __str__(self) -> str:
        given = ", ".join(f"{p}={value!r}" for p, value in self.parameters.items())
        return f"{self.name}({given}) of X: {', '.join(self.rows.words)}; y: {self.target.words}"

    __repr__ = __str__


def home(name: str) -> Any:
    """Return the class with a name."""
    return getattr(labelfold, name) if name in METHODS else _FEATURE_MAPS[name]


@st.composite
def cases(draw: st.DrawFn, name: str) -> Case | ToolCase:
    """Draw a case of an estimator or a tool."""
    if name in TOOLS:
        return draw(tool_cases(name))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    codes = draw(class_codes())
    n = len(codes)
    rows = draw(matrices(codes, name in NONNEGATIVE))
    if name in FORMS:
        return Case(name, draw(parameters_of(name, rng)), rows, Target(None, {}, None, "none"))
    kind = "odd" if rare(rng, 0.04) else draw(st.sampled_from(_kinds(name)))
    of_kind = {"classes": class_targets(codes), "several": several_labels(n), "numbers": number_targets(n)}
    target = draw(of_kind.get(kind, odd_targets(codes)))
    parameters = draw(parameters_of(name, rng))
    taken = home(name)().get_params()
    return Case(name, parameters | {p: v for p, v in target.parameters.items() if p in taken}, rows, target)


@cache
def _kinds(name: str) -> list[str]:
    """Return the kinds of target to draw from: those that the estimator takes, and sometimes another."""
    model = home(name)()
    tags = get_tags(model)
    several = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    numbers = "task" in model.get_params()
    return ["classes"] * 20 + ["several"] * (8 if several else 0) + ["numbers"] * (8 if numbers else 0)


@st.composite
def parameters_of(draw: st.DrawFn, name: str, rng: np.random.Generator) -> dict[str, Any]:
    """Draw values for up to three parameters, mostly among those that the estimator accepts."""
    constraints = getattr(home(name), "_parameter_constraints", {})
    names = sorted(p for p in constraints if p not in _LEFT_ALONE)
    if not names:
        return {}
    chosen = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
    given = {p: draw(_values(p, constraints[p], rare(rng, 0.15))) for p in chosen}
    if {*_OF_KERNELS, "n_landmarks"} & given.keys() and "kernel" not in given:
        given["kernel"] = draw(_values("kernel", constraints["kernel"], False))
    if "kernel" in given and not rare(rng, 0.1):
        takes = _TAKES.get(given["kernel"], ())
        given = {p: v for p, v in given.items() if p not in _OF_KERNELS or p in takes}
    if home(name)().get_params().get("max_iter", 0) > 100 and not rare(rng, 0.2):
        given.setdefault("max_iter", 30)  # to save time
    if rare(rng, 0.04):
        given[draw(st.sampled_from(names))] = draw(st.sampled_from(_WRONG))
    return given


@st.composite
def _values(draw: st.DrawFn, name: str, constraints: Any, far: bool) -> Any:
    """Draw a value that the constraints of scikit-learn allow, or an unusual one."""
    named = name in _NAMED and (name != "ridge" or "array-like" in constraints)
    choices = list(_NAMED[name]) if named else []
    for constraint in constraints if isinstance(constraints, list) and name != "max_iter" else []:
        choices += _of(constraint, far)
    return draw(st.sampled_from(choices)) if choices else None


def _of(constraint: Any, far: bool) -> list[Any]:
    if constraint is None:
        return [None]
    if constraint == "boolean":
        return [False, True]
    if isinstance(constraint, StrOptions):
        return sorted(constraint.options)
    if isinstance(constraint, Interval):
        whole = issubclass(constraint.type, Integral)
        values = _FAR[whole] if far else _WHOLE if whole else _REAL
        return [value for value in values if value in constraint]
    return []
