"""Adapters that let scikit-learn's estimators take unlabelled rows, several labels a row, and numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC
from sklearn.utils import RegressorTags, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labelfold.app.registry._class_weights import for_codes, of_label, without_absent
from labelfold.base import TaskScore, measure_of
from labelfold.labels import Labels, marks_known, read_labels
from labelfold.model_selection import Groups, SemiSupervisedKFold, left_out_guesses, read_groups
from labelfold.rows import short_indices
from labelfold.utils import available_if


class Shape(NamedTuple):
    """The properties of X that decide how an estimator is made."""

    n_rows: int
    n_columns: int
    sparse: bool

    @classmethod
    def of(cls, X: Any) -> Shape:
        """Return the shape of an array or a sparse matrix."""
        n, d = X.shape
        return cls(n, d, sp.issparse(X))

    @property
    def max_rank(self) -> int:
        """The largest number of independent components."""
        return min(self.n_rows, self.n_columns)


def inner_has(name: str) -> Any:
    """Return a check for `available_if`: whether the estimator inside, fitted or not, has a method."""
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), name))


class OnLabelledRows(TaskScore, ClassifierMixin, BaseEstimator):
    """Fit a classifier, or a regressor, on the labelled rows only.

    Parameters
    ----------
    classifier : classifier or regressor, optional
        Fitted on the labelled rows; a linear SVM by default.
    task : {"classification", "regression"}, default="classification"
        Whether y holds classes or numbers.
    unlabeled : number or str, default=-1
        The value of y that marks an unlabelled row; missing values always do, and for numbers only they do.

    Attributes
    ----------
    classifier_ : classifier or regressor
        Fitted on class codes, or on standardised numbers, since the tolerance of an SVM depends on their unit.
    classes_ : ndarray of shape (c,)
        The classes; absent for numbers.
    center_, spread_ : float
        The mean and the standard deviation of the numbers; 0 and 1 for classes.
    task_ : {"binary", "multiclass", "multilabel", "regression"}

    Examples
    --------
    >>> model = OnLabelledRows().fit([[0.0], [1.0], [3.0], [4.0]], ["low", "low", None, "high"])
    >>> model.predict([[0.5], [5.0]]).tolist()
    ['low', 'high']
    """

    def __init__(self, classifier: Any = None, *, task: str = "classification", unlabeled: Any = -1) -> None:
        self.classifier = classifier
        self.task = task
        self.unlabeled = unlabeled

    def fit(self, X: Any, y: Any, groups: Any = None) -> OnLabelledRows:
        """Fit on the labelled rows of X; parts that choose by folds hold out the rows of a group together."""
        X = short_indices(validate_data(self, X, accept_sparse="csr"))
        labels = read_any_labels(y, X.shape[0], self)
        self.task_, values = labels.task, labels.values
        self.center_, self.spread_ = 0.0, 1.0
        if self.task_ == "regression":
            self.center_, self.spread_ = float(values.mean()), float(values.std()) or 1.0
            values = (values - self.center_) / self.spread_
        else:
            self.classes_ = labels.classes
        known = None if groups is None else read_groups(groups, X.shape[0]).take(labels.index)
        self._fit_reducer(X, labels, values, known)
        classifier = for_codes(clone(self._classifier()), labels)
        self.classifier_ = fit_grouped(classifier, self._reduced(X[labels.index]), values, known)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return each row's class or number."""
        X = self._checked(X)
        said = self.classifier_.predict(self._reduced(X))
        if self.task_ == "regression":
            return self.center_ + self.spread_ * said
        return said if said.ndim == 2 else self.classes_[said]

    @available_if(lambda self: self.classifier is None or hasattr(self.classifier, "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the classifier's scores."""
        X = self._checked(X)
        return self.classifier_.decision_function(self._reduced(X))

    @available_if(lambda self: hasattr(self.classifier, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the classifier's probabilities: of each class, or, with several labels a row, of each label."""
        X = self._checked(X)
        return self.classifier_.predict_proba(self._reduced(X))

    def _classifier(self) -> Any:
        return PerLabel(LinearSVC()) if self.classifier is None else self.classifier

    def _fit_reducer(self, X: Any, labels: Labels, values: np.ndarray, groups: Groups | None) -> None:
        """Do nothing: there is no reducer."""

    def _reduced(self, X: Any) -> Any:
        return X

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return short_indices(validate_data(self, X, accept_sparse="csr", reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = tags_of_task(super().__sklearn_tags__(), self.task)
        tags.input_tags.sparse = True
        return tags


class ReduceThenClassify(TransformerMixin, OnLabelledRows):
    """Fit a reducer on all rows, then a classifier or regressor on the labelled rows.

    Parameters
    ----------
    reducer : transformer, optional
        Fitted on all rows and labels; PCA by default.
    classifier : classifier or regressor, optional
        Fitted on the labelled rows; a linear SVM by default.
    sizes : sequence of int, optional
        Candidates for the number of components, the default first. The one with the best out-of-fold score of the
        classifier is chosen. The reducer is fitted once with all labels, not in each fold.
    nested : bool, default=False
        Whether the first components do not depend on their number, as for PCA. Only the largest size is fitted then.
    task : {"classification", "regression"}, default="classification"
        Whether y holds classes or numbers.
    unlabeled : number or str, default=-1
        The value of y that marks an unlabelled row; missing values always do, and for numbers only they do.

    Attributes
    ----------
    reducer_, classifier_ : estimators
        The fitted reducer and classifier.
    classes_ : ndarray of shape (c,)
        The classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1
    >>> model = ReduceThenClassify(PCA(n_components=2)).fit(X, y)
    >>> model.transform(X).shape, model.predict(X).shape
    ((150, 2), (150,))
    """

    def __init__(
        self,
        reducer: Any = None,
        classifier: Any = None,
        *,
        sizes: Sequence[int] | None = None,
        nested: bool = False,
        task: str = "classification",
        unlabeled: Any = -1,
    ) -> None:
        super().__init__(classifier, task=task, unlabeled=unlabeled)
        self.reducer = reducer
        self.sizes = sizes
        self.nested = nested

    def transform(self, X: Any) -> np.ndarray:
        """Return the reduced rows."""
        X = self._checked(X)
        return self._reduced(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the reducer's components."""
        check_is_fitted(self)
        return self.reducer_.get_feature_names_out()

    def _fit_reducer(self, X: Any, labels: Labels, values: np.ndarray, groups: Groups | None) -> None:
        y = full_y(labels)
        if self.sizes is None:
            self.reducer_ = self._sized(None, labels).fit(X, y)
            return
        sizes = list(self.sizes)
        if not left_out_splits(values, 5, 0, groups)[0]:
            sizes = [size_without_folds(labels, sizes)]
        largest = max(sizes)
        # PCA + SVM of 50,000 x 784 takes 2.7 times as long without ``nested`` (benchmarks/second_ways.py)
        fitted = {size: self._sized(size, labels).fit(X, y) for size in ([largest] if self.nested else sizes)}
        scores = []
        for size in sizes if len(sizes) > 1 else ():
            Z = fitted[largest if self.nested else size].transform(X[labels.index])[:, :size]
            scores.append(left_out_score(for_codes(clone(self._classifier()), labels), Z, values, groups))
        best = sizes[int(np.argmax(scores))] if scores else sizes[0]
        self.reducer_ = fitted[best] if best in fitted else self._sized(best, labels).fit(X, y)

    def _sized(self, size: int | None, labels: Labels) -> Any:
        """Return the reducer for class codes, not fitted, with ``size`` components, or as given."""
        reducer = PCA() if self.reducer is None else for_codes(clone(self.reducer), labels)
        if size is not None:
            last = reducer[-1] if isinstance(reducer, Pipeline) else reducer
            last.set_params(n_components=size)
        return reducer

    def _reduced(self, X: Any) -> Any:
        return self.reducer_.transform(X)


class OnClassCodes(TaskScore, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Fit a semi-supervised classifier of scikit-learn on class codes, with -1 for unlabelled rows.

    Parameters
    ----------
    estimator : classifier
        `LabelSpreading` or `LabelPropagation`. Of a graph of neighbours these are fewer if there are fewer rows.
    unlabeled : number or str, default=-1
        The value of y that marks an unlabelled row; missing values always do.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on class codes.
    classes_ : ndarray of shape (c,)
        The classes.
    transduction_ : ndarray of shape (n,)
        The class of every training row.

    Examples
    --------
    >>> from sklearn.semi_supervised import LabelSpreading
    >>> model = OnClassCodes(LabelSpreading()).fit([[0.0], [0.1], [3.0], [3.1]], ["low", None, None, "high"])
    >>> model.transduction_.tolist()
    ['low', 'low', 'high', 'high']
    """

    def __init__(self, estimator: Any, *, unlabeled: Any = -1) -> None:
        self.estimator = estimator
        self.unlabeled = unlabeled

    def fit(self, X: Any, y: Any) -> OnClassCodes:
        """Fit on all rows of X."""
        X = short_indices(validate_data(self, X, accept_sparse="csr"))
        graph = clone(self.estimator)
        if graph.kernel == "knn":
            graph.set_params(n_neighbors=min(graph.n_neighbors, X.shape[0] - 1))
        labels = read_labels(y, X.shape[0], unlabeled=self.unlabeled, estimator=type(graph).__name__)
        self.task_, self.classes_ = labels.task, labels.classes
        with np.errstate(invalid="ignore"):  # rows that no label reaches get 0 / 0, and then the first class
            self.estimator_ = without_tree(graph.fit(X, full_y(labels)), X)
        self.transduction_ = self.classes_[self.estimator_.transduction_]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return each row's class; the first one if no label reaches the row."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return each row's share of every class; 0 if no label reaches the row."""
        check_is_fitted(self)
        X = short_indices(validate_data(self, X, accept_sparse="csr", reset=False))
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(self.estimator_.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags


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
        varying = np.flatnonzero(np.isnan(self.constants_))
        self.estimators_ = [of_label(clone(self.estimator), j).fit(X, Y[:, j]) for j in varying.tolist()]
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


def without_tree(graph: Any, X: Any) -> Any:
    """Replace the neighbour search of a graph by brute force, since skops cannot save trees; results are equal."""
    if getattr(graph, "nn_fit", None) is not None:
        graph.nn_fit = NearestNeighbors(n_neighbors=graph.n_neighbors, algorithm="brute").fit(X)
    return graph


def only_missing(model: Any) -> Any:
    """Set ``unlabeled=None`` in a model and its parts, so that -1 is a class.

    Reducers are left out: they get class codes, in which -1 means unlabelled.
    """
    names = [name.split("__") for name in model.get_params()]
    readers = [name for name in names if name[-1] == "unlabeled" and "reducer" not in name]
    return model.set_params(**{"__".join(name): None for name in readers})


def left_out_splits(
    known: np.ndarray, cv: int, seed: int | None, groups: Groups | None = None
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Return folds of the labelled rows; a class with one label keeps it in training in every fold.

    Parameters
    ----------
    known : ndarray of shape (l,) or (l, c)
        Class codes, numbers, or 0 and 1 for several labels a row.
    cv : int
        Number of folds; fewer if a class has fewer labels.
    seed : int, optional
        Seed of the folds.
    groups : Groups, optional
        Rows that are held out together.

    Returns
    -------
    splits : list of (train, test)
        Indices into the labelled rows; empty if less than half of them can be held out.
    tested : ndarray of bool of shape (l,)
        The rows that are held out in some fold.
    """
    tested = np.ones(len(known), dtype=bool)
    numbers = known.ndim == 1 and known.dtype.kind == "f"
    if known.ndim == 1 and not numbers:
        counts = np.bincount(known) if groups is None else groups.n_groups_by_class(known)
        cv = int(counts[counts > 1].min(initial=cv))
        tested = counts[known] > 1
    if 2 * tested.sum() < len(known):
        return [], tested
    task = "regression" if numbers else "classification"
    most = len(known) if groups is None else len(groups)
    splitter = SemiSupervisedKFold(min(cv, most), shuffle=True, random_state=seed, task=task)
    try:
        splits = list(splitter.split(None, known, None if groups is None else groups.codes))
    except ValueError:  # too few rows
        return [], tested
    if groups is not None:  # where a class would be in no other fold, a group stays in training
        tested = np.isin(np.arange(len(known)), np.concatenate([test for _, test in splits]))
    return splits, tested


def size_without_folds(labels: Labels, candidates: Sequence[Any]) -> Any:
    """Return the number of components if there are too few labels for folds: classes plus one, at most the largest.

    If candidates are lists, it replaces the first item of the first list.

    With one label a class, further components add only variation within classes. On nine tables (Digit1, waveform,
    image, pima, COIL, USPS, 4 against 9 of MNIST, two of newsgroups) the mean score is 4 points higher than with 20
    components.
    """
    lists = [one if isinstance(one, list) else [one] for one in candidates]
    found = [min(max(labels.n_classes + 1, 2), max(one[0] for one in lists)), *lists[0][1:]]
    return found if isinstance(candidates[0], list) else found[0]


def left_out_score(classifier: Any, Z: np.ndarray, known: np.ndarray, groups: Groups | None = None) -> float:
    """Return the out-of-fold score of a classifier (see `score_of`); for `Tuned`, the best score of its candidates.

    Parameters
    ----------
    classifier : classifier
        Not fitted; `Tuned`, or any other.
    Z : ndarray of shape (l, k)
        The labelled rows.
    known : ndarray of shape (l,) or (l, c)
        Their class codes, numbers, or 0 and 1 for several labels a row.
    groups : Groups, optional
        Rows that are held out together.

    Returns
    -------
    score : float
        Minus infinity if no row can be held out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit on all labels warns
        if hasattr(classifier, "grid"):
            return float(fit_grouped(clone(classifier), Z, known, groups).scores_.max(initial=-np.inf))
        splits, tested = left_out_splits(known, 5, 0, groups)

        def predict(train: np.ndarray, test: np.ndarray) -> list[np.ndarray]:
            return [clone(classifier).fit(Z[train], known[train]).predict(Z[test])]

        (guessed,) = left_out_guesses(splits, predict, known)
    return score_of(known[tested], guessed[tested]) if splits else -np.inf


def read_any_labels(y: Any, n_rows: int, estimator: Any) -> Labels:
    """Return the labels that an adapter reads for its task."""
    numbers = estimator.task == "regression"
    tasks = ("regression",) if numbers else ("binary", "multiclass", "multilabel")
    name = type(estimator).__name__
    return read_labels(y, n_rows, unlabeled=estimator.unlabeled, allowed=tasks, estimator=name)


def full_y(labels: Labels) -> np.ndarray:
    """Return y for all rows: class codes with -1 for unlabelled rows, or 0/1 labels or numbers with NaN."""
    Y: np.ndarray
    if labels.task in ("multilabel", "regression"):
        Y = np.full((labels.n_rows, *labels.values.shape[1:]), np.nan)
    else:
        Y = np.full(labels.n_rows, -1)
    Y[labels.index] = labels.values
    return Y


def score_of(truth: np.ndarray, guess: np.ndarray) -> float:
    """Return the accuracy; for several labels a row micro-averaged F1; for numbers R².

    >>> score_of(np.array([0, 1, 1]), np.array([0, 1, 0])).__round__(2)
    0.67
    """
    numbers = truth.dtype.kind == "f" and truth.ndim == 1
    return float(measure_of("regression" if numbers else "classification")(truth, guess))


def tags_of_task(tags: Any, task: str) -> Any:
    """Return the tags of an adapter as those of a classifier or, for regression, of a regressor."""
    if task == "regression":
        tags.estimator_type, tags.classifier_tags, tags.regressor_tags = "regressor", None, RegressorTags()
    return tags


def set_task(model: Any, task: str) -> Any:
    """Set ``task`` of a model and of all its parts that have this parameter."""
    return model.set_params(**{p: task for p in model.get_params() if p.rpartition("__")[2] == "task"})


def fit_grouped(model: Any, X: Any, y: Any, groups: Groups | None) -> Any:
    """Fit a model, and tell it the groups of the rows if it, or the last step of a pipeline, has a use for them.

    >>> from sklearn.linear_model import Ridge
    >>> fit_grouped(Ridge(), [[0.0], [1.0]], [0.0, 1.0], Groups.single(2)).n_features_in_
    1
    """
    model = without_absent(model, y)
    last = model[-1] if isinstance(model, Pipeline) else model
    with marks_known():
        if groups is None or "groups" not in signature(last.fit).parameters:
            return model.fit(X, y)
        step = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
        return model.fit(X, y, **{f"{step}groups": groups.codes})
