r"""The two-stage approach: a generalised eigenproblem at the cost of least squares (Sun, Ceran & Ye, KDD 2010).

Every method of the family maximises :math:`\mathrm{tr}(W' X_c' T T' X_c W)` subject to
:math:`W'(X_c'X_c + g I)W = I`, with its own target matrix T. In the letters of the paper (X here has one row for each
sample, T is the paper's H, g its gamma):

.. math::

    W_1 &= \arg\min \|X_c W_1 - T\|_F^2 + g \|W_1\|_F^2              && \text{stage 1, eq. 27} \\
    D &= W_1' X_c' T = E\, \mathrm{diag}(s)\, E'                     && \text{stage 2} \\
    W &= W_1 E\, \mathrm{diag}(s)^{-1/2}

W spans the solution of the direct problem, and s are its eigenvalues, without any assumption on X (theorems 2 and 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import solve_triangular

from labelfold.base import Decisions, RowsEstimator, indicator_scores
from labelfold.numerics import (
    EPS,
    MAX_GRAM_BYTES,
    Factor,
    Gram,
    GramProblem,
    KernelProblem,
    LeastSquares,
    read_factor,
    rounding,
    triangle,
)
from labelfold.rows import Block, Centered, Rows, triangle_of
from labelfold.utils import warn_user

# Eigenvalues whose relative difference is below this are treated as equal.
_EQUAL = 1e-9


class Directions(NamedTuple):
    """Directions from either solver.

    Attributes
    ----------
    W : ndarray of shape (d, k)
        Directions, W'(X_c'X_c + g I)W = I.
    s : ndarray of shape (k,)
        Eigenvalues, descending.
    targets : ndarray of shape (k, q)
        W'X_c'T, the targets projected onto the directions.
    mean : ndarray of shape (d,)
        The mean of the rows in use.
    n_iter : int
        Iterations of stage 1.
    residual : float
        Relative residual of stage 1.
    """

    W: np.ndarray
    s: np.ndarray
    targets: np.ndarray
    mean: np.ndarray
    n_iter: int = 1
    residual: float = 0.0


@dataclass
class Seen:
    """Summary of the labelled rows, for the end of a fit.

    Attributes
    ----------
    task, classes : str, ndarray
        As in `Labels`.
    n : int
        Number of labelled rows.
    counts : ndarray of shape (c,)
        Number of rows of each class or label; empty in regression.
    y_mean : ndarray of shape (c,)
        Mean of the label columns.
    y_scatter : ndarray of shape (c, c)
        Y_c'Y_c.
    regression : callable
        ``regression(*found)`` returns Z'Z and Z'Y_c of the embedded rows Z = X_c W, for each of several directions.
    flat : bool
        Whether y has one column, so that predictions have one too.
    eps : float
        Relative precision of the rows.
    """

    task: str
    classes: np.ndarray
    n: int
    counts: np.ndarray
    y_mean: np.ndarray
    y_scatter: np.ndarray
    regression: Callable[..., list[tuple[np.ndarray, np.ndarray]]]
    flat: bool = False
    eps: float = float(np.finfo(np.float64).eps)


def centered_targets(T: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return T less its mean, where row i has the weight ``weights[i]``; a constant column is exactly 0."""
    n = weights.sum()
    Tc = T - weights @ T / n
    Tc[:, weights @ Tc**2 <= (10 * n * EPS) ** 2 * (weights @ T**2)] = 0.0
    return Tc


def second_stage(first: LeastSquares, size: int) -> Directions:
    """Return the directions from a least-squares solution; ``size`` is the larger side of X."""
    s, E = np.linalg.eigh(first.D)
    s, E = s[::-1], E[:, ::-1]
    keep = s > tiny(size) * max(s[0], 0.0)
    s, E = s[keep], E[:, keep]
    root, turn = np.sqrt(s), _settle(s, E.T)
    # Rotated last: eigenvalues that are treated as equal still differ in their last digits and scale their vectors.
    W, targets = first.W @ (E / root) @ turn, turn.T @ (root[:, None] * E.T)
    return _signed(Directions(W, s, targets, first.mean, first.n_iter, first.residual))


