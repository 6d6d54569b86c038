"""Commands in forked children of this process, which has all imports: one second each instead of four.

Each try of a batch has a temporary folder of its own. It is removed when the try or the process ends; if the process
was killed, when the next one begins.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PATIENCE = 120.0  # seconds after which a command counts as hanging


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes
    ----------
    status : int
        The exit status, or minus the signal that ended it.
    out, err : str
        Its output.
    seconds : float
        Its duration.
    mebibytes : float
        Its peak memory.
    """

    status: int
    out: str
    err: str
    seconds: float
    mebibytes: float

    def check_words(self) -> None:
        """Check that a failure is one sentence, and that no other output reports a failure."""
        said = f"status {self.status}: {self.out[-500:]}{self.err[-2000:]}"
        for word in ("Traceback", "unforeseen", "Exception ignored", "Fatal Python", "Segmentation"):
            assert word not in self.out + self.err, said
        assert self.seconds < PATIENCE, f"it hung: {said}"
        sentences = [line for line in self.err.splitlines() if line.startswith("labelfold: ")]
        if self.status in (1, 2, 130):
            assert sentences == self.err.splitlines()[-1:], f"not one sentence last: {said}"
            assert sentences[0].endswith("."), said
        else:
            assert self.status in (0, -signal.SIGKILL, -signal.SIGINT), said
            assert not sentences, said


class Command:
    """A command that runs in a child.

    Parameters
    ----------
    arguments : list of str
        As on the command line.
    folder : Path
        Where it runs.
    prepare : callable, optional
        Called in the child before the command, for example to install a fault.
    """

    def __init__(self, arguments: list[str], folder: Path, prepare: Callable[[], Any] | None = None):
        pipes = [os.pipe() for _ in ("out", "err")]  # pipes, since files would be truncated on a full disk
        self.said = {reads: b"" for reads, _ in pipes}
        sys.stdout.flush()
        sys.stderr.flush()
        ready, say = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(ready)
            _be_the_command(arguments, folder, [writes for _, writes in pipes], prepare, say)
        for reads, writes in pipes:
            os.set_blocking(reads, False)
            os.close(writes)
        os.close(say)
        os.read(ready, 1)
        os.close(ready)
        self.began = time.monotonic()

    def send(self, number: int) -> None:
        """Send a signal; nothing happens if the command has ended."""
        os.kill(self.pid, number)

    def wait(self) -> Ended:
        """Wait for the end, at most `PATIENCE` seconds."""
        end, used, status = self.began + PATIENCE, None, 0
        while used is None:
            done, code, usage = os.wait4(self.pid, os.WNOHANG)
            if done:
                used, status = usage, os.waitstatus_to_exitcode(code)
            elif time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                _, code, used = os.wait4(self.pid, 0)
                status = os.waitstatus_to_exitcode(code)
            else:
                time.sleep(0.002)
            self._listen()
        for reads in self.said:
            os.close(reads)
        out, err = (said.decode(errors="replace") for said in self.said.values())
        return Ended(status, out, err, time.monotonic() - self.began, used.ru_maxrss / 1024)

    def _listen(self) -> None:
        for reads in self.said:
            with suppress(BlockingIOError):
                while part := os.read(reads, 1 << 16):
                    self.said[reads] += part


def undisturbed(arguments: list[str], folder: Path, prepare: Callable[[], Any] | None = None) -> Ended:
    """Run a command that must succeed."""
    ended = run(arguments, folder, prepare)
    ended.check_words()
    assert ended.status == 0, f"{' '.join(arguments)}: {ended.err}"
    return ended


def in_turn(items: Sequence[Any], start: int, count: int) -> list[Any]:
    """Return some of the items from a place on, beginning again after the last one."""
    return [items[i % len(items)] for i in range(start, start + count if items else start)]


def signalled(arguments: list[str], folder: Path, which: int, times: Iterable[float]) -> Ended:
    """Run a command, and send it a signal at these seconds after its start."""
    command = Command(arguments, folder)
    for when in sorted(times):
        time.sleep(max(command.began + when - time.monotonic(), 0))
        command.send(which)
    return command.wait()


def run(arguments: list[str], folder: Path, prepare: Callable[[], Any] | None = None) -> Ended:
    """Run a command and wait for its end."""
    return Command(arguments, folder, prepare).wait()


def _be_the_command(
    arguments: list[str], folder: Path, said: list[int], prepare: Callable[[], Any] | None, say: int
) -> None:
    """Run the ``labelfold`` script in this process, and end it."""
    status = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.pop("LABELFOLD_DEBUG", None)
        os.chdir(folder)
        for number, handle in zip((1, 2), said, strict=True):
            os.dup2(handle, number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        sys.argv = ["labelfold", *arguments]
        from labelfold.app.commands._cli import main

        if prepare is not None:
            prepare()
        os.close(say)
        status = main()
    except BaseException as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            os.kill(os.getpid(), signal.SIGKILL)  # interrupted before the command began
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def run_two(
    arguments: list[str], folder: Path, pause: float, reasons: tuple[str, ...]
) -> tuple[Ended, Ended]:
    """Start a command twice, with a pause between; each must succeed, or be refused for one of these reasons."""
    first = Command(arguments, folder)
    time.sleep(pause)
    second = Command(arguments, folder)
    both = first.wait(), second.wait()
    for ended in both:
        ended.check_words()
        refused = any(reason in ended.err for reason in reasons)
        assert ended.status == 0 or refused, f"refused without a reason: {ended.err}"
    return both


_PREFIX = "labelfold-campaign-"


def new_folder(prefix: str) -> Path:
    """Return a new folder."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_root(os.getpid())))


@cache
def _root(process: int) -> Path:
    """Return the folder of a process, which is locked while the process runs."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _locked(left)
            shutil.rmtree(left, ignore_errors=True)
    while True:
        made = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(OSError):  # another new process was faster
            _locked(made)
            atexit.register(_remove, made, process)
            return made


def _locked(folder: Path) -> None:
    """Lock a folder until the process ends, or fail if another process has locked it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


# What is tried, in words, and a function of the folder that returns how it ended: once, or several times.
Try = tuple[str, Callable[[Path], str | list[str]]]


def run_tries(
    tries: Iterable[Try], shown: bool, before: Path | None = None, errors: Any = AssertionError
) -> tuple[Counter[str], str]:
    """Run each try in a copy of a folder; return the numbers of results and sentences, and the failure, if any.

    ``shown`` prints each try, raises its failure, and then keeps its folder.
    """
    ended: Counter[str] = Counter()
    for what, attempt in tries:
        root = new_folder("try-")
        folder = root / "work"
        if before is None:
            folder.mkdir()
        else:
            shutil.copytree(before, folder)
        if shown:
            print(what, "in", folder, flush=True)
        try:
            found = attempt(folder)
        except errors as error:
            if shown:
                raise
            shutil.rmtree(root)
            return ended, f"{what}: {error}"
        ended.update([found] if isinstance(found, str) else found)
        shutil.rmtree(root)
    return ended, ""
