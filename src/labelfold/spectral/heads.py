"""What CCA, OPLS and HSL predict: the label columns, regressed on the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from labelfold.labels import score_targets
from labelfold.rows import Block
from labelfold.spectral.two_stage import Directions, Seen


def _classifies(estimator: Any) -> bool:
    if getattr(estimator, "task_", None) == "regression":
        raise AttributeError("decision_function is for classes and labels, and this model predicts numbers")
    return True


class RegressionHead:
    """Least squares of the label columns on the embedding: ``Y ~ Z coef_.T + intercept_``."""

    def _fit_head(self, found: Directions, seen: Seen) -> None:
        ((ZtZ, ZtY),) = seen.regression(found)
        self.coef_ = np.linalg.lstsq(ZtZ, ZtY, rcond=None)[0].T
        self.intercept_ = seen.y_mean
        self.task_ = seen.task
        self._flat = seen.flat
        if seen.task != "regression":
            self.classes_ = seen.classes
        elif hasattr(self, "classes_"):
            del self.classes_

    def predict(self, X: Any) -> np.ndarray:
        """Return the class, the labels or the targets of each row.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
            Classes for class targets, 0/1 for label columns, numbers for regression targets.
        """
        return self._decide(self._label_columns(X))

    def _decide(self, Y: np.ndarray) -> np.ndarray:
        """Return what label columns say."""
        if self.task_ == "regression":
            return Y[:, 0] if self._flat else Y
        if self.task_ == "multilabel":
            return (Y >= 0.5).astype(np.intp)
        return self.classes_[Y.argmax(axis=1)]

    @available_if(_classifies)
    def decision_function(self, X: Any) -> np.ndarray:
        """Return how far each row is on a class's or label's side; the prediction is its largest, or its sign.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
            One column for two classes.
        """
        Y = self._label_columns(X)
        if self.task_ == "binary":
            return Y[:, 1] - Y[:, 0]
        return Y - 0.5 if self.task_ == "multilabel" else Y

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy (all labels of a row right, for label columns) or R^2, on the labelled rows.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, c)
            Their targets; unlabelled rows are left out.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
        """
        found = self.predict(X)
        regression = self.task_ == "regression"
        known, truth = score_targets(
            y,
            len(found),
            unlabeled=self.unlabeled,
            task="regression" if regression else "classification",
            classes=getattr(self, "classes_", None),
        )
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        measure = r2_score if regression else accuracy_score
        return float(measure(truth, found[known], sample_weight=weight))

    def _label_columns(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        rows = self._seen(self._rows(X, reset=False))
        shared = (self.components_.T, self.mean_, self.coef_.T, self.intercept_)
        return np.asarray(rows.get(rows.map(affine, shared=shared)), dtype=np.float64)


def affine(X: Block, W: Any, mean: Any, A: Any, b: Any) -> Any:
    """Return an affine function of the embedding."""
    return (X.shift(mean) @ W) @ A + b