def direct(
    rows: Rows,
    T: np.ndarray,
    ridge: float,
    *,
    mask: np.ndarray | None = None,
    max_gram_bytes: int = MAX_GRAM_BYTES,
) -> Directions:
    """Return the directions from the dense d x d problem, for small data and for comparison."""
    n, d = rows.shape
    if 8 * d * d > max_gram_bytes:
        raise ValueError(
            f'solver="direct" needs a {d} x {d} matrix of {8 * d * d / 2**20:,.0f} MB, more than '
            f"max_gram_bytes={max_gram_bytes:,} allows; use solver='two-stage', or raise max_gram_bytes"
        )
    weights = np.ones(n) if mask is None else mask.astype(np.float64)
    mean = rows.sum(_double_sum, weights[:, None])[:, 0] / weights.sum()
    T = (T - weights @ T / weights.sum()) * weights[:, None]
    # X_c'X_c = R'R, so its eigenvalues are the squared singular values of R, with all their digits.
    return direct_factor(read_factor(rows, T, mean, mask), ridge, mean)


def _double_sum(X: Block, weights: Any) -> Any:
    return X.double().t(weights)


def direct_factor(factor: Factor, ridge: float, mean: np.ndarray) -> Directions:
    """Return the directions from a triangular factor R of X_c and Q'T."""
    if factor.full_rank:
        R, B = factor.damped(ridge)
        return _from_whitened(B, lambda P: solve_triangular(R, P, check_finite=False), mean, factor.size)
    U, sigma, V = factor.singular
    return _from_spectrum(U.T @ factor.C, sigma, V, ridge, mean, factor.size)


def direct_kernel(problem: KernelProblem, ridge: float) -> Directions:
    """Return the directions of an exact kernel from the eigenvectors of its matrix."""
    values, U = problem.gram.spectrum
    sigma = np.sqrt(values)
    return _from_spectrum(U.T @ problem.T, sigma, U / sigma.T, ridge, problem.mean, len(U))


def _from_spectrum(
    C: np.ndarray, sigma: np.ndarray, V: np.ndarray, ridge: float, mean: np.ndarray, size: int
) -> Directions:
    """Return the directions from X = U diag(sigma) V' and C = U'T."""
    damped = np.hypot(sigma, np.sqrt(ridge))
    return _from_whitened(sigma / damped * C, lambda P: V @ (P / damped), mean, size)


def _from_whitened(
    B: np.ndarray, back: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, size: int
) -> Directions:
    """Return the directions from B = F^(-1) X_c'T (eq. 31), where F F' = X_c'X_c + g I and ``back`` is F^(-T)."""
    P, root, Et = np.linalg.svd(B, full_matrices=False)
    keep = root**2 > tiny(size) * root.max(initial=0.0) ** 2
    P, root, Et = P[:, keep], root[keep], Et[keep]
    turn = _settle(root**2, Et)
    return _signed(Directions(back(P) @ turn, root**2, turn.T @ (root[:, None] * Et), mean))


def keep_components(found: Directions, n_components: int | None) -> Directions:
    """Return the leading directions; warn if there are fewer than requested."""
    rank = len(found.s)
    if rank == 0:
        raise ValueError(
            "no direction tells the labelled rows apart: all have the same labels, or every column of X has the same "
            "mean whatever the label; give labels and columns that vary, check that y belongs to these rows, or "
            "lower a ridge that dwarfs X"
        )
    if n_components is not None and n_components > rank:
        warn_user(
            f"n_components={n_components} is more than the {rank} direction{'s' * (rank != 1)} these labels and "
            f"columns allow; {rank} {'are' if rank != 1 else 'is'} kept",
            UserWarning,
        )
    k = rank if n_components is None else min(n_components, rank)
    return found._replace(W=found.W[:, :k], s=found.s[:k], targets=found.targets[:k])


