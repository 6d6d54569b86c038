"""The base of LSDR and NSDR: factorise with offsets, embed rows, classify them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold.base import Decisions, Iterates, constraints, fitting
from labelfold.factorization._components import (
    SHRUNK_AWAY,
    Factorisation,
    check_matrix,
    chosen,
    component_scale,
)
from labelfold.factorization._offset_model import Fold, Held, Swept, fold, hold, start_bases, start_directions
from labelfold.rows import Centered, Rows, as_rows, single_blas
from labelfold.utils import StrOptions, warn_user

# Number of iterations over which the decrease of the objective is averaged: a single one may be short by chance.
_WINDOW = 5
# Number of quasi-Newton steps between two steps of the linearised classifier, which take two to seven trainings each.
_LEAP_EVERY = 30
# A smaller relative decrease is round-off.
ROUND_OFF = 1e-14


class CoupledClassifier(ABC):
    """The classifier that couples a factorisation to its labels; it is retrained whenever labelled rows move.

    Labelled rows are at Z = [U, bu] (l x (k+1)). Classifiers are re-optimised at each step, so by Danskin's theorem
    the partial gradient is enough. Each training has a warm start from the previous one.
    """

    @abstractmethod
    def train(self, Z: np.ndarray) -> float:
        """Return the least loss of the labels for rows at Z."""

    @abstractmethod
    def pull(self) -> np.ndarray:
        """Return the gradient of that loss in Z (l, k + 1), after training."""

    def rows_step(self, D: np.ndarray, L: np.ndarray) -> np.ndarray | None:
        """Return better displacements of the labelled rows, for a loss with kinks at which L-BFGS could stall."""
        return None

    def shortfall(self) -> str | None:
        """Return a phrase with the duality gap of SVMs that have not converged; otherwise None."""
        return None


class OffsetFactorisation(Decisions, Factorisation):
    """A factorisation with offsets of rows and columns, coupled to a classifier of its labelled rows."""

    _allowed = ("binary", "multiclass", "multilabel")
    _parameter_constraints = {
        **Factorisation._parameter_constraints,
        **constraints(
            "reconstruction_share", "row_penalty", "basis_penalty", "offset_unit", "max_gram_bytes"
        ),
        "init": [StrOptions({"svd", "random"})],
    }

    def _check_size(self, n_labelled: int) -> None:
        """Raise an error if there are more labelled rows than memory allows."""

    @abstractmethod
    def _machine(self, T: np.ndarray) -> CoupledClassifier:
        """Return the classifier for these signs, (l, r), with the weights in use."""

    @abstractmethod
    def _keep_machine(self, machine: Any, index: np.ndarray) -> None:
        """Store the classifier as arrays; ``index`` has the indices of the labelled rows."""

    @abstractmethod
    def _machine_scores(self, Z: np.ndarray) -> np.ndarray:
        """Return the scores (n, r) of rows at Z = [U, bu / offset_unit]."""

    @fitting
    def fit(self, X: Any, y: Any) -> Self:
        """Factorise all rows so that a classifier can separate the labelled ones.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), or (n, c) for multi-label
            Classes; ``unlabeled`` or a missing value for unlabelled rows.

        Returns
        -------
        self : estimator
        """
        name = type(self).__name__
        rows = self._rows(X, reset=True)
        labels = self._read_labels(y, rows.shape[0])
        (n, d), k = rows.shape, self.n_components
        mean = rows.mean()
        square = check_matrix(Centered(rows, mean), nonnegative=False, centred=True, estimator=name)
        if k > min(n, d):
            warn_user(
                f"n_components={k} is more than X has columns ({d}) or rows ({n}), so that it is inflated, not "
                "reduced; lower n_components",
                UserWarning,
            )
        self._check_size(labels.n_labelled)
        data = hold(rows, labels.index, mean, k, self.max_gram_bytes)
        directions = start_directions(data, d, k, check_random_state(self.random_state))
        self._choose_weights(directions.centred[0], n, np.sqrt(square / (n * d)))
        weights = self.reconstruction_share_, self.row_penalty_, self.basis_penalty_
        named = dict(zip(("b", "lu", "lv"), weights, strict=True))
        bases = start_bases(directions, **named, drawn=self.init == "random")
        machine = self._machine(labels.signs())
        problem = OffsetProblem(data, machine, n, *weights, self.offset_unit_)
        first = best_start(problem, bases)
        steps = iterates(problem, first, self.tol)
        found = self._descend(steps, tol=None, start=(first, first.value))
        problem.visit(found)  # so that the classifier is trained at the solution
        if not self.n_iter_:  # the start is stationary
            self.objective_, self.n_iter_ = np.array([found.value]), 1
        self._warn(found, machine)
        self.components_ = found.V
        self.column_offsets_ = mean + found.c
        self._keep_task(labels.task, labels.classes)
        self._keep_machine(machine, labels.index)
        Z = rows.result(self._embed(rows), at=(labels.index, found.Z))
        self.embedding_, self.row_offsets_ = Z[:, :-1].copy(), self.offset_unit_ * Z[:, -1]
        self.transduction_ = self._transduce(rows, Z, labels)
        return self

    def _choose_weights(self, sizes: np.ndarray, n: int, spread: float) -> None:
        """Store the weights, as given or as multiples of the scale of the data.

        ``sizes`` are singular values of X centred by column; ``spread`` is the root mean square of its entries.
        """
        scale = component_scale(sizes, n)
        weight = 30.0 / scale.variance  # weight of the factorisation, for labels of weight 1
        self.reconstruction_share_ = chosen(self.reconstruction_share, weight / (1 + weight))
        given = not isinstance(self.reconstruction_share, str)
        # 1 - b, without cancellation
        self._label_share = 1 - self.reconstruction_share_ if given else 1 / (1 + weight)
        bound = 0.03 * self.reconstruction_share_ * scale.size
        self.row_penalty_ = chosen(self.row_penalty, bound * scale.length)
        self.basis_penalty_ = chosen(self.basis_penalty, bound / scale.length)
        self.offset_unit_ = chosen(self.offset_unit, spread)
        # The mean squared norm of an embedded row; the ratio of the penalties decides how U and V share the scale of
        # X.
        self._length = scale.length * np.sqrt(self.basis_penalty_ / self.row_penalty_)

    def transform(self, X: Any) -> Any:
        """Embed rows, as the fit embeds unlabelled ones.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.

        Returns
        -------
        U : array of shape (n, k)
            In host memory for arrays and files; otherwise on the device or cluster of X.
        """
        check_is_fitted(self)
        return self._embed(self._rows(X, reset=False), slice(None, -1))

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
        return self.offset_unit_ * np.asarray(rows.get(self._embed(rows, slice(-1, None))))[:, 0]

    def inverse_transform(self, U: Any, row_offsets: Any = None) -> np.ndarray:
        """Return the reconstruction of rows from their embedding, U V plus the offsets.

        Parameters
        ----------
        U : array of shape (n, k)
            The embedding of rows.
        row_offsets : array-like of shape (n,), optional
            Offsets of the rows, from the method of that name or ``row_offsets_``; zeros when None.

        Returns
        -------
        X : ndarray of shape (n, d)
        """
        check_is_fitted(self)
        U = np.asarray(as_rows(U).whole().dense())
        k = len(self.components_)
        if U.shape[1] != k:
            raise ValueError(
                f"U has {U.shape[1]} columns, where {k} are expected; pass what transform returns"
            )
        X = U @ self.components_ + self.column_offsets_
        if row_offsets is not None:
            X += np.asarray(row_offsets).reshape(len(U), 1)
        return X.astype(U.dtype, copy=False)

    def _embed(self, rows: Rows, columns: slice = slice(None)) -> Any:
        """Return Z = [U, bu / offset_unit] of unlabelled rows, or some columns of it, in one pass."""
        ridge = self.row_penalty_ / self.reconstruction_share_
        G = fold(self.components_, ridge, self.offset_unit_).G[:, columns]
        return Centered(rows, self.column_offsets_) @ np.ascontiguousarray(G)

    def _scores_of(self, Z: np.ndarray) -> np.ndarray:
        return self._machine_scores(np.asarray(Z, dtype=np.float64))

    def _warn(self, found: OffsetPoint, machine: CoupledClassifier) -> None:
        """Warn about limits that the solution reached, and about components that vanished."""
        name = type(self).__name__
        shortfall = machine.shortfall()
        if shortfall is not None:
            warn_user(
                f"the support vector machines of {name} have not settled: the last {shortfall}",
                ConvergenceWarning,
            )
        ridge = self.row_penalty_ / self.reconstruction_share_
        if np.vdot(found.V, found.V) < SHRUNK_AWAY * ridge:
            warn_user(
                f"row_penalty={self.row_penalty_:g} and basis_penalty={self.basis_penalty_:g} have shrunk the "
                "components away; lower them",
                UserWarning,
            )


@dataclass(eq=False)
class OffsetProblem:
    """The rows, the classifier, and the weights of the terms, which do not change."""

    data: Held | Swept
    machine: CoupledClassifier
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
    while before - at.value > max(tol, ROUND_OFF) * abs(at.value):
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
        # Rows follow changes of V within its row space, which lowers the curvature of ||U dV||^2 to a tenth, say.
        # They cannot follow changes orthogonal to it.
        bend = 2 * b * np.diag(problem.normal(at))[:k] + 2 * problem.basis_penalty
        self.inside = np.linalg.qr(at.V.T)[0].T  # (min(k, d), d)
        self.scale_inside = 1 / np.sqrt(0.1 * bend.mean())
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


def lbfgs(
    function: Callable[[np.ndarray], tuple[float, Any]],
    gradient: Callable[[Any], np.ndarray],
    x: np.ndarray,
    *,
    memory: int = 10,
    blocks: Sequence[int] | None = None,
    first_step: float = np.inf,
    leap: Callable[[np.ndarray, Any], tuple[np.ndarray, float, Any] | None] | None = None,
    leap_every: int = 30,
) -> Iterator[tuple[float, Any]]:
    """Minimise a smooth function step by step, until no step lowers it.

    Parameters
    ----------
    function : callable
        Returns the value at x (``inf`` if it is not defined), and any object for ``gradient``.
    gradient : callable
        Returns the gradient, given that object. It is called right after the value, and only if the value is low
        enough.
    x : ndarray of shape (N,)
        Initial point.
    memory : int
        Number of pairs of steps and gradient changes that are stored.
    blocks : sequence of int, optional
        Sizes of the blocks of x. Each has its own scale, learned from the steps, if their units differ or are
        unknown; one block when None.
    first_step : float
        The longest first step to try, in multiples of the gradient: 1 if the curvature is about 1 in the units of x.
    leap : callable, optional
        A step of another kind, for a function with kinks, which gradients do not foresee. It gets x and its object,
        and returns a lower point, its value and its object, or None.
    leap_every : int
        Number of steps between two calls of ``leap``.

    Yields
    ------
    value : float
        The value after each step, lower than before.
    extra : object
        The object that belongs to the value.

    References
    ----------
    J. Nocedal, S. J. Wright. Numerical Optimization, chapters 3 and 7. Springer, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> def bowl(x):
    ...     return float(((x - 1) ** 4).sum()), x
    >>> for value, x in lbfgs(bowl, lambda x: 4 * (x - 1) ** 3, np.zeros(3)):
    ...     if value < 1e-8:
    ...         break
    >>> x.round(1)
    array([1., 1., 1.])
    """
    from labelfold.factorization._quadratic_loops import direction, rescale

    f, extra = function(x)
    g = gradient(extra)
    S, Y, rho, kept = np.empty((memory, len(x))), np.empty((memory, len(x))), np.empty(memory), 0
    ends = np.cumsum([len(x)] if blocks is None else blocks)
    scale = np.ones(len(x))

    def learn(s: np.ndarray, y: np.ndarray) -> None:
        nonlocal kept
        product = s @ y
        if product > 1e-10 * np.sqrt((s @ s) * (y @ y)):
            at = kept % memory
            S[at], Y[at], rho[at] = s, y, 1 / product
            rescale(scale, ends, s, y, kept == 0)
            kept += 1

    taken = 0
    while True:
        held = min(kept, memory)
        p = direction(g, S, Y, rho, kept, held, scale)
        slope = -(g @ p)
        if not slope < 0:
            if not held or not g.any():
                return
            kept, scale[:] = 0, 1.0
            continue
        # Without curvature information: the step that would halve a linear function that decreases to 0.
        first = 1.0 if held else min(0.5 * abs(f) / -slope if f else 1.0 / np.sqrt(-slope), first_step)
        found = _search(function, gradient, x, f, slope, p, first)
        if found is None:
            if not held:
                return
            kept, scale[:] = 0, 1.0
            continue
        x_new, f, g_new, extra = found
        learn(x_new - x, g_new - g)
        x, g, taken = x_new, g_new, taken + 1
        yield f, extra
        lower = leap(x, extra) if leap is not None and taken % leap_every == 0 else None
        if lower is not None:
            x_new, f, extra = lower
            g_new = gradient(extra)
            learn(x_new - x, g_new - g)
            x, g = x_new, g_new
            yield f, extra


def _search(
    function: Callable,
    gradient: Callable,
    x: np.ndarray,
    f: float,
    slope: float,
    p: np.ndarray,
    step: float,
) -> tuple[np.ndarray, float, np.ndarray, Any] | None:
    """Return a step along -p that satisfies the Armijo rule and, unless shortened, the weak Wolfe condition.

    Up to four evaluations may lengthen the step.
    """
    low, f_low, slope_low, best = 0.0, f, slope, None
    for trial in range(25):
        x_new = x - step * p
        f_new, extra = function(x_new)
        if not f_new <= f + 1e-4 * step * slope or not f_new < f:
            if best is not None:
                return best
            width = step - low
            bend = f_new - f_low - slope_low * width
            dip = -slope_low * width**2 / (2 * bend) if np.isfinite(bend) and bend > 0 else 0.0
            step = low + min(max(dip, 0.1 * width), 0.5 * width)
            continue
        g_new = gradient(extra)
        best = x_new, f_new, g_new, extra
        slope_new = -(g_new @ p)
        if slope_new >= 0.9 * slope or trial >= 4:
            return best
        low, f_low, slope_low = step, f_new, slope_new
        step *= 4.0
    return best
