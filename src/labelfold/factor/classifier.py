"""What a factorisation with linear machines on its embedding answers, once it is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from labelfold.base import RowsEstimator
from labelfold.labels import score_targets
from labelfold.rows import Rows, as_rows


class FactorClassifier(ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowsEstimator):
    """Rows placed by a basis, and told apart by linear machines.

    A subclass fits ``components_`` (k, d), ``mean_`` (d,), ``coef_`` (r, k), ``intercept_`` (r,), ``classes_`` and
    ``_task``, and says in `_place` where rows are put.
    """

    components_: np.ndarray
    mean_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    classes_: np.ndarray
    _task: str
    unlabeled: Any

    def _place(self, rows: Rows) -> Any:
        """Return the places of rows, (n, k), living with them."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Place rows, each by itself, as the fit places unlabelled ones.

        Parameters
        ----------
        X : container of shape (n, d)
            Any rows the library reads.

        Returns
        -------
        H : array of shape (n, k)
            On the host for arrays and files; otherwise where X is.
        """
        check_is_fitted(self)
        return self._place(self._rows(X, reset=False))

    def inverse_transform(self, H: Any) -> np.ndarray:
        """Return the rows that an embedding stands for, H B' and the mean.

        Parameters
        ----------
        H : array of shape (n, k)
            Places of rows.

        Returns
        -------
        X : ndarray of shape (n, d)
        """
        check_is_fitted(self)
        H = np.asarray(as_rows(H).whole().dense())
        if H.shape[1] != len(self.components_):
            raise ValueError(
                f"H has {H.shape[1]} columns, where {len(self.components_)} are expected; pass what transform returns"
            )
        return (H @ self.components_ + self.mean_).astype(H.dtype, copy=False)

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
        check_is_fitted(self)
        return self._scores(self._embedded(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row, or its 0/1 labels.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.

        Returns
        -------
        y : ndarray of shape (n,) or (n, c)
        """
        check_is_fitted(self)
        return self._decide(self._embedded(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the rows that have a label (for multi-label: of whole rows).

        Parameters
        ----------
        X : container of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, c)
            Their labels; rows marked unlabelled are left out.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        accuracy : float
        """
        check_is_fitted(self)
        known, truth = score_targets(
            y, unlabeled=self.unlabeled, task="classification", classes=self.classes_
        )
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(truth, self.predict(X)[known], sample_weight=weight))

    def top_features(self, n: int = 10, feature_names: Any = None) -> list[list[tuple[Any, float]]]:
        """Return the columns that weigh most in each component.

        Parameters
        ----------
        n : int, default=10
            How many of them.
        feature_names : array-like of shape (d,), optional
            Names of the columns, for instance a vectorizer's ``get_feature_names_out()``; those seen in fit, or the
            columns' numbers, when None.

        Returns
        -------
        features : list of k lists of (name, weight)
            The largest weights first, by magnitude; zeros are left out.
        """
        check_is_fitted(self)
        names = (
            getattr(self, "feature_names_in_", None) if feature_names is None else np.asarray(feature_names)
        )
        if names is not None and len(names) != self.n_features_in_:
            raise ValueError(
                f"feature_names holds {len(names)} names, where {self.n_features_in_} are expected, one a column"
            )
        features = []
        for b in self.components_:
            best = np.argsort(-np.abs(b), kind="stable")[:n]
            features.append([(int(j) if names is None else str(names[j]), float(b[j])) for j in best if b[j]])
        return features

    def _embedded(self, X: Any) -> np.ndarray:
        rows = self._rows(X, reset=False)
        return rows.get(self._place(rows))

    def _scores(self, H: np.ndarray) -> np.ndarray:
        scores = H @ self.coef_.T + self.intercept_
        return scores[:, 0] if self._task == "binary" else scores

    def _decide(self, H: np.ndarray) -> np.ndarray:
        scores = self._scores(H)
        if self._task == "multilabel":
            return (scores > 0).astype(np.intp)
        return self.classes_[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)]

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        """Declare multi-label targets, and that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.classifier_tags.multi_label = True
        return tags
