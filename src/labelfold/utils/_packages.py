"""Packages that are imported when they are first used, so that a module that may need them is imported quickly."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Package:
    """A package that is imported at its first use. If it is not installed, the use raises an error.

    Parameters
    ----------
    name : str
        Name of the package or module.
    message : str
        The error, which says what to install.

    Examples
    --------
    >>> Package("math", "").floor(2.5)
    2
    >>> Package("not_installed", "pip install it").something
    Traceback (most recent call last):
    ImportError: pip install it
    """

    def __init__(self, name: str, message: str) -> None:
        self._name, self._message = name, message

    def __getattr__(self, name: str) -> Any:
        try:
            package = import_module(self._name)
        except ImportError:
            raise ImportError(self._message) from None
        value = getattr(package, name)
        setattr(self, name, value)  # so that the next use is as fast as that of the package
        return value
