"""Probabilities and honest scores from leave-one-out scores."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logsumexp
from sklearn.metrics import r2_score

# The 97.5 % point of the normal distribution, for 95 % intervals.
_NORMAL = 1.959963984540054

# exp(a F) beyond this says nothing more.
_LOG_STEEPNESS = (-2.0, 7.0)


def steepness(F: np.ndarray, Y: np.ndarray) -> float:
    """Return a > 0 such that softmax(a F) is the most likely of the classes Y (l, c), given left-out scores F.

    As in Platt's method a class counts with a little less than 1, so that scores without an error stay finite.
    """
    n, c = Y.shape
    targets = (Y * n + 1 / c) / (n + 1)

    def loss(log_a: float) -> float:
        A = np.exp(log_a) * F
        return float(-(targets * (A - logsumexp(A, axis=1, keepdims=True))).sum())

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_STEEPNESS, method="bounded").x))


def logistic(F: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    """Return a, b such that 1 / (1 + exp(-a F - b)) is the most likely of the labels Y, all columns together."""
    f, y = F.ravel(), Y.ravel()
    targets = np.where(y > 0, (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2))

    def loss(ab: np.ndarray) -> tuple[float, np.ndarray]:
        z = np.exp(ab[0]) * f + ab[1]
        gap = expit(z) - targets
        slope = np.array([(gap * f).sum() * np.exp(ab[0]), gap.sum()])
        return float((np.logaddexp(0, z) - targets * z).sum()), slope

    found = minimize(
        loss, np.array([1.0, -1.0]), jac=True, method="L-BFGS-B", bounds=[_LOG_STEEPNESS, (-1e4, 1e4)]
    )
    return float(np.exp(found.x[0])), float(found.x[1])


def accuracy_interval(right: np.ndarray) -> tuple[float, float, float]:
    """Return the share of rows that are right, and its 95 % interval (Wilson's)."""
    n, p = len(right), float(np.mean(right))
    z2 = _NORMAL**2 / n
    middle = (p + z2 / 2) / (1 + z2)
    half = _NORMAL * np.sqrt(p * (1 - p) / n + z2 / (4 * n)) / (1 + z2)
    return p, max(0.0, middle - half), min(1.0, middle + half)


def r2_interval(truth: np.ndarray, guess: np.ndarray) -> tuple[float, float, float]:
    """Return R^2 of left-out predictions, and its 95 % interval over rows drawn again (bootstrap)."""
    rng = np.random.default_rng(0)
    values = []
    for _ in range(200):
        drawn = rng.integers(0, len(truth), len(truth))
        if np.ptp(truth[drawn], axis=0).all():
            values.append(r2_score(truth[drawn], guess[drawn]))
    own = r2_score(truth, guess) if len(truth) > 1 else np.nan
    low, high = np.quantile(values, [0.025, 0.975]) if values else (own, own)
    return float(own), float(low), float(high)
