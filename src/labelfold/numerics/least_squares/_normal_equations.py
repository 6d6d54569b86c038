"""The two systems of normal equations of a least-squares problem: of the columns, and of the rows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfold.numerics.least_squares._block_cg import Scaling, Sketch, column_norms, nystrom_sketch
from labelfold.rows import Block, Rows, total

if TYPE_CHECKING:
    from labelfold.numerics.least_squares._pose import RowTargets

# Least ridge for which columns are scaled, relative to their mean squared norm.
_LEAST_RIDGE = 1e-3


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

    def rough_product(self, P: np.ndarray) -> np.ndarray:
        """Return A P in float32."""
        return self.X.sum(_rough_normal, shared=(P,)).astype(np.float32)

    def normal(self, R: np.ndarray) -> np.ndarray:
        """Return the residual of the normal equations, given the residual R of this side."""
        return R

    def normal_norms(self, R: np.ndarray, rough: bool) -> np.ndarray:
        """Return the norms of the columns of `normal`; from products in float32 if ``rough``."""
        return column_norms(self.normal(R))

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
        """Return the diagonal preconditioner, which costs nothing.

        None for a very small ridge: plain iterations stay in the range of X', and components outside it would be
        divided by the ridge alone.
        """
        return Scaling(self._diagonal) if ridge > _LEAST_RIDGE * self._diagonal.mean() else None

    @cached_property
    def _diagonal(self) -> np.ndarray:
        return self.X.sum(_squares)

    @property
    def rank(self) -> int:
        """Number of columns of the sketch: 64 more than targets, as the iterations cover as many directions."""
        return min(self.targets.n_targets + 64, *self.X.shape)


class RowSide(ColumnSide):
    """(X X' + g I) A = T, W = X'A, with shorter vectors if there are far fewer rows than columns.

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

    def rough_product(self, P: np.ndarray) -> np.ndarray:
        """Return A P in float32."""
        return self._rough_block.outer(P)

    def normal(self, R: np.ndarray) -> np.ndarray:
        """Return the residual of the normal equations, X'R, possibly without columns of zeros."""
        return self.X.t(R) if self._block is None else total(self._block.t(R))

    def normal_norms(self, R: np.ndarray, rough: bool) -> np.ndarray:
        """Return the norms of the columns of `normal`; from products in float32 if ``rough``."""
        # A norm needs few digits. Columns of R are scaled first, since their squares may be tiny.
        sizes = np.abs(R).max(axis=0, initial=0.0)
        if not rough or not 0 < sizes.max(initial=0.0) < np.inf:
            return super().normal_norms(R, rough)
        scale = np.where(sizes > 0, sizes, 1.0)
        return scale * column_norms(total(self._rough_block.t((R / scale).astype(np.float32)), None))

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
        return self.X.whole().narrow() if self.X.is_sparse else None

    @cached_property
    def _rough_block(self) -> Block:
        assert self._block is not None
        return self._block.single()


def _product(X: Block, T: Any) -> tuple[Any]:
    return (X.t(T),)


def _normal(X: Block, P: Any) -> Any:
    return X.normal(P)


def _squares(X: Block) -> Any:
    return X.colsq()


def _rough_normal(X: Block, P: Any) -> Any:
    return _normal(X.single(), P)
