"""The base of SSNMF and CNMF: multiplicative updates of a least-squares objective, and the embedding of new rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from labelfold.factorization._components import (
    InitialFactors,
    NonnegativeFactorisation,
    check_matrix,
    factor_start,
    nonnegative_least_squares,
)
from labelfold.labels import Labels
from labelfold.numerics import count_negative, refuse_negative
from labelfold.rows import Block, Rows


class SquaredNMF(NonnegativeFactorisation):
    """A non-negative factorisation X = H V' by least squares that uses labels."""

    def _embed(self, rows: Rows) -> Any:
        V = self.components_.T
        Q = V.T @ V
        # With this ridge the embedding is unique if V'V is singular.
        Q += 1e-12 * Q.diagonal().max() * np.eye(len(Q))
        # As an argument of `partial` Q stays in float64 when it is passed to blocks.
        H, n_negative = rows.sweep(_embed, shared=(V, partial(nonnegative_least_squares, Q=Q)))
        refuse_negative(rows, n_negative, estimator=type(self).__name__)
        return H

    def _start(self, rows: Rows, root: np.ndarray | None) -> tuple[float, InitialFactors]:
        """Return the squared norm of X, after checks, and the initial factors; both of rows times ``root``."""
        square = check_matrix(rows, nonnegative="always", estimator=type(self).__name__)
        given = self.n_components, self.init, square, self.random_state
        return square, factor_start(rows, *given, nonnegative=True, root=root, keeps_zeros=True)


def multiplied(F: Any, numerator: Any, denominator: Callable[[Any], Any], rounds: int = 4) -> Any:
    """Return a factor after multiplicative updates, F * numerator / denominator(F).

    Numerator and denominator are the negative and the positive part of the gradient. Some rounds of updates cost
    little beside a pass over X, and save several passes.

    >>> multiplied(np.array([4.0]), np.array([6.0]), lambda F: 2 * F, rounds=1)
    array([3.])
    """
    xp = array_namespace(F)
    # Smaller denominators belong to factors that are 0 up to round-off.
    floor = 1e-290 if F.dtype == xp.float64 else 1e-33
    for _ in range(rounds):
        D = denominator(F)
        # The product comes first, because a quotient of two tiny numbers might overflow.
        F = F * numerator / xp.clip(D, min=floor)
    return F


def rounded(F: np.ndarray, dtype: Any) -> np.ndarray:
    """Return a factor rounded to the dtype of X, as passes use it, so that the objective is that of this factor."""
    return F.astype(dtype).astype(np.float64)


def update_basis(V: np.ndarray, XtH: np.ndarray, HtH: np.ndarray, dtype: Any) -> np.ndarray:
    """Return V (d, k) after its updates given H: V * X'H / (V H'H)."""
    return rounded(multiplied(V, XtH, lambda V: V @ HtH), dtype)


def misfit(square: float, V: np.ndarray, XtH: np.ndarray, HtH: np.ndarray) -> float:
    """Return ||X - H V'||^2 from ||X||^2 and sums over the rows."""
    return float(square - 2 * (V * XtH).sum() + ((V.T @ V) * HtH).sum())


def row_labels(rows: Rows, labels: Labels) -> Any:
    """Return labels for passes: class codes (n,) with -1 for unlabelled, or 0/1 columns (n, c) with NaN."""
    rest = np.nan if labels.task == "multilabel" else -1
    return rows.spread(labels.index, labels.values.astype(rows.dtype), rest)


def indicator(T: Any, codes: Any) -> tuple[Any, Any]:
    """Return Y (m, c), zero for unlabelled rows, and a mask of labelled rows (m, 1), from `row_labels`.

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


def _embed(X: Block, V: Any, solve: Callable[[Any], Any]) -> tuple[Any, Any]:
    return solve(X @ V), count_negative(X)
