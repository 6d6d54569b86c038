"""Measure what estimators take of memory: one line of JSON each, from a process of its own that is forked here.

    python tests/peak_memory.py LDA KLNMF

A fit of few rows comes first, in the same process, so that what is imported or compiled is there.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np

import labelfold

FEW = {"max_iter": 3, "n_stages": 2, "n_anchors": 100}
# Those whose time grows faster than their rows, and those that choose a kernel by the number of rows.
SLOW = {"LapRLS": (5000, 600), "TSVM": (5000, 600), "KernelPCALS": (1200, 2000), "LabelFold": (4000, 700)}
LABELLED, CLASSES, PLACED = 300, 5, 300


def grown(work) -> int:
    """Return by how many bytes the resident memory has grown at its peak."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that from here on
    before = status("VmRSS")
    work()
    return status("VmHWM") - before


def status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{key}:"))


def measure(name: str) -> dict:
    n, d = SLOW.get(name, (60_000, 60))
    rng = np.random.default_rng(0)
    X, y = rng.random((n, d)), rng.integers(0, CLASSES, n)
    y[LABELLED:] = -1
    taken = getattr(labelfold, name)().get_params()
    model = getattr(labelfold, name)(**{p: v for p, v in FEW.items() if p in taken})
    use = "transform" if hasattr(model, "transform") else "predict"
    getattr(model.fit(X[:350, :20], y[:350]), use)(X[:50, :20])
    fit = grown(lambda: model.fit(X, y))
    placed = grown(lambda: getattr(model, use)(X[:PLACED]))
    k = len(getattr(model, "components_", getattr(model, "coef_", np.empty((CLASSES, 0)))))
    letters = {
        "X": X.nbytes,
        "n": n,
        "d": d,
        "l": LABELLED,
        "c": CLASSES,
        "m": PLACED,
        "q": n,
        "a": 100,
        "k": k,
    }
    return {"name": name, "fit": fit, "use": placed, "letters": letters}


def in_a_fork(name: str) -> None:
    if (child := os.fork()) == 0:
        print(json.dumps(measure(name)), flush=True)
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for estimator in sys.argv[1:]:
        getattr(labelfold, estimator)
    for estimator in sys.argv[1:]:
        in_a_fork(estimator)
