"""The methods that predict from all columns, and those for numbers, one record each.

A record is the description of a method, and how its estimator is made; see ``_reducers.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import SVC, SVR
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import labelfold
from labelfold.app.registry._adapters import OnClassCodes, OnLabelledRows, PerLabel, Shape, tags_of_task
from labelfold.app.registry._method import HIDDEN, TUNED, Facts, at_most, method
from labelfold.app.registry._reducers import principal_then
from labelfold.app.registry._tuned import Tuned, UnitSpread, around, linear_svm, tuned_in_unit
from labelfold.numerics import MAX_GRAM_BYTES
from labelfold.semi_supervised import TreeNodes

classifier = partial(method, use="Classes on all columns, no reduction", labels="supervised", embeds=False)
transductive = partial(method, use="Classes of all rows at once, no reduction", embeds=False)
regression = partial(method, use="Numbers")
_MANIFOLD = "Belkin, Niyogi & Sindhwani, Manifold regularization, JMLR 2006"


def _rbf(machine: Any, path: str, C: float | None, random_state: int | None) -> Any:
    """Return an RBF machine whose width is tuned, and its C unless given."""
    model = Pipeline([("unit", UnitSpread()), ("svm", machine)])
    penalties = around(10.0, 0.1, 4) if C is None else (C,)
    # for rows of unit spread gamma = 1 is scikit-learn's "scale"
    grid = tuple((c, gamma) for gamma in (1.0, 0.3, 0.1, 3.0) for c in penalties)
    names = (f"{path}C", f"{path}gamma")
    return Tuned(model, names, grid, power=(0, 0), most_rows=500, random_state=random_state)


def _few_labelled(facts: Facts, most: int = 10_000) -> str | None:
    """Return why a kernel SVM does not suit."""
    return f"too slow for more than {most:,} labelled rows" if facts.n_labelled > most else None


def _needs_counts(facts: Facts) -> str | None:
    """Return why a method for counts does not suit."""
    return None if facts.whole else "it takes counts, and X has numbers that are not whole"


def _trees(kind: str) -> Callable[..., Any]:
    """Return a builder of extra trees or a random forest."""

    def build(k: int | None, shape: Shape, random_state: int | None) -> Any:
        model = Trees(kind, random_state=random_state)
        # trees treat a column with a range below 1e-7 as constant
        return OnLabelledRows(Pipeline([("scale", StandardScaler(with_mean=False)), ("trees", model)]))

    return build


def _laprls(kernel: str | None) -> Callable[..., Any]:
    """Return a builder of LapRLS, linear or with a kernel; with landmarks if its matrix would not fit in memory."""

    def build(k: int | None, shape: Shape, random_state: int | None, ridge: float | None = None) -> Any:
        # With smoothness n the graph term is about its mean over rows, for any number of rows. A tenth of that does
        # little harm if classes overlap.
        model = labelfold.LapRLS(kernel=kernel, smoothness=shape.n_rows / 10, random_state=random_state)
        if ridge is not None:
            return model.set_params(ridge=ridge)
        return Tuned(
            model,
            "ridge",
            around(0.01),  # of the number of labelled rows
            power=1 if kernel is None else 0,  # the space of an RBF kernel has no unit
            per_label=True,
            fallback="auto",
            hide=True,
            random_state=random_state,
        )

    return build


def _propagation(make: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a builder of a graph method of scikit-learn; with a neighbour graph if all pairs would not fit."""

    def build(k: int | None, shape: Shape, random_state: int | None, gamma: float | None = None) -> Any:
        if 8 * shape.n_rows**2 > MAX_GRAM_BYTES:
            # scikit-learn's RBF graph joins all pairs; its neighbour graph has no width to tune
            return OnClassCodes(make(kernel="knn", **options))
        # gamma = 1 / (2 sigma^2): sigma is 1/4, 1/2, 1/8, 1 and 1/16 of the root mean square distance between two
        # rows, which is the square root of 2 for rows of unit spread
        gammas = around(4.0, 1 / 4)
        model: Any = OnClassCodes(make(gamma=gammas[0] if gamma is None else gamma, **options))
        if gamma is None:
            model = Tuned(model, "estimator__gamma", gammas, power=0, hide=True, random_state=random_state)
        return Pipeline([("unit", UnitSpread()), ("propagation", model)])

    return build


