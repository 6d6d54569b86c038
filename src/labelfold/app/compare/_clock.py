"""Time: what is left of it, who may have how much, and a progress bar that says so."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

_RUN = 0.15  # the share of all time that a single run may take
_LONGEST = 1e8  # seconds that a system's alarm takes
_AGAIN = 0.1  # seconds until an alarm that rang while code was being compiled rings again


_COMPILER = f"{os.sep}numba{os.sep}core{os.sep}"


class TimeUp(BaseException):
    """Time is over; like KeyboardInterrupt it is nobody's business to catch but the runner's."""


class Clock:
    """The time of a comparison.

    Parameters
    ----------
    limit : float, optional
        Seconds for everything; endless unless given.
    run : float, default=0.15
        The share of all time that a single run may take.

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
        """Return a clock for so many methods: where they are few, a run may take a method's share."""
        return cls(limit, max(_RUN, 1 / max(n_methods, 1)))

    def most(self) -> float | None:
        """Return the most seconds that a run may take: a share of all, and a second at least."""
        return None if self.limit is None else _at_most(self.limit, self._run)

    def seconds(self) -> float:
        """Return how long it has been."""
        return time.perf_counter() - self._began

    def over(self) -> bool:
        """Tell whether the time is over."""
        return self.limit is not None and self.seconds() >= self.limit

    @contextmanager
    def turn(self, share: float | None = None) -> Iterator[None]:
        """Give a run its turn: raise TimeUp, also in the midst of it, when its share of time or all time is over.

        In the midst of it only on the main thread of a system with alarms; elsewhere before the next turn.
        """
        if self.over():
            raise TimeUp
        if self.limit is None or not _has_alarm():
            yield
            return

        def ring(number: int, frame: Any) -> None:
            if _compiling(frame):  # an exception inside the compiler would be printed, and its work lost
                signal.setitimer(signal.ITIMER_REAL, _AGAIN)
                return
            raise TimeUp

        before = signal.signal(signal.SIGALRM, ring)
        try:
            left = min(
                _at_most(self.limit, self._run if share is None else share), self.limit - self.seconds()
            )
            signal.setitimer(signal.ITIMER_REAL, min(max(left, 1e-3), _LONGEST))
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    @contextmanager
    def bar(self, labels: list[str], shown: bool) -> Iterator[Bar]:
        """Show a bar over runs, each named by what it should take as long as."""
        bar = Bar(labels, shown, self)
        try:
            yield bar
        finally:
            bar.close()


class Bar:
    """A progress bar that knows how long runs of each kind take, and from that what is left."""

    def __init__(self, labels: list[str], shown: bool, clock: Clock):
        self._left = Counter(labels)
        self._took: dict[str, list[float]] = defaultdict(list)
        self._clock = clock
        # made when there is something to show
        self._bar = tqdm(
            total=len(labels),
            disable=not shown,
            unit="fit",
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}, {elapsed} gone{postfix}",
        )

    def start(self, label: str, text: str) -> None:
        """Say what is being run."""
        self._label, self._since = label, time.perf_counter()
        self._bar.set_description_str(text)

    def done(self) -> None:
        """Note that it is done."""
        self._took[self._label].append(time.perf_counter() - self._since)
        self._left[self._label] -= 1
        self._bar.set_postfix_str(f"about {in_words(self.seconds_left())} left", refresh=False)
        self._bar.update()

    def seconds_left(self) -> float:
        """Return the expected time: the usual time of each kind of run, of all runs where one is new."""
        # the median: a kind's first run may hold a compiler's work
        usual = {label: sorted(took)[len(took) // 2] for label, took in self._took.items()}
        new = sum(usual.values()) / max(len(usual), 1)
        left = sum(count * usual.get(label, new) for label, count in self._left.items())
        return (
            left
            if self._clock.limit is None
            else max(min(left, self._clock.limit - self._clock.seconds()), 0)
        )

    def close(self) -> None:
        """Take it away."""
        self._bar.close()


def default_limit(n_numbers: int, n_labelled: int) -> float:
    """Return the seconds that a comparison takes at most unless told, by how many numbers and labels there are.

    >>> default_limit(2000 * 60, 100), default_limit(100_000 * 784, 100), default_limit(6000 * 256, 5000)
    (40.0, 600.0, 200.0)
    """
    return min(max(40.0, 40.0 * n_numbers / 2e6, 40.0 * n_labelled / 1000), 600.0)


def _compiling(frame: Any) -> bool:
    """Tell whether some caller of a frame is numba's compiler."""
    while frame is not None:
        if _COMPILER in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def in_words(seconds: float) -> str:
    """Write a duration.

    >>> in_words(7.2), in_words(100), in_words(9000)
    ('7 s', '2 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _has_alarm() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


def _at_most(limit: float, share: float) -> float:
    return max(limit * share, 1.0)
