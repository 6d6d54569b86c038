"""What LabelFold reads off its blended score: places, classes, labels, numbers and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from labelfold._base import RowsEstimator
from labelfold._decisions import TaskScore, classifies
from labelfold.labels import Labels
from labelfold.rows import Featurized
from labelfold.rows._host import host
from labelfold.semi_supervised._calibration import accuracy_interval, logistic, r2_interval, steepness
from labelfold.semi_supervised._embedding import FoldEmbedding
from labelfold.semi_supervised._fold import BlendedScores


class FoldPredictions(TaskScore, ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowsEstimator):
    """An estimator with a blended score, and places, that are functions of one row."""

    classes_: np.ndarray
    _scores: BlendedScores
    _embedding: FoldEmbedding
    _flat: bool
    _steepness: float
    _offset: float
    _train_scores: np.ndarray
    loo_predictions_: np.ndarray
    loo_confidence_: np.ndarray

    def transform(self, X: Any) -> Any:
        """Place rows, each by itself, in the embedding.

        Parameters
        ----------
        X : container of shape (n, d)
            Any rows the library reads.

        Returns
        -------
        Z : array of shape (n, n_components)
            On the host for arrays and files; otherwise where X is.
        """
        check_is_fitted(self)
        return Featurized(self._rows(X, reset=False), self._embedding).values()

    def predict(self, X: Any) -> np.ndarray:
        """Return the class, the labels or the numbers of each row.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
        """
        return self._decide(self._blended(X))

    @available_if(classifies)
    def decision_function(self, X: Any) -> np.ndarray:
        """Return how far rows lie on the side of the second class (two classes), or of each class or label.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, c)
        """
        F = self._blended(X)
        if self.task_ == "binary":
            return F[:, 0]
        return F + self._offset / self._steepness if self.task_ == "multilabel" else F

    @available_if(classifies)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, or of each label, calibrated on leave-one-out scores.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        p : ndarray of shape (n, c)
            In the order of ``classes_``.
        """
        return self._shares(self._blended(X))

    def view_scores(self, X: Any) -> dict[tuple[str, str], np.ndarray]:
        """Return what each kind of view adds to the blended score of rows, before their common offset.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
            Rows in memory.

        Returns
        -------
        parts : dict
            From (family, form of the columns), as ``view_weights_`` names them, to scores of shape (n, c); those of
            principal views are part of the linear ones, since both are weighted sums of the columns.
        """
        check_is_fitted(self)
        return self._scores.by_kind(host(self._rows(X, reset=False).whole()))

    @property
    def label_distributions_(self) -> np.ndarray:
        """Return the probabilities of the training rows."""
        if not hasattr(self, "_train_scores") or self.task_ == "regression":
            raise AttributeError("label_distributions_ takes classes, and the training rows")
        return self._shares(self._train_scores)

    def _calibrate(self, left_out: np.ndarray, labels: Labels) -> None:
        """Keep what turns scores into probabilities, and the leave-one-out score."""
        Y = labels.columns()
        self._steepness, self._offset = 1.0, 0.0
        if self.task_ == "regression":
            own, *interval = r2_interval(Y, left_out)
        elif self.task_ == "multilabel":
            self._steepness, self._offset = logistic(left_out, Y)
            own, *interval = accuracy_interval((self._labels(left_out) == (Y > 0)).all(axis=1))
        else:
            # Where a class has one label there is none left to tell it by.
            known = labels.counts()[labels.values] > 1
            F, codes = _by_class(left_out)[known], labels.values[known]
            self._steepness = steepness(F, codes)
            own, *interval = accuracy_interval(F.argmax(axis=1) == codes)
        self.loo_score_, self.loo_interval_ = own, tuple(interval)
        self.loo_predictions_ = self._decide(left_out)
        if self.task_ != "regression":
            p = self._shares(left_out)
            sure = np.maximum(p, 1 - p).prod(axis=1) if self.task_ == "multilabel" else p.max(axis=1)
            self.loo_confidence_ = sure

    def _blended(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return np.asarray(rows.get(Featurized(rows, self._scores).values()), dtype=np.float64)

    def _decide(self, F: np.ndarray) -> np.ndarray:
        if self.task_ == "regression":
            return F[:, 0] if self._flat else F
        if self.task_ == "multilabel":
            return self._labels(F).astype(np.intp)
        return self.classes_[_by_class(F).argmax(axis=1)]

    def _shares(self, F: np.ndarray) -> np.ndarray:
        """Return the probability of each class, or of each label, given scores."""
        if self.task_ == "multilabel":
            return expit(self._steepness * F + self._offset)
        return softmax(self._steepness * _by_class(F), axis=1)

    def _labels(self, F: np.ndarray) -> np.ndarray:
        return self._steepness * F + self._offset > 0


def _by_class(F: np.ndarray) -> np.ndarray:
    """Return a score for each class, where two classes are one column."""
    return np.hstack([-F, F]) / 2 if F.shape[1] == 1 else F
