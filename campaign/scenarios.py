"""The long commands, with the files of their folder before, and checks of its state after a fault."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import tempfile
import threading
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from child import Ended, new_folder, undisturbed
from disk import Disk
from tqdm import tqdm

COMPARE = "compare t.csv -t kind --id name -m pcals,naive-bayes -r {} --save -o r"
_FIT = "fit {}.csv -t kind --id name -m pcals -o m.skops"
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.part")
_SECONDS = ("fit_seconds", "transform_seconds")

# The command, and the commands before it.
SCENARIOS = {
    "compare-new": [COMPARE.format(1)],
    "compare-again": [COMPARE.format(1), COMPARE.format(2)],
    "compare-other": [COMPARE.format(1).replace("t.csv", "u.csv"), COMPARE.format(1)],
    "compare-without-save": [COMPARE.format(1), COMPARE.format(1).replace(" --save", "")],
    "fit": [_FIT.format("u"), _FIT.format("t")],
    "transform-csv": [_FIT.format("t"), *(f"transform m.skops {t}.csv -o e.csv" for t in "ut")],
    "transform-parquet": [_FIT.format("t"), "transform m.skops t.csv -o e.parquet"],
    **{
        f"transform-{form}": [
            _FIT.format("t"),
            f"transform m.skops u.{table} -o e.{form}",
            f"transform m.skops t.{table} -o e.{form} --predict",
        ]
        for form, table in (("npz", "csv"), ("h5ad", "h5ad"))
    },
    "predict": [_FIT.format("t"), "predict m.skops u.csv -o p.tsv", "predict m.skops t.csv -o p.tsv"],
    "datasets": ["datasets wine -o d.csv", "datasets iris -o d.csv --labels 20"],
    "demo": ["demo -o r --seed 1", "demo -o r"],
}


@dataclass(frozen=True)
class Scenario:
    """A command to be disturbed.

    Attributes
    ----------
    name : str
    arguments : list of str
        Arguments of the command.
    before : Path
        The folder before the command.
    was : dict
        The files of that folder.
    reference : dict
        The content of the files after a run without faults.
    seconds : float
        The seconds of that run.
    calls : list of str
        The calls that changed the disk in that run.
    """

    name: str
    arguments: list[str]
    before: Path
    was: dict[str, bytes] = field(repr=False)
    reference: dict[str, Any] = field(repr=False)
    seconds: float
    calls: list[str]

    def check_state(
        self, folder: Path, ended: Ended, interrupted: bool = False, littered: bool = False
    ) -> None:
        """Check that every file is complete: as before, or as the command writes it.

        After Ctrl-C a command may have written fewer files. Unfinished files may remain if it was killed, or if
        nothing could be removed (``littered``).
        """
        now = files_of(folder)
        left = [name for name in now if _UNFINISHED.search(name)]
        assert not left or ended.status < 0 or littered, f"{left} was left"
        aside = [data for name, data in now.items() if "results.previous" in name]
        for name, data in self.was.items():
            if name not in now:
                # files that the command does not write are removed when all others are in place
                replaced = all(
                    now.get(made) != self.was.get(made) for made in now if made.endswith("report.html")
                )
                assert (name not in self.reference and replaced) or data in aside, f"{name} is gone"
            elif now[name] != data and name.endswith("results.csv"):
                assert result_lines(data) <= result_lines(now[name]) or data in aside, f"{name} lost results"
        for name, data in now.items():
            if self.was.get(name) == data or name in left or "results.previous" in name:
                continue
            assert name in self.reference, f"{name} is new"
            if name.endswith("results.csv"):
                assert interrupted or result_lines(data) <= set(self.reference[name]), (
                    f"{name} has other results"
                )
            else:
                told = told_by(name, data)  # fails if it is not complete
                alike = interrupted or name.endswith("report.html") or told == self.reference[name]
                assert alike, f"{name} is neither as before nor as the command makes it"
        if ended.status == 0:
            self.check_same(now)

    def check_same(self, now: dict[str, bytes]) -> None:
        """Check that the files have the same content as after a run without faults."""
        told = {name: told_by(name, data) for name, data in now.items() if "results.previous" not in name}
        wanted = {name: data for name, data in self.reference.items() if "results.previous" not in name}
        assert told.keys() == wanted.keys(), f"other files: {sorted(told.keys() ^ wanted.keys())}"
        other = [name for name in told if told[name] != wanted[name]]
        assert not other, f"{other} came out otherwise"

    def check_next(self, folder: Path) -> None:
        """Check that the next run continues, and gives the result of a run without faults."""
        undisturbed(self.arguments, folder)
        self.check_same(files_of(folder))


@cache
def scenario(name: str) -> Scenario:
    """Run the commands before a command, and the command once without faults."""
    warm()
    root = new_folder(f"{name}-")
    before = root / "before"
    before.mkdir()
    for table, seed in (("t", 0), ("u", 1)):
        write_table(before / f"{table}.csv", seed)
        if name.endswith("h5ad"):
            write_h5ad(before / f"{table}.csv")
    *earlier, command = [line.split() for line in SCENARIOS[name]]
    for arguments in earlier:
        undisturbed(arguments, before)
    shutil.copytree(before, root / "reference")
    counted = root / "calls"
    disk = Disk(root / "reference", report=counted)
    ended = undisturbed(command, root / "reference", disk.install)
    files = files_of(root / "reference")
    reference = {name: told_by(name, data) for name, data in files.items()}
    seconds = max(ended.seconds, 0.05)
    return Scenario(name, command, before, files_of(before), reference, seconds, counted.read_text().split())


@cache
def warm() -> None:
    """Import everything that the commands need, and shorten the demo."""
    import labelfold.app.commands._compare as commands
    from labelfold.app.commands._cli import main

    # the default is one lock for all forked children, which a killed child would never release
    tqdm.set_lock(threading.RLock())
    load = commands.ExampleSet.data.func

    def some(example: commands.ExampleSet) -> tuple:
        X, names, y = load(example)
        return X[:150, ::3][:, :12], names[::3][:12], y[:150]

    commands.ExampleSet.data = property(some)
    commands._DEMO |= {"methods": ["pcals"], "repeats": 1}
    here = Path.cwd()
    with (
        tempfile.TemporaryDirectory(dir=new_folder("warm-")) as folder,
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        write_table(Path(folder) / "t.csv", 0)
        os.chdir(folder)
        try:  # imports and compilation during a command
            assert main(COMPARE.format(1).split()) == 0
        finally:
            os.chdir(here)


def write_table(path: Path, seed: int) -> None:
    """Write a table of 60 rows with names, of which 18 are labelled."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, 60)
    X = rng.standard_normal((60, 4)) + 3 * np.eye(3, 4)[kinds]
    with path.open("w", newline="") as file:
        write = csv.writer(file).writerow
        write(["name", "a", "b", "c", "d", "kind"])
        for i, (row, kind) in enumerate(zip(X, kinds, strict=True)):
            write([f"row {i}", *(f"{value:.4f}" for value in row), f"kind {kind}" if i < 18 else ""])


