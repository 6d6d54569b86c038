"""The score to expect of one method on new rows, from predictions of labelled rows whose label was held back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from labelfold.app.compare._choice import Choice, OutOfFold, choose
from labelfold.app.compare._data import Data
from labelfold.app.compare._splits import fold_of_rows, fold_splits
from labelfold.app.compare._words import percent
from labelfold.app.io._problems import count


def expected(make: Callable[[Any], Any], data: Data, seed: int) -> Choice | None:
    """Return what to expect of a method by one round of folds; None where no labelled row can be held back.

    Parameters
    ----------
    make : callable
        ``make(X)`` gives the estimator for some rows.
    data : Data
        Rows and labels.
    seed : int
        Of the folds.
    """
    measure, truth = data.measure, data.y[data.labels.index]
    guess, place = np.zeros_like(truth), np.full(data.X.shape[0], -1)
    place[data.labels.index] = np.arange(len(truth))
    split = next(fold_splits(data, 1, seed), None)
    if split is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit that is kept says what matters
        for part in split.parts:
            rows = data.X[part.train]
            guess[place[part.test]] = make(rows).fit(rows, part.y).predict(data.X[part.test])
    terms = measure.terms(truth, guess)[None]
    return choose({"it": OutOfFold(measure, terms, fold_of_rows(data, 1, seed))}, [], seed)


def expectation(score: float, low: float, high: float, n_rows: int, unit: str) -> str:
    """Say what to expect.

    >>> expectation(0.913, 0.84, 0.962, 60, "right")
    'Expect 91.3% right on new rows (90% interval 84.0% to 96.2%, from 60 labelled rows).'
    """
    return (
        f"Expect {percent(score)} {unit} on new rows (90% interval {percent(low)} to {percent(high)}, from "
        f"{count(n_rows, 'labelled row')})."
    )
