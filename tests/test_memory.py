"""What docs/memory.py says of memory is what docstrings and help say, and what processes take."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import labelfold
from labelfold.app.commands._cli import main
from labelfold.app.io import read_table
from peak_commands import CASES

HERE = Path(__file__).parent
MEMORY = HERE.parent / "docs" / "memory.py"
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists() or not MEMORY.exists(),
    reason="needs Linux's /proc and the repository's docs",
)
SLOW = ["LapRLS", "TSVM", "KernelPCALS", "LabelFold"]
FACTORS = ["KLNMF", "NMFAlpha", "SSNMF", "CNMF", "DRSVM", "LSDR", "NSDR"]
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1", "LABELFOLD_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def stated():
    spec = importlib.util.spec_from_file_location("memory", MEMORY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_estimator_says_it(stated):
    assert set(stated.ESTIMATORS) | {"Recipe"} == set(labelfold._ESTIMATORS)
    for name in stated.ESTIMATORS:
        assert stated.sentence(name) in " ".join(getattr(labelfold, name).__doc__.split()), name
    assert stated.READER in " ".join(read_table.__doc__.split())
    assert stated.PAGE.read_text() == stated.page(), "run python docs/memory.py"


@pytest.mark.parametrize(("command", "line"), [(one, CASES[one][0]) for one in CASES if CASES[one][2]])
def test_the_help_says_it(stated, command, line, capsys):
    assert main([command, "--help"]) == 0
    assert stated.help_of(line) in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "group", ["others", *(pytest.param(one, marks=pytest.mark.slow) for one in ("factors", "kernels"))]
)
def test_no_more_than_it_says(stated, group):
    names = {"kernels": SLOW, "factors": FACTORS}.get(group) or [
        name for name in stated.ESTIMATORS if name not in SLOW + FACTORS
    ]
    done = subprocess.run(
        [sys.executable, HERE / "peak_memory.py", *names],
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["name"] for row in rows] == names, done.stderr
    for row in rows:
        peak = stated.ESTIMATORS[row["name"]]
        for took, formula in ((row["fit"], peak.fit), (row["use"], peak.use)):
            assert took <= stated.bound(formula, **row["letters"]), (row, formula)
    # The measure sees memory: where rows are copied, there is as much.
    assert group != "kernels" or max(row["fit"] for row in rows) > rows[0]["letters"]["X"]


def peaks(folder, rows, names):
    done = subprocess.run(
        [sys.executable, HERE / "peak_commands.py", folder, str(rows), *names],
        env=ONE_THREAD,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("rows", [8000, pytest.param(60_000, marks=pytest.mark.slow)])
def test_readers_and_commands_take_no_more_than_they_say(stated, tmp_path, rows):
    quick = ["fit", "predict", "Recipe", "read t.npz", "read t.svmlight", "read model", "inspect"]
    names = quick if rows == 8000 else list(CASES)
    assert {line for line, *_ in CASES.values()} == set(stated.PROCESSES)
    found = peaks(tmp_path, rows, names)
    assert [row["name"] for row in found] == names
    for row in found:
        assert row["peak"] <= stated.most(row["line"], row["F"]), row
    # The measure sees memory: a model is in it, packed and unpacked.
    model = next(row for row in found if row["name"] == "read model")
    assert model["peak"] > 2 * model["F"] > 2e7
