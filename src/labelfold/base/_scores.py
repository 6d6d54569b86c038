"""From scores to classes, labels and numbers, and the measure of predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.metrics import f1_score, r2_score

from labelfold.rows import Centered, Rows


def decide(F: np.ndarray, task: str, flat: bool = True, classes: np.ndarray | None = None) -> np.ndarray:
    """Return classes, 0/1 labels or numbers from scores (n, q). With ``flat`` the numbers are one column.

    >>> decide(np.array([[0.3], [-2.0]]), "binary", classes=np.array(["no", "yes"])).tolist()
    ['yes', 'no']
    """
    if task == "regression":
        return F[:, 0] if flat else F
    if task == "multilabel":
        return (F > 0).astype(np.intp)
    assert classes is not None
    return classes[(F[:, 0] > 0).astype(np.intp) if task == "binary" else F.argmax(axis=1)]


def indicator_scores(Y: np.ndarray, task: str) -> np.ndarray:
    """Return scores from predictions of label columns of 0 and 1; their sign, or the largest, decides.

    >>> indicator_scores(np.array([[0.2, 0.8]]), "binary").round(6).tolist()
    [[0.6]]
    """
    if task == "binary":
        return Y[:, 1:] - Y[:, :1]
    return Y - 0.5 if task == "multilabel" else Y


def probabilities(log_odds: np.ndarray, task: str) -> np.ndarray:
    """Return probabilities from the log odds of the second class or of each label, or from logits of classes.

    >>> probabilities(np.array([[0.0]]), "binary").tolist()
    [[0.5, 0.5]]
    """
    if task == "multiclass":
        return softmax(log_odds, axis=1)
    p = expit(log_odds)
    return p if task == "multilabel" else np.hstack([1 - p, p])


def log_probabilities(log_odds: np.ndarray, task: str) -> np.ndarray:
    """Return the logarithms of `probabilities`, without underflow.

    >>> log_probabilities(np.array([[-1000.0]]), "binary").round(9).tolist()
    [[-0.0, -1000.0]]
    """
    if task == "multiclass":
        return log_softmax(log_odds, axis=1)
    if task == "binary":
        log_odds = np.hstack([-log_odds, log_odds])
    return log_expit(log_odds)


def linear_values(rows: Rows, W: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return XW, (n, q), in double precision, computed relative to a mean, so that rows far from 0 keep digits.

    >>> from labelfold.rows import as_rows
    >>> X = np.array([[1e6, 1e6 + 1]], dtype=np.float32)
    >>> linear_values(as_rows(X), np.array([[-0.1], [0.1]]), np.full(2, 1e6)).round(6)
    array([[0.1]])
    """
    return np.asarray(rows.get(Centered(rows, mean) @ W), dtype=np.float64) + mean @ W


def measure_of(task: str) -> Callable[..., float]:
    """Return the score function of a task: R^2 for numbers, accuracy for classes, micro-averaged F1 for labels."""
    return r2_score if task == "regression" else _agreement


def _agreement(truth: np.ndarray, found: np.ndarray, sample_weight: Any = None) -> float:
    """Return the accuracy of classes, or micro-averaged F1 of label columns (1 if there is no label at all).

    scikit-learn's accuracy takes only classes that are numbers or text.

    >>> float(_agreement(np.array([10**30, 2], dtype=object), np.array([10**30, 3], dtype=object)))
    0.5
    >>> round(_agreement(np.array([[1, 0], [1, 1]]), np.array([[1, 1], [1, 0]])), 2)
    0.67
    """
    if truth.ndim == 1:
        return np.average(np.asarray(truth == found), weights=sample_weight)
    truth, found = truth.astype(np.intp), found.astype(np.intp)
    return f1_score(truth, found, average="micro", zero_division=1.0, sample_weight=sample_weight)
