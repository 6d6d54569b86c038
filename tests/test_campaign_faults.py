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
import bases, faults, files, labelling, reads
import labelfold.app.io._databases as databases
import labelfold.app.io._writing as writing

files.FILES, reads.FAULTS, bases._FAULTS, labelling._TRIES, faults._CALLS = 3, 3, 1, 1, 3
databases._PATIENCE = 1  # seconds that a locked database is waited for
batches = [
    *((faults, name) for name in ("predict", "read-csv.zip", "table-sqlite", "label-kill", "label-disk")),
    *((files, name) for name in ("csv.zip", "model", "journal", "http")),
]
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
def test_commands_survive_and_what_does_not_is_noticed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(CAMPAIGN))
    from disk import environment

    one = {"TMPDIR": str(tmp_path)} | environment()
    one |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(CAMPAIGN)], capture_output=True, text=True, env=os.environ | one
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert "neither as before nor as the command makes it" in run.pop("broken predict")[1]
    assert {name: failure for name, (_, failure) in run.items() if failure} == {}
    counts = {name: sum(ended.values()) for name, (ended, _) in run.items()}
    in_c = 1 if environment() else 0  # faults of what reads and writes in C, where there is a compiler
    wanted = {
        "predict": 6,
        "read-csv.zip": 3 * in_c,
        "table-sqlite": 4 + in_c,
        "label-kill": 1,
        "label-disk": 1,
    }
    assert counts.pop("http") > 15
    assert counts == wanted | {"csv.zip": 3, "model": 3, "journal": 3}
    assert [path.name for path in tmp_path.iterdir()] == []


def test_the_page_has_the_numbers_of_the_record(monkeypatch):
    monkeypatch.syspath_prepend(str(CAMPAIGN))
    import record

    assert record.table() in record.PAGE.read_text(encoding="utf-8")
