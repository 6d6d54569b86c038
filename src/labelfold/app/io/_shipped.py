"""Data sets of scikit-learn as tables, for examples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labelfold.app.io._problems import FileProblem, did_you_mean, pd
from labelfold.app.io._writing import write_table


@dataclass(frozen=True)
class Shipped:
    """A data set: its name, its loader in ``sklearn.datasets``, and a description."""

    name: str
    loader: str
    target: str
    rows: int
    columns: int
    classes: int
    what: str


SHIPPED = {
    entry.name: entry
    for entry in (
        Shipped("digits", "load_digits", "digit", 1797, 64, 10, "handwritten digits, 8 x 8 pixels"),
        Shipped(
            "breast-cancer", "load_breast_cancer", "diagnosis", 569, 30, 2, "cell nuclei of breast masses"
        ),
        Shipped("wine", "load_wine", "cultivar", 178, 13, 3, "chemical analysis of wines"),
        Shipped("iris", "load_iris", "species", 150, 4, 3, "measurements of irises"),
    )
}


def shipped_truth(name: str) -> np.ndarray:
    """Return the labels of a data set, digits as numbers and classes by name."""
    return _load(name)[2]


def write_shipped(name: str, path: str | Path | None, labels: int | None = None, seed: int = 0) -> Path:
    """Write a data set as a table with row names and a target, in which some labels are kept.

    Parameters
    ----------
    name : str
        Name of the data set.
    path : path, optional
        The .csv, .tsv or .parquet file; ``name.csv`` by default.
    labels : int, optional
        Number of labels to keep, at least one of each class; all by default.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    Path
        The file written.
    """
    if name not in SHIPPED:
        raise FileProblem(
            f"There is no data set {name!r}{did_you_mean(name, SHIPPED)}; there are {', '.join(SHIPPED)}."
        )
    X, names, y = _load(name)
    y = y.astype(object)
    if labels is not None:
        classes, n = SHIPPED[name].classes, len(y)
        if not classes <= labels <= n:
            raise FileProblem(
                f"--labels is from {classes}, one a class, to {n}, all there are, not {labels}."
            )
        order = np.random.default_rng(seed).permutation(n)
        # one label of each class first, then others in random order
        first = np.unique(y[order].astype(str), return_index=True)[1]
        kept = np.concatenate([first, np.setdiff1d(np.arange(n), first)])[:labels]
        hidden = np.ones(n, dtype=bool)
        hidden[order[kept]] = False
        y[hidden] = None
    rows = pd.DataFrame({"row": [f"{name}-{i}" for i in range(1, len(y) + 1)]})
    path = Path(f"{name}.csv") if path is None else path
    return write_table(path, X, names, ids=rows, extra={SHIPPED[name].target: y})


def _load(name: str) -> tuple[np.ndarray, list[str], np.ndarray]:
    from sklearn import datasets

    bunch = getattr(datasets, SHIPPED[name].loader)()
    y = bunch.target if name == "digits" else np.asarray(bunch.target_names)[bunch.target]
    return bunch.data, [str(n) for n in bunch.feature_names], y
