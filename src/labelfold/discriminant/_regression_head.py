"""What CCA, OPLS and HSL predict: the label columns, regressed on the embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labelfold._base import RowsEstimator
from labelfold._decisions import TaskScore, classifies, tags_by_task
from labelfold._sklearn import available_if
from labelfold.discriminant._second_stage import Directions, Seen


class RegressionHead(TaskScore, RowsEstimator):
    """Least squares of the label columns on the embedding: ``Y ~ Z coef_.T + intercept_``."""

    _embedded: Callable[[Any], np.ndarray]  # of `LinearReducer`

    def _fit_head(self, found: Directions, seen: Seen) -> None:
        ((ZtZ, ZtY),) = seen.regression(found)
        if not np.isfinite(ZtZ).all():  # LAPACK would write to the terminal
            raise OverflowError("products of embedded rows overflow")
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

    @available_if(classifies)
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

    def _label_columns(self, X: Any) -> np.ndarray:
        return self._embedded(X) @ self.coef_.T + self.intercept_

    def __sklearn_tags__(self) -> Any:
        """Declare what is predicted: classes unless numbers were asked for."""
        return tags_by_task(super().__sklearn_tags__(), getattr(self, "task", "auto"))
