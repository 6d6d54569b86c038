"""The expected score of one method on new rows, from out-of-fold predictions or leave-one-out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from labelfold.app._explain import score_gap
from labelfold.app.compare._choice import Choice, OutOfFold, choose
from labelfold.app.compare._data import Data
from labelfold.app.compare._measure import R2_GLOSS, Measure
from labelfold.app.compare._splits import fold_of_rows, fold_splits, n_folds
from labelfold.app.io._problems import count


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
            model = make(rows).fit(rows, part.y)
            found.guess[at] = model.predict(held)
            found.gaps[at] = score_gap(model, held, found.guess[at])
            found.tested[at] = True
    return found


def expected(held: HeldOut) -> Choice:
    """Return the expected score on new rows, with its interval."""
    measure, truth = held.data.measure, held.data.truth
    terms = measure.terms(truth, held.guess)[None]
    return choose({"it": OutOfFold(measure, terms, fold_of_rows(held.data, 1, held.seed))}, [], held.seed)


def by_leave_one_out(model: Any, data: Data) -> Choice | None:
    """Return the expected score of a model that has leave-one-out predictions, otherwise None.

    Leave-one-out gives accuracy or R². None too if `compare` would use another score, or if there are too few labels.
    """
    if not hasattr(model, "loo_score_") or data.measure.kind not in ("accuracy", "r2") or not n_folds(data):
        return None
    low, high = model.loo_interval_
    if not data.facts.numbers:
        counted = int((data.counts()[data.labels.values] > 1).sum())
        return Choice("it", ["it"], model.loo_score_, low, high, counted) if counted else None
    truth = data.truth
    left_out = OutOfFold(
        data.measure, data.measure.terms(truth, model.loo_predictions_)[None], np.arange(len(truth))[None]
    )
    return Choice("it", ["it"], model.loo_score_, low, high, len(truth), left_out.within)


def expectation(found: Choice, measure: Measure) -> str:
    """Return the sentence about the expected score.

    >>> found = Choice("it", ["it"], 0.913, 0.84, 0.962, 60)
    >>> expectation(found, Measure("accuracy", "accuracy"))
    'Expect 91.3% right on new rows (90% interval 84.0% to 96.2%, from 60 labelled rows).'
    """
    said = (
        f"Expect {measure.stated(found.expected)} on new rows (90% interval {measure.show(found.low)} to "
        f"{measure.show(found.high)}, from {count(found.n_rows, 'labelled row')})."
    )
    return said if measure.shares else " ".join([said, *distance(found), R2_GLOSS])


def distance(found: Choice) -> list[str]:
    """Return a sentence with the 90% prediction interval of numbers, if it is known."""
    if found.within is None:
        return []
    return [f"Nine of ten new rows are expected within {found.within:.3g} of their prediction."]
