"""Opens files to read, packed ones too, within limits; checks files and folders to write."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from labelfold.app.io._errors import (
    FileProblem,
    did_you_mean,
    failure_to_read,
    listed,
    pa,
    read_from,
    reporting,
)

MIB = 1 << 20
# A file is refused if it unpacks to more than this number of bytes and to more than this times its size. Tables and
# models stay far below this factor; decompression bombs reach about 1000. An image has the first limit alone.
MAX_UNPACKED, MAX_TIMES = 1024 * MIB, 200
# Number of bytes of text that are parsed, or of a file that are copied, at a time.
BLOCK = 8 * MIB
# A file with a longer line is no table.
MAX_LINE = 64 * MIB

_DAMAGED = "is damaged or cut short"


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` as a Path if it is a readable file and not empty, else raise FileProblem."""
    path = Path(path)
    if path.is_dir():
        raise FileProblem(f"{path} is a folder; name the file in it.")
    if not path.exists():
        folder = path.parent
        if not folder.is_dir():
            raise FileProblem(f"There is no file {path}, and no folder {folder} either.")
        hint = did_you_mean(path.name, (p.name for p in folder.iterdir()))
        raise FileProblem(f"There is no file {path}{hint}.")
    if not os.access(path, os.R_OK):
        raise FileProblem(f"{path} cannot be read: no permission.")
    # a device has no end, and a pipe can be read once
    if not path.is_file():
        raise FileProblem(f"{path} is a device or a pipe; write what it gives to a file first.")
    if path.stat().st_size == 0:
        raise FileProblem(f"{path} is empty.")
    return path


def writable_file(path: str | os.PathLike[str], *read: object) -> Path:
    """Return ``path`` as a Path if a file can be written there, else raise FileProblem.

    Parameters
    ----------
    path : path
        The file to write.
    *read : path, database or None
        The sources that are read. The file must be none of them.
    """
    path = Path(path)
    for where in read:
        source = getattr(where, "path", where)
        if isinstance(source, Path) and source.exists() and path.exists() and path.samefile(source):
            raise FileProblem(f"{path} is a file that is read; name another one to write.")
    if path.is_dir():
        raise FileProblem(f"{path} is a folder; name the file to write in it.")
    # the finished file replaces the existing one, which must not be a device or a pipe
    if path.exists() and not path.is_file():
        raise FileProblem(f"{path} is a device or a pipe; name a file to write.")
    writable_folder(path.parent, make=False)
    if path.exists() and not os.access(path, os.W_OK):
        raise FileProblem(f"{path} exists and cannot be overwritten: no permission.")
    return path


def writable_folder(path: str | os.PathLike[str], *, make: bool = True) -> Path:
    """Return ``path`` as a Path if files can be written to this folder; create it with ``make``."""
    path = Path(path)
    try:
        if make:
            path.mkdir(parents=True, exist_ok=True)
        # permission bits do not show a read-only or full disk, so a file is written
        with tempfile.TemporaryFile(dir=path):
            pass
    except FileNotFoundError:
        if make or path.is_dir():
            raise FileProblem(f"Nothing can be written to {path}; name another folder.") from None
        raise FileProblem(f"There is no folder {path} to write to; make it first.") from None
    except (FileExistsError, NotADirectoryError):
        raise FileProblem(
            f"Nothing can be written under {path}: it is not a folder; name another one."
        ) from None
    except OSError as error:
        raise FileProblem(
            f"Nothing can be written to {path}: {error.strerror or error}; name another folder."
        ) from None
    return path


def is_packed(path: Path) -> bool:
    """Tell from its ending whether a file is packed."""
    return path.suffix.lower() in _OPENERS


def unpacked_name(path: Path) -> Path:
    """Return the name of a file without the ending of its packing."""
    if path.suffix.lower() == ".zip":
        return Path(_table_in(path))
    return Path(path.stem if is_packed(path) else path.name)


