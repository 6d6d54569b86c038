"""The sets of the NMF-alpha experiment: reading, splits and scores."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.metrics import f1_score

from data_sets import has_data, rng_of, rows_of, sparse_text
from result_rows import published, words

# Percentage of labelled training rows: few, some, all.
LABELS = {"mnist": (2, 10, 100), "news": (5, 10, 100), "aviation": (5, 10, 100)}
RANKS = {"mnist": (4, 8, 16, 32, 64, 128), "news": (16, 32, 64), "aviation": (8, 16, 32, 64)}
TITLES = {"mnist": "MNIST, 4s against 9s", "news": "20 Newsgroups", "aviation": "Aviation reports"}


def paper(name: str, method: str, percent: int) -> float | None:
    """Return the score in Table 2 of the paper: accuracy (%), for aviation 100 times the mean of both F."""
    found = published("nmf-alpha", "Table 2").get((name, method, words(labels=percent)))
    return None if found is None else found.value


class Task(NamedTuple):
    """A set with its published test rows."""

    name: str
    X: sparse.csr_array  # training and validation rows, float32
    y: np.ndarray
    X_test: sparse.csr_array
    y_test: np.ndarray
    source: str
    form: str = "unit"


class Split(NamedTuple):
    """The training rows, in an order in which the labelled ones come first, and the validation rows."""

    seed: int
    train: np.ndarray
    validation: np.ndarray

    def n_labelled(self, percent: int) -> int:
        """Return the number of labelled rows."""
        return max(1, round(len(self.train) * percent / 100))


@cache
def read(name: str, most_rows: int | None, form: str = "unit") -> Task:
    """Return a set; of each part at most so many rows, and no more than needed where it is generated.

    ``form`` is that of the newsgroups, of which the paper does not say how they were weighed.
    """
    reader = _news_of_libsvm if form == "libsvm" else _READERS[name]
    X, y, train, test, source = reader(None if most_rows is None else 2 * most_rows)
    if name == "news":
        X = FORMS[form](sparse.csr_array(X), train)
    if most_rows is not None:
        train, test = (
            np.sort(rng_of("rows", name, i).permutation(part)[: most_rows // (1 + i)])
            for i, part in enumerate((train, test))
        )
    X = sparse.csr_array(X).astype(np.float32)
    return Task(name, X[train], y[train], X[test], y[test], source, form)


def _npz(name: str) -> Any:
    """Return the file of a real set, or None."""
    path = Path(os.environ.get("LABELFOLD_DATA", "")) / f"{name}.npz"
    return np.load(path) if has_data() and path.is_file() else None


def _made_split(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n)[np.arange(n) % 4 > 0], np.arange(n)[np.arange(n) % 4 == 0]


def _mnist(n: int | None) -> tuple[Any, ...]:
    file = _npz("mnist")
    if file is None:
        rng = rng_of("mnist")
        y = np.arange(n or 13_782) // 4 % 2
        strokes = np.abs(rng.standard_normal((12, 784))) * (rng.random((12, 784)) < 0.05)
        parts = rng.random((len(y), 12)) * (rng.random((len(y), 12)) < 0.4)
        parts[:, 0], parts[:, 1] = parts[:, 0] + 0.5 * y, parts[:, 1] + 0.5 * (1 - y)
        return (parts @ strokes, y, *_made_split(len(y)), "generated")
    X, digit = file["X"], file["y"]
    ours = np.flatnonzero(np.isin(digit, (4, 9)))
    place = np.full(len(digit), -1)
    place[ours] = np.arange(len(ours))
    train, test = (place[file[part]] for part in ("train_index", "test_index"))
    X = X[ours].astype(np.float32) / 255
    return X, (digit[ours] == 9).astype(int), train[train >= 0], test[test >= 0], "real"


def _news(n: int | None) -> tuple[Any, ...]:
    file = _npz("news20_bydate_counts")
    if file is None:
        X, y = sparse_text(rng_of("news"), n or 18_846, 9_000, 20, 80)
        order = rng_of("news order").permutation(len(y))
        return (X[order], y[order], *_made_split(len(y)), "generated")
    X = rows_of(file)
    train, test = file["train_index"], file["test_index"]
    # Words of at least 20 training documents and of at most a tenth of them.
    documents = np.bincount(X[train].indices, minlength=X.shape[1])
    X = X[:, np.flatnonzero((documents >= 20) & (documents <= len(train) / 10))]
    return X, file["y"], train, test, "real"


def _news_of_libsvm(n: int | None) -> tuple[Any, ...]:
    """Return the rows that LIBSVM publishes for training, all words; a random fifth of them serves as test rows."""
    file = _npz("news20_libsvm")
    if file is None:
        return _news(n)
    order = rng_of("libsvm test").permutation(len(file["y"]))
    fifth = len(order) // 5
    return rows_of(file), file["y"] - 1, np.sort(order[fifth:]), np.sort(order[:fifth]), "real"


def _unit(X: sparse.csr_array, train: np.ndarray) -> Any:
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    return X.multiply(1 / np.where(norms > 0, norms, 1)[:, None])


def _weighed(X: sparse.csr_array, train: np.ndarray) -> Any:
    documents = np.bincount(X[train].indices, minlength=X.shape[1])
    return _unit(sparse.csr_array(X.multiply(np.log(len(train) / np.maximum(documents, 1))[None, :])), train)


# Counts of words as rows: of unit length; times the logarithm of the inverse share of documents with the word, and of
# unit length again; and another selection of rows and words, of unit length.
FORMS: dict[str, Callable[[sparse.csr_array, np.ndarray], Any]] = {
    "unit": _unit,
    "tf-idf": _weighed,
    "libsvm": _unit,
}


def _aviation(n: int | None) -> tuple[Any, ...]:
    file = _npz("tmc2007_500")
    if file is None:
        X, Y = sparse_text(rng_of("aviation"), n or 28_596, 500, 22, 23, labels=True)
        order = rng_of("aviation order").permutation(len(Y))
        return (X[order], Y[order], *_made_split(len(Y)), "generated")
    return rows_of(file), file["Y"].astype(int), file["train_index"], file["test_index"], "real"


_READERS: dict[str, Callable[[int | None], tuple[Any, ...]]] = {
    "mnist": _mnist,
    "news": _news,
    "aviation": _aviation,
}


@cache
def split(name: str, most_rows: int | None, seed: int, form: str = "unit") -> Split:
    """Draw a fifth of the rows for validation; the others in an order that begins with two of each class or label."""
    task = read(name, most_rows, form)
    order = rng_of("split", name, seed).permutation(len(task.y))
    fifth = len(order) // 5
    validation, train = order[:fifth], order[fifth:]
    member = task.y[train] > 0 if task.y.ndim == 2 else task.y[train][:, None] == np.unique(task.y)
    first = np.unique(np.concatenate([np.flatnonzero(column)[:2] for column in member.T]))
    return Split(seed, np.concatenate([train[first], np.delete(train, first)]), validation)


def score(truth: np.ndarray, found: np.ndarray) -> float:
    """Return the accuracy (%), or for labels 100 times the mean of macro- and micro-averaged F."""
    if truth.ndim == 1:
        return 100 * float(np.mean(truth == found))
    return 50 * sum(f1_score(truth, found, average=way, zero_division=0) for way in ("macro", "micro"))


def hidden(task: Task, cut: Split, percent: int) -> np.ndarray:
    """Return the labels of the training rows, with missing values for hidden ones."""
    y = task.y[cut.train]
    if percent < 100:
        y = y.astype(float)
        y[cut.n_labelled(percent) :] = np.nan
    return y
