"""The base of LSDR and NSDR: the set-up of a fit, the descent, and the embedding of new rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold.base import Decisions, Iterates, constraints
from labelfold.factorization._components import (
    Factorisation,
    check_matrix,
    chosen,
    component_scale,
    shrunk_away,
    total_weight,
    weighted,
)
from labelfold.factorization._offset_model import (
    RowFit,
    RowsInMemory,
    RowsInPasses,
    offset_rows,
    row_fit,
    start_bases,
    start_directions,
)
from labelfold.labels import Labels, loss_weights
from labelfold.rows import Centered, Rows, single_blas
from labelfold.utils import StrOptions, warn_user

# Precision: a smaller relative decrease is round-off.
ROUND_OFF = 1e-14
# Budget: number of steps of L-BFGS before its metric is computed again, and a step of linearised classifiers is
# tried.
_ROUND = 30


class CoupledClassifier(ABC):
    """The classifier that couples a factorisation to its labels; it is retrained whenever labelled rows move.

    Labelled rows are at Z = [U, bu / t] (l x (k+1)). Classifiers are re-optimised at each step, so by Danskin's
    theorem the partial gradient is enough. Each training has a warm start from the previous one.
    """

    @abstractmethod
    def train(self, Z: np.ndarray) -> float:
        """Return the minimum of the loss of the labels for rows at Z."""

    @abstractmethod
    def gradient(self) -> np.ndarray:
        """Return the gradient of that minimum in Z (l, k + 1), after training."""

    def linearised_step(
        self, D: np.ndarray, L: np.ndarray, root: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Return better displacements of the labelled rows, for a loss with kinks at which L-BFGS could stall.

        Displacements are multiplied by ``root`` (l, 1), the square roots of the weights of the rows.
        """
        return None

    def not_converged(self) -> str | None:
        """Return a phrase with the duality gap if classifiers have not converged; otherwise None."""
        return None


