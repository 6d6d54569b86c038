"""The interface of ridge regression: targets of the rows, a problem whose data has been read, and a solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
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

    def squared_gram(self, max_bytes: float) -> float:
        """Return the squared Frobenius norm of X_c'X_c; a matrix computed for it takes at most ``max_bytes``."""
        if self.gram is not None:
            return float(np.vdot(self.gram.G, self.gram.G))
        d, found = len(self.mean), 0.0
        width = int(min(d, max(1, max_bytes // (8 * d))))
        for start in range(0, d, width):
            found += float(np.square(self.gram_product(np.eye(d, min(width, d - start), -start))).sum())
        return found

    def gram_product(self, P: np.ndarray) -> np.ndarray:
        """Return X_c'X_c P."""
        raise NotImplementedError


class RowTargets:
    """The targets T (n, q) of rows with weights: row i is ``table[codes[i]]``, and 0 if the code is -1.

    So a million rows with ten classes need a million small integers and a table of ten rows. A row of weight w, and
    its targets, are multiplied by sqrt(w).

    Parameters
    ----------
    table : ndarray of shape (g, q)
        The distinct rows of T; all rows if there are no codes.
    codes : ndarray of int, shape (n,), optional
        The index of each row in the table.
    counts : ndarray of shape (g,), optional
        Total weight of each row of the table; added up when None.
    weights : ndarray of shape (n,), optional
        The weights; all 1 when None.

    Attributes
    ----------
    n_targets : int
        Number q of columns of T.
    roots : ndarray of shape (n,) or None
        The square roots of the weights.
    total : float
        Sum of the weights: their number of rows, if all are 1.
    n_counted : int
        Number of rows with a weight above 0.

    Examples
    --------
    >>> RowTargets(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, -1, 0])).dense
    array([[3., 4.],
           [0., 0.],
           [1., 2.]])
    """

    codes: np.ndarray | None
    weights: np.ndarray | None
    roots: np.ndarray | None

    def __init__(
        self,
        table: np.ndarray,
        codes: np.ndarray | None = None,
        counts: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        self.table: np.ndarray = np.asarray(table, dtype=np.float64)
        self.n_targets: int = self.table.shape[1]
        # The smallest integer type, since codes are sent to the workers that hold the rows.
        self.codes = None if codes is None else codes.astype(np.min_scalar_type(-len(table)), copy=False)
        n = len(table if codes is None else codes)
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        if codes is None:
            counts = np.ones(n) if self.weights is None else self.weights
            if self.weights is not None:  # the targets of rows that are left out may be NaN
                self.table = np.where(counts[:, None] > 0, self.table, 0.0)
        elif counts is None:
            known = codes >= 0
            shares = None if self.weights is None else self.weights[known]
            counts = np.bincount(codes[known], shares, minlength=len(table)).astype(np.float64)
        self.counts = counts
        self.roots = None if self.weights is None else np.sqrt(self.weights)
        self.total = float(counts.sum())
        self.n_counted = n if weights is None else int(np.count_nonzero(weights))

    @cached_property
    def dense(self) -> np.ndarray:
        """T as an array, its rows times the roots of their weights."""
        T = self.table
        if self.codes is not None:
            T = np.where(self.codes[:, None] < 0, 0.0, T[self.codes])
        return T if self.roots is None else T * self.roots[:, None]

    def centered(self) -> RowTargets:
        """Return the targets less their weighted mean."""
        mean = self.counts @ self.table / self.total
        return RowTargets(self.table - mean, self.codes, self.counts, self.weights)

    def basis(
        self, split: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[RowTargets, np.ndarray]:
        """Return ``split`` of T: an orthonormal basis (n, r), and the (r, q) matrix that maps it to T."""
        roots = np.sqrt(self.counts)[:, None]
        Q, mix = split(roots * self.table)
        table = np.divide(Q, roots, out=np.zeros_like(Q), where=roots > 0)
        return RowTargets(table, self.codes, self.counts, self.weights), mix

    def sums(self, rows: Rows, f: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sums of ``f(X, T, roots)`` over rows in one pass, of which the last is a product with T.

        T are the targets of a block times the roots of the weights, which are None if all weights are 1. For codes T
        are their one-hot columns, and the product is multiplied by the table afterwards.
        """
        own = () if self.roots is None else (self.roots,)
        if self.codes is None:
            return rows.sum(partial(_of_values, f), self.table, *own)
        of_codes = partial(_of_codes, f, self.roots is not None)
        *others, product = rows.sum(of_codes, self.codes, *own, shared=(np.arange(len(self.table)),))
        return (*others, product @ self.table)


def _of_values(f: Callable[..., Any], X: Block, T: Any, roots: Any = None) -> Any:
    return f(X, T if roots is None else T * roots[:, None], roots)


def _of_codes(f: Callable[..., Any], weighted: bool, X: Block, codes: Any, *rest: Any) -> Any:
    roots, numbers = rest if weighted else (None, *rest)
    return _of_values(f, X, X.xp.astype(codes[:, None] == numbers[None, :], X.dtype), roots)
