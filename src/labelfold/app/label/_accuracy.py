"""Estimates of the accuracy from the answers: now, its history, a forecast; and doubtful labels.

Only random questions count, by the prediction made before the row was labelled. The learning curve is a power law:
with l labels the error is

    q(l) = e ((L + 5) / (l + 5))^b,

where L is the number of labels now, e the error now, and b is between 0 and 3. A prediction made with l labels is
wrong with probability q(l), and has the weight (l + 5) / (L + 5). The posterior of e and b is computed on a grid. The
estimate is its mean, and the 90% interval leaves out 5% on either side. A forecast is q at more labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from labelfold import LabelFold
from labelfold.app.compare import HeldOutPredictions

# The grid of the posterior: values of the current error, and of the power. Between neighbouring errors the accuracy
# changes by 1.5 points at most. experiments/labelling.py measures how often the interval holds; with powers up to 1.5
# it held too seldom after five to seven random rows.
_LOG_ERROR = np.log(np.concatenate([np.geomspace(5e-4, 0.05, 30), np.linspace(0.055, 0.95, 60)]))
_POWER = np.linspace(0.0, 3.0, 13)

# The shift of the number of labels, chosen with experiments/labelling.py. The largest error is below 1, so that an
# early prediction may be right under every curve.
_SHIFT, _MAX_ERROR = 5.0, 0.97


@dataclass(frozen=True)
class Answer:
    """One answered question.

    Attributes
    ----------
    row : int
    label : str
    predicted : str or None
        The prediction before the answer; None if there was no model yet.
    confidence : float
    how : str
        How the row was chosen. Only rows with "random" measure the accuracy.
    n_labels : int
        Number of labels before the answer.
    """

    row: int
    label: str
    predicted: str | None
    confidence: float
    how: str
    n_labels: int


@dataclass(frozen=True)
class Expected:
    """An estimated accuracy.

    Attributes
    ----------
    value, low, high : float
        The accuracy, and a 90% interval.
    n : int
        Number of random rows that it is estimated from.
    labels : int
        The number of labels for which it holds.
    """

    value: float
    low: float
    high: float
    n: int
    labels: int


@dataclass(frozen=True)
class DoubtfulLabel:
    """A label that leave-one-out contradicts with high confidence.

    Attributes
    ----------
    row : int
    label, predicted : str
        The label, and the prediction without it.
    confidence : float
    """

    row: int
    label: str
    predicted: str
    confidence: float


def expected(answers: Sequence[Answer]) -> Expected | None:
    """Return the estimated accuracy of the current model on unlabelled rows; None if there are no random questions.

    Earlier predictions come from a model with fewer labels. The power law of the module corrects for that.
    """
    return _at(tuple(_random(answers)), _labels(answers), 0)


def curve(answers: Sequence[Answer], points: int = 40) -> list[Expected]:
    """Return the estimated accuracy after random answers, at so many points at most."""
    pairs = _random(answers)
    stops = np.unique(np.linspace(1, len(pairs), min(len(pairs), points)).astype(int))
    found = [_at(tuple(pairs[:stop]), pairs[stop - 1][0] + 1, 0) for stop in stops if stop <= len(pairs)]
    return [one for one in found if one is not None]


def forecast(answers: Sequence[Answer], more: int = 20, rows: int = 5) -> Expected | None:
    """Return the estimated accuracy with more labels; None if there are fewer than ``rows`` random rows."""
    pairs = _random(answers)
    return _at(tuple(pairs), _labels(answers), more) if len(pairs) >= rows else None


def _random(answers: Sequence[Answer]) -> list[tuple[int, bool]]:
    """Return, for each random row with a prediction, the number of labels then, and whether it was right."""
    some = (a for a in answers if a.how == "random" and a.predicted is not None)
    return [(a.n_labels, a.label == a.predicted) for a in some]


def _labels(answers: Sequence[Answer]) -> int:
    return answers[-1].n_labels + 1 if answers else 0


@lru_cache(maxsize=1024)
def _at(pairs: tuple[tuple[int, bool], ...], labels: int, more: int) -> Expected | None:
    """Return the accuracy with ``more`` further labels, given earlier predictions."""
    if not pairs:
        return None
    then, right = np.array(pairs).T
    gone = np.log((labels + _SHIFT) / (then + _SHIFT))
    q = np.minimum(np.exp(_LOG_ERROR[:, None, None] + _POWER[:, None] * gone), _MAX_ERROR)  # (e, b, n)
    weight = np.exp(-gone)
    fit = (weight * np.where(right, np.log1p(-q), np.log(q))).sum(axis=2) + _log_prior()
    p = np.exp(fit - fit.max())
    p /= p.sum()
    fall = _POWER * np.log((labels + more + _SHIFT) / (labels + _SHIFT))
    error = np.exp(_LOG_ERROR[:, None] - fall)
    order = np.argsort(error, axis=None)
    error, p = error.ravel()[order], p.ravel()[order]
    below = np.cumsum(p) - p / 2
    high, low = 1 - np.interp([0.05, 0.95], below, error)
    high = 1.0 if right.all() else high
    low = 0.0 if not right.any() else low
    return Expected(float(1 - p @ error), float(low), float(high), len(pairs), labels + more)


@cache
def _log_prior() -> np.ndarray:
    """Return the logarithm of the prior on the grid: Jeffreys' for the error, uniform for the power."""
    error = np.exp(_LOG_ERROR)
    return (np.log(np.gradient(error)) - (_LOG_ERROR + np.log1p(-error)) / 2)[:, None]


def doubtful_labels(fold: LabelFold, labels: Any) -> list[DoubtfulLabel]:
    """Return labels that leave-one-out contradicts with high confidence, highest first.

    The only label of a class is never returned, since its class cannot be predicted without it.

    Parameters
    ----------
    fold : LabelFold
        Fitted with these labels.
    labels : ndarray of shape (n,)
        Labels as text, None where there is none.
    """
    rows = np.flatnonzero([label is not None for label in labels])
    own = np.array([str(labels[i]) for i in rows])
    said, sure = np.asarray(fold.loo_predictions_).astype(str), np.asarray(fold.loo_confidence_)
    _, kind, count = np.unique(own, return_inverse=True, return_counts=True)
    held_out = HeldOutPredictions(said, sure, count[kind] > 1, "leaving out one row at a time")
    return [
        DoubtfulLabel(int(rows[i]), str(own[i]), str(said[i]), float(sure[i])) for i in held_out.doubtful(own)
    ]
