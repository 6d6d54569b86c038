"""Helpers of the adapters for classes, several labels a row, and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import RegressorTags, column_or_1d, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labelfold.base import measure_of
from labelfold.labels import Labels, read_labels
from labelfold.semi_supervised import TreeNodes

_KINDS = {"extra trees": "ExtraTrees", "random forest": "RandomForest"}


def read_any_labels(y: Any, n_rows: int, estimator: Any) -> Labels:
    """Return the labels that an adapter reads for its task."""
    numbers = estimator.task == "regression"
    tasks = ("regression",) if numbers else ("binary", "multiclass", "multilabel")
    name = type(estimator).__name__
    return read_labels(y, n_rows, unlabeled=estimator.unlabeled, allowed=tasks, estimator=name)


def coded(labels: Labels) -> np.ndarray:
    """Return y as class codes with -1 for unlabelled rows, or as 0/1 labels or numbers with NaN."""
    Y: np.ndarray
    if labels.task in ("multilabel", "regression"):
        Y = np.full((labels.n_rows, *labels.values.shape[1:]), np.nan)
    else:
        Y = np.full(labels.n_rows, -1)
    Y[labels.index] = labels.values
    return Y


def right(truth: np.ndarray, guess: np.ndarray) -> float:
    """Return the accuracy; for several labels a row micro-averaged F1; for numbers R².

    >>> right(np.array([0, 1, 1]), np.array([0, 1, 0])).__round__(2)
    0.67
    """
    numbers = truth.dtype.kind == "f" and truth.ndim == 1
    return float(measure_of("regression" if numbers else "classification")(truth, guess))


def tags_of_task(tags: Any, task: str) -> Any:
    """Return the tags of an adapter as those of a classifier or, for regression, of a regressor."""
    if task == "regression":
        tags.estimator_type, tags.classifier_tags, tags.regressor_tags = "regressor", None, RegressorTags()
    return tags


def for_task(model: Any, task: str) -> Any:
    """Set ``task`` of a model and of all its parts that have this parameter."""
    return model.set_params(**{p: task for p in model.get_params() if p.rpartition("__")[2] == "task"})


def inner_has(name: str) -> Any:
    """Return a check for `available_if`: whether the estimator inside, fitted or not, has a method."""
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), name))


class PerLabel(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier for several labels a row: one copy of a classifier for each label.

    Parameters
    ----------
    estimator : classifier
        A classifier of scikit-learn.

    Attributes
    ----------
    estimators_ : list of classifiers
        One classifier, or one for each label that is not constant.
    constants_ : ndarray of shape (c,)
        With several labels a row: 0 or 1 for constant labels, otherwise NaN.
    classes_ : ndarray of shape (c,)
        The classes, or the indices of the labels.

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> X = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    >>> PerLabel(LinearSVC(random_state=0)).fit(X, X > 0).predict(X).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> PerLabel:
        """Fit the classifier, or one for each column of y."""
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=True)
        check_classification_targets(y)
        self.several_ = y.ndim == 2 and y.shape[1] > 1
        if not self.several_:
            self.estimators_ = [clone(self.estimator).fit(X, column_or_1d(y, warn=True))]
            self.classes_ = self.estimators_[0].classes_
            return self
        Y = y.astype(int)
        self.classes_ = np.arange(Y.shape[1])
        self.constants_ = np.where(Y.min(axis=0) == Y.max(axis=0), Y[0], np.nan)
        self.estimators_ = [clone(self.estimator).fit(X, column) for column in Y.T[np.isnan(self.constants_)]]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return each row's class, or a column of 0 and 1 for each label."""
        said = self._each(X, lambda model, X: model.predict(X), self._constants())
        return said.astype(int) if self.several_ else said

    @inner_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return each row's class probabilities, or the probability of each label."""
        return self._each(X, self._shares, self._constants())

    @inner_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Return each row's scores; for several labels a row, one for each label."""
        return self._each(X, lambda model, X: model.decision_function(X), 2 * self._constants() - 1)

    def _constants(self) -> np.ndarray:
        check_is_fitted(self)
        return self.constants_ if self.several_ else np.empty(0)

    def _shares(self, model: Any, X: Any) -> np.ndarray:
        shares = model.predict_proba(X)
        return shares[:, 1] if self.several_ else shares

    def _each(self, X: Any, ask: Callable[[Any, Any], np.ndarray], constants: np.ndarray) -> np.ndarray:
        """Return the result of the classifier, or one column for each label, with constants for constant labels."""
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        if not self.several_:
            return ask(self.estimators_[0], X)
        said = np.tile(constants, (X.shape[0], 1))
        for j, model in zip(np.flatnonzero(np.isnan(constants)), self.estimators_, strict=True):
            said[:, j] = ask(model, X)
        return said

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inside = get_tags(self.estimator)
        tags.input_tags.sparse = inside.input_tags.sparse
        tags.input_tags.positive_only = inside.input_tags.positive_only
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.poor_score = inside.classifier_tags.poor_score
        return tags


