"""The base of KLNMF and NMFAlpha: factors of least I-divergence, the embedding of new rows, and its correction."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from labelfold.factorization._components import NonnegativeParts
from labelfold.factorization._joint_directions import Machines, joint_iterates
from labelfold.factorization.kl._factors import Guide, iterates
from labelfold.factorization.kl._place import kl_place, least_squares_fit
from labelfold.factorization.kl._starts import Margins, divergence_start, margins
from labelfold.numerics import count_negative, refuse_negative
from labelfold.rows import Block, Rows, single_blas

# Tolerance for new rows: the divergence is within this share of the row's sum of its minimum. And the most updates.
_PLACE_TOL, _PLACE_ROUNDS = 1e-5, 3000
# Range of the sum of X in which products of the factors neither overflow nor vanish in the dtype.
_SUMS = {8: (1e-200, 1e200), 4: (1e-25, 1e30)}


class DivergenceNMF(NonnegativeParts):
    """A non-negative factorisation X = H V' by I-divergence."""

    _parameter_constraints = {**NonnegativeParts._parameter_constraints, "corrected": ["boolean"]}

    def _place(self, rows: Rows) -> Any:
        V = np.ascontiguousarray(self.components_.T)
        root = self._root() if self.corrected else np.empty((0, 0))
        # Rows in memory start elsewhere: for a few of them the fit would cost more than all the rest.
        needs_fit = rows.xp is not np and not rows.is_sparse
        fit = least_squares_fit(V) if needs_fit else np.empty((0, V.shape[1]))
        shared = V, V.sum(axis=0), fit, root, _PLACE_TOL, _PLACE_ROUNDS
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


def _place(X: Block, V: Any, v: Any, fit: Any, root: Any, tol: float, rounds: int) -> tuple[Any, Any]:
    n_negative = count_negative(X)
    if n_negative:  # the rows will be refused, and might take long to place
        tol, rounds = np.inf, 1
    H = kl_place(X, V, v, fit, tol, rounds)
    return H @ root if root.shape[0] else H, n_negative
