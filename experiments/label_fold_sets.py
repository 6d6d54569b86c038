"""The sets of `label_fold.py`: at most 3,000 rows of each, and the labelled rows of a draw."""

from __future__ import annotations

import os
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from scipy import sparse

from data_sets import dense_classes, dense_labels, load, rng_of, sparse_text

MOST = 3000
BOOK = ("Digit1", "USPS", "COIL", "BCI", "g241c", "g241d", "Text")
NINE = ("g241c", "g241d", "BCI", "USPS", "waveform", "optdigits", "usps", "mnist49", "Text")
OPEN = (*NINE, "wine", "satimage", "ionosphere", "sonar", "pima", "image", "autos", "medicine", "atheism")
SEVERAL = ("scene", "yeast")
# File; rows, columns and classes if it is generated; and the classes in use.
SETS: dict[str, tuple[str, int, int, int, tuple[int, ...] | None]] = {
    **{name: (f"ssl_{name}", 1500, 241, 2, None) for name in ("Digit1", "USPS", "g241c", "g241d")},
    "COIL": ("ssl_COIL", 1500, 241, 6, None),
    "BCI": ("ssl_BCI", 400, 117, 2, None),
    "Text": ("ssl_Text", 1500, 11_960, 2, None),
    "waveform": ("ida_waveform", 3000, 21, 2, None),
    "optdigits": ("optdigits", 3000, 64, 10, None),
    "usps": ("usps", 3000, 256, 10, None),
    "mnist49": ("mnist", 3000, 784, 2, (4, 9)),
    "wine": ("wine", 178, 13, 3, None),
    "satimage": ("satimage", 3000, 36, 6, None),
    "ionosphere": ("ionosphere", 351, 34, 2, None),
    "sonar": ("sonar", 208, 60, 2, None),
    "pima": ("pima", 768, 8, 2, None),
    "image": ("ida_image", 2310, 18, 2, None),
    "autos": ("news20_bydate_counts", 1986, 20_000, 2, (7, 8)),
    "medicine": ("news20_bydate_counts", 1977, 20_000, 2, (13, 14)),
    "atheism": ("news20_bydate_counts", 1796, 20_000, 2, (0, 15)),
    "wisconsin": ("breast_cancer_wisconsin_original", 683, 9, 2, None),
    "ljubljana": ("breast_cancer_ljubljana", 277, 9, 2, None),
    "spect": ("spect", 267, 22, 2, None),
    "adult": ("a9a", 3000, 123, 2, None),
    "scene": ("scene", 2407, 294, 6, None),
    "yeast": ("yeast", 2417, 103, 14, None),
}
ASIDE = ("wisconsin", "ljubljana", "spect", "adult")
COUNTS = ("autos", "medicine", "atheism")


class Set:
    """A data set of at most 3,000 rows, with the book's splits if it has any."""

    def __init__(self, name: str, quick: bool) -> None:
        file, n, d, c, kept = SETS[name]
        self.name = name
        data = load(file, partial(_generate, name, n, d, c))
        X, y, self.source = data.X, data.y, data.source
        if kept is not None and self.source == "real":
            X, y = X[np.isin(y, kept)], y[np.isin(y, kept)]
        if not sparse.issparse(X) and np.isnan(X).any():
            complete = ~np.isnan(X).any(axis=1)
            X, y = X[complete], y[complete]
        if name in COUNTS and self.source == "real":
            X = X[:, np.asarray((X > 0).sum(axis=0)).ravel() >= 2]
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


def _generate(
    name: str, n: int, d: int, c: int, rng: np.random.Generator
) -> tuple[np.ndarray | sparse.csr_array, np.ndarray]:
    if name in SEVERAL:
        return dense_labels(rng, n, d, c)
    return sparse_text(rng, n, d, c, 60) if d > 2000 else dense_classes(rng, n, d, c)


@lru_cache(maxsize=1)
def the_set(name: str, quick: bool) -> Set:
    """Return a data set; the last one is cached."""
    return Set(name, quick)