def open_text(path: Path) -> BinaryIO:
    """Open a text file. A file that ends in .gz, .bz2, .zst or .zip is unpacked, within the limits."""
    if not is_packed(path):
        return path.open("rb")
    with reporting(path, _DAMAGED):
        file = _OPENERS[path.suffix.lower()](path)
    return generated(file, _bounded(path, file))


def _open_zip(path: Path) -> Any:
    return zipfile.ZipFile(path).open(_table_in(path))


_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".zst": lambda path: pa.input_stream(path, compression="zstd"),
    ".zip": _open_zip,
}


def _table_in(path: Path) -> str:
    """Return the name of the only table in a zip archive, or raise an error if there is not exactly one."""
    with read_from(path), reporting(path, "is not a whole zip archive"), zipfile.ZipFile(path) as archive:
        every = archive.infolist()
    members = [m for m in every if not m.is_dir() and "__MACOSX/" not in m.filename]
    if any(member.flag_bits & 1 for member in members):
        raise FileProblem(f"{path} is locked with a password; unpack it first.")
    named = [member.filename for member in members]
    # documentation beside the table is ignored
    named = [name for name in named if not name.lower().endswith((".txt", ".md", ".pdf"))] or named
    if len(named) != 1:
        raise FileProblem(
            f"{path} holds {len(named)} files{f' ({listed(named)})' if named else ''}, where one table is expected; "
            "unpack it and give the file that is meant."
        )
    return named[0]


def zip_sizes(path: Path) -> dict[str, int] | None:
    """Return the unpacked size of each member of a zip archive; None if the file is not an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {member.filename: member.file_size for member in archive.infolist()}
    except zipfile.BadZipFile as error:
        if said := failure_to_read(error):  # is_zipfile does not report a read error
            raise FileProblem(f"{path} could not be read: {said}.") from error
        return None


def _bounded(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the unpacked content of a file, with limits on its size and the length of its lines."""
    packed, total, line = path.stat().st_size, 0, 0
    while True:
        with reporting(path, _DAMAGED):
            part = file.read(MIB)
        if not part:
            return
        total += len(part)
        refuse_bomb(path, packed, total)
        end = part.rfind(b"\n")
        line = line + len(part) if end < 0 else len(part) - end - 1
        if line > MAX_LINE:
            raise FileProblem(f"{path} has a line of more than {MAX_LINE // MIB} MB; it is no table.")
        yield part


def refuse_bomb(path: Path, packed: int, unpacked: int) -> None:
    """Raise an error if a file of ``packed`` bytes unpacks to implausibly many bytes."""
    if unpacked > max_unpacked(packed):
        raise FileProblem(
            f"{path} unpacks to more than {max_unpacked(packed) / 2**30:,.1f} GB, over {MAX_TIMES} times its own "
            "size, as no table or model does; if it is meant, save it unpacked."
        )


def max_unpacked(packed: int) -> int:
    """Return the number of bytes to which a file of ``packed`` bytes may unpack.

    >>> max_unpacked(1000) == 2**30, max_unpacked(2**30) == 200 * 2**30
    (True, True)
    """
    return max(MAX_UNPACKED, MAX_TIMES * packed)


def generated(file: IO[bytes], parts: Iterator[bytes]) -> BinaryIO:
    """Return a file of bytes that are generated from another file, which is closed with it."""
    return io.BufferedReader(_Generated(file, parts), MIB)


class _Generated(io.RawIOBase):
    def __init__(self, file: IO[bytes], parts: Iterator[bytes]) -> None:
        self.file, self.parts, self.left = file, parts, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.left:
            part = next(self.parts, None)
            if part is None:
                return 0
            self.left = part
        count = min(len(buffer), len(self.left))
        buffer[:count] = self.left[:count]
        self.left = self.left[count:]
        return count

    def close(self) -> None:
        self.file.close()
        super().close()
