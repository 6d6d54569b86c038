"""A pass over a file takes the memory of its blocks, not of the file: measured in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "streaming.py"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists() or not BENCHMARK.exists(),
    reason="needs Linux's /proc and the repository's benchmarks",
)


def measured(megabytes: int, folder: Path) -> dict[str, dict]:
    """Run the streaming benchmark and return its rows by case."""
    command = [sys.executable, BENCHMARK, "--json", "--megabytes", str(megabytes), "--folder", folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900, check=True)
    print(done.stdout)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["case"]: row for row in rows}


@pytest.mark.slow
def test_a_small_file(tmp_path):
    rows = measured(60, tmp_path)
    for case in ("sweep", "lda_few", "lda_all"):
        assert rows[case]["file_mb"] > 55
        assert rows[case]["anonymous_growth_mb"] < 20, rows[case]
    # The watch sees memory where there is some to see: pages of a map that is sliced stay.
    assert rows["memmap"]["total_mb"] > rows["sweep"]["total_mb"]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_file_of_two_gigabytes(tmp_path):
    rows = measured(2048, tmp_path)
    for case in ("sweep", "lda_few", "lda_all"):
        assert rows[case]["file_mb"] > 2000
        assert rows[case]["anonymous_mb"] < 600, rows[case]
    assert rows["memmap"]["total_mb"] > 2000
