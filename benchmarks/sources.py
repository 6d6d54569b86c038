"""Large sources: the memory for reading them and converting them to a matrix, in a new process each.

    python benchmarks/sources.py                          2 GB each
    python benchmarks/sources.py --megabytes 100 --only sqlite jsonl

It writes a table of four numbers, a category, a date, a comment and few labels to a temporary folder, in each given
format, until the file has the given size. Each file is read as by `labelfold compare --drop comment`: in blocks,
with a recipe, to a matrix. Memory is the peak of the whole process, including libraries and matrix. Linux only: the
figures come from /proc. The temporary folder (TMPDIR) needs room for a source and its copy.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

ROWS = 50_000  # written at a time
WORDS = np.array(["late", "again", "box", "open", "the", "and", "was", "it", "not", "blue", "very", "order"])


def blocks() -> Iterator[pa.Table]:
    """Yield rows endlessly."""
    rng = np.random.default_rng(0)
    comments = np.array([" ".join(rng.choice(WORDS, 80)) for _ in range(2000)])
    while True:
        x = rng.normal(size=(ROWS, 4)).round(4)
        days = np.datetime64("2015-01-01") + rng.integers(0, 3000, ROWS).astype("timedelta64[D]")
        labels = np.where(x[:, 0] > 0, "returned", "kept").astype(object)
        labels[rng.random(ROWS) > 2e-4] = None
        columns = {f"measured_{j}": x[:, j] for j in range(4)}
        columns |= {"plan": rng.choice(["free", "pro", "team"], ROWS), "since": days.astype(str)}
        yield pa.table(columns | {"comment": rng.choice(comments, ROWS), "label": pa.array(labels)})


def write_sqlite(path: Path, n_bytes: int) -> int:
    rows, made = 0, sqlite3.connect(path)
    for block in blocks():
        if not rows:
            made.execute(f"create table t ({', '.join(block.column_names)})")
        made.executemany(
            "insert into t values (?, ?, ?, ?, ?, ?, ?, ?)", zip(*block.to_pydict().values(), strict=True)
        )
        made.commit()
        rows += ROWS
        if path.stat().st_size >= n_bytes:
            break
    made.close()
    return rows


def write_jsonl(path: Path, n_bytes: int) -> int:
    rows = 0
    with path.open("w") as file:
        for block in blocks():
            file.writelines(json.dumps(row) + "\n" for row in block.to_pylist())
            rows += ROWS
            if file.tell() >= n_bytes:
                return rows
    return rows


def write_arrow(path: Path, n_bytes: int) -> int:
    rows, schema = 0, next(blocks()).schema
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as made:
        for block in blocks():
            made.write_table(block)
            rows += ROWS
            if file.tell() >= n_bytes:
                break
    return rows


WRITERS: dict[str, Callable[[Path, int], int]] = {
    "sqlite": write_sqlite,
    "jsonl": write_jsonl,
    "arrow": write_arrow,
}
NAMES = {"sqlite": "t.db", "jsonl": "t.jsonl", "arrow": "t.arrow"}


def measure(path: Path) -> dict[str, float]:
    """Return the seconds, the size of the matrix and the peak memory of this process."""
    from labelfold import Recipe
    from labelfold.app.io import read_table

    began = time.perf_counter()
    table = read_table(path, target="label", drop=["comment"])
    X = Recipe().fit_transform(table.raw, table.y)
    status = Path("/proc/self/status").read_text().splitlines()
    peak = 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])
    return {"rows": X.shape[0], "seconds": time.perf_counter() - began, "matrix": X.nbytes, "peak": peak}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=2000)
    parser.add_argument("--only", nargs="+", choices=WRITERS, default=list(WRITERS))
    parser.add_argument(
        "--path", type=Path, help="measure the file in this process and print its figures as JSON"
    )
    given = parser.parse_args(argv)
    if given.path:
        print(json.dumps(measure(given.path)))
        return
    for kind in given.only:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, NAMES[kind])
            rows = WRITERS[kind](path, int(given.megabytes * 1e6))
            command = [sys.executable, __file__, "--path", str(path)]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(run.stdout)
            assert found["rows"] == rows
            print(
                f"{kind:7} {path.stat().st_size / 1e6:6,.0f} MB, {rows:9,} rows: {found['seconds']:5.0f} s, matrix "
                f"{found['matrix'] / 1e6:4,.0f} MB, at most {found['peak'] / 1e6:5,.0f} MB of memory",
                flush=True,
            )


if __name__ == "__main__":
    main()
