"""A simulated labeller: the number of labels that the page's questions need, and the accuracy of its estimates.

    python experiments/labelling.py                  everything
    python experiments/labelling.py --parts example  one part only
    python experiments/labelling.py --quick          a small test on a generated set, seconds

A run draws 1,000 rows of a set, hides all labels, and answers the questions of `labelfold label` one by one; the
model is refitted after each. Rows are written to labelling.csv as soon as they are known, and a re-run computes only
missing ones; labelling.md is written from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from common import experiment
from data_sets import Data, rng_of
from label_fold_sets import the_set
from labelfold import LabelFold
from labelfold.app.label._accuracy import Answer, doubtful_labels
from labelfold.app.label._questions import Question, Questions
from labelfold.app.label._worker import start
from labelling_report import write_report
from result_rows import Results, row_key

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
    quick: bool = False


QUICK = Plan(
    sets=("waveform",), runs=1, rows=60, labels=12, most=12, final=30, shown=(4, 8), example=60, quick=True
)


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


def table(name: str, plan: Plan, seed: int) -> Table:
    """Return the rows of a run, with labels as text."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        source, rows = "real", plan.example
    else:
        data = the_set(name, plan.quick)
        X, y, source, rows = data.X, data.y, data.source, plan.rows
    drawn = rng_of(name, "labelling", seed).permutation(len(y))[:rows]
    fold = start(X[drawn], seed=seed).set_params(unlabeled=None)
    return Table(name, source, y[drawn].astype(str).astype(object), fold, fold.embedding_.copy())


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
            fold = rows.fold.refit(labels, full=full)
            full_at, known = (answered + 1, classes) if full else (full_at, known)
        right = float(np.mean(y == y[row])) if fold is None else accuracy(fold, y, labels)
        yield Step(Answer(row, y[row], said, sure, question.how, answered), right)


def final_accuracy(rows: Table, plan: Plan, seed: int) -> tuple[float, np.ndarray]:
    """Return the accuracy (%) with many random labels, and these labels."""
    labels = np.full(len(rows.y), None, dtype=object)
    drawn = rng_of(rows.name, "final", seed).permutation(len(rows.y))[: min(plan.final, len(rows.y) // 2)]
    labels[drawn] = rows.y[drawn]
    return 100 * accuracy(rows.fold.refit(labels, full=True), rows.y, labels), labels


def flipped(rows: Table, labels: np.ndarray, seed: int) -> tuple[int, int, int]:
    """Return the number of flipped labels, of labels listed as doubtful, and of flipped ones among these."""
    rng = rng_of(rows.name, "flipped", seed)
    known = np.flatnonzero([label is not None for label in labels])
    wrong, classes = rng.permutation(known)[: max(1, len(known) // 20)], np.unique(rows.y.astype(str))
    labels = labels.copy()
    for row in wrong:
        labels[row] = str(rng.choice(classes[classes != labels[row]]))
    listed = {doubt.row for doubt in doubtful_labels(rows.fold.refit(labels, full=True), labels)}
    return len(wrong), len(listed), len(listed & set(wrong.tolist()))


def labels_part(results: Results, plan: Plan) -> None:
    """Write labels needed, accuracies, random rows and doubtful labels of every run."""
    for name, seed in product(plan.sets, range(plan.runs)):
        adder = Adder(results, the_set(name, plan.quick), seed, plan.rows)
        left = [strategy for strategy in STRATEGIES if not adder.has("Labels", strategy)]
        if not left and adder.has("Look again", "found"):
            continue
        rows = table(name, plan, seed)
        final, many = final_accuracy(rows, plan, seed)
        adder.add("Final", "random", final)
        if not adder.has("Look again", "found"):
            for what, value in zip(("flipped", "listed", "found"), flipped(rows, many, seed), strict=True):
                adder.add("Look again", what, value)
        for strategy in left:
            follow(adder, rows, strategy, 0.9 * final, plan, seed)


@dataclass(frozen=True)
class Adder:
    """What writes the rows of a run."""

    results: Results
    data: Any
    seed: int
    rows: int

    def has(self, part: str, method: str, **more: Any) -> bool:
        """Tell whether a row exists."""
        return self.results.has(**row_key(part, self.data, method, self.seed, rows=self.rows, **more))

    def add(self, part: str, method: str, ours: float, relative: Any = "", **more: Any) -> None:
        """Write a row, unless it exists."""
        key = row_key(part, self.data, method, self.seed, rows=self.rows, **more)
        self.results.add(**key, ours=float(ours), relative=relative)


def follow(adder: Adder, rows: Table, strategy: str, goal: float, plan: Plan, seed: int) -> None:
    """Write the results of a strategy: accuracies, estimates from its random rows, and finally the labels needed."""
    closely = strategy == STRATEGIES[0]
    least = plan.labels if closely else max(plan.shown)

    steps: list[Step] = []
    for step in simulate(rows, strategy, seed, plan.most):
        steps.append(step)
        if len(steps) >= least and reached(steps, goal) is not None:
            break
    right = np.array([100 * step.accuracy for step in steps])
    for labels in plan.shown:
        adder.add("Accuracy", strategy, right[min(labels, len(right)) - 1], labels=labels)
    if closely:
        for step in steps:
            if step.answer.how == "random":
                said = step.answer.predicted
                right_before = "" if said is None else int(said == step.answer.label)
                labels = step.answer.n_labels + 1
                adder.add("Random row", strategy, 100 * step.accuracy, right_before, labels=labels)
    needed = reached(steps, goal)
    adder.add("Labels", strategy, needed or plan.most, "" if needed else "more")


def reached(steps: Iterable[Step], goal: float) -> int | None:
    """Return the number of labels from which an accuracy (%) holds five times in a row; None if it never does."""
    held = 0
    for i, step in enumerate(steps, 1):
        held = held + 1 if 100 * step.accuracy >= goal else 0
        if held == IN_A_ROW:
            return i - IN_A_ROW + 1
    return None


def example(results: Results, plan: Plan) -> None:
    """Write the number of labels from none to 95% on scikit-learn's digits."""
    for seed, strategy in product(range(plan.runs), STRATEGIES):
        adder = Adder(results, Data("digits", None, np.empty(0), "real"), seed, plan.example)
        if not adder.has("Example", strategy):
            needed = reached(simulate(table("digits", plan, seed), strategy, seed, plan.most), 95.0)
            adder.add("Example", strategy, needed or plan.most, "" if needed else "more")


PARTS = {"labels": labels_part, "example": example}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, write the report, and return its path."""
    return experiment(
        __doc__, "labelling", Plan(), QUICK, PARTS, write_report, arguments, sets=SETS, runs=int
    )


if __name__ == "__main__":
    main()
