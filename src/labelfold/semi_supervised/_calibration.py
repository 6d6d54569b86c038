"""Probabilities and the expected score of a classifier, from the scores of labelled rows that were left out."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logsumexp
from scipy.stats import beta, norm
from sklearn.metrics import r2_score

from labelfold.labels import Labels
from labelfold.model_selection import Groups

# Effective number of new rows that a left-out row counts for. How often intervals with this and
# the next constant hold the true score is measured by experiments/label_fold.py and experiments/regression.py.
_EFFECTIVE = 0.8
# Factor by which a bootstrap interval for R^2 is widened.
R2_WIDER = 1.5
# Bounds of the logarithm of the steepness, so that a minimum exists if all left-out rows are right.
_LOG_STEEPNESS = (-2.0, 7.0)


def calibrate(
    F: np.ndarray, labels: Labels, groups: Groups, loss_weights: np.ndarray | None = None
) -> tuple[float, float, tuple[float, float, float]]:
    """Return the steepness and the shift of scores, and the expected score with its interval.

    Parameters
    ----------
    F : ndarray of shape (l, c)
        The scores of the labelled rows, each left out with its group.
    labels : Labels
        Their weights are those of the expected score.
    groups : Groups
        Of the labelled rows.
    loss_weights : ndarray of shape (l,), optional
        Weights of the rows in the fit of probabilities; all are 1 when None.

    Returns
    -------
    steepness : float
        Probabilities are as likely as they say for scores times this number.
    shift : float
        Added to the scores of several labels a row, after which their sign decides; 0 otherwise.
    expected : tuple of float
        The accuracy, or R^2, and an interval for it on other rows.
    """
    w = labels.weights
    if labels.task == "regression":
        return 1.0, 0.0, r2_interval(labels.columns(), F, groups, w)
    if labels.task == "multilabel":
        Y = labels.columns()
        slope, offset = logistic(F, Y, loss_weights)
        right = ((F + offset / slope > 0) == (Y > 0)).all(axis=1)
        return slope, offset / slope, accuracy_interval(right, groups, w)
    # A class that is in no other group cannot be predicted without the group.
    known = groups.n_groups_by_class(labels.values)[labels.values] > 1
    if not groups.are_single and len(np.unique(labels.values[known])) < 2:
        known[:] = False  # the accuracy within one class says nothing
    F, codes = by_class(F)[known], labels.values[known]
    w, loss_weights = (None if some is None else some[known] for some in (w, loss_weights))
    interval = accuracy_interval(F.argmax(axis=1) == codes, groups.take(known), w)
    return steepness(F, codes, loss_weights), 0.0, interval


def by_class(F: np.ndarray) -> np.ndarray:
    """Return one score for each class; for two classes F has a single column."""
    return np.hstack([-F, F]) / 2 if F.shape[1] == 1 else F


def steepness(
    F: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    median: float = 4.0,
    deviation: float = 0.3,
) -> float:
    """Return a > 0 that maximises the posterior of softmax(a F), given leave-one-out scores F (l, c) and classes.

    log a has a normal prior around log(median), so that few rows, or only correct ones, do not lead to extreme
    values. Rows have weights (l,); all are 1 when None.
    """
    w = np.ones(len(codes)) if weights is None else weights

    def loss(log_a: float) -> float:
        A = np.exp(log_a) * F
        fit = A[np.arange(len(codes)), codes] - logsumexp(A, axis=1)
        return float(-(w @ fit) + ((log_a - np.log(median)) / deviation) ** 2 / 2)

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_STEEPNESS, method="bounded").x))


def logistic(F: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Return a, b that maximise the likelihood of 1 / (1 + exp(-a F - b)) given labels Y, all columns together."""
    f, y = F.ravel(), Y.ravel()
    w = np.ones(len(y)) if weights is None else np.repeat(weights, F.shape[1])
    positive, negative = w @ y, w @ (1 - y)
    targets = np.where(y > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))

    def loss(ab: np.ndarray) -> tuple[float, np.ndarray]:
        z = np.exp(ab[0]) * f + ab[1]
        gap = w * (expit(z) - targets)
        slope = np.array([(gap * f).sum() * np.exp(ab[0]), gap.sum()])
        return float(w @ (np.logaddexp(0, z) - targets * z)), slope

    found = minimize(
        loss, np.array([1.0, -1.0]), jac=True, method="L-BFGS-B", bounds=[_LOG_STEEPNESS, (-1e4, 1e4)]
    )
    return float(np.exp(found.x[0])), float(found.x[1])


def accuracy_interval(
    right: np.ndarray, groups: Groups, weights: np.ndarray | None = None
) -> tuple[float, float, float]:
    """Return the share of rows that are right, and an interval for it.

    It is the 90 % interval of Clopper and Pearson for four fifths of the rows, since left-out rows are less
    informative than new ones. It covered the accuracy on other rows in 87 to 91 of 100 cases
    (experiments/label_fold.py). Rows of a group, and rows of unequal weights, count for as many as are independent.
    """
    if not len(right):
        return np.nan, 0.0, 1.0
    rows = _EFFECTIVE * groups.effective(right.astype(float), weights)
    share = float(np.average(right, weights=weights))
    hits = rows * share
    low = beta.ppf(0.05, hits, rows - hits + 1) if hits > 0 else 0.0
    high = beta.ppf(0.95, hits + 1, rows - hits) if hits < rows else 1.0
    return share, float(low), float(high)


def r2_interval(
    truth: np.ndarray,
    guess: np.ndarray,
    groups: Groups,
    weights: np.ndarray | None = None,
    n_draws: int = 300,
) -> tuple[float, float, float]:
    """Return R^2 of left-out predictions (l, t), mean over the targets, and an interval for it.

    It extends 1.645 bootstrap standard deviations to each side, times 1.5, since the model was also fitted to the
    labelled rows. The bootstrap draws whole groups.
    It covered R^2 on other rows in 89 of 100 cases (experiments/regression.py).
    """
    n = len(truth)
    w = np.ones(n) if weights is None else weights
    own = float(r2_score(truth, guess, sample_weight=weights)) if n > 1 else np.nan
    g = len(groups)
    drawn = np.random.default_rng(0).multinomial(g, np.full(g, 1 / g), size=n_draws)[:, groups.codes] * w
    centred = truth - np.average(truth, axis=0, weights=weights)
    lost = drawn @ (truth - guess) ** 2
    total = drawn @ centred**2 - (drawn @ centred) ** 2 / drawn.sum(axis=1, keepdims=True)
    kept = (total > np.finfo(np.float64).eps * w.sum() * (centred**2).max(initial=0)).all(axis=1)
    values = 1 - (lost[kept] / total[kept]).mean(axis=1)
    if len(values) < n_draws / 2:  # with few rows most draws repeat a single row
        return own, -np.inf, 1.0
    half = norm.ppf(0.95) * R2_WIDER * values.std()
    return own, float(own - half), float(min(own + half, 1.0))
