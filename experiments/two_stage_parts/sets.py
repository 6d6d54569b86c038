"""The sets and methods of the two-stage paper, its published numbers, and the size of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from common import Data, dense_classes, dense_labels, load, rng_of, sparse_text
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

# Table 2, one column for each of RIDGES.
PUBLISHED = {
    ("Syn1", "LDA"): (2.9e-18, 3.6e-18, 3.4e-18, 3.1e-18, 2.6e-18, 2.5e-18, 3.1e-19, 3.0e-21),
    ("Syn2", "LDA"): (5.8e-19, 1.4e-18, 1.2e-18, 8.9e-19, 1.2e-18, 9.9e-19, 2.3e-19, 2.9e-21),
    ("Syn3", "CCA"): (4.9e-18, 8.4e-18, 7.0e-18, 6.5e-18, 9.5e-18, 6.0e-18, 5.1e-19, 7.2e-21),
    ("Syn3", "OPLS"): (4.6e-18, 5.0e-18, 8.7e-18, 5.0e-18, 6.6e-18, 6.1e-18, 5.4e-19, 5.0e-21),
    ("Syn3", "HSL-Clique"): (1.0e-17, 1.8e-17, 1.2e-17, 1.2e-17, 1.5e-17, 1.4e-17, 2.9e-18, 2.5e-20),
    ("Syn3", "HSL-Star"): (1.4e-17, 2.4e-17, 9.3e-18, 2.6e-17, 2.1e-17, 5.0e-17, 9.8e-19, 1.3e-20),
    ("Syn4", "CCA"): (1.3e-18, 5.2e-18, 3.2e-18, 1.8e-18, 1.3e-18, 1.8e-18, 4.2e-19, 5.9e-21),
    ("Syn4", "OPLS"): (1.0e-18, 1.1e-18, 1.3e-18, 1.5e-18, 1.3e-18, 1.3e-18, 2.9e-19, 5.9e-21),
    ("Syn4", "HSL-Clique"): (2.7e-18, 2.9e-18, 2.7e-18, 5.0e-18, 3.2e-18, 2.7e-18, 8.9e-19, 1.4e-20),
    ("Syn4", "HSL-Star"): (2.5e-18, 3.7e-18, 2.9e-18, 5.7e-18, 4.1e-18, 2.9e-18, 1.1e-18, 3.1e-20),
    ("Scene", "CCA"): (2.4e-15, 2.1e-15, 6.1e-15, 3.7e-15, 1.2e-15, 1.8e-16, 6.0e-18, 9.0e-20),
    ("Scene", "OPLS"): (2.0e-15, 3.4e-15, 3.8e-15, 2.5e-15, 1.1e-15, 2.3e-16, 1.1e-17, 1.4e-19),
    ("Scene", "HSL-Clique"): (4.5e-15, 9.1e-15, 2.6e-14, 1.2e-14, 3.6e-15, 1.3e-15, 5.9e-17, 1.0e-18),
    ("Scene", "HSL-Star"): (4.6e-15, 3.3e-14, 2.1e-14, 7.7e-15, 1.1e-14, 2.5e-16, 1.0e-16, 6.5e-19),
    ("Yeast", "CCA"): (1.6e-12, 1.5e-11, 1.2e-12, 1.4e-15, 6.9e-16, 5.9e-17, 1.7e-18, 1.4e-20),
    ("Yeast", "OPLS"): (4.1e-12, 1.6e-11, 3.7e-12, 1.2e-14, 1.5e-15, 3.7e-16, 3.2e-18, 2.9e-20),
    ("Yeast", "HSL-Clique"): (1.5e-12, 1.4e-11, 3.7e-12, 3.9e-15, 1.6e-15, 2.7e-16, 5.1e-18, 2.5e-20),
    ("Yeast", "HSL-Star"): (2.1e-12, 1.0e-11, 2.4e-12, 1.1e-14, 9.4e-15, 1.1e-15, 1.5e-17, 4.4e-19),
    ("Wine", "LDA"): (5.9e-17, 2.1e-16, 2.3e-16, 2.1e-16, 3.2e-17, 2.2e-18, 1.3e-20, 2.0e-20),
    ("Satimage", "LDA"): (4.6e-16, 2.2e-15, 8.4e-16, 7.3e-16, 7.7e-16, 8.1e-17, 3.9e-17, 6.2e-19),
    ("Ionosphere", "LDA"): (8.5e-18, 1.0e-17, 4.3e-18, 2.1e-17, 6.8e-18, 6.6e-18, 6.6e-20, 1.1e-21),
    ("Optical digits", "LDA"): (6.2e-18, 7.2e-18, 6.7e-18, 5.7e-18, 1.9e-18, 1.5e-19, 5.9e-20, 5.6e-21),
    ("USPS", "LDA"): (7.0e-15, 3.0e-14, 2.6e-14, 6.6e-15, 1.1e-16, 3.0e-18, 4.1e-19, 6.6e-21),
}


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
    splits : dict
        Random halves of Yeast and Wine.
    fixed : dict
        For each figure, the size that is fixed.
    sizes : dict
        The values of the other size: the paper's, for Figures 4 and 5 about every second one.
    beyond : dict
        Larger values; the direct approach runs only up to d = 5000.
    rounds : int
        Number of repetitions, in turn, of which the best time counts.
    """

    ridges: tuple[float, ...] = RIDGES
    most: tuple[int, int] = (10**6, 10**6)
    wide_ridges: tuple[float, ...] = (0.0, 1.0)
    splits: tuple[tuple[str, int], ...] = (("Yeast", 5), ("Wine", 20))
    rounds: int = 3
    fixed: tuple[tuple[str, int], ...] = (("3 left", 5000), ("3 right", 5000), ("4", 5000), ("5", 3000))
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("3 left", (500, 1000, 1500, 2000, 2500, 3000)),
        ("3 right", (500, 1000, 1500, 2000, 2500, 3000)),
        ("4", (500, 1000, 2000, 3000)),
        ("5", (500, 1000, 2000, 3500, 5000)),
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
        if plan is QUICK:
            n, d, c = 400, 600, 8
        data = load(file, lambda rng: sparse_text(rng, n, d, c, min(80, d // 10), labels=name == "rcv1v2"))
    else:
        make = dense_labels if name in LABEL_SETS else dense_classes
        data = load(file, lambda rng: make(rng, min(n, rows), min(d, columns), c))
        if data.X.shape[0] > rows or data.X.shape[1] > columns:
            some = np.sort(rng_of(name).permutation(data.X.shape[0])[:rows])
            data = data._replace(X=data.X[some, :columns], y=data.y[some])
    return data._replace(name=name)
