"""The number of directions by cross-validation on the labelled rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, StratifiedKFold

from labelfold.labels import Labels
from labelfold.model_selection import fold_scores, one_standard_error
from labelfold.subspace._space import TrainingData


def choose_components(estimator: Any, data: TrainingData) -> dict[str, Any]:
    """Return the score of each number of directions on held-out labels.

    Folds are stratified by class. Held-out rows stay in training as unlabelled rows. Directions are nested, so one
    fit for each fold serves all candidates. If the labelled rows exceed the memory budget, a random sample of them is
    used. The score of classes and labels is the negative logarithmic loss, of numbers R^2. With few labels the
    accuracy would be equal for many candidates, or differ by one row.

    Parameters
    ----------
    estimator : NestedSubspace
        Its parameters ``candidates``, ``cv``, ``repeats`` and ``one_standard_error`` are used.
    data : TrainingData
        The rows, already read.

    Returns
    -------
    results : dict
        ``n_components`` (m,), ``scores`` (folds, m), ``mean_score``, ``standard_error`` (m,), and ``chosen``.
    """
    candidates = checked_candidates(estimator.candidates)
    labels = data.labels.take(data.drawn)
    Y = data.Y[data.drawn]

    def predict(train: np.ndarray, test: np.ndarray) -> Iterator[np.ndarray]:
        known, found = estimator._pursue(data, data.drawn[train], int(candidates[-1]))
        path, intercepts = estimator._coefficients(found, known)
        Z = data.scores(data.drawn[test], found.W)
        for p in np.minimum(candidates, len(path)):
            yield Z[:, :p] @ path[p - 1, :, :p].T + intercepts[p - 1]

    repeats = estimator.repeats if labels.n_labelled <= 200 else 1
    splits = [_splits(labels, estimator, estimator._seed + i) for i in range(repeats)]
    measure = r2_score if labels.task == "regression" else log_score
    table = fold_scores([split for some in splits for split in some], predict, Y, measure, labels.weights)
    # Repeats use the same rows, so they do not count as more rows in the standard error.
    error = table.std(axis=0, ddof=1) / np.sqrt(len(splits[0]))
    best = one_standard_error(table.T, candidates, 0.0)
    if estimator.one_standard_error:
        best = one_standard_error(table.T, candidates, float(error[best]))
    return {
        "n_components": candidates,
        "scores": table,
        "mean_score": table.mean(axis=0),
        "standard_error": error,
        "chosen": int(candidates[best]),
    }


def log_score(Y: np.ndarray, F: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Return the negative mean logarithmic loss of scores F for signs Y; the log-odds are twice the score.

    >>> round(log_score(np.array([[1.0], [-1.0]]), np.array([[0.0], [0.0]])), 3)
    -0.693
    """
    return -float(np.average(np.logaddexp(0.0, -2 * Y * F).mean(axis=1), weights=sample_weight))


def _splits(labels: Labels, estimator: Any, seed: int) -> Any:
    n = labels.n_labelled
    # R^2 needs two numbers in a fold.
    a_fold = 2 if labels.task == "regression" else 1
    least = max(3, 2 * a_fold)
    if n < least:
        raise ValueError(
            f"n_components='cv' holds out labels and y has {n} labelled row{'s' if n > 1 else ''}; label {least} or "
            "more, or give n_components as a number"
        )
    folds = min(estimator.cv, n // a_fold)
    if labels.task in ("binary", "multiclass") and labels.counts().max() >= 2:
        folds = max(2, min(folds, int(labels.counts().max())))
        splitter: Any = StratifiedKFold(folds, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            # A class with fewer rows than folds is missing in some folds.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            return list(splitter.split(np.zeros(n), labels.values))
    return list(KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n)))


def checked_candidates(candidates: Any) -> np.ndarray:
    """Return candidates as ascending integers, or raise an error if they are not valid."""
    values = np.arange(1, int(candidates) + 1) if isinstance(candidates, Integral) else np.asarray(candidates)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu" or values.min() < 1:
        raise ValueError(
            f"candidates={candidates!r} was given, where whole numbers of at least 1 are expected, such as "
            f"32 for 1 to 32, or (2, 4, 8)"
        )
    return np.unique(values).astype(int)
