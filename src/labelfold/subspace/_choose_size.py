"""The number of directions, by cross-validation over nested subspaces with one fit for each fold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from labelfold._decisions import decide, measure_of
from labelfold.labels import Labels
from labelfold.model_selection._choosing import best_candidate, fold_scores
from labelfold.model_selection._scoring import one_standard_error
from labelfold.subspace._source import Source

CANDIDATES = (2, 4, 8, 16, 32)


def choose_components(estimator: Any, source: Source) -> dict[str, Any]:
    """Return the score of each number of directions on held-out labels.

    Folds are stratified by class. Held-out rows stay in training as unlabelled rows. Directions are nested, so one
    fit for each fold serves all candidates. If the labelled rows exceed the memory budget, a random sample of them is
    used.

    Parameters
    ----------
    estimator : NestedSubspace
        Its parameters ``candidates``, ``cv`` and ``one_standard_error`` are used.
    source : Source
        The rows, already read.

    Returns
    -------
    results : dict
        ``n_components`` (m,), ``scores`` (folds, m), ``mean_score``, ``standard_error`` (m,), and ``chosen``.
    """
    candidates = checked_candidates(estimator.candidates)
    labels = source.labels.take(source.drawn)

    def predict(train: np.ndarray, test: np.ndarray) -> Iterator[np.ndarray]:
        known, found = estimator._pursue(source, source.drawn[train], int(candidates[-1]))
        path, intercepts = estimator._coefficients(found, known)
        Z = source.scores(source.drawn[test], found.W)
        for p in np.minimum(candidates, len(path)):
            F = Z[:, :p] @ path[p - 1, :, :p].T + intercepts[p - 1]
            yield decide(F, labels.task, labels.values.ndim == 1, labels.classes)

    truth = labels.decode(labels.values)
    table = fold_scores(_splits(labels, estimator), predict, truth, measure_of(labels.task))
    best = best_candidate(table, -candidates)
    if estimator.one_standard_error:
        best = one_standard_error(table.T, candidates)
    return {
        "n_components": candidates,
        "scores": table,
        "mean_score": table.mean(axis=0),
        "standard_error": table.std(axis=0, ddof=1) / np.sqrt(len(table)),
        "chosen": int(candidates[best]),
    }


def _splits(labels: Labels, estimator: Any) -> Any:
    n = labels.n_labelled
    # R^2 needs two numbers in a fold.
    a_fold = 2 if labels.task == "regression" else 1
    least = max(3, 2 * a_fold)
    if n < least:
        raise ValueError(
            f"n_components='cv' holds out labels and y has {n} labelled row{'s' if n > 1 else ''}; label {least} or "
            "more, or give n_components as a number"
        )
    seed = estimator._seed
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
    values = np.asarray(candidates)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu" or values.min() < 1:
        raise ValueError(
            f"candidates={candidates!r} was given, where whole numbers of at least 1 are expected, such as "
            f"{CANDIDATES}"
        )
    return np.unique(values).astype(int)
