"""Scorers that leave out unlabelled rows, the one-standard-error rule, and the choice of a ridge."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import KFold, StratifiedKFold

from labelfold.base import measure_of
from labelfold.labels import Labels, score_targets
from labelfold.model_selection._budgets import fold_scores
from labelfold.model_selection._folds import SemiSupervisedKFold
from labelfold.numerics import nonnegative_numbers
from labelfold.utils import safe_indexing


class LabelledScorer:
    """A scorer that leaves out unlabelled rows, and reads y as the estimators do.

    For ``scoring=`` of scikit-learn, whose own scorers treat -1 as a class and raise errors for NaN and None.

    Parameters
    ----------
    metric : str or callable, default="accuracy"
        The name of a scorer of scikit-learn, or a function of the true and the predicted labels.
    unlabeled : number, str or None, default=-1
        The value of y that marks an unlabelled row; missing values always do.
    **options
        For a function: arguments of its own and of ``sklearn.metrics.make_scorer``, such as ``average="macro"``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from labelfold import LDA
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::3] = -1
    >>> model = LDA().fit(X, y)
    >>> round(LabelledScorer("balanced_accuracy")(model, X, y), 1)
    1.0
    """

    def __init__(self, metric: str | Callable = "accuracy", *, unlabeled: Any = -1, **options: Any):
        self.metric = metric
        self.unlabeled = unlabeled
        self.options = options
        self._scorer = make_scorer(metric, **options) if callable(metric) else get_scorer(metric)

    def __call__(self, estimator: Any, X: Any, y: Any, **params: Any) -> float:
        """Return the score of the labelled rows of X."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        mask, values = score_targets(
            y, n, unlabeled=self.unlabeled, classes=getattr(estimator, "classes_", None)
        )
        return self._scorer(estimator, X if mask.all() else safe_indexing(X, mask), values, **params)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"LabelledScorer({self.metric!r}{options})"


class OneStandardError:
    """Choose the smallest value of a parameter that scores within one standard error of the best.

    For ``refit=`` of scikit-learn's GridSearchCV. Among all candidates whose mean is at most one standard error (of
    the mean of the best one, over the folds) below the best mean, it chooses the one with the smallest parameter and,
    among those, with the highest mean.

    Parameters
    ----------
    parameter : str, default="n_components"
        The parameter to keep small; ``step__n_components`` of a pipeline is found too. None in the grid counts as the
        largest value.
    metric : str, optional
        The metric, if the search has several.

    Examples
    --------
    >>> results = {
    ...     "param_n_components": [1, 2, 8],
    ...     "split0_test_score": [0.70, 0.88, 0.89],
    ...     "split1_test_score": [0.72, 0.93, 0.93],
    ...     "split2_test_score": [0.71, 0.89, 0.90],
    ... }
    >>> OneStandardError()(results)  # 0.90 is within 0.012 of the best mean, 0.907
    1
    """

    def __init__(self, parameter: str = "n_components", metric: str | None = None):
        self.parameter = parameter
        self.metric = metric

    def __call__(self, cv_results: Mapping[str, Any]) -> int:
        """Return the index of the chosen candidate."""
        name = self.metric or "score"
        splits = [key for key in cv_results if re.fullmatch(rf"split\d+_test_{re.escape(name)}", key)]
        if not splits:
            raise ValueError(
                f"The search has no scores named {name!r}; say which with OneStandardError(metric=...)."
            )
        scores = np.column_stack([np.asarray(cv_results[key], dtype=float) for key in splits])
        return one_standard_error(scores, self._sizes(cv_results))

    def _sizes(self, cv_results: Mapping[str, Any]) -> np.ndarray:
        ending = re.compile(rf"param_(.*__)?{re.escape(self.parameter)}")
        keys = [key for key in cv_results if ending.fullmatch(key)]
        if len(keys) != 1:
            found = ", ".join(key for key in cv_results if key.startswith("param_")) or "none"
            raise ValueError(
                f"The search should vary one parameter named {self.parameter!r}, and its parameters are {found}."
            )
        return np.array(
            [np.inf if size is None else size for size in np.ma.filled(cv_results[keys[0]], None)], float
        )

    def __repr__(self) -> str:
        return f"OneStandardError({self.parameter!r})"


