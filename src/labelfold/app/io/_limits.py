"""Limits on the unpacked size of packed files, against decompression bombs."""

from __future__ import annotations

import bz2
import gzip
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from labelfold.app.io._extras import pa
from labelfold.app.io._problems import FileProblem, failure_to_read, listed, read_from, reporting

# A file is refused if it unpacks to more than ALWAYS bytes and to more than TIMES its size. Tables and models stay
# far below this factor; decompression bombs reach about 1000.
ALWAYS, TIMES = 1 << 30, 200
_LONGEST_LINE = 1 << 26
_PART = 1 << 20  # bytes that are unpacked at a time
_DAMAGED = "is damaged or cut short"


def refuse_bomb(path: Path, packed: int, unpacked: int) -> None:
    """Raise an error if a file of ``packed`` bytes unpacks to implausibly many bytes."""
    if unpacked > most_unpacked(packed):
        raise FileProblem(
            f"{path} unpacks to more than {most_unpacked(packed) / 2**30:,.1f} GB, over {TIMES} times its own size, "
            "as no table or model does; if it is meant, save it unpacked."
        )


def most_unpacked(packed: int) -> int:
    """Return the number of bytes to which a file of ``packed`` bytes may unpack.

    >>> most_unpacked(1000) == 2**30, most_unpacked(2**30) == 200 * 2**30
    (True, True)
    """
    return max(ALWAYS, TIMES * packed)


def is_packed(path: Path) -> bool:
    """Tell from its ending whether a file is packed."""
    return path.suffix.lower() in _OPENERS


def unpacked_name(path: Path) -> Path:
    """Return the name of a file without the ending of its packing."""
    if path.suffix.lower() == ".zip":
        return Path(_table_in(path))
    return Path(path.stem if is_packed(path) else path.name)


def zip_sizes(path: Path) -> dict[str, int] | None:
    """Return the unpacked size of each member of a zip archive; None if the file is not an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {member.filename: member.file_size for member in archive.infolist()}
    except zipfile.BadZipFile as error:
        if said := failure_to_read(error):  # is_zipfile does not report a read error
            raise FileProblem(f"{path} could not be read: {said}.") from error
        return None


def open_text(path: Path) -> BinaryIO:
    """Open a text file. A file that ends in .gz, .bz2, .zst or .zip is unpacked, within the limits."""
    if not is_packed(path):
        return path.open("rb")
    with reporting(path, _DAMAGED):
        file = _OPENERS[path.suffix.lower()](path)
    return generated(file, _bounded(path, file))


def _open_zip(path: Path) -> Any:
    return zipfile.ZipFile(path).open(_table_in(path))


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


def _open_zstd(path: Path) -> Any:
    return pa.input_stream(path, compression="zstd")


_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".zst": _open_zstd,
    ".zip": _open_zip,
}


def _bounded(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the unpacked content of a file, with limits on its size and the length of its lines."""
    packed, total, line = path.stat().st_size, 0, 0
    while True:
        with reporting(path, _DAMAGED):
            part = file.read(_PART)
        if not part:
            return
        total += len(part)
        refuse_bomb(path, packed, total)
        end = part.rfind(b"\n")
        line = line + len(part) if end < 0 else len(part) - end - 1
        if line > _LONGEST_LINE:
            raise FileProblem(f"{path} has a line of more than {_LONGEST_LINE >> 20} MB; it is no table.")
        yield part


def generated(file: IO[bytes], parts: Iterator[bytes]) -> BinaryIO:
    """Return a file of bytes that are generated from another file, which is closed with it."""
    return io.BufferedReader(_Generated(file, parts), _PART)


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
