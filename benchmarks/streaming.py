"""Passes over files: their speed beside merely reading the file, and the memory of the process.

    python benchmarks/streaming.py                                   2 GB each of .npy, Parquet, CSV and svmlight
    python benchmarks/streaming.py --formats npy --cold              passes over a file that is not in the page cache
    python benchmarks/streaming.py --formats csv --limit-memory      in a process that may take a third of the file
    python benchmarks/streaming.py --megabytes 60 --cases sweep      in --folder, else the system's temporary folder

It writes a file of random non-negative numbers in each format to a temporary folder, measures it in a new process and
deletes it.

* *reader*: the file is read by the usual reader alone and nothing is computed: plain reads for .npy, pyarrow for
  Parquet and CSV (all of it into memory), scikit-learn for svmlight.
* *decode*: labelfold reads the file (`labelfold.rows.read_rows`). For .npy nothing is done here. The others are
  decoded to a temporary file. The *first pass* is this and a pass; its ratio is to the reader.
* Every case makes passes over the numbers in the file, or in the temporary file. The *share* is the time of merely
  reading the same bytes, measured just before, divided by the time of a pass (of the whole fit by its passes).

A thread measures the memory: *anonymous* memory is allocated by the process, *total* also counts pages of mapped
files. With ``--limit-memory`` it ends the process when the anonymous memory exceeds a third of the file and what the
interpreter and the libraries took after a small run. (The system's own limits count addresses that pyarrow reserves
and never uses.) Linux only: the figures come from /proc.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from _common import few_labels, memory_of, options_of, timed

CLASSES = 5
LABELLED = 300
COLUMNS = 500
SPARSE_COLUMNS, ENTRIES = 20_000, 100  # svmlight
PIECE = 4096  # rows written, or sliced, at a time
NAMES = {"npy": "X.npy", "parquet": "X.parquet", "csv": "X.csv", "svmlight": "X.svmlight"}


def write(path: Path, n_bytes: int) -> None:
    """Write a file of about this size, a piece at a time."""
    rng = np.random.default_rng(0)
    with WRITERS[path.suffix](path, n_bytes, rng) as append:
        append()
        while path.stat().st_size < n_bytes:
            append()


@contextmanager
def npy(path: Path, n_bytes: int, rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    n = -(-max(1, n_bytes) // (8 * COLUMNS * PIECE)) * PIECE
    with open(path, "wb", buffering=0) as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (n, COLUMNS)}
        np.lib.format.write_array_header_1_0(file, header)
        yield lambda: file.write(rng.random((PIECE, COLUMNS)).tobytes())


def _table(rng: np.random.Generator, digits: int) -> Any:
    import pyarrow as pa

    X = rng.random((PIECE, COLUMNS)).round(digits)
    return pa.table({f"x{j}": np.ascontiguousarray(x) for j, x in enumerate(X.T)})


@contextmanager
def parquet(path: Path, n_bytes: int, rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pieces = min(16, 1 + n_bytes // (4 * PIECE * COLUMNS * 8))  # of a row group: up to 65,536 rows
    with pq.ParquetWriter(path, _table(rng, 9).schema) as made:
        yield lambda: made.write_table(pa.concat_tables([_table(rng, 9) for _ in range(pieces)]))


@contextmanager
def csv(path: Path, n_bytes: int, rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    from pyarrow.csv import CSVWriter

    with CSVWriter(path, _table(rng, 5).schema) as made:
        yield lambda: made.write_table(_table(rng, 5))


@contextmanager
def svmlight(path: Path, n_bytes: int, rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    lines = []
    for _ in range(PIECE):
        words = np.unique(rng.integers(1, SPARSE_COLUMNS + 1, ENTRIES))
        lines.append(" ".join(f"{w}:{v:.4f}" for w, v in zip(words, rng.random(len(words)), strict=True)))
    piece = "".join(f"{rng.integers(CLASSES)} {line}\n" for line in lines).encode()
    with path.open("wb", buffering=0) as file:
        yield lambda: file.write(piece)


# Each opens a file, and gives what appends a piece to it.
WRITERS = {".npy": npy, ".parquet": parquet, ".csv": csv, ".svmlight": svmlight}


def read_alone(path: Path) -> None:
    """Read a file with the usual reader and compute nothing."""
    if path.suffix == ".npy":
        with path.open("rb", buffering=0) as file:
            _read_bytes(file)
    elif path.suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.read_table(path)
    elif path.suffix == ".csv":
        from pyarrow import csv

        csv.read_csv(path)
    else:
        from sklearn.datasets import load_svmlight_file

        load_svmlight_file(str(path))


def _read_bytes(file: Any) -> None:
    block, place = bytearray(1 << 20), 0
    while got := os.preadv(file.fileno(), [block], place):
        place += got


def sweep(rows: Any, y: np.ndarray) -> Callable[[], Any]:
    """Read X once for X @ M and X'(X @ M), with ten columns."""
    return lambda: rows.sweep(_product_and_back, shared=(np.ones((rows.shape[1], 10)),))


