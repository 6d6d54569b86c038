"""Whether the search of PCA-LS from several starts reaches the maxima that a branch-and-bound search proves.

    python experiments/pcals_starts.py            everything, about five minutes on one core
    python experiments/pcals_starts.py --quick    a small test, seconds

Run it from a checkout: the proof is the tests' reference, tests/reference/pcals_proof.py. Each problem is fitted by
the library. Then the proof finds the global maximum of the gain for the residuals that each of its directions was
searched in. A row has the proved bound of all gains, the library's gain, and their relative difference. Rows are
written to pcals_starts.csv as soon as they are known, and a re-run computes only missing ones; pcals_starts.md is
written from them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from common import RESULTS, Report, pinned, result_folder
from data_sets import rng_of
from labelfold import PCALS, KernelPCALS
from result_rows import Results, parameter, words

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from reference.pcals_data import KINDS, TASKS, centred_responses, problem
from reference.pcals_proof import proved_maximum

PART, DIRECTIONS, SEEDS = "gain", 2, 10
# Rows and columns of each form of problem. "passes" reads the rows again for each step; "kernel" has an RBF kernel.
# Those of 120 and 130 rows have more columns, or features, than the small space.
FORMS = {
    "tall": (150, 20),
    "wide": (40, 120),
    "sparse": (150, 40),
    "passes": (130, 110),
    "medium": (130, 110),
    "kernel": (120, 10),
}
# Relative differences that count as equal, and as a clear loss.
EQUAL, CLEAR = 1e-6, 5e-3


class Problem(NamedTuple):
    """A problem: X and y, its model before the fit, and what is said of it."""

    X: np.ndarray
    y: np.ndarray
    model: Any
    labels: int
    task: str


def draw(form: str, kind: str, seed: int) -> Problem:
    """Return a problem with a weight from 1e-5 to 100 and few or many labels, of one of four tasks."""
    rng = rng_of(form, kind, seed)
    n, d = FORMS[form]
    task, labels = TASKS[seed % len(TASKS)], int(rng.choice([5, 10, 20, n // 2]))
    weight = 10.0 ** rng.uniform(-5, 2)
    while True:
        X, y, index = problem(task, kind, n, d, labels, seed=int(rng.integers(1 << 30)))
        if task == "regression" or all(len(np.unique(c)) > 1 for c in y[index].reshape(labels, -1).T):
            break
    if form == "kernel":
        gamma = 10.0 ** rng.uniform(-2, 0) / X.var(axis=0).sum()
        return Problem(X, y, KernelPCALS(DIRECTIONS, reconstruction=weight, gamma=gamma), labels, task)
    if form == "sparse":
        X = np.where(rng.random(X.shape) < 0.2, X, 0.0)
    budget = {"max_gram_bytes": 0} if form == "passes" else {}
    return Problem(X, y, PCALS(DIRECTIONS, reconstruction=weight, **budget), labels, task)


def gains(drawn: Problem, form: str) -> Iterator[tuple[float, float]]:
    """Yield for each direction the proved bound of all gains, and that of the library."""
    X, y, model = drawn[:3]
    model.fit(sparse.csr_array(X) if form == "sparse" else X, y)
    R, W = X - X.mean(axis=0), model.components_
    if form == "kernel":
        H = np.eye(len(X)) - 1 / len(X)
        values, U = np.linalg.eigh(H @ np.exp(-model.gamma_ * ((X[:, None] - X) ** 2).sum(axis=2)) @ H)
        kept = values > 1e-12 * values[-1]
        R = U[:, kept] * np.sqrt(values[kept])
        W = np.linalg.lstsq(R, model.transform(X), rcond=None)[0].T
    index = np.flatnonzero(~np.isnan(y.reshape(len(y), -1)[:, 0]))
    r = centred_responses(y)
    for w, found in zip(W, model.gains_, strict=True):
        *_, bound = proved_maximum(R, index, r, model.reconstruction_)
        yield bound, found
        z = R[index] @ w
        r = r - np.outer(z, r.T @ z / (z @ z))
        R = R - np.outer(R @ w, w) / (w @ w)


def run(results: Results, seeds: int) -> None:
    """Compute the missing rows."""
    for seed, form, kind in itertools.product(range(seeds), FORMS, KINDS):
        key = {"part": PART, "dataset": kind, "source": "generated", "seed": seed}
        drawn = draw(form, kind, seed)
        said = words(form=form, task=drawn.task, labels=drawn.labels, weight=drawn.model.reconstruction)
        keys = [
            {**key, "method": "PCA-LS", "parameters": f"{said} direction={i + 1}"} for i in range(DIRECTIONS)
        ]
        if all(results.has(**one) for one in keys):
            continue
        with pinned(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for one, (bound, found) in zip(keys, gains(drawn, form), strict=False):
                if not results.has(**one):
                    how = {"published": bound, "ours": found, "relative": found / bound - 1}
                    results.add(**one, **how)


def write_report(results: Results, path: Path) -> Path:
    """Write the page from the rows."""
    page = Report(path)
    page.text(
        "# PCA-LS: maxima from several starts beside proved ones",
        f"Directions of generated problems. The gain is equal if it is below the proved bound of all gains by "
        f"at most {EQUAL:.0e} of it. The proof is the branch-and-bound search of tests/reference/pcals_proof.py.",
    )
    lines = []
    for form in [*FORMS, "all"]:
        rows = [row for row in results.rows if form in ("all", parameter(row, "form"))]
        relative = np.array([float(row["relative"]) for row in rows])
        problems = len({(row["dataset"], row["seed"], parameter(row, "form")) for row in rows})
        counts = [int((relative >= -EQUAL).sum()), int((relative < -CLEAR).sum())]
        lines.append([form, problems, len(rows), *counts, f"{min(relative.min(initial=0.0), 0.0):.1e}"])
    page.table(["form", "problems", "directions", "equal or higher", f"lower by {CLEAR:.1%}", "worst"], lines)
    page.write()
    return path


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one problem of each form and kind")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="problems of each form and kind")
    parser.add_argument("--output", help="where rows and page go")
    options = parser.parse_args(arguments)
    folder = RESULTS if not options.quick and options.output is None else result_folder(True, options.output)
    results = Results(folder / "pcals_starts.csv")
    run(results, 1 if options.quick else options.seeds)
    results.pack()
    return write_report(results, folder / "pcals_starts.md")


if __name__ == "__main__":
    print(main())
