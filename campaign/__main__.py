"""Attack every estimator with generated inputs, as long as told, and keep a record.

    make campaign SECONDS=600 SEED=1           go on from where the record of that seed ends
    python campaign --seconds 600 --seed 1
    python campaign --replay LDA:1:40          one batch again, with the failure shown in full

A batch is one estimator with 20 cases drawn by hypothesis; its seed is made of the campaign's and its number. Batches
that are done are in campaign.csv, with how many cases gave a result, how many a sentence, and what failed.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from inputs import ESTIMATORS, Case, cases
from properties import check

CASES = 20
_FIELDS = ("batch", "cases", "result", "sentence", "failure", "seconds")


def run_batch(name: str, seed: int, number: int, *, shrink: bool = False) -> tuple[Counter[str], str]:
    """Run the cases of a batch; return how many ended how, and what failed, if anything did."""
    ended: Counter[str] = Counter()
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)

    @seeded(seed * 1_000_003 + number)
    @settings(
        max_examples=CASES,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(name))
    def attack(case: Case) -> None:
        ended[check(case)] += 1

    try:
        attack()
    except Exception as error:
        if shrink:
            raise
        return ended, f"{type(error).__name__}: {error}".splitlines()[0]
    return ended, ""


def campaign(seconds: float, seed: int, record: Path) -> int:
    """Run batches until the time is over; return how many failed."""
    done = _read(record)
    end, failed = time.perf_counter() + seconds, 0
    with record.open("a", newline="") as file:
        writer = csv.DictWriter(file, _FIELDS)
        if not done:
            writer.writeheader()
        for number in count():
            for name in ESTIMATORS:
                batch = f"{name}:{seed}:{number}"
                if batch in done:
                    continue
                if time.perf_counter() > end:
                    _say(record)
                    return failed
                began = time.perf_counter()
                ended, failure = run_batch(name, seed, number)
                row = {"batch": batch, "cases": sum(ended.values()) + bool(failure), "failure": failure}
                row |= {"result": ended["result"], "sentence": ended["sentence"]}
                writer.writerow(row | {"seconds": f"{time.perf_counter() - began:.1f}"})
                file.flush()
                if failure:
                    failed += 1
                    print(f"{failure}\n  python campaign --replay {batch}", flush=True)
    raise AssertionError("unreachable")


def _read(record: Path) -> dict[str, dict[str, str]]:
    if not record.is_file():
        return {}
    with record.open(newline="") as file:
        return {row["batch"]: row for row in csv.DictReader(file)}


def _say(record: Path) -> None:
    rows = list(_read(record).values())
    total, results = (sum(int(row[field]) for row in rows) for field in ("cases", "result"))
    failed = sum(bool(row["failure"]) for row in rows)
    print(
        f"{total:,} cases, {results / max(total, 1):.0%} with a result; {failed} batches failed. Record: {record}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign, or one batch of it again."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, default=Path("campaign.csv"))
    parser.add_argument("--replay", metavar="NAME:SEED:NUMBER")
    options = parser.parse_args(arguments)
    if options.replay:
        name, seed, number = options.replay.split(":")
        ended, _ = run_batch(name, int(seed), int(number), shrink=True)
        print(f"Nothing failed: {dict(ended)}")
        return 0
    return min(campaign(options.seconds, options.seed, options.record), 1)


if __name__ == "__main__":
    sys.exit(main())
