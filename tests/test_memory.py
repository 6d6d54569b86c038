"""What docs/memory.py says of memory is what docstrings and help say, and what processes take."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labelfold
from labelfold.app._cli import main
from labelfold.app.io import read_table

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


@pytest.mark.parametrize("command", ["fit", "transform", "predict", "compare"])
def test_the_help_says_it(stated, command, capsys):
    assert main([command, "--help"]) == 0
    assert stated.HELP in " ".join(capsys.readouterr().out.split())


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


def test_commands_take_no_more_than_they_say(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(25_000, 50)).round(6)).add_prefix("x")
    table["kind"] = np.where(np.arange(len(table)) < 200, rng.choice(["a", "b"], len(table)), "")
    table.to_csv(tmp_path / "t.csv", index=False)
    size = (tmp_path / "t.csv").stat().st_size
    start = "import sys; from labelfold.app._cli import main; sys.exit(main(sys.argv[1:]))"
    for command in (
        ["fit", "t.csv", "-t", "kind", "-m", "lda", "--ridge", "1", "-o", "m"],
        ["predict", "m", "t.csv", "-t", "kind", "-o", "p.csv"],
    ):
        # Children of a process of its own: the largest of them is then this one.
        watch = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, "
            "stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", watch, sys.executable, "-c", start, *command],
            cwd=tmp_path,
            env=ONE_THREAD,
            capture_output=True,
            text=True,
            check=True,
        )
        kilobytes = 1 if sys.platform == "darwin" else 1024
        assert int(done.stdout) * kilobytes < (300 << 20) + 8 * size, command
