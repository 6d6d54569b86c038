"""Commands whose reads fail or are short, or whose file is changed by another process while it is read.

A failing read gives one sentence that says so, or has no effect. A short read is not a failure. A file that shrinks,
grows or is replaced meanwhile gives a result or a sentence. Existing files stay unchanged.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from child import Ended, in_turn, new_folder, run, run_tries, undisturbed
from disk import READS, Calls, loaded
from files import FORMATS, whole
from scenarios import files_of, result_lines, told_by

_PREFIX = "read-"
# Messages about a failing read: of labelfold, and of SQLite.
_SAID = ("could not be read", "disk I/O error", "disk image is malformed")
FAULTS = 10
NAMES = tuple(f"{_PREFIX}{name}" for name in FORMATS)


@dataclass(frozen=True)
class Reader:
    """A command that reads a file, and its result without faults."""

    arguments: list[str]
    before: Path
    was: dict[str, bytes] = field(repr=False)
    reference: dict[str, Any] = field(repr=False)
    calls: list[str]

    def disturbed(self, folder: Path, kind: str, number: int) -> str:
        """Run the command once with a failing read; check its effect, and that it can be run again."""
        aside = folder.with_name("aside")
        name = self.calls[number].split(" ", 1)[1]
        aside.write_bytes(self.was.get("t.npy" if name != "t.npy" else "t.csv", b"") + b"another\n")
        ended = run(self.arguments, folder, Calls(folder, kind, number, aside=aside).install)
        self._check(kind, ended, folder, name)
        (folder / name).write_bytes(self.was.get(name, b""))
        if name not in self.was:
            (folder / name).unlink()
        undisturbed(self.arguments, folder)
        return "sentence" if ended.status else "result"

    def _check(self, kind: str, ended: Ended, folder: Path, name: str) -> None:
        ended.check_words()
        assert ended.status in (0, 1, 2), f"status {ended.status}: {ended.err}"
        now, changed = files_of(folder), kind in ("shrinks", "grows", "is replaced")
        if kind.startswith("EIO") and ended.status:
            assert any(words in ended.err for words in _SAID), f"the cause is not said: {ended.err}"
        assert kind != "short" or ended.status == 0, f"a short read is no failure: {ended.err}"
        results = {line for path in now if "results" in path for line in result_lines(now[path])}
        for path, data in self.was.items():
            assert path in now, f"{path} is gone"
            same = now[path] == data or (changed and path == name)
            assert same or path in self.reference or path.startswith("r/"), f"{path} was changed"
            if path.endswith("results.csv") and not same:
                assert result_lines(data) <= results, f"{path} lost results"
        for path in now.keys() - self.was.keys():
            if "results.previous" in path:
                assert changed, f"{path}: the results were set aside"
                continue
            assert path in self.reference, f"{path} is new"
            assert changed or told_by(path, now[path]) == self.reference[path], f"{path} came out otherwise"
        made = self.reference.keys() - self.was.keys()
        assert ended.status or made <= now.keys(), f"{made - now.keys()} was not made"


@cache
def reader(name: str, command: str) -> Reader:
    """Run a command once without faults, and list its reads."""
    before = whole(name)
    root = new_folder("reads-")
    folder, counted = root / "work", root / "calls"
    shutil.copytree(before, folder)
    undisturbed(command.split(), folder, Calls(folder, report=counted).install)
    was, now = files_of(before), files_of(folder)
    reference = {path: told_by(path, data) for path, data in now.items() if was.get(path) != data}
    return Reader(command.split(), before, was, reference, counted.read_text().splitlines())


def run_batch(name: str, seed: int, number: int, *, shown: bool = False) -> tuple[Counter[str], str]:
    """Let reads of a format fail; return the numbers of results and sentences, and the failure, if any."""
    if not loaded():
        return Counter(), ""
    kind_of = FORMATS[name.removeprefix(_PREFIX)]
    command = kind_of.commands[number % len(kind_of.commands)].format(kind_of.name)
    one = reader(name.removeprefix(_PREFIX), command)
    faults = [(kind, i) for i in range(len(one.calls)) for kind in READS]
    random.Random(f"{name}:{seed}").shuffle(faults)
    taken = in_turn(faults, number // len(kind_of.commands) * FAULTS, FAULTS)
    tries = [
        (f"{command}, {kind} at read {i} ({one.calls[i]})", partial(one.disturbed, kind=kind, number=i))
        for kind, i in taken
    ]
    return run_tries(tries, shown, one.before)
