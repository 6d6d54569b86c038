"""The base of SSNMF and CNMF: multiplicative updates of least squares, and the embedding of new rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from labelfold.base import constraints
from labelfold.factorization._components import NonnegativeParts, check_matrix
from labelfold.factorization._directions import Machines, joint_iterates
from labelfold.factorization._divergence import Guide, Margins, divergence_start, iterates, margins
from labelfold.factorization._row_solvers import nonnegative_least_squares
from labelfold.factorization._starts import Start, factor_start
from labelfold.labels import Labels
from labelfold.numerics import count_negative, refuse_negative
from labelfold.rows import Block, Rows, single_blas

# Updates of each factor in an iteration: they cost little beside the pass, and a few of them save many passes.
ROUNDS = 4
# Floor of denominators: smaller ones belong to factors that are 0 up to round-off.
_FLOOR = {8: 1e-290, 4: 1e-33}
# Added to the diagonal of V'V, relative to its largest entry, so that the embedding is unique if V'V is singular.
_RIDGE = 1e-12
# Tolerance for new rows: the divergence is within this share of the row's sum of its minimum. And the most updates.
_PLACE_TOL, _PLACE_ROUNDS = 1e-5, 3000
# Range of the sum of X in which products of the factors neither overflow nor vanish in the dtype.
_SUMS = {8: (1e-200, 1e200), 4: (1e-25, 1e30)}


class SquaredNMF(NonnegativeParts):
    """A non-negative factorisation X = H V' by least squares that uses labels."""

    def _place(self, rows: Rows) -> Any:
        V = self.components_.T
        Q = V.T @ V
        Q += _RIDGE * Q.diagonal().max() * np.eye(len(Q))
        # As an argument of `partial` Q stays in float64 when it is passed to blocks.
        H, n_negative = rows.sweep(_placed, shared=(V, partial(nonnegative_least_squares, Q=Q)))
        refuse_negative(rows, n_negative, estimator=type(self).__name__)
        return H

    def _begin(self, rows: Rows) -> tuple[float, Start]:
        """Return the squared norm of X, after checks, and the initial factors."""
        square = check_matrix(rows, nonnegative="always", estimator=type(self).__name__)
        start = factor_start(rows, self.n_components, self.init, square, self.random_state, nonnegative=True)
        return square, start


def multiplied(F: Any, numerator: Any, denominator: Callable[[Any], Any], rounds: int = ROUNDS) -> Any:
    """Return a factor after updates F * numerator / denominator(F), the positive and negative part of a gradient.

    >>> multiplied(np.array([4.0]), np.array([6.0]), lambda F: 2 * F, rounds=1)
    array([3.])
    """
    xp = array_namespace(F)
    floor = _FLOOR[8 if F.dtype == xp.float64 else 4]
    for _ in range(rounds):
        D = denominator(F)
        # The product comes first, because a quotient of two tiny numbers might overflow.
        F = F * numerator / xp.clip(D, min=floor)
    return F


def multiplied_places(H: Any, numerator: Any, Q: Any, weights: Any = None, A: Any = None) -> Any:
    """Return places H (m, k) after updates H * numerator / (H Q + weights H A A'), with weights (m, 1) and A (k, c).

    >>> multiplied_places(np.array([[4.0]]), np.array([[6.0]]), np.array([[2.0]]))
    array([[3.]])
    """
    if A is None:
        return multiplied(H, numerator, lambda H: H @ Q)
    # A A' is of rank c: two thin products are cheaper where there are few classes.
    left, right = (A, A.T) if 2 * A.shape[1] < H.shape[1] else (A @ A.T, None)

    def denominator(H: Any) -> Any:
        predicted = H @ left if right is None else H @ left @ right
        return H @ Q + weights * predicted

    return multiplied(H, numerator, denominator)


def labelled_places(
    X: Block, H: Any, T: Any, V: Any, VtV: Any, A: Any, codes: Any, lam: float
) -> tuple[Any, Any, Any, Any]:
    """Return places H (m, k) after updates that also fit the labels T by A (k, c); and H'H, H_l'H_l, H_l'Y."""
    Y, labelled = indicator(T, codes)
    H = multiplied_places(H, X @ V + lam * (Y @ A.T), VtV, lam * labelled, A)
    H_l = H * labelled
    return H, X.inner(H), X.inner(H_l), X.inner(H_l, Y)


def update_basis(V: np.ndarray, XtH: np.ndarray, HtH: np.ndarray, dtype: Any) -> np.ndarray:
    """Return V (d, k) after its updates given H, rounded to ``dtype``."""
    V = multiplied(V, XtH, lambda V: V @ HtH)
    return V.astype(dtype).astype(np.float64)


