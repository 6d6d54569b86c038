"""The tries of a batch: each in a new folder, which is removed afterwards."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from places import new_folder

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