class OffsetFactorisation(Decisions, Factorisation):
    """A factorisation with offsets of rows and columns, coupled to a classifier of its labelled rows."""

    objective_: np.ndarray
    n_iter_: int
    components_: np.ndarray
    column_offsets_: np.ndarray
    embedding_: Any
    row_offsets_: np.ndarray

    _allowed = ("binary", "multiclass", "multilabel")
    _parameter_constraints = {
        **Factorisation._parameter_constraints,
        **constraints(
            *("reconstruction_share", "row_penalty", "basis_penalty", "offset_unit", "max_gram_bytes"),
            "class_weight",
        ),
        "init": [StrOptions({"svd", "random"})],
    }

    def _set_up(self, rows: Rows, labels: Labels, weights: np.ndarray | None) -> DescentStart:
        """Check X, choose the weights of the terms, and return the data and the initial bases."""
        name, (n, d), k = type(self).__name__, rows.shape, self.n_components
        mean, total = rows.mean(weights), total_weight(weights, n)
        root = None if weights is None else np.sqrt(weights)
        counted = weighted(Centered(rows, mean), root)
        square = check_matrix(counted, nonnegative=False, centred=True, estimator=name)
        if k > min(n, d):
            warn_user(
                f"n_components={k} is more than X has columns ({d}) or rows ({n}), so that it is inflated, not "
                "reduced; lower n_components",
                UserWarning,
            )
        data = offset_rows(rows, labels.index, mean, k, self.max_gram_bytes, root=root)
        directions = start_directions(data, d, k, check_random_state(self.random_state))
        spread = np.sqrt(square / (total * d))
        label_share, length = self._choose_weights(directions.by_column[0], total, spread)
        b, lu, lv = self.reconstruction_share_, self.row_penalty_, self.basis_penalty_
        bases = start_bases(directions, b=b, lu=lu, lv=lv, drawn=self.init == "random")
        of_labelled = None if root is None else root[labels.index, None]
        return DescentStart(total, mean, data, bases, label_share, length, of_labelled)

    def _solve(self, given: DescentStart, classifier: CoupledClassifier) -> np.ndarray:
        """Descend, store the factors, and return Z (l, k + 1) of the labelled rows, of the classifier as it is."""
        weights = self.reconstruction_share_, self.row_penalty_, self.basis_penalty_
        problem = OffsetProblem(given.data, classifier, given.n, *weights, self.offset_unit_, given.root)
        first = best_start(problem, given.bases)
        steps = iterates(problem, first, self.tol, self.max_iter)
        found = self._descend(steps, tol=None, start=(first, first.value))
        problem.move_to(found)
        if not self.n_iter_:  # the start is stationary
            self.objective_, self.n_iter_ = np.array([found.value]), 1
        self._warn(found, classifier)
        self.components_, self.column_offsets_ = found.V, given.mean + found.c
        return problem.of_rows(found.Z)

    def _loss_weights(self, labels: Labels) -> np.ndarray | None:
        """Return the weights of the losses, (l, r); None if all are 1."""
        if labels.weights is None and self.class_weight is None:
            return None
        return loss_weights(labels, self.class_weight)

    def _store_embedding(self, rows: Rows, labels: Labels, Z_labelled: np.ndarray) -> None:
        """Store the embedding, the row offsets and the labels of the training rows; the classifiers are stored."""
        self._keep_task(labels.task, labels.classes)
        Z = rows.result(self._positions(rows), at=(labels.index, Z_labelled))
        self.embedding_, self.row_offsets_ = Z[:, :-1].copy(), self.offset_unit_ * Z[:, -1]
        self.transduction_: Any = self._transduce(rows, Z, labels)

    def _choose_weights(self, sizes: np.ndarray, n: float, spread: float) -> tuple[float, float]:
        """Store the weights, as given or as multiples of the scale of the data.

        ``sizes`` are singular values of X centred by column; ``spread`` is the root mean square of its entries.
        Return 1 - b, without cancellation, and the mean squared norm of an embedded row.
        """
        scale = component_scale(sizes, n)
        weight = 30.0 / scale.variance  # weight of the factorisation, for labels of weight 1
        self.reconstruction_share_: float = chosen(self.reconstruction_share, weight / (1 + weight))
        given = not isinstance(self.reconstruction_share, str)
        label_share = 1 - self.reconstruction_share_ if given else 1 / (1 + weight)
        bound = 0.03 * self.reconstruction_share_ * scale.size
        self.row_penalty_: float = chosen(self.row_penalty, bound * scale.length)
        self.basis_penalty_: float = chosen(self.basis_penalty, bound / scale.length)
        self.offset_unit_: float = chosen(self.offset_unit, spread)
        # The ratio of the penalties decides how U and V share the scale of X.
        return label_share, scale.length * np.sqrt(self.basis_penalty_ / self.row_penalty_)

    def row_offsets(self, X: Any) -> np.ndarray:
        """Return the offset of each row, which is not part of `transform`.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        offsets : ndarray of shape (n,)
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return self.offset_unit_ * np.asarray(rows.get(self._positions(rows, slice(-1, None))))[:, 0]

    def inverse_transform(self, X: Any, row_offsets: Any = None) -> np.ndarray:
        """Return the reconstruction of rows from their embedding U, which is U V plus the offsets.

        Parameters
        ----------
        X : array of shape (n, k)
            The embedding of rows.
        row_offsets : array-like of shape (n,), optional
            Offsets of the rows, from the method of that name or ``row_offsets_``; zeros when None.

        Returns
        -------
        rows : ndarray of shape (n, d)
        """
        check_is_fitted(self)
        U = self._read_embedding(X)
        rows = U @ self.components_ + self.column_offsets_
        if row_offsets is not None:
            rows += np.asarray(row_offsets).reshape(len(U), 1)
        return rows.astype(U.dtype, copy=False)

    def _embed(self, rows: Rows) -> Any:
        return self._positions(rows, slice(None, -1))

    def _positions(self, rows: Rows, columns: slice = slice(None)) -> Any:
        """Return Z = [U, bu / offset_unit] of unlabelled rows, or some columns of it, in one pass."""
        return Centered(rows, self.column_offsets_) @ np.ascontiguousarray(self._position_map()[:, columns])

    def _position_map(self) -> np.ndarray:
        """Return G (d, k + 1) with Z = (X - column offsets) G."""
        return row_fit(self.components_, self.row_penalty_ / self.reconstruction_share_, self.offset_unit_).G

    def _score_rows(self, rows: Rows) -> np.ndarray:
        return self._scores_of(rows.get(self._positions(rows)))

    def _warn(self, found: OffsetPoint, classifier: CoupledClassifier) -> None:
        """Warn about limits that the solution reached, and about components that vanished."""
        problem = classifier.not_converged()
        if problem is not None:
            warn_user(
                f"the support vector machines of {type(self).__name__} have not settled: the last {problem}",
                ConvergenceWarning,
            )
        if shrunk_away(found.V, self.row_penalty_ / self.reconstruction_share_):
            warn_user(
                f"row_penalty={self.row_penalty_:g} and basis_penalty={self.basis_penalty_:g} have shrunk the "
                "components away; lower them",
                UserWarning,
            )


class DescentStart(NamedTuple):
    """The data and the initial values of a descent."""

    n: float  # number of rows, or their weight
    mean: np.ndarray  # (d,)  of the rows
    data: RowsInMemory | RowsInPasses
    bases: list[np.ndarray]  # of V (k, d); the descent starts from the best
    label_share: float  # 1 - b
    length: float  # the mean squared norm of an embedded row
    root: np.ndarray | None  # (l, 1)  square roots of the weights of the labelled rows


@dataclass(eq=False)
class OffsetProblem:
    """The rows, the classifier, and the weights of the terms, which do not change.

    With weights of the rows, positions Z and displacements D of labelled rows are multiplied by their square roots.
    So the descent takes the steps that it would take if rows were repeated.
    """

    data: RowsInMemory | RowsInPasses
    classifier: CoupledClassifier
    n: float
    reconstruction_share: float  # b
    row_penalty: float  # lambda U
    basis_penalty: float  # lambda V
    offset_unit: float
    root: np.ndarray | None = None  # (l, 1)
    _here: OffsetPoint | None = field(default=None, init=False, repr=False)  # position of rows and classifier

    @property
    def ridge(self) -> float:
        """Return lambda U / b."""
        return self.row_penalty / self.reconstruction_share

    def of_rows(self, A: np.ndarray) -> np.ndarray:
        """Return an array of labelled rows divided by the roots of their weights."""
        return A if self.root is None else A / self.root

    def evaluate(self, V: np.ndarray, c: np.ndarray, D: np.ndarray) -> OffsetPoint:
        """Return the objective at V (k, d), c (d,) and D (l, k + 1), in one pass if rows are read in passes."""
        self._here = None  # unset until the evaluation is complete: Ctrl-C may interrupt it
        f = row_fit(V, self.ridge, self.offset_unit)
        Z = self.data.embed(f, c) + D
        cost = self.classifier.train(self.of_rows(Z))
        misfit, size = self.data.misfit(f, c, Z)
        value = (
            self.reconstruction_share * misfit
            + self.row_penalty * size
            + self.basis_penalty * np.vdot(V, V)
            + cost
        )
        self._here = OffsetPoint(V, c, D, Z, f, float(value))
        return self._here

    def move_to(self, at: OffsetPoint) -> None:
        """Move rows and classifier to a point, unless they are there already."""
        if self._here is not at:
            self.evaluate(at.V, at.c, at.D)
            self._here = at

    def gradient(self, at: OffsetPoint) -> OffsetGradient:
        """Return the gradient of the objective in V, c and D."""
        self.move_to(at)
        b, f, D, Z = self.reconstruction_share, at.fit, at.D, at.Z
        H = 2 * b * (D @ f.M) + self.of_rows(self.classifier.gradient())
        P = H @ f.M_inverse
        ZtR, PtR, colsum = self.data.residual_sums(f, at.c, Z, P)
        # Rows follow V: dq = M^(-1) (dV1 (x - c - V1'q) - V1 dV1'q), and x - c - V1'q is R + V1'D.
        dV1 = PtR - 2 * b * ZtR + (P.T @ D - (Z - D).T @ P) @ f.V1
        sum_of_P = (P if self.root is None else self.root * P).sum(axis=0)
        dc = -2 * b * colsum - sum_of_P @ f.V1
        return OffsetGradient(dV1[:-1] + 2 * self.basis_penalty * at.V, dc, H)

    def linearised_step(self, at: OffsetPoint) -> OffsetPoint | None:
        """Return the point after the step of a linearised classifier on labelled rows, if it is lower; else None."""
        self.move_to(at)
        D = self.classifier.linearised_step(at.D, self.metric(at), self.root)
        share = 1.0
        while D is not None and share > 0.01:
            new = self.evaluate(at.V, at.c, at.D + share * (D - at.D))
            if new.value < at.value:
                return new
            share *= 0.4
        return None

    def metric(self, at: OffsetPoint) -> np.ndarray:
        """Return L with L L' the inverse of 2 b M."""
        A = at.fit.M_inverse / (2 * self.reconstruction_share)
        try:
            return linalg.cholesky(A, lower=True, check_finite=False)
        except linalg.LinAlgError:
            values, vectors = np.linalg.eigh(A)
            return vectors * np.sqrt(np.maximum(values, np.finfo(np.float64).eps * values[-1]))

    def squares(self, at: OffsetPoint) -> np.ndarray:
        """Return the squared norm of each column of Z over all rows, (k + 1,)."""
        self.move_to(at)
        return self.data.squares(at.Z)


