"""Files that are there whole or not at all: written aside, synced to disk, and renamed into place."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from labelfold.app.io._problems import FileProblem, one_line


@contextmanager
def finished_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Give a file to write to that takes the place of ``path`` once it is complete and on disk.

    Whatever fails or is interrupted before, the file that was there stays as it was, byte for byte. A link stays a
    link: the file that it leads to is replaced.

    Parameters
    ----------
    path : path
        The file to write or replace.

    Yields
    ------
    binary file
        Open for writing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> with finished_file(path) as file:
    ...     _ = file.write(b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    place = Path(path).resolve()
    # a random name, made by exclusive creation: neither a file nor a link planted there is ever written to
    aside = place.with_name(f".{secrets.token_hex(8)}.part")
    made = False
    try:
        with aside.open("xb") as file:
            made = True
            with suppress(OSError):  # a new file keeps the mode that the umask gives it
                aside.chmod(place.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(place)
        made = False
        _sync_folder(place.parent)
    except OSError as error:
        raise FileProblem(f"{path} could not be written: {error.strerror or one_line(error)}.") from error
    finally:
        if made:
            with suppress(OSError):
                aside.unlink()


def write_finished(path: str | os.PathLike, content: bytes) -> Path:
    """Write a whole file; see :func:`finished_file`."""
    with finished_file(path) as file:
        file.write(content)
    return Path(path)


def _sync_folder(folder: Path) -> None:
    """Have the new name on disk too, where the system can sync a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
