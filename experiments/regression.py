"""Numeric targets with few labels: R² of LabelFold and of scikit-learn's regressors, and LabelFold's intervals.

    python experiments/regression.py            everything, some minutes
    python experiments/regression.py --quick    a small test, seconds

Some rows of each set keep their number, the others are predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1, make_regression
from sklearn.metrics import r2_score

from common import Report, experiment
from data_sets import Data, masked, rng_of
from labelfold import LabelFold
from labelfold.app.compare._data import read_data
from labelfold.app.compare._held_out import by_leave_one_out
from labelfold.app.registry import METHODS
from result_rows import Results, by_seed, grouped, row_key

PEERS = ("ridge", "svr", "extra-trees")
SETS = ("diabetes", "friedman", "linear", "heavy tail")


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = SETS
    labels: tuple[int, ...] = (20, 50, 100)
    draws: int = 12


QUICK = Plan(sets=("diabetes", "heavy tail"), labels=(20,), draws=1)


def read(name: str) -> Data:
    """Return a set by its name."""
    if name == "diabetes":
        return Data(name, *load_diabetes(return_X_y=True, scaled=False), "real")
    if name == "friedman":
        return Data(name, *make_friedman1(600, 10, noise=1.0, random_state=1), "generated")
    if name == "linear":
        return Data(name, *make_regression(600, 30, n_informative=10, noise=60, random_state=2), "generated")
    rng = rng_of(name)
    X = rng.standard_normal((600, 8))
    return Data(name, X, np.exp(X[:, 0] + 0.5 * X[:, 1]) + rng.standard_normal(600), "generated")


def run(results: Results, plan: Plan) -> None:
    """Write R² on hidden rows for every method and draw, and LabelFold's leave-one-out estimates."""
    for name in plan.sets:
        data = read(name)
        for labels, seed, method in product(plan.labels, range(plan.draws), ("labelfold", *PEERS)):
            row = partial(row_key, "R²", data, seed=seed, labels=labels)
            if results.has(**row(method)):
                continue
            order = rng_of(name, labels, seed).permutation(len(data.y))
            hidden, known = order[labels:], masked(data.y[:, None], order[:labels])[:, 0]
            model = METHODS[method].make(None, X=data.X, scale=True, task="regression").fit(data.X, known)
            said, truth = model.predict(data.X[hidden]), data.y[hidden]
            if isinstance(
                model, LabelFold
            ):  # the interval of R², and the share of rows in the prediction interval
                promise = by_leave_one_out(model, read_data(data.X, known, task="regression"))
                found = {"low": promise.low, "high": promise.high}
                found["inside"] = np.mean(np.abs(truth - said) <= promise.within)
                for quantity, value in found.items():
                    results.add(**row(f"labelfold {quantity}"), ours=float(value))
            results.add(**row(method), ours=r2_score(truth, said))


def write_report(page: Report, results: Results) -> None:
    """Write the page from the rows."""
    page.text(
        "# Numbers from few labels",
        "R² on hidden rows, mean over draws; `holds` is how often LabelFold's 90% interval for R² held it, `inside` "
        "the share of hidden rows within the distance that nine of ten are promised to keep.",
    )
    cells = {key: by_seed(rows) for key, rows in grouped(results.rows, "dataset", "labels", "method").items()}
    lines, held = [], []
    for name, labels in grouped(results.rows, "dataset", "labels"):
        of = {method: own for (n, count, method), own in cells.items() if (n, count) == (name, labels)}
        holds = [of["labelfold low"][s] <= r2 <= of["labelfold high"][s] for s, r2 in of["labelfold"].items()]
        held += holds
        means = {method: np.mean(list(own.values())) for method, own in of.items()}
        scores = (f"{means[method]:.2f}" for method in ("labelfold", *PEERS))
        shares = f"{np.mean(holds):.0%}", f"{means['labelfold inside']:.0%}"
        lines.append([name, labels, len(holds), *scores, *shares])
    page.table(["set", "labels", "draws", "LabelFold", *PEERS, "holds", "inside"], lines)
    page.text(f"The interval held in {np.mean(held):.0%} of {len(held)} cases.")


PARTS = {"all": run}


main = experiment(__doc__, "regression", Plan(), QUICK, PARTS, write_report)

if __name__ == "__main__":
    main()
