"""The base of LSDR and NSDR: the set-up of a fit, the descent, and the embedding of new rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
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
from labelfold.labels import Labels
from labelfold.rows import Centered, Rows, single_blas
from labelfold.utils import StrOptions, warn_user

# A smaller relative decrease is round-off.
ROUND_OFF = 1e-14


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

    def linearised_step(self, D: np.ndarray, L: np.ndarray) -> np.ndarray | None:
        """Return better displacements of the labelled rows, for a loss with kinks at which L-BFGS could stall."""
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
            "reconstruction_share", "row_penalty", "basis_penalty", "offset_unit", "max_gram_bytes"
        ),
        "init": [StrOptions({"svd", "random"})],
    }

    def _set_up(self, rows: Rows, labels: Labels) -> DescentStart:
        """Check X, choose the weights, and return the data and the initial bases."""
        name, (n, d), k = type(self).__name__, rows.shape, self.n_components
        mean = rows.mean()
        square = check_matrix(Centered(rows, mean), nonnegative=False, centred=True, estimator=name)
        if k > min(n, d):
            warn_user(
                f"n_components={k} is more than X has columns ({d}) or rows ({n}), so that it is inflated, not "
                "reduced; lower n_components",
                UserWarning,
            )
        data = offset_rows(rows, labels.index, mean, k, self.max_gram_bytes)
        directions = start_directions(data, d, k, check_random_state(self.random_state))
        label_share, length = self._choose_weights(directions.by_column[0], n, np.sqrt(square / (n * d)))
        b, lu, lv = self.reconstruction_share_, self.row_penalty_, self.basis_penalty_
        bases = start_bases(directions, b=b, lu=lu, lv=lv, drawn=self.init == "random")
        return DescentStart(n, mean, data, bases, label_share, length)

    def _solve(self, given: DescentStart, classifier: CoupledClassifier) -> OffsetPoint:
        """Descend, store the factors, and return the last point, at which the classifier is trained."""
        weights = self.reconstruction_share_, self.row_penalty_, self.basis_penalty_
        problem = OffsetProblem(given.data, classifier, given.n, *weights, self.offset_unit_)
        first = best_start(problem, given.bases)
        steps = iterates(problem, first, self.tol)
        found = self._descend(steps, tol=None, start=(first, first.value))
        problem.move_to(found)
        if not self.n_iter_:  # the start is stationary
            self.objective_, self.n_iter_ = np.array([found.value]), 1
        self._warn(found, classifier)
        self.components_, self.column_offsets_ = found.V, given.mean + found.c
        return found

    def _store_embedding(self, rows: Rows, labels: Labels, found: OffsetPoint) -> None:
        """Store the embedding, the row offsets and the labels of the training rows; the classifiers are stored."""
        self._keep_task(labels.task, labels.classes)
        Z = rows.result(self._positions(rows), at=(labels.index, found.Z))
        self.embedding_, self.row_offsets_ = Z[:, :-1].copy(), self.offset_unit_ * Z[:, -1]
        self.transduction_: Any = self._transduce(rows, Z, labels)

    def _choose_weights(self, sizes: np.ndarray, n: int, spread: float) -> tuple[float, float]:
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
        U = self._read_embedding("U", U)
        X = U @ self.components_ + self.column_offsets_
        if row_offsets is not None:
            X += np.asarray(row_offsets).reshape(len(U), 1)
        return X.astype(U.dtype, copy=False)

    def _embed(self, rows: Rows) -> Any:
        return self._positions(rows, slice(None, -1))

    def _positions(self, rows: Rows, columns: slice = slice(None)) -> Any:
        """Return Z = [U, bu / offset_unit] of unlabelled rows, or some columns of it, in one pass."""
        ridge = self.row_penalty_ / self.reconstruction_share_
        G = row_fit(self.components_, ridge, self.offset_unit_).G[:, columns]
        return Centered(rows, self.column_offsets_) @ np.ascontiguousarray(G)

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

    n: int
    mean: np.ndarray  # (d,)  of the rows
    data: RowsInMemory | RowsInPasses
    bases: list[np.ndarray]  # of V (k, d); the descent starts from the best
    label_share: float  # 1 - b
    length: float  # the mean squared norm of an embedded row


@dataclass(eq=False)
class OffsetProblem:
    """The rows, the classifier, and the weights of the terms, which do not change."""

    data: RowsInMemory | RowsInPasses
    classifier: CoupledClassifier
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
        f = row_fit(V, self.ridge, self.offset_unit)
        Z = self.data.embed(f, c) + D
        cost = self.classifier.train(Z)
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
        H = 2 * b * (D @ f.M) + self.classifier.gradient()
        P = H @ f.M_inverse
        ZtR, PtR, colsum = self.data.residual_sums(f, at.c, Z, P)
        # Rows follow V: dq = M^(-1) (dV1 (x - c - V1'q) - V1 dV1'q), and x - c - V1'q is R + V1'D.
        dV1 = PtR - 2 * b * ZtR + (P.T @ D - (Z - D).T @ P) @ f.V1
        dc = -2 * b * colsum - P.sum(axis=0) @ f.V1
        return OffsetGradient(dV1[:-1] + 2 * self.basis_penalty * at.V, dc, H)

    def linearised_step(self, at: OffsetPoint) -> OffsetPoint | None:
        """Return the point after the step of a linearised classifier on labelled rows, if it is lower; else None."""
        self.move_to(at)
        D = self.classifier.linearised_step(at.D, self.metric(at))
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

    def normal_matrix(self, at: OffsetPoint) -> np.ndarray:
        """Return [Z, 1]'[Z, 1] over all rows, (k + 2, k + 2)."""
        self.move_to(at)
        return self.data.normal_matrix(at.Z)

    def basis_step(self, at: OffsetPoint) -> OffsetPoint:
        """Return the point with V and c at their minimum given all rows, in closed form."""
        ridge = np.zeros(len(at.V) + 1)
        ridge[:-1] = self.basis_penalty / self.reconstruction_share
        # For [U, 1], since the last row of V1 is fixed.
        N = np.delete(np.delete(self.normal_matrix(at), -2, axis=0), -2, axis=1)
        ZtR, _, colsum = self.data.residual_sums(at.fit, at.c, at.Z, at.Z[:, :0])
        right = np.vstack([ZtR[:-1] - ridge[0] * at.V, colsum])
        N[np.diag_indices_from(N)] += ridge
        if not (np.isfinite(N).all() and np.isfinite(right).all()):  # LAPACK would print a message
            raise OverflowError("sums over the embedded rows overflow")
        move = linalg.lstsq(N, right, check_finite=False)[0]
        V, c = at.V + move[:-1], at.c + move[-1]
        return self.evaluate(V, c, at.Z - self.data.embed(row_fit(V, self.ridge, self.offset_unit), c))


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


