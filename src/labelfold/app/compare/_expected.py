"""The expected score of one method on new rows, from out-of-fold predictions or leave-one-out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone

from labelfold.app.compare._choice import R2_GLOSS, Choice, Measure, OutOfFold, choose, grouped_into
from labelfold.app.compare._data import Data
from labelfold.app.compare._explain import last_step, score_gap
from labelfold.app.compare._splits import fold_of_rows, fold_splits, n_folds
from labelfold.app.io import listed
from labelfold.app.registry import fit_grouped

# Standard deviations of the normal priors on log a and b, in the unit of the median gap.
_SPREAD_SLOPE, _SPREAD_INTERCEPT = 1.0, 1.0


class HeldOut(NamedTuple):
    """Out-of-fold predictions of the labelled rows, with score gaps, from one round of cross-validation.

    Attributes
    ----------
    data : Data
        Rows and labels.
    seed : int
        Seed of the folds.
    guess : ndarray of shape (l,) or (l, c)
        Predictions of the labelled rows.
    gaps : ndarray of shape (l,)
        Difference between the two highest scores; see `score_gap`.
    tested : ndarray of bool of shape (l,)
        Which labelled rows were held out; a class with one label keeps it.
    """

    data: Data
    seed: int
    guess: np.ndarray
    gaps: np.ndarray
    tested: np.ndarray


def predict_held_out(make: Callable[[Any], Any], data: Data, seed: int) -> HeldOut | None:
    """Return out-of-fold predictions of the labelled rows; None if there are too few labels for folds.

    Parameters
    ----------
    make : callable
        ``make(X)`` returns the estimator, not fitted, for rows X.
    data : Data
        Rows and labels.
    seed : int
        Seed of the folds.
    """
    truth, n = data.truth, len(data.truth)
    found = HeldOut(data, seed, np.zeros_like(truth), np.full(n, np.nan), np.zeros(n, dtype=bool))
    split = next(fold_splits(data, 1, seed), None)
    if split is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit on all labels warns
        for part in split.parts:
            rows, held, at = data.X[part.train], data.X[part.test], data.places(part.test)
            groups = None if data.groups is None else data.groups.some(part.train)
            model = fit_grouped(make(rows), rows, part.y, groups)
            found.guess[at] = model.predict(held)
            found.gaps[at] = score_gap(model, held, found.guess[at])
            found.tested[at] = True
    return found


def expected(held: HeldOut) -> Choice:
    """Return the expected score on new rows, with its interval."""
    measure, truth = held.data.measure, held.data.truth
    terms = measure.terms(truth, held.guess)[None]
    fold = fold_of_rows(held.data, 1, held.seed)
    one = OutOfFold(measure, terms, fold, groups=held.data.known_groups)
    return choose({"it": one}, [], held.seed)


def by_leave_one_out(model: Any, data: Data) -> Choice | None:
    """Return the expected score of a model that has leave-one-out predictions, otherwise None.

    Leave-one-out gives accuracy or R². None too if `compare` would use another score, or if there are too few labels.
    """
    if not hasattr(model, "loo_score_") or data.measure.kind not in ("accuracy", "r2") or not n_folds(data):
        return None
    low, high = model.loo_interval_
    if not data.facts.numbers:
        counted = int(data.testable.sum())
        if not counted:
            return None
        several = grouped_into(data.known_groups, np.flatnonzero(data.testable))
        return Choice("it", ["it"], model.loo_score_, low, high, counted, n_groups=several)
    truth = data.truth
    terms = data.measure.terms(truth, model.loo_predictions_)[None]
    left_out = OutOfFold(data.measure, terms, np.arange(len(truth))[None], groups=data.known_groups)
    return Choice("it", ["it"], model.loo_score_, low, high, len(truth), left_out.within, left_out.n_groups)


def _left_out_score(model: Any, data: Data) -> Choice | None:
    """Return the score of leave-one-out predictions by the measure of the comparison; None if it has no meaning."""
    found = by_leave_one_out(model, data)
    if found is not None or not n_folds(data):
        return found
    predicted = np.asarray(model.loo_predictions_)
    guess = predicted if predicted.ndim == 2 else np.searchsorted(data.labels.classes, predicted)
    fold = np.where(data.testable, np.arange(len(guess)), -1)[None]
    one = OutOfFold(data.measure, data.measure.terms(data.truth, guess)[None], fold, groups=data.known_groups)
    return choose({"it": one}, [], 0)


def if_grouped(model: Any, data: Data) -> list[str]:
    """Return a sentence about rows that may belong together, with the score if they are left out together.

    The score is that of a LabelFold; other models would have to be fitted again.
    """
    said = []
    for likely in data.likely_groups:
        told = f"{likely.found}."
        if hasattr(model, "loo_score_"):
            again = copy(model).refit(data.targets(), groups=likely.groups.codes, full=True)
            other = _left_out_score(again, replace(data, groups=likely.groups))
            if other is not None:
                measure = data.measure
                shown = f"{measure.show(other.low)} to {measure.show(other.high)}"
                told = (
                    f"{likely.found}; left out together they give {measure.stated(other.expected)} ({shown})."
                )
        said.append(f"{told} {likely.cure}." if likely.cure else told)
    return said


def without_unlike(model: Any, data: Data) -> list[str]:
    """Return a sentence with the expected score without the columns in which labelled rows are unlike the others.

    The score is that of a LabelFold, which is fitted again.
    """
    gone = np.unique(np.concatenate([[], *data.unlike.values()])).astype(int)
    kept = np.setdiff1d(np.arange(data.X.shape[1]), gone)
    if not len(gone) or not len(kept) or not hasattr(model, "loo_score_"):
        return []
    again = fit_grouped(clone(model), data.X[:, kept], data.targets(), data.groups)
    other = _left_out_score(again, data)
    if other is None:
        return []
    measure = data.measure
    return [
        f"Without {listed(data.unlike, most=3)} it gives {measure.stated(other.expected)} ({measure.show(other.low)} "
        f"to {measure.show(other.high)}); use --drop if new rows are like the unlabelled ones."
    ]


def expectation(found: Choice, measure: Measure) -> str:
    """Return the sentence about the expected score.

    >>> found = Choice("it", ["it"], 0.913, 0.84, 0.962, 60)
    >>> expectation(found, Measure("accuracy", "accuracy"))
    'Expect 91.3% right on new rows (90% interval 84.0% to 96.2%, from 60 labelled rows).'
    """
    said = (
        f"Expect {measure.stated(found.expected)} on new rows (90% interval {measure.show(found.low)} to "
        f"{measure.show(found.high)}, from {found.rows})."
    )
    return said if measure.shares else " ".join([said, *distance(found), R2_GLOSS])


def distance(found: Choice) -> list[str]:
    """Return a sentence with the 90% prediction interval of numbers, if it is known."""
    if found.within is None:
        return []
    return [f"Nine of ten new rows are expected within {found.within:.3g} of their prediction."]


def is_calibrated(model: Any) -> bool:
    """Tell whether a model needs no calibration: leave-one-out calibrated it, or it does not predict classes."""
    scores = hasattr(model, "predict_proba") or hasattr(model, "decision_function")
    return not scores or hasattr(last_step(model), "loo_score_")


def calibrate(model: Any, held: HeldOut | None) -> Any:
    """Add the calibration curve to a fitted model, for `predict_with_confidence`.

    Parameters
    ----------
    model : classifier
        Fitted on all labels. ``confidence_curve_`` of its last step is set.
    held : HeldOut or None
        Out-of-fold predictions. If None, the model is left unchanged.

    Returns
    -------
    model : classifier
        The given model.
    """
    if held is not None and not is_calibrated(model):
        right = (held.guess == held.data.truth).reshape(len(held.gaps), -1).all(axis=1)
        curve = confidence_curve(held.gaps[held.tested], right[held.tested])
        last_step(model).confidence_curve_ = np.array(curve)
    return model


def confidence_curve(gaps: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Return a > 0 and b such that 1 / (1 + exp(-a gap - b)) is the probability that a prediction is right.

    Platt scaling on held-out rows, with standard normal priors on log a and b, in the unit of the median gap. The
    priors keep the curve moderate if there are few rows, or if all predictions are right.

    Parameters
    ----------
    gaps : ndarray of shape (l,)
        Differences between the two highest scores.
    right : ndarray of bool of shape (l,)
        Whether the prediction was right.

    Returns
    -------
    a, b : float

    Examples
    --------
    >>> a, b = confidence_curve(np.repeat([0.1, 3.0], 50), np.repeat([True, False, True], [25, 25, 50]))
    >>> [round(float(expit(a * gap + b)), 1) for gap in (0.1, 3.0)]
    [0.5, 1.0]
    """
    finite = np.isfinite(gaps)
    gaps, hit = gaps[finite], np.asarray(right, dtype=float)[finite]
    unit = float(np.median(gaps)) if len(gaps) else 0.0
    unit = unit if unit > 0 else 1.0
    x = gaps / unit

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        slope = np.exp(at[0])
        z = slope * x + at[1]
        off = expit(z) - hit
        prior = at / np.array([_SPREAD_SLOPE, _SPREAD_INTERCEPT]) ** 2
        value = np.sum(np.logaddexp(0, z) - hit * z) + prior @ at / 2
        return float(value), np.array([(off * x).sum() * slope, off.sum()]) + prior

    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-5, 5), (-10, 10)])
    return float(np.exp(found.x[0])) / unit, float(found.x[1])
