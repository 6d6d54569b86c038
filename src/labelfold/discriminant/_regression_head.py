"""What CCA, OPLS and HSL predict: the label columns, regressed on the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold._base import RowsEstimator
from labelfold._decisions import Decisions, indicator_scores
from labelfold.discriminant._second_stage import Directions, Seen
from labelfold.rows import Block, Rows


class RegressionHead(Decisions, RowsEstimator):
    """Least squares of the label columns on the embedding: ``Y ~ Z coef_.T + intercept_``."""

    _target_gap = 1.0

    def _fit_head(self, found: Directions, seen: Seen) -> None:
        ((ZtZ, ZtY),) = seen.regression(found)
        if not np.isfinite(ZtZ).all():  # LAPACK would write to the terminal
            raise OverflowError("products of embedded rows overflow")
        self.coef_ = np.linalg.lstsq(ZtZ, ZtY, rcond=None)[0].T
        self.intercept_ = seen.y_mean
        self._keep_task(seen.task, seen.classes, seen.flat)

    def _score_rows(self, rows: Rows) -> np.ndarray:
        rows = self._seen(rows)
        shared = (self.components_.T, self.mean_, self.coef_.T, self.intercept_)
        Y = np.asarray(rows.get(rows.map(affine, shared=shared)), dtype=np.float64)
        return indicator_scores(Y, self.task_)


def affine(X: Block, W: Any, mean: Any, A: Any, b: Any) -> Any:
    """Return an affine function of the embedding."""
    return (X.shift(mean) @ W) @ A + b
