"""The campaign runs, keeps its record and goes on from it."""

import csv
import subprocess
import sys
from pathlib import Path

CAMPAIGN = Path(__file__).parents[1] / "campaign"


def attack(record):
    command = [sys.executable, str(CAMPAIGN), "--seconds", "0.01", "--seed", "3", "--record", str(record)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with record.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_batch_is_recorded_and_not_run_again(tmp_path):
    first = attack(tmp_path / "record.csv")
    assert [row["batch"] for row in first] == ["LDA:3:0"]
    assert int(first[0]["result"]) >= 14
    assert first[0]["failure"] == ""
    second = attack(tmp_path / "record.csv")
    assert [row["batch"] for row in second] == ["LDA:3:0", "CCA:3:0"]
