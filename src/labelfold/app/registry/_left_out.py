"""How well a classifier predicts labelled rows that were left out of its fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from labelfold.app.registry._multilabel import right
from labelfold.labels import Labels
from labelfold.model_selection import SemiSupervisedKFold


def left_out_splits(
    known: np.ndarray, cv: int, seed: int | None
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Cut labelled rows into folds; a class with one label keeps it in every fold.

    Parameters
    ----------
    known : ndarray of shape (l,) or (l, c)
        Class codes, or 0 and 1 for several labels a row.
    cv : int
        Folds, fewer where a class has fewer labels.
    seed : int, optional
        Seed of the folds.

    Returns
    -------
    splits : list of (train, test)
        Places among the labelled rows; none where less than half of the rows can be left out.
    tested : ndarray of bool of shape (l,)
        Which rows are left out once.
    """
    tested = np.ones(len(known), dtype=bool)
    if known.ndim == 1:
        counts = np.bincount(known)
        cv = int(counts[counts > 1].min(initial=cv))
        tested = counts[known] > 1
    if 2 * tested.sum() < len(known):
        return [], tested
    splitter = SemiSupervisedKFold(cv, shuffle=True, random_state=seed)
    try:
        return list(splitter.split(None, known)), tested
    except ValueError:  # so few rows with several labels each that none can be spared
        return [], tested


def size_without_folds(labels: Labels, sizes: Sequence[int]) -> int:
    """Return a number of components where no label can be spared: one more than classes, the largest size at most.

    With one label a class, more components than that only add what rows of a class differ in. On nine tables
    (Digit1, waveform, image, pima, COIL, USPS, 4 against 9 of MNIST, two of newsgroups) it is 4 points better than 20
    in the mean.
    """
    return min(labels.n_classes + 1, max(sizes))


def left_out_score(classifier: Any, Z: np.ndarray, known: np.ndarray) -> float:
    """Return the share of rows that a classifier has right when they are left out; of a tuned one, that of the best.

    Parameters
    ----------
    classifier : classifier
        Not fitted; `Tuned`, or any other.
    Z : ndarray of shape (l, k)
        The labelled rows.
    known : ndarray of shape (l,) or (l, c)
        Their class codes, or 0 and 1 for several labels a row.

    Returns
    -------
    score : float
        0 where no row can be left out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is said once, by the fit that is kept
        if hasattr(classifier, "grid"):
            return float(clone(classifier).fit(Z, known).scores_.max(initial=0.0))
        splits, tested = left_out_splits(known, 5, 0)
        guessed = np.zeros(known.shape)
        for train, test in splits:
            guessed[test] = clone(classifier).fit(Z[train], known[train]).predict(Z[test])
    return right(known[tested], guessed[tested]) if splits else 0.0
