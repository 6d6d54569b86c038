"""Warnings that refer to the user's own line, even if they are raised deep inside the library."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import joblib
import sklearn

# scikit-learn also calls estimators: in its parameter checks of fit, and in pipelines and searches (joblib).
_NOT_THE_USER = tuple(
    f"{Path(file).parent}{os.sep}" for file in (__file__, sklearn.__file__, joblib.__file__)
)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest line that is not in labelfold, scikit-learn or joblib.

    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_user("k is large")
    >>> [str(one.message) for one in seen]
    ['k is large']
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
