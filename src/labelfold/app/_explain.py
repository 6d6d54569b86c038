"""What a fitted model says of rows: a prediction, how sure of it, and what its components go along with."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

_SLAB = 16384  # rows


def predict_with_confidence(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's prediction and a number from 0 to 1 that says how sure the model is of it.

    The probability of the class, where the model has probabilities; with several labels a row, that of the least sure
    label. Otherwise 1 / (1 + exp(-m)) with m the gap
    between the two best scores (twice the score's size for two classes; with several labels a row, for the least
    sure one): a number to sort rows by, each row by itself, but no probability. NaN where the model has neither.

    Parameters
    ----------
    model : classifier
        Fitted.
    X : array or sparse matrix of shape (n, d)
        The rows.

    Returns
    -------
    predicted : ndarray of shape (n,) or (n, c)
    confidence : ndarray of shape (n,)
    """
    predicted = np.asarray(model.predict(X))
    if hasattr(model, "predict_proba"):
        shares = np.asarray(model.predict_proba(X))
        if predicted.ndim == 2 and shares.shape == predicted.shape:
            return predicted, np.maximum(shares, 1 - shares).min(axis=1)
        if predicted.ndim == 1 and shares.ndim == 2:
            # a row that label spreading never reached has a share of nothing
            return predicted, np.nan_to_num(shares.max(axis=1))
    if not hasattr(model, "decision_function"):
        return predicted, np.full(len(predicted), np.nan)
    scores = np.asarray(model.decision_function(X), dtype=float)
    if predicted.ndim == 2:
        gap = 2 * np.abs(scores).min(axis=1)
    elif scores.ndim == 1:
        gap = 2 * np.abs(scores)
    else:
        best = np.partition(scores, -2, axis=1)
        gap = best[:, -1] - best[:, -2]
    return predicted, 1 / (1 + np.exp(-gap))


def correlations(X: Any, Z: np.ndarray) -> np.ndarray:
    """Return the correlation of every component with every column over the rows, (k, d); 0 where one is constant.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The rows.
    Z : ndarray of shape (n, k)
        Their embedding, by any method.

    Examples
    --------
    >>> X = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    >>> correlations(X, np.array([[3.0], [2.0], [1.0]])).round(6).tolist()
    [[-1.0, 0.0]]
    """
    Z = np.asarray(Z, dtype=np.float64)
    Z = Z - Z.mean(axis=0)
    n = X.shape[0]
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    squares, shared = np.zeros(X.shape[1]), np.zeros((X.shape[1], Z.shape[1]))
    for i in range(0, n, _SLAB):  # so that no second X is made
        rows, placed = X[i : i + _SLAB], Z[i : i + _SLAB]
        if sp.issparse(X):
            squares += np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, X.shape[1])
        else:
            rows = rows - mean
            squares += np.einsum("ij,ij->j", rows, rows)
        shared += rows.T @ placed  # Z is centred, so a sparse X need not be
    if sp.issparse(X):
        squares -= n * mean**2
    scale = np.sqrt(np.maximum(squares, 0))[:, None] * np.linalg.norm(Z, axis=0)
    # below this a column, or a component, is constant but for round-off
    tiny = 1e-7 * np.sqrt(n) * np.maximum(np.abs(mean), 1e-300)[:, None] * np.linalg.norm(Z, axis=0)
    return np.divide(shared, scale, out=np.zeros_like(shared), where=scale > tiny).T


def top_features(strengths: np.ndarray, names: list[str], most: int = 8) -> list[list[tuple[str, float]]]:
    """Return for each component its strongest columns, by size, with their sign.

    >>> top_features(np.array([[0.1, -0.9, 0.0, 0.5]]), ["a", "b", "c", "d"], most=2)
    [[('b', -0.9), ('d', 0.5)]]
    """
    found = []
    for row in strengths:
        order = np.argsort(-np.abs(row), kind="stable")[:most]
        found.append([(names[j], float(row[j])) for j in order if row[j] != 0])
    return found
