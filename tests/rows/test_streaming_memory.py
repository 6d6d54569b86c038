"""A pass over a file takes the memory of its blocks, not of the file: measured in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "streaming.py"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists() or not BENCHMARK.exists(),
    reason="needs Linux's /proc and the repository's benchmarks",
)


def measured(megabytes: int, folder: Path, *options: str) -> dict[tuple[str, str], dict]:
    """Run the streaming benchmark and return its rows by format and case."""
    command = [
        sys.executable,
        BENCHMARK,
        "--json",
        "--megabytes",
        str(megabytes),
        "--folder",
        folder,
        *options,
    ]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        timeout=1800,
        check=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    print(done.stdout)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert not list(folder.iterdir())
    return {(row["format"], row["case"]): row for row in rows}


@pytest.mark.slow
def test_a_small_file(tmp_path):
    rows = measured(60, tmp_path, "--formats", "npy", "--cases", "sweep", "transform", "lda_all", "memmap")
    for case in ("sweep", "transform", "lda_all"):
        assert rows["npy", case]["file_mb"] > 55
        assert rows["npy", case]["anonymous_growth_mb"] < 20, rows["npy", case]
    # The watch sees memory where there is some to see: pages of a map that is sliced stay.
    assert rows["npy", "memmap"]["total_mb"] > 55 + 40


@pytest.mark.slow
@pytest.mark.parametrize("name", ["npy", "parquet", "csv", "svmlight"])
def test_a_third_of_the_file(name, tmp_path):
    """The process has a limit of a third of its file, which would otherwise end it."""
    cases = ["sweep", "transform", "drsvm"]
    rows = measured(300, tmp_path, "--formats", name, "--cases", *cases, "--limit-memory")
    assert [case for _, case in rows] == ["decode", "first pass", *cases]
    for row in rows.values():
        assert row["file_mb"] > 290
        assert row["anonymous_mb"] < row["limit_mb"]


@pytest.mark.slow
def test_a_file_of_two_gigabytes(tmp_path):
    rows = measured(2048, tmp_path, "--formats", "npy", "--cases", "sweep", "lda_all", "drsvm", "memmap")
    for case in ("sweep", "lda_all", "drsvm"):
        assert rows["npy", case]["file_mb"] > 2000
        assert rows["npy", case]["anonymous_mb"] < 600, rows["npy", case]
    assert rows["npy", "memmap"]["total_mb"] > 2000
