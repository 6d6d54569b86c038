"""scikit-learn's tree ensembles, stored as plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labelfold.app.registry._multilabel import tags_of_task
from labelfold.semi_supervised import TreeNodes

_KINDS = {"extra trees": "ExtraTrees", "random forest": "RandomForest"}


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
