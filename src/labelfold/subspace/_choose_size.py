"""How many directions: cross-validation over nested subspaces, one fit a fold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, StratifiedKFold

from labelfold.labels import Labels
from labelfold.model_selection._choosing import best_candidate, fold_scores
from labelfold.model_selection._scoring import one_standard_error
from labelfold.subspace._source import Source

# The most directions to choose from, and how often folds are drawn, up to so many labelled rows.
CANDIDATES, REPEATS, FEW = 32, 3, 200


def choose_components(estimator: Any, source: Source) -> dict[str, Any]:
    """Return how well each number of directions predicts labels that were held out.

    Folds are stratified by class. Rows of the fold that is held out stay in training as unlabelled ones. Directions
    are nested, so that one fit a fold serves all candidates. Where the labelled rows exceed the memory budget, a
    random sample of them is used. Classes and labels are scored by the logarithmic loss, numbers by R^2: with few
    labels accuracies of many candidates are equal, or differ by one row.

    Parameters
    ----------
    estimator : NestedSubspace
        Its parameters say how: ``candidates``, ``cv``, ``repeats``, ``one_standard_error``.
    source : Source
        The rows, already read.

    Returns
    -------
    results : dict
        ``n_components`` (m,), ``scores`` (folds, m), ``mean_score``, ``standard_error`` (m,), and ``chosen``.
    """
    candidates = checked_candidates(estimator.candidates)
    labels = source.labels.take(source.drawn)
    Y = source.Y[source.drawn]

    def predict(train: np.ndarray, test: np.ndarray) -> Iterator[np.ndarray]:
        known, found = estimator._pursue(source, source.drawn[train], int(candidates[-1]))
        path, intercepts = estimator._coefficients(found, known)
        Z = source.scores(source.drawn[test], found.W)
        for p in np.minimum(candidates, len(path)):
            yield Z[:, :p] @ path[p - 1, :, :p].T + intercepts[p - 1]

    repeats = estimator.repeats if labels.n_labelled <= FEW else 1
    splits = [_splits(labels, estimator, estimator._seed + i) for i in range(repeats)]
    measure = r2_score if labels.task == "regression" else log_score
    table = fold_scores([split for some in splits for split in some], predict, Y, measure)
    # Repeats share their rows: they steady the mean, and do not count as more rows.
    error = table.std(axis=0, ddof=1) / np.sqrt(len(splits[0]))
    best = best_candidate(table, -candidates)
    if estimator.one_standard_error:
        best = one_standard_error(table.T, candidates, float(error[best]))
    return {
        "n_components": candidates,
        "scores": table,
        "mean_score": table.mean(axis=0),
        "standard_error": error,
        "chosen": int(candidates[best]),
    }


def log_score(Y: np.ndarray, F: np.ndarray) -> float:
    """Return less the mean logarithmic loss of scores F for signs Y; least-squares scores are half their log-odds.

    >>> round(log_score(np.array([[1.0], [-1.0]]), np.array([[0.0], [0.0]])), 3)
    -0.693
    """
    return -float(np.logaddexp(0.0, -2 * Y * F).mean())


def _splits(labels: Labels, estimator: Any, seed: int) -> Any:
    n = labels.n_labelled
    # R^2 needs two numbers a fold.
    a_fold = 2 if labels.task == "regression" else 1
    least = max(3, 2 * a_fold)
    if n < least:
        raise ValueError(
            f"n_components='cv' holds back labels and y has {n} labelled row{'s' if n > 1 else ''}; label {least} or "
            "more, or give n_components as a number"
        )
    folds = min(estimator.cv, n // a_fold)
    if labels.task in ("binary", "multiclass") and labels.counts().max() >= 2:
        folds = max(2, min(folds, int(labels.counts().max())))
        splitter: Any = StratifiedKFold(folds, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            # A class with fewer rows than folds is absent from some folds.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            return list(splitter.split(np.zeros(n), labels.values))
    return list(KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n)))


def checked_candidates(candidates: Any) -> np.ndarray:
    """Return candidates as ascending integers, or say what is wrong with them."""
    values = np.arange(1, int(candidates) + 1) if isinstance(candidates, Integral) else np.asarray(candidates)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu" or values.min() < 1:
        raise ValueError(
            f"candidates={candidates!r} was given, where whole numbers of at least 1 are expected, such as "
            f"{CANDIDATES} for 1 to {CANDIDATES}, or (2, 4, 8)"
        )
    return np.unique(values).astype(int)
