"""Warns where the mark of unlabelled rows, -1, may be a class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Real
from typing import Any

import numpy as np

from labelfold.labels._wording import wording
from labelfold.utils import warn_user

_KNOWN: ContextVar[bool] = ContextVar("known", default=False)


@contextmanager
def marks_known() -> Iterator[None]:
    """Say within a ``with`` block that the caller has marked the unlabelled rows, so that there is no doubt."""
    token = _KNOWN.set(True)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def warn_of_two_classes(n_marked: int, n_others: int) -> None:
    """Warn that -1 and +1, the only values of y, are read as two classes."""
    words = wording()
    if not _KNOWN.get():
        warn_user(
            f"The only values of {words.y} are -1 and +1, which are read as two classes ({n_marked} and {n_others} "
            f"rows); if -1 means unlabelled, {words.mark_missing}, or give the class another value than 1; "
            f"{words.only_missing} to silence this warning."
        )


def warn_of_left_out(values: np.ndarray, n_marked: int, mark: Any, estimator: str) -> None:
    """Warn if rows that an estimator leaves out as unlabelled may be a class.

    ``values`` (l,) are the labels of the other rows, numbers: a mark among texts is in no doubt. Unlabelled rows
    usually outnumber each class. So the mark may be a class unless it is more frequent than every class: a needless
    warning costs a look, and a class that is left out in silence costs a wrong model.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error")
    ...     warn_of_left_out(np.array([0, 1, 1]), 3, -1, "LDA")
    ...     warn_of_left_out(np.array([0, 1, 1]), 2, -1, "LDA")
    Traceback (most recent call last):
    UserWarning: LDA leaves out the 2 rows of y that are -1 as unlabelled, although -1 is no more frequent than 1 (2 \
rows); pass unlabeled=None if -1 is a class, or mark those rows by NaN if they are unlabelled.
    """
    if _KNOWN.get() or not isinstance(mark, Real) or not n_marked or not len(values):
        return
    classes, counts = np.unique(values, return_counts=True)
    most = int(counts.argmax())
    if n_marked > counts[most]:
        return
    words = wording()
    warn_user(
        f"{estimator} leaves out the {n_marked} row{'s' if n_marked > 1 else ''} of {words.y} that are {mark:g} as "
        f"unlabelled, although {mark:g} is no more frequent than {classes[most]:g} ({counts[most]} rows); "
        f"{words.only_missing} if {mark:g} is a class, or {words.mark_missing} if they are unlabelled."
    )
