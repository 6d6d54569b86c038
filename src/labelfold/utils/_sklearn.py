"""The names that labelfold imports from scikit-learn's private modules. If they move, only this file changes.

scikit-learn has no types. Its decorators are wrapped so that decorated functions keep their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_feature_names as check_feature_names,
    _check_n_features as check_n_features,
)

if TYPE_CHECKING:
    _Method = TypeVar("_Method", bound=Callable[..., Any])

    def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]: ...

    def available_if(check: Callable[[Any], bool]) -> Callable[[_Method], _Method]:
        """Make a method available only if the check is true."""
        ...

else:
    from sklearn.base import _fit_context as fit_context
    from sklearn.utils.metaestimators import available_if

__all__ = [
    "Interval",
    "StrOptions",
    "available_if",
    "check_feature_names",
    "check_n_features",
    "fit_context",
    "safe_indexing",
]