def misfit(square: float, V: np.ndarray, XtH: np.ndarray, HtH: np.ndarray) -> float:
    """Return ||X - H V'||^2 from sums over the rows."""
    return float(square - 2 * (V * XtH).sum() + ((V.T @ V) * HtH).sum())


def membership(rows: Rows, labels: Labels) -> Any:
    """Return labels for passes: class codes (n,) with -1 for unlabelled, or 0/1 columns (n, c) with NaN."""
    rest = np.nan if labels.task == "multilabel" else -1
    return rows.spread(labels.index, labels.values.astype(rows.dtype), rest)


def indicator(T: Any, codes: Any) -> tuple[Any, Any]:
    """Return Y (m, c), zero for unlabelled rows, and a mask of labelled rows (m, 1), from `membership`.

    >>> indicator(np.array([1.0, -1.0]), np.arange(2.0))
    (array([[0., 1.],
           [0., 0.]]), array([[1.],
           [0.]]))
    """
    xp = array_namespace(T)
    if T.ndim == 1:
        return xp.astype(T[:, None] == codes[None, :], T.dtype), xp.astype(T >= 0, T.dtype)[:, None]
    unknown = xp.isnan(T)
    return xp.where(unknown, xp.zeros_like(T), T), xp.astype(~unknown[:, :1], T.dtype)


def _placed(X: Block, V: Any, solve: Callable[[Any], Any]) -> tuple[Any, Any]:
    P, n_negative = X.counted_product(V)
    return solve(P), n_negative


class DivergenceNMF(NonnegativeParts):
    """A non-negative factorisation X = H V' by I-divergence."""

    _parameter_constraints = {**NonnegativeParts._parameter_constraints, **constraints("corrected")}

    def _place(self, rows: Rows) -> Any:
        V = np.ascontiguousarray(self.components_.T)
        root = self._root() if self.corrected else np.empty((0, 0))
        shared = V, V.sum(axis=0), root, _PLACE_TOL, _PLACE_ROUNDS
        H, n_negative = rows.sweep(_place, shared=shared)
        refuse_negative(rows, n_negative, estimator=type(self).__name__)
        return H

    def _survey(self, rows: Rows) -> Margins:
        """Check that X can be factorised, and return its sums, in one pass."""
        found = margins(rows)
        refuse_negative(rows, found.n_negative, estimator=type(self).__name__)
        total = float(found.column.sum())
        if total == 0:
            raise ValueError(
                "X holds nothing but zeros, so there is nothing to factorise; give it rows with positive entries"
            )
        low, high = _SUMS[np.dtype(rows.dtype).itemsize]
        if not low <= total <= high:
            raise ValueError(
                f"X has entries that sum to {total:.1e}, where {low:.0e} to {high:.0e} is expected of {rows.dtype} "
                "values; multiply X by a constant"
            )
        return found

    def _factorise(
        self,
        rows: Rows,
        sums: Margins,
        guide: Guide | None = None,
        machines: Machines | None = None,
        start: tuple[Any, np.ndarray] | None = None,
    ) -> Any:
        """Iterate with the parameters of the estimator, store the results, and return the last state.

        Iterations start from ``start``, factors that are stored with the rows, or from ``init``.
        """
        if start is None:
            with single_blas():
                start = divergence_start(rows, self.n_components, self.init, sums, self.random_state)
        if guide is None or machines is None:
            steps = iterates(rows, start, guide, max_iter=self.max_iter)
        else:
            steps = joint_iterates(rows, start, guide, machines)
        del start  # a basis is large
        found = self._descend(steps)
        self.components_ = np.array(found.V.T, dtype=np.float64, order="C")
        self.embedding_ = rows.result(found.H, partial(_times, self._root()) if self.corrected else None)
        return found

    def _root(self) -> np.ndarray:
        return gram_root(self.components_)

    def _back(self) -> np.ndarray:
        if not self.corrected:
            return self.components_
        return np.linalg.pinv(self._root(), hermitian=True) @ self.components_


def _times(root: np.ndarray, H: np.ndarray) -> np.ndarray:
    return (H @ root).astype(H.dtype)


def gram_root(components: np.ndarray) -> np.ndarray:
    """Return (V'V)^(1/2), (k, k). An embedding times it has the inner products of the rows that it models (eq. 5)."""
    values, vectors = np.linalg.eigh(components @ components.T)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _place(X: Block, V: Any, v: Any, root: Any, tol: float, max_sweeps: int) -> tuple[Any, Any]:
    from labelfold.factorization._divergence_rows import solve_rows

    n_negative = count_negative(X)
    if n_negative:  # the rows will be refused, and might take long to place
        tol, max_sweeps = np.inf, 1
    H = solve_rows(X, V, v, tol, max_sweeps)
    return H @ root if root.shape[0] else H, n_negative
