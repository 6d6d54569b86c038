r"""Directions learned jointly with the factors (the future work of Cho & Saul, 2011).

The dual variables of p linear SVMs are the non-zeros of S. Learned jointly with the factors they minimise

.. math:: D(X, HV') + \lambda\, D(S'X, S'HV') + \mu \sum_m E(\alpha_m), \qquad
          E(\alpha) = \tfrac12 \|X'(y \circ \alpha)\|^2 + \tfrac{1}{4C} \|\alpha\|^2 - \sum_i \alpha_i,

where the last term is the dual objective of an SVM with squared hinge. For fixed factors this is convex in S: the
I-divergence is convex in both of its arguments, and these are linear in S. It splits into one problem for each SVM.
With a large :math:`\mu` the SVMs are those of `NMFAlpha` without ``joint``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from labelfold.base import Iterates, repeated
from labelfold.factorization._directions import Machine, gathered
from labelfold.factorization.kl._factors import Guide, divergence_factors, sum_of_divergences
from labelfold.rows import Rows, as_rows

# Number of passes over X between two updates of the SVMs, and number of iterations of such an update.
_PASSES, _STEPS = 10, 20
# Lower bound of a sum of products, so that its logarithm is finite.
_LEAST = 1e-300


@dataclass(eq=False)
class JointFactors:
    """Factors, and the directions learned with them."""

    H: Any  # (n, k)  stored with the rows
    V: np.ndarray  # (d, k)
    guide: Guide


@dataclass(frozen=True, eq=False)
class Machines:
    """The SVMs whose dual variables are learned.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (l, d)
        The labelled rows.
    members : list of (rows, signs)
        The training rows of each, and their signs.
    C : float
        Penalty of the SVMs.
    weight : float
        mu, the weight of the dual objectives.
    """

    X: Any
    members: list[Machine]
    C: float
    weight: float

    def cost(self, S: sparse.csr_array) -> float:
        """Return the sum of the dual objectives E."""
        return sum(self._own(here, sign, alpha)[0] for (here, sign), alpha in self._split(S))

    def scaled(self, S: sparse.csr_array) -> sparse.csr_array:
        """Return S with each SVM multiplied by the factor that minimises its own E."""
        trained = []
        for (here, sign), alpha in self._split(S):
            w = self.X[here].T @ (sign * alpha)
            curve = float(w @ w + alpha @ alpha / (2 * self.C))
            trained.append((here, sign, alpha * (alpha.sum() / curve if curve > 0 else 1.0)))
        return gathered(S.shape[0], trained)

    def updated(self, S: sparse.csr_array, H: np.ndarray, V: np.ndarray, lam: float) -> sparse.csr_array:
        """Return S with a lower objective, given the factor H (l, k) of the labelled rows and V."""
        H, V = (np.asarray(factor, dtype=np.float64) for factor in (H, V))
        trained = []
        for (here, sign), alpha in self._split(S):
            args = (here, sign, H, V, lam)
            found = minimize(
                self._objective,
                alpha,
                args,
                method="L-BFGS-B",
                jac=True,
                bounds=[(0, None)] * len(alpha),
                options={"maxiter": _STEPS, "ftol": 1e-12},
            )
            lower = found.fun < self._objective(alpha, *args)[0]
            trained.append((here, sign, np.maximum(found.x, 0.0) if lower else alpha))
        return gathered(S.shape[0], trained)

    def _split(self, S: sparse.csr_array) -> list[tuple[Machine, np.ndarray]]:
        """Return each SVM with its dual variables, both signs together."""
        columns, p = sparse.csc_array(S), len(self.members)
        return [
            ((here, sign), (columns[:, [m]] + columns[:, [p + m]]).toarray()[here, 0])
            for m, (here, sign) in enumerate(self.members)
        ]

    def _own(self, here: np.ndarray, sign: np.ndarray, alpha: np.ndarray) -> tuple[float, np.ndarray]:
        """Return E and its gradient."""
        X = self.X[here]
        w = X.T @ (sign * alpha)  # (d,)
        value = 0.5 * float(w @ w) + float(alpha @ alpha) / (4 * self.C) - float(alpha.sum())
        return value, sign * (X @ w) + alpha / (2 * self.C) - 1

    def _objective(
        self, alpha: np.ndarray, here: np.ndarray, sign: np.ndarray, H: np.ndarray, V: np.ndarray, lam: float
    ) -> tuple[float, np.ndarray]:
        """Return lambda D(S'X, S'HV') + mu E of one SVM, and the gradient in its dual variables."""
        value, gradient = self._own(here, sign, alpha)
        value, gradient = self.weight * value, self.weight * gradient
        for side in (1, -1):
            which = sign == side
            if not which.any():
                continue
            X, places, a = self.X[here[which]], H[here[which]], alpha[which]
            kept = X.T @ a  # (d,)  S'X
            made = np.maximum(V @ (places.T @ a), _LEAST)  # (d,)  S'HV'
            logarithm = np.log(np.maximum(kept, _LEAST) / made)
            value += lam * float(kept @ logarithm - kept.sum() + made.sum())
            gradient[which] += lam * (X @ logarithm + places @ (V.T @ (1 - kept / made)))
        return value, gradient


def joint_iterates(rows: Rows, start: tuple[Any, np.ndarray], guide: Guide, machines: Machines) -> Iterates:
    """Update factors and SVMs in turn: some passes over X, then each SVM on the labelled rows.

    Parameters
    ----------
    rows : Rows
        X, n x d, non-negative.
    start : (H, V), arrays of shapes (n, k) and (d, k)
        Initial factors.
    guide : Guide
        The initial S, of all labelled rows.
    machines : Machines

    Yields
    ------
    factors : JointFactors
    objective : float
    """

    def step(state: JointFactors) -> tuple[JointFactors, float]:
        inner = divergence_factors(rows, (state.H, state.V), state.guide, max_iter=_PASSES, tol=0.0)
        H, V = inner.state.H, inner.state.V
        guide = state.guide
        H_L = rows.pick(H, guide.index)  # (l, k)
        S = machines.updated(guide.S, H_L, V, guide.weight)
        guide = replace(guide, S=S, rows=as_rows(sums(S, machines.X, rows.dtype)))
        G = (S.T @ H_L).astype(rows.dtype, copy=False)
        value = sum_of_divergences(rows, H, V) + guide.weight * sum_of_divergences(guide.rows, G, V)
        return JointFactors(H, V, guide), value + machines.weight * machines.cost(S)

    return repeated(step, JointFactors(*start, guide))


def sums(S: sparse.csr_array, X: Any, dtype: np.dtype) -> Any:
    """Return S'X (2p, d), sparse if X is."""
    found = S.T @ X
    return (sparse.csr_array(found) if sparse.issparse(found) else np.ascontiguousarray(found)).astype(dtype)
