"""The names labelfold takes from scikit-learn's private modules, in one place to mend when they move."""

from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names, _check_n_features

__all__ = [
    "Interval",
    "StrOptions",
    "_check_feature_names",
    "_check_n_features",
    "_fit_context",
    "_safe_indexing",
]
