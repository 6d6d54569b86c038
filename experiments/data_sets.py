"""The sets of the experiments: real ones, generated ones of their shapes, and draws of labels."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


class Data(NamedTuple):
    """A data set, and whether it is the real one.

    Attributes
    ----------
    name : str
        Name of the set.
    X : ndarray or csr_array of shape (n, d)
        Rows, float64.
    y : ndarray of shape (n,) or (n, c)
        Classes, or 0/1 label columns.
    source : str
        "real" or "generated".
    """

    name: str
    X: Any
    y: np.ndarray
    source: str


def has_data() -> bool:
    """Tell whether the environment names a folder of real data."""
    return bool(os.environ.get("LABELFOLD_DATA"))


# Rows, columns and classes (or labels) of files: what is generated where a file is not there has these.
SHAPES = {
    "a9a": (48_842, 123, 2),
    "breast_cancer_ljubljana": (277, 9, 2),
    "breast_cancer_wisconsin_original": (683, 9, 2),
    "ida_image": (2310, 18, 2),
    "ida_waveform": (5000, 21, 2),
    "ionosphere": (351, 34, 2),
    "mnist": (70_000, 784, 10),
    "news20_bydate_counts": (18_846, 20_000, 20),
    "news20_libsvm": (15_935, 62_061, 20),
    "optdigits": (5620, 64, 10),
    "pima": (768, 8, 2),
    "rcv1v2_subset1": (6000, 47_236, 101),
    "satimage": (6435, 36, 6),
    "scene": (2407, 294, 6),
    "sonar": (208, 60, 2),
    "spect": (267, 22, 2),
    **{f"ssl_{name}": (1500, 241, 2) for name in ("Digit1", "USPS", "g241c", "g241d")},
    "ssl_BCI": (400, 117, 2),
    "ssl_COIL": (1500, 241, 6),
    "ssl_SecStr": (83_679, 315, 2),
    "ssl_Text": (1500, 11_960, 2),
    "usps": (9298, 256, 10),
    "wine": (178, 13, 3),
    "yeast": (2417, 103, 14),
}
# Words of a row of generated text; all other sets are dense.
LENGTHS = {
    "a9a": 14,
    "news20_bydate_counts": 60,
    "news20_libsvm": 80,
    "rcv1v2_subset1": 80,
    "ssl_SecStr": 15,
    "ssl_Text": 60,
}
SEVERAL = ("rcv1v2_subset1", "scene", "yeast")  # with several labels a row


def stand_in(
    name: str, rng: np.random.Generator, rows: int | None = None, columns: int | None = None
) -> tuple[Any, np.ndarray]:
    """Return generated rows and labels of the shape of a file, at most so many rows and columns."""
    n, d, c = SHAPES[name]
    n, d = min(n, rows or n), min(d, columns or d)
    if name in LENGTHS:
        return sparse_text(rng, n, d, c, min(LENGTHS[name], d // 6), labels=name in SEVERAL)
    return (dense_labels if name in SEVERAL else dense_classes)(rng, n, d, c)


Made = tuple[Any, np.ndarray]


def load(
    name: str,
    generate: Callable[[np.random.Generator], Made] | None = None,
    rows: int | None = None,
    columns: int | None = None,
) -> Data:
    """Return NAME.npz of the folder LABELFOLD_DATA if it exists, else ``generate(rng)``, or `stand_in` without it.

    The file holds X, or X_data, X_indices, X_indptr and X_shape; and y (classes) or Y (label columns).
    """
    path = Path(os.environ.get("LABELFOLD_DATA", "")) / f"{name}.npz"
    if not has_data() or not path.is_file():
        rng = rng_of(name)
        X, y = stand_in(name, rng, rows, columns) if generate is None else generate(rng)
        return Data(name, X, y, "generated")
    with np.load(path) as file:
        return Data(name, rows_of(file), file["y"] if "y" in file else file["Y"], "real")


def rows_of(file: Any) -> Any:
    """Return the rows of a file of `load`."""
    if "X" in file:
        return file["X"].astype(np.float64)
    parts = file["X_data"].astype(np.float64), file["X_indices"], file["X_indptr"]
    return sparse.csr_array(parts, shape=tuple(file["X_shape"]))


def rng_of(*words: Any) -> np.random.Generator:
    """Return a random generator seeded by words, the same in every process."""
    return np.random.default_rng(zlib.crc32(" ".join(map(str, words)).encode()))


def dense_classes(rng: np.random.Generator, n: int, d: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian classes with different means, in correlated columns."""
    y = np.arange(n) % c
    X = 0.5 * rng.standard_normal((c, d))[y] + rng.standard_normal((n, d))
    return X @ (np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)), y


def dense_labels(rng: np.random.Generator, n: int, d: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian rows and label columns, each the sign of a noisy direction; about a quarter of them are 1."""
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, c)) / np.sqrt(d) + 0.5 * rng.standard_normal((n, c))
    return X, (scores > np.quantile(scores, 0.75)).astype(np.uint8)


def sparse_text(
    rng: np.random.Generator, n: int, d: int, c: int, length: int, *, labels: bool = False
) -> tuple[sparse.csr_array, np.ndarray]:
    """Return unit rows of about ``length`` words of Zipf-like frequency, some typical for the topics of a row."""
    frequency = 1 / (np.arange(d) + 20.0)
    lean = np.exp(0.7 * rng.standard_normal((c, d)))
    topic = np.arange(n) % c
    words = np.empty((n, length), dtype=np.int64)
    for j in range(c):
        p = frequency * lean[j]
        words[topic == j] = rng.choice(d, size=(int((topic == j).sum()), length), p=p / p.sum())
    where = np.repeat(np.arange(n), length).astype(np.int32), words.ravel().astype(np.int32)
    X = sparse.csr_array((np.ones(n * length), where), shape=(n, d))
    X.sum_duplicates()
    X.data *= np.log(1 / frequency)[X.indices]
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr))
    if not labels:
        return X, topic
    Y = np.eye(c, dtype=np.uint8)[topic]
    Y[rng.random((n, c)) < 2 / c] = 1
    return X, Y


def reduced(X: Any, y: np.ndarray, most: int | None, *words: Any) -> tuple[Any, np.ndarray]:
    """Return at most so many of the rows, in their order, drawn with a seed of words."""
    if most is None or len(y) <= most:
        return X, y
    kept = np.sort(rng_of(*words).permutation(len(y))[:most])
    return X[kept], y[kept]


def complete(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the rows without missing values."""
    if sparse.issparse(X):
        return X, y
    whole = np.isfinite(X).all(axis=1)
    return X[whole], y[whole]


def masked(y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return y with -1, or rows of NaN where rows have several labels, for all rows but the known ones."""
    few = np.full(len(y), -1) if y.ndim == 1 else np.full(y.shape, np.nan)
    few[known] = y[known]
    return few


def several_classes(rng: np.random.Generator, y: np.ndarray, count: int) -> np.ndarray:
    """Draw ``count`` rows, again and again until they have two classes."""
    while len(np.unique(y[(known := rng.permutation(len(y))[:count])])) < 2:
        pass
    return known


def accuracy(truth: np.ndarray, found: np.ndarray, asked: np.ndarray) -> float:
    """Return how many of the rows asked for are right, in per cent."""
    return 100 * float(np.mean(found[asked] == truth[asked]))
