"""Results on disk: each row is written when it is known, so that a comparison can be resumed."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from labelfold.app.io import (
    FileProblem,
    FolderLock,
    append_synced,
    pd,
    writable_file,
    write_finished,
)

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
_ALWAYS = ("method", "budget", "repeat")
_MAX_LINE = 65_536  # bytes that are read of run.json, and of the first line of results.csv
# Budget: share of the time limit that a single run may take, so that at least six have time.
_RUN_SHARE = 0.15
_MAX_ALARM = 1e8  # seconds; some systems refuse longer timers
_RETRY = 0.1  # seconds until an alarm during compilation is repeated
_COMPILER = f"{os.sep}numba{os.sep}core{os.sep}"


class Store:
    """The results of a comparison, stored in ``results.csv`` if a folder is given.

    Rows on disk are reused if ``run.json`` has the same fingerprint (data, seed and version), even if methods,
    budgets, sizes and repeats differ. Otherwise the file is renamed to ``results.previous.csv``, or to the next free
    number. Only one store at a time can write to a folder.

    Parameters
    ----------
    folder : path, optional
        The folder; None keeps the rows in memory. A `FolderLock` stays locked when the store is closed.
    fingerprint : str
        Identifies data, seed and version.

    Attributes
    ----------
    rows : list of dict
        All rows, those found on disk first.
    resumed : int
        Number of rows found on disk.
    unread : int
        Number of lines on disk that were damaged or repeated a row.
    set_aside : str or None
        The new name of a file of other data, or of a damaged file.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, fingerprint: str):
        self.rows: list[dict[str, Any]] = []
        self.unread = 0
        self.set_aside: str | None = None
        self._file: Any = None
        self._lock: FolderLock | None = None
        if folder is not None:
            if not isinstance(folder, FolderLock):
                folder = self._lock = FolderLock(folder)
            folder = folder.folder
            try:
                self._open(folder / "results.csv", folder / "run.json", fingerprint)
            except OSError as error:
                self.close()
                raise FileProblem(
                    f"{folder} could not be read or written to: {error.strerror or error}."
                ) from error
            except BaseException:
                self.close()
                raise
        self.resumed = len(self.rows)
        self._done = {_key(row) for row in self.rows}

    def has(self, method: str, k: int | None, budget: int, repeat: int) -> bool:
        """Tell whether the result of a run is stored."""
        return (method, k, budget, repeat) in self._done

    def add(self, row: dict[str, Any]) -> None:
        """Add a row. It is on disk when this returns."""
        row = dict.fromkeys(COLUMNS) | row
        if self._file is not None:
            self._append(_as_csv([row]))
        self.rows.append(row)
        self._done.add(_key(row))

    def close(self) -> None:
        """Close the file and release the folder."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _append(self, line: bytes) -> None:
        """Append a line to the file; if that fails, the file stays unchanged."""
        try:
            append_synced(self._file.fileno(), line, self._file.seek(0, os.SEEK_END))
        except OSError as error:
            raise FileProblem(
                f"{self._file.name} could not be written to: {error.strerror or error}; the results before this are "
                "there, and the same command goes on from them."
            ) from error

    def _open(self, results: Path, run: Path, fingerprint: str) -> None:
        for path in (results, run):
            writable_file(path)  # a pipe of that name would block
            if path.resolve().parent != path.parent.resolve():
                raise FileProblem(
                    f"{path} is a link that leads out of its folder; remove it, or name another folder."
                )
        same = results.exists() and _fingerprint(run) == fingerprint and _header(results) == list(COLUMNS)
        if same:
            self.rows, self.unread = _read(results)
        if self.unread:
            self.set_aside = write_finished(_free_name(results), results.read_bytes()).name
        elif results.exists() and not same:
            self.set_aside = results.rename(_free_name(results)).name
        if not same:
            write_finished(run, json.dumps({"fingerprint": fingerprint}).encode())
        if self.unread or not same:
            write_finished(results, ",".join(COLUMNS).encode() + b"\n" + _as_csv(self.rows))
        self._file = results.open("r+b", buffering=0)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def _as_csv(rows: Iterable[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    csv.DictWriter(text, COLUMNS, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", errors="replace")


def _free_name(results: Path) -> Path:
    """Return the first of results.previous.csv, results.previous-2.csv, ... that does not exist."""
    number, place = 1, results.with_name("results.previous.csv")
    while os.path.lexists(place):
        number += 1
        place = results.with_name(f"results.previous-{number}.csv")
    return place


def _fingerprint(run: Path) -> str | None:
    try:
        with run.open("rb") as file:
            return json.loads(file.read(_MAX_LINE)).get("fingerprint")
    except (FileNotFoundError, ValueError, AttributeError, RecursionError):
        return None


def _header(results: Path) -> list[str]:
    with results.open("rb") as file:
        line = file.readline(_MAX_LINE)
    return line.decode("utf-8", errors="replace").rstrip("\n").split(",")


def _read(results: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of a file, each once, and the number of other lines.

    An unfinished last line, left by a killed run, is removed and not counted.
    """
    content = results.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with results.open("r+b") as file:
            file.truncate(len(whole))
    # splitlines would also split at other characters, which a message may contain. No message contains a newline, so
    # an unbalanced quote damages only its own line.
    lines = whole.split(b"\n")[1:-1]
    rows: dict[tuple, dict[str, Any]] = {}
    for line in lines:
        row = _row(line)
        if row is not None:
            rows.setdefault(_key(row), row)
    return list(rows.values()), len(lines) - len(rows)


