"""The two systems of normal equations that stand for one least-squares problem: in the columns, and in the rows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfold.numerics.least_squares._block_cg import Scaling, Sketch, nystrom_sketch
from labelfold.rows import Block, Rows
from labelfold.rows._sums import total

if TYPE_CHECKING:
    from labelfold.numerics.least_squares._pose import RowTargets

# The ridge from which on columns are scaled, beside their mean squared norm.
_LEAST_RIDGE = 1e-3


class ColumnSide:
    """(X'X + g I) W = X'T: an iteration is one pass over X."""

    def __init__(self, X: Rows, targets: RowTargets, rng: Any) -> None:
        self.X, self.targets, self.rng = X, targets, rng

    @cached_property
    def B(self) -> np.ndarray:
        """The right-hand sides."""
        return self.targets.sums(self.X, _product)[0]

    def product(self, P: np.ndarray) -> np.ndarray:
        """Return A P, A = X'X."""
        return self.X.sum(_normal, shared=(P,))

    def rough_product(self, P: np.ndarray) -> np.ndarray:
        """Return A P in float32."""
        return self.X.sum(_rough_normal, shared=(P,)).astype(np.float32)

    def normal(self, R: np.ndarray) -> np.ndarray:
        """Return the residual of the normal equations, where R is that of this side's."""
        return R

    def explained(self, W: np.ndarray, product: np.ndarray) -> np.ndarray:
        """Return T'X W from a solution and its product."""
        return self.B.T @ W

    def coefficients(self, W: np.ndarray) -> np.ndarray:
        """Return W from a solution."""
        return W

    @cached_property
    def sketch(self) -> Sketch:
        """The preconditioner."""
        return nystrom_sketch(self.product, len(self.B), self.rank, self.rng)

    def scaling(self, ridge: float) -> Scaling | None:
        """Return the preconditioner that costs nothing.

        None for a ridge that is next to none: plain iterations stay within the range of X', and what strays from it
        is divided by the ridge alone.
        """
        return Scaling(self._diagonal) if ridge > _LEAST_RIDGE * self._diagonal.mean() else None

    @cached_property
    def _diagonal(self) -> np.ndarray:
        return self.X.sum(_squares)

    @property
    def rank(self) -> int:
        """Columns of the sketch: more than the targets, which take care of as many directions by themselves."""
        return min(self.targets.n_targets + 64, *self.X.shape)


class RowSide(ColumnSide):
    """(X X' + g I) A = T, W = X'A: shorter vectors, for far fewer rows than columns.

    An iteration is two passes, and there is no solution where g = 0 and equal rows have different targets: so this
    side is for rows in memory and a ridge.
    """

    @property
    def B(self) -> np.ndarray:
        """The right-hand sides."""
        return self.targets.dense

    def product(self, P: np.ndarray) -> np.ndarray:
        """Return A P, A = X X'."""
        return self.X.get(self.X @ self.X.t(P)) if self._block is None else self._block.outer(P)

    def rough_product(self, P: np.ndarray) -> np.ndarray:
        """Return A P in float32."""
        return self._rough_block.outer(P)

    def normal(self, R: np.ndarray) -> np.ndarray:
        """Return the residual of the normal equations, X'R; perhaps without columns of zeros."""
        return self.X.t(R) if self._block is None else total(self._block.t(R))

    def scaling(self, ridge: float) -> None:
        """Return None: rows are of one size in most data."""

    def explained(self, A: np.ndarray, product: np.ndarray) -> np.ndarray:
        """Return T'X W from a solution and its product."""
        return self.targets.dense.T @ product

    def coefficients(self, A: np.ndarray) -> np.ndarray:
        """Return W = X'A."""
        return self.X.t(A)

    @cached_property
    def _block(self) -> Block | None:
        """All the rows as one block, where that takes no memory: sparse ones are centred implicitly."""
        return self.X.whole().narrow() if self.X.is_sparse else None

    @cached_property
    def _rough_block(self) -> Block:
        assert self._block is not None
        return self._block.single()


def _product(X: Block, T: Any) -> tuple[Any]:
    return (X.t(T),)


def _normal(X: Block, P: Any) -> Any:
    return X.t(X @ P)


def _squares(X: Block) -> Any:
    return X.colsq()


def _rough_normal(X: Block, P: Any) -> Any:
    return _normal(X.single(), P)
