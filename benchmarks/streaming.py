"""Passes over files: their speed beside merely reading the file, and the memory of the process.

    python benchmarks/streaming.py                                   2 GB each of .npy, Parquet, CSV and svmlight
    python benchmarks/streaming.py --formats npy --cold              passes over a file that is not in the page cache
    python benchmarks/streaming.py --formats csv --limit-memory      in a process that may take a third of the file
    python benchmarks/streaming.py --megabytes 60 --cases sweep --json

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

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = 5
LABELLED = 300
COLUMNS = 500
SPARSE_COLUMNS, ENTRIES = 20_000, 100  # svmlight
PIECE = 4096  # rows written, or sliced, at a time
NAMES = {"npy": "X.npy", "parquet": "X.parquet", "csv": "X.csv", "svmlight": "X.svmlight"}


def write(path: Path, n_bytes: int, columns: int, dtype: str) -> None:
    """Write a file of about this size, a piece at a time."""
    rng = np.random.default_rng(0)
    writers = {
        ".npy": _write_npy,
        ".parquet": _write_parquet,
        ".csv": _write_csv,
        ".svmlight": _write_svmlight,
    }
    writers[path.suffix](path, n_bytes, columns, np.dtype(dtype), rng)


def _write_npy(path: Path, n_bytes: int, columns: int, dtype: np.dtype, rng: np.random.Generator) -> None:
    n = max(PIECE, n_bytes // (dtype.itemsize * columns))
    header = {"descr": dtype.str, "fortran_order": False, "shape": (n, columns)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, PIECE):
            file.write(rng.random((min(PIECE, n - start), columns), dtype=dtype).tobytes())


def _tables(columns: int, dtype: np.dtype, rng: np.random.Generator, digits: int) -> Iterator[Any]:
    import pyarrow as pa

    while True:
        X = rng.random((PIECE, columns), dtype=dtype).round(digits)
        yield pa.table(
            [pa.array(np.ascontiguousarray(x)) for x in X.T], names=[f"x{j}" for j in range(columns)]
        )


def _write_parquet(path: Path, n_bytes: int, columns: int, dtype: np.dtype, rng: np.random.Generator) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = _tables(columns, dtype, rng, 9)
    pieces = min(
        16, 1 + n_bytes // (4 * PIECE * columns * dtype.itemsize)
    )  # of a row group: up to 65,536 rows
    with pq.ParquetWriter(path, next(tables).schema) as made:
        while path.stat().st_size < max(1000, n_bytes):
            made.write_table(pa.concat_tables([next(tables) for _ in range(pieces)]))


def _write_csv(path: Path, n_bytes: int, columns: int, dtype: np.dtype, rng: np.random.Generator) -> None:
    from pyarrow import csv

    tables = _tables(columns, dtype, rng, 5)
    first = next(tables)
    with csv.CSVWriter(path, first.schema) as made:
        made.write_table(first)
        while path.stat().st_size < n_bytes:
            made.write_table(next(tables))


def _write_svmlight(
    path: Path, n_bytes: int, columns: int, dtype: np.dtype, rng: np.random.Generator
) -> None:
    lines = []
    for _ in range(PIECE):
        words = np.unique(rng.integers(1, SPARSE_COLUMNS + 1, ENTRIES))
        lines.append(" ".join(f"{w}:{v:.4f}" for w, v in zip(words, rng.random(len(words)), strict=True)))
    piece = "".join(f"{rng.integers(CLASSES)} {line}\n" for line in lines).encode()
    with path.open("wb") as file:
        while file.tell() < max(1, n_bytes):
            file.write(piece)


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

    model = LDA(ridge=1.0).fit(rows, few(y))
    return lambda: model.transform(rows)


def drsvm(rows: Any, y: np.ndarray) -> Callable[[], Any]:
    """Fit DRSVM with a few hundred labels: a pass for each of the iterations."""
    from labelfold import DRSVM

    return lambda: DRSVM(5, max_iter=10, random_state=0).fit(rows, few(y))


def klnmf(rows: Any, y: np.ndarray) -> Callable[[], Any]:
    """Fit KLNMF: a pass for each of the iterations, each with a division for every entry."""
    from labelfold import KLNMF

    return lambda: KLNMF(5, max_iter=5, random_state=0).fit(rows)


def few(y: np.ndarray) -> np.ndarray:
    """Return y with a few hundred labels."""
    shown = np.random.default_rng(1).choice(len(y), LABELLED, replace=False)
    hidden = np.full(len(y), -1)
    hidden[shown] = y[shown]
    return hidden


def memmap(path: Path) -> None:
    """Compute products on slices of a memory map, which a pass avoids."""
    X = np.load(path, mmap_mode="r")
    M = np.ones((X.shape[1], 10))
    total = np.zeros((X.shape[1], 10))
    for start in range(0, len(X), PIECE):
        block = X[start : start + PIECE]
        total += block.T @ (block @ M)


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
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    wanted = {"anonymous": "RssAnon", "total": "VmRSS"}
    return {name: int(fields[field].split()[0]) / 1024 for name, field in wanted.items()}


def seconds_of(action: Callable[[], Any], times: int = 1, before: Callable[[], Any] = lambda: None) -> float:
    """Return the least time of several runs."""
    found = []
    for _ in range(times):
        before()
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
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
        write(small, 0, COLUMNS if path.suffix != ".svmlight" else SPARSE_COLUMNS, "f8")
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


def measure_map(path: Path) -> Iterator[dict]:
    """Measure products on a memory map."""
    with Watch() as watch:
        seconds = seconds_of(lambda: memmap(path))
    peak = {f"{name}_mb": watch.peak[name] for name in ("anonymous", "total")}
    yield {
        "format": "npy",
        "case": "memmap",
        "file_mb": path.stat().st_size / 2**20,
        "seconds": seconds,
        **peak,
    }


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=2048, help="size of each file")
    parser.add_argument("--columns", type=int, default=COLUMNS, help="columns of dense files")
    parser.add_argument("--dtype", choices=["f4", "f8"], default="f8", help="type of .npy and Parquet files")
    parser.add_argument(
        "--folder", help="where to write the file; the system's temporary folder unless given"
    )
    parser.add_argument("--formats", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--cases", nargs="+", choices=[*CASES, "memmap"], default=list(CASES))
    parser.add_argument(
        "--cold", action="store_true", help="remove the file from the page cache before each pass"
    )
    parser.add_argument(
        "--limit-memory", action="store_true", help="a third of the file, and the interpreter"
    )
    parser.add_argument("--json", action="store_true", help="print rows of JSON instead of a table")
    parser.add_argument("--child", nargs=3, metavar=("WHAT", "PATH", "READER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    cases = [name for name in given.cases if name != "memmap"]
    if given.child:
        what, path = given.child[0], Path(given.child[1])
        if what == "reader":
            with path.open("rb") as file:
                once = seconds_of(
                    lambda: read_alone(path), 2, lambda: forget(file) if given.cold else _read_bytes(file)
                )
            found: Any = [{"seconds": once}]
        elif what == "memmap":
            found = measure_map(path)
        else:
            reader = float(given.child[2])
            found = measure(path, cases, cold=given.cold, limited=given.limit_memory, reader=reader)
        for row in found:
            print(json.dumps(row), flush=True)
        return
    options = ["--cases", *cases] if cases else []
    options += [*["--cold"] * given.cold, *["--limit-memory"] * given.limit_memory]
    if not given.json:
        print(f"{'format':9s}{'case':11s}{'seconds':>9s}{'anonymous MB':>14s}{'total MB':>10s}", flush=True)
    for name in given.formats:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / NAMES[name]
            write(path, given.megabytes << 20, given.columns, given.dtype)
            os.sync()
            reader = next(apart("--child", "reader", path, 0, *options))["seconds"]
            found = (
                list(apart("--child", "memmap", path, 0)) if "memmap" in given.cases and name == "npy" else []
            )
            for row in [*found, *apart("--child", "measure", path, reader, *options)]:
                print(json.dumps(row) if given.json else shown(row), flush=True)


if __name__ == "__main__":
    main()
