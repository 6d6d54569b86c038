"""Locks of the operating system on open files. They end with the process, even if it is killed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def lock(handle: int) -> bool | None:
    """Lock an open file or folder; return False if another process holds the lock, None if not supported."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the second on Windows
        return False
    except OSError:
        return None
    return True


@contextmanager
def handle_of(path: str | os.PathLike, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open a file or folder, and close it at the end."""
    handle = os.open(path, flags)
    try:
        yield handle
    finally:
        os.close(handle)
