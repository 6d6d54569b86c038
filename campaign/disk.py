"""A disk that fails: the n-th call that changes or reads something in a folder fails, in one of several ways.

`Disk` replaces Python's own calls: `open`, and with it every write, and the functions of `os` that create, rename,
sync and remove files. labelfold writes by no other way; pyarrow and zipfile write to files that labelfold opens.
`Calls` replaces system calls, also those of C code: the library calls.c, compiled and loaded when the process starts.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

# The faults of a call: an error once; an error from then on; half of a write; the end of the process during a write;
# and a power failure, which also loses everything that was not synced.
KINDS = ("EIO", "ENOSPC", "EIO from then on", "full from then on", "short", "kill", "power")
_GROWS = ("open", "write", "mkdir", "ftruncate")


def can_happen(kind: str, what: str) -> bool:
    """Tell whether a fault can happen to a call."""
    if kind == "short":
        return what == "write"
    return kind != "ENOSPC" or what not in ("unlink", "remove", "rmdir")


class Disk:
    """A disk of which one call fails.

    Parameters
    ----------
    folder : Path
        Only calls about files under it are counted.
    kind : str
        One of `KINDS`; "" counts and does nothing.
    number : int
        Index of the call that fails, from 0.
    report : Path, optional
        The file to which every call is written, one line each.
    """

    def __init__(self, folder: Path, kind: str = "", number: int = -1, report: Path | None = None):
        self.folder, self.kind, self.number = os.path.realpath(folder), kind, number
        self.calls = 0
        self.report = None if report is None else os.open(report, os.O_WRONLY | os.O_CREAT)
        self.paths: dict[int, str] = {}  # paths of open files
        self.synced: dict[str, int] = {}  # number of synced bytes of each written file
        self.real = {name: getattr(os, name) for name in ("open", "write", "fsync", "ftruncate", "close")}

    def install(self) -> None:
        """Replace the real disk by this one, in this process."""
        disk, real_open = self, io.open

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                return disk._write(super().write, self.fileno(), data)

            def truncate(self, size: int | None = None) -> int:
                disk._call("ftruncate", os.fspath(self.name))
                return super().truncate(size)

        def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **options: Any) -> Any:
            text = isinstance(file, str | os.PathLike) and not options.get("opener")
            if not set(mode) & set("wxa+") or not text or not self._inside(file):
                return real_open(file, mode, buffering, *args, **options)
            if set(mode) & set("wxa"):
                self._call("open", os.fspath(file))
            raw = Raw(file, mode.replace("b", "").replace("t", ""))
            self._opened(raw.fileno(), os.fspath(file), "w" in mode or "x" in mode)
            if buffering == 0:
                return raw
            made = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return made if "b" in mode else io.TextIOWrapper(made, *args, **options)

        builtins.open = io.open = opened  # type: ignore[assignment]
        for name in ("replace", "rename", "unlink", "remove", "mkdir", "rmdir"):
            setattr(os, name, self._named(name, getattr(os, name)))
        os.open, os.write = self._os_open, self._os_write  # type: ignore[assignment]
        os.fsync, os.ftruncate = self._fsync, self._ftruncate  # type: ignore[assignment]

    def _inside(self, path: Any) -> bool:
        return os.path.abspath(os.fspath(path)).startswith(self.folder + os.sep)

    def _opened(self, handle: int, path: str, new: bool) -> None:
        self.paths[handle] = os.path.abspath(path)
        self.synced[self.paths[handle]] = 0 if new else os.stat(path).st_size

    def _named(self, name: str, real: Callable) -> Callable:
        def call(path: Any, *args: Any, **options: Any) -> Any:
            if options.get("dir_fd") is None and self._inside(path):
                self._call(name, os.fspath(path))
                if name in ("replace", "rename"):
                    synced = self.synced.pop(os.path.abspath(path), None)
                    if synced is not None:
                        self.synced[os.path.abspath(args[0])] = synced
            return real(path, *args, **options)

        return call

    def _os_open(self, path: Any, flags: int, *args: Any, **options: Any) -> int:
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        counted = writes and options.get("dir_fd") is None and self._inside(path)
        if counted:
            self._call("open", os.fspath(path))
        handle = self.real["open"](path, flags, *args, **options)
        if counted and not os.path.isdir(path):  # an unnamed file has the path of a folder
            self._opened(handle, os.fspath(path), False)
        elif os.path.isdir(path):
            self.paths.pop(handle, None)
        return handle

    def _os_write(self, handle: int, data: Any) -> int:
        if handle not in self.paths:
            return self.real["write"](handle, data)
        return self._write(lambda part: self.real["write"](handle, part), handle, data)

    def _fsync(self, handle: int) -> None:
        path = self.paths.get(handle)
        self._call("fsync", path)
        self.real["fsync"](handle)
        if path is not None:
            self.synced[path] = os.fstat(handle).st_size

    def _ftruncate(self, handle: int, size: int) -> None:
        if handle in self.paths:
            self._call("ftruncate", self.paths[handle])
        self.real["ftruncate"](handle, size)

    def _write(self, write: Callable[[Any], int], handle: int, data: Any) -> int:
        view = memoryview(data).cast("B")
        half = view[: max(len(view) // 2, 1)]
        happens = self._next("write")
        if happens == "short":
            return write(half)
        if happens in ("kill", "power"):
            write(half)
        self._happen(happens, None)
        return write(view)

    def _call(self, what: str, path: str | None) -> None:
        self._happen(self._next(what), path)

    def _next(self, what: str) -> str:
        """Count a call; return its fault."""
        here, self.calls = self.calls, self.calls + 1
        if self.report is not None:
            self.real["write"](self.report, what.encode() + b"\n")
        if self.kind == "full from then on":
            return "ENOSPC" if here >= self.number and what in _GROWS else ""
        if self.kind == "EIO from then on":
            return "EIO" if here >= self.number else ""
        return self.kind if here == self.number else ""

    def _happen(self, happens: str, path: str | None) -> None:
        if happens in ("EIO", "ENOSPC"):
            number = getattr(errno, happens)
            named = () if path is None else (path,)
            raise OSError(number, os.strerror(number), *named)
        if happens == "power":
            for written, size in self.synced.items():
                if os.path.isfile(written) and os.stat(written).st_size > size:
                    os.truncate(written, size)
        if happens in ("kill", "power"):
            os.kill(os.getpid(), signal.SIGKILL)


_SOURCE = Path(__file__).with_name("calls.c")
_HOW = ("", "fail", "fail always", "short", "kill", "shrinks", "grows", "is replaced")
# The faults: their names in calls.c, and their errors.
_ERRORS = {
    "EIO": ("fail", errno.EIO),
    "EIO from then on": ("fail always", errno.EIO),
    "ENOSPC": ("fail", errno.ENOSPC),
    "full from then on": ("fail always", errno.ENOSPC),
}
READS = ("EIO", "EIO from then on", "short", "shrinks", "grows", "is replaced")
WRITES = ("EIO", "ENOSPC", "EIO from then on", "full from then on", "short", "kill")


@cache
def library() -> Path | None:
    """Return the compiled library; None without a compiler, or on another system than Linux."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        return None
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    made = _SOURCE.parent / "__pycache__" / f"calls-{digest}.so"
    if not made.exists():
        made.parent.mkdir(exist_ok=True)
        aside = made.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", aside, _SOURCE, "-ldl"], check=False
        )
        if done.returncode:
            return None
        aside.replace(made)
    return made


