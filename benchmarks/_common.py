"""Helpers of several benchmarks: threads, fair timing, and documents with many labels, real or generated."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

# Seconds after which no thread of OpenBLAS waits busily.
_SETTLED = 0.2


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Limit this library, BLAS and OpenMP to ``threads`` threads each."""
    before = os.environ.get("LABELFOLD_NUM_THREADS")
    os.environ["LABELFOLD_NUM_THREADS"] = str(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        if before is None:
            del os.environ["LABELFOLD_NUM_THREADS"]
        else:
            os.environ["LABELFOLD_NUM_THREADS"] = before


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
            start = clock()
            run()
            seconds[i, j] = clock() - start
    return seconds.min(axis=0).tolist()


def peak_beyond(run: Callable[[], object]) -> int:
    """Return the peak memory of a run in bytes, less the memory before it (Linux only)."""

    def read(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])

    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = read("VmRSS")
    run()
    return read("VmHWM") - before


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the exponent p of seconds ~ size^p, by least squares of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def labelled_documents() -> tuple[sparse.csr_array, np.ndarray, str]:
    """Return rcv1v2_subset1 from the folder LABELFOLD_DATA, or generated documents of its shape, and the source."""
    folder = os.environ.get("LABELFOLD_DATA")
    if folder is None:
        X, Y = documents(6_000, 47_236, 101)
        return X, Y, "generated with the shape of rcv1v2_subset1 (set LABELFOLD_DATA for the real one)"
    with np.load(Path(folder) / "rcv1v2_subset1.npz") as file:
        parts = file["X_data"].astype(np.float64), file["X_indices"], file["X_indptr"]
        return sparse.csr_array(parts, shape=tuple(file["X_shape"])), file["Y"].astype(np.float64), "real"


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
