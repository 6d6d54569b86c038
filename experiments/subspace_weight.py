"""Whether PCA-LS should choose its weight too: on the sets of subspace_choice.py, with the library's rule for p.

The rule is the logarithmic loss in 5-fold cross-validation, folds drawn three times, over 1 to 32 directions. Each
weight alone has a row, and each set of weights of which the one with the least loss is taken together with p.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from common import Report
from result_rows import Results, grouped, mean_and_error, row_key, values, words
from subspace_choice import FIRST_SEED, LOSSES, SETS, Fits, fits, read

PART = "Weight"
WEIGHTS = ("1", "auto", "auto*10", "auto*100")
# Weights to choose from; of equals the first is taken.
CHOICES = (("auto", "1"), ("auto", "auto*10"), ("auto", "auto*100"), ("auto", "auto*10", "auto*100"))


def losses(found: Fits) -> np.ndarray:
    """Return the mean logarithmic loss on held-out labels, (MOST,), with 1, 2 ... directions."""
    return LOSSES["log"](found.held_out * found.y[:, None]).mean(axis=(0, 1))


def chosen(found: dict[str, Fits], weights: tuple[str, ...]) -> tuple[str, int]:
    """Return the weight and the number of directions with the least loss; of equals the first weight and fewest."""
    table = np.array([losses(found[weight]) for weight in weights])
    row, p = np.unravel_index(int(np.argmin(table)), table.shape)
    return weights[int(row)], int(p) + 1


def weigh(results: Results, plan: Any) -> None:
    """Write the accuracy that each weight, and each choice of weights, leads to, by set and draw."""
    for name, (*_, draws) in itertools.islice(SETS.items(), plan.choice_sets):
        data = None
        for seed in range(FIRST_SEED, FIRST_SEED + min(draws, plan.splits)):
            if results.select(part=PART, dataset=name, method="PCA-LS", seed=seed):
                continue
            data = data or read(name)
            row = partial(row_key, PART, data, "PCA-LS", seed)
            found = {weight: fits(data, seed, weight) for weight in WEIGHTS}
            for weights in [*((weight,) for weight in WEIGHTS), *CHOICES]:
                weight, p = chosen(found, weights)
                best = found[weight].accuracy[p - 1]
                results.add(**row(weights=",".join(weights)), ours=best, relative=f"weight={weight} p={p}")
            for weight in WEIGHTS:
                results.add(**row(weights=weight, rule="hindsight"), ours=found[weight].accuracy.max())


def report_weights(page: Report, results: Results) -> None:
    """Write what each choice of weights leads to, beside the weight "auto"."""
    rows = grouped(results.select(part=PART), "parameters")
    if not rows:
        return
    scores = {
        rule: {n: values(own) for n, own in grouped(some, "dataset").items()} for rule, some in rows.items()
    }
    base = scores[words(weights="auto")]
    sets = list(base)
    draws = sorted({len(own) for own in base.values()})
    page.text(
        "### The weight as a candidate too",
        f"The same sets, {' to '.join(map(str, draws))} draws each, the library's rule for p. A row with "
        'several weights takes the one of least loss together with p. *gain*: less the weight "auto" alone, mean '
        "± standard error over the sets. Looked at before: the tables with the library's choice on Breast-cancer, "
        "Image, Waveform, BCI, USPS and Text, of which Waveform was the reason to try this; and, with 26 of the 37 "
        "draws made, the causes below. Nothing was changed for it: no gain is worth a second fit of every fold.",
    )
    lines = []
    for rule, own in scores.items():
        means = np.array([own[name].mean() for name in sets])
        gain = means - np.array([base[name].mean() for name in sets])
        text = f"{means.mean():.2f} ({mean_and_error(gain) or '+0.00 ± 0.00'})"
        bold = rule == words(weights="auto")
        lines.append([rule, f"**{text}**" if bold else text, *(f"{mean:.1f}" for mean in means)])
    page.table(["weights", "accuracy (gain)", *sets], lines)
