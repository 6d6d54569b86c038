"""Rows of many kinds, some of them labelled, for PCALS and its kernel form."""

import numpy as np

from labelfold.labels import read_labels
from labelfold.subspace._pcals import responses

TASKS = ("binary", "multiclass", "multilabel", "regression")


def rows(kind, n=150, d=20, seed=0):
    """Rows of many kinds."""
    rng = np.random.default_rng(seed)
    if kind == "many scales":
        return rng.standard_normal((n, d)) * np.exp(rng.standard_normal(d)) + 3
    if kind == "low rank":
        return rng.standard_normal((n, 4)) @ rng.standard_normal((4, d)) + 0.01 * rng.standard_normal((n, d))
    if kind == "exact rank":
        return rng.standard_normal((n, 6)) @ rng.standard_normal((6, d))
    if kind == "one-hot":
        return np.hstack([np.eye(5)[rng.integers(0, 5, n)] for _ in range(d // 5)])
    if kind == "counts":
        return rng.poisson(np.exp(rng.standard_normal(d)), (n, d)).astype(float)
    return rng.standard_normal((n, d)) / np.arange(1, d + 1)  # "decay"


KINDS = ("many scales", "low rank", "exact rank", "one-hot", "counts", "decay")


def labels_of(X, task, n_labelled, seed=0):
    """Labels of some rows, that a direction tells in part; the rest is NaN."""
    rng = np.random.default_rng(seed + 100)
    index = np.sort(rng.permutation(len(X))[:n_labelled])
    F = (X - X.mean(axis=0)) @ rng.standard_normal((X.shape[1], 3))
    F = F / F.std(axis=0) + rng.standard_normal(F.shape)
    if task == "multilabel":
        y = np.full((len(X), 3), np.nan)
        y[index] = F[index] > 0
    elif task == "regression":
        y = np.full(len(X), np.nan)
        y[index] = F[index, 0] + 0.5
    else:
        y = np.full(len(X), np.nan)
        y[index] = F[index, 0] > 0 if task == "binary" else F[index].argmax(axis=1)
    return y, index


def problem(task="binary", kind="many scales", n=150, d=20, n_labelled=30, seed=0):
    X = rows(kind, n, d, seed)
    return X, *labels_of(X, task, n_labelled, seed)


def centred_responses(y):
    labels = read_labels(y, allowed=TASKS)
    Y = responses(labels)
    return Y - Y.mean(axis=0)
