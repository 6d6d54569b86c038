"""A few seconds of the campaign's faults and damaged files, and proof that it notices what it looks for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).parents[1] / "campaign"
# The last runs are with files written under their final name.
CODE = """
import json, sys
from contextlib import contextmanager
sys.path.insert(0, sys.argv[1])
import faults, files
import labelfold.app.io._writing as writing

batches = [(faults, "predict"), (files, "csv.zip"), (files, "model")]
run = {name: part.run_batch(name, 7, 0) for part, name in batches}

@contextmanager
def in_place(path):
    with open(path, "wb") as file:
        yield file

writing.finished_file = in_place
command = faults.scenario("predict")
try:
    for call in range(3):
        faults.disturbed(command, "kill", call)
except AssertionError as error:
    run["broken predict"] = {}, str(error)
print(json.dumps(run))
"""


@pytest.mark.skipif(os.name != "posix", reason="the campaign forks")
def test_commands_survive_and_what_does_not_is_noticed():
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(CAMPAIGN)], capture_output=True, text=True, env=os.environ | one
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert "neither as before nor as the command makes it" in run.pop("broken predict")[1]
    assert {name: failure for name, (_, failure) in run.items() if failure} == {}
    assert [sum(ended.values()) for ended, _ in run.values()] == [9, 20, 20]


def test_the_page_has_the_numbers_of_the_record(monkeypatch):
    monkeypatch.syspath_prepend(str(CAMPAIGN))
    import record

    assert record.table() in record.PAGE.read_text(encoding="utf-8")
