"""The interface of ridge regression: targets of the rows, a problem whose data has been read, and a solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from labelfold.numerics._gram import Gram
from labelfold.rows import Block, Rows


@dataclass
class RidgeSolution:
    """A solution, and how it was found.

    Attributes
    ----------
    W : ndarray of shape (d, q)
        The coefficients.
    D : ndarray of shape (q, q)
        W'X_c'T_c, symmetric positive semi-definite, from the most accurate product available.
    mean : ndarray of shape (d,)
        The mean of the rows in use.
    way : str
        "gram", "factor", "dual", "kernel" or "krylov".
    residual : float
        Largest residual X_c'(T_c - X_c W) - g W of a target, relative to its X_c'T_c, recomputed from W at the end; 0
        for the direct methods.
    n_iter : int
        Number of iterations of "krylov", otherwise 1.
    state : object
        The warm start of "krylov" for another ridge.
    """

    W: np.ndarray
    D: np.ndarray
    mean: np.ndarray
    way: str
    residual: float = 0.0
    n_iter: int = 1
    state: Any = field(default=None, repr=False)


class RidgeProblem:
    """A ridge regression whose data has been read, to be solved for several ridges.

    Attributes
    ----------
    mean : ndarray of shape (d,)
        The mean of the rows in use.
    size : int
        The larger side of X, with which round-off grows.
    gram : Gram or None
        The matrix whose factorisation several ridges share, if it has been computed.
    """

    mean: np.ndarray
    size: int
    gram: Gram | None = None

    def prepare(self, ridges: Sequence[float]) -> None:
        """Announce the ridges, so that work for all of them can be shared."""
        if self.gram is not None:
            self.gram.expect(ridges)

    def solve(self, ridge: float, start: RidgeSolution | None = None) -> RidgeSolution:
        """Solve for one ridge; ``start`` is a solution for another."""
        raise NotImplementedError

    def whitened(self, ridge: float) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Return F^(-1) X_c'T_c and the product with F^(-T), where F F' = X_c'X_c + ridge I."""
        raise NotImplementedError


class RowTargets:
    """The targets T (n, q): row i is ``table[codes[i]]``, and 0 if the code is -1.

    So a million rows with ten classes need a million small integers and a table of ten rows.

    Parameters
    ----------
    table : ndarray of shape (g, q)
        The distinct rows of T; all rows if there are no codes.
    codes : ndarray of int, shape (n,), optional
        The index of each row in the table.
    counts : ndarray of shape (g,), optional
        How often each row of the table occurs; counted when None. Without codes each occurs once.

    Attributes
    ----------
    n_targets : int
        Number q of columns of T.

    Examples
    --------
    >>> RowTargets(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, -1, 0])).dense
    array([[3., 4.],
           [0., 0.],
           [1., 2.]])
    """

    codes: np.ndarray | None

    def __init__(
        self, table: np.ndarray, codes: np.ndarray | None = None, counts: np.ndarray | None = None
    ) -> None:
        self.table: np.ndarray = np.asarray(table, dtype=np.float64)
        self.n_targets: int = self.table.shape[1]
        # The smallest integer type, since codes are sent to the workers that hold the rows.
        self.codes = None if codes is None else codes.astype(np.min_scalar_type(-len(table)), copy=False)
        if codes is None:
            counts = np.ones(len(table))
        elif counts is None:
            counts = np.bincount(codes[codes >= 0], minlength=len(table)).astype(np.float64)
        self.counts = counts

    @cached_property
    def dense(self) -> np.ndarray:
        """T as an array."""
        if self.codes is None:
            return self.table
        return np.where(self.codes[:, None] < 0, 0.0, self.table[self.codes])

    def centered(self, mask: np.ndarray | None) -> RowTargets:
        """Return the targets less their mean over the rows in the mask, and 0 for the other rows."""
        if self.codes is not None:
            mean = self.counts @ self.table / self.counts.sum()
            return RowTargets(self.table - mean, self.codes, self.counts)
        T = self.table if mask is None else np.where(mask[:, None], self.table, 0.0)
        T = T - T.sum(axis=0) / (len(T) if mask is None else int(mask.sum()))
        return RowTargets(T if mask is None else T * mask[:, None])

    def basis(
        self, split: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[RowTargets, np.ndarray]:
        """Return ``split`` of T: an orthonormal basis (n, r), and the (r, q) matrix that maps it to T."""
        roots = np.sqrt(self.counts)[:, None]
        Q, mix = split(roots * self.table)
        table = np.divide(Q, roots, out=np.zeros_like(Q), where=roots > 0)
        return RowTargets(table, self.codes, self.counts), mix

    def sums(self, rows: Rows, f: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sums of ``f(X, T, numbers)`` over rows in one pass; the last is X' times `target_block`."""
        if self.codes is None:
            return rows.sum(f, self.table)
        *others, product = rows.sum(f, self.codes, shared=(np.arange(len(self.table)),))
        return (*others, product @ self.table)


def target_block(X: Block, T: Any, numbers: Any) -> Any:
    """Return the targets of a block: T; if T are codes, of all ``numbers``, 1 in the column of each row's code."""
    return T if numbers is None else X.xp.astype(T[:, None] == numbers[None, :], X.dtype)
