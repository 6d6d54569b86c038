"""A least-squares problem that has been read, and its solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from labelfold.rows import Block, Rows


@dataclass
class LeastSquares:
    """A solution, and how it was found.

    Attributes
    ----------
    W : ndarray of shape (d, q)
        The coefficients.
    D : ndarray of shape (q, q)
        W'X_c'T_c, symmetric positive semi-definite, from the most accurate product at hand.
    mean : ndarray of shape (d,)
        The mean of the rows that count.
    residual : float
        Largest residual X_c'(T_c - X_c W) - g W of a target, beside its X_c'T_c, computed afresh from W at the end;
        0 for the direct ways.
    n_iter : int
        Iterations of the Krylov way, otherwise 1.
    way : str
        "gram", "dual" or "krylov".
    state : object
        What the Krylov way sets out from for another ridge.
    """

    W: np.ndarray
    D: np.ndarray
    mean: np.ndarray
    residual: float
    n_iter: int
    way: str
    state: Any = field(default=None, repr=False)


class RowTargets:
    """What rows are to be fitted to: T (n, q), of which row i is ``table[codes[i]]``, 0 where the code is -1.

    A million rows of ten classes are then a million small numbers and a table of ten rows.

    Parameters
    ----------
    table : ndarray of shape (g, q)
        The rows of T that differ; all of them where there are no codes.
    codes : ndarray of int, shape (n,), optional
        Which of them each row has.

    Examples
    --------
    >>> RowTargets(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, -1, 0])).dense
    array([[3., 4.],
           [0., 0.],
           [1., 2.]])
    """

    def __init__(self, table: np.ndarray, codes: np.ndarray | None = None) -> None:
        self.table, self.codes = np.asarray(table, dtype=np.float64), codes

    @classmethod
    def of(cls, T: np.ndarray | RowTargets) -> RowTargets:
        """Return targets as such."""
        return T if isinstance(T, RowTargets) else cls(T)

    @property
    def n_targets(self) -> int:
        """Columns of T, q."""
        return self.table.shape[1]

    @cached_property
    def dense(self) -> np.ndarray:
        """T itself."""
        if self.codes is None:
            return self.table
        return np.where(self.codes[:, None] < 0, 0.0, self.table[self.codes])

    @cached_property
    def counts(self) -> np.ndarray:
        """How often each row of the table occurs."""
        if self.codes is None:
            return np.ones(len(self.table))
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.table)).astype(np.float64)

    def centered(self, mask: np.ndarray | None) -> RowTargets:
        """Return the targets less their mean over the rows that count, and 0 for the others."""
        if self.codes is not None:
            return RowTargets(self.table - self.counts @ self.table / self.counts.sum(), self.codes)
        T = self.table if mask is None else np.where(mask[:, None], self.table, 0.0)
        T = T - T.sum(axis=0) / (len(T) if mask is None else int(mask.sum()))
        return RowTargets(T if mask is None else T * mask[:, None])

    def basis(
        self, split: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[RowTargets, np.ndarray]:
        """Return what ``split`` makes of T: an orthonormal basis (n, r) and the (r, q) matrix that makes T of it."""
        roots = np.sqrt(self.counts)[:, None]
        Q, mix = split(roots * self.table)
        return RowTargets(np.divide(Q, roots, out=np.zeros_like(Q), where=roots > 0), self.codes), mix

    def sums(self, rows: Rows, f: Callable[[Block, Any], tuple]) -> tuple:
        """Return ``f(X, T)`` added up over rows, where f(X, E) gives sums of which the last is X'E; one pass."""
        if self.codes is None:
            return rows.sum(f, self.table)
        *others, product = rows.sum(_Indicated(f), self.codes, shared=(np.arange(len(self.table)),))
        return (*others, product @ self.table)


class _Indicated:
    """A function of a block and targets, given the numbers of the targets' rows (a class, so that it can travel)."""

    def __init__(self, f: Callable) -> None:
        self.f = f

    def __call__(self, X: Block, codes: Any, numbers: Any) -> Any:
        xp = array_namespace(codes)
        return self.f(X, xp.astype(codes[:, None] == numbers[None, :], X.dtype))


class LeastSquaresProblem:
    """A least-squares problem that has been read, to be solved for one ridge after another."""

    def prepare(self, ridges: Sequence[float]) -> None:
        """Announce the ridges, so that work for all of them can be shared."""

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge; ``start`` is a solution for another."""
        raise NotImplementedError
