"""The record of all campaigns, and the table of docs/reliability.md."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("record.csv")
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
FIELDS = ("date", "version", "part", "seed", "cases", "results", "sentences", "failures", "seconds")
PARTS = {"cases": "(a) generated inputs", "faults": "(b) faults", "files": "(c) hostile and damaged files"}
_BEGIN, _END = "<!-- campaign: made by python campaign --publish -->\n", "<!-- end of campaign -->\n"


def add(sums: Iterable[dict[str, Any]]) -> None:
    """Add the sums of a campaign to the record, and update the page."""
    new = not RECORD.is_file()
    with RECORD.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(row for row in sums if row["cases"])
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    PAGE.write_text(before + _BEGIN + table() + _END + after, encoding="utf-8")


def table() -> str:
    """Return the sums of the record as a Markdown table."""
    with RECORD.open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [
        "| part | cases | gave a result | gave a sentence | failures found | seeds | hours | last run |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for part, title in PARTS.items():
        of = [row for row in rows if row["part"] == part]
        sums = [sum(int(row[name]) for row in of) for name in ("cases", "results", "sentences", "failures")]
        cells = [f"{number:,}" for number in sums]
        hours = sum(float(row["seconds"]) for row in of) / 3600
        last = max((row["date"] for row in of), default="not yet")
        seeds = len({row["seed"] for row in of})
        lines.append(f"| {title} | {' | '.join(cells)} | {seeds} | {hours:.1f} | {last} |")
    return "\n".join(lines) + "\n"
