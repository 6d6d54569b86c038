"""Atomic files: written under a temporary name, synced to disk, and renamed into place.

The temporary name is 16 random digits and ``.part``. The process that writes the file locks it. The next process that
writes to the folder removes files that a killed process left.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from labelfold.app.io._locks import handle_of, lock
from labelfold.app.io._problems import FileProblem, one_line, writable_file

_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.part")
_SWEEPS = os.name == "posix"  # elsewhere a file that is open for its lock cannot be renamed


@contextmanager
def finished_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` when it is complete and on disk.

    After a failure or an interrupt the existing file is unchanged. If ``path`` is a link, its target is replaced.

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
    _sweep(place.parent)
    done = False
    try:
        while not done:
            # exclusive creation under a random name: an existing file or link is never written to
            file = (aside := _aside(place.parent)).open("xb")
            with _unswept(aside) as held:
                with file:
                    if not held:
                        continue
                    with suppress(OSError):  # a new file keeps the mode that the umask gives it
                        aside.chmod(place.stat().st_mode & 0o777)
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                aside.replace(place)
                done = True
        sync_folder(place.parent)
    except OSError as error:
        raise _not_written(path, error) from error


def write_finished(path: str | os.PathLike, content: bytes) -> Path:
    """Write a whole file; see :func:`finished_file`."""
    with finished_file(path) as file:
        file.write(content)
    return Path(path)


@contextmanager
def finished_together(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Create a temporary folder; its files replace those in ``folder`` when all are complete.

    After a failure or an interrupt the existing files are unchanged. Files of ``names`` that were not written are
    removed, so that old and new files are not mixed.

    Parameters
    ----------
    folder : Path
        Where the files belong.
    names : iterable of str
        Names of all files that may be written.

    Yields
    ------
    Path
        A folder in ``folder``, empty.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = write_finished(folder / "old", b"1")
    >>> with finished_together(folder, ["new", "old"]) as aside:
    ...     _ = write_finished(aside / "new", b"2")
    >>> [path.name for path in folder.iterdir()]
    ['new']
    """
    places = [writable_file(folder / name) for name in names]
    _sweep(folder)
    aside = _aside(folder)
    try:
        aside.mkdir()
        with _unswept(aside):
            yield aside
            written = {path.name for path in aside.iterdir()}
            for place in sorted(places, key=lambda place: place.name not in written):  # removals come last
                (aside / place.name).replace(place) if place.name in written else place.unlink(
                    missing_ok=True
                )
            sync_folder(folder)
    except FileProblem as error:
        raise FileProblem(str(error).replace(str(aside), str(folder))) from error
    except OSError as error:
        raise _not_written(folder, error) from error


def _aside(folder: Path) -> Path:
    return folder / f".{secrets.token_hex(8)}.part"


@contextmanager
def _unswept(aside: Path) -> Iterator[bool]:
    """Lock an unfinished file or folder, and remove it at the end if it still exists.

    Yields False if another process removed it before it was locked.
    """
    handle, held = None, True
    if _SWEEPS:
        try:
            handle = os.open(aside, os.O_RDONLY)
            held = lock(handle) is not False and os.fstat(handle).st_nlink > 0
        except OSError:
            held = False
    try:
        yield held
    finally:
        _remove(aside)
        if handle is not None:
            os.close(handle)


def _sweep(folder: Path) -> None:
    """Remove the unfinished files and folders of processes that have ended."""
    with suppress(OSError):
        for entry in os.scandir(folder) if _SWEEPS else ():
            if not _UNFINISHED.fullmatch(entry.name) or entry.is_symlink():
                continue
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with suppress(OSError), handle_of(entry, flags) as handle:
                if lock(handle):
                    _remove(Path(entry))


def _remove(aside: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(aside) if aside.is_dir() else aside.unlink()


def _not_written(path: str | os.PathLike, error: OSError) -> FileProblem:
    return FileProblem(f"{path} could not be written: {error.strerror or one_line(error)}.")


def append_synced(handle: int, content: bytes, end: int) -> None:
    """Append bytes to an open file of ``end`` bytes, and sync it; if that fails, the file stays unchanged."""
    try:
        left = memoryview(content)
        while left:  # an unbuffered write may be partial
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    except OSError:
        with suppress(OSError):
            os.ftruncate(handle, end)
        raise


def sync_folder(folder: Path) -> None:
    """Sync the folder, if the system can, so that the new name is on disk."""
    with suppress(OSError), handle_of(folder) as handle:
        os.fsync(handle)
