"""Dual variables of linear classifiers as weights of the labelled rows: the directions that NMFAlpha preserves.

They are trained on the labelled rows (`dual_directions`), or improved together with factors of these (`JointSVMs`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from labelfold.labels import Labels
from labelfold.numerics import linear_svm, perceptron

# The training rows of a classifier, as indices of the labelled rows, and their signs.
TrainingSet = tuple[np.ndarray, np.ndarray]


def dual_directions(
    X: Any,
    labels: Labels,
    C: float,
    multiclass: str,
    kind: str = "svm",
    random_state: int = 0,
    weights: np.ndarray | None = None,
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
    weights : ndarray of shape (l, r), optional
        Weights of the losses, a column for each class or label.

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
        alpha = linear_svm(X, signs, C if weights is None else C * weights).alpha  # (l, p)
        return sparse.csr_array(np.hstack([alpha * (signs > 0), alpha * (signs < 0)]))
    train: Callable[[Any, np.ndarray, Any], np.ndarray] = {
        "svm": lambda X, y, w: linear_svm(X, y, C if w is None else C * w).alpha,
        "perceptron": lambda X, y, w: _perceptron(X, y, w, random_state),
        "logistic": lambda X, y, w: _logistic(X, y, C, w),
    }[kind]
    sets = list(training_sets(labels, multiclass))
    own = itertools.repeat(None) if weights is None else set_weights(sets, weights)
    trained = [(index, sign, train(X[index], sign, w)) for (index, sign), w in zip(sets, own, strict=False)]
    return by_sign(labels.n_labelled, trained)


def training_sets(labels: Labels, multiclass: str) -> Iterator[TrainingSet]:
    """Yield the training rows and the signs of each classifier."""
    if not _pairs(labels, multiclass):
        everywhere = np.arange(labels.n_labelled)
        for sign in labels.signs().T:
            yield everywhere, sign
        return
    codes = labels.values
    for first, second in itertools.combinations(range(labels.n_classes), 2):
        index = np.flatnonzero((codes == first) | (codes == second))
        yield index, np.where(codes[index] == second, 1.0, -1.0)


def set_weights(sets: list[TrainingSet], weights: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the weights of the losses of each classifier, from those (l, r) of each class or label.

    A row has the same weight in all pairs of classes.
    """
    for m, (index, _) in enumerate(sets):
        yield weights[index, m if len(sets) == weights.shape[1] else 0]


