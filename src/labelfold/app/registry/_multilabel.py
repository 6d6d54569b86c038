"""One class a row or several labels: what lets the adapters take both."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import f1_score
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted, validate_data

from labelfold.labels import Labels, read_labels


def read_any_labels(y: Any, n_rows: int, estimator: Any) -> Labels:
    """Read classes, or several labels a row, for one of the adapters."""
    tasks = ("binary", "multiclass", "multilabel")
    name = type(estimator).__name__
    return read_labels(y, n_rows, unlabeled=estimator.unlabeled, allowed=tasks, estimator=name)


def coded(labels: Labels) -> np.ndarray:
    """Return y as class codes, -1 where unlabelled; where rows have several, as 0 and 1 with rows of NaN."""
    Y: np.ndarray
    if labels.task == "multilabel":
        Y = np.full((labels.n_rows, labels.n_classes), np.nan)
    else:
        Y = np.full(labels.n_rows, -1)
    Y[labels.index] = labels.values
    return Y


def right(truth: np.ndarray, guess: np.ndarray) -> float:
    """Return the share of rows that are right, or, with several labels a row, F1 over all of them together.

    >>> right(np.array([0, 1, 1]), np.array([0, 1, 0])).__round__(2)
    0.67
    """
    if truth.ndim == 1:
        return float(np.mean(truth == guess))
    return float(f1_score(truth, guess, average="micro", zero_division=1.0))


class MultilabelLinearSVC(LinearSVC):
    """scikit-learn's LinearSVC, for several labels a row too: one machine for each label.

    Examples
    --------
    >>> X = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    >>> MultilabelLinearSVC(random_state=0).fit(X, X > 0).predict(X).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultilabelLinearSVC:
        """Fit one machine, one for each class against the rest, or one for each column of y."""
        Y = np.asarray(y)
        self.several_ = Y.ndim == 2 and Y.shape[1] > 1
        if not self.several_:
            return super().fit(X, y, sample_weight)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        machines = [self._machine(X, column, sample_weight) for column in Y.T]
        self.classes_ = np.arange(len(machines))
        self.coef_ = np.vstack([coef for coef, _ in machines])
        self.intercept_ = np.array([intercept for _, intercept in machines])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return each row's class, or a column of 0 and 1 for each label."""
        check_is_fitted(self)
        return (self.decision_function(X) > 0).astype(int) if self.several_ else super().predict(X)

    def _machine(self, X: Any, column: np.ndarray, sample_weight: Any) -> tuple[np.ndarray, float]:
        if column.min() == column.max():  # a label that no row, or every row, has
            return np.zeros(X.shape[1]), 1.0 if column[0] else -1.0
        one = LinearSVC(**self.get_params()).fit(X, column, sample_weight)
        return one.coef_[0], float(one.intercept_[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
