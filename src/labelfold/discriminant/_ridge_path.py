"""A path of ridges at the cost of one or two fits, and the choice of a ridge by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from labelfold.base import RowsEstimator, labelled_rows, measure_of
from labelfold.discriminant._second_stage import Directions
from labelfold.features import kernel_map
from labelfold.labels import Labels
from labelfold.model_selection import SemiSupervisedKFold, best_candidate, fold_scores
from labelfold.numerics import nonnegative_numbers, row_spread
from labelfold.rows import Rows

N_FOLDS = 5
# Candidates of ridge="cv", as multiples of the mean squared deviation of a labelled row.
CV_GRID = tuple(10.0 ** np.arange(-4, 4.5, 1.0))


class RidgePath(RowsEstimator):
    """The part of the two-stage methods that handles several ridges."""

    def path(self, X: Any, y: Any, ridges: Sequence[float]) -> list[Self]:
        """Fit one model for each of several ridges, at the cost of one or two fits.

        The rows are read once for all ridges. Iterations share one Krylov space. If a matrix is factorised instead,
        five ridges or more share one reduction of it to band form.

        Parameters
        ----------
        X, y
            As in `fit`.
        ridges : sequence of float
            The ridges.

        Returns
        -------
        models : list of estimators
            One fitted model for each ridge, in the given order.
        """
        self._validate_params()
        rows = self._rows(X, reset=True)
        labels = self._read(y, rows.shape[0])
        used, mask = labelled_rows(rows, labels, self.max_gram_bytes)
        return self._fit_path(used, mask, labels, nonnegative_numbers("ridges", ridges))

    def _fit_path(self, used: Rows, mask: Any, labels: Labels, ridges: Any) -> list[Self]:
        base = clone(self)
        base.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            base.feature_names_in_ = self.feature_names_in_
        base._set_feature_map(kernel_map, used, mask=mask, random_state=self.random_state, centred=True)
        seen = base._what_was_seen(used, mask, labels)
        directions = base._solve(used, mask, labels, ridges)

        @cache
        def regressions() -> list[tuple[np.ndarray, np.ndarray]]:
            return seen.regression(*directions)  # one pass for all, if a method needs it

        def leading(i: int, found: Directions) -> list[tuple[np.ndarray, np.ndarray]]:
            k, (ZtZ, ZtY) = len(found.s), regressions()[i]
            return [(ZtZ[:k, :k], ZtY[:k])]

        models = []
        for i, (ridge, found) in enumerate(zip(ridges, directions, strict=True)):
            model = clone(self).set_params(ridge=ridge)
            model.__dict__.update({name: value for name, value in vars(base).items() if name.endswith("_")})
            model._store(found, ridge, replace(seen, regression=partial(leading, i)))
            models.append(model)
        return models

    def _choose_ridge(self, used: Rows, mask: np.ndarray | None, labels: Labels) -> float:
        """Return the ridge chosen by cross-validation on the labelled rows, for "cv" or a sequence."""
        if mask is not None:
            most = max(2, int(self.max_gram_bytes / used.row_bytes()))
            used = used.take(np.flatnonzero(mask)[:most])
            labels = labels.take(np.arange(min(most, labels.n_labelled)))
        deviation, tiny = row_spread(self._seen(used)), float(np.finfo(np.float64).tiny)
        if isinstance(self.ridge, str):
            ridges = deviation * np.array(CV_GRID)
        else:
            ridges = np.asarray(nonnegative_numbers("ridges", self.ridge))
        self.ridges_, self.ridge_scores_ = ridges, self._fold_scores(used, labels, ridges)
        if not len(self.ridge_scores_):
            # no row can be held out, so the ridge nearest to the spread of the rows is used, a safe choice
            nearest = np.abs(np.log(np.maximum(ridges, tiny)) - np.log(deviation)).argmin()
            return float(ridges[nearest])
        return float(ridges[best_candidate(self.ridge_scores_, ridges)])  # ties: the larger ridge

    def _fold_scores(self, used: Rows, labels: Labels, ridges: np.ndarray) -> np.ndarray:
        """Return the score of each ridge on each fold of the labelled rows that can be fitted."""

        def predict(train: np.ndarray, test: np.ndarray) -> list[np.ndarray] | None:
            try:
                models = self._fit_path(used.take(train), None, labels.take(train), ridges)
            except (ValueError, np.linalg.LinAlgError):
                return None  # too few training rows; the final fit reports it if all rows are too few
            held = used.take(test)
            return [model.predict(held) for model in models]

        truth = labels.decode(labels.values)
        scores = fold_scores(_folds(labels), predict, truth, measure_of(labels.task))
        return scores.reshape(len(scores), len(ridges))


def _folds(labels: Labels) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the folds of the labelled rows; no fold removes a class, or a label, from training."""
    n = labels.n_labelled
    if labels.task == "regression":
        folds = min(N_FOLDS, n // 2)  # R^2 is not defined for one row
        return list(KFold(folds, shuffle=True, random_state=0).split(np.zeros(n))) if folds > 1 else []
    counts = labels.counts()
    several = counts[counts > 1]
    if labels.task == "multilabel":
        folds, usual = min(N_FOLDS, n), KFold
    else:
        folds, usual = min([N_FOLDS, *several.tolist()]), StratifiedKFold
    if not len(several) or folds < 2:
        return []
    splitter = usual if (counts > 1).all() else SemiSupervisedKFold
    values = labels.values
    try:
        return list(splitter(folds, shuffle=True, random_state=0).split(np.zeros(n), values))
    except ValueError:  # too few rows with several labels to hold any out
        return []
