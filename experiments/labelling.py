"""A simulated labeller: the number of labels that the page's questions need, and the accuracy of its estimates.

    python experiments/labelling.py                  everything
    python experiments/labelling.py --parts example  one part only
    python experiments/labelling.py --quick          a small test on a generated set, seconds

A run draws 1,000 rows of a set, hides all labels, and answers the questions of `labelfold label` one by one; the
model is refitted after each. Rows are written to labelling.csv as soon as they are known, and a re-run computes only
missing ones; labelling.md is written from it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from common import Results, pinned, result_folder, rng_of, seconds, words
from label_fold_sets import the_set
from labelfold import LabelFold
from labelfold.app.compare._active_learning import Question, Questions
from labelfold.app.label._accuracy import Answer, look_again
from labelfold.app.label._worker import start
from labelling_report import write_report

SETS = ("optdigits", "usps", "satimage", "Text", "waveform")
STRATEGIES = ("mixed", "random", "uncertainty alone")

# All views are weighted again when the number of labels has grown by this factor, as on the page.
AGAIN = 1.3

# A goal is reached if it holds for this many consecutive numbers of labels.
IN_A_ROW = 5


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = SETS
    runs: int = 10
    rows: int = 1000
    labels: int = 60  # least labels of the strategy whose estimates are checked
    most: int = 120  # most labels, if the goal is not reached
    final: int = 200  # random labels for the final accuracy
    shown: tuple[int, ...] = (10, 20, 40)  # numbers of labels for which accuracies are reported
    example: int = 1797  # rows of the worked example


QUICK = Plan(sets=("waveform",), runs=1, rows=60, labels=12, most=12, final=30, shown=(4, 8), example=60)


class Step(NamedTuple):
    """One answer, and the accuracy on unlabelled rows after it."""

    answer: Answer
    accuracy: float


class Table(NamedTuple):
    """The rows of a run; ``fold`` has their views, and ``Z`` is an unsupervised embedding."""

    name: str
    source: str
    y: np.ndarray
    fold: LabelFold
    Z: np.ndarray


def table(name: str, plan: Plan, quick: bool, seed: int) -> Table:
    """Return the rows of a run, with labels as text."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        source, rows = "real", plan.example
    else:
        data = the_set(name, quick)
        X, y, source, rows = data.X, data.y, data.source, plan.rows
    drawn = rng_of(name, "labelling", seed).permutation(len(y))[:rows]
    fold = start(X[drawn], seed=seed).set_params(unlabeled=None)
    return Table(name, source, y[drawn].astype(str).astype(object), fold, fold.embedding_.copy())


