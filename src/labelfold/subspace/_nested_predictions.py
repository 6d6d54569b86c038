"""What is read off nested directions, all or the first few: places, classes, labels and numbers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfold._decisions import TaskScore, classifies, tags_by_task
from labelfold._linear_reducer import LinearReducer
from labelfold._sklearn import available_if
from labelfold.labels import Labels


# The keyword is scikit-learn's, which has no types.
class NestedPredictions(TaskScore, LinearReducer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Directions of which the first p are a model by themselves.

    `LinearReducer.transform` puts its output into the container that was asked for, with as many names as it has
    columns: that of the first p is called, and here nothing is left to wrap.
    """

    def transform(self, X: Any, n_components: int | None = None) -> Any:
        """Project rows, each by itself, onto the directions.

        Parameters
        ----------
        X : container of shape (n, d)
            Any rows the library reads.
        n_components : int, optional
            Only the first so many directions; all when None.

        Returns
        -------
        Z : array of shape (n, n_components)
            On the host for arrays and files; otherwise where X is.
        """
        return super(NestedPredictions, self._first(self._checked(n_components))).transform(X)

    @available_if(classifies)
    def decision_function(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return how far rows lie on the side of the second class (two classes), or of each class or label.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            With the first so many directions; all when None.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
        """
        F = self._function(X, n_components)
        return F[:, 0] if self.task_ == "binary" else F

    def predict(self, X: Any, n_components: int | None = None) -> np.ndarray:
        """Return the class, the labels or the numbers of each row.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        n_components : int, optional
            With the first so many directions; all when None.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
            Classes, 0/1 for multi-label, numbers for regression.
        """
        return self._decide(self._function(X, n_components))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield what `predict` gives with the first direction, the first two, and so on; X is read once.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Yields
        ------
        y : ndarray of shape (n,) or (n, c)
        """
        Z = self._host_scores(X, self._checked(None))
        for p in range(1, Z.shape[1] + 1):
            yield self._decide(self._columns(Z[:, :p], p))

    def _checked(self, n_components: int | None) -> int:
        check_is_fitted(self)
        if n_components is None:
            return self.n_components_
        if not isinstance(n_components, Integral) or not 1 <= n_components <= self.n_components_:
            raise ValueError(
                f"n_components={n_components!r} was given, where 1 to {self.n_components_} is expected, the number "
                "of directions that were fitted"
            )
        return int(n_components)

    def _first(self, p: int) -> Self:
        """Return what places rows along the first p directions."""
        if p == self.n_components_:
            return self
        first = copy.copy(self)
        first.components_ = self.components_[:p]
        return first

    def _host_scores(self, X: Any, p: int) -> np.ndarray:
        return self._first(p)._embedded(X)

    def _function(self, X: Any, n_components: int | None) -> np.ndarray:
        """Return the function itself, (n, q): one column a response."""
        p = self._checked(n_components)
        return self._columns(self._host_scores(X, p), p)

    def _columns(self, Z: np.ndarray, p: int) -> np.ndarray:
        return Z @ self.coef_path_[p - 1, :, :p].T + self.intercept_path_[p - 1]

    def _decide(self, F: np.ndarray) -> np.ndarray:
        return decide(F, self.task_, self._flat, getattr(self, "classes_", None))

    def __sklearn_tags__(self) -> Any:
        """Declare what is predicted: classes unless numbers were asked for."""
        return tags_by_task(super().__sklearn_tags__(), self.task)


def responses(labels: Labels) -> np.ndarray:
    """Return what the labelled rows are asked to give, (l, q): signs of classes or labels, or the numbers."""
    if labels.task == "regression":
        return labels.values.reshape(labels.n_labelled, -1)
    return labels.signs().reshape(labels.n_labelled, -1)


def decide(F: np.ndarray, task: str, flat: bool, classes: np.ndarray | None) -> np.ndarray:
    """Return predictions from the columns of a function."""
    if task == "regression":
        return F[:, 0] if flat else F
    if task == "multilabel":
        return (F > 0).astype(np.intp)
    assert classes is not None
    return classes[(F[:, 0] > 0).astype(np.intp) if task == "binary" else F.argmax(axis=1)]
