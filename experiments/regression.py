"""Numeric targets with few labels: R² of LabelFold and of scikit-learn's regressors, and LabelFold's intervals.

    python experiments/regression.py            everything, some minutes
    python experiments/regression.py --quick    a small test, seconds

Some rows of each set keep their number, the others are predicted. Rows are written to regression.csv as soon as they
are known, and a re-run computes only missing ones; regression.md is written from them.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1, make_regression
from sklearn.metrics import r2_score

from common import Report, Results, parameter, pinned, result_folder, rng_of, seconds, words
from labelfold import LabelFold
from labelfold.app.compare._data import read_data
from labelfold.app.compare._held_out import by_leave_one_out
from labelfold.app.registry import METHODS

PEERS = ("ridge", "svr", "extra-trees")
SETS = ("diabetes", "friedman", "linear", "heavy tail")


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = SETS
    labels: tuple[int, ...] = (20, 50, 100)
    draws: int = 12


QUICK = Plan(sets=("diabetes", "heavy tail"), labels=(20,), draws=1)


def read(name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return rows, numbers, and whether they are real."""
    if name == "diabetes":
        return *load_diabetes(return_X_y=True, scaled=False), "real"
    if name == "friedman":
        return *make_friedman1(600, 10, noise=1.0, random_state=1), "generated"
    if name == "linear":
        return *make_regression(600, 30, n_informative=10, noise=60, random_state=2), "generated"
    rng = rng_of(name)
    X = rng.standard_normal((600, 8))
    return X, np.exp(X[:, 0] + 0.5 * X[:, 1]) + rng.standard_normal(600), "generated"


def run(results: Results, plan: Plan) -> None:
    """Write R² on hidden rows for every method and draw, and LabelFold's leave-one-out estimates."""
    for name in plan.sets:
        X, y, source = read(name)
        for labels in plan.labels:
            for seed in range(plan.draws):
                order = rng_of(name, labels, seed).permutation(len(y))
                hidden, known = order[labels:], np.full(len(y), np.nan)
                known[order[:labels]] = y[order[:labels]]
                key = {"part": "R²", "dataset": name, "source": source, "seed": seed}
                key["parameters"] = words(labels=labels)
                for method in ("labelfold", *PEERS):
                    if results.has(**key, method=method):
                        continue
                    make = METHODS[method].make(None, X=X, scale=True, task="regression")
                    with pinned(1), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        spent, model = seconds(lambda: make.fit(X, known))  # noqa: B023
                    said = model.predict(X[hidden])
                    if isinstance(model, LabelFold):
                        _promises(
                            results, key, model, read_data(X, known, task="regression"), said, y[hidden]
                        )
                    results.add(**key, method=method, ours=r2_score(y[hidden], said), seconds=spent)
        print(f"{name} done", flush=True)


def _promises(results: Results, key: dict, model: LabelFold, data, said: np.ndarray, y: np.ndarray) -> None:
    """Write the interval of R², and the share of hidden rows within the prediction interval."""
    promise = by_leave_one_out(model, data)
    found = {"low": promise.low, "high": promise.high, "inside": np.mean(np.abs(y - said) <= promise.within)}
    for quantity, value in found.items():
        if not results.has(**key, method=f"labelfold {quantity}"):
            results.add(**key, method=f"labelfold {quantity}", ours=float(value))


def write_report(results: Results, path: Path) -> Path:
    """Write the page from the rows."""
    page = Report(path)
    page.text(
        "# Numbers from few labels",
        "R² on hidden rows, mean over draws; `holds` is how often LabelFold's 90% interval for R² held it, `inside` "
        "the share of hidden rows within the distance that nine of ten are promised to keep.",
    )
    cells: dict[tuple[str, int, str], dict[int, float]] = {}
    for row in results.rows:
        place = row["dataset"], int(parameter(row, "labels")), row["method"]
        cells.setdefault(place, {})[int(row["seed"])] = float(row["ours"])
    lines, held = [], []
    for name, labels in dict.fromkeys((name, labels) for name, labels, _ in cells):
        of = {m: cells.get((name, labels, m), {}) for m in ("labelfold", *PEERS)}
        bounds = [cells[name, labels, f"labelfold {end}"] for end in ("low", "high")]
        inside = cells[name, labels, "labelfold inside"]
        holds = [bounds[0][s] <= r2 <= bounds[1][s] for s, r2 in of["labelfold"].items()]
        held += holds
        means = (f"{np.mean(list(values.values())):.2f}" for values in of.values())
        lines.append(
            [
                name,
                labels,
                len(holds),
                *means,
                f"{np.mean(holds):.0%}",
                f"{np.mean(list(inside.values())):.0%}",
            ]
        )
    page.table(["set", "labels", "draws", "LabelFold", *PEERS, "holds", "inside"], lines)
    page.text(f"The interval held in {np.mean(held):.0%} of {len(held)} cases.")
    page.write()
    return path


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a taste on small pieces")
    parser.add_argument("--output", help="where rows and page go")
    options = parser.parse_args(arguments)
    folder = result_folder(options.quick, options.output)
    results = Results(folder / "regression.csv")
    run(results, QUICK if options.quick else Plan())
    return write_report(results, folder / "regression.md")


if __name__ == "__main__":
    print(main())
