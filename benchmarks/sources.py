"""Large sources: the memory for reading them and converting them to a matrix, in a new process each.

    python benchmarks/sources.py                          2 GB each
    python benchmarks/sources.py --megabytes 100 --only sqlite jsonl
    python benchmarks/sources.py --path FILE              a file, in this process; prints JSON

It writes a table of four numbers, a category, a date, a comment and few labels to a temporary folder, in each given
format, until the file has the given size. Each file is read as by `labelfold compare --drop comment`: in blocks,
with a recipe, to a matrix. Memory is the peak of the whole process, including libraries and matrix. Linux only: the
figures come from /proc. The temporary folder (TMPDIR) needs room for a source and its copy.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from _common import in_child, memory_of, options_of

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


@contextmanager
def sqlite(path: Path) -> Iterator[Callable[[pa.Table], object]]:
    with closing(sqlite3.connect(path)) as made:
        names = next(blocks()).column_names
        made.execute(f"create table t ({', '.join(names)})")
        insert = f"insert into t values ({', '.join('?' * len(names))})"
        yield lambda block: (
            made.executemany(insert, zip(*block.to_pydict().values(), strict=True)),
            made.commit(),
        )


@contextmanager
def jsonl(path: Path) -> Iterator[Callable[[pa.Table], object]]:
    with path.open("w") as file:
        yield lambda block: file.writelines(json.dumps(row) + "\n" for row in block.to_pylist())


@contextmanager
def arrow(path: Path) -> Iterator[Callable[[pa.Table], object]]:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, next(blocks()).schema) as made:
        yield made.write_table


# Files by kind of source: each opens one, and gives what appends a block of rows to it.
FILES = {"sqlite": ("t.db", sqlite), "jsonl": ("t.jsonl", jsonl), "arrow": ("t.arrow", arrow)}


def write(kind: str, path: Path, n_bytes: int) -> int:
    """Write blocks until the file has this size; return its number of rows."""
    with FILES[kind][1](path) as append:
        for count, block in enumerate(blocks(), 1):
            append(block)
            if path.stat().st_size >= n_bytes:
                return count * ROWS
    raise AssertionError("there are always more rows")


def measure(path: Path) -> dict[str, float]:
    """Return the seconds, the size of the matrix and the peak memory of this process."""
    from labelfold import Recipe
    from labelfold.app.io import read_table

    began = time.perf_counter()
    table = read_table(path, target="label", drop=["comment"])
    X = Recipe().fit_transform(table.raw, table.y)
    seconds = time.perf_counter() - began
    return {"rows": X.shape[0], "seconds": seconds, "matrix": X.nbytes, "peak": memory_of("VmHWM")}


def main(argv: list[str] | None = None) -> None:
    given = options_of(__doc__, argv, megabytes=2000.0, only=tuple(FILES), path="")
    if given.path:
        print(json.dumps(measure(Path(given.path))))
        return
    for kind in given.only:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, FILES[kind][0])
            rows = write(kind, path, int(given.megabytes * 1e6))
            found = in_child(__file__, "--path", path)
            assert found["rows"] == rows
            print(
                f"{kind:7} {path.stat().st_size / 1e6:6,.0f} MB, {rows:9,} rows: {found['seconds']:5.0f} s, matrix "
                f"{found['matrix'] / 1e6:4,.0f} MB, at most {found['peak'] / 1e6:5,.0f} MB of memory",
                flush=True,
            )


if __name__ == "__main__":
    main()
