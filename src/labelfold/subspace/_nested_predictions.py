"""Embedding and predictions by all nested directions, or by the first few of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfold.base import Decisions, LinearReducer, classifies
from labelfold.labels import Labels
from labelfold.rows import Rows
from labelfold.utils import available_if


# The keyword comes from scikit-learn, which has no types.
class NestedPredictions(Decisions, LinearReducer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Directions of which the first p are themselves a model.

    `LinearReducer.transform` of the model of the first p directions already wraps its output in the requested
    container, with p column names, so nothing is wrapped here.
    """

    _allowed = ("binary", "multiclass", "multilabel", "regression")

    def transform(self, X: Any, n_components: int | None = None) -> Any:
        """Project rows onto the directions.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        Z : array of shape (n, n_components)
            In host memory for arrays and files; otherwise on the device or cluster of X.
        """
        return super(NestedPredictions, self._first(n_components)).transform(X)

    @available_if(classifies)
    def decision_function(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the scores of rows: of the second class against the first, or of each class or label.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
        """
        return super(NestedPredictions, self._first(n_components)).decision_function(X)

    def predict(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the class, the labels or the numbers of each row.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
            Classes, 0/1 for multi-label, numbers for regression.
        """
        return super(NestedPredictions, self._first(n_components)).predict(X)

    @available_if(classifies)
    def predict_proba(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the probability of each class, or of each label, computed from the scores (not calibrated).

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            Number of leading directions to use; all when None.

        Returns
        -------
        p : ndarray of shape (n, c)
            Columns in the order of ``classes_``.
        """
        return super(NestedPredictions, self._first(n_components)).predict_proba(X)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predictions with the first direction, the first two, and so on; X is read once.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Yields
        ------
        y : ndarray of shape (n,) or (n, c)
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        Z = self._embedded(rows)
        for p in range(1, Z.shape[1] + 1):
            yield self._decide(self._function(Z[:, :p]))

    def _first(self, n_components: int | None) -> Self:
        """Return the model of the first directions only."""
        check_is_fitted(self)
        if n_components is None or n_components == self.n_components_:
            return self
        if not isinstance(n_components, Integral) or not 1 <= n_components <= self.n_components_:
            raise ValueError(
                f"n_components={n_components!r} was given, where 1 to {self.n_components_} is expected, the number "
                "of directions that were fitted"
            )
        first = copy.copy(self)
        first.components_ = self.components_[: int(n_components)]
        return first

    def _score_rows(self, rows: Rows) -> np.ndarray:
        return self._function(self._embedded(rows))

    def _function(self, Z: np.ndarray) -> np.ndarray:
        """Return the values of the function, (n, q), from coordinates along the first directions."""
        p = Z.shape[1]
        return Z @ self.coef_path_[p - 1, :, :p].T + self.intercept_path_[p - 1]


def responses(labels: Labels) -> np.ndarray:
    """Return the responses of the labelled rows, (l, q): signs of classes or labels, or the numbers."""
    return labels.columns() if labels.task == "regression" else labels.signs()
