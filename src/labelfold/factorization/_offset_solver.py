r"""The algorithm of LSDR and NSDR: joint descent over the factors of all rows and a classifier of the labelled ones.

Letters as in `_offset_model.py`. The variables U, bu, V, bv and the classifier are reduced to three blocks:

* unlabelled rows follow from V in closed form; the classifier is retrained at each position of the labelled rows;
* labelled rows are z = q(V) + D, so that they follow V, and D is their displacement by the labels;
* V, c = bv and D take quasi-Newton steps together (L-BFGS), D in a metric in which its cost is its squared norm, V
  in two parts: within its row space and orthogonal to it.

In U and V themselves the objective has a narrow valley, which these variables avoid. Quasi-Newton steps are slow at
kinks of the objective, where the set of support vectors changes. So from time to time, and when they stop, labelled
rows take the step of a linearised classifier, which does not stall there. In the end V and c take their closed-form
step given all rows. The descent continues if that lowered the objective.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import linalg

from labelfold.base import Iterates
from labelfold.factorization._coupled_classifiers import Machine
from labelfold.factorization._lbfgs import lbfgs
from labelfold.factorization._offset_model import Fold, Held, Swept, fold
from labelfold.rows import single_blas

# Number of pairs of steps and gradients that L-BFGS stores.
_MEMORY = 10
# Initial share of V's curvature within its row space, where rows follow V.
_SOFT = 0.1
# Number of iterations over which the decrease of the objective is averaged: a single one may be short by chance.
_WINDOW = 5
# Number of quasi-Newton steps between two steps of the linearised classifier, which take two to seven trainings each.
_LEAP_EVERY = 30
# A smaller relative decrease is round-off.
_ROUND_OFF = 1e-14


@dataclass(eq=False)
class OffsetProblem:
    """The rows, the classifier, and the weights of the terms, which do not change."""

    data: Held | Swept
    machine: Machine
    n: int
    reconstruction_share: float  # b
    row_penalty: float  # lambda U
    basis_penalty: float  # lambda V
    offset_unit: float
    _here: OffsetPoint | None = field(default=None, init=False, repr=False)  # position of rows and classifier

    @property
    def ridge(self) -> float:
        """Return lambda U / b."""
        return self.row_penalty / self.reconstruction_share

    def evaluate(self, V: np.ndarray, c: np.ndarray, D: np.ndarray) -> OffsetPoint:
        """Return the objective at V (k, d), c (d,) and D (l, k + 1), in one pass if rows are read in passes."""
        self._here = None  # unset until the evaluation is complete: Ctrl-C may interrupt it
        f = fold(V, self.ridge, self.offset_unit)
        Z = self.data.place(f, c) + D
        cost = self.machine.train(Z)
        misfit, size = self.data.misfit(f, c, Z)
        value = (
            self.reconstruction_share * misfit
            + self.row_penalty * size
            + self.basis_penalty * np.vdot(V, V)
            + cost
        )
        self._here = OffsetPoint(V, c, D, Z, f, float(value))
        return self._here

    def visit(self, at: OffsetPoint) -> None:
        """Move rows and classifier to a point, unless they are there already."""
        if self._here is not at:
            self.evaluate(at.V, at.c, at.D)
            self._here = at

    def slopes(self, at: OffsetPoint) -> Slopes:
        """Return the gradient of the objective in V, c and D."""
        self.visit(at)
        b, f, D, Z = self.reconstruction_share, at.fold, at.D, at.Z
        H = 2 * b * (D @ f.M) + self.machine.pull()
        P = H @ f.M_inverse
        ZtR, PtR, colsum = self.data.products(f, at.c, Z, P)
        # Rows follow V: dq = M^(-1) (dV1 (x - c - V1'q) - V1 dV1'q), and x - c - V1'q is R + V1'D.
        dV1 = PtR - 2 * b * ZtR + (P.T @ D - (Z - D).T @ P) @ f.V1
        dc = -2 * b * colsum - P.sum(axis=0) @ f.V1
        return Slopes(dV1[:-1] + 2 * self.basis_penalty * at.V, dc, H)

    def rows_step(self, at: OffsetPoint) -> OffsetPoint | None:
        """Return the point after the step of a linearised classifier on labelled rows, if it is lower; else None."""
        self.visit(at)
        D = self.machine.rows_step(at.D, self.metric(at))
        share = 1.0
        while D is not None and share > 0.01:
            new = self.evaluate(at.V, at.c, at.D + share * (D - at.D))
            if new.value < at.value:
                return new
            share *= 0.4
        return None

    def metric(self, at: OffsetPoint) -> np.ndarray:
        """Return L with L L' the inverse of 2 b M."""
        A = at.fold.M_inverse / (2 * self.reconstruction_share)
        try:
            return linalg.cholesky(A, lower=True, check_finite=False)
        except linalg.LinAlgError:
            values, vectors = np.linalg.eigh(A)
            return vectors * np.sqrt(np.maximum(values, np.finfo(np.float64).eps * values[-1]))

    def normal(self, at: OffsetPoint) -> np.ndarray:
        """Return [Z, 1]'[Z, 1] over all rows, (k + 2, k + 2)."""
        self.visit(at)
        return self.data.normal(at.Z)

    def basis_step(self, at: OffsetPoint) -> OffsetPoint:
        """Return the point with V and c at their minimum given all rows, in closed form."""
        ridge = np.zeros(len(at.V) + 1)
        ridge[:-1] = self.basis_penalty / self.reconstruction_share
        N = np.delete(
            np.delete(self.normal(at), -2, axis=0), -2, axis=1
        )  # for [U, 1], since the last row of V1 is fixed
        ZtR, _, colsum = self.data.products(at.fold, at.c, at.Z, at.Z[:, :0])
        right = np.vstack([ZtR[:-1] - ridge[0] * at.V, colsum])
        N[np.diag_indices_from(N)] += ridge
        if not (np.isfinite(N).all() and np.isfinite(right).all()):  # LAPACK would print a message
            raise OverflowError("sums over the embedded rows overflow")
        move = linalg.lstsq(N, right, check_finite=False)[0]
        V, c = at.V + move[:-1], at.c + move[-1]
        return self.evaluate(V, c, at.Z - self.data.place(fold(V, self.ridge, self.offset_unit), c))


