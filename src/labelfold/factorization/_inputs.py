"""Checks of the data of factorisations, and the weights of classes in their losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.labels import Labels
from labelfold.numerics import check_norm, count_negative, refuse_negative
from labelfold.rows import Block, Rows


def check_matrix(rows: Rows, *, nonnegative: bool | str, centred: bool = False, estimator: str) -> float:
    """Check that X can be factorised, and return its squared norm, in one pass.

    Parameters
    ----------
    rows : Rows
        The data.
    nonnegative : bool or "always"
        Whether negative entries are refused: because of an option, or "always".
    centred : bool
        Whether the mean is subtracted from the rows.
    estimator : str
        Name of the estimator, for messages.

    Returns
    -------
    square : float
    """
    if nonnegative and centred:
        raise ValueError(
            "nonnegative=True and center=True were given, but a centred X has negative entries; choose one"
        )
    if nonnegative:
        square, n_negative = rows.sum(_square_and_negative)
        refuse_negative(rows, n_negative, by_choice=nonnegative != "always", estimator=estimator)
    else:
        square = rows.sum(_square)
    if square <= 0:  # for centred sparse rows it is a difference, which may be slightly negative
        raise ValueError(
            f"X holds nothing but zeros{' once it is centred' if centred else ''}, so there is nothing to factorise; "
            "give it columns that vary"
        )
    check_norm(square, rows.dtype)
    return square


def loss_weights(labels: Labels, class_weight: Any) -> np.ndarray:
    """Return the weights of the losses, (l, r): one for each row, or for multi-label one for each row and label.

    Examples
    --------
    >>> from labelfold.labels import read_labels
    >>> loss_weights(read_labels(["a", "b", "b", None]), {"a": 3.0}).ravel()
    array([3., 1., 1.])
    """
    multilabel = labels.task == "multilabel"
    shape = (labels.n_labelled, 1 if labels.task == "binary" else labels.n_classes)
    if class_weight is None:
        return np.ones(shape)
    counts = labels.counts()
    if multilabel and isinstance(class_weight, str):
        alike = np.where(labels.values > 0, counts, labels.n_labelled - counts)
        return labels.n_labelled / (2 * alike)
    if isinstance(class_weight, str):
        weights = labels.n_labelled / (labels.n_classes * counts)
    else:
        known = labels.classes.tolist()
        strange = [label for label in class_weight if label not in known]
        if strange or not all(weight > 0 for weight in class_weight.values()):
            raise ValueError(
                f"class_weight={class_weight} was given, where positive weights of the classes {known} are expected"
            )
        weights = np.array([float(class_weight.get(label, 1.0)) for label in known])
    if multilabel:
        return np.where(labels.values > 0, weights, 1.0)
    return np.broadcast_to(weights[labels.values][:, None], shape).copy()


def _square(X: Block) -> Any:
    return X.xp.sum(X.double().sq())


def _square_and_negative(X: Block) -> tuple[Any, Any]:
    return _square(X), count_negative(X)
