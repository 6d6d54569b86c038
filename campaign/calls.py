"""System calls that fail, also those of C code: the library calls.c, compiled and loaded when the process starts."""

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
# The faults: their names in calls.c, and their errors.
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
    """Return the compiled library; None without a compiler, or on another system than Linux."""
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
    """Return the environment of a process whose calls can fail."""
    return {} if library() is None else {"LD_PRELOAD": str(library())}


@cache
def loaded() -> bool:
    """Tell whether this process was started with that environment."""
    return hasattr(ctypes.CDLL(None), "labelfold_arm")


class Calls:
    """System calls of which one fails.

    Parameters
    ----------
    folder : Path
        Only calls about files under it are counted.
    kind : str
        One of `READS` or `WRITES`; "" counts and does nothing.
    number : int
        Index of the call that fails, from 0.
    writes : bool
        Whether writing calls fail, rather than reading ones.
    report : Path, optional
        The file to which every call is written, one line each.
    aside : Path, optional
        The file that replaces another.
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
        """Let calls of this process fail from now on."""
        ctypes.CDLL(None).labelfold_arm(*self.arguments)
