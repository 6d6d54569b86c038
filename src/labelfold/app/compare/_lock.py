"""A lock on a folder, so that one comparison at a time writes to it."""

from __future__ import annotations

import os
from contextlib import suppress

from labelfold.app.io import FileProblem, lock, writable_folder


class FolderLock(os.PathLike):
    """A locked folder. The lock ends with :meth:`release` or with the process.

    It is a lock of the operating system on an open file (``flock``; on Windows a locked byte), so a file left by a
    killed process locks nothing. On file systems without locks there is no lock. :func:`labelfold.compare` accepts
    this object in place of the folder, which then stays locked after the comparison.

    Parameters
    ----------
    folder : path
        The folder; it is created if missing.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = writable_folder(folder)
        self._handle: int | None = None
        how = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # a link may lead out of the folder
        try:
            self._handle = os.open(self.folder / ".lock", how, 0o666)
            if lock(self._handle) is False:
                raise FileProblem(
                    f"Another comparison{_owner(self._handle)} is writing to {self.folder}; wait for it to end, or "
                    "name another folder."
                )
            os.ftruncate(self._handle, 0)
            os.write(self._handle, str(os.getpid()).encode())
        except OSError as error:
            self.release()
            raise FileProblem(f"{self.folder} could not be written to: {error.strerror or error}.") from error
        except BaseException:
            self.release()
            raise

    def __fspath__(self) -> str:
        return str(self.folder)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _owner(handle: int) -> str:
    """Return the process that holds the lock, if its file can be read, for a message."""
    number = b""
    with suppress(OSError):  # Windows cannot read a locked byte
        number = os.read(handle, 20)
    return f" (process {int(number)})" if number.isdigit() else ""