def iterates(problem: OffsetProblem, start: OffsetPoint, tol: float) -> Iterates:
    """Descend until a round of steps lowers the objective by at most ``tol``, relative to it."""
    at, before = start, np.inf
    while before - at.value > max(tol, ROUND_OFF) * abs(at.value):
        before = at.value
        for point in _Round(problem, at, tol).steps():
            yield point, point.value
            at = point
        for step in (problem.linearised_step, problem.basis_step):
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
        bend = 2 * b * np.diag(problem.normal_matrix(at))[:k] + 2 * problem.basis_penalty
        self.inside = np.linalg.qr(at.V.T)[0].T  # (min(k, d), d)
        self.scale_inside = 1 / np.sqrt(0.1 * bend.mean())
        self.scale_beyond = 1 / np.sqrt(bend)[:, None]
        self.scale_c = 1 / np.sqrt(2 * b * problem.n)
        self.L = problem.metric(at)
        self.shapes = [(k, len(self.inside)), (k, d if k < d else 0), (d,), at.D.shape]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.cuts = np.cumsum(self.sizes)[:-1]

    def steps(self, window: int = 5) -> Iterator[OffsetPoint]:
        """Take steps until the last ``window`` of them gain little on average, or none is left."""
        values = [self.origin.value]
        x = np.zeros(sum(self.sizes))
        options: dict[str, Any] = {
            "blocks": self.sizes,
            "first_step": 1.0,
            "extra_step": self._linearised_step,
        }
        for value, point in lbfgs(self._value, self._gradient, x, **options):
            yield point
            values.append(value)
            if len(values) > window:
                fall = (values[-1 - window] - value) / max(abs(value), np.finfo(np.float64).tiny)
                if fall / window <= self.tol:
                    return

    def _value(self, x: np.ndarray) -> tuple[float, OffsetPoint]:
        at, Q = self.origin, self.inside
        if not x.any():
            return at.value, at
        parts = zip(np.split(x, self.cuts), self.shapes, strict=True)
        A, B, c, E = (part.reshape(shape) for part, shape in parts)
        V = at.V + (self.scale_inside * A) @ Q
        if B.size:
            V += self.scale_beyond * (B - (B @ Q.T) @ Q)
        point = self.problem.evaluate(V, at.c + self.scale_c * c, at.D + E @ self.L.T)
        return point.value, point

    def _gradient(self, point: OffsetPoint) -> np.ndarray:
        Q, found = self.inside, self.problem.gradient(point)
        dA = found.V @ Q.T
        parts = [self.scale_inside * dA, self.scale_c * found.c, found.D @ self.L]
        if self.sizes[1]:
            parts.insert(1, self.scale_beyond * (found.V - dA @ Q))
        return np.concatenate([part.ravel() for part in parts])

    def _linearised_step(
        self, x: np.ndarray, point: OffsetPoint
    ) -> tuple[np.ndarray, float, OffsetPoint] | None:
        """Return the point after the step of a linearised classifier, in the variables of this round."""
        new = self.problem.linearised_step(point)
        if new is None:
            return None
        x = x.copy()
        x[self.cuts[-1] :] = np.linalg.solve(self.L, (new.D - self.origin.D).T).T.ravel()
        return x, new.value, new


