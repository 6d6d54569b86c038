"""The table of classifiers: mean AUC and accuracy in the reduced space, by either solver, from the rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from common import Report
from result_rows import Results, by_seed, grouped, parameter, spread
from two_stage_parts.classifiers import ALL, PART, SOLVERS


class Compared(NamedTuple):
    """One technique on one set: values over the splits by (measure, solver), and the ridges chosen."""

    dataset: str
    method: str
    values: dict[tuple[str, str], dict[str, float]]
    ridges: list[float]

    def cell(self, measure: str, solver: str) -> str:
        """Return mean and spread in percent."""
        return spread(100 * np.array(list(self.values.get((measure, solver), {}).values())), 1)

    @property
    def apart(self) -> float:
        """The largest difference between both solvers on a split, in percentage points."""
        pairs = [
            (self.values[measure, SOLVERS[0]], self.values[measure, SOLVERS[1]])
            for measure in ("AUC", "accuracy")
        ]
        return max(100 * abs(a[seed] - b[seed]) for a, b in pairs for seed in a.keys() & b.keys())

    @property
    def n_splits(self) -> int:
        """How many splits there are."""
        return min(len(values) for values in self.values.values())


def compared(results: Results) -> Iterator[Compared]:
    """Return the sets and techniques in the order of the rows."""
    for (dataset, method), own in grouped(results.select(part=PART), "dataset", "method").items():
        found = {key: by_seed(rows) for key, rows in grouped(own, "measure", "solver").items()}
        ridges = sorted({float(parameter(row, "ridge")) for row in own}) if method != ALL else []
        yield Compared(dataset, method, found, ridges)


def lines(results: Results) -> list[list[str]]:
    """Return a line for each set and technique, under `HEADER`."""
    found = []
    for case in compared(results):
        if case.n_splits < 2:  # no spread yet
            continue
        if case.method == ALL:
            cells = [case.cell("AUC", "none"), "", case.cell("accuracy", "none"), "", "", ""]
        else:
            cells = [case.cell(measure, solver) for measure in ("AUC", "accuracy") for solver in SOLVERS]
            chosen = [f"{case.ridges[0]:g}", f"{case.ridges[-1]:g}"]
            cells += [f"{case.apart:.2g}", " to ".join(dict.fromkeys(chosen))]
        found.append([f"{case.dataset}, {case.method}", *cells, str(case.n_splits)])
    return found


HEADER = [
    "set, technique",
    "AUC, direct",
    "AUC, two-stage",
    "accuracy, direct",
    "accuracy, two-stage",
    "most apart",
    "ridges",
    "splits",
]
ABOUT = (
    "A linear SVM (C = 1) on the embedding: mean AUC over classes or labels, and accuracy (of rows; of sets with "
    "several labels, of single labels), in percent, mean ± standard deviation over random halves for training and "
    "testing. The ridge is chosen for each split on a third of its training half among the eight of Table 2. *Most "
    "apart* is the largest difference between both solvers on any split, in percentage points. *all columns* is the "
    "same SVM without a reduction."
)


def report_classifiers(report: Report, results: Results) -> None:
    """Write the table."""
    report.text("## A classifier on every real set", ABOUT)
    report.table(HEADER, lines(results))
