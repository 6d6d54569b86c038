"""The example of docs/cluster.md runs as printed, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="distributed is not installed")
pytest.importorskip("dask.dataframe", reason="dask's data frames need pyarrow")

PAGE = Path(__file__).parents[1] / "docs" / "cluster.md"


def test_the_example_runs_as_printed(tmp_path):
    code, printed = re.findall(r"```(?:python|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
    script = tmp_path / "example.py"
    script.write_text(code)
    # Processes that start on busy cores take more than the usual 30 seconds.
    patient = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "300s"}
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
        env=os.environ | patient,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
