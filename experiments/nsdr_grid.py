"""NSDR over the grid of its paper: 500 points drawn evenly, two starts, on the three sets where ours fall short.

    python experiments/nsdr_grid.py              everything, 45 minutes on one core
    python experiments/nsdr_grid.py --quick      a taste on small pieces, seconds

A row of nsdr_grid.csv is one point of the grid from one start: the mean test error over the five folds, and for
each fold the errors on its test rows and on its validation rows. A re-run makes only the missing rows. nsdr_grid.md
is made from the CSV alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import qmc
from sklearn.svm import SVC

from common import at_most, experiment
from labelfold.factorization import NSDR
from nsdr_grid_report import write_report
from nsdr_sets import GRIDS, PAPER, SCALINGS, TABLE_1, TABLE_2, TwoClasses, folds, read
from result_rows import Results, row_key

SETS = ("ionosphere", "sonar", "spect")
STARTS = ("svd", "random")
# Seconds of processor time for the ten fits of a point. Those of degree 4 with small penalties may take longer, since
# their machines hardly settle; they are marked as late.
LIMIT = 4.0


@dataclass(frozen=True)
class Plan:
    """How much to run."""

    sets: tuple[str, ...] = SETS
    points: int = 500
    folds: int = 5
    columns: str = "standardised"
    starts: tuple[str, ...] = STARTS
    most_iterations: int = 30
    most_rows: int | None = None


QUICK = Plan(sets=("sonar", "spect"), points=4, folds=3, most_iterations=3, most_rows=60)


def drawn(points: int) -> list[dict[str, Any]]:
    """Return distinct points of the grid of NSDR, in an order of which every beginning covers the grid evenly."""
    grid = GRIDS["NSDR"]
    sobol = qmc.Sobol(len(grid), seed=0)
    found: dict[tuple, None] = {}
    while len(found) < points:
        for at in sobol.random(512):
            found[
                tuple(values[int(x * len(values))] for x, values in zip(at, grid.values(), strict=True))
            ] = None
    return [dict(zip(grid, point, strict=True)) for point in list(found)[:points]]


def predicted(
    data: TwoClasses, known: np.ndarray, options: dict[str, Any], start: str, most: int
) -> np.ndarray:
    """Return the classes of all rows, those that are not known as NSDR predicts them."""
    options = dict(options)
    few = np.full(len(data.y), -1)
    few[known] = data.y[known]
    k = max(1, round(options.pop("share") * data.X.shape[1]))
    limits = {"max_iter": min(options.pop("iterations"), most), "tol": 1e-4}
    model = NSDR(k, **options, **limits, **PAPER, gamma=1.0, init=start)
    return model.fit(data.X, few).transduction_


def all_errors(
    data: TwoClasses, options: dict[str, Any], start: str, plan: Plan
) -> tuple[list[float], list[float]]:
    """Return the test error and the validation error of each fold.

    The validation error is that on the next fold and the one before, each predicted without the labels of that fold
    and of the test fold. So one fit serves two neighbouring test folds, as it has the labels of neither.
    """
    parts = [test for _, test in folds(data, plan.folds)]

    def wrong(hidden: Sequence[int]) -> dict[int, float]:
        known = np.concatenate([part for f, part in enumerate(parts) if f not in hidden])
        found = predicted(data, known, options, start, plan.most_iterations)
        return {f: float(np.mean(found[parts[f]] != data.y[parts[f]])) for f in hidden}

    test = [wrong([f])[f] for f in range(plan.folds)]
    validation: list[list[float]] = [[] for _ in parts]
    for f in range(plan.folds):
        g = (f + 1) % plan.folds
        found = wrong([f, g])
        validation[f].append(found[g])
        validation[g].append(found[f])
    return test, [float(np.mean(each)) for each in validation]


def grid(results: Results, plan: Plan) -> None:
    """Write the errors of every point, set and start."""
    first = drawn(1)[0]
    predicted(
        read(plan.sets[0], 40, plan.columns), np.arange(30), first, plan.starts[0], 2
    )  # compiles the loops
    part = "Grid" if plan.columns == "standardised" else f"Grid, columns {plan.columns}"
    for options in drawn(plan.points):
        for name in plan.sets:
            data = read(name, plan.most_rows, plan.columns)
            for start in plan.starts:
                key = row_key(part, data, "NSDR", 0, start=start, **options)
                if results.has(**key):
                    continue
                published = TABLE_2[name][0][0]
                try:
                    with at_most(LIMIT):
                        test, validation = all_errors(data, options, start, plan)
                except TimeoutError:
                    results.add(**key, published=published, relative="late")
                    continue
                both = " ".join(f"{t:.5f}/{v:.5f}" for t, v in zip(test, validation, strict=True))
                results.add(**key, published=published, ours=float(np.mean(test)), relative=both)


def scalings(results: Results, plan: Plan) -> None:
    """Write the errors of SVMs with the parameters of the paper's Table 1, by scaling of the columns and kernel."""
    for name in TABLE_2:
        C, degree = TABLE_1[name][3]
        for scaling, kernel in product(SCALINGS, KERNELS):
            data = read(name, plan.most_rows, scaling)
            for fold, (train, test) in enumerate(folds(data, plan.folds)):
                key = row_key(
                    "Scaling", data, "SVMs", fold, columns=scaling, kernel=kernel, C=C, degree=degree
                )
                if results.has(**key):
                    continue
                options = KERNELS[kernel](data.X.shape[1])
                model = SVC(kernel="poly", C=C, degree=degree, max_iter=100_000, **options)
                found = model.fit(data.X[train], data.y[train]).predict(data.X[test])
                published = TABLE_2[name][3][0]
                results.add(**key, published=published, ours=float(np.mean(found != data.y[test])))


KERNELS: dict[str, Callable[[int], dict[str, float]]] = {
    "(x'z+1)^p": lambda d: {"gamma": 1.0, "coef0": 1.0},
    "(x'z/d)^p": lambda d: {"gamma": 1.0 / d, "coef0": 0.0},
}

PARTS = {"grid": grid, "scalings": scalings}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, write the report, and return its path."""
    return experiment(
        __doc__,
        "nsdr_grid",
        Plan(),
        QUICK,
        PARTS,
        write_report,
        arguments,
        points=int,
        starts=STARTS,
        columns=SCALINGS,
    )


if __name__ == "__main__":
    main()
