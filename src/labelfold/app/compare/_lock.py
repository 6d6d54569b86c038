"""One comparison at a time in a folder: a lock that the system gives up when a process ends, however it ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from labelfold.app.io._problems import FileProblem


class FolderLock:
    """A lock on a folder, held from the start until :meth:`release` or the end of the process.

    It is the system's lock on an open file (``flock``; on Windows a locked byte), so that the file left behind by a
    killed process locks nothing. File systems that know no locks are used without one.

    Parameters
    ----------
    folder : path
        An existing folder.
    """

    def __init__(self, folder: str | os.PathLike):
        how = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # a link would lead out of the folder
        self._handle: int | None = os.open(Path(folder) / ".lock", how, 0o666)
        try:
            taken = not _lock(self._handle)
            if not taken:
                os.ftruncate(self._handle, 0)
                os.write(self._handle, str(os.getpid()).encode())
        except BaseException:
            self.release()
            raise
        if taken:
            owner = _owner(self._handle)
            self.release()
            raise FileProblem(
                f"Another comparison{owner} is writing to {folder}; wait for it to end, or name another folder."
            )

    def release(self) -> None:
        """Give the lock up."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _owner(handle: int) -> str:
    """Say which process holds the lock, where its file tells."""
    number = b""
    with suppress(OSError):  # Windows does not read a locked byte
        number = os.read(handle, 20)
    return f" (process {int(number)})" if number.isdigit() else ""


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> bool:
        """Lock the first byte of a file; False where another process has it."""
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        except OSError:
            pass
        return True

else:
    import fcntl

    def _lock(handle: int) -> bool:
        """Lock an open file; False where another process has it."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True