def by_sign(n: int, trained: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> sparse.csr_array:
    """Return S (n, 2p) of classifiers given as (rows, signs, dual variables)."""
    parts = []
    for side in (1, -1):
        for index, sign, alpha in trained:
            used = (sign * side > 0) & (alpha > 0)
            parts.append((index[used], alpha[used]))
    columns = np.repeat(np.arange(len(parts)), [len(index) for index, _ in parts])
    indices, values = (np.concatenate(some) for some in zip(*parts, strict=True))
    return sparse.csr_array((values, (indices, columns)), shape=(n, len(parts)))


def _pairs(labels: Labels, multiclass: str) -> bool:
    return labels.task == "multiclass" and multiclass == "ovo"


def _perceptron(X: Any, y: np.ndarray, weights: np.ndarray | None, random_state: int) -> np.ndarray:
    """Return the mistakes of a perceptron on each row, times the weight with which the row is then added."""
    if weights is None:
        return perceptron(X, y, 20, random_state)
    return weights * perceptron(sparse.diags_array(weights) @ X, y, 20, random_state)


def _logistic(X: Any, y: np.ndarray, C: float, weights: np.ndarray | None) -> np.ndarray:
    """Return the dual variables of logistic regression, alpha = C / (1 + exp(y w'x)), where w = X'(y * alpha)."""
    if (y > 0).all() or (y < 0).all():
        raise ValueError(
            "directions='logistic' was given with a label that all labelled rows have, or none; use 'svm' or "
            "'perceptron', or drop that label"
        )
    model = LogisticRegression(C=C, fit_intercept=False, tol=1e-8, max_iter=10_000).fit(X, y, weights)
    return (C if weights is None else C * weights) * expit(-y * (X @ model.coef_[0]))


@dataclass(frozen=True, eq=False)
class JointSVMs:
    """The SVMs whose dual variables are learned with the factors.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (l, d)
        The labelled rows.
    sets : list of (rows, signs)
        The training rows of each, and their signs.
    C : float
        Penalty of the SVMs.
    weight : float
        mu, the weight of the dual objectives.
    losses : list of ndarray, optional
        Weights of the losses of the training rows of each.
    row_weights : ndarray of shape (l,), optional
        Weights of the labelled rows.
    """

    X: Any
    sets: list[TrainingSet]
    C: float
    weight: float
    losses: list[np.ndarray] | None = None
    row_weights: np.ndarray | None = None

    def cost(self, S: sparse.csr_array) -> float:
        """Return the sum of the dual objectives E."""
        return sum(self._dual_objective(*each)[0] for each in self._split(S))

    def scaled(self, S: sparse.csr_array) -> sparse.csr_array:
        """Return S with each SVM multiplied by the factor that minimises its own E."""
        trained = []
        for index, sign, alpha, losses in self._split(S):
            w = self.X[index].T @ (sign * alpha)
            curve = float(w @ w + alpha @ _over(alpha, losses) / (2 * self.C))
            trained.append((index, sign, alpha * (alpha.sum() / curve if curve > 0 else 1.0)))
        return by_sign(S.shape[0], trained)

    def updated(self, S: sparse.csr_array, H: np.ndarray, V: np.ndarray, lam: float) -> sparse.csr_array:
        """Return S with a lower objective, given the factor H (l, k) of the labelled rows and V."""
        H, V = (np.asarray(factor, dtype=np.float64) for factor in (H, V))
        trained = []
        for index, sign, alpha, losses in self._split(S):
            args = (index, sign, H, V, lam, losses)
            # The steps are those of rows repeated as their weights say, whose dual variables add up.
            root = 1.0 if self.row_weights is None else np.sqrt(self.row_weights[index])

            def scaled(x: np.ndarray, root: Any = root, args: tuple = args) -> tuple[float, np.ndarray]:
                value, gradient = self.objective(root * x, *args)
                return value, root * gradient

            found = minimize(
                scaled,
                alpha / root,
                method="L-BFGS-B",
                jac=True,
                bounds=[(0, None)] * len(alpha),
                options={"maxiter": 20, "ftol": 1e-12},
            )
            lower = found.fun < self.objective(alpha, *args)[0]
            trained.append((index, sign, np.maximum(root * found.x, 0.0) if lower else alpha))
        return by_sign(S.shape[0], trained)

    def _split(
        self, S: sparse.csr_array
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield the rows, the signs, the dual variables (both signs together) and the weights of each SVM."""
        columns, p = sparse.csc_array(S), len(self.sets)
        for m, (index, sign) in enumerate(self.sets):
            alpha = (columns[:, [m]] + columns[:, [p + m]]).toarray()[index, 0]
            yield index, sign, alpha, None if self.losses is None else self.losses[m]

    def _dual_objective(
        self, index: np.ndarray, sign: np.ndarray, alpha: np.ndarray, losses: np.ndarray | None
    ) -> tuple[float, np.ndarray]:
        """Return E and its gradient."""
        X = self.X[index]
        w = X.T @ (sign * alpha)  # (d,)
        slack = _over(alpha, losses)
        value = 0.5 * float(w @ w) + float(alpha @ slack) / (4 * self.C) - float(alpha.sum())
        return value, sign * (X @ w) + slack / (2 * self.C) - 1

    def objective(
        self,
        alpha: np.ndarray,
        index: np.ndarray,
        sign: np.ndarray,
        H: np.ndarray,
        V: np.ndarray,
        lam: float,
        losses: np.ndarray | None = None,
    ) -> tuple[float, np.ndarray]:
        """Return lambda D(S'X, S'HV') + mu E of one SVM, and the gradient in its dual variables."""
        value, gradient = self._dual_objective(index, sign, alpha, losses)
        value, gradient = self.weight * value, self.weight * gradient
        tiny = np.finfo(np.float64).tiny  # so that logarithms are finite
        for side in (1, -1):
            used = sign == side
            if not used.any():
                continue
            X, H_side, a = self.X[index[used]], H[index[used]], alpha[used]
            StX = X.T @ a  # (d,)
            model = np.maximum(V @ (H_side.T @ a), tiny)  # (d,)  S'HV'
            logarithm = np.log(np.maximum(StX, tiny) / model)
            value += lam * float(StX @ logarithm - StX.sum() + model.sum())
            gradient[used] += lam * (X @ logarithm + H_side @ (V.T @ (1 - StX / model)))
        return value, gradient


def _over(alpha: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    return alpha if weights is None else alpha / weights


def rows_divided(S: sparse.csr_array, weights: np.ndarray | None, power: int = 1) -> sparse.csr_array:
    """Return S with its rows divided by a power of their weights."""
    return S if weights is None else sparse.csr_array(sparse.diags_array(weights**-power) @ S)


def weighted_sums(S: sparse.csr_array, X: Any, dtype: np.dtype) -> Any:
    """Return S'X (2p, d), sparse if X is."""
    return (S.T @ X).astype(dtype)
