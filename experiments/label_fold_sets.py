"""The sets of `label_fold.py`: at most 3,000 rows of each, and the labelled rows of a draw."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from data_sets import complete, load, rng_of

MOST = 3000
BOOK = ("Digit1", "USPS", "COIL", "BCI", "g241c", "g241d", "Text")
NINE = ("g241c", "g241d", "BCI", "USPS", "waveform", "optdigits", "usps", "mnist49", "Text")
OPEN = (*NINE, "wine", "satimage", "ionosphere", "sonar", "pima", "image", "autos", "medicine", "atheism")
SEVERAL = ("scene", "yeast")
# The file of each set, and the classes of it that are in use.
SETS: dict[str, tuple[str, tuple[int, ...] | None]] = {
    **{name: (f"ssl_{name}", None) for name in BOOK},
    **{
        name: (name, None)
        for name in ("optdigits", "usps", "wine", "satimage", "ionosphere", "sonar", "pima")
    },
    "waveform": ("ida_waveform", None),
    "mnist49": ("mnist", (4, 9)),
    "image": ("ida_image", None),
    "autos": ("news20_bydate_counts", (7, 8)),
    "medicine": ("news20_bydate_counts", (13, 14)),
    "atheism": ("news20_bydate_counts", (0, 15)),
    "wisconsin": ("breast_cancer_wisconsin_original", None),
    "ljubljana": ("breast_cancer_ljubljana", None),
    "adult": ("a9a", None),
    **{name: (name, None) for name in ("spect", *SEVERAL)},
}
ASIDE = ("wisconsin", "ljubljana", "spect", "adult")
COUNTS = ("autos", "medicine", "atheism")


class Set:
    """A data set of at most 3,000 rows, with the book's splits if it has any."""

    def __init__(self, name: str, quick: bool) -> None:
        file, kept = SETS[name]
        self.name = name
        data = load(file, rows=MOST if kept is None else 5 * MOST)
        X, y = complete(data.X, data.y)
        if kept is not None:
            X, y = X[np.isin(y, kept)], y[np.isin(y, kept)]
        if name in COUNTS:
            X = X[:, np.asarray((X > 0).sum(axis=0)).ravel() >= 2]
        self.source = data.source
        most = 200 if quick else MOST
        self.splits = _splits(file) if X.shape[0] <= most else {}
        if X.shape[0] > most:
            drawn = rng_of(name, "rows").permutation(X.shape[0])[:most]
            X, y = X[drawn], y[drawn]
        self.X, self.y = X, y if y.ndim == 2 else np.unique(y, return_inverse=True)[1]

    def draw(self, n_labelled: int, seed: int) -> np.ndarray:
        """Return the indices of labelled rows: the book's split, if any, else one of each class and others."""
        if n_labelled in self.splits:
            return self.splits[n_labelled][seed]
        rng = rng_of(self.name, n_labelled, seed)
        order = rng.permutation(len(self.y))
        if self.y.ndim == 2:
            return order[:n_labelled]
        first = np.unique(self.y[order], return_index=True)[1]
        rest = np.setdiff1d(np.arange(len(order)), first)
        return order[np.concatenate([first, rest])[:n_labelled]]


def _splits(file: str) -> dict[int, np.ndarray]:
    """Return the book's labelled rows, one row for each split, by their number."""
    path = Path(os.environ.get("LABELFOLD_DATA", "")) / f"{file}.npz"
    if not file.startswith("ssl_") or not path.is_file():
        return {}
    with np.load(path) as data:
        return {size: np.asarray(data[f"idxLabs_{size}"], dtype=int) for size in (10, 100)}


@lru_cache(maxsize=1)
def the_set(name: str, quick: bool) -> Set:
    """Return a data set; the last one is cached."""
    return Set(name, quick)