def write_h5ad(path: Path) -> None:
    """Write a table as an AnnData file beside it."""
    import anndata
    import pandas as pd

    frame = pd.read_csv(path)
    obs = frame[["name", "kind"]].set_index("name", drop=False).rename_axis("cell")
    X = frame.drop(columns=["name", "kind"])
    made = anndata.AnnData(X.to_numpy(), obs=obs, var=X.iloc[:0].T)
    made.write_h5ad(path.with_suffix(".h5ad"))


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files of a folder, without the lock."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def result_lines(data: bytes) -> set[str]:
    """Return the runs in results.csv without their seconds; an incomplete last line is ignored."""
    whole = data[: data.rfind(b"\n") + 1].decode(errors="replace")
    rows = csv.DictReader(io.StringIO(whole, newline=""))
    return {json.dumps({k: v for k, v in row.items() if k not in _SECONDS}) for row in rows}


def told_by(name: str, data: bytes) -> Any:
    """Return the reproducible content of a file; fail if it is not complete."""
    if name.endswith("results.csv"):
        assert data.endswith(b"\n"), f"{name} ends with half a line"
        return sorted(result_lines(data))
    if name.endswith(".html"):
        assert data.rstrip().endswith(b"</html>"), f"{name} is cut short"
        return True
    if name.endswith((".skops", ".npz")):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.testzip() is None, f"{name} is damaged"
            if name.endswith(".npz"):
                return sorted((m.filename, m.CRC) for m in archive.infolist())
            assert "schema.json" in archive.namelist(), f"{name} has no schema"
            note = json.loads(archive.read("labelfold.json"))
            return note, sorted(m.CRC for m in archive.infolist() if m.filename.endswith(".npy"))
    if name.endswith("answer.json"):  # its details depend on earlier results
        return {key: value for key, value in json.loads(data).items() if key != "details"}
    return data
