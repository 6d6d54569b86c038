"""NMF-alpha with its supervision tuned for each number of components and each split, and its variants beside it.

    python experiments/nmf_alpha_tuned.py              the newsgroups; an hour and a half on one core
    python experiments/nmf_alpha_tuned.py --quick      small pieces, seconds

The paper tunes the trade-off on validation rows. Here that is a path: supervision falls from three times its unit to
a hundredth, each fit starting where the one before ended. Rows go to nmf_alpha_tuned.csv, and a re-run makes only the
missing ones; nmf_alpha_tuned.md is made from the CSV alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import labelfold
from common import experiment
from nmf_alpha import Machine, classify, place, root_mean_square, run_lda, run_svm, supervised
from nmf_alpha_sets import FORMS, LABELS, RANKS, TABLE_2, Split, Task, hidden, read, score, split
from nmf_alpha_tuned_report import write_report
from result_rows import Results, row_key, words

# Supervision as multiples of the weight at which rows and directions sum to the same.
MULTIPLES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0)
SHORT = MULTIPLES[:6]
HIGH = (100.0, 30.0, 10.0, *MULTIPLES[:5], 0.0)
PATHS = {("mnist", 0.01): HIGH}  # of a set and a C of the SVMs that give the directions; MULTIPLES otherwise
OTHER_WEIGHTS = {"SSNMF": (0.01, 0.1, 1.0, 10.0), "LDA": (0.0001, 0.001, 0.01)}  # as in nmf_alpha.py
# C of the SVMs that give the directions, and of the last SVM, for rows with a mean squared length of 1.
FIRST = {"news": (0.01, 1.0), "mnist": (0.01, 1.0), "aviation": (0.01, 1.0)}
COSTS = (0.1, 1.0, 10.0, 100.0)
# Iterations of NMF and of fits without a path, which start where it does; of a step of a path; and of a step of a
# joint path, of which an iteration makes ten passes.
START, STEP, JOINT_STEP = 200, 40, 4
# The variants of NMF-alpha: what the estimator is given.
VARIANTS: dict[str, dict[str, Any]] = {
    "NMF-alpha": {},
    "NMF-alpha, path up": {},
    "NMF-alpha, no path": {},
    "NMF-alpha, perceptron": {"directions": "perceptron"},
    "NMF-alpha, logistic": {"directions": "logistic"},
    "NMF-alpha, joint": {"joint": True},
    "NMF-alpha, kernel": {"kernel": "rbf"},
}
ENDS = ", path to 0.01"  # a variant whose path ends there
VARIANTS |= {
    name + ENDS: VARIANTS[name] for name in VARIANTS if name.split(", ")[-1] not in ("path up", "no path")
}
OTHERS = ("SSNMF", "CNMF", "LDA", "SVM")
RAW = ("LDA", "SVM")  # without r
METHODS = ("NMF", *VARIANTS, *OTHERS)
LENGTHS = ("as-placed", "unit")  # of the rows that the last SVM is trained on
SHARES = ("few", "some", "all")


@dataclass(frozen=True)
class Plan:
    """How much to run."""

    sets: tuple[str, ...] = ("news",)
    methods: tuple[str, ...] = ("NMF", "NMF-alpha", "SSNMF", "CNMF", "SVM")
    splits: tuple[int, ...] = (0, 1, 2, 3, 4)
    ranks: tuple[int, ...] = ()
    forms: tuple[str, ...] = ("unit",)  # of the newsgroups
    shares: tuple[str, ...] = SHARES  # of labels, as in the paper
    lengths: tuple[str, ...] = LENGTHS[:1]
    first: tuple[float, ...] = ()
    percents: tuple[int, ...] = ()  # others
    most_rows: int | None = None


QUICK = Plan(
    methods=tuple(m for m in METHODS if not m.endswith(ENDS)),
    splits=(0,),
    ranks=(4,),
    shares=("few",),
    lengths=LENGTHS,
    most_rows=300,
)


class Job(NamedTuple):
    """A row of the table, before it is known."""

    name: str
    form: str
    k: int  # 0: raw inputs
    seed: int
    method: str
    percent: int  # of the training rows, with labels
    first: float | None  # C of the SVMs that give the directions

    @property
    def key(self) -> dict[str, Any]:
        """Return what is said of it in the column of parameters."""
        first = {} if self.first is None else {"first": self.first}
        return {"form": self.form, "labels": self.percent, "r": self.k, **first}


class Best(NamedTuple):
    """What does best on validation rows: its score there, its trade-off and C, and how it classifies rows."""

    validation: float
    multiple: float
    C: float
    machine: Machine
    scale: Callable[[np.ndarray], np.ndarray]
    place: Callable[[Any], np.ndarray]


def jobs(plan: Plan) -> Iterator[Job]:
    """Yield what is to be done; jobs that share the factors of NMF follow each other."""
    for name in plan.sets:
        forms = plan.forms if name == "news" else ("unit",)
        ranks = plan.ranks or RANKS[name]
        percents = plan.percents or [LABELS[name][SHARES.index(share)] for share in plan.shares]
        for form, k, seed, method, percent in product(forms, ranks, plan.splits, plan.methods, percents):
            if method in RAW and k != ranks[0]:
                continue
            guided = method in VARIANTS and "perceptron" not in method
            for first in (plan.first or FIRST[name]) if guided else (None,):
                yield Job(name, form, 0 if method in RAW else k, seed, method, percent, first)


@lru_cache(maxsize=1)
def nmf(name: str, most_rows: int | None, form: str, seed: int, k: int) -> Any:
    """Return NMF of the training rows of a split."""
    task, cut = read(name, most_rows, form), split(name, most_rows, seed, form)
    return labelfold.KLNMF(k, max_iter=START, tol=0.0).fit(task.X[cut.train])


def fitted(task: Task, cut: Split, job: Job, start: Any) -> Iterator[tuple[float, Any]]:
    """Yield the multiples of a method and the model of each.

    The path goes down, from the start of NMF; or up, from the factors of NMF; or each fit has that start to itself.
    """
    X, y = task.X[cut.train], hidden(task, cut, job.percent)
    known = X[: cut.n_labelled(job.percent)]
    C = (job.first or 1.0) / root_mean_square(known) ** 2
    options = {"C": C, "tol": 0.0, "corrected": False, **VARIANTS[job.method]}
    multiples = SHORT if job.method.endswith(ENDS) else PATHS.get((job.name, job.first), MULTIPLES)
    if job.method == "NMF-alpha, no path":
        for multiple in multiples:
            yield multiple, labelfold.NMFAlpha(job.k, **options, max_iter=START).path(X, y, [multiple])[0]
        return
    if job.method == "NMF-alpha, path up":
        options["init"], multiples = (start.embedding_, start.components_.T), SHORT[::-1]
    steps = JOINT_STEP if "joint" in options else STEP
    models = labelfold.NMFAlpha(job.k, **options, max_iter=steps).path(X, y, multiples)
    yield from zip(multiples, models, strict=True)


def run(job: Job, plan: Plan) -> list[dict[str, Any]]:
    """Return the rows of a job: validation scores by trade-off, and the test score of the best."""
    task, cut = read(job.name, plan.most_rows, job.form), split(job.name, plan.most_rows, job.seed, job.form)
    rows = (run_other if job.method in OTHERS else run_factors)(task, cut, job, plan)
    known = dict(zip(LABELS[job.name], TABLE_2[job.name], strict=True))
    held = job.method in ("NMF-alpha", "NMF-alpha" + ENDS) and job.percent in known
    paper = {"published": known[job.percent][0]} if held else {}
    key = row_key("", task, job.method, job.seed)
    return [key | row | (paper if row["part"] == "Tuned" else {}) for row in rows]


def run_factors(task: Task, cut: Split, job: Job, plan: Plan) -> list[dict[str, Any]]:
    """Reduce the rows by NMF or NMF-alpha with each trade-off, then classify them."""
    start = None
    if job.method in ("NMF", "NMF-alpha, path up"):
        start = nmf(job.name, plan.most_rows, job.form, job.seed, job.k)
    known = cut.train[: cut.n_labelled(job.percent)]
    rows, best = [], {}
    for multiple, model in [(0.0, start)] if job.method == "NMF" else fitted(task, cut, job, start):
        transform = placing(model)
        Z, Z_validation = transform(task.X[known]), transform(task.X[cut.validation])
        for length in plan.lengths:
            scale = scaling(Z, length)
            trained = [Machine.train(scale(Z), task.y[known], C) for C in COSTS]
            reached = [score(task.y[cut.validation], m.predict(scale(Z_validation))) for m in trained]
            at = int(np.argmax(reached))
            name = words(**job.key, length=length, multiple=multiple)
            rows.append({"part": "Path", "parameters": name, "ours": reached[at]})
            if length not in best or reached[at] > best[length].validation:
                best[length] = Best(reached[at], multiple, COSTS[at], trained[at], scale, transform)
    for length, found in best.items():
        test = score(task.y_test, found.machine.predict(found.scale(found.place(task.X_test))))
        rows.append(tuned_row(job, length, test, found.validation, found.multiple, found.C))
    return rows


def run_other(task: Task, cut: Split, job: Job, plan: Plan) -> list[dict[str, Any]]:
    """Run SSNMF or LDA with each trade-off, CNMF, or an SVM on raw inputs."""
    reached = {}
    for weight in OTHER_WEIGHTS.get(job.method, (0.0,)):
        if job.method == "SVM":
            reached[weight] = run_svm(task, cut, job.percent, COSTS)
        elif job.method == "LDA":
            reached[weight] = run_lda(task, cut, job.percent, weight, COSTS)
        else:
            transform = supervised(task, cut, job.percent, job.method, job.k, weight)
            places = place(task, cut, job.percent, transform)
            reached[weight] = classify(task, cut, job.percent, places, COSTS)
    key = {**job.key, "length": LENGTHS[0]}
    rows = [
        {"part": "Path", "parameters": words(**key, multiple=weight), "ours": found.validation}
        for weight, found in reached.items()
    ]
    best = max(reached, key=lambda w: reached[w].validation)
    found = reached[best]
    return [*rows, tuned_row(job, LENGTHS[0], found.test, found.validation, best, found.C)]


def tuned_row(
    job: Job, length: str, test: float, validation: float, multiple: float, C: float
) -> dict[str, Any]:
    """Return the row of what was chosen."""
    chosen = words(validation=validation, multiple=multiple, C=C)
    return {"part": "Tuned", "parameters": words(**job.key, length=length), "ours": test, "relative": chosen}


def placing(model: Any) -> Callable[[Any], np.ndarray]:
    """Return the map of rows to corrected places (eq. 5)."""
    model.set_params(corrected=True)
    return model.transform


def scaling(Z: np.ndarray, length: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return what scales rows before an SVM: to a mean squared length of 1, or each to length 1."""
    if length == "unit":
        return lambda Z: Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
    size = root_mean_square(Z)
    return lambda Z: Z / size


def tuned(results: Results, plan: Plan) -> None:
    """Write the rows of all jobs that are not there."""
    for job in jobs(plan):
        task = read(job.name, plan.most_rows, job.form)
        if results.has(**row_key("Tuned", task, job.method, job.seed, **job.key, length=LENGTHS[0])):
            continue
        rows = run(job, plan)
        # The row that says that the job is done is the last one.
        for row in sorted(
            rows, key=lambda row: (row["part"] == "Tuned", "length=unit" not in row["parameters"])
        ):
            results.add(**row)


PARTS = {"tuned": tuned}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, write the report, and return its path."""
    takes = {
        "sets": LABELS,
        "methods": METHODS,
        "ranks": int,
        "forms": FORMS,
        "shares": SHARES,
        "lengths": LENGTHS,
    }
    takes |= {"first": float, "percents": int, "splits": int}
    return experiment(__doc__, "nmf_alpha_tuned", Plan(), QUICK, PARTS, write_report, arguments, **takes)


if __name__ == "__main__":
    main()
