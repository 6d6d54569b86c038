"""Weights of classes: from what the user gives to the ``class_weight`` of the estimators inside a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from labelfold.labels import Labels


def read_class_weight(given: Any, labels: Labels) -> Any:
    """Return None, "balanced" or the weight of each class code or label column.

    Parameters
    ----------
    given : None, "balanced" or dict
        A dict has classes, or classes as text, as keys, and weights above 0. Other classes have the weight 1.
    labels : Labels
        The labels.

    Returns
    -------
    class_weight : None, "balanced" or dict of int to float

    Examples
    --------
    >>> from labelfold.labels import read_labels
    >>> read_class_weight({"spam": 5}, read_labels(["ham", "spam"]))
    {0: 1.0, 1: 5.0}
    """
    if given is None:
        return None
    if labels.task == "regression":
        raise ValueError("Weights of classes were given, and the target holds numbers; leave them out.")
    if isinstance(given, str) and given == "balanced":
        return given
    if not isinstance(given, Mapping):
        raise ValueError(f'class_weight is "balanced" or a dict of classes and weights, not {given!r}.')
    known = labels.classes.tolist()
    codes = {str(label): code for code, label in enumerate(known)} | {c: i for i, c in enumerate(known)}
    weights = dict.fromkeys(range(len(known)), 1.0)
    for label, weight in given.items():
        if label not in codes:
            names = ", ".join(map(str, known[:20]))
            raise ValueError(f"There is no class {label!r} to weigh; there are {names}.")
        if not isinstance(weight, int | float | np.number) or not 0 < weight < np.inf:
            raise ValueError(f"The weight of the class {label!r} is a number above 0, not {weight!r}.")
        weights[codes[label]] = float(weight)
    return weights


def weights_sentence(class_weight: Any, classes: list[str]) -> str:
    """Return a sentence about the weights that `read_class_weight` returned; "" without weights.

    >>> weights_sentence({0: 1.0, 1: 5.0}, ["ham", "spam"])
    'Classes have weights: ham 1, spam 5.'
    """
    if class_weight is None:
        return ""
    if isinstance(class_weight, str):
        return "Classes have weights that give all of them the same total (balanced)."
    named = ", ".join(f"{classes[code]} {weight:g}" for code, weight in class_weight.items())
    return f"Classes have weights: {named}."


def _names(model: Any) -> list[str]:
    """Return the names of the parameters ``class_weight`` of a model and its parts."""
    return [name for name in model.get_params() if name.rpartition("__")[2] == "class_weight"]


def takes_class_weight(model: Any) -> bool:
    """Tell whether a model, or a part of it, has a parameter ``class_weight``.

    >>> from sklearn.linear_model import LogisticRegression
    >>> takes_class_weight(LogisticRegression())
    True
    """
    return bool(_names(model))


def set_class_weight(model: Any, class_weight: Any) -> Any:
    """Set ``class_weight`` of a model and of all its parts that have this parameter."""
    return model.set_params(**dict.fromkeys(_names(model), class_weight))


def for_classes(model: Any, classes: Any) -> Any:
    """Return the model, not fitted, for a y of classes, where its weights are those of class codes."""
    return _renamed(model, dict(enumerate(np.asarray(classes).tolist())))


def for_codes(model: Any, labels: Labels) -> Any:
    """Return the model, not fitted, for a y of class codes, where its weights are those of classes."""
    return _renamed(model, {label: code for code, label in enumerate(labels.classes.tolist())})


def without_absent(model: Any, y: Any) -> Any:
    """Return the model, not fitted, without weights of classes that a y lacks: estimators may refuse them.

    A fold of groups may lack a class. A y of several labels a row has a column for each.
    """
    if not _by_class(model) or np.ndim(y) != 1:
        return model
    return _renamed(model, {label: label for label in np.asarray(y, dtype=object).tolist()})


def of_label(model: Any, j: int) -> Any:
    """Return the model, not fitted, of one of several labels: rows with the label have its weight."""
    weights = _by_class(model)
    return model.set_params(**{name: {0: 1.0, 1: one.get(j, 1.0)} for name, one in weights.items()})


def _by_class(model: Any) -> dict[str, dict[Any, float]]:
    """Return those parameters ``class_weight`` that give each class its weight."""
    given = model.get_params()
    return {name: given[name] for name in _names(model) if isinstance(given[name], dict)}


def _renamed(model: Any, names: dict[Any, Any]) -> Any:
    """Replace the keys of weights by their names; keys without a name are left out."""
    new = {
        name: {names[label]: weight for label, weight in one.items() if label in names}
        for name, one in _by_class(model).items()
    }
    return model.set_params(**new)
