"""The words of messages about y that depend on the caller: a call in Python, or a command with options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Wording:
    """The words that depend on the caller: a call in Python, or a command with options.

    Attributes
    ----------
    y : str
        The name of y within a sentence.
    only_missing : str
        How to request that only missing values mean unlabelled.
    mark_missing : str
        How to say that rows with a value are unlabelled.
    regression, classification : str
        How to request regression, and how classification was requested.
    """

    y: str = "y"
    only_missing: str = "pass unlabeled=None"
    mark_missing: str = "mark those rows by NaN"
    regression: str = 'pass task="regression"'
    classification: str = 'task is "classification"'

    @property
    def start(self) -> str:
        """The name of y at the start of a sentence."""
        return self.y if self.y == "y" else self.y[0].upper() + self.y[1:]


_PYTHON = Wording()
_WORDING: ContextVar[Wording] = ContextVar("wording", default=_PYTHON)


def wording() -> Wording:
    """Return the words in use.

    >>> wording().y
    'y'
    """
    return _WORDING.get()


@contextmanager
def worded(**words: str) -> Iterator[None]:
    """Use other words, by the attributes of `Wording`, within a ``with`` block.

    >>> with worded(y="the target"):
    ...     wording().start
    'The target'
    """
    token = _WORDING.set(replace(_WORDING.get(), **words))
    try:
        yield
    finally:
        _WORDING.reset(token)
