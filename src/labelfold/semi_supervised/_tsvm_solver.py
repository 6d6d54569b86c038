"""The algorithm of TSVM: it alternates between training an SVM and switching labels. Letters as in `TSVM`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from labelfold.base import linear_values
from labelfold.numerics import LinearSVM, linear_svm
from labelfold.rows import as_rows

# Weight of the unlabelled rows in the first stage, relative to the last stage.
_FIRST_WEIGHT = 1e-4


@dataclass(frozen=True, eq=False)
class TSVMProblem:
    """The data that all SVMs share."""

    X: Any  # (n, d)  NumPy or SciPy sparse
    mean: np.ndarray  # (d,)
    index: np.ndarray  # (l,)
    unlabelled: np.ndarray  # (u,)
    C: float
    weights: np.ndarray  # weight of an unlabelled row in each stage
    fit_intercept: bool
    intercept_scaling: float  # s: the intercept b costs (b / s)^2 / 2
    max_switches: int | None
    max_iter: int
    tol: float
    random_state: int

    def costs(self, weight: float) -> np.ndarray:
        """Return the weight of every row's loss, (n,); ``weight`` is that of an unlabelled row."""
        C = np.full(self.X.shape[0], float(weight))
        C[self.index] = self.C
        return C


@dataclass(frozen=True, eq=False)
class Machine:
    """An SVM, the signs of its training, and the history of its objective."""

    w: np.ndarray  # (d,)
    intercept: float
    signs: np.ndarray  # (n,)  given or switched
    margins: np.ndarray  # (n,)  w'x + b
    objective: tuple[tuple[float, ...], ...] = ()
    gap: float = 0.0
    short: int = 0  # number of stages that ended while pairs still switched


def objective(
    w: np.ndarray,
    intercept: float,
    margins: np.ndarray,
    signs: np.ndarray,
    C: np.ndarray,
    intercept_scaling: float = 1.0,
) -> float:
    """Return the objective of an SVM with these margins.

    >>> objective(np.array([1.0]), 0.0, np.array([0.5, 2.0]), np.array([1.0, -1.0]), np.array([1.0, 0.25]))
    3.0
    """
    slack = np.maximum(0.0, 1 - signs * margins)
    return float(0.5 * (w @ w + (intercept / intercept_scaling) ** 2) + (C * slack * slack).sum())


def begin(problem: TSVMProblem, T: np.ndarray, fraction: float) -> Machine:
    """Return the SVM of the labelled rows, with the unlabelled rows labelled by its ranking."""
    signs = np.ones(problem.X.shape[0])
    signs[problem.index] = T
    C = problem.costs(0.0)
    found = _svm(problem, signs, C, None)
    margins = _margins(problem, found)
    u = len(problem.unlabelled)
    first = np.argsort(-margins[problem.unlabelled], kind="stable")
    signs[problem.unlabelled[first[int(np.floor(fraction * u + 0.5)) :]]] = -1.0
    value = objective(found.w, found.intercept, margins, signs, C, problem.intercept_scaling)
    return Machine(found.w, found.intercept, signs, margins, ((value,),), found.gap)


def anneal(problem: TSVMProblem, machine: Machine, weight: float, keep: Callable[[Machine], None]) -> Machine:
    """Alternate training and switching until no pair gains, with this weight of the unlabelled rows.

    ``keep`` is called with the SVM after each training, so that an interrupt can return it.
    """
    C = problem.costs(weight)
    earlier = machine.objective
    values: tuple[float, ...] = ()
    for _ in range(problem.max_iter):
        old, signs = machine, machine.signs
        # At the minimum alpha is 2 C slack, which gives a warm start for the current labels.
        alpha = 2 * C * np.maximum(0.0, 1 - signs * old.margins)
        found = _svm(problem, signs, C, alpha)
        margins = _margins(problem, found)
        value = objective(found.w, found.intercept, margins, signs, C, problem.intercept_scaling)
        stay = objective(old.w, old.intercept, old.margins, signs, C, problem.intercept_scaling)
        if value <= stay:
            machine = replace(old, w=found.w, intercept=found.intercept, margins=margins)
        values = (*values, min(value, stay))
        trained = replace(machine, gap=found.gap, objective=(*earlier, values))
        keep(trained)
        pairs = switches(trained.margins[problem.unlabelled], signs[problem.unlabelled], problem.max_switches)
        if not len(pairs):
            return trained
        signs = signs.copy()
        signs[problem.unlabelled[pairs]] *= -1.0
        machine = replace(trained, signs=signs)
    # The SVM belongs to the signs of its training, not to those after a later switch.
    return replace(trained, short=trained.short + 1)


def switches(margins: np.ndarray, signs: np.ndarray, most: int | None) -> np.ndarray:
    """Return the rows, as many positive as negative ones, that lower the objective by exchanging their signs.

    A positive and a negative row gain if the negative row has the larger margin, since l(z) - l(-z) decreases in z
    for the squared hinge loss l.

    >>> switches(np.array([0.2, -0.1, 0.4, -3.0]), np.array([1.0, 1.0, -1.0, -1.0]), None).tolist()
    [1, 2]
    """
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    positive = positive[np.argsort(margins[positive], kind="stable")]
    negative = negative[np.argsort(-margins[negative], kind="stable")]
    m = min(len(positive), len(negative), len(signs) if most is None else most)
    gains = margins[positive[:m]] < margins[negative[:m]]
    m = int(np.count_nonzero(gains))  # the first m pairs, since gains are sorted
    return np.concatenate([positive[:m], negative[:m]])


def _svm(problem: TSVMProblem, signs: np.ndarray, C: np.ndarray, alpha: np.ndarray | None) -> LinearSVM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last training warns
        return linear_svm(
            problem.X,
            signs,
            C,
            fit_intercept=problem.fit_intercept,
            intercept_scaling=problem.intercept_scaling,
            alpha=alpha,
            tol=problem.tol,
            random_state=problem.random_state,
        )


def _margins(problem: TSVMProblem, found: LinearSVM) -> np.ndarray:
    return linear_values(as_rows(problem.X), found.w[:, None], problem.mean)[:, 0] + found.intercept


def stage_weights(last: float, n_stages: int) -> np.ndarray:
    """Return the weights of an unlabelled row in the stages; empty if the last weight is 0."""
    if last == 0:
        return np.empty(0)
    return last * np.geomspace(_FIRST_WEIGHT if n_stages > 1 else 1.0, 1.0, n_stages)