def one_standard_error(scores: np.ndarray, sizes: np.ndarray, error: float | None = None) -> int:
    """Return the index of the smallest candidate within one standard error of the best; ties go to the best.

    Parameters
    ----------
    scores : ndarray of shape (candidates, folds)
        Higher is better; a candidate with NaN, from a failed fit, is excluded.
    sizes : ndarray of shape (candidates,)
        The parameter to keep small.
    error : float, optional
        The standard error of the best; from its scores when None, as if they were independent. With 0 the best
        candidate is chosen, the smallest one if several are equal up to round-off.

    Returns
    -------
    index : int

    Examples
    --------
    >>> one_standard_error(np.array([[0.7], [0.9], [0.9]]), np.array([3, 2, 1]), 0.0)
    2
    """
    means = scores.mean(axis=1)
    if np.isnan(means).all():
        raise ValueError("Every candidate failed in some fold, so there is none to choose.")
    best = int(np.nanargmax(means))
    n = scores.shape[1]
    if error is None:
        error = float(np.std(scores[best], ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    good = np.flatnonzero(means >= means[best] - max(error, 1e-12))
    return int(good[np.lexsort((-means[good], sizes[good]))[0]])


def default_ridge(n_labelled: float, spread: float, share: float = 0.01) -> float:
    """Return the ridge of "auto", a share of the sum of squared distances of labelled rows from their mean.

    Parameters
    ----------
    n_labelled : int
        Number of labelled rows, or the sum of their weights.
    spread : float
        Mean squared distance of the rows from their mean.
    share : float, default=0.01
        The share.

    Returns
    -------
    ridge : float

    Examples
    --------
    >>> default_ridge(50, 4.0)
    2.0
    """
    return share * n_labelled * spread


def chosen_ridge(
    model: Any,
    labels: Labels,
    spread: float,
    predict: Callable[[np.ndarray, np.ndarray, np.ndarray], Any],
    *,
    zero: bool = True,
) -> float:
    """Return the ridge that predicts held-out labels best, and store ``ridges_`` and ``ridge_scores_``.

    Parameters
    ----------
    model : estimator
        Its ``ridge`` is "cv", or a sequence to choose from.
    labels : Labels
        The labels of the rows that may be held out. Their weights count in the scores.
    spread : float
        The mean squared distance of the rows from their mean; "cv" chooses from multiples of it.
    predict : callable
        Takes ridges, and indices of labelled rows for training and for test. Returns predictions of the test rows for
        each ridge; None if the fold cannot be fitted.
    zero : bool
        Whether a ridge may be 0.

    Returns
    -------
    ridge : float
    """
    if isinstance(model.ridge, str):
        ridges = spread * np.logspace(-4, 4, 9)
    else:
        ridges = np.asarray(nonnegative_numbers("ridges", model.ridge, zero=zero))
    truth, measure = labels.decode(labels.values), measure_of(labels.task)
    scores = fold_scores(_folds(labels, 5), partial(predict, ridges), truth, measure, labels.weights)
    model.ridges_, model.ridge_scores_ = ridges, scores.reshape(len(scores), len(ridges))
    if not len(scores):
        # no row can be held out, so the ridge nearest to the spread of the rows is used, a safe choice
        tiny = float(np.finfo(np.float64).tiny)
        return float(ridges[np.abs(np.log(np.maximum(ridges, tiny)) - np.log(spread)).argmin()])
    return float(ridges[one_standard_error(model.ridge_scores_.T, -ridges, 0.0)])  # of equal ones the largest


def _folds(labels: Labels, n_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the folds of the labelled rows; no fold removes a class, or a label, from training."""
    n = labels.n_labelled
    if labels.task == "regression":
        folds = min(n_folds, n // 2)  # R^2 is not defined for one row
        return list(KFold(folds, shuffle=True, random_state=0).split(np.zeros(n))) if folds > 1 else []
    counts = labels.counts()
    several = counts[counts > 1]
    if labels.task == "multilabel":
        folds, usual = min(n_folds, n), KFold
    else:
        folds, usual = min([n_folds, *several.tolist()]), StratifiedKFold
    if not len(several) or folds < 2:
        return []
    splitter = usual if (counts > 1).all() else SemiSupervisedKFold
    try:
        return list(splitter(folds, shuffle=True, random_state=0).split(np.zeros(n), labels.values))
    except ValueError:  # too few rows with several labels to hold any out
        return []
