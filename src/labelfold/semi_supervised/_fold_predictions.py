"""Embedding, predictions and calibrated probabilities of LabelFold, from its blended score."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from labelfold.base import Decisions, RowsTransformer
from labelfold.labels import Labels
from labelfold.model_selection import Groups
from labelfold.rows import Featurized, Rows, host
from labelfold.semi_supervised._calibration import accuracy_interval, logistic, r2_interval, steepness
from labelfold.semi_supervised._embedding import FoldEmbedding
from labelfold.semi_supervised._fold import BlendedScores


class FoldPredictions(Decisions, ClassNamePrefixFeaturesOutMixin, RowsTransformer):
    """An estimator whose blended score and embedding are functions of one row."""

    _allowed = ("binary", "multiclass", "multilabel", "regression")
    _scores: BlendedScores
    _embedding: FoldEmbedding
    _steepness: float
    _offset: float
    _train_scores: np.ndarray
    loo_predictions_: np.ndarray
    loo_confidence_: np.ndarray

    def transform(self, X: Any) -> Any:
        """Embed rows, each independently of the others.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.

        Returns
        -------
        Z : array of shape (n, n_components)
            In host memory for arrays and files; otherwise on the device or cluster of X.
        """
        check_is_fitted(self)
        return Featurized(self._rows(X, reset=False), self._embedding).values()

    def view_scores(self, X: Any) -> dict[tuple[str, str], np.ndarray]:
        """Return the contribution of each kind of view to the blended score of rows, before their common offset.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
            Rows in memory.

        Returns
        -------
        parts : dict
            Scores of shape (n, c) for each (family, form of the columns), named as in ``view_weights_``. Principal
            views are part of the linear ones, since both are weighted sums of the columns.
        """
        check_is_fitted(self)
        return self._scores.by_kind(host(self._rows(X, reset=False).whole()))

    @property
    def label_distributions_(self) -> np.ndarray:
        """Return the probabilities of the training rows."""
        if not hasattr(self, "_train_scores") or self.task_ == "regression":
            raise AttributeError("label_distributions_ takes classes, and the training rows")
        return self._shares(self._train_scores)

    def _calibrate(self, left_out: np.ndarray, labels: Labels, groups: Groups) -> None:
        """Calibrate probabilities on leave-one-out scores, and store the leave-one-out score."""
        Y = labels.columns()
        self._steepness, self._offset = 1.0, 0.0
        if self.task_ == "regression":
            own, *interval = r2_interval(Y, left_out, groups)
        elif self.task_ == "multilabel":
            self._steepness, self._offset = logistic(left_out, Y)
            left_out = left_out + self._threshold()
            own, *interval = accuracy_interval(((left_out > 0) == (Y > 0)).all(axis=1), groups)
        else:
            # A class that is in no other group cannot be predicted without the group.
            known = groups.holding(labels.values)[labels.values] > 1
            if not groups.are_single and len(np.unique(labels.values[known])) < 2:
                known[:] = False  # the share that is right of one class says nothing
            F, codes = _by_class(left_out)[known], labels.values[known]
            self._steepness = steepness(F, codes)
            own, *interval = accuracy_interval(F.argmax(axis=1) == codes, groups.some(known))
        self.loo_score_, self.loo_interval_ = own, tuple(interval)
        self.loo_predictions_ = self._decide(left_out)
        if self.task_ != "regression":
            p = self._shares(left_out)
            sure = np.maximum(p, 1 - p).prod(axis=1) if self.task_ == "multilabel" else p.max(axis=1)
            self.loo_confidence_ = sure

    def _score_rows(self, rows: Rows) -> np.ndarray:
        F = np.asarray(rows.get(Featurized(rows, self._scores).values()), dtype=np.float64)
        return F + self._threshold()

    def _threshold(self) -> float:
        """Return the shift after which the sign of a multi-label score decides."""
        return self._offset / self._steepness if self.task_ == "multilabel" else 0.0

    def _shares(self, F: np.ndarray) -> np.ndarray:
        """Return probabilities, calibrated on leave-one-out scores."""
        if self.task_ == "multilabel":
            return expit(self._steepness * F)
        return softmax(self._steepness * _by_class(F), axis=1)


def _by_class(F: np.ndarray) -> np.ndarray:
    """Return one score for each class; for two classes F has a single column."""
    return np.hstack([-F, F]) / 2 if F.shape[1] == 1 else F
