"""Reads out-of-fold predictions of the labelled rows from the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labelfold.app.compare._choice import OutOfFold
from labelfold.app.compare._measure import Measure
from labelfold.app.compare._splits import fold_of_rows, from_text

if TYPE_CHECKING:
    from labelfold.app.compare._data import Data
    from labelfold.app.compare._plan import Run


def out_of_fold(
    data: Data, measure: Measure, rows: list[dict[str, Any]], runs: list[Run], repeats: int, seed: int
) -> dict[Run, OutOfFold]:
    """Return the out-of-fold predictions of the runs that finished ``repeats`` repeats."""
    pairs = {(run.method.name, run.k): run for run in runs}
    found = predictions_of(data, measure, rows, list(pairs), repeats, seed)
    return {pairs[pair]: one for pair, one in found.items() if len(one.terms) == repeats}


def predictions_of(
    data: Data, measure: Measure, rows: list[dict[str, Any]], pairs: list[tuple], repeats: int, seed: int
) -> dict[tuple, OutOfFold]:
    """Return the out-of-fold predictions of (method, size) pairs, with the repeats that each has."""
    fold, truth = fold_of_rows(data, repeats, seed), data.truth
    cells = {
        (row["method"], whole(row["k"]), int(row["repeat"])): row["predicted"]
        for row in rows
        if row["budget"] == data.labels.n_labelled and isinstance(row["predicted"], str)
    }
    found = {}
    for pair in pairs:
        terms: list[np.ndarray] = []
        while (*pair, len(terms)) in cells and len(terms) < repeats:
            held = fold[len(terms)] >= 0
            guess = np.zeros_like(truth)
            guess[held] = from_text(cells[*pair, len(terms)], truth)
            terms.append(measure.terms(truth, guess))
        if terms:
            found[pair] = OutOfFold(measure, np.array(terms), fold[: len(terms)])
    return found


def whole(value: Any) -> int | None:
    """Return a cell of a table as int, None if it is missing."""
    import pandas as pd

    return None if pd.isna(value) else int(value)
