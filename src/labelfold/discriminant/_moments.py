"""Moments of labelled rows that arrive in batches, for the two-stage methods, merged without cancellation."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from labelfold.numerics import EPS, Factor, Gram, GramProblem, rounding, triangle
from labelfold.rows import Centered, Rows, triangle_of


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