def fit(fold: LabelFold, labels: np.ndarray, full: bool) -> LabelFold:
    """Return the fold refitted with other labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fold.refit(labels, full=full)


def accuracy(fold: LabelFold, y: np.ndarray, labels: np.ndarray) -> float:
    """Return the accuracy on unlabelled rows."""
    hidden = np.array([label is None for label in labels])
    return float(np.mean(fold.transduction_[hidden] == y[hidden]))


def uncertainty_alone(fold: LabelFold | None, left: np.ndarray, rng: np.random.Generator) -> Question:
    """Return the row of least confidence; a random one while there are fewer than two classes."""
    if fold is None:
        return Question(int(rng.choice(left)), "", "first")
    return Question(int(left[fold.label_distributions_[left].max(axis=1).argmin()]), "", "unsure")


def simulate(rows: Table, strategy: str, seed: int, most: int) -> Iterator[Step]:
    """Answer questions of a strategy one by one, at most ``most``."""
    n, y = len(rows.y), rows.y
    labels, asked = np.full(n, None, dtype=object), []
    questions, rng, fold, full_at, known = Questions(n, seed=seed), rng_of(strategy, seed), None, 0.0, 0
    for answered in range(min(most, n - 1)):
        labelled = np.array([label is not None for label in labels])
        if strategy == "uncertainty alone":
            question: Any = uncertainty_alone(fold, np.flatnonzero(~labelled), rng)
        else:
            question = questions.next(
                fold, rows.Z, labelled, strategy=strategy, asked=asked, n_answered=answered
            )
        row = question.row
        said = None if fold is None else str(fold.transduction_[row])
        sure = 0.0 if fold is None else float(fold.label_distributions_[row].max())
        labels[row] = y[row]
        asked.append(row)
        classes = len(set(y[asked]))
        if classes > 1:
            full = answered + 1 >= AGAIN * full_at or classes != known
            fold = fit(rows.fold, labels, full)
            full_at, known = (answered + 1, classes) if full else (full_at, known)
        right = float(np.mean(y == y[row])) if fold is None else accuracy(fold, y, labels)
        yield Step(Answer(row, y[row], said, sure, question.how, answered), right)


def final_accuracy(rows: Table, plan: Plan, seed: int) -> tuple[float, np.ndarray]:
    """Return the accuracy (%) with many random labels, and these labels."""
    labels = np.full(len(rows.y), None, dtype=object)
    drawn = rng_of(rows.name, "final", seed).permutation(len(rows.y))[: min(plan.final, len(rows.y) // 2)]
    labels[drawn] = rows.y[drawn]
    return 100 * accuracy(fit(rows.fold, labels, True), rows.y, labels), labels


def flipped(rows: Table, labels: np.ndarray, seed: int) -> tuple[int, int, int]:
    """Return the number of flipped labels, of labels listed as doubtful, and of flipped ones among these."""
    rng = rng_of(rows.name, "flipped", seed)
    known = np.flatnonzero([label is not None for label in labels])
    wrong, classes = rng.permutation(known)[: max(1, len(known) // 20)], np.unique(rows.y.astype(str))
    labels = labels.copy()
    for row in wrong:
        labels[row] = str(rng.choice(classes[classes != labels[row]]))
    listed = {doubt.row for doubt in look_again(fit(rows.fold, labels, True), labels)}
    return len(wrong), len(listed), len(listed & set(wrong.tolist()))


def labels_part(results: Results, plan: Plan, quick: bool) -> None:
    """Write labels needed, accuracies, random rows and doubtful labels of every run."""
    for name in plan.sets:
        for seed in range(plan.runs):
            one_run(results, name, plan, seed, quick)
        print(f"labels: {name} done", flush=True)


def one_run(results: Results, name: str, plan: Plan, seed: int, quick: bool) -> None:
    """Write the missing results of one run of all strategies."""
    source = the_set(name, quick).source
    key = {"dataset": name, "source": source, "seed": seed}

    def has(part: str, method: str) -> bool:
        return results.has(part=part, method=method, parameters=words(rows=plan.rows), **key)

    missing = [strategy for strategy in STRATEGIES if not has("Labels", strategy)]
    if not missing and has("Look again", "found"):
        return
    rows = table(name, plan, quick, seed)
    final, many = final_accuracy(rows, plan, seed)
    add = adder(results, key, plan)
    if not has("Final", "random"):
        add("Final", "random", final)
    if not has("Look again", "found"):
        wrong, listed, found = flipped(rows, many, seed)
        for what, value in (("flipped", wrong), ("listed", listed), ("found", found)):
            add("Look again", what, value)
    for strategy in missing:
        follow(add, rows, strategy, 0.9 * final, plan, seed)


def adder(results: Results, key: dict[str, Any], plan: Plan) -> Callable[..., None]:
    """Return a function that writes a row of a run, unless it exists."""

    def add(part: str, method: str, ours: float, relative: Any = "", spent: Any = "", **more: Any) -> None:
        row = key | {"part": part, "method": method, "parameters": words(rows=plan.rows, **more)}
        if not results.has(**row):
            results.add(**row, ours=float(ours), relative=relative, seconds=spent)

    return add


def follow(add: Callable[..., None], rows: Table, strategy: str, goal: float, plan: Plan, seed: int) -> None:
    """Write the results of a strategy: accuracies, estimates from its random rows, and finally the labels needed."""
    closely = strategy == STRATEGIES[0]
    least = plan.labels if closely else max(plan.shown)

    def run() -> list[Step]:
        steps: list[Step] = []
        for step in simulate(rows, strategy, seed, plan.most):
            steps.append(step)
            if len(steps) >= least and reached(steps, goal) is not None:
                break
        return steps

    with pinned(1):
        spent, steps = seconds(run)
    right = np.array([100 * step.accuracy for step in steps])
    for labels in plan.shown:
        add("Accuracy", strategy, right[min(labels, len(right)) - 1], labels=labels)
    if closely:
        for step in steps:
            if step.answer.how == "random":
                said = step.answer.predicted
                right_before = "" if said is None else int(said == step.answer.label)
                labels = step.answer.n_labels + 1
                add("Random row", strategy, 100 * step.accuracy, right_before, labels=labels)
    needed = reached(steps, goal)
    add("Labels", strategy, needed or plan.most, "" if needed else "more", spent)


def reached(steps: Iterable[Step], goal: float) -> int | None:
    """Return the number of labels from which an accuracy (%) holds five times in a row; None if it never does."""
    held = 0
    for i, step in enumerate(steps, 1):
        held = held + 1 if 100 * step.accuracy >= goal else 0
        if held == IN_A_ROW:
            return i - IN_A_ROW + 1
    return None


def example(results: Results, plan: Plan, quick: bool) -> None:
    """Write the number of labels from none to 95% on scikit-learn's digits."""
    for seed in range(plan.runs):
        key = {"part": "Example", "dataset": "digits", "source": "real", "seed": seed}
        for strategy in STRATEGIES:
            row = key | {"method": strategy, "parameters": words(rows=plan.example)}
            if results.has(**row):
                continue
            rows = table("digits", plan, quick, seed)
            with pinned(1):
                steps = simulate(rows, strategy, seed, plan.most)
                spent, needed = seconds(partial(reached, steps, 95.0))
            results.add(
                **row, ours=float(needed or plan.most), relative="" if needed else "more", seconds=spent
            )
    print("example done", flush=True)


PARTS = {"labels": labels_part, "example": example}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small generated set")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--output", help="folder of the results")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    given = {"sets": options.sets and tuple(options.sets), "runs": options.runs}
    plan = Plan(**vars(plan) | {name: value for name, value in given.items() if value is not None})
    folder = result_folder(options.quick, options.output)
    results = Results(folder / "labelling.csv")
    for part in options.parts:
        PARTS[part](results, plan, options.quick)
    page = folder / "labelling.md"
    write_report(results, page)
    print(f"Report: {page}")
    return page


if __name__ == "__main__":
    main()
