"""What KLNMF and NMFAlpha share: factors of least I-divergence, places of new rows, and their correction."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold._progress import Progress, warn_of_early_end
from labelfold.factorization._components import NonnegativeParts
from labelfold.numerics._ranges import count_negative, refuse_negative
from labelfold.numerics.kl._factors import Guide, divergence_factors
from labelfold.numerics.kl._starts import Margins, divergence_start, margins

# A new row is placed when its divergence is known to lie within this share of its sum above the least there is, or
from labelfold.rows import Block, Rows
from labelfold.rows import _threads as threads

# after so many updates.
_PLACE_TOL, _PLACE_ROUNDS = 1e-5, 3000
# Sums of X beyond which products of the factors would leave the range of the dtype.
_SUMS = {8: (1e-200, 1e200), 4: (1e-25, 1e30)}


class DivergenceNMF(NonnegativeParts):
    """A non-negative factorisation X = H V' by I-divergence."""

    _parameter_constraints = {**NonnegativeParts._parameter_constraints, "corrected": ["boolean"]}

    def _place(self, rows: Rows) -> Any:
        refuse_negative(rows, rows.sum(count_negative), estimator=type(self).__name__)
        V = np.ascontiguousarray(self.components_.T)
        root = self._root() if self.corrected else np.empty((0, 0))
        return rows.map(_place, shared=(V, V.sum(axis=0), root, _PLACE_TOL, _PLACE_ROUNDS))

    def _survey(self, rows: Rows) -> Margins:
        """Return the sums of X, once it is known that X can be factorised; one pass."""
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

    def _factorise(self, rows: Rows, sums: Margins, guide: Guide | None = None) -> None:
        """Run the iterations as the parameters say, and keep what they reach."""
        name = type(self).__name__
        with threads.single_blas(), Progress(name, self.max_iter, self.verbose) as progress:
            found = divergence_factors(
                rows,
                divergence_start(rows, self.n_components, self.init, sums, self.random_state),
                guide,
                max_iter=self.max_iter,
                tol=self.tol,
                keep_on_interrupt=self.on_interrupt == "keep",
                callback=progress,
            )
        warn_of_early_end(found, name, self.tol)
        self.components_ = np.array(found.V.T, dtype=np.float64, order="C")
        self.objective_ = np.array(found.objective)
        self.n_iter_ = len(found.objective)
        H = np.array(rows.get(found.H))
        self.embedding_ = (H @ self._root()).astype(H.dtype) if self.corrected else H

    def _root(self) -> np.ndarray:
        return gram_root(self.components_)

    def _back(self) -> np.ndarray:
        if not self.corrected:
            return self.components_
        return np.linalg.pinv(self._root(), hermitian=True) @ self.components_


def gram_root(components: np.ndarray) -> np.ndarray:
    """Return (V'V)^(1/2), (k, k): places times it have the inner products of the rows they stand for (eq. 5)."""
    values, vectors = np.linalg.eigh(components @ components.T)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _place(X: Block, V: Any, v: Any, root: Any, tol: float, rounds: int) -> Any:
    H = X.kl_place(V, v, tol, rounds)
    return H @ root if root.shape[0] else H
