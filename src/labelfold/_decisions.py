"""From scores to classes, and the score of what is predicted: what methods that predict share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.validation import check_is_fitted

from labelfold._base import finite
from labelfold.labels import score_targets
from labelfold.rows import Rows


class Decisions(ClassifierMixin):
    """A classifier by its scores: their sign, or the largest of them.

    It has ``classes_``, ``_task`` and ``_scores(rows)``, which is (n,) for two classes and (n, c) otherwise.
    """

    def decision_function(self, X: Any) -> np.ndarray:
        """Return how far rows lie on the side of the second class (two classes), or of each class or label.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
        """
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(self, self._scores(self._rows(X, reset=False)))

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row, or its 0/1 labels.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
        """
        check_is_fitted(self)
        return self._decide(self._scores(self._rows(X, reset=False)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the rows that have a label (for multi-label: of whole rows).

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, c)
            Their labels; rows marked unlabelled are left out.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        accuracy : float
        """
        return labelled_score(self, X, y, sample_weight)

    def _scores(self, rows: Rows) -> np.ndarray:
        raise NotImplementedError

    def _decide(self, scores: np.ndarray) -> np.ndarray:
        """Return classes, or 0/1 labels, from scores."""
        if self._task == "multilabel":
            return (scores > 0).astype(np.intp)
        return self.classes_[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        """Declare multi-label targets."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class TaskScore:
    """What `predict` gives, scored as ``task_`` says: classes, labels or numbers."""

    task_: str

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
        task = "regression" if self.task_ == "regression" else "classification"
        return labelled_score(self, X, y, sample_weight, task)


def labelled_score(model: Any, X: Any, y: Any, sample_weight: Any, task: str = "classification") -> float:
    """Return the measure of what a model predicts, on the rows that have a label; see `score_targets`."""
    found = model.predict(X)
    known, truth = score_targets(
        y, len(found), unlabeled=model.unlabeled, task=task, classes=getattr(model, "classes_", None)
    )
    weight = None if sample_weight is None else np.asarray(sample_weight)[known]
    return float(measure_of(task)(truth, found[known], sample_weight=weight))


def measure_of(task: str) -> Callable[..., float]:
    """Return how predictions are scored: numbers by R^2, classes and labels by the share of rows all right."""
    return r2_score if task == "regression" else _share_right


def _share_right(truth: np.ndarray, found: np.ndarray, sample_weight: Any = None) -> float:
    """Return the share of rows all right; scikit-learn's accuracy takes no classes of other types than text.

    >>> float(_share_right(np.array([10**30, 2], dtype=object), np.array([10**30, 3], dtype=object)))
    0.5
    """
    right = np.asarray(truth == found)
    return np.average(right if right.ndim == 1 else right.all(axis=1), weights=sample_weight)


def classifies(estimator: Any) -> bool:
    """Tell `available_if` whether there are classes or labels to decide between."""
    if getattr(estimator, "task_", None) == "regression":
        raise AttributeError("decision_function is for classes and labels, and this model predicts numbers")
    return True


def tags_by_task(tags: Any, task: str) -> Any:
    """Return tags that declare what is predicted: classes, one or several a row, unless numbers were asked for."""
    tags.target_tags.multi_output = True
    if task == "regression":
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
    else:
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=True)
    return tags
