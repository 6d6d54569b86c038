"""A transformer that projects rows onto components, in the space of the columns or of a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelfold.base._estimator import Reducer, finite
from labelfold.rows import Centered, Featurized, Rows

# Bytes of a block of features.
BLOCK_BYTES = 4 << 20


class Scores(NamedTuple):
    """Scores of rows, in double precision because large coefficients may cancel."""

    feature_map: Any
    mean: np.ndarray
    W: np.ndarray

    def transform(self, X: Any) -> np.ndarray:
        """Return the scores of some rows."""
        step = max(1, BLOCK_BYTES // (8 * len(self.mean)))
        scores = np.empty((X.shape[0], self.W.shape[1]))
        for start in range(0, X.shape[0], step):
            part = self.feature_map.transform(X[start : start + step].astype(np.float64))
            scores[start : start + step] = (part - self.mean) @ self.W
        return scores


class LinearReducer(Reducer):
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
