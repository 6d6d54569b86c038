"""Locks of the operating system on open files. They end with the process, even if it is killed."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import msvcrt

    def lock(handle: int) -> bool | None:
        """Lock an open file; return False if another process holds the lock, None if locks are not supported."""
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        except OSError:
            return None
        return True

else:
    import fcntl

    def lock(handle: int) -> bool | None:
        """Lock an open file or folder; return False if another process holds the lock, None if not supported."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True