def tiny(size: int) -> float:
    """Return the limit below which an eigenvalue counts as zero, relative to the largest."""
    return 10 * size * EPS


def _settle(s: np.ndarray, Et: np.ndarray) -> np.ndarray:
    """Return the rotation that makes directions of equal eigenvalues unique.

    With ridge 0 and fewer rows than columns every eigenvalue is 1, and round-off would choose the basis. Within a
    group of equal eigenvalues the directions are rotated so that their targets are upper triangular, which determines
    the basis.
    """
    turn = np.eye(len(s))
    groups = np.split(np.arange(len(s)), np.flatnonzero(s[1:] < s[:-1] * (1 - _EQUAL)) + 1)
    for group in groups:
        if len(group) > 1:
            turn[np.ix_(group, group)] = np.linalg.qr(Et[group])[0]
    return turn


def _signed(found: Directions) -> Directions:
    """Return directions with a positive largest coefficient each, so that every container gives the same signs."""
    if not found.W.size:
        return found
    signs = np.sign(found.W[np.abs(found.W).argmax(axis=0), np.arange(found.W.shape[1])])
    return found._replace(W=found.W * signs, targets=found.targets * signs[:, None])


class Moments:
    """Count, mean and scatter of the rows, and their cross-products with the labels.

    The scatter is stored as a stack of rows S with S'S = X_c'X_c. A batch extends it (Chan's update of means and
    scatters) by the new rows, centred at their own mean, and one row for the difference of the means. When the stack
    grows, it is compressed to its triangular factor. X'X itself would lose half of the digits.

    For classes and label sets, rows with the same labels share one count and one mean, because the weights of some
    methods depend on the final counts.
    """

    def __init__(self, n_columns: int) -> None:
        self.n = 0
        self.mean = np.zeros(n_columns)
        self.groups: dict[Any, list] = {}
        # For continuous targets only.
        self.y_mean: Any = None
        self.cross: Any = None
        self.y_scatter: Any = None
        self.dtype = "float64"  # the lowest precision of the batches
        self._stack = np.zeros((0, n_columns))

    @property
    def eps(self) -> float:
        """Relative precision of the rows."""
        return float(np.finfo(self.dtype).eps)

    def add(self, rows: Rows, keys: list, *, targets: np.ndarray | None = None) -> None:
        """Add a batch: one hashable key for each row (its labels), or continuous targets."""
        m = rows.shape[0]
        if m == 0:
            return
        if np.finfo(rows.dtype).eps > np.finfo(self.dtype).eps:
            self.dtype = str(rows.dtype)
        mean = rows.mean()
        part = Centered(rows, mean)
        R = part.sum(triangle, np.zeros((m, 0)))
        away = mean - self.mean
        weight = self.n * m / (self.n + m)
        if targets is not None:
            self._add_targets(part, targets, away, weight)
        else:
            self._add_groups(part, keys, mean)
        self._stack = np.vstack([self._stack, R, np.sqrt(weight) * away])
        self.mean = self.mean + away * (m / (self.n + m))
        self.n += m
        if len(self._stack) > 3 * len(self.mean) + 256:
            self._stack = triangle_of(self._stack)

    def _add_groups(self, part: Centered, keys: list, mean: np.ndarray) -> None:
        distinct = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        codes = np.array([distinct[key] for key in keys])
        counts = np.bincount(codes, minlength=len(distinct))
        sums = part.t(np.eye(len(distinct))[codes])  # (d, groups), about the batch's mean
        for key, i in distinct.items():
            count, old = self.groups.get(key, [0, 0.0])
            new = mean + sums[:, i] / counts[i]
            total = count + counts[i]
            self.groups[key] = [total, old + (new - old) * (counts[i] / total)]

    def _add_targets(self, part: Centered, Y: np.ndarray, away: np.ndarray, weight: float) -> None:
        y_mean = Y.mean(axis=0)
        if self.y_mean is None:
            self.y_mean, self.cross = np.zeros(Y.shape[1]), np.zeros((len(self.mean), Y.shape[1]))
            self.y_scatter = np.zeros((Y.shape[1], Y.shape[1]))
        y_away = y_mean - self.y_mean
        Yc = Y - y_mean
        self.cross = self.cross + part.t(Yc) + weight * np.outer(away, y_away)
        self.y_scatter = self.y_scatter + Yc.T @ Yc + weight * np.outer(y_away, y_away)
        self.y_mean = self.y_mean + y_away * (len(Y) / (self.n + len(Y)))

    def group_means(self) -> tuple[list, np.ndarray, np.ndarray]:
        """Return keys, counts (g,) and means relative to the overall mean (g, d)."""
        keys = list(self.groups)
        counts = np.array([self.groups[key][0] for key in keys], dtype=np.float64)
        return keys, counts, np.array([self.groups[key][1] for key in keys]) - self.mean

    def problem(self, M: np.ndarray) -> GramProblem:
        """Return the least-squares problem whose right-hand side is M = X_c'T_c."""
        d = len(self.mean)
        R = triangle_of(np.vstack([self._stack, np.zeros((max(0, d - len(self._stack)), d))]))
        size = max(self.n, d)
        G = R.T @ R
        rounded = rounding(np.diagonal(G) + self.n * self.mean**2, self.n, self.eps)
        gram = Gram(G, size, rounding=rounded)

        def norms(N: np.ndarray) -> np.ndarray:
            return np.linalg.norm(R @ N, axis=0)

        return GramProblem(gram, M, self.mean, norms, lambda: _factor(R, M, size, rounded))