class Trees(ClassifierMixin, BaseEstimator):
    """Extra trees or a random forest, fitted by scikit-learn and then stored as arrays of nodes.

    Parameters
    ----------
    kind : {"extra trees", "random forest"}, default="extra trees"
        The ensemble.
    n_estimators : int, optional
        Number of trees; by default 300, and 100 in regression, where every split considers all columns.
    random_state : int, optional
        Seed.
    task : {"classification", "regression"}, default="classification"
        Whether y holds classes or numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        The classes, or the indices of the labels for several labels a row; absent for numbers.
    nodes_ : TreeNodes
        Value of each leaf: the share of each class or label, or the mean number, among its training rows.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), ["low", "low", "high", "high"]
    >>> Trees(n_estimators=20, random_state=0).fit(X, y).predict([[0.5], [6.0]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        kind: str = "extra trees",
        *,
        n_estimators: int | None = None,
        random_state: int | None = None,
        task: str = "classification",
    ) -> None:
        self.kind = kind
        self.n_estimators = n_estimators
        self.random_state = random_state
        self.task = task

    def fit(self, X: Any, y: Any) -> Trees:
        """Fit the ensemble of scikit-learn, and store its nodes."""
        from sklearn import ensemble

        numbers = self.task == "regression"
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=not numbers, y_numeric=numbers)
        if not numbers:
            check_classification_targets(y)
        make = getattr(ensemble, f"{_KINDS[self.kind]}{'Regressor' if numbers else 'Classifier'}")
        trees = self.n_estimators or (100 if numbers else 300)
        forest = make(trees, random_state=self.random_state).fit(X, y)
        self.several_ = not numbers and isinstance(forest.classes_, list)
        if not numbers:
            self.classes_ = np.arange(len(forest.classes_)) if self.several_ else forest.classes_
        grown = [one.tree_ for one in forest.estimators_]
        self.nodes_ = TreeNodes(grown, self._shares(np.concatenate([tree.value for tree in grown]), forest))
        return self

    def _shares(self, value: np.ndarray, forest: Any) -> np.ndarray:
        """Return the value of each node: shares of classes, shares of rows with each label, or mean numbers."""
        if self.task == "regression":
            return value[:, 0]
        value = value / value.sum(axis=2, keepdims=True)  # (nodes, outputs, values of an output)
        if not self.several_:
            return value[:, 0]
        # a label that no row has, or every row, has one value
        labels = [value[:, j, : len(values)] @ values for j, values in enumerate(forest.classes_)]
        return np.column_stack(labels)

    @available_if(lambda self: self.task != "regression")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return each row's class probabilities, or the probability of each label."""
        return self._means(X)

    def _means(self, X: Any) -> np.ndarray:
        """Return the mean over the trees of the values of the leaves that rows reach."""
        check_is_fitted(self)
        return self.nodes_(validate_data(self, X, accept_sparse="csr", reset=False))

    def predict(self, X: Any) -> np.ndarray:
        """Return each row's class, a column of 0 and 1 for each label, or its number."""
        shares = self._means(X)
        if self.task == "regression":
            return shares[:, 0]
        return (shares > 0.5).astype(int) if self.several_ else self.classes_[shares.argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags_of_task(tags, self.task)
