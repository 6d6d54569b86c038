"""The campaign runs, keeps its record and goes on from it; and a first part of it, the same every time."""

import csv
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).parents[1] / "campaign"
sys.path.append(str(CAMPAIGN))

from cases import NAMES, run_batch  # noqa: E402


def attack(record):
    command = [sys.executable, str(CAMPAIGN), "--seconds", "0.01", "--seed", "3", "--parts", "cases"]
    done = subprocess.run([*command, "--record", str(record)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with record.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_batch_is_recorded_and_not_run_again(tmp_path):
    first = attack(tmp_path / "record.csv")
    assert [row["batch"] for row in first] == [f"{NAMES[0]}:3:0"]
    assert int(first[0]["cases"]) == int(first[0]["result"]) + int(first[0]["sentence"]) == 20
    second = attack(tmp_path / "record.csv")
    assert [row["batch"] for row in second] == [f"{NAMES[0]}:3:0", f"{NAMES[1]}:3:0"]


def test_a_batch_that_hangs_has_failed_and_the_next_is_run(tmp_path, monkeypatch):
    (tmp_path / "endless.py").write_text(
        "import time\n"
        "from collections import Counter\n"
        "NAMES = ('first', 'second')\n"
        "def run_batch(name, seed, number):\n"
        "    time.sleep(60 if name == 'first' else 0.2)\n"
        "    return Counter(result=3), ''\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path)
    rows = runpy.run_path(str(CAMPAIGN))["campaign"](2.5, 1, ["endless"], tmp_path / "record.csv", longest=1)
    assert [row["batch"] for row in rows[:2]] == ["first:1:0", "second:1:0"]
    assert "status 1" in rows[0]["failure"]
    assert (rows[1]["failure"], rows[1]["cases"]) == ("", "3")


def test_each_part_has_its_share_of_the_time(tmp_path, monkeypatch):
    for part in ("early", "late"):
        (tmp_path / f"{part}.py").write_text(
            "from collections import Counter\n"
            f"NAMES = ('{part}',)\n"
            "def run_batch(name, seed, number):\n"
            "    return Counter(result=1), ''\n"
        )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    rows = runpy.run_path(str(CAMPAIGN))["campaign"](0.01, 1, ["early", "late"], tmp_path / "record.csv")
    assert {row["part"] for row in rows} == {"early", "late"}


@pytest.mark.parametrize("name", NAMES)
def test_some_cases(name):
    ended, failure = run_batch(name, 20, 0, n_cases=6)
    assert failure == ""
    assert sum(ended.values()) == 6


def test_every_public_estimator_is_attacked():
    import labelfold
    from labelfold import features, model_selection

    forms = {name for name in features.__all__ if hasattr(getattr(features, name), "fit")}
    forms |= {form.__name__ for form in features.FORMS.values()}
    splitters = {name for name in model_selection.__all__ if hasattr(getattr(model_selection, name), "split")}
    assert set(labelfold._ESTIMATORS) <= set(NAMES)
    assert forms <= set(NAMES)
    assert splitters - {"RepeatedSemiSupervisedKFold"} <= set(NAMES)  # drawn with SemiSupervisedKFold
