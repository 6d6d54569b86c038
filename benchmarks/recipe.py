"""A large CSV file of mixed columns: reading it, and fitting and applying a recipe, beside reading alone.

    python benchmarks/recipe.py                         1 GB
    python benchmarks/recipe.py --megabytes 20
    python benchmarks/recipe.py --case reader --path FILE    one case, in this process; prints JSON

It writes a CSV file of ids, numbers with missing cells, prices, categories, dates, flags and short texts to a
temporary folder, reads it in a new process for each case, and deletes it. The reader alone is pyarrow with inferred
types. Seconds are processor seconds, on all threads, so that other processes on the machine matter less; each is the
least of several rounds in which the cases take turns. Memory is the peak of the process beyond the memory after its
imports. Linux only:
the figures come from /proc.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyarrow import csv

from _common import in_child, options_of, peak_beyond

ROWS = 50_000  # written at a time
VOCABULARY = 20_000
CITIES = ["Paris", "Rome", "Oslo", "Berlin", "Wien", "?"]


def block(rng: np.random.Generator, start: int, n: int) -> pa.Table:
    """Return some rows: an id, six numbers, two categories, one of 5,000 values, a date, a flag, notes, labels."""
    x = rng.normal(size=(n, 6)).round(5)
    days = np.datetime64("2015-01-01") + rng.integers(0, 3000, n).astype("timedelta64[D]")
    columns = {"id": np.arange(start, start + n)}
    columns |= {f"m{j}": np.where(rng.random(n) < 0.05, "", x[:, j].astype(str)) for j in range(5)}
    columns["price"] = np.char.add(np.char.replace((100 * x[:, 5] ** 2).round(2).astype(str), ".", ","), " €")
    columns["city"] = rng.choice(CITIES, n)
    columns["plan"] = rng.choice(["free", "pro", "team"], n)
    columns["shop"] = np.char.add("shop ", rng.integers(0, 5000, n).astype(str))
    columns["seen"] = days.astype(str)
    columns["flag"] = rng.choice(["yes", "no"], n)
    columns["note"] = notes(rng, n)
    columns["label"] = np.where(rng.random(n) < 2e-4, np.where(x[:, 0] > 0, "a", "b"), "")
    return pa.table(columns)


def notes(rng: np.random.Generator, n: int) -> pa.Array:
    """Return texts of 4 to 12 words in a quarter of the rows; a few words are frequent, as in natural language."""
    letters = np.random.default_rng(1).choice(list("abcdefghiklmnoprstu"), (VOCABULARY, 7))
    words = pa.array(["".join(word[: 3 + i % 5]) for i, word in enumerate(letters)])
    lengths = np.where(rng.random(n) < 0.25, rng.integers(4, 13, n), 0)
    drawn = np.minimum(5 * rng.pareto(0.8, lengths.sum()), VOCABULARY - 1).astype(int)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.compute.binary_join(pa.ListArray.from_arrays(ends, words.take(drawn)), " ")


def write(path: Path, n_bytes: int) -> int:
    """Write a file of about this size, a block at a time; return its number of rows."""
    rng, rows = np.random.default_rng(0), 0
    with open(path, "wb") as file:
        while file.tell() < n_bytes:
            options = csv.WriteOptions(include_header=rows == 0, delimiter=";")
            csv.write_csv(block(rng, rows, ROWS), file, options)
            rows += ROWS
    return rows


def reader(path: Path) -> None:
    """Read the file with pyarrow alone."""
    csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=";"))


def recipe(path: Path) -> None:
    """Read the file and convert it to a matrix."""
    from labelfold import Recipe
    from labelfold.app.io import read_table

    table = read_table(path, target="label")
    Recipe().fit_transform(table.raw, table.y)


CASES = {run.__name__: run for run in (reader, recipe)}


def measure(case: str, path: Path) -> dict[str, float]:
    """Return the seconds and the memory of a case, in this process."""
    import labelfold.app.io
    import labelfold.tables  # noqa: F401

    start, seconds = time.process_time(), time.perf_counter()
    held = peak_beyond(lambda: CASES[case](path))
    spent = {"processor": time.process_time() - start, "clock": time.perf_counter() - seconds}
    return spent | {"megabytes": held / 1e6}


def main(argv: list[str] | None = None) -> None:
    given = options_of(__doc__, argv, megabytes=1000.0, rounds=3, case="", path="")
    if given.case:
        print(json.dumps(measure(given.case, Path(given.path))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        rows = write(path, int(given.megabytes * 1e6))
        print(f"{path.stat().st_size / 1e6:,.0f} MB, {rows:,} rows")
        found: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
        for _ in range(given.rounds):
            for case, figures in found.items():
                figures.append(in_child(__file__, "--case", case, "--path", path))
        best = {case: min(figures, key=lambda run: run["processor"]) for case, figures in found.items()}
        words = "{processor:6.1f} s of the processor, {clock:6.1f} s by the clock, {megabytes:,.0f} MB"
        for case, run in best.items():
            print(f"{case:8} {words.format(**run)}")
        ratio = best["recipe"]["processor"] / best["reader"]["processor"]
        print(f"reading and the recipe take {ratio:.2f} times what the reader alone does")


if __name__ == "__main__":
    main()
