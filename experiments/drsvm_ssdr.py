"""SSDR on adult in other readings of the DRSVM paper: which eigenvectors are taken, and an SVM with an intercept.

The paper takes "the top k eigenvectors" of X'(D - S)X in MATLAB. That matrix is indefinite: eigs of MATLAB takes the
eigenvalues of largest magnitude, the definition of SSDR the largest. The paper does not speak of an intercept.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from data_sets import accuracy
from result_rows import Results, row_key

PART = "SSDR"
ALPHA, BETA, K = 1.0, 20.0, 10
READINGS = ("largest", "largest magnitude")
CLASSIFIERS = {"SSDR+kNN": lambda: KNeighborsClassifier(5), "SSDR+SVM": lambda: LinearSVC(random_state=0)}


class Spread:
    """The covariance of all rows, which every draw of labels shares.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Rows of few columns.
    """

    def __init__(self, X: sparse.csr_array) -> None:
        self.X = X.toarray()
        centred = self.X - self.X.mean(axis=0)
        self.covariance = centred.T @ centred / len(centred)

    def components(self, known: np.ndarray, y: np.ndarray, which: str) -> np.ndarray:
        """Return K eigenvectors (d, K) from the classes y of the rows ``known``, all pairs of which are linked."""
        Z = self.X[known]
        same = (y[:, None] == y).astype(float)
        must, cannot = _laplacian(same), _laplacian(1 - same)
        n_cannot = float((1 - same).sum()) / 2
        M = self.covariance + Z.T @ (ALPHA / n_cannot * cannot - BETA / same.sum() * must) @ Z
        values, V = np.linalg.eigh(M)
        order = np.argsort(-values if which == READINGS[0] else -np.abs(values))
        return V[:, order[:K]]


def _laplacian(A: np.ndarray) -> np.ndarray:
    return np.diag(A.sum(axis=1)) - A


def readings(results: Results, data: Any, counts: tuple[int, ...], draws: int, draw: Any, value: Any) -> None:
    """Write the accuracy (%) on unlabelled rows, by labels, reading, classifier and draw.

    ``draw(data, count, seed)`` returns labels, -1 where unknown; ``value(name, method, count)`` what is published.
    """
    spread: Spread | None = None
    for seed, count in itertools.product(range(draws), counts):
        few = None
        for which, method in itertools.product(READINGS, CLASSIFIERS):
            reading = {"eigenvalues": which.replace(" ", "-"), "intercept": True}
            key = row_key(PART, data, method, seed, labels=count, **reading)
            if results.has(**key):
                continue
            spread = spread or Spread(data.X)
            few = draw(data, count, seed) if few is None else few
            known = np.flatnonzero(few >= 0)
            W = spread.components(known, few[known], which)
            model = CLASSIFIERS[method]().fit(spread.X[known] @ W, few[known])
            right = accuracy(data.y, model.predict(spread.X @ W), few < 0)
            results.add(**key, published=value(data.name, method, count), ours=right)