def _row(line: bytes) -> dict[str, Any] | None:
    """Return a line as a row; None if it is damaged."""
    try:
        (cells,) = csv.reader([line.decode("utf-8")], strict=True)
        row = {
            name: kind(cell) if cell else None
            for (name, kind), cell in zip(COLUMNS.items(), cells, strict=True)
        }
    except (ValueError, csv.Error):
        return None
    numbers = [v for v in row.values() if isinstance(v, int | float)]
    usable = all(math.isfinite(v) and abs(v) < 2**63 for v in numbers)
    ended = row["score"] is not None or row["error"] is not None
    return row if usable and ended and all(row[name] is not None for name in _ALWAYS) else None


class TimeUp(BaseException):
    """The time limit is reached. Not an Exception, so that only the runner catches it, like KeyboardInterrupt."""


class Clock:
    """The time limit of a comparison.

    Parameters
    ----------
    limit : float, optional
        Seconds for all runs; None for no limit.
    run : float, default=0.15
        Share of the limit that a single run may take.

    Examples
    --------
    >>> clock = Clock(100.0)
    >>> clock.run_limit(), clock.over()
    (15.0, False)
    """

    def __init__(self, limit: float | None, run: float = _RUN_SHARE):
        self._began = time.perf_counter()
        self.limit, self._run = limit, run

    @classmethod
    def shared(cls, limit: float | None, n_methods: int) -> Clock:
        """Return a clock for a number of methods; if they are few, a run may take the share of a method."""
        return cls(limit, max(_RUN_SHARE, 1 / max(n_methods, 1)))

    def run_limit(self, share: float | None = None) -> float:
        """Return the most seconds that a run may take: its share of the limit, at least 1."""
        limit = np.inf if self.limit is None else self.limit
        return max(limit * (self._run if share is None else share), 1.0)

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._began

    def over(self) -> bool:
        """Tell whether the limit is reached."""
        return self.limit is not None and self.seconds() >= self.limit

    @contextmanager
    def turn(self, share: float | None = None) -> Iterator[None]:
        """Raise TimeUp when a run has used its share of the limit, or the limit is reached.

        The run is interrupted by an alarm. Where there is none (Windows, or another thread than the main one), TimeUp
        is raised before the next run.
        """
        if self.over():
            raise TimeUp
        alarm = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        if self.limit is None or not alarm:
            yield
            return

        def ring(number: int, frame: Any) -> None:
            if _compiling(frame):  # an exception inside the compiler would be printed, and its result lost
                signal.setitimer(signal.ITIMER_REAL, _RETRY)
                return
            raise TimeUp

        before = signal.signal(signal.SIGALRM, ring)
        try:
            left = min(self.run_limit(share), self.limit - self.seconds())
            signal.setitimer(signal.ITIMER_REAL, min(max(left, 1e-3), _MAX_ALARM))
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


class ProgressBar:
    """A progress bar that estimates the time left from the usual time of each kind of run.

    ``labels`` name the kind of each run.
    """

    def __init__(self, labels: list[str], shown: bool, clock: Clock):
        self._left = Counter(labels)
        self._took: dict[str, list[float]] = defaultdict(list)
        self._clock = clock
        self._bar = tqdm(
            total=len(labels),
            disable=not shown,
            unit="fit",
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}, {elapsed} gone{postfix}",
        )

    def start(self, label: str, text: str) -> None:
        """Show the name of the run that starts."""
        self._label, self._since = label, time.perf_counter()
        self._bar.set_description_str(text)

    def done(self) -> None:
        """Count the run as done."""
        self._took[self._label].append(time.perf_counter() - self._since)
        self._left[self._label] -= 1
        self._bar.set_postfix_str(f"about {in_words(self.seconds_left())} left", refresh=False)
        self._bar.update()

    def seconds_left(self) -> float:
        """Return the estimated time left: the median time of each kind of run, or the mean of all if it is new."""
        # the median, since the first run of a kind may include compilation
        usual = {label: sorted(took)[len(took) // 2] for label, took in self._took.items()}
        new = sum(usual.values()) / max(len(usual), 1)
        left = sum(count * usual.get(label, new) for label, count in self._left.items())
        limit = np.inf if self._clock.limit is None else self._clock.limit
        return max(min(left, limit - self._clock.seconds()), 0)

    def close(self) -> None:
        """Close the bar."""
        self._bar.close()


def default_limit(n_numbers: int, n_labelled: int) -> float:
    """Return the default time limit in seconds, from the number of values in X and the number of labels.

    >>> default_limit(2000 * 60, 100), default_limit(100_000 * 784, 100), default_limit(6000 * 256, 5000)
    (40.0, 600.0, 200.0)
    """
    return min(max(40.0, 40.0 * n_numbers / 2e6, 40.0 * n_labelled / 1000), 600.0)


def _compiling(frame: Any) -> bool:
    """Tell whether a caller of the frame is numba's compiler."""
    while frame is not None:
        if _COMPILER in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def in_words(seconds: float) -> str:
    """Return a duration as text.

    >>> in_words(7.2), in_words(100), in_words(9000)
    ('7 s', '2 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def int_or_none(value: Any) -> int | None:
    """Return a cell of a table as int, None if it is missing."""
    return None if pd.isna(value) else int(value)
