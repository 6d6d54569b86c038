"""The results of `labelfold compare`, beside ten lines of scikit-learn.

    python experiments/delivered.py                      everything
    python experiments/delivered.py --parts baselines    scikit-learn only
    python experiments/delivered.py --quick              a small test, a minute

Each of ten tables is written to a file with 60 labels, ten times, and the command of the README is run on it.
predictions.csv is compared with the hidden labels. Rows are written to delivered.csv and delivered_baselines.csv as
soon as they are known, and a re-run computes only missing ones; delivered.md is written from both.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from common import experiment, pinned, seconds
from data_sets import accuracy
from delivered_baselines import BASELINES, TABLES, Table, draw, predict, read
from delivered_report import SURE, write_report
from result_rows import Results, beside, row_key

# A table with more columns is written as a sparse NPZ file.
MOST_CSV_COLUMNS = 1000


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = TABLES
    draws: int = 10
    labels: int = 60
    most_rows: int | None = None
    time_limit: float | None = None


QUICK = Plan(sets=("wine", "autos_motorcycles"), draws=2, labels=24, most_rows=80, time_limit=4)


def baselines(results: Results, plan: Plan) -> None:
    """Write the accuracy of every baseline on the hidden rows of every draw."""
    results = beside(results, "delivered_baselines")
    for name in plan.sets:
        table = read(name, plan.most_rows)
        for seed, baseline in product(range(plan.draws), BASELINES):
            key = row_key("Baseline", table, baseline, seed, labels=plan.labels)
            if results.has(**key):
                continue
            known = draw(table.y, plan.labels, name, seed)
            hidden = np.setdiff1d(np.arange(len(table.y)), known)
            with pinned(1):
                spent, said = seconds(partial(predict, baseline, table, plan.most_rows, known))
            results.add(**key, ours=accuracy(table.y, said, hidden), seconds=spent)


def delivered(results: Results, plan: Plan) -> None:
    """Write the results of the command line for every draw: one row for each quantity."""
    limit = {} if plan.time_limit is None else {"limit": plan.time_limit}
    for name in plan.sets:
        table = read(name, plan.most_rows)
        for seed in range(plan.draws):
            row = partial(row_key, "Delivered", table, seed=seed, labels=plan.labels, **limit)
            if results.has(**row("accuracy")):  # it is written last
                continue
            known = draw(table.y, plan.labels, name, seed)
            with tempfile.TemporaryDirectory() as folder:
                found = run(table, known, Path(folder), plan.time_limit)
            spent = found.pop("seconds")
            for quantity, value in found.items():
                results.add(**row(quantity), ours=value, seconds=spent if quantity == "accuracy" else "")


def run(table: Table, known: np.ndarray, folder: Path, time_limit: float | None) -> dict[str, Any]:
    """Run the README's command on a file with the known labels; return its results, with the accuracy last.

    A run without predictions counts as 0% right.
    """
    file = write_table(table, known, folder)
    command = [Path(sys.executable).with_name("labelfold"), "compare", file, "--target", "y", "--id", "id"]
    command += ["--save", "-o", folder / "out"]
    command += [] if time_limit is None else ["--time-limit", str(time_limit)]
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    found: dict[str, Any] = {"seconds": time.perf_counter() - start}
    predictions = folder / "out" / "predictions.csv"
    if done.returncode or not predictions.is_file():
        lines = done.stderr.strip().splitlines() or ["no predictions"]
        return found | {"failed": lines[-1], "accuracy": 0.0}
    hidden = np.setdiff1d(np.arange(len(table.y)), known)
    codes, confidence = read_predictions(predictions, len(table.y))
    right, confidence = codes[hidden] == table.y[hidden], confidence[hidden]
    sure = (confidence >= SURE[0]) & (confidence <= SURE[1])
    promise = read_promise(folder / "out" / "answer.json", done.stdout)
    truth = right
    if "balanced" in promise["metric"]:
        truth = [right[table.y[hidden] == c].mean() for c in np.unique(table.y[hidden])]
    found |= promise | {"truth": 100 * float(np.mean(truth))}
    found |= {"sure": int(sure.sum()), "sure and right": int((sure & right).sum())}
    return found | {"accuracy": 100 * float(right.mean())}


def write_table(table: Table, known: np.ndarray, folder: Path) -> Path:
    """Write a table with the known labels: CSV, or sparse NPZ if it has too many columns."""
    n, d = table.X.shape
    y = np.full(n, "", dtype="U8")
    y[known] = [f"c{code}" for code in table.y[known]]
    if d > MOST_CSV_COLUMNS:
        parts = {f"X_{part}": getattr(table.X, part) for part in ("data", "indices", "indptr", "shape")}
        np.savez(folder / "t.npz", y=y, id=np.arange(n), **parts)
        return folder / "t.npz"
    import pandas as pd

    X = table.X.toarray() if table.counts else table.X
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])
    frame.insert(0, "id", np.arange(n))
    frame.assign(y=y).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def read_predictions(path: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the class code and the confidence of each of n rows, in the order of their ids."""
    import pandas as pd

    frame = pd.read_csv(path).set_index("id").loc[np.arange(n)]
    return frame["predicted"].str.removeprefix("c").astype(int).to_numpy(), frame["confidence"].to_numpy()


def read_promise(path: Path, printed: str) -> dict[str, Any]:
    """Return the method, its expected score (%), interval and metric, from answer.json or from the printed text."""
    if path.is_file():
        answer = json.loads(path.read_text())
        named = {name: answer.get(name) for name in ("expected", "low", "high")}
        shares = {name: 100 * float(share) for name, share in named.items() if share is not None}
        return {"method": answer["method"], "metric": answer["metric"], **shares}
    said = re.search(r"^(.+?) (?:reached|keeps|and .+ are).*? ([\d.]+)%", printed, flags=re.MULTILINE)
    method, expected = (said[1], float(said[2])) if said else ("unknown", np.nan)
    return {"method": method, "metric": "accuracy", "expected": expected}


PARTS = {"baselines": baselines, "delivered": delivered}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, write the report, and return its path."""

    def write(results: Results, path: Path) -> None:
        write_report(results, beside(results, "delivered_baselines"), path)

    takes = {"sets": TABLES, "draws": int, "time_limit": float}
    return experiment(__doc__, "delivered", Plan(), QUICK, PARTS, write, arguments, threads=None, **takes)


if __name__ == "__main__":
    main()
