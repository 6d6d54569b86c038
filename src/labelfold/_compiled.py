"""Compiled loops: numba's ``njit`` as all of them use it, and a word to the user who waits for the first ones."""

from __future__ import annotations

import logging
from typing import Any

import numba
from numba.core import event

_LOG = logging.getLogger("labelfold")
# Sums may be reordered and fused; infinities and NaN keep their meaning.
FAST = {"contract", "reassoc", "nsz"}


def compiled(fastmath: set[str] | bool = False) -> Any:
    """Return the decorator of a compiled loop: without the GIL, kept on disk, dividing by zero as NumPy does."""
    return numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=fastmath)


class _Announcement(event.Listener):
    """Say once that loops are compiled, when the first of labelfold's is: what is found on disk is not."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        """Say it."""
        module = str(event.data["dispatcher"].py_func.__module__)
        if not self.said and module.startswith("labelfold."):
            self.said = True
            _LOG.warning(
                "labelfold compiles its loops the first time they are used, which can take up to half a minute; "
                "they are then kept on disk."
            )

    def on_end(self, event: Any) -> None:
        """Say nothing more."""


announcement = _Announcement()
event.register("numba:compile", announcement)