@classifier(
    "svm",
    "SVM",
    gloss="a linear classifier with a wide margin",
    summary=f"A linear SVM on all columns, no reduction; its C is {TUNED}.",
    paper="the usual baseline",
    rank=1,
)
def svm(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return a linear SVM on all columns."""
    return OnLabelledRows(linear_svm(random_state, C))


@classifier(
    "rbf-svm",
    "RBF SVM",
    gloss="a classifier with a wide, curved margin",
    summary=f"An SVM with an RBF kernel on all columns, no reduction; its C and gamma are {TUNED}.",
    paper="Boser, Guyon & Vapnik, A training algorithm for optimal margin classifiers, COLT 1992",
    rank=1,
    suits=_few_labelled,
)
def rbf_svm(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return an RBF SVM on all columns. Its width is tuned, and its C unless given."""
    return OnLabelledRows(_rbf(PerLabel(SVC()), "svm__estimator__", C, random_state))


@classifier(
    "logistic",
    "logistic regression",
    gloss="a linear classifier with probabilities",
    summary=f"Logistic regression on all columns, no reduction; its C is {TUNED}.",
    paper="the usual baseline",
    rank=1,
)
def logistic(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return a logistic regression on all columns. Its C is tuned unless given."""
    model = PerLabel(LogisticRegression(max_iter=1000))
    # on separable rows the best C of a logistic loss is larger than that of a hinge loss
    return OnLabelledRows(tuned_in_unit(model, "estimator__C", C, random_state, around(10.0)))


extra_trees = classifier(
    "extra-trees",
    "extra trees",
    gloss="votes of many random decision trees",
    summary="300 extremely randomised trees (100 for numbers) on all columns, no reduction.",
    paper="Geurts, Ernst & Wehenkel, Extremely randomized trees, Machine Learning 2006",
    rank=2,
)(_trees("extra trees"))


random_forest = classifier(
    "random-forest",
    "random forest",
    gloss="votes of many decision trees",
    summary="A random forest of 300 trees (100 for numbers) on all columns, no reduction.",
    paper="Breiman, Random forests, Machine Learning 2001",
    rank=2,
    compared=False,
)(_trees("random forest"))


@classifier(
    "naive-bayes",
    "naive Bayes",
    gloss="word frequencies of each class",
    summary=f"Multinomial naive Bayes on all columns, for counts, no reduction; its smoothing is {TUNED}.",
    paper="McCallum & Nigam, A comparison of event models for naive Bayes text classification, 1998",
    rank=2,
    suits=_needs_counts,
    nonnegative=True,
    counts=True,
)
def naive_bayes(k: int | None, shape: Shape, random_state: int | None, alpha: float | None = None) -> Any:
    """Return a naive Bayes classifier for counts. Its smoothing is tuned unless given."""
    model = PerLabel(MultinomialNB())
    # pseudo-counts of every word, for rows of unit spread
    return OnLabelledRows(tuned_in_unit(model, "estimator__alpha", alpha, random_state, around(0.1, 0.1)))


@transductive(
    "label-spreading",
    "label spreading",
    gloss="labels passed on between neighbours",
    summary="scikit-learn's LabelSpreading over a graph of 7 nearest neighbours, no reduction.",
    paper="Zhou, Bousquet, Lal, Weston & Schölkopf, Learning with local and global consistency, NIPS 2003",
    rank=4,
    suits=at_most(20_000, 2_000_000, "it searches neighbours of every row"),
)
def label_spreading(k: int | None, shape: Shape, random_state: int | None) -> Any:
    """Return label spreading over a graph of neighbours."""
    return OnClassCodes(LabelSpreading(kernel="knn", alpha=0.2, max_iter=1000))


laprls = transductive(
    "laprls",
    "LapRLS",
    gloss="least squares that changes little between neighbours",
    summary=f"Least squares that changes little between neighbours, no reduction; its ridge is {HIDDEN}.",
    paper=_MANIFOLD,
    rank=6,
    suits=at_most(20_000, 2_000_000, "it searches neighbours of every row"),
    slow=True,
)(_laprls(None))


kernel_laprls = transductive(
    "kernel-laprls",
    "Kernel LapRLS",
    gloss="the same along curves: LapRLS with a kernel",
    summary="LapRLS in the space of an RBF kernel (Nystroem features where its matrix would not fit), no "
    f"reduction; its ridge is {HIDDEN}.",
    paper=_MANIFOLD,
    rank=6,
    compared=False,
)(_laprls("rbf"))


@transductive(
    "tsvm",
    "TSVM",
    gloss="a linear classifier whose margin avoids unlabelled rows",
    summary=f"A linear SVM on all columns whose margin keeps clear of the unlabelled rows too; its C is {HIDDEN}.",
    paper="Sindhwani & Keerthi, Large scale semi-supervised linear SVMs, SIGIR 2006",
    rank=9,
    slow=True,
)
def tsvm(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return a transductive SVM. Its C is tuned unless given."""
    model = tuned_in_unit(labelfold.TSVM(random_state=random_state), "C", C, random_state, fallback="auto")
    # unlabelled rows change the method and its best C, so some take part in the tuning; few, since it is slow
    return model if C is not None else model.set_params(hide=True, most_unlabeled=500)


grf = transductive(
    "grf",
    "GRF",
    gloss="labels passed on between neighbours, given ones kept",
    summary="Labels that spread over an RBF graph and stay where they were given, no reduction: scikit-learn's "
    f"LabelPropagation; its gamma is {HIDDEN} (a graph of neighbours where that would not fit).",
    paper="Zhu, Ghahramani & Lafferty, Semi-supervised learning using Gaussian fields, ICML 2003",
    rank=6,
    compared=False,
)(_propagation(LabelPropagation))


llgc = transductive(
    "llgc",
    "LLGC",
    gloss="labels passed on between neighbours, given ones overruled",
    summary="Labels that spread over an RBF graph and may be overruled, no reduction: scikit-learn's "
    f"LabelSpreading with alpha 0.99; its gamma is {HIDDEN} (a graph of neighbours where that would not fit).",
    paper="Zhou et al., Learning with local and global consistency, NIPS 2004",
    rank=6,
    compared=False,
)(_propagation(LabelSpreading, alpha=0.99, max_iter=1000))


@regression(
    "ridge",
    "ridge regression",
    gloss="a linear prediction with small weights",
    summary=f"Ridge regression of a number on all columns, no reduction; its ridge is {TUNED}.",
    paper="Hoerl & Kennard, Ridge regression, Technometrics 1970",
    rank=1,
    labels="supervised",
    embeds=False,
)
def ridge_regression(
    k: int | None, shape: Shape, random_state: int | None, ridge: float | None = None
) -> Any:
    """Return a ridge regression on all columns. Its ridge is tuned unless given."""
    return OnLabelledRows(tuned_in_unit(Ridge(), "alpha", ridge, random_state))


@regression(
    "pca-ridge",
    "PCA + ridge",
    gloss="principal components, then a linear prediction",
    summary="Principal components of all rows (singular vectors where X is sparse), then ridge regression of a "
    f"number; its ridge is {TUNED}.",
    paper="the usual baseline",
    rank=1,
)
def pca_ridge(k: int | None, shape: Shape, random_state: int | None, ridge: float | None = None) -> Any:
    """Return principal components and ridge regression."""
    return principal_then(k, shape, random_state, tuned_in_unit(Ridge(), "alpha", ridge, random_state))


@regression(
    "svr",
    "RBF SVR",
    gloss="a smooth curved prediction",
    summary=f"Support vector regression of a number with an RBF kernel, no reduction; its C and gamma are {TUNED}.",
    paper="Drucker, Burges, Kaufman, Smola & Vapnik, Support vector regression machines, NIPS 1996",
    rank=1,
    labels="supervised",
    embeds=False,
    suits=_few_labelled,
)
def svr(k: int | None, shape: Shape, random_state: int | None, C: float | None = None) -> Any:
    """Return an RBF support vector regression on all columns. Its width is tuned, and its C unless given."""
    return OnLabelledRows(_rbf(SVR(), "svm__", C, random_state))


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
    class_weight : dict or "balanced", optional
        Weights of the classes.

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
        class_weight: Any = None,
    ) -> None:
        self.kind = kind
        self.n_estimators = n_estimators
        self.random_state = random_state
        self.task = task
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any) -> Trees:
        """Fit the ensemble of scikit-learn, and store its nodes."""
        from sklearn import ensemble

        numbers = self.task == "regression"
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=not numbers, y_numeric=numbers)
        if not numbers:
            check_classification_targets(y)
        kinds = {"extra trees": "ExtraTrees", "random forest": "RandomForest"}
        make = getattr(ensemble, f"{kinds[self.kind]}{'Regressor' if numbers else 'Classifier'}")
        trees = self.n_estimators or (100 if numbers else 300)
        weights = {} if numbers else {"class_weight": self._weights(y)}
        forest = make(trees, random_state=self.random_state, **weights).fit(X, y)
        self.several_ = not numbers and isinstance(forest.classes_, list)
        if not numbers:
            self.classes_ = np.arange(len(forest.classes_)) if self.several_ else forest.classes_
        grown = [one.tree_ for one in forest.estimators_]
        self.nodes_ = TreeNodes(grown, self._shares(np.concatenate([tree.value for tree in grown]), forest))
        return self

    def _weights(self, y: np.ndarray) -> Any:
        """Return the weights of the classes; for several labels a row, those of each label."""
        given = self.class_weight
        if y.ndim == 1 or not isinstance(given, dict):
            return given
        return [{0: 1.0, 1: given.get(j, 1.0)} for j in range(y.shape[1])]

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
