"""The default of DRSVM's ``svm_penalty``, for each loss, chosen on sets that are in no table of its paper.

The default is a multiple of the mean squared norm of the initial embedding. The multiple is chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import sparse

from common import Report
from data_sets import accuracy, dense_classes, load, masked, rng_of, several_classes
from labelfold.factorization._drsvm import DRSVM
from result_rows import Results, grouped, mean_and_error, parameter, row_key, values, words

PART = "Penalty"
SETS = (
    "usps",
    "optdigits",
    "satimage",
    "mnist",
    "ssl_Digit1",
    "ssl_USPS",
    "ssl_COIL",
    "ssl_Text",
    "ssl_g241c",
    "ssl_BCI",
    "ionosphere",
    "sonar",
    "ida_image",
    "ida_waveform",
    "pima",
)
LOSSES = ("hinge", "squared_hinge")
MULTIPLES = (1.0, 0.3, 0.1, 0.03, 0.01)
K = 10


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    sets: tuple[str, ...] = SETS
    counts: tuple[int, ...] = (20, 100)
    draws: int = 5
    most_rows: int = 1000


QUICK = Plan(sets=("optdigits", "sonar"), counts=(20,), draws=1, most_rows=120)


def penalties(results: Results, plan: Plan) -> None:
    """Write the accuracy (%) on unlabelled rows by set, labels, draw, loss and multiple."""
    for name in plan.sets:
        data = load(name, lambda rng: dense_classes(rng, 600, 20, 3))
        kept = np.sort(rng_of("rows", name).permutation(data.X.shape[0])[: plan.most_rows])
        X, y = data.X[kept], np.unique(data.y[kept], return_inverse=True)[1]
        n = len(y)
        sizes = sparse.linalg.svds(sparse.csr_array(X), min(K, X.shape[1] - 1), return_singular_vectors=False)
        length = float(sizes.sum()) / n
        for count, seed in product(plan.counts, range(plan.draws)):
            few = masked(y, several_classes(rng_of("penalty", name, count, seed), y, count))
            for loss, multiple in product(LOSSES, MULTIPLES):
                key = row_key(PART, data, loss, seed, labels=count, multiple=multiple)
                if not results.has(**key):
                    model = DRSVM(len(sizes), loss=loss, svm_penalty=multiple * length).fit(X, few)
                    results.add(**key, ours=accuracy(y, model.transduction_, few < 0))


def report_penalties(page: Report, results: Results) -> None:
    """Write the means over sets."""
    rows = results.select(part=PART)
    if not rows:
        return
    counts = sorted({int(parameter(row, "labels")) for row in rows})
    multiples = sorted({float(parameter(row, "multiple")) for row in rows}, reverse=True)
    names = sorted({row["dataset"] for row in rows})
    draws = len({row["seed"] for row in rows})
    page.text(
        "## The default penalty of the SVM",
        f"{len(names)} sets that are in none of the tables ({', '.join(names)}), at most 1,000 rows, {draws} draws. "
        "Accuracy (%) on the unlabelled rows, the mean over draws and sets, by the multiple of the mean squared norm "
        "of the initial embedding; in brackets the gain over a multiple of 1 with its standard error over sets. "
        "With the plain hinge a labelled row pulls with at most 1 / svm_penalty, so that a large penalty cannot fit "
        "few labels; the squared hinge has no such limit. What was looked at before: gisette, where the plain hinge "
        "with 20 labels was 11 points behind SVD+SVM.",
    )
    scores = {
        key: values(own).mean() for key, own in grouped(rows, "method", "parameters", "dataset").items()
    }
    lines = []
    for loss, count in product(LOSSES, counts):
        settings = [words(labels=count, multiple=multiple) for multiple in multiples]
        means = [np.array([scores[loss, setting, name] for name in names]) for setting in settings]
        lines.append([f"{loss}, {count} labels", *(_gain(mean, means[0]) for mean in means)])
    page.table(["loss, labels; multiple", *(f"{multiple:g}" for multiple in multiples)], lines)


def _gain(mean: np.ndarray, beside: np.ndarray) -> str:
    gaps = mean - beside
    if not gaps.any():
        return f"{mean.mean():.1f}"
    return f"{mean.mean():.1f} ({mean_and_error(gaps, 1)})"
