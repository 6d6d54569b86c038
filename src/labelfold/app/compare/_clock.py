"""The time limit of a comparison, and a progress bar with the time left."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tqdm.auto import tqdm

_RUN = 0.15  # share of the time limit that a single run may take
_LONGEST = 1e8  # longest alarm of the operating system in seconds
_AGAIN = 0.1  # seconds until an alarm that came during compilation is repeated
_COMPILER = f"{os.sep}numba{os.sep}core{os.sep}"


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
    >>> clock.most(), clock.over()
    (15.0, False)
    """

    def __init__(self, limit: float | None, run: float = _RUN):
        self._began = time.perf_counter()
        self.limit, self._run = limit, run

    @classmethod
    def shared(cls, limit: float | None, n_methods: int) -> Clock:
        """Return a clock for a number of methods; if they are few, a run may take the share of a method."""
        return cls(limit, max(_RUN, 1 / max(n_methods, 1)))

    def most(self, share: float | None = None) -> float:
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
        if self.limit is None or not _has_alarm():
            yield
            return

        def ring(number: int, frame: Any) -> None:
            if _compiling(frame):  # an exception inside the compiler would be printed, and its result lost
                signal.setitimer(signal.ITIMER_REAL, _AGAIN)
                return
            raise TimeUp

        before = signal.signal(signal.SIGALRM, ring)
        try:
            left = min(self.most(share), self.limit - self.seconds())
            signal.setitimer(signal.ITIMER_REAL, min(max(left, 1e-3), _LONGEST))
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


class Bar:
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


def _has_alarm() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
