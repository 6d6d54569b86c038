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
from labelfold.model_selection._choosing import left_out_guesses


def left_out_splits(
    known: np.ndarray, cv: int, seed: int | None
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Cut labelled rows into folds; a class with one label keeps it in every fold.

    Parameters
    ----------
    known : ndarray of shape (l,) or (l, c)
        Class codes, numbers, or 0 and 1 for several labels a row.
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
    numbers = known.ndim == 1 and known.dtype.kind == "f"
    if known.ndim == 1 and not numbers:
        counts = np.bincount(known)
        cv = int(counts[counts > 1].min(initial=cv))
        tested = counts[known] > 1
    if 2 * tested.sum() < len(known):
        return [], tested
    task = "regression" if numbers else "classification"
    splitter = SemiSupervisedKFold(min(cv, len(known)), shuffle=True, random_state=seed, task=task)
    try:
        return list(splitter.split(None, known)), tested
    except ValueError:  # so few rows that none can be spared
        return [], tested


def size_without_folds(labels: Labels, candidates: Sequence[Any]) -> Any:
    """Return a number of components where no label can be spared: one more than classes, the largest size at most.

    Where candidates are lists, that is the first of their items; the others are those of the first list.

    With one label a class, more components than that only add what rows of a class differ in. On nine tables
    (Digit1, waveform, image, pima, COIL, USPS, 4 against 9 of MNIST, two of newsgroups) it is 4 points better than 20
    in the mean.
    """
    lists = [one if isinstance(one, list) else [one] for one in candidates]
    found = [min(max(labels.n_classes + 1, 2), max(one[0] for one in lists)), *lists[0][1:]]
    return found if isinstance(candidates[0], list) else found[0]


def left_out_score(classifier: Any, Z: np.ndarray, known: np.ndarray) -> float:
    """Return how well a classifier predicts rows that are left out (see `right`); of a tuned one, the best score.

    Parameters
    ----------
    classifier : classifier
        Not fitted; `Tuned`, or any other.
    Z : ndarray of shape (l, k)
        The labelled rows.
    known : ndarray of shape (l,) or (l, c)
        Their class codes, numbers, or 0 and 1 for several labels a row.

    Returns
    -------
    score : float
        Minus infinity where no row can be left out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is said once, by the fit that is kept
        if hasattr(classifier, "grid"):
            return float(clone(classifier).fit(Z, known).scores_.max(initial=-np.inf))
        splits, tested = left_out_splits(known, 5, 0)

        def predict(train: np.ndarray, test: np.ndarray) -> list[np.ndarray]:
            return [clone(classifier).fit(Z[train], known[train]).predict(Z[test])]

        (guessed,) = left_out_guesses(splits, predict, known)
    return right(known[tested], guessed[tested]) if splits else -np.inf