def lbfgs(
    function: Callable[[np.ndarray], tuple[float, Any]],
    gradient: Callable[[Any], np.ndarray],
    x: np.ndarray,
    *,
    memory: int = 10,
    blocks: Sequence[int] | None = None,
    first_step: float = np.inf,
    extra_step: Callable[[np.ndarray, Any], tuple[np.ndarray, float, Any] | None] | None = None,
    extra_step_every: int = 30,
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
    extra_step : callable, optional
        A step of another kind, for a function with kinks, at which quasi-Newton steps are short. It gets x and its
        object, and returns a lower point, its value and its object, or None.
    extra_step_every : int
        Number of steps between two calls of ``extra_step``, which may cost several evaluations.

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
    S, Y, rho, n_pairs = np.empty((memory, len(x))), np.empty((memory, len(x))), np.empty(memory), 0
    ends = np.cumsum([len(x)] if blocks is None else blocks)
    scale = np.ones(len(x))

    def learn(s: np.ndarray, y: np.ndarray) -> None:
        nonlocal n_pairs
        product = s @ y
        if product > 1e-10 * np.sqrt((s @ s) * (y @ y)):
            at = n_pairs % memory
            S[at], Y[at], rho[at] = s, y, 1 / product
            rescale(scale, ends, s, y, n_pairs == 0)
            n_pairs += 1

    n_steps = 0
    while True:
        n_stored = min(n_pairs, memory)
        p = direction(g, S, Y, rho, n_pairs, n_stored, scale)
        slope = -(g @ p)
        found = None
        if slope < 0:
            # Without curvature information: the step that would halve a linear function that decreases to 0.
            first = (
                1.0 if n_stored else min(0.5 * abs(f) / -slope if f else 1.0 / np.sqrt(-slope), first_step)
            )
            found = _search(function, gradient, x, f, slope, p, first)
        if found is None:
            if not n_stored or not g.any():
                return
            n_pairs, scale[:] = 0, 1.0
            continue
        x_new, f, g_new, extra = found
        learn(x_new - x, g_new - g)
        x, g, n_steps = x_new, g_new, n_steps + 1
        yield f, extra
        lower = extra_step(x, extra) if extra_step is not None and n_steps % extra_step_every == 0 else None
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
