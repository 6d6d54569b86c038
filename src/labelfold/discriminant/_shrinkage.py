r"""The shrinkage of the within-class covariance, as a ridge of the two-stage approach.

With the within-class scatter :math:`S_w = S_t - S_b` of l rows and d columns, shrinkage a replaces the covariance
:math:`S_w / l` by

.. math:: (1 - a) S_w / l + a m I = \frac{1 - a}{l} (S_w + g I), \qquad m = \frac{\mathrm{tr}(S_w)}{l d}, \quad
          g = \frac{a}{1 - a} \cdot \frac{\mathrm{tr}(S_w)}{d}.

The factor before the bracket scales all variances alike. Since :math:`S_t + g I = S_b + (S_w + g I)`, the directions
that maximise :math:`S_b` relative to :math:`S_w + g I` are those that maximise it relative to :math:`S_t + g I`: the
directions of the ridge g.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labelfold.numerics import provisional_center
from labelfold.rows import Block, Rows

# Precision: a shrinkage of 1 would be an infinite ridge. With this one the scatter has a share of 1e-12.
MAX_SHRINKAGE = 1 - 1e-12


def shrunk_ridge(
    rows: Rows,
    codes: np.ndarray,
    totals: np.ndarray,
    weights: np.ndarray | None,
    shrinkage: float | None,
    squared_gram: Callable[[], float],
) -> tuple[float, float]:
    """Return the shrinkage, and the ridge that it amounts to.

    Parameters
    ----------
    rows : Rows
        n rows of d columns.
    codes : ndarray of int, shape (n,)
        The class of each row, -1 for rows that are left out.
    totals : ndarray of shape (c,)
        Total weight of each class.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    shrinkage : float or None
        The shrinkage; the formula of Ledoit and Wolf for rows less their class means when None.
    squared_gram : callable
        Returns the squared Frobenius norm of S_t.

    Examples
    --------
    >>> from labelfold.rows import as_rows
    >>> X = np.array([[1.0, 0.0], [3.0, 0.0], [7.0, 1.0], [7.0, 3.0]])  # S_w is 2 I
    >>> shrinkage, ridge = shrunk_ridge(as_rows(X), np.array([0, 0, 1, 1]), np.array([2.0, 2.0]), None, 0.5, float)
    >>> shrinkage, round(ridge, 9)
    (0.5, 2.0)
    """
    d, total, numbers = rows.shape[1], float(totals.sum()), np.arange(len(totals))
    weights = (codes >= 0).astype(np.float64) if weights is None else weights
    near, _ = provisional_center(rows, np.flatnonzero(weights))
    square, sums = rows.sum(_class_sums, codes, weights, shared=(near, numbers))
    means = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)  # (d, c), less the centre
    mean = sums.sum(axis=1) / total
    B = (means - mean[:, None]) * np.sqrt(totals)  # (d, c)  S_b = B B'
    within = max(float(square) - total * float(mean @ mean) - float(np.vdot(B, B)), 0.0)  # tr(S_w)
    if shrinkage is None:
        fourth, cross = rows.sum(
            _fourth_powers, codes, weights, shared=(near + mean, numbers, means - mean[:, None], B)
        )
        BtB = B.T @ B
        norm = squared_gram() - 2 * float(cross) + float(np.vdot(BtB, BtB))  # ||S_t - B B'||^2
        shrinkage = _ledoit_wolf(float(fourth), norm, within, total, d)
    used = min(shrinkage, MAX_SHRINKAGE)
    return shrinkage, used / (1 - used) * within / d


def _ledoit_wolf(fourth: float, norm: float, trace: float, total: float, d: int) -> float:
    """Return the shrinkage of Ledoit and Wolf from sums over rows x less their class means.

    ``fourth`` is the sum of ||x||^4, ``norm`` and ``trace`` are those of the scatter, ``total`` is that of weights.
    """
    squares = norm / total**2  # ||S||^2
    beta = (fourth / total - squares) / (d * total)  # the variance of S
    delta = squares / d - (trace / (total * d)) ** 2  # the distance of S from m I
    return min(max(beta / delta, 0.0), 1.0) if delta > 0 else 0.0


def _class_sums(X: Block, codes: Any, weights: Any, near: Any, numbers: Any) -> tuple[Any, Any]:
    """Return the weighted sum of squares of rows less a centre, and their sums by class."""
    X = X.double().shift(near)
    return X.xp.sum(X.sq() * weights), X.t(_one_hot(X, codes, numbers) * weights[:, None])


def _fourth_powers(
    X: Block, codes: Any, weights: Any, mean: Any, numbers: Any, means: Any, B: Any
) -> tuple[Any, Any]:
    """Return the weighted sums of the fourth powers of rows less their class means, and of the squares of X_c B."""
    X = X.double().shift(mean)
    xp, own = X.xp, _one_hot(X, codes, numbers)
    rest = X.sq() - xp.sum((2 * (X @ means) - xp.sum(means * means, axis=0)) * own, axis=1)
    product = X @ B
    return xp.sum(rest * rest * weights), xp.sum(product * product * weights[:, None])


def _one_hot(X: Block, codes: Any, numbers: Any) -> Any:
    return X.xp.astype(codes[:, None] == numbers[None, :], X.dtype)