def _product_and_back(X, M):
    H = X @ M
    return H, X.t(H)


def lda_all(rows: Any, y: np.ndarray) -> Callable[[], Any]:
    """Fit LDA with every row labelled: X'X in one pass for few columns, products in many passes for others."""
    from labelfold import LDA

    return lambda: LDA(ridge=1.0).fit(rows, y)


def transform(rows: Any, y: np.ndarray) -> Callable[[], Any]:
    """Transform every row by LDA; its fit reads the labelled rows and is not measured."""
    from labelfold import LDA

    model = LDA(ridge=1.0).fit(rows, few_labels(y, LABELLED))
    return lambda: model.transform(rows)


def drsvm(rows: Any, y: np.ndarray) -> Callable[[], Any]:
    """Fit DRSVM with a few hundred labels: a pass for each of the iterations."""
    from labelfold import DRSVM

    return lambda: DRSVM(5, max_iter=10, random_state=0).fit(rows, few_labels(y, LABELLED))


def klnmf(rows: Any, y: np.ndarray) -> Callable[[], Any]:
    """Fit KLNMF: a pass for each of the iterations, each with a division for every entry."""
    from labelfold import KLNMF

    return lambda: KLNMF(5, max_iter=5, random_state=0).fit(rows)


# Each returns what is measured. The first ones make one short pass; they are run three times and the least counts.
CASES: dict[str, Callable[[Any, np.ndarray], Callable[[], Any]]] = {
    "sweep": sweep,
    "transform": transform,
    "lda_all": lda_all,
    "drsvm": drsvm,
    "klnmf": klnmf,
}
ONCE = ("sweep", "transform")


class Watch:
    """The peak memory of this process while a block of code runs, in MB; the process ends if it exceeds the limit."""

    limit: float | None = None

    def __enter__(self) -> Watch:
        self.before, self.peak = memory(), memory()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._done.wait(0.02 if self.limit is None else 0.005):
            self.peak = {name: max(self.peak[name], now) for name, now in memory().items()}
            if self.limit is not None and self.peak["anonymous"] > self.limit:
                os.write(2, f"more than {self.limit:.0f} MB of memory are in use\n".encode())
                os._exit(1)


def memory() -> dict[str, float]:
    """Return the memory of this process in MB."""
    return {name: memory_of(field) / 2**20 for name, field in (("anonymous", "RssAnon"), ("total", "VmRSS"))}


def seconds_of(action: Callable[[], Any], times: int = 1, before: Callable[[], Any] = lambda: None) -> float:
    """Return the least time of several runs."""
    found = []
    for _ in range(times):
        before()
        found.append(timed(action)[0])
    return min(found)