@dataclass(frozen=True, eq=False)
class OffsetPoint:
    """A point of the descent: variables, labelled rows and objective."""

    V: np.ndarray
    c: np.ndarray
    D: np.ndarray
    Z: np.ndarray = field(repr=False)
    fold: Fold = field(repr=False)
    value: float


class Slopes(NamedTuple):
    """The gradient of the objective, in the shapes of the variables."""

    V: np.ndarray
    c: np.ndarray
    D: np.ndarray


def best_start(problem: OffsetProblem, bases: list[np.ndarray]) -> OffsetPoint:
    """Return the best of the points with these bases and no displacement of labelled rows."""
    with single_blas():
        none = np.zeros((problem.data.n_labelled, len(bases[0]) + 1))
        points = [problem.evaluate(V, np.zeros(V.shape[1]), none) for V in bases]
        return min(points, key=lambda point: point.value)


def iterates(problem: OffsetProblem, start: OffsetPoint, tol: float) -> Iterates:
    """Descend until a round of steps lowers the objective by at most ``tol``, relative to it."""
    at, before = start, np.inf
    while before - at.value > max(tol, _ROUND_OFF) * abs(at.value):
        before = at.value
        for point in _Round(problem, at, tol).steps():
            yield point, point.value
            at = point
        for step in (problem.rows_step, problem.basis_step):
            trial = step(at)
            if trial is not None and trial.value < at.value:
                yield trial, trial.value
                at = trial


class _Round:
    """L-BFGS from a point, in a metric derived from this point."""

    def __init__(self, problem: OffsetProblem, origin: OffsetPoint, tol: float) -> None:
        self.problem, self.origin, self.tol = problem, origin, tol
        at, b, (k, d) = self.origin, problem.reconstruction_share, self.origin.V.shape
        # Rows follow changes of V within its row space, which lowers the curvature of ||U dV||^2. They cannot follow
        # changes orthogonal to it.
        bend = 2 * b * np.diag(problem.normal(at))[:k] + 2 * problem.basis_penalty
        self.inside = np.linalg.qr(at.V.T)[0].T  # (min(k, d), d)
        self.scale_inside = 1 / np.sqrt(_SOFT * bend.mean())
        self.scale_beyond = 1 / np.sqrt(bend)[:, None]
        self.scale_c = 1 / np.sqrt(2 * b * problem.n)
        self.L = problem.metric(at)
        self.shapes = [(k, len(self.inside)), (k, d if k < d else 0), (d,), at.D.shape]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        ends = np.cumsum(self.sizes).tolist()
        self.parts = [slice(start, stop) for start, stop in zip([0, *ends[:-1]], ends, strict=True)]

    def steps(self) -> Iterator[OffsetPoint]:
        """Take steps until they gain little, or none is left."""
        values = [self.origin.value]
        x = np.zeros(sum(self.sizes))
        for value, point in lbfgs(
            self._value,
            self._slope,
            x,
            memory=_MEMORY,
            blocks=self.sizes,
            first_step=1.0,
            leap=self._leap,
            leap_every=_LEAP_EVERY,
        ):
            yield point
            values.append(value)
            window = min(_WINDOW, len(values) - 1)
            fall = (values[-1 - window] - value) / max(abs(value), np.finfo(np.float64).tiny) / window
            if fall <= self.tol and window == _WINDOW:
                return

    def _value(self, x: np.ndarray) -> tuple[float, OffsetPoint]:
        at, Q = self.origin, self.inside
        if not x.any():
            return at.value, at
        A, B, c, E = (x[part].reshape(shape) for part, shape in zip(self.parts, self.shapes, strict=True))
        V = at.V + (self.scale_inside * A) @ Q
        if B.size:
            V += self.scale_beyond * (B - (B @ Q.T) @ Q)
        point = self.problem.evaluate(V, at.c + self.scale_c * c, at.D + E @ self.L.T)
        return point.value, point

    def _slope(self, point: OffsetPoint) -> np.ndarray:
        Q, slopes = self.inside, self.problem.slopes(point)
        dA = slopes.V @ Q.T
        parts = [self.scale_inside * dA, self.scale_c * slopes.c, slopes.D @ self.L]
        if self.sizes[1]:
            parts.insert(1, self.scale_beyond * (slopes.V - dA @ Q))
        return np.concatenate([part.ravel() for part in parts])

    def _leap(self, x: np.ndarray, point: OffsetPoint) -> tuple[np.ndarray, float, OffsetPoint] | None:
        """Return the point after the step of a linearised classifier, in the variables of this round."""
        new = self.problem.rows_step(point)
        if new is None:
            return None
        x = x.copy()
        x[self.parts[-1]] = np.linalg.solve(self.L, (new.D - self.origin.D).T).T.ravel()
        return x, new.value, new
