"""Tuning of a penalty by cross-validation on the labelled rows, in units of the spread of X."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from labelfold.app.registry._adapters import (
    OnLabelledRows,
    PerLabel,
    Shape,
    fit_grouped,
    inner_has,
    left_out_splits,
    read_any_labels,
    score_of,
    size_without_folds,
    tags_of_task,
)
from labelfold.app.registry._class_weights import for_codes
from labelfold.base import TaskScore
from labelfold.labels import Labels
from labelfold.model_selection import Groups, left_out_guesses, read_groups

# Budget: with more labelled rows folds are drawn once. The scores of one draw are then less noisy, and fits take
# longer.
_FEW = 200


class Tuned(TaskScore, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Choose a penalty, or several together, by cross-validation on the labelled rows, then fit on all rows.

    A good penalty depends on the unit of X, so the candidates are multiples of :math:`u^p`, with :math:`u` the mean
    squared distance of the labelled rows (with ``hide``, of all rows) from their mean. A class with one label keeps
    it in training in every fold. If more than half of the labelled rows are of such classes, ``fallback`` is used.

    Parameters
    ----------
    estimator : classifier or regressor
        The estimator to tune.
    parameter : str or tuple of str
        Name of the penalty, or names of parameters that are chosen jointly.
    grid : sequence of float or of tuples
        The candidates. The first is the default and wins ties.
    power : int or tuple of int, default=1
        The p above: 1 for a ridge added to a scatter matrix, -1 for the C of an SVM.
    per_label : bool, default=False
        Whether the candidates are also multiplied by the number of labelled rows.
    fallback : object, default=None
        The value if there are too few labels for folds. None: the first candidate. "classes": the number of classes
        plus one. (With one label a class the ridge of `LDA` does not change its predictions.)
    cv : int, default=5
        Number of folds; fewer if a class has fewer labels.
    repeats : int, default=2
        Number of draws of the folds for up to 200 labelled rows; one for more, or with ``hide``. With few
        labels the scores of one draw are noisy; each further draw costs as much as the first.
    most_rows : int, default=2000
        Largest number of labelled rows for the comparison, stratified by class.
    hide : bool, default=False
        Whether the rows of a fold stay in training as unlabelled rows, for semi-supervised methods. Otherwise
        candidates are fitted on labelled rows only.
    most_unlabeled : int, optional
        With ``hide``: largest number of unlabelled rows for the comparison, drawn at random; None for all.
    random_state : int, optional
        Seed of the folds.
    task : {"classification", "regression"}, default="classification"
        Whether y holds classes or numbers.
    unlabeled : number or str, default=-1
        The value of y that marks an unlabelled row; missing values always do, and for numbers only they do.

    Attributes
    ----------
    estimator_ : classifier or regressor
        Fitted on all rows with the chosen penalty.
    best_value_ : float or list of float
        The chosen penalty, or parameters.
    scores_ : ndarray of shape (len(grid),)
        Out-of-fold score of each candidate (see `score_of`); empty if there are too few labels for folds.
    task_ : {"binary", "multiclass", "multilabel", "regression"}
    """

    def __init__(
        self,
        estimator: Any,
        parameter: str | tuple[str, ...],
        grid: Sequence[Any],
        *,
        power: int | tuple[int, ...] = 1,
        per_label: bool = False,
        fallback: Any = None,
        cv: int = 5,
        repeats: int = 2,
        hide: bool = False,
        most_unlabeled: int | None = None,
        most_rows: int = 2000,
        random_state: int | None = None,
        task: str = "classification",
        unlabeled: Any = -1,
    ) -> None:
        self.estimator = estimator
        self.parameter = parameter
        self.grid = grid
        self.power = power
        self.per_label = per_label
        self.fallback = fallback
        self.cv = cv
        self.repeats = repeats
        self.most_rows = most_rows
        self.hide = hide
        self.most_unlabeled = most_unlabeled
        self.random_state = random_state
        self.task = task
        self.unlabeled = unlabeled

    def fit(self, X: Any, y: Any, groups: Any = None) -> Tuned:
        """Choose the penalty on the labelled rows of X and fit; rows of a group are held out together."""
        checked = validate_data(self, X, accept_sparse="csr")
        labels = read_any_labels(y, checked.shape[0], self)
        candidates = self._candidates(checked, labels)
        chosen = _rows_to_tune_on(labels.values, self.most_rows, self.random_state)
        index, known = labels.index[chosen], labels.values[chosen]
        every = None if groups is None else read_groups(groups, checked.shape[0])
        grouped = None if every is None or every.take(index).are_single else every.take(index)
        kept = self._kept(checked.shape[0], index, labels.index)
        # candidates are fitted on class codes
        coded = clone(self).set_params(estimator=for_codes(clone(self.estimator), labels))
        # one BLAS thread: for many small fits synchronisation costs more than it gains
        with threadpool_limits(1, user_api="blas"):
            rows = checked if len(kept) == checked.shape[0] else checked[kept]
            self.scores_ = coded._score(rows, np.searchsorted(kept, index), known, candidates, grouped)
        self.best_value_ = candidates[0] if self.fallback is None else self.fallback
        if self.fallback == "classes":
            self.best_value_ = size_without_folds(labels, candidates)
        if len(self.scores_):
            self.best_value_ = candidates[int(np.argmax(self.scores_))]
        # X as given, so that the model keeps the column names
        self.estimator_ = fit_grouped(self._with(self.best_value_), X, y, every)
        self.task_ = labels.task
        if self.task_ != "regression":
            self.classes_ = self.estimator_.classes_
        return self

    def _candidates(self, X: Any, labels: Labels) -> list[Any]:
        """Return the candidates in the unit of X: numbers, or lists if several parameters are chosen jointly."""
        unit = _mean_square(X if self.hide else X[labels.index]) if np.any(self.power) else 1.0
        times = len(labels.index) if self.per_label else 1

        def in_unit(value: Any, power: int) -> Any:  # a number of components stays an integer
            return value * unit**power * times if power or self.per_label else value

        if isinstance(self.parameter, str):
            return [in_unit(value, self.power) for value in self.grid]  # type: ignore[arg-type]
        powers = np.broadcast_to(self.power, len(self.parameter)).tolist()
        return [[in_unit(*pair) for pair in zip(values, powers, strict=True)] for values in self.grid]

    def _with(self, value: Any) -> Any:
        if isinstance(self.parameter, str):
            return clone(self.estimator).set_params(**{self.parameter: value})
        return clone(self.estimator).set_params(**dict(zip(self.parameter, value, strict=True)))

    def _score(
        self, X: Any, index: np.ndarray, known: np.ndarray, candidates: Sequence[Any], groups: Groups | None
    ) -> np.ndarray:
        """Return the out-of-fold score of each candidate; empty if there are too few labels for folds."""
        if len(candidates) < 2:
            return np.empty(0)
        once = self.hide or len(known) > _FEW
        seeds = np.random.default_rng(self.random_state).integers(2**31, size=1 if once else self.repeats)
        rounds = [self._round(X, index, known, candidates, groups, int(seed)) for seed in seeds]
        return np.mean(rounds, axis=0)

    def _round(
        self,
        X: Any,
        index: np.ndarray,
        known: np.ndarray,
        candidates: Sequence[Any],
        groups: Groups | None,
        seed: int,
    ) -> np.ndarray:
        """Return the out-of-fold score of each candidate for one draw of the folds."""
        splits, tested = left_out_splits(known, self.cv, seed, groups)
        if not splits:
            return np.empty(0)

        def predict(train: np.ndarray, test: np.ndarray) -> list[Any]:
            rows, y = self._fold(X, index, known, train)
            held = X[index[test]]
            # LDA of 200 x 8,000 takes 2.0 times as long without the path (benchmarks/second_ways.py)
            if self.parameter == "ridge" and hasattr(self.estimator, "path"):
                return [model.predict(held) for model in clone(self.estimator).path(rows, y, candidates)]
            return [self._with(value).fit(rows, y).predict(held) for value in candidates]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final fit warns
            guessed = left_out_guesses(splits, predict, known, len(candidates))
        return np.array([score_of(known[tested], guess[tested]) for guess in guessed])

    def _kept(self, n: int, index: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        """Return the rows for the comparison: these labelled rows and, with ``hide``, unlabelled rows."""
        if not self.hide:
            return index
        others = np.setdiff1d(np.arange(n), labelled)
        if self.most_unlabeled is not None and len(others) > self.most_unlabeled:
            others = np.random.default_rng(self.random_state).permutation(others)[: self.most_unlabeled]
        return np.union1d(index, others)

    def _fold(
        self, X: Any, index: np.ndarray, known: np.ndarray, train: np.ndarray
    ) -> tuple[Any, np.ndarray]:
        """Return the training rows and labels of a fold: labelled rows only, or all rows with hidden labels."""
        if not self.hide:
            return X[index[train]], known[train]
        # NaN means unlabelled for every value of ``unlabeled``
        y = np.full((X.shape[0], *known.shape[1:]), np.nan)
        y[index[train]] = known[train]
        return X, y

    @inner_has("transform")
    def transform(self, X: Any) -> np.ndarray:
        """Return the embedding of the chosen estimator."""
        return self._fitted().transform(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return each row's class or number."""
        return self._fitted().predict(X)

    @inner_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return each row's class probabilities."""
        return self._fitted().predict_proba(X)

    @inner_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Return each row's scores."""
        return self._fitted().decision_function(X)

    @inner_has("get_feature_names_out")
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the components."""
        return self._fitted().get_feature_names_out()

    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    def __sklearn_tags__(self) -> Any:
        tags = tags_of_task(super().__sklearn_tags__(), self.task)
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags


class UnitSpread(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide X by one number, so that its rows have a mean squared distance of 1 from their mean.

    A linear SVM penalises its intercept too, so without this it would depend on the unit of X.

    Attributes
    ----------
    scale_ : float
        The number.

    Examples
    --------
    >>> UnitSpread().fit_transform([[0.0], [2000.0]]).tolist()
    [[0.0], [2.0]]
    """

    def fit(self, X: Any, y: Any = None) -> UnitSpread:
        """Measure the spread of X."""
        X = validate_data(self, X, accept_sparse="csr")
        self.scale_ = float(np.sqrt(_mean_square(X)))
        return self

    def transform(self, X: Any) -> Any:
        """Return X in the new unit."""
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", reset=False) / self.scale_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def without_tuning(model: Any) -> Any:
    """Return a fitted model in which every `Tuned` is replaced by its chosen estimator."""
    chosen = model
    if isinstance(model, Tuned):
        chosen = model.estimator_
    elif isinstance(model, Pipeline):
        chosen = Pipeline([(name, without_tuning(step)) for name, step in model.steps])
    elif isinstance(model, OnLabelledRows):
        chosen = copy.copy(model)
        chosen.classifier_ = without_tuning(model.classifier_)
    if hasattr(
        model, "confidence_curve_"
    ):  # from labelfold.app.compare, for classifiers without probabilities
        chosen.confidence_curve_ = model.confidence_curve_
    return chosen


def _rows_to_tune_on(known: np.ndarray, max_rows: int, seed: int | None) -> Any:
    """Return the labelled rows to tune on: all, or about ``max_rows``, with at least two of each class."""
    if len(known) <= max_rows:
        return slice(None)
    order = np.random.default_rng(seed).permutation(len(known))
    if known.ndim == 2 or known.dtype.kind == "f":
        return np.sort(order[:max_rows])
    order = order[np.argsort(known[order], kind="stable")]
    counts = np.bincount(known)
    place = np.arange(len(known)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.maximum(np.round(counts * max_rows / len(known)), 2)
    return np.sort(order[place < kept[known[order]]])


def _mean_square(X: Any) -> float:
    """Return the mean squared distance of the rows from their mean; 1 if it is 0."""
    if Shape.of(X).sparse:
        mean = np.asarray(X.mean(axis=0)).ravel()
        total = float(X.multiply(X).sum()) / X.shape[0] - float(mean @ mean)
    else:
        total = float(np.asarray(X, dtype=np.float64).var(axis=0).sum())
    return total if total > 0 else 1.0


def around(centre: float, ratio: float = 10.0, count: int = 5) -> tuple[float, ...]:
    """Return candidates for a penalty: the centre, times the ratio, divided by it, times its square, and so on.

    >>> around(1.0), around(4.0, 1 / 4, 4)
    ((1.0, 10.0, 0.1, 100.0, 0.01), (4.0, 1.0, 16.0, 0.25))
    """
    powers = (-(i // 2) if i % 2 == 0 else (i + 1) // 2 for i in range(count))
    return tuple(float(f"{centre * ratio**power:.12g}") for power in powers)


def tuned_in_unit(
    model: Any,
    parameter: str,
    given: float | None,
    random_state: int | None,
    grid: tuple = around(1.0),
    fallback: Any = None,
) -> Any:
    """Return a model with the given penalty, in the unit of X, or a model tuned on X scaled to unit spread."""
    if given is not None:
        return model.set_params(**{parameter: given})
    model = Pipeline([("unit", UnitSpread()), ("model", model)])
    name = f"model__{parameter}"
    return Tuned(model, name, grid, power=0, fallback=fallback, random_state=random_state)


def linear_svm(random_state: int | None, C: float | None) -> Any:
    """Return a linear SVM. Its C is tuned unless given."""
    model = PerLabel(LinearSVC(random_state=random_state, max_iter=5000))
    return tuned_in_unit(model, "estimator__C", C, random_state)
