"""Test labelfold with generated inputs, faults and hostile files for a given time, and keep a record.

    make campaign SECONDS=600 SEED=1            continue where the record of that seed ends
    python campaign --seconds 600 --seed 1 --parts cases faults files
    python campaign --replay LDA:1:40           repeat one batch, and show the complete failure
    python campaign --seconds 600 --publish     also add the sums to record.csv and docs/reliability.md

There are three parts: generated inputs for every estimator (cases.py); commands that are killed, interrupted, refused
by the disk or run twice at once (faults.py); and hostile and damaged files for the commands (files.py). A part runs
batches. Each has a name (the object under test), the seed and a number, which determine all its random numbers.
Finished batches are in campaign.csv, with the number of cases that gave a result or a sentence, and the failure, if
any.
"""

from __future__ import annotations

import argparse
import csv
import faulthandler
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import date
from importlib import import_module
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from disk import environment, loaded
from record import PARTS, add

# These parts run commands in forked children, in which threads do not exist.
_ONE_THREAD = ("faults", "files")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
# A batch that takes longer than this many seconds has failed.
_LONGEST = 1800.0
_FIELDS = ("batch", "part", "cases", "result", "sentence", "failure", "seconds")


def campaign(
    seconds: float, seed: int, parts: Sequence[str], record: Path, longest: float = _LONGEST
) -> list[dict[str, str]]:
    """Run each part, in a separate process, for its share of the time; return the lines added to the record.

    If the process ends during a batch, because it hangs or ends the interpreter, the batch has failed and the next
    one is run.
    """
    done = {row["batch"] for row in _read(record)}
    end = time.perf_counter() + seconds
    for i, part in enumerate(parts):
        own = dict.fromkeys(_THREADS, "1") | environment() if part in _ONE_THREAD else {}
        until = time.perf_counter() + (end - time.perf_counter()) / (len(parts) - i)
        left = until - time.perf_counter()
        while True:  # a part has at least one batch
            command = [sys.executable, __file__, "--part", part, "--seconds", f"{left}", "--seed", f"{seed}"]
            command += ["--record", str(record), "--longest", f"{longest}"]
            began = time.perf_counter()
            status = subprocess.run(command, env=os.environ | own, check=False).returncode
            if not status:
                break
            left = until - time.perf_counter()
            _note_the_end(part, seed, record, status, time.perf_counter() - began)
            if left <= 0:
                break
    return [row for row in _read(record) if row["batch"] not in done]


def _note_the_end(part: str, seed: int, record: Path, status: int, seconds: float) -> None:
    """Record as failed the batch after the last finished one, during which the process ended."""
    done = {row["batch"] for row in _read(record)}
    _, batch = next(iter(_batches(import_module(part).NAMES, seed, done)))
    failure = f"the process ended with status {status} (1: it hung, or the campaign itself failed)"
    print(f"{failure}\n  python campaign --replay {batch}", flush=True)
    counted = {"cases": 1, "result": 0, "sentence": 0, "failure": failure, "seconds": f"{seconds:.1f}"}
    with record.open("a", newline="") as file:
        csv.DictWriter(file, _FIELDS).writerow({"batch": batch, "part": part} | counted)


def run_part(part: str, seconds: float, seed: int, record: Path, longest: float) -> None:
    """Run at least one batch of a part, until the time is over; end the process if one takes too long."""
    shown = os.fdopen(os.dup(2), "w")  # batches redirect standard error
    done = {row["batch"] for row in _read(record)}
    names = import_module(part).NAMES
    end = time.perf_counter() + seconds
    with record.open("a", newline="") as file:
        writer = csv.DictWriter(file, _FIELDS)
        if not record.stat().st_size:
            writer.writeheader()
            file.flush()
        for name, batch in _batches(names, seed, done):
            faulthandler.dump_traceback_later(longest, exit=True, file=shown)
            writer.writerow(_run(part, name, batch))
            file.flush()
            if time.perf_counter() > end:
                break


def _batches(names: Sequence[str], seed: int, done: set[str]) -> Iterable[tuple[str, str]]:
    for number in count():
        for name in names:
            if (batch := f"{name}:{seed}:{number}") not in done:
                yield name, batch


def _run(part: str, name: str, batch: str) -> dict[str, Any]:
    began = time.perf_counter()
    _, seed, number = batch.split(":")
    ended, failure = import_module(part).run_batch(name, int(seed), int(number))
    if failure:
        print(f"{failure}\n  python campaign --replay {batch}", flush=True)
    return {
        "batch": batch,
        "part": part,
        "cases": sum(ended.values()) + bool(failure),
        "result": ended["result"],
        "sentence": ended["sentence"],
        "failure": failure,
        "seconds": f"{time.perf_counter() - began:.1f}",
    }


def _read(record: Path) -> list[dict[str, str]]:
    if not record.is_file():
        return []
    with record.open(newline="") as file:
        return list(csv.DictReader(file))


def _summed(rows: list[dict[str, Any]], seed: int, part: str) -> dict[str, Any]:
    of = [row for row in rows if row["part"] == part]
    sums = {name: sum(int(row[field]) for row in of) for name, field in _COUNTED.items()}
    failures, seconds = sum(bool(row["failure"]) for row in of), sum(float(row["seconds"]) for row in of)
    facts = {"date": date.today().isoformat(), "version": version("labelfold"), "part": part, "seed": seed}
    return facts | sums | {"failures": failures, "seconds": round(seconds)}


_COUNTED = {"cases": "cases", "results": "result", "sentences": "sentence"}


def _replay(batch: str) -> None:
    name, seed, number = batch.split(":")
    if environment() and not loaded():  # the library must be loaded when the process starts
        own = os.environ | environment() | dict.fromkeys(_THREADS, "1")
        os.execve(sys.executable, [sys.executable, __file__, "--replay", batch], own)
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    for part in PARTS:
        if name in import_module(part).NAMES:
            ended, failure = import_module(part).run_batch(name, int(seed), int(number), shown=True)
            print(failure or f"Nothing failed: {dict(ended)}")
            return
    raise SystemExit(f"{name!r} is nothing that the campaign attacks.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign, or repeat one batch."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--record", type=Path, default=Path("campaign.csv"), help="the batches that are done")
    parser.add_argument(
        "--publish", action="store_true", help="add the sums to campaign/record.csv and docs/reliability.md"
    )
    parser.add_argument("--replay", metavar="NAME:SEED:NUMBER")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--longest", type=float, default=_LONGEST, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part:
        run_part(options.part, options.seconds, options.seed, options.record, options.longest)
        return 0
    if options.replay:
        _replay(options.replay)
        return 0
    added = campaign(options.seconds, options.seed, options.parts, options.record, options.longest)
    sums = [_summed(added, options.seed, part) for part in options.parts]
    for row in sums:
        print("{part}: {cases:,} cases, {results:,} with a result, {failures} batches failed".format(**row))
    print(f"Record: {options.record}")
    if options.publish:
        add(sums)
    return int(any(row["failures"] for row in sums))


if __name__ == "__main__":
    sys.exit(main())
