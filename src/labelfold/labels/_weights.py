"""Weights of rows and of classes: reads ``sample_weight`` and ``class_weight``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from labelfold.labels._labels import Labels


def read_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Return the weights of the rows, (n,), or None if each row has the weight 1.

    >>> read_weights([0, 2], 2)
    array([0., 2.])
    >>> read_weights([1, 1], 2) is None
    True
    """
    if sample_weight is None:
        return None
    try:
        given = sample_weight.cpu() if hasattr(sample_weight, "cpu") else sample_weight
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        weights = np.empty((0, 0))
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        what = f"an array of shape {weights.shape}" if weights.size else f"a {type(sample_weight).__name__}"
        raise ValueError(
            f"sample_weight is {what} and X has {n_rows} rows; pass one number a row, with sample_weight.shape == "
            f"({n_rows},)"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        bad = weights[~(np.isfinite(weights) & (weights >= 0))][0]
        raise ValueError(
            f"sample_weight holds {bad:g}, where numbers from 0 on are expected; give a row the weight 0 to leave it "
            "out"
        )
    if not weights.any():
        raise ValueError("sample_weight is zero in every row, so no row is left; give some rows a weight")
    return None if (weights == 1).all() else weights


def class_weighted(labels: Labels, class_weight: Any) -> Labels:
    """Return the labels with the weight of each row multiplied by that of its class, or by those of all its labels.

    >>> from labelfold.labels import read_labels
    >>> class_weighted(read_labels(["a", "b", "b", None]), "balanced").weights
    array([1.5 , 0.75, 0.75])
    """
    if class_weight is None:
        return labels
    return replace(labels, weights=labels.row_weights() * _factors(labels, class_weight).prod(axis=1))


def loss_weights(labels: Labels, class_weight: Any) -> np.ndarray:
    """Return the weights of the losses of one classifier for each class, or one for two classes, (l, r).

    Each is the weight of the row times that of its class. With several labels a row, each label has its own weight.

    >>> from labelfold.labels import read_labels
    >>> loss_weights(read_labels(["a", "b", "b", None]), {"a": 3.0}).ravel()
    array([3., 1., 1.])
    """
    factors = 1.0 if class_weight is None else _factors(labels, class_weight)
    shape = (labels.n_labelled, 1 if labels.task == "binary" else labels.n_classes)
    return np.broadcast_to(labels.row_weights()[:, None] * factors, shape).copy()


def _factors(labels: Labels, class_weight: Any) -> np.ndarray:
    """Return the weight of the class of each labelled row, (l, 1), or for several labels those of all labels, (l, c).

    "balanced" gives all classes the same total; of several labels, each label the same total with it and without it.
    """
    if labels.task == "regression":
        raise ValueError(
            f"class_weight={class_weight!r} was given for numbers, which have no classes; use sample_weight"
        )
    several, rows = labels.task == "multilabel", labels.row_weights()
    if isinstance(class_weight, str):
        sums = rows @ labels.indicator()
        if several:
            return labels.total / (2 * np.where(labels.values > 0, sums, labels.total - sums))
        return (labels.total / (labels.n_classes * sums))[labels.values][:, None]
    known = labels.classes.tolist()
    strange = [label for label in class_weight if label not in known]
    if strange or not all(weight > 0 for weight in class_weight.values()):
        raise ValueError(
            f"class_weight={class_weight} was given, where positive weights of the classes {known} are expected"
        )
    weights = np.array([float(class_weight.get(label, 1.0)) for label in known])
    return np.where(labels.values > 0, weights, 1.0) if several else weights[labels.values][:, None]
