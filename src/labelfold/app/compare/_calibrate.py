"""Calibration: turns the scores of a model into the probability that its prediction is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from labelfold.app.compare._explain import last_step

if TYPE_CHECKING:
    from labelfold.app.compare._expect import HeldOut

# Standard deviations of the normal priors on log a and b, in the unit of the median gap.
_SPREAD_SLOPE, _SPREAD_INTERCEPT = 1.0, 1.0


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
