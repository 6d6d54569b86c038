"""Predictions of CCA, OPLS and HSL: a regression of the label columns on the embedding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labelfold.base import Decisions, RowsEstimator, indicator_scores
from labelfold.discriminant._second_stage import Directions, Seen
from labelfold.rows import Rows


class RegressionHead(Decisions, RowsEstimator):
    """Least squares of the label columns on the embedding: ``Y ~ Z coef_.T + intercept_``."""

    _target_gap = 1.0
    _embedded: Callable[[Rows], np.ndarray]  # from `LinearReducer`

    def _fit_head(self, found: Directions, seen: Seen) -> None:
        ((ZtZ, ZtY),) = seen.regression(found)
        if not np.isfinite(ZtZ).all():  # LAPACK would print a message
            raise OverflowError("products of embedded rows overflow")
        self.coef_ = np.linalg.lstsq(ZtZ, ZtY, rcond=None)[0].T
        self.intercept_ = seen.y_mean
        self._keep_task(seen.task, seen.classes, seen.flat)

    def _score_rows(self, rows: Rows) -> np.ndarray:
        return indicator_scores(self._embedded(rows) @ self.coef_.T + self.intercept_, self.task_)
