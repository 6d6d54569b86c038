"""From scores to classes, labels, numbers and probabilities, and the score of predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.metrics import f1_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.validation import check_is_fitted

from labelfold.base._estimator import finite
from labelfold.labels import Labels, score_targets
from labelfold.rows import Centered, Rows
from labelfold.utils import available_if

# Log odds of a label, or of a class against all others, if the score equals its target.
_LOG_ODDS = 2.0


def classifies(estimator: Any) -> bool:
    """Check for `available_if`: whether the estimator predicts classes or labels."""
    if getattr(estimator, "task_", None) == "regression":
        raise AttributeError(
            "scores and probabilities are for classes and labels, and this model predicts numbers"
        )
    return True


class TaskScore:
    """A mixin with ``score`` for the predictions of the task ``task_``: classes, labels or numbers."""

    task_: str

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, micro-averaged F1 (several labels a row) or R^2, on the labelled rows.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, c)
            Targets of the rows; unlabelled rows are left out.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
        """
        found = self.predict(X)  # type: ignore[attr-defined]
        task = "regression" if self.task_ == "regression" else "classification"
        known, truth = score_targets(
            y,
            len(found),
            unlabeled=self.unlabeled,  # type: ignore[attr-defined]
            task=task,
            classes=getattr(self, "classes_", None),
        )
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(measure_of(task)(truth, found[known], sample_weight=weight))


class Decisions(TaskScore):
    """A mixin that predicts from scores: by their sign, by the largest of them, or the scores themselves.

    A subclass defines ``_score_rows(rows)``: (n, 1) for two classes, (n, c) for several classes or labels, (n, t) for
    numbers. Its ``fit`` calls `_keep_task`.
    """

    _allowed: ClassVar[tuple[str, ...]]
    classes_: np.ndarray
    _flat: bool = True  # whether numbers were given as one column

    # Difference between the targets of a label, for several classes or labels: 2 for -1 and +1, 1 for 0 and 1.
    _target_gap: ClassVar[float] = 2.0
    # Whether a score of minus infinity can exclude a class.
    _rules_out: ClassVar[bool] = False

    def _score_rows(self, rows: Rows) -> np.ndarray:
        """Return the scores of rows, by default from their embedding."""
        return self._scores_of(rows.get(self._embed(rows)))  # type: ignore[attr-defined]

    @available_if(classifies)
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of rows: of the second class against the first, or of each class or label.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
        """
        F = self._scores_of_new(X)
        if not self._rules_out:
            F = finite(self, F)
        return F[:, 0] if self.task_ == "binary" else F

    def predict(self, X: Any) -> np.ndarray:
        """Return the class, the labels or the numbers of each row.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
            Classes, 0/1 for multi-label, numbers for regression.
        """
        return self._decide(self._scores_of_new(X))

    @available_if(classifies)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, or of each label, computed from the scores.

        Unless the method documents otherwise, they are not calibrated on held-out rows and only rank rows. A row
        whose score equals the target of its label has this label with odds of e^2 to 1.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        p : ndarray of shape (n, c)
            Columns in the order of ``classes_``.
        """
        return self._shares(self._scores_of_new(X))

    def _scores_of_new(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._score_rows(self._rows(X, reset=False))  # type: ignore[attr-defined]

    def _transduce(self, rows: Rows, H: Any, labels: Labels) -> Any:
        """Return a label for every training row: the given one, or the one predicted from its row of H."""
        of_rows = ("embedding_", "row_offsets_", "transduction_")
        own = object.__new__(type(self))
        vars(own).update({name: value for name, value in vars(self).items() if name not in of_rows})
        return rows.result(H, partial(_decided, own), at=(labels.index, labels.decode(labels.values)))

    def _scores_of(self, H: np.ndarray) -> np.ndarray:
        """Return the scores of rows from their embedding."""
        raise NotImplementedError

    def _decide(self, F: np.ndarray) -> np.ndarray:
        """Return predictions from scores."""
        return decide(F, self.task_, self._flat, getattr(self, "classes_", None))

    def _shares(self, F: np.ndarray) -> np.ndarray:
        """Return the probability of each class, or of each label, from scores."""
        if self.task_ == "multiclass":
            return softmax((_LOG_ODDS + np.log(F.shape[1] - 1)) / self._target_gap * F, axis=1)
        gap = self._target_gap if self.task_ == "multilabel" else 2.0
        p = expit(2 * _LOG_ODDS / gap * F)
        return p if self.task_ == "multilabel" else np.hstack([1 - p, p])

    def __sklearn_tags__(self) -> Any:
        """Declare the kind of predictions: classes, one or several a row, unless the task is regression."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.multi_output = "regression" in self._allowed
        if getattr(self, "task", "auto") == "regression":
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            several = "multilabel" in self._allowed
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=several)
        return tags


def _decided(estimator: Decisions, H: np.ndarray) -> np.ndarray:
    return estimator._decide(estimator._scores_of(H))


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
