"""Ridges: a path of them at the price of one fit or two, and one chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from labelfold._base import RowsEstimator, labelled_rows
from labelfold.discriminant._second_stage import Directions
from labelfold.labels import Labels
from labelfold.rows import Centered, Rows

N_FOLDS = 5
# Multiples of the mean squared deviation of a labelled row: what ridge="cv" chooses from.
CV_GRID = tuple(10.0 ** np.arange(-4, 4.5, 1.0))


class RidgePath(RowsEstimator):
    """The part of the two-stage family that has to do with several ridges."""

    def path(self, X: Any, y: Any, ridges: Sequence[float]) -> list[Self]:
        """Fit once for each of several ridges, at the price of one fit or two.

        The rows are read once for all of them. Iterations share one Krylov space; where a matrix is factorised
        instead, five ridges or more share one reduction of it to a band.

        Parameters
        ----------
        X, y
            As in `fit`.
        ridges : sequence of float
            The ridges.

        Returns
        -------
        models : list of estimators
            One fitted model a ridge, in the order given.
        """
        self._validate_params()
        rows = self._rows(X, reset=True)
        labels = self._read(y, rows.shape[0])
        used, mask = labelled_rows(rows, labels, self.max_gram_bytes)
        return self._fit_path(used, mask, labels, checked_ridges(ridges))

    def _fit_path(self, used: Rows, mask: Any, labels: Labels, ridges: Any) -> list[Self]:
        base = clone(self)
        base.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            base.feature_names_in_ = self.feature_names_in_
        base._set_feature_map(used, mask)
        seen = base._what_was_seen(base._seen(used), mask, labels)
        directions = base._solve(used, mask, labels, ridges)

        @cache
        def regressions() -> list[tuple[np.ndarray, np.ndarray]]:
            return seen.regression(*directions)  # one pass for all, where a method needs it

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
        """Return the ridge that cross-validation on the labelled rows chooses, of "cv" or of a sequence."""
        if mask is not None:
            most = max(2, int(self.max_gram_bytes / used.row_bytes()))
            used = used.take(np.flatnonzero(mask)[:most])
            labels = labels.take(np.arange(min(most, labels.n_labelled)))
        if isinstance(self.ridge, str):
            seen = self._seen(used)
            deviation = Centered(seen).squared_norm() / seen.shape[0]
            ridges = max(deviation, np.finfo(np.float64).tiny) * np.array(CV_GRID)
        else:
            ridges = np.asarray(checked_ridges(self.ridge))
        self.ridges_, self.ridge_scores_ = ridges, self._fold_scores(used, labels, ridges)
        means = self.ridge_scores_.mean(axis=0)
        # Of equally good ridges the largest: it is the simplest model.
        best = np.flatnonzero(means >= means.max() - 1e-12)
        return float(ridges[best[np.argmax(ridges[best])]])

    def _fold_scores(self, used: Rows, labels: Labels, ridges: np.ndarray) -> np.ndarray:
        """Return the score of each ridge on each fold of the labelled rows."""
        n = labels.n_labelled
        if labels.task in ("binary", "multiclass"):
            folds = max(2, min(N_FOLDS, int(labels.counts().min())))
            splitter: Any = StratifiedKFold(folds, shuffle=True, random_state=0)
        else:
            splitter = KFold(min(N_FOLDS, n), shuffle=True, random_state=0)
        known = labels.decode(labels.values)
        scores = []
        for train, test in splitter.split(np.zeros(n), labels.values):
            models = self._fit_path(used.take(train), None, labels.take(train), ridges)
            held = used.take(test)
            scores.append([model.score(held, known[test]) for model in models])
        return np.array(scores)


def checked_ridges(ridges: Any) -> list[float]:
    """Return ridges as floats, or say what is wrong with them."""
    values = np.asarray(ridges, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not (values >= 0).all() or not np.isfinite(values).all():
        raise ValueError(
            f"ridges={ridges!r} was given, where a sequence of finite numbers of at least 0 is expected; give one of "
            "them or more"
        )
    return values.tolist()
