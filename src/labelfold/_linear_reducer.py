"""A transformer that projects rows onto components, in the space of the columns or of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from labelfold._base import RowsEstimator, finite
from labelfold.features._kernel_map import Scores
from labelfold.rows import Centered, Featurized, Rows


class LinearReducer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowsEstimator):
    """A transformer whose output is (X - mean) times ``components_``."""

    def transform(self, X: Any) -> Any:
        """Project rows onto the components.

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
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(self, self._project(self._rows(X, reset=False)))

    def _project(self, rows: Rows) -> Any:
        W = np.ascontiguousarray(self.components_.T)
        feature_map = getattr(self, "feature_map_", None)
        if feature_map is not None:
            return Featurized(rows, Scores(feature_map, self.mean_, W).transform).values()
        return Centered(rows, self.mean_) @ W

    def _embedded(self, rows: Rows) -> np.ndarray:
        """Return the embedding in host memory in double precision, for functions that may cancel large terms."""
        return np.asarray(rows.get(self._project(rows)), dtype=np.float64)

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        """Declare that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
