"""One comparison at a time in a folder."""

from __future__ import annotations

import os
from contextlib import suppress

from labelfold.app.io._locks import lock
from labelfold.app.io._problems import FileProblem, writable_folder


class FolderLock(os.PathLike):
    """A folder that is locked, from the start until :meth:`release` or the end of the process.

    It is the system's lock on an open file (``flock``; on Windows a locked byte), so that a file left behind by a
    killed process does not lock the folder. File systems without locks are used without one. It can be given to
    :func:`labelfold.compare` in place of the folder, which then stays locked when the comparison is over.

    Parameters
    ----------
    folder : path
        The folder, made if need be.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = writable_folder(folder)
        self._handle: int | None = None
        how = (
            os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        )  # a symbolic link could point outside the folder
        try:
            self._handle = os.open(self.folder / ".lock", how, 0o666)
            taken = lock(self._handle) is False
            if not taken:
                os.ftruncate(self._handle, 0)
                os.write(self._handle, str(os.getpid()).encode())
        except BaseException as error:
            self.release()
            if isinstance(error, OSError):
                raise FileProblem(
                    f"{self.folder} could not be written to: {error.strerror or error}."
                ) from error
            raise
        if taken:
            owner = _owner(self._handle)
            self.release()
            raise FileProblem(
                f"Another comparison{owner} is writing to {self.folder}; wait for it to end, or name another folder."
            )

    def __fspath__(self) -> str:
        return str(self.folder)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

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
