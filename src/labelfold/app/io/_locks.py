"""Locks of the system on open files. They end with the process, even if it is killed."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import msvcrt

    def lock(handle: int) -> bool | None:
        """Lock an open file; False where another holds it, None where the file system knows no locks."""
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
        """Lock an open file or folder; False where another holds it, None where the file system knows no locks."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True
