"""Calls to the system that go wrong, also those of code that is not Python's: calls.c, compiled and loaded first."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

_SOURCE = Path(__file__).with_name("calls.c")
_HOW = ("", "fail", "fail always", "short", "kill", "shrinks", "grows", "is replaced")
# What can happen, as calls.c names it, and with which error.
_ERRORS = {
    "EIO": ("fail", errno.EIO),
    "EIO from then on": ("fail always", errno.EIO),
    "ENOSPC": ("fail", errno.ENOSPC),
    "full from then on": ("fail always", errno.ENOSPC),
}
READS = ("EIO", "EIO from then on", "short", "shrinks", "grows", "is replaced")
WRITES = ("EIO", "ENOSPC", "EIO from then on", "full from then on", "short", "kill")


@cache
def library() -> Path | None:
    """Return the library, compiled if need be; None where there is no compiler or the system is another."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        return None
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    made = _SOURCE.parent / "__pycache__" / f"calls-{digest}.so"
    if not made.exists():
        made.parent.mkdir(exist_ok=True)
        aside = made.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", aside, _SOURCE, "-ldl"], check=False
        )
        if done.returncode:
            return None
        aside.replace(made)
    return made


def environment() -> dict[str, str]:
    """Return what a process has to be started with for its calls to go wrong."""
    return {} if library() is None else {"LD_PRELOAD": str(library())}


@cache
def loaded() -> bool:
    """Tell whether this process was started so."""
    return hasattr(ctypes.CDLL(None), "labelfold_arm")


class Calls:
    """Calls of which one goes wrong.

    Parameters
    ----------
    folder : Path
        Only calls about files under it are counted.
    kind : str
        One of `READS` or `WRITES`; "" counts and does nothing.
    number : int
        Which call, from 0 up.
    writes : bool
        Whether calls that write are meant, and not those that read.
    report : Path, optional
        Where every call is named, one a line.
    aside : Path, optional
        The file that takes the place of another.
    """

    def __init__(
        self,
        folder: Path,
        kind: str = "",
        number: int = -1,
        *,
        writes: bool = False,
        report: Path | None = None,
        aside: Path | None = None,
    ):
        how, error = _ERRORS.get(kind, (kind, 0))
        told = -1 if report is None else os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        other = b"" if aside is None else os.fsencode(aside)
        where = os.fsencode(os.path.realpath(folder))
        self.arguments = (where, int(writes), _HOW.index(how), number, error, other, told)

    def install(self) -> None:
        """Have calls of this process go wrong from now on."""
        ctypes.CDLL(None).labelfold_arm(*self.arguments)
