"""Compiled loops: numba's ``njit`` with common options, and a message while the first ones compile."""

from __future__ import annotations

import logging
from typing import Any

import numba
from numba.core import event

_LOG = logging.getLogger("labelfold")
# Sums may be reordered and fused; infinities and NaN are respected.
FAST = {"contract", "reassoc", "nsz"}


def compiled(fastmath: set[str] | bool = False) -> Any:
    """Return the decorator of a compiled loop: without the GIL, cached on disk, with NumPy's division by zero."""
    return numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=fastmath)


@compiled(FAST)
def dot(a, b):  # type: ignore[no-untyped-def]
    """Return the inner product of two vectors, in compiled loops."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


class _Announcement(event.Listener):
    """Logs a message once, when the first loop of labelfold is compiled rather than loaded from disk."""

    def __init__(self) -> None:
        self.was_shown = False

    def on_start(self, event: Any) -> None:
        """Log the message."""
        module = str(event.data["dispatcher"].py_func.__module__)
        if not self.was_shown and module.startswith("labelfold."):
            self.was_shown = True
            _LOG.warning(
                "labelfold compiles its loops the first time they are used, which can take up to half a minute; "
                "they are then kept on disk."
            )

    def on_end(self, event: Any) -> None:
        """Do nothing."""


announcement = _Announcement()
event.register("numba:compile", announcement)