@dataclass(frozen=True, eq=False)
class OffsetPoint:
    """A point of the descent: variables, labelled rows and objective."""

    V: np.ndarray
    c: np.ndarray
    D: np.ndarray
    Z: np.ndarray = field(repr=False)
    fit: RowFit = field(repr=False)
    value: float


class OffsetGradient(NamedTuple):
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


def iterates(problem: OffsetProblem, start: OffsetPoint, tol: float, max_iter: int) -> Iterates:
    """Descend until a round of steps lowers the objective by at most ``tol``, relative to it."""
    at, before, left = start, np.inf, max_iter
    scales = np.ones(4)
    while before - at.value > max(tol, ROUND_OFF) * abs(at.value):
        before = at.value
        steps = _Round(problem, at, scales)
        try:
            scales = steps.descend(tol, min(left, _ROUND))
        finally:  # also after Ctrl-C
            at, left = steps.at, left - len(steps.values)
            for value in steps.values:
                yield at, value
        trial = problem.linearised_step(at)
        if trial is not None:
            left -= 1
            yield trial, trial.value
            at = trial


class _Round:
    """Steps of L-BFGS from a point, in a metric derived from this point.

    There are four blocks of variables: changes of V within its row space, changes beyond it, c, and D. Steps of the
    last round tell how far the scale of each block was off.
    """

    def __init__(self, problem: OffsetProblem, origin: OffsetPoint, scales: np.ndarray) -> None:
        self.problem, self.origin, self.scales = problem, origin, scales
        self.at, self.values = origin, list[float]()  # the last point, and the objective after each step
        b, (k, d) = problem.reconstruction_share, origin.V.shape
        # Rows follow changes of V within its row space, which lowers the curvature of ||U dV||^2 to a tenth, say.
        # They cannot follow changes orthogonal to it.
        bend = 2 * b * problem.squares(origin)[:k] + 2 * problem.basis_penalty
        self.inside = np.linalg.qr(origin.V.T)[0].T  # (min(k, d), d)
        self.scale_inside = scales[0] / np.sqrt(0.1 * bend.mean())
        self.scale_beyond = scales[1] / np.sqrt(bend)[:, None]
        self.scale_c = scales[2] / np.sqrt(2 * b * problem.n)
        self.L = scales[3] * problem.metric(origin)
        self.shapes = [(k, len(self.inside)), (k, d if k < d else 0), (d,), origin.D.shape]
        self.cuts = np.cumsum([math.prod(shape) for shape in self.shapes])

    def descend(self, tol: float, max_iter: int, window: int = 5) -> np.ndarray:
        """Step until the last ``window`` steps gain little on average; return the scales of the next round."""
        before, first = self.origin.value, self._gradient(self.origin)
        # The first step of L-BFGS-B has norm 1, which is this unit: the step that a curvature of 1 asks for.
        unit = float(np.linalg.norm(first))
        # The variables and the gradient at the last evaluation, and at the last step.
        tried, last = (self.origin, 0 * first, first), (self.origin, 0 * first, first)

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal tried
            point = self._point(unit * x)
            if not np.isfinite(point.value):  # a value that is merely high makes the search step back
                return 2 * abs(before), np.zeros_like(x)
            tried = point, unit * x, self._gradient(point)
            return point.value, unit * tried[2]

        def after_step(intermediate_result: Any) -> None:
            nonlocal last
            if not tried[0].value < self.at.value:
                raise StopIteration
            last, self.at = tried, tried[0]
            self.values.append(self.at.value)
            if len(self.values) >= window:
                fall = [before, *self.values][-1 - window] - self.at.value
                if fall <= window * tol * abs(self.at.value):
                    raise StopIteration

        if unit > 0 and max_iter > 0:
            options = {"maxiter": max_iter, "ftol": 0.0, "gtol": 0.0}
            x = np.zeros_like(first)
            minimize(evaluate, x, jac=True, method="L-BFGS-B", callback=after_step, options=options)
        return self._learned(last[1], last[2] - first)

    def _learned(self, step: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Return the scales of the blocks by a step and its gradient change; some have too little of either."""
        scales, whole = self.scales.copy(), step @ change
        for j, (s, y) in enumerate(zip(self._blocks(step), self._blocks(change), strict=True)):
            if s @ y > 1e-6 * whole and y @ y > 0:
                scales[j] *= np.sqrt((s @ y) / (y @ y))
        return scales

    def _blocks(self, x: np.ndarray) -> list[np.ndarray]:
        return np.split(x, self.cuts[:-1])

    def _point(self, x: np.ndarray) -> OffsetPoint:
        at, Q = self.origin, self.inside
        if not x.any():
            return at
        A, B, c, E = (part.reshape(shape) for part, shape in zip(self._blocks(x), self.shapes, strict=True))
        V = at.V + (self.scale_inside * A) @ Q
        if B.size:
            V += self.scale_beyond * (B - (B @ Q.T) @ Q)
        return self.problem.evaluate(V, at.c + self.scale_c * c, at.D + E @ self.L.T)

    def _gradient(self, point: OffsetPoint) -> np.ndarray:
        Q, found = self.inside, self.problem.gradient(point)
        dA = found.V @ Q.T
        parts = [self.scale_inside * dA, self.scale_c * found.c, found.D @ self.L]
        if self.shapes[1][1]:
            parts.insert(1, self.scale_beyond * (found.V - dA @ Q))
        return np.concatenate([part.ravel() for part in parts])
