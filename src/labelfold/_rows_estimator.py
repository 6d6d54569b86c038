"""An estimator takes in X as rows, whatever holds them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from labelfold._sklearn import _check_feature_names, _check_n_features
from labelfold.rows import Rows, as_rows, is_table


class RowsEstimator(BaseEstimator):
    """An estimator that sees its data as rows, whatever they come in."""

    _parameter_constraints: ClassVar[dict[str, Any]]

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        """Return validated rows; ``reset`` where fitting, to remember the columns."""
        if is_table(X):
            X = validate_data(
                self, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False
            )
            return as_rows(X)
        rows = as_rows(X)
        _check_feature_names(self, X if hasattr(X, "columns") else np.empty((0, rows.shape[1])), reset=reset)
        _check_n_features(self, rows, reset=reset)
        return rows

    def __sklearn_tags__(self) -> Any:
        """Declare what the estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
