"""Memory and speed of passes over a file that is larger than memory.

    python benchmarks/streaming.py                      2 GB, every case
    python benchmarks/streaming.py --megabytes 60 --cases sweep --json

It writes a .npy file of random float64 to a temporary folder, runs each case on its path in a new process, and
deletes it. A thread in that process measures its memory: *anonymous* memory is allocated by the process, *total* also
counts pages of mapped files. Linux only: the figures come from /proc.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

COLUMNS = 500
CLASSES = 5
LABELLED = 300
PIECE = 4096  # rows written, or sliced, at a time


def write(path: Path, n_bytes: int) -> None:
    """Write a .npy file of about this size, a piece at a time."""
    n = max(PIECE, n_bytes // (8 * COLUMNS))
    rng = np.random.default_rng(0)
    header = {"descr": "<f8", "fortran_order": False, "shape": (n, COLUMNS)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, PIECE):
            file.write(rng.standard_normal((min(PIECE, n - start), COLUMNS)).tobytes())


def sweep(path: Path) -> None:
    """Read X once for X @ M and X'(X @ M)."""
    from labelfold.rows import as_rows

    as_rows(path).sweep(_product_and_back, shared=(np.ones((COLUMNS, 10)),))


def _product_and_back(X, M):
    H = X @ M
    return H, X.t(H)


def lda_few(path: Path) -> None:
    """Fit LDA with a few hundred labels, then transform every row."""
    _lda(path, LABELLED)


def lda_all(path: Path) -> None:
    """Fit LDA with every row labelled, then transform every row."""
    _lda(path, None)


def _lda(path: Path, n_labelled: int | None) -> None:
    from labelfold import LDA

    n = np.load(path, mmap_mode="r").shape[0]
    rng = np.random.default_rng(1)
    y = rng.integers(0, CLASSES, n)
    if n_labelled is not None:
        hidden = np.ones(n, dtype=bool)
        hidden[rng.choice(n, n_labelled, replace=False)] = False
        y[hidden] = -1
    LDA(ridge=1.0).fit(path, y).transform(path)


def memmap(path: Path) -> None:
    """Compute the same products on slices of a memory map, which the sweep avoids."""
    X, M = np.load(path, mmap_mode="r"), np.ones((COLUMNS, 10))
    total = np.zeros((COLUMNS, 10))
    for start in range(0, len(X), PIECE):
        block = X[start : start + PIECE]
        total += block.T @ (block @ M)


CASES = {"sweep": sweep, "lda_few": lda_few, "lda_all": lda_all, "memmap": memmap}


class Watch:
    """The peak memory of this process while a block of code runs, in MB."""

    def __enter__(self) -> Watch:
        self.before, self.peak = _memory(), _memory()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._done.wait(0.005):
            self.peak = {name: max(self.peak[name], now) for name, now in _memory().items()}


def _memory() -> dict[str, float]:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "anonymous": int(fields["RssAnon"].split()[0]) / 1024,
        "total": int(fields["VmRSS"].split()[0]) / 1024,
    }


def measure(case: Callable[[Path], None], path: Path) -> dict:
    """Run a case in this process, after a small one that imports and compiles."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.npy"
        write(small, 0)
        case(small)
    with Watch() as watch:
        start = time.perf_counter()
        case(path)
        seconds = time.perf_counter() - start
    return {
        "case": case.__name__,
        "file_mb": path.stat().st_size / 2**20,
        "seconds": seconds,
        "anonymous_mb": watch.peak["anonymous"],
        "anonymous_growth_mb": watch.peak["anonymous"] - watch.before["anonymous"],
        "total_mb": watch.peak["total"],
    }


def measure_apart(name: str, path: Path) -> dict:
    """Run a case in a separate process."""
    command = [sys.executable, __file__, "--child", name, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument(
        "--folder", help="where to write the file; the system's temporary folder unless given"
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--json", action="store_true", help="print rows of JSON instead of a table")
    parser.add_argument("--child", nargs=2, metavar=("CASE", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(CASES[arguments.child[0]], Path(arguments.child[1]))))
        return
    if not arguments.json:
        print(
            f"{'case':10s}{'seconds':>9s}{'GB/s':>7s}{'anonymous MB':>14s}{'growth MB':>11s}{'total MB':>10s}"
        )
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "X.npy"
        write(path, arguments.megabytes << 20)
        for name in arguments.cases:
            row = measure_apart(name, path)
            if arguments.json:
                print(json.dumps(row), flush=True)
                continue
            speed = row["file_mb"] / 1024 / row["seconds"]
            print(
                f"{name:10s}{row['seconds']:9.2f}{speed:7.2f}{row['anonymous_mb']:14.0f}"
                f"{row['anonymous_growth_mb']:11.0f}{row['total_mb']:10.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