def forget(file: Any) -> None:
    """Remove a file from the page cache."""
    os.fdatasync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(path: Path, cases: list[str], *, cold: bool, limited: bool, reader: float) -> Iterator[dict]:
    """Measure the cases on a file in this process, after a small run that imports and compiles."""
    from labelfold.rows import read_rows

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / path.name
        write(small, 0)
        rows = read_rows(small)[0]
        for name in ("sweep", *cases):
            CASES[name](rows, labels_of(rows))()
        del rows
    size = path.stat().st_size / 2**20
    limit = Watch.limit = memory()["anonymous"] + size / 3 if limited else None

    def clear(*files: Any) -> None:
        for file in files if cold else ():
            forget(file)

    def row(case: str, watch: Watch, **figures: Any) -> dict:
        return {
            "format": path.suffix[1:],
            "case": case,
            "file_mb": size,
            **figures,
            "anonymous_mb": watch.peak["anonymous"],
            "anonymous_growth_mb": watch.peak["anonymous"] - watch.before["anonymous"],
            "total_mb": watch.peak["total"],
            "limit_mb": limit,
        }

    kept: list[Any] = []
    with path.open("rb") as source:
        with Watch() as watch:
            clear(source)
            decode = seconds_of(lambda: kept.append(read_rows(path)[0]))
        rows = kept.pop()
        yield row("decode", watch, seconds=decode, reader=reader, ratio=decode / reader)
        clear(source, rows.file)
        with Watch() as watch:
            first = decode + seconds_of(sweep(rows, np.empty(0)))
        yield row("first pass", watch, seconds=first, reader=reader, ratio=first / reader)
        y = labels_of(rows)
        for name in cases:
            read = seconds_of(lambda: _read_bytes(rows.file), 3, lambda: clear(rows.file))
            action, times = CASES[name](rows, y), 3 if name in ONCE else 1
            passes = rows.n_passes
            with Watch() as watch, cold_passes(rows, lambda: clear(rows.file)) as waited:
                seconds = seconds_of(action, times, waited.clear) - sum(waited)
            passes = max(1, (rows.n_passes - passes) // times)
            yield row(
                name, watch, seconds=seconds, passes=passes, reading=read, share=read / (seconds / passes)
            )


@contextmanager
def cold_passes(rows: Any, clear: Callable[[], None]) -> Iterator[list[float]]:
    """Call a function before each pass; yield the list of the seconds that it takes."""
    waited: list[float] = []
    sweep = rows.sweep

    def after_clearing(*given: Any, **options: Any) -> Any:
        waited.append(seconds_of(clear))
        return sweep(*given, **options)

    rows.sweep = after_clearing
    try:
        yield waited
    finally:
        del rows.sweep


def labels_of(rows: Any) -> np.ndarray:
    """Return a class for each row."""
    return np.random.default_rng(1).integers(0, CLASSES, rows.shape[0])


def apart(*arguments: Any) -> Iterator[dict]:
    """Yield the rows that this script prints in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")


def shown(row: dict) -> str:
    """Return a row of the table."""
    ratio = f"{row['ratio']:.2f} x reader" if "ratio" in row else ""
    if "share" in row:
        ratio = f"{row['share']:6.0%} of {row['reading']:.2f} s ({row['passes']} passes)"
    return (
        f"{row['format']:9s}{row['case']:11s}{row['seconds']:9.2f}{row['anonymous_mb']:14.0f}{row['total_mb']:10.0f}"
        f"   {ratio}"
    )


def main() -> None:
    given = options_of(
        __doc__,
        megabytes=2048,
        folder="",
        formats=tuple(NAMES),
        cases=tuple(CASES),
        cold=False,
        limit_memory=False,
        child="",
        path="",
        reader=0.0,
    )
    cases = given.cases
    if given.child:
        path = Path(given.path)
        if given.child == "reader":
            with path.open("rb") as file:
                clear = forget if given.cold else _read_bytes
                found: Any = [{"seconds": seconds_of(lambda: read_alone(path), 2, lambda: clear(file))}]
        else:
            found = measure(path, cases, cold=given.cold, limited=given.limit_memory, reader=given.reader)
        for row in found:
            print(json.dumps(row), flush=True)
        return
    options = ["--cases", *cases, *["--cold"] * given.cold, *["--limit-memory"] * given.limit_memory]
    print(f"{'format':9s}{'case':11s}{'seconds':>9s}{'anonymous MB':>14s}{'total MB':>10s}", flush=True)
    for name in given.formats:
        with tempfile.TemporaryDirectory(dir=given.folder or None) as folder:
            path = Path(folder) / NAMES[name]
            write(path, given.megabytes << 20)
            os.sync()
            options += ["--path", path]
            reader = next(apart("--child", "reader", *options))["seconds"]
            for row in apart("--child", "measure", "--reader", reader, *options):
                print(shown(row), flush=True)


if __name__ == "__main__":
    main()
