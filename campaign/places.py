"""Temporary folders: removed when the process ends or, if it was killed, when the next one begins."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

_PREFIX = "labelfold-campaign-"


def new_folder(prefix: str) -> Path:
    """Return a new folder."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_root(os.getpid())))


@cache
def _root(process: int) -> Path:
    """Return the folder of a process, which is locked while the process runs."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _locked(left)
            shutil.rmtree(left, ignore_errors=True)
    while True:
        made = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(OSError):  # another new process was faster
            _locked(made)
            atexit.register(_remove, made, process)
            return made


def _locked(folder: Path) -> None:
    """Lock a folder until the process ends, or fail if another process has locked it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
