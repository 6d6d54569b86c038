"""Directions that separate classes, as non-negative sums of labelled rows: dual variables of linear classifiers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from labelfold.labels import Labels
from labelfold.numerics import linear_svm, linear_svms, perceptron

# Tolerances: the relative duality gap of SVMs, and the gradient of logistic regression.
_TOL, _LOGISTIC_TOL = 1e-6, 1e-8
# Most epochs of a perceptron.
_EPOCHS = 20

Machine = tuple[np.ndarray, np.ndarray]  # indices of its labelled rows, and their signs


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
