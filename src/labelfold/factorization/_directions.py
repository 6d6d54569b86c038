"""Directions that separate classes, as non-negative sums of labelled rows: dual variables of linear classifiers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from labelfold.base import Iterates, repeated
from labelfold.factorization._divergence import Guide, divergence_factors, sum_of_divergences
from labelfold.labels import Labels
from labelfold.numerics import linear_svm, linear_svms, perceptron
from labelfold.rows import Rows, as_rows

# Tolerances: the relative duality gap of SVMs, and the gradient of logistic regression.
_TOL, _LOGISTIC_TOL = 1e-6, 1e-8
# Most epochs of a perceptron.
_EPOCHS = 20
Machine = tuple[np.ndarray, np.ndarray]  # indices of its labelled rows, and their signs
# Number of passes over X between two updates of the SVMs, and number of iterations of such an update.
_PASSES, _STEPS = 10, 20
# Lower bound of a sum of products, so that its logarithm is finite.
_LEAST = 1e-300


def dual_directions(
    X: Any, labels: Labels, C: float, multiclass: str, kind: str = "svm", random_state: int = 0
) -> sparse.csr_array:
    """Return S (l, 2p): dual variables of p linear classifiers, first of positive rows, then of negative (eq. 17).

    The weights of a classifier are w = X'(S_+ - S_-), so S_+'X and S_-'X are the non-negative parts to preserve (eq.
    7).

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (l, d)
        The labelled rows.
    labels : Labels
        One classifier for two classes; for several classes one for each pair ("ovo") or for each class against the
        rest ("ovr"); for multi-label one for each label.
    C : float
        Weight of the squared hinge, or of the logistic loss.
    multiclass : {"ovo", "ovr"}
    kind : {"svm", "perceptron", "logistic"}
        The classifier. The dual variables of a perceptron count its mistakes.
    random_state : int
        Seed of the order of the rows for a perceptron.

    Returns
    -------
    S : csr_array of shape (l, 2p)

    Examples
    --------
    >>> from labelfold.labels import read_labels
    >>> S = dual_directions(np.array([[2.0, 0.0], [0.0, 2.0]]), read_labels(["a", "b"]), 1e6, "ovo")
    >>> S.toarray().round(3)
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """
    signs = labels.signs()
    if kind == "svm" and not _pairs(labels, multiclass):
        alpha = linear_svms(X, signs, C, tol=_TOL).alpha  # (l, p)
        return sparse.csr_array(np.hstack([alpha * (signs > 0), alpha * (signs < 0)]))
    train: Callable[[Any, np.ndarray], np.ndarray] = {
        "svm": lambda X, y: linear_svm(X, y, C, tol=_TOL).alpha,
        "perceptron": lambda X, y: perceptron(X, y, _EPOCHS, random_state),
        "logistic": lambda X, y: _logistic(X, y, C),
    }[kind]
    return gathered(
        labels.n_labelled,
        [(here, sign, train(X[here], sign)) for here, sign in machines(labels, multiclass)],
    )


def machines(labels: Labels, multiclass: str) -> Iterator[Machine]:
    """Yield the labelled rows and the signs of each classifier."""
    if not _pairs(labels, multiclass):
        everywhere = np.arange(labels.n_labelled)
        for sign in labels.signs().T:
            yield everywhere, sign
        return
    codes = labels.values
    for first, second in itertools.combinations(range(labels.n_classes), 2):
        here = np.flatnonzero((codes == first) | (codes == second))
        yield here, np.where(codes[here] == second, 1.0, -1.0)


def gathered(n: int, trained: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> sparse.csr_array:
    """Return S (n, 2p) of classifiers given as (rows, signs, dual variables)."""
    parts = []
    for side in (1, -1):
        for here, sign, alpha in trained:
            used = (sign * side > 0) & (alpha > 0)
            parts.append((here[used], alpha[used]))
    columns = np.repeat(np.arange(len(parts)), [len(at) for at, _ in parts])
    places, values = (np.concatenate(some) for some in zip(*parts, strict=True))
    return sparse.csr_array((values, (places, columns)), shape=(n, len(parts)))


def _pairs(labels: Labels, multiclass: str) -> bool:
    return labels.task == "multiclass" and multiclass == "ovo"


def _logistic(X: Any, y: np.ndarray, C: float) -> np.ndarray:
    """Return the dual variables of logistic regression, alpha = C / (1 + exp(y w'x)), where w = X'(y * alpha)."""
    if (y > 0).all() or (y < 0).all():
        raise ValueError(
            "directions='logistic' was given with a label that all labelled rows have, or none; use 'svm' or "
            "'perceptron', or drop that label"
        )
    model = LogisticRegression(C=C, fit_intercept=False, tol=_LOGISTIC_TOL, max_iter=10_000).fit(X, y)
    return C * expit(-y * (X @ model.coef_[0]))


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