def _factor(R: np.ndarray, M: np.ndarray, size: int, rounded: np.ndarray | None) -> Factor:
    """Return the factor, with C = Q'T computed from M = R'C."""
    factor = Factor(R, np.zeros_like(M), size, rounded)
    if factor.full_rank:
        factor.C = linalg.solve_triangular(R, M, trans=1, check_finite=False)
    else:
        U, sigma, V = factor.singular
        factor.C = U @ ((V.T @ M) / sigma)
    return factor


def distinct_rows(Y: np.ndarray) -> list[str]:
    """Return one key for each row of a 0/1 matrix, equal for equal rows."""
    return [(row + ord("0")).tobytes().decode() for row in np.ascontiguousarray(Y, dtype=np.uint8)]


def from_key(key: str) -> np.ndarray:
    """Return the 0/1 row of a key."""
    return np.array(list(key), dtype=np.float64)


def pinv_root(S: np.ndarray) -> np.ndarray:
    """Return S^(-1/2) for a symmetric positive semi-definite S, of the pseudo-inverse if S is singular."""
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    keep = values > 10 * len(S) * EPS * max(values[-1], 0.0)
    return (vectors[:, keep] / np.sqrt(values[keep])) @ vectors[:, keep].T


class RegressionHead(Decisions, RowsEstimator):
    """Least squares of the label columns on the embedding: ``Y ~ Z coef_.T + intercept_``."""

    _target_gap = 1.0
    _embedded: Callable[[Rows], np.ndarray]  # from `LinearReducer`

    def _fit_head(self, found: Directions, seen: Seen) -> None:
        ((ZtZ, ZtY),) = seen.regression(found)
        if not np.isfinite(ZtZ).all():  # LAPACK would print a message
            raise OverflowError("products of embedded rows overflow")
        self.coef_ = np.linalg.lstsq(ZtZ, ZtY, rcond=None)[0].T
        self.intercept_ = seen.y_mean
        self._keep_task(seen.task, seen.classes, seen.flat)

    def _score_rows(self, rows: Rows) -> np.ndarray:
        return indicator_scores(self._embedded(rows) @ self.coef_.T + self.intercept_, self.task_)
