"""Tables 1 and 3 once more, as the library chooses: PCALS("cv") as it comes, and the same rule for the kernel form.

The rule (logarithmic loss, all numbers of directions up to 32, folds drawn three times, the weight "auto") was chosen
on other sets, see subspace_choice.py. Of the paper's six widths the kernel form takes the one with the least loss,
which is KernelPCALS("cv", repeats=1) fitted with each width. Its features, and the coordinates of Text, are shared by
the draws.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.model_selection import StratifiedKFold

from data_sets import masked
from labelfold import PCALS
from result_rows import Results, row_key, words
from subspace_choice import AUTO, FOLDS, REPEATS
from subspace_methods import WIDTHS, Rows, Task, pursuits

SUFFIX = ", library's choice"
SIZES = tuple(range(1, 33))
# Sets of the kernel form; on the others the paper's choice is already better than the paper.
KERNEL_SETS = ("Breast-cancer", "Waveform", "Image", "USPS", "BCI", "Text")


def linear(data: Rows, known: np.ndarray, seed: int) -> tuple[np.ndarray, str]:
    """Return the side of every row by PCALS("cv"), and what was chosen; wide rows in their principal coordinates."""
    if data.is_wide:
        return _chosen(data, known, fold_tasks(data, known, seed, REPEATS), {"": data.centred})
    y = masked((data.y > 0).astype(int), known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer directions than 32, where the rows have fewer columns
        model = PCALS("cv").fit(data.X, y)
    about = words(p=model.n_components_, reconstruction=float(model.reconstruction_))
    return model.predict(data.X) > 0, about


def kernel(data: Rows, known: np.ndarray, seed: int) -> tuple[np.ndarray, str]:
    """Return the side of every row by the width and number of directions of least loss, and what these are."""
    spaces = {words(kernel_width=width) + " ": data.features(width) for width in WIDTHS}
    return _chosen(data, known, fold_tasks(data, known, seed, 1), spaces)


def fold_tasks(data: Rows, known: np.ndarray, seed: int, repeats: int) -> list[Task]:
    """Return a task for each fold of the labelled rows, for each draw of the folds."""
    tasks = []
    for repeat in range(repeats):
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=1000 * repeat + seed)
        parts = folds.split(known[:, None], data.y[known])
        tasks += [Task(known[train], known[test]) for train, test in parts]
    return tasks


def _chosen(
    data: Rows, known: np.ndarray, folds: Sequence[Task], spaces: dict[str, np.ndarray]
) -> tuple[np.ndarray, str]:
    """Return the side of every row by the space and number of directions of least loss on the folds, and these.

    Rows have principal coordinates in each space. Pursuits are shared as in the tables.
    """
    lost: dict[tuple[str, int], list[float]] = defaultdict(list)
    weights = {}
    for name, rows in spaces.items():
        weights[name] = AUTO * data.y[known].var() * rows.shape[1] / float(np.einsum("ij,ij->", rows, rows))
        sizes = tuple(p for p in SIZES if p <= rows.shape[1])
        for text, i, values in pursuits(data, folds, rows, weights[name], sizes, is_principal=True):
            margin = values * data.y[folds[i].asked]
            lost[name, int(text.split("=")[1])].extend(np.logaddexp(0.0, -2 * margin))
    name, p = min(lost, key=lambda key: float(np.mean(lost[key])))
    whole = Task(known, np.arange(len(data.y)))
    made = pursuits(data, [whole], spaces[name], weights[name], (p,), is_principal=True)
    return next(made)[2] > 0, name + words(p=p, reconstruction=float(weights[name]))


def library(
    results: Results,
    data: Rows,
    table: str,
    seeds: Sequence[int],
    tasks_of: Callable[[int], Sequence[Task]],
    published: Callable[[str], float | None],
    methods: Sequence[str],
) -> None:
    """Write the rows of one set: of each method and draw the accuracy (%) on the unlabelled rows."""
    for method in ("PCA-LS", "KPCA-LS"):
        if method not in methods or (method == "KPCA-LS" and data.name not in KERNEL_SETS):
            continue
        for seed in seeds:
            if results.select(part=table + SUFFIX, dataset=data.name, method=method, seed=seed):
                continue
            known, asked = tasks_of(seed)[0]
            sides, about = (linear if method == "PCA-LS" else kernel)(data, known, seed)
            value = published(method)
            key = row_key(table + SUFFIX, data, method, seed)
            key["parameters"] = f"{words(labels=len(known))} {about}"
            right = 100 * float(np.mean(sides[asked] == (data.y[asked] > 0)))
            results.add(**key, published="" if value is None else value, ours=right)
