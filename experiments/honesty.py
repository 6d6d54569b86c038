"""The accuracy that `labelfold fit` promises against the truth, on tables that tempt it to promise too much.

    python experiments/honesty.py            everything, about half an hour on one core
    python experiments/honesty.py --quick    a small test, seconds

Each table has some labelled rows; the labels of the others are hidden from the command and known to the experiment. A
run is the command itself, then the predictions of its model for the hidden rows.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from common import Report, experiment
from data_sets import Data, load, rng_of
from labelfold.app.commands._cli import main as labelfold
from labelfold.app.io import load_model
from result_rows import Results, by_seed, grouped, row_key

_EXPECTED = re.compile(r"xpect ([\d.]+)% ([\w ]+) on new rows \(90% interval ([\d.]+)% to ([\d.]+)%")
# The sentences that count, by name.
_SAID = {
    "together": r"copies are held out together| in \d+ groups",
    "left out": r"may tell which rows were labelled",
    "differ": r"Labelled rows differ from the others",
}


# What is written of each run.
FOUND = ("share", "low", "high", *_SAID, "truth")


@dataclass
class Table:
    """A table with the truth about its rows.

    Attributes
    ----------
    X : DataFrame
    truth : ndarray of str
        The class of every row.
    labelled : ndarray of bool
    options : list of str
        Options of the command.
    """

    X: pd.DataFrame
    truth: np.ndarray
    labelled: np.ndarray
    options: list[str] = field(default_factory=list)


def _columns(rng: np.random.Generator, n: int, d: int = 8) -> pd.DataFrame:
    """Return d columns of numbers, two categories, and some missing cells."""
    X = pd.DataFrame(rng.normal(size=(n, d)).round(4), columns=[f"m{chr(97 + j)}" for j in range(d)])
    X["plan"] = rng.choice(["basic", "plus", "pro"], n)
    X["region"] = rng.choice(["north", "south", "east", "west", None], n)
    return X.mask(rng.random(X.shape) < 0.02)


def _first(n: int, labels: int) -> np.ndarray:
    return np.arange(n) < labels


def noise(rng: np.random.Generator, labels: int) -> Table:
    """Return labels that no column tells."""
    return Table(
        _columns(rng, 400), rng.choice(["a", "b", "c"][: rng.integers(2, 4)], 400), _first(400, labels)
    )


def signal(rng: np.random.Generator, labels: int) -> Table:
    """Return labels that three columns tell, with noise."""
    X = _columns(rng, 600)
    score = X["ma"].fillna(0) - X["mb"].fillna(0) + 0.8 * (X["plan"] == "pro") + rng.normal(size=600)
    return Table(X, np.where(score > 0.2, "yes", "no"), _first(600, labels))


def twice(rng: np.random.Generator, labels: int) -> Table:
    """Return rows that are labelled two or three times, with labels that no column tells."""
    times, X = int(rng.integers(2, 4)), _columns(rng, 400)
    own = labels // times
    truth = rng.choice(["a", "b"], 400)
    copied = np.concatenate([np.tile(np.arange(own), times), np.arange(own, 400)])
    return Table(X.iloc[copied].reset_index(drop=True), truth[copied], _first(len(copied), times * own))


def visits(rng: np.random.Generator, labels: int) -> Table:
    """Return five visits of each patient, with a label of the patient that the columns tell a little."""
    patients = labels // 5 + 80
    kind = rng.integers(0, 2, patients)
    own = rng.normal(size=(patients, 6))
    own[:, 0] += kind
    patient = np.repeat(np.arange(patients), 5)
    X = pd.DataFrame(
        (own[patient] + 0.4 * rng.normal(size=(len(patient), 6))).round(4), columns=list("abcdef")
    )
    X.insert(0, "patient", [f"P{i:03}" for i in patient])
    truth = np.array(["ill", "well"])[kind[patient]]
    return Table(X, truth, _first(len(X), labels), ["--group", "patient"])


def filled(rng: np.random.Generator, labels: int) -> Table:
    """Return a column that is filled only where the row is labelled, and tells the label there."""
    table = noise(rng, labels)
    told, here = pd.Series(table.truth), table.labelled & (rng.random(400) < rng.choice([1.0, 0.7]))
    number = told.map({"a": 1.0, "b": 5.0, "c": 9.0}) + rng.normal(scale=0.1, size=400).round(3)
    kinds: dict[str, Callable[[], Any]] = {
        "number": lambda: number.where(here),
        "zero": lambda: number.where(here, 0.0),
        "sentinel": lambda: number.where(here, -999),
        "category": lambda: told.map({"a": "low", "b": "mid", "c": "high"}).where(here),
        "words": lambda: told.map({"a": "low", "b": "mid", "c": "high"}).where(here, "n/a"),
        "date": lambda: (pd.Timestamp("2024-01-01") + pd.to_timedelta(number.round() * 30, unit="D")).where(
            here
        ),
        "text": lambda: ("checked by Ann, who found the case to be " + told).where(here),
    }
    kind = list(kinds)[rng.integers(len(kinds))]
    table.X.insert(int(rng.integers(len(table.X.columns))), "review", kinds[kind]())
    return table


def discrete(rng: np.random.Generator, labels: int) -> Table:
    """Return an honest table of few distinct values, whose rows are equal by chance."""

    def like(drawn: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        ill = drawn.random(683) < 0.35
        X = np.where(ill[:, None], drawn.integers(1, 11, (683, 9)), 1 + (drawn.random((683, 9)) < 0.2))
        return X.astype(float), ill.astype(int)

    data = load("breast_cancer_wisconsin_original", like)
    order = rng.permutation(len(data.y))
    X = pd.DataFrame(np.asarray(data.X)[order], columns=[f"q{chr(97 + j)}" for j in range(data.X.shape[1])])
    truth = np.array([f"kind {c}" for c in np.asarray(data.y)[order]])
    return Table(X, truth, _first(len(X), labels))


def rare(rng: np.random.Generator, labels: int) -> Table:
    """Return an honest table with many flags that one row in a hundred has."""
    table = signal(rng, labels)
    flags = pd.DataFrame(
        (rng.random((600, 60)) < 0.01).astype(int), columns=[f"has_{j:02}x" for j in range(60)]
    )
    return Table(pd.concat([table.X, flags], axis=1), table.truth, table.labelled)


def selected(rng: np.random.Generator, labels: int) -> Table:
    """Return labelled rows that were chosen by one of the columns."""
    table = signal(rng, labels)
    chance = 1 / (1 + np.exp(-3 * table.X["mc"].fillna(0).to_numpy()))
    rows = rng.choice(600, size=labels, replace=False, p=chance / chance.sum())
    return Table(table.X, table.truth, np.isin(np.arange(600), rows))


SETTINGS = {make.__name__: make for make in (noise, signal, twice, visits, filled, discrete, rare, selected)}


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    settings: tuple[str, ...] = tuple(SETTINGS)
    labels: tuple[int, ...] = (20, 40, 60, 120)
    draws: int = 65


QUICK = Plan(labels=(40,), draws=1)


def run(results: Results, plan: Plan) -> None:
    """Write what the command promises, what it says, and the truth, for every setting and draw."""
    for name, labels, seed in product(plan.settings, plan.labels, range(plan.draws)):
        data = Data(name, None, np.empty(0), "generated")
        rows = {what: row_key("promise", data, what, seed, labels=labels) for what in FOUND}
        wanted = {what: row for what, row in rows.items() if not results.has(**row)}
        found, draw = None, 0
        while wanted and found is None:  # where the command gives no score, another table is drawn
            found = _promised(SETTINGS[name](rng_of(name, labels, seed, draw), labels))
            draw += 1
        for what, row in wanted.items():
            results.add(**row, ours=float(found[what]))


def _promised(table: Table) -> dict[str, float] | None:
    """Return the promise of the command, the truth, and which sentences it said; None if it promises nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path, model = os.path.join(folder, "table.csv"), os.path.join(folder, "model.skops")
        table.X.assign(outcome=np.where(table.labelled, table.truth, "")).to_csv(path, index=False)
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            status = labelfold(["fit", path, "--target", "outcome", "--output", model, *table.options])
            said = told.getvalue()
            if "too few labels to estimate" in said or "has one class only" in said:
                return None
            assert status == 0, said
            promise = _EXPECTED.search(said)
            assert promise is not None, said
            hidden = pd.read_csv(path, dtype=str, keep_default_na=False)[~table.labelled]
            guess = load_model(model).predict(hidden.drop(columns="outcome"))
    share, low, high = (float(promise[i]) / 100 for i in (1, 3, 4))
    measure = accuracy_score if promise[2] == "right" else balanced_accuracy_score
    truth = float(measure(table.truth[~table.labelled], np.asarray(guess).astype(str)))
    sentences = {name: bool(re.search(pattern, said)) for name, pattern in _SAID.items()}
    return {"share": share, "low": low, "high": high, **sentences, "truth": truth}


