"""The engine of cross-validated choices: candidates predict labelled rows that are held out of their fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

Split = tuple[np.ndarray, np.ndarray]
# Takes the labelled rows of training and those held out; returns the predictions of each candidate, or None if the
# fold cannot be fitted.
Predict = Callable[[np.ndarray, np.ndarray], Iterable[np.ndarray] | None]


def _folds(splits: Iterable[Split], predict: Predict) -> Iterator[tuple[np.ndarray, Iterable[np.ndarray]]]:
    for train, test in splits:
        found = predict(train, test)
        if found is not None:
            yield test, found


def fold_scores(
    splits: Iterable[Split], predict: Predict, truth: np.ndarray, measure: Callable[..., Any]
) -> np.ndarray:
    """Return the score of each candidate in each fold, (folds, candidates), without folds that cannot be fitted.

    >>> fold_scores([([0], [1])], lambda train, test: [[3], [4]], np.array([4, 4]), lambda y, z: (y == z).all())
    array([[0., 1.]])
    """
    return np.array(
        [[float(measure(truth[test], y)) for y in found] for test, found in _folds(splits, predict)]
    )


def left_out_guesses(
    splits: Iterable[Split], predict: Predict, truth: np.ndarray, n_candidates: int = 1
) -> np.ndarray:
    """Return the out-of-fold predictions of each candidate, (candidates, l, ...); 0 for rows never held out.

    >>> left_out_guesses([([0], [1])], lambda train, test: [[3]], np.array([4.0, 4.0])).tolist()
    [[0.0, 3.0]]
    """
    guessed = np.zeros((n_candidates, *truth.shape))
    for test, found in _folds(splits, predict):
        for i, y in enumerate(found):
            guessed[i, test] = y
    return guessed


def best_candidate(scores: np.ndarray, simplicity: Sequence[float] | np.ndarray) -> int:
    """Return the index of the candidate with the highest mean of (folds, candidates); ties go to the simplest.

    >>> best_candidate(np.array([[0.7, 0.9, 0.9]]), [1, 2, 3])
    2
    """
    means = scores.mean(axis=0)
    best = np.flatnonzero(means >= means.max() - 1e-12)
    return int(best[np.argmax(np.asarray(simplicity)[best])])