def environment() -> dict[str, str]:
    """Return the environment of a process whose calls can fail."""
    return {} if library() is None else {"LD_PRELOAD": str(library())}


@cache
def loaded() -> bool:
    """Tell whether this process was started with that environment."""
    return hasattr(ctypes.CDLL(None), "labelfold_arm")


class Calls:
    """System calls of which one fails.

    Parameters
    ----------
    folder : Path
        Only calls about files under it are counted.
    kind : str
        One of `READS` or `WRITES`; "" counts and does nothing.
    number : int
        Index of the call that fails, from 0.
    writes : bool
        Whether writing calls fail, rather than reading ones.
    report : Path, optional
        The file to which every call is written, one line each.
    aside : Path, optional
        The file that replaces another.
    """

    def __init__(
        self,
        folder: Path,
        kind: str = "",
        number: int = -1,
        *,
        writes: bool = False,
        report: Path | None = None,
        aside: Path | None = None,
    ):
        how, error = _ERRORS.get(kind, (kind, 0))
        told = -1 if report is None else os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        other = b"" if aside is None else os.fsencode(aside)
        where = os.fsencode(os.path.realpath(folder))
        self.arguments = (where, int(writes), _HOW.index(how), number, error, other, told)

    def install(self) -> None:
        """Let calls of this process fail from now on."""
        ctypes.CDLL(None).labelfold_arm(*self.arguments)
