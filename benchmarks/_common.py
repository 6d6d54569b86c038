"""Helpers of several benchmarks: fair timing, memory, child processes, labels, and generated documents.

Data, threads and slopes are those of the experiments: `experiments/common.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

sys.path.append(str(Path(__file__).parents[1] / "experiments"))

# Seconds after which no thread of OpenBLAS waits busily.
_SETTLED = 0.2


def options_of(doc: str | None, argv: Sequence[str] | None = None, **options: Any) -> argparse.Namespace:
    """Return the options on the command line; ``doc`` is the help.

    Each option has its default. A default of False makes a flag. A tuple has the choices, of which all are the
    default; a list takes any number of values of its kind.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in options.items():
        how: dict[str, Any] = {"type": type(default)}
        if default is False:
            how = {"action": "store_true"}
        elif isinstance(default, tuple):
            how = {"nargs": "+", "choices": default}
        elif isinstance(default, list):
            how = {"nargs": "*", "type": type(default[0])}
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, **how)
    return parser.parse_args(argv)


def cores(about: str = "") -> None:
    """Print how many cores there are, and how busy they are."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}{about}", flush=True)


def timed(run: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    """Return the seconds and the result of a run."""
    start = clock()
    value = run()
    return clock() - start, value


def best_of(repeat: int, runs: Sequence[Callable[[], object]], threads: int) -> list[float]:
    """Return the least seconds of each run, repeated several times in turn.

    With one thread they are processor seconds, so that other processes on the machine matter less. With more there is
    a pause before each run, because the threads of OpenBLAS keep a core busy for a tenth of a second after a call.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    seconds = np.empty((repeat, len(runs)))
    for i in range(repeat):
        for j, run in enumerate(runs):
            time.sleep(_SETTLED if threads > 1 else 0.0)
            seconds[i, j] = timed(run, clock)[0]
    return seconds.min(axis=0).tolist()


def memory_of(field: str) -> int:
    """Return a kind of memory of this process in bytes: "VmRSS" (now), "VmHWM" (its peak), "RssAnon" (Linux only)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def peak_beyond(run: Callable[[], object]) -> int:
    """Return the peak memory of a run in bytes, less the memory before it (Linux only)."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = memory_of("VmRSS")
    run()
    return memory_of("VmHWM") - before


def in_child(script: str, *arguments: object) -> dict[str, Any]:
    """Return the JSON that a script prints in a process of its own, whose memory is then its own too."""
    command = [sys.executable, script, *map(str, arguments)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def few_labels(y: np.ndarray, count: int, seed: int = 1) -> np.ndarray:
    """Return y with ``count`` labels at random rows, and -1 for the others."""
    few = np.full(len(y), -1)
    chosen = np.random.default_rng(seed).permutation(len(y))[:count]
    few[chosen] = y[chosen]
    return few


def documents(
    n: int, d: int, n_labels: int, length: int = 77, seed: int = 0
) -> tuple[sparse.csr_array, np.ndarray]:
    """Return unit rows of about ``length`` words of Zipf-like frequency, and 0/1 labels of two or three a row.

    A quarter of the words of a row come from a few hundred common words of its labels.
    """
    rng = np.random.default_rng(seed)
    share = 1 / (np.arange(n_labels) + 2.0)
    Y = rng.random((n, n_labels)) < 3 * share / share.sum()
    Y[np.arange(n), rng.choice(n_labels, n, p=share / share.sum())] = True
    frequency = 1 / (np.arange(d) + 20.0)
    own = rng.integers(0, max(1, d // 10), (n_labels, 300))
    lengths = np.clip(rng.lognormal(np.log(length), 0.5, n).astype(int), 10, 4 * length)
    rows = np.repeat(np.arange(n), lengths)
    columns = rng.choice(d, len(rows), p=frequency / frequency.sum())
    # The labels of all rows are in one list, row by row; the topical words of a row choose among its labels.
    chosen = np.nonzero(Y)[1]
    counts = Y.sum(axis=1)
    first = np.cumsum(counts) - counts
    topical = rng.random(len(rows)) < 0.25
    label = chosen[first[rows] + (rng.random(len(rows)) * counts[rows]).astype(int)]
    columns[topical] = own[label[topical], rng.integers(0, own.shape[1], topical.sum())]
    X = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, d))
    X.data = (1 + np.log(X.data)) * np.log(1 / frequency)[X.indices]
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr))
    return X, Y.astype(np.float64)
