"""Commands that are killed, interrupted, refused by the disk, run twice at once, or given a wrong clock.

Afterwards finished files are unchanged byte for byte, no file is incomplete under its final name, a failure is one
sentence with a status other than 0, and the next run continues and gives the result of a run without faults.
"""

from __future__ import annotations

import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import bases
import reads
from child import Ended, in_turn, run, run_tries, run_two, signalled
from disk import KINDS, Disk, can_happen
from scenarios import SCENARIOS, Scenario, scenario

import labelling

NAMES = (*SCENARIOS, *reads.NAMES, *bases.NAMES, *labelling.NAMES)
Disturb = Callable[[Scenario, Path], str]
# Number of failing calls to the disk in a batch, in turn; there is also one fault of each other kind.
_CALLS = 6


def run_batch(name: str, seed: int, number: int, *, shown: bool = False) -> tuple[Counter[str], str]:
    """Disturb a command several times; return the numbers of results and sentences, and the failure, if any."""
    for others in (reads, bases, labelling):
        if name in others.NAMES:
            return others.run_batch(name, seed, number, shown=shown)
    one = scenario(name)
    rng = random.Random(f"{name}:{seed}:{number}")
    tries = [(what, _checked(one, disturb)) for what, disturb in _faults(one, seed, number, rng)]
    return run_tries(tries, shown, one.before)


def _checked(one: Scenario, disturb: Disturb) -> Callable[[Path], str]:
    def attempt(folder: Path) -> str:
        ended = disturb(one, folder)
        one.check_next(folder)
        return ended

    return attempt


def disturbed(one: Scenario, kind: str, call: int) -> None:
    """Run a command once with a failing call to the disk, and check the state after it."""
    _, failure = run_tries([(f"{kind} at {call}", partial(_failing(kind, call), one))], False, one.before)
    assert not failure, failure


def _faults(one: Scenario, seed: int, number: int, rng: random.Random) -> list[tuple[str, Disturb]]:
    """Return the faults of a batch, each with its name."""
    calls = [(kind, i) for i, what in enumerate(one.calls) for kind in KINDS if can_happen(kind, what)]
    random.Random(seed).shuffle(calls)
    taken = in_turn(calls, number * _CALLS, _CALLS)
    made: list[tuple[str, Disturb]] = [
        (f"{kind} at call {i} ({one.calls[i]})", _failing(kind, i)) for kind, i in taken
    ]
    when = rng.uniform(0, 1.05)
    made.append((f"SIGKILL after {when:.3f} of its time", _signal(signal.SIGKILL, when)))
    times = [rng.uniform(0, 1.05) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    made.append((f"SIGINT after {times} of its time", _signal(signal.SIGINT, *times)))
    lag, size = rng.choice([0.0, rng.uniform(0, 1)]), int(10 ** rng.uniform(0, 5))
    back = rng.choice([3600.0, 86400.0 * 400, time.time() - 1000.0, -86400.0 * 365 * 200])
    others: list[tuple[str, Disturb]] = [
        (f"two at once, {lag:.3f} of its time apart", _twice(lag)),
        (f"files of at most {size} bytes", _small_files(size)),
        (f"a clock set back by {back:.0f} s in the midst", _clock(back, rng.randrange(1, 40))),
    ]
    return [*made, others[number % len(others)]]


def _ended(one: Scenario, folder: Path, ended: Ended, **known: bool) -> str:
    ended.check_words()
    one.check_state(folder, ended, **known)
    return "sentence" if ended.status in (1, 2, 130) else "result"


def _failing(kind: str, number: int) -> Disturb:
    """Let a call to the disk fail."""

    def disturb(one: Scenario, folder: Path) -> str:
        ended = run(one.arguments, folder, Disk(folder, kind, number).install)
        if kind == "short":
            assert ended.status == 0, f"a short write is no failure: {ended.err}"
        return _ended(one, folder, ended, littered=kind.startswith("EIO"))

    return disturb


def _signal(which: int, *times: float) -> Disturb:
    def disturb(one: Scenario, folder: Path) -> str:
        ended = signalled(one.arguments, folder, which, [when * one.seconds for when in times])
        return _ended(one, folder, ended, interrupted=which == signal.SIGINT)

    return disturb


def _twice(lag: float) -> Disturb:
    def disturb(one: Scenario, folder: Path) -> str:
        both = run_two(one.arguments, folder, lag * one.seconds, ("Another comparison",))
        assert any(ended.status == 0 for ended in both), f"both failed: {both[0].err} {both[1].err}"
        one.check_state(folder, max(both, key=lambda ended: -ended.status))
        return "result"

    return disturb


def _small_files(size: int) -> Disturb:
    """Let the operating system limit the size of files, also for C code."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return lambda one, folder: _ended(one, folder, run(one.arguments, folder, limit))


def _clock(back: float, calls: int) -> Disturb:
    """Let the wall clock jump after some calls; the monotonic clock is unchanged."""
    now, local, utc = time.time, time.localtime, time.gmtime
    asked = [0]

    def wrong() -> float:
        asked[0] += 1
        return now() - back * (asked[0] > calls % 3)

    def install() -> None:
        time.time = wrong
        time.time_ns = lambda: int(wrong() * 1e9)
        time.localtime = lambda at=None: local(wrong() if at is None else at)
        time.gmtime = lambda at=None: utc(wrong() if at is None else at)

    def disturb(one: Scenario, folder: Path) -> str:
        ended = run(one.arguments, folder, install)
        assert ended.status == 0, f"the clock is no reason to fail: {ended.err}"
        return _ended(one, folder, ended)

    return disturb
