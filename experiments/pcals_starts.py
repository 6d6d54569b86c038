"""Whether the search of PCA-LS from several starts reaches the maxima that a branch-and-bound search proves.

    python experiments/pcals_starts.py            everything, about five minutes on one core
    python experiments/pcals_starts.py --quick    a small test, seconds

Run it from a checkout: the proof is the tests' reference, tests/reference/pcals_proof.py. Each problem is fitted by
the library. Then the proof finds the global maximum of the gain for the residuals that each of its directions was
searched in. A row has the proved bound of all gains, the library's gain, and their relative difference.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from common import Report, experiment
from data_sets import Data, rng_of
from labelfold import PCALS, KernelPCALS
from result_rows import Results, parameter, row_key

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from reference.pcals_data import KINDS, TASKS, centred_responses, problem
from reference.pcals_proof import proved_maximum

PART, DIRECTIONS = "gain", 2
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


@dataclass(frozen=True)
class Plan:
    """The size of a run: problems of each form and kind."""

    seeds: int = 10


def run(results: Results, plan: Plan) -> None:
    """Write the bound and the gain of every direction of every problem."""
    for seed, form, kind in itertools.product(range(plan.seeds), FORMS, KINDS):
        drawn = draw(form, kind, seed)
        about = {"form": form, "task": drawn.task, "labels": drawn.labels}
        about["weight"] = drawn.model.reconstruction
        data = Data(kind, drawn.X, drawn.y, "generated")
        keys = [row_key(PART, data, "PCA-LS", seed, **about, direction=i + 1) for i in range(DIRECTIONS)]
        if all(results.has(**key) for key in keys):
            continue
        for key, (bound, found) in zip(keys, gains(drawn, form), strict=False):
            results.add(**key, published=bound, ours=found, relative=found / bound - 1)


def write_report(page: Report, results: Results) -> None:
    """Write the page from the rows."""
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


PARTS = {"all": run}
main = experiment(__doc__, "pcals_starts", Plan(), Plan(seeds=1), PARTS, write_report, seeds=int)

if __name__ == "__main__":
    main()
