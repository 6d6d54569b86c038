"""Ridge regression by block conjugate gradients on the normal equations, in passes over the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold.numerics._block_cg import (
    BlockCG,
    Scaling,
    Sketch,
    column_norms,
    min_norm,
    nystrom_sketch,
    preconditioned_cg,
    shifted_cg,
    thin_qr,
)
from labelfold.numerics._gram import ROUND_OFF
from labelfold.numerics._ridge_problem import RidgeProblem, RidgeSolution, RowTargets
from labelfold.rows import Block, Centered, Rows, Weighted, single_blas, total
from labelfold.utils import warn_user

# Budget: a run is followed by another one of its kind only if it has reduced the residual to this share.
_MIN_GAIN = 0.5
# Precision: lower bound of the ratio of the residual of the recurrence to the true one. The next run iterates to a
# tolerance that is smaller by this ratio, but not by more than a digit.
_MIN_SHARE = 0.1
# Budget of shared iterations for each ridge: for streamed rows (False) the cost of a sketch and its iterations, for
# rows in memory (True), where an iteration is cheap, more.
_EACH = {False: 30, True: 100}
# Precision: minimum ridge for which columns are scaled, relative to their mean squared norm. Scaled iterations leave
# the range of X', and divide what they find outside it by the ridge.
_MIN_RIDGE = 1e-3


class Iterate(NamedTuple):
    """State of the iterations: a solution of the system of one side, and its residual."""

    side: ColumnSide
    X: np.ndarray
    product: np.ndarray
    rest: np.ndarray
    residual: float


class KrylovProblem(RidgeProblem):
    """The problem in terms of products with X_c only, if it is too large to factorise, or faster this way.

    BLAS uses one thread: there is little work between passes, and its threads would keep a core busy while they wait,
    which a pass then lacks (2.1 s in place of 0.85 on two cores: 20,000 documents, 50 labels).
    """

    def __init__(
        self,
        rows: Rows,
        T: RowTargets,
        *,
        tol: float,
        max_iter: int,
        random_state: Any,
        callback: Callable[[int, float], Any] | None,
    ) -> None:
        self.mean, self.size = rows.mean(T.weights), max(rows.shape)
        near = Centered(rows, self.mean)
        self.X = near if T.roots is None else Weighted(near, T.roots)
        self.tol = max(tol, 100 * float(np.finfo(rows.dtype).eps))
        self.max_iter, self.callback = max_iter, callback
        T, self.mix = T.basis(target_basis)
        rng = check_random_state(random_state)
        self.columns, self.rows = ColumnSide(self.X, T, rng), RowSide(self.X, T, rng)
        self.prepared: dict[float, BlockCG] = {}

    def prepare(self, ridges: Sequence[float], patience: float | None = None) -> None:
        """Iterate for all ridges at once; stop for a ridge if more than ``patience`` iterations are expected."""
        ridges = sorted({ridge for ridge in ridges if ridge > 0})
        if len(ridges) < 2:
            return
        side = self._side(ridges[0])
        if patience is None:
            # Together they may take as many iterations as all of them separately with a sketch.
            # For rows in memory, if a ridge alone would scale the columns, which shared iterations cannot, they may
            # take as many as one ridge alone.
            may_scale = self.X.resident and side.scaling(ridges[0]) is not None
            patience = _EACH[self.X.resident] * (1 if may_scale else len(ridges))
        with single_blas():
            answers = shifted_cg(
                side.product,
                side.B,
                ridges,
                tol=self._asked(side),
                max_iter=self.max_iter,
                patience=patience,
                callback=self.callback,
            )
        self.prepared = dict(zip(ridges, answers, strict=True))

    def gram_product(self, P: np.ndarray) -> np.ndarray:
        """Return X_c'X_c P."""
        return self.columns.product(P)

    def was_slow(self, ridge: float) -> bool:
        """Return whether the preparation gave up this ridge."""
        return ridge in self.prepared and not self.prepared[ridge].converged

    def solve(self, ridge: float, start: RidgeSolution | None = None) -> RidgeSolution:
        """Solve for one ridge, started from the solution for another ridge, or from the prepared one."""
        # In memory a sketch costs as much as several iterations, so plain iterations are tried first.
        patience = 30 + 2 * self.columns.rank / max(1, len(self.mix)) if self.X.resident else 0.0
        with single_blas():
            found = self._iterate(ridge, start, patience, may_sketch=True)
        assert found is not None
        if found.residual > self.tol:
            warn_user(
                f"least squares stopped after {found.n_iter} iterations with a relative residual of "
                f"{found.residual:.1e}, short of tol={self.tol:.1e}; raise max_iter, tol or ridge",
                ConvergenceWarning,
            )
        return found

    def attempt(self, ridge: float, start: RidgeSolution | None, patience: float) -> RidgeSolution | None:
        """Solve for one ridge without a sketch; None if more than ``patience`` iterations are expected."""
        with single_blas():
            return self._iterate(ridge, start, patience, may_sketch=False)

    def _iterate(
        self, ridge: float, start: RidgeSolution | None, patience: float, may_sketch: bool
    ) -> RidgeSolution | None:
        here, n_iter = self._start(ridge, start)
        sketch = here.side.sketch if may_sketch and not patience else None
        # The recurrence has round-off of its own, and on the row side another norm, which is larger for most data. So
        # it gets a smaller tolerance, and is restarted if that was not enough.
        tol = self._asked(here.side)
        while here.residual > self.tol:
            side = here.side
            answer = preconditioned_cg(
                side.product,
                side.B,
                ridge,
                side.scaling(ridge) if sketch is None else sketch,
                rest=here.rest,
                tol=tol,
                max_iter=self.max_iter - n_iter,
                callback=self._counting_from(n_iter),
                patience=patience if sketch is None else np.inf,
            )
            n_iter += answer.n_iter
            slow = not answer.converged and n_iter < self.max_iter
            if slow and not may_sketch:
                return None
            before, here = here, self._at(side, here.X + answer.X, ridge)
            worth_another = here.residual < _MIN_GAIN * before.residual
            if not here.residual < before.residual:
                here = before
            if here.residual <= self.tol or n_iter >= self.max_iter:
                break
            if answer.residual <= tol:
                tol *= self.tol / (2 * here.residual)
                worth_another |= not answer.n_iter
            else:
                # The next run gets a tolerance that is smaller by the ratio of the recurrence to the residual.
                tol = min(tol, max(_MIN_SHARE, answer.residual / here.residual) * self.tol)
            if slow and sketch is None:
                sketch = side.sketch
            elif worth_another:
                continue
            elif side is self.rows:
                # The part of T outside the range of X X' is divided by the ridge, and a tiny ridge leaves few digits
                # for the rest. The column side has no such part.
                here, sketch = self._at(self.columns, side.coefficients(here.X), ridge), None
                tol = self._asked(self.columns)
            else:
                break
        return self._solution(here, n_iter)

    def _asked(self, side: ColumnSide) -> float:
        return self.tol / (1 if side is self.rows else 2)

    def _side(self, ridge: float) -> ColumnSide:
        n, d = self.X.shape
        if not (ridge > 0 and self.X.in_memory and n < d):
            return self.columns
        # The column side is used although its vectors are up to twice as long: columns can be scaled, rows cannot.
        return self.rows if 2 * n < d or self.columns.scaling(ridge) is None else self.columns

    def _start(self, ridge: float, start: RidgeSolution | None) -> tuple[Iterate, int]:
        """Return the starting point, and the number of iterations that it took."""
        side = self._side(ridge)
        if ridge in self.prepared:
            answer = self.prepared[ridge]
            return self._at(side, answer.X, ridge), answer.n_iter
        if start is not None and start.state is not None and start.state.side is side:
            return self._at(side, start.state.X, ridge), 0
        zero = np.zeros_like(side.B)
        return Iterate(side, zero, zero, side.B, 1.0 if side.B.any() else 0.0), 0

    def _at(self, side: ColumnSide, X: np.ndarray, ridge: float) -> Iterate:
        product = side.product(X)
        rest = side.B - product - ridge * X
        rests, norms = column_norms(side.normal(rest @ self.mix)), self._right_norms
        ratios = np.divide(rests, norms, out=np.zeros_like(rests), where=norms > 0)
        return Iterate(side, X, product, rest, float(ratios.max(initial=0.0)))

    @cached_property
    def _right_norms(self) -> np.ndarray:
        """The norm of X'T for each target, to which its residual is compared."""
        side = self._side(1.0)
        sizes, norms = column_norms(self.mix), column_norms(side.normal(side.B @ self.mix))
        # The right-hand side of a target that is unrelated to X is only round-off.
        share = np.divide(norms, sizes, out=np.zeros_like(norms), where=sizes > 0)
        return np.maximum(norms, min_norm(self.tol) * share.max(initial=0.0) * sizes)

    def _solution(self, here: Iterate, n_iter: int) -> RidgeSolution:
        D = here.side.explained(here.X, here.product)
        D = self.mix.T @ (D + D.T) @ self.mix / 2
        W = here.side.coefficients(here.X @ self.mix)
        return RidgeSolution(W, D, self.mean, "krylov", here.residual, n_iter, here)

    def _counting_from(self, done: int) -> Callable[[int, float], None] | None:
        callback = self.callback
        return None if callback is None else lambda n_iter, residual: callback(done + n_iter, residual)


