"""Results on disk, each row when it is made, so that a run that was stopped or killed goes on where it was."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

from labelfold.app.io._problems import FileProblem, writable_folder

COLUMNS = {
    "method": str,
    "k": int,
    "components": int,
    "budget": int,
    "repeat": int,
    "score": float,
    "balanced_accuracy": float,
    "fit_seconds": float,
    "transform_seconds": float,
    "embedding_size": int,
    "predicted": str,
    "note": str,
    "error": str,
}
_KEY = ("method", "k", "budget", "repeat")


class Store:
    """The rows of a comparison, in ``results.csv`` of a folder where one is given.

    Rows already there are taken over if they come from the same data, seed and version (``run.json`` says), whatever
    methods, budgets, sizes and repeats were asked for then. Otherwise they are put aside as ``results.previous.csv``.

    Parameters
    ----------
    folder : path, optional
        Where to write; nowhere unless given.
    fingerprint : str
        What rows must have in common.

    Attributes
    ----------
    rows : list of dict
        All rows, those found on disk first.
    resumed : int
        How many were found.
    replaced : bool
        Whether rows of other data were put aside.
    """

    def __init__(self, folder: str | os.PathLike | None, fingerprint: str):
        self.rows: list[dict[str, Any]] = []
        self.replaced = False
        self._file: Any = None
        if folder is not None:
            folder = writable_folder(folder)
            try:
                self._open(folder / "results.csv", folder / "run.json", fingerprint)
            except OSError as error:
                raise FileProblem(f"{folder} could not be written to: {error.strerror or error}.") from error
        self.resumed = len(self.rows)
        self._done = {tuple(row[k] for k in _KEY) for row in self.rows}

    def has(self, method: str, k: int | None, budget: int, repeat: int) -> bool:
        """Tell whether a run is done."""
        return (method, k, budget, repeat) in self._done

    def add(self, row: dict[str, Any]) -> None:
        """Add a row, and have it on disk before returning."""
        row = dict.fromkeys(COLUMNS) | row
        if self._file is not None:
            csv.DictWriter(self._file, COLUMNS, lineterminator="\n").writerow(row)
            self._file.flush()
            os.fsync(self._file.fileno())
        self.rows.append(row)
        self._done.add(tuple(row[k] for k in _KEY))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, results: Path, run: Path, fingerprint: str) -> None:
        if results.exists() and _fingerprint(run) == fingerprint and _header(results) == list(COLUMNS):
            self.rows = _read(results)
        elif results.exists():
            results.replace(results.with_name("results.previous.csv"))
            self.replaced = True
        if not results.exists():
            results.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
        run.write_text(json.dumps({"fingerprint": fingerprint}), encoding="utf-8")
        self._file = results.open("a", newline="", encoding="utf-8")


def _fingerprint(run: Path) -> str | None:
    try:
        return json.loads(run.read_text(encoding="utf-8")).get("fingerprint")
    except (OSError, ValueError, AttributeError):
        return None


def _header(results: Path) -> list[str]:
    with results.open(encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip("\n").split(",")


def _read(results: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, having cut off the half of one that a killed run may have left."""
    content = results.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with results.open("r+b") as file:
            file.truncate(len(whole))
    # not splitlines, which would also split at signs that a message may hold
    rows = csv.DictReader(whole.decode("utf-8").split("\n")[:-1])
    return [{name: kind(row[name]) if row[name] else None for name, kind in COLUMNS.items()} for row in rows]
