r"""The algorithm of LSDR and NSDR: factors of all rows, and a machine on the labelled ones, descended together.

Letters as in `labelfold.factor.offsets`. Of the variables U, bu, V, bv and the machine only three blocks are left:

* unlabelled rows are where V puts them, in closed form; the machine is trained anew wherever the labelled rows are;
* labelled rows are written z = q(V) + D, so that they follow V and D says how far their labels drew them;
* V, c = bv and D take quasi-Newton steps together (L-BFGS), in a metric in which D costs its squared length.

U and V alone would have to move against each other along a narrow valley; in these variables it is gone. Where the
quasi-Newton steps stop, V and c take their closed-form step given all rows, and the descent goes on if that still
paid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

from labelfold.factor.machines import Machine
from labelfold.factor.offsets import Fold, Held, Swept, fold
from labelfold.numerics.lbfgs import lbfgs
from labelfold.rows import threads

# Pairs of steps and gradients that L-BFGS keeps.
_MEMORY = 10
# Share of the curvature of ||U dV||^2 by which V is scaled: rows that follow V soften it.
_SOFT = 0.1
# The fall of the objective is judged over so many iterations: single ones may be short by chance.
_WINDOW = 5


@dataclass(eq=False)
class Problem:
    """What stays the same: the rows, the machine, and the weights of the terms."""

    data: Held | Swept
    machine: Machine
    n: int
    reconstruction: float  # b
    u_penalty: float
    v_penalty: float

    @property
    def ridge(self) -> float:
        """Return lambda U / b."""
        return self.u_penalty / self.reconstruction

    def evaluate(self, V: np.ndarray, c: np.ndarray, D: np.ndarray) -> Point:
        """Return the objective and its slopes in V (k, d), c (d,) and D (l, k + 1); one pass where rows are swept."""
        b = self.reconstruction
        f = fold(V, self.ridge)
        Q = self.data.place(f, c)
        Z = Q + D
        cost, pull = self.machine.evaluate(Z)
        H = 2 * b * (D @ f.M) + pull
        P = H @ f.M_inverse
        sums = self.data.sums(f, c, Z, P)
        value = b * sums.misfit + self.u_penalty * sums.size + self.v_penalty * np.vdot(V, V) + cost
        # Rows follow V: dq = M^(-1) (dV1 (x - c - V1'q) - V1 dV1'q), and x - c - V1'q is R + V1'D.
        dV1 = -2 * b * sums.ZtR + sums.PtR + (P.T @ D - Q.T @ P) @ f.V1
        dc = -2 * b * sums.colsum - P.sum(axis=0) @ f.V1
        return Point(
            V, c, D, Z, f, float(value), dV1[:-1] + 2 * self.v_penalty * V, dc, H, sums.ZtR, sums.colsum
        )

    def basis_step(self, at: Point) -> Point:
        """Return the point with V and c at their minimum given all rows, in closed form."""
        ridge = np.zeros(len(at.V) + 1)
        ridge[:-1] = self.v_penalty / self.reconstruction
        N = np.delete(np.delete(self.data.normal(at.Z), -2, axis=0), -2, axis=1)  # of [U, 1]: V1 ends in ones
        right = np.vstack([at.ZtR[:-1] - ridge[0] * at.V, at.colsum])
        N[np.diag_indices_from(N)] += ridge
        move = linalg.lstsq(N, right, check_finite=False)[0]
        V, c = at.V + move[:-1], at.c + move[-1]
        return self.evaluate(V, c, at.Z - self.data.place(fold(V, self.ridge), c))


@dataclass(frozen=True, eq=False)
class Point:
    """Where the descent is: variables, labelled rows, objective and slopes."""

    V: np.ndarray
    c: np.ndarray
    D: np.ndarray
    Z: np.ndarray = field(repr=False)
    fold: Fold = field(repr=False)
    value: float = 0.0
    dV: np.ndarray | None = field(default=None, repr=False)
    dc: np.ndarray | None = field(default=None, repr=False)
    dD: np.ndarray | None = field(default=None, repr=False)
    ZtR: np.ndarray | None = field(default=None, repr=False)
    colsum: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Solution:
    """The last point, and how it was reached."""

    point: Point
    objective: list[float]
    converged: bool
    interrupted: bool


def solve(problem: Problem, bases: list[np.ndarray], **options: Any) -> Solution:
    """Descend from the best of the bases, as `descend` says, BLAS held to one thread."""
    with threads.single_blas():
        V = bases[0]
        none = np.zeros((problem.data.n_labelled, len(V) + 1))
        starts = [problem.evaluate(V, np.zeros(V.shape[1]), none) for V in bases]
        return descend(problem, min(starts, key=lambda point: point.value), **options)


def descend(
    problem: Problem,
    start: Point,
    *,
    max_iter: int,
    tol: float,
    keep_on_interrupt: bool = False,
    callback: Callable[[int, float], None] | None = None,
) -> Solution:
    """Descend until an iteration lowers the objective by no more than ``tol``, relative to it."""
    point, objective = start, [start.value]
    converged = interrupted = False
    try:
        while not converged and len(objective) <= max_iter:
            rounds = _Round(problem, point, objective, max_iter, tol, callback)
            point = rounds.run()
            if len(objective) > max_iter:
                break
            after = problem.basis_step(point)
            gain = (point.value - after.value) / max(abs(point.value), np.finfo(np.float64).tiny)
            if gain > 0:
                point = after
                objective.append(point.value)
            converged = gain <= max(tol, 1e-12)
    except KeyboardInterrupt:
        if not keep_on_interrupt or len(objective) == 1:
            raise
        point = rounds.point
        interrupted = True
    # The machine has seen other places since: leave it at the ones that count.
    point = problem.evaluate(point.V, point.c, point.D)
    return Solution(point, objective[1:] or [point.value], converged, interrupted)


class _Round:
    """L-BFGS from a point, in the metric that this point suggests."""

    def __init__(
        self,
        problem: Problem,
        point: Point,
        objective: list[float],
        max_iter: int,
        tol: float,
        callback: Callable[[int, float], None] | None,
    ) -> None:
        self.problem, self.origin, self.point, self.objective = problem, point, point, objective
        self.max_iter, self.tol, self.callback = max_iter, tol, callback
        self.first = len(objective)
        k = len(point.V)
        b, N = problem.reconstruction, problem.data.normal(point.Z)
        # The curvature of ||U dV||^2 and of ||1 dc'||^2. D = E L' with L L' = M^(-1) / 2b: b D'MD is then half the
        # squared length of E.
        bend = 2 * b * np.trace(N[:k, :k]) / k + 2 * problem.v_penalty
        self.scale_V = 1 / np.sqrt(_SOFT * bend)
        self.scale_c = 1 / np.sqrt(2 * b * problem.n)
        self.L = linalg.cholesky(point.fold.M_inverse / (2 * b), lower=True, check_finite=False)

    def run(self) -> Point:
        """Return where the steps lead."""
        size = self.origin.V.size + self.origin.c.size + self.origin.D.size
        lbfgs(self._value, np.zeros(size), self._accept, memory=_MEMORY)
        return self.point

    def _value(self, x: np.ndarray) -> tuple[float, np.ndarray, Point]:
        at = self.origin
        first, second = at.V.size, at.V.size + at.c.size
        V = at.V + self.scale_V * x[:first].reshape(at.V.shape)
        c = at.c + self.scale_c * x[first:second]
        D = at.D + x[second:].reshape(at.D.shape) @ self.L.T
        point = self.problem.evaluate(V, c, D)
        slopes = (self.scale_V * point.dV).ravel(), self.scale_c * point.dc, (point.dD @ self.L).ravel()
        return point.value, np.concatenate(slopes), point

    def _accept(self, value: float, point: Point) -> bool:
        """Keep a step, and say whether to stop: the last ones gained little, or there are no more to take."""
        self.point = point
        self.objective.append(value)
        window = min(_WINDOW, len(self.objective) - self.first)
        fall = (self.objective[-1 - window] - value) / max(abs(value), np.finfo(np.float64).tiny) / window
        if self.callback is not None:
            self.callback(len(self.objective) - 1, fall)
        return (fall <= self.tol and window == _WINDOW) or len(self.objective) > self.max_iter
