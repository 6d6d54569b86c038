"""The sets and methods of the two-stage paper, its published numbers, and the size of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from data_sets import Data, dense_classes, dense_labels, load, rng_of, sparse_text
from labelfold import CCA, HSL, LDA, OPLS

BOUND = 1e-8  # of ||WW' - W0W0'||_2 relative to ||W0W0'||_2
RIDGES = (0.0, 1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6)
TECHNIQUES: dict[str, Callable[..., Any]] = {
    "LDA": LDA,
    "CCA": CCA,
    "OPLS": OPLS,
    "HSL-Clique": partial(HSL, expansion="clique"),
    "HSL-Star": partial(HSL, expansion="star"),
    "HSL-Zhou": partial(HSL, expansion="zhou"),
}
MULTILABEL = tuple(name for name in TECHNIQUES if name != "LDA")

# For each set of the paper: its file, rows, columns, and classes or labels.
CLASS_SETS = {
    "Wine": ("wine", 178, 13, 3),
    "Satimage": ("satimage", 6435, 36, 6),
    "Ionosphere": ("ionosphere", 351, 34, 2),
    "Optical digits": ("optdigits", 5620, 64, 10),
    "USPS": ("usps", 9298, 256, 10),
}
LABEL_SETS = {"Scene": ("scene", 2407, 294, 6), "Yeast": ("yeast", 2417, 103, 14)}
SYNTHETIC = {"Syn1": (1000, 100), "Syn2": (1000, 5000), "Syn3": (1000, 100), "Syn4": (1000, 5000)}
TEXT_SETS = {"news20": ("news20_libsvm", 15935, 62061, 20), "rcv1v2": ("rcv1v2_subset1", 6000, 47236, 101)}
TABLE_ORDER = (*SYNTHETIC, *LABEL_SETS, *CLASS_SETS)


@dataclass(frozen=True)
class Plan:
    """The size of a run.

    Attributes
    ----------
    ridges : tuple of float
        Values of the regularisation.
    most : tuple of int
        Most rows and columns of each set of Table 2.
    wide_ridges : tuple of float
        Ridges for which ``solver="direct"`` also runs if d is 5000 (half a minute each).
    splits : tuple
        Random halves of Yeast and Wine.
    classifier_splits : int
        Random halves of every real set.
    fixed : dict
        For each figure, the size that is fixed.
    sizes : dict
        The values of the other size: the paper's.
    beyond : dict
        Larger values; the direct approach runs only up to d = 5000.
    rounds : int
        Number of repetitions at the paper's sizes, the solvers in turn; one row for each.
    """

    ridges: tuple[float, ...] = RIDGES
    most: tuple[int, int] = (10**6, 10**6)
    wide_ridges: tuple[float, ...] = (0.0, 1.0)
    splits: tuple[tuple[str, int], ...] = (("Yeast", 5), ("Wine", 20))
    classifier_splits: int = 5
    rounds: int = 2
    fixed: tuple[tuple[str, int], ...] = (("3 left", 5000), ("3 right", 5000), ("4", 5000), ("5", 3000))
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("3 left", (500, 1000, 1500, 2000, 2500, 3000)),
        ("3 right", (500, 1000, 1500, 2000, 2500, 3000)),
        ("4", tuple(range(500, 3001, 500))),
        ("5", tuple(range(500, 5001, 500))),
    )
    beyond: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("3 left", (6000, 12000)),
        ("3 right", (10000, 30000, 62061)),
        ("4", (6000,)),
        ("5", (10000, 20000, 47236)),
    )


QUICK = Plan(
    ridges=(0.0, 1.0),
    most=(200, 60),
    splits=(("Yeast", 1), ("Wine", 2)),
    classifier_splits=1,
    rounds=1,
    fixed=tuple((figure, 120) for figure in ("3 left", "3 right", "4", "5")),
    sizes=tuple((figure, (80, 160)) for figure in ("3 left", "3 right", "4", "5")),
    beyond=tuple((figure, ()) for figure in ("3 left", "3 right", "4", "5")),
)


def read(name: str, plan: Plan) -> Data:
    """Return a set by its name in the paper, or some of its rows and columns if the plan is smaller."""
    rows, columns = plan.most
    if name in SYNTHETIC:
        n, d = min(SYNTHETIC[name][0], rows), min(SYNTHETIC[name][1], columns)
        rng = rng_of(name)
        y = rng.integers(0, 5, n) if name in ("Syn1", "Syn2") else rng.integers(0, 2, (n, 5))
        return Data(name, rng.standard_normal((n, d)), y, "generated")
    file, n, d, c = (CLASS_SETS | LABEL_SETS | TEXT_SETS)[name]
    if name in TEXT_SETS:
        if plan == QUICK:
            n, d, c = 400, 600, 8
        data = load(file, lambda rng: sparse_text(rng, n, d, c, min(80, d // 10), labels=name == "rcv1v2"))
    else:
        make = dense_labels if name in LABEL_SETS else dense_classes
        data = load(file, lambda rng: make(rng, min(n, rows), min(d, columns), c))
        if data.X.shape[0] > rows or data.X.shape[1] > columns:
            some = np.sort(rng_of(name).permutation(data.X.shape[0])[:rows])
            data = data._replace(X=data.X[some, :columns], y=data.y[some])
    return data._replace(name=name)