def write_report(page: Report, results: Results) -> None:
    """Write the page from the rows."""
    page.text(
        "# What `labelfold fit` promises, and what is true",
        "Mean promised accuracy (balanced accuracy where classes are uneven), that on the hidden rows, and how often "
        "the 90% interval held it. The last columns are the shares of runs in which rows were left out together, in "
        "which a column that is filled only in labelled rows was left out, and in which the command said that "
        "labelled rows differ from the others.",
    )
    cells: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for (name, labels, what), rows in grouped(results.rows, "dataset", "labels", "method").items():
        cells.setdefault((name, labels), {})[what] = by_seed(rows)
    lines, held = [], {}
    for (name, labels), of in cells.items():
        holds = [of["low"][s] - 5e-4 <= truth <= of["high"][s] + 5e-4 for s, truth in of["truth"].items()]
        held.setdefault(name, []).extend(holds)
        means = {what: np.mean(list(found.values())) for what, found in of.items()}
        shares = (f"{means[what]:.0%}" for what in _SAID)
        promised = (f"{means[what]:.1%}" for what in ("share", "truth"))
        lines.append([name, labels, len(holds), *promised, f"{np.mean(holds):.0%}", *shares])
    page.table(["setting", "labels", "runs", "promised", "true", "held", *_SAID], lines)
    docs = {name: (make.__doc__ or "").strip().removeprefix("Return ") for name, make in SETTINGS.items()}
    page.table(
        "setting | what it is | held",
        [[name, docs[name], f"{np.mean(holds):.1%} of {len(holds)}"] for name, holds in held.items()],
    )
    every = [hold for holds in held.values() for hold in holds]
    page.text(f"The interval held in {np.mean(every):.1%} of {len(every):,} runs.")


PARTS = {"all": run}


main = experiment(__doc__, "honesty", Plan(), QUICK, PARTS, write_report, settings=SETTINGS, draws=int)

if __name__ == "__main__":
    main()