def target_basis(T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an orthonormal basis of the targets (n, r), and the (r, q) matrix that maps it to T.

    Each dependent target (centred one-hot columns sum to 0) would cost a column in every iteration.
    """
    sizes = column_norms(T)
    Q, R = thin_qr(T / np.where(sizes > 0, sizes, 1.0))
    U, s, Vt = np.linalg.svd(R)
    keep = s > max(T.shape) * ROUND_OFF * s.max(initial=0.0)
    return Q @ U[:, : len(s)][:, keep], s[keep, None] * Vt[: len(s)][keep] * sizes


class ColumnSide:
    """(X'X + g I) W = X'T. An iteration is one pass over X."""

    def __init__(self, X: Rows, targets: RowTargets, rng: Any) -> None:
        self.X, self.targets, self.rng = X, targets, rng

    @cached_property
    def B(self) -> np.ndarray:
        """The right-hand sides."""
        return self.targets.sums(self.X, _product)[0]

    def product(self, P: np.ndarray) -> np.ndarray:
        """Return A P, A = X'X."""
        return self.X.sum(_normal, shared=(P,))

    def normal(self, R: np.ndarray) -> np.ndarray:
        """Return the residual of the normal equations, given the residual R of this side."""
        return R

    def explained(self, W: np.ndarray, product: np.ndarray) -> np.ndarray:
        """Return T'X W from a solution and its product."""
        return self.B.T @ W

    def coefficients(self, W: np.ndarray) -> np.ndarray:
        """Return W from a solution."""
        return W

    @cached_property
    def sketch(self) -> Sketch:
        """The preconditioner.

        `LDA(max_gram_bytes=0)` on blocks of 20,000 x 315 one-hot codes takes 54 iterations with it, 120 without; on
        20,000 x 300 rows of 30 strong directions 15 and 50 to 1,000.
        """
        return nystrom_sketch(self.product, len(self.B), self.rank, self.rng)

    def scaling(self, ridge: float) -> Scaling | None:
        """Return the diagonal preconditioner, which costs nothing.

        None for a very small ridge: plain iterations stay in the range of X', and components outside it would be
        divided by the ridge alone.
        """
        return Scaling(self._diagonal) if ridge > _MIN_RIDGE * self._diagonal.mean() else None

    @cached_property
    def _diagonal(self) -> np.ndarray:
        return self.X.sum(_squares)

    @property
    def rank(self) -> int:
        """Number of columns of the sketch: 64 more than targets, as the iterations cover as many directions."""
        return min(self.targets.n_targets + 64, *self.X.shape)


class RowSide(ColumnSide):
    """(X X' + g I) A = T, W = X'A, with shorter vectors if there are far fewer rows than columns.

    On 6,000 x 47,236 documents `CCA(ridge=1)` takes 0.7 s, and 3.5 s on the side of the columns
    (`benchmarks/two_stage.py --parts lsqr`).

    An iteration takes two passes. For g = 0 there is no solution if equal rows have different targets. So this side
    is used only for rows in memory and a positive ridge.
    """

    @property
    def B(self) -> np.ndarray:
        """The right-hand sides."""
        return self.targets.dense

    def product(self, P: np.ndarray) -> np.ndarray:
        """Return A P, A = X X'."""
        return self.X.get(self.X @ self.X.t(P)) if self._block is None else self._block.outer(P)

    def normal(self, R: np.ndarray) -> np.ndarray:
        """Return the residual of the normal equations, X'R, possibly without columns of zeros."""
        return self.X.t(R) if self._block is None else total(self._block.t(R))

    def scaling(self, ridge: float) -> None:
        """Return None: in most data rows have similar norms."""

    def explained(self, A: np.ndarray, product: np.ndarray) -> np.ndarray:
        """Return T'X W from a solution and its product."""
        return self.targets.dense.T @ product

    def coefficients(self, A: np.ndarray) -> np.ndarray:
        """Return W = X'A."""
        if self._block is None:
            return self.X.t(A)
        W = np.zeros((self.X.shape[1], A.shape[1]))
        W[self.X.whole().occupied()] = total(self._block.t(A))
        return W

    @cached_property
    def _block(self) -> Block | None:
        """All rows as one block, if that takes no memory: sparse rows are centred implicitly."""
        return self.X.narrow()


def _product(X: Block, T: Any, roots: Any) -> tuple[Any]:
    return (X.t(T),)


def _normal(X: Block, P: Any) -> Any:
    return X.normal(P)


def _squares(X: Block) -> Any:
    return X.colsq()
