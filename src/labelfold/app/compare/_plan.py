"""The plan of a comparison: methods, numbers of components, and budgets of the learning curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from labelfold.app.compare._data import Data
from labelfold.app.registry import METHODS, Method, get_method, install, refuse_other_task, why_not
from labelfold.model_selection import LabelBudgetSplit
from labelfold.tables import pixel_columns

_MOST_COMPONENTS = 50
# With more labelled rows LabelFold takes long, so quick methods run first and give a first answer.
_MANY_LABELLED = 1000


@dataclass(frozen=True)
class Run:
    """A method with a number of components k; None if it does not embed."""

    method: Method
    k: int | None

    @property
    def label(self) -> str:
        """Its name in reports."""
        return self.method.title if self.k is None else f"{self.method.title}, {self.k}"

    def make(self, X: Any, seed: int, scale: bool | str, task: str) -> Any:
        """Return the estimator, not fitted."""
        return self.method.make(self.k, X=X, random_state=seed, scale=scale, task=task)


@dataclass(frozen=True)
class Plan:
    """The runs of each split, the budgets of the curve, the sizes asked for, and methods left out with reasons."""

    runs: list[Run]
    budgets: list[int]
    sizes: list[int]
    left_out: dict[str, str]


def make_plan(
    data: Data,
    methods: Sequence[str | Method] | None,
    budgets: int | Sequence[int] | None,
    components: int | Sequence[int] | None,
    test_size: float,
) -> Plan:
    """Return the plan of a comparison, and check the parameters."""
    if not 0 < test_size < 1:
        raise ValueError(
            f"test_size is the share of labelled rows held out, between 0 and 1, not {test_size}."
        )
    chosen, left_out = _methods(data, methods)
    budgets = [] if budgets is None else _whole("budgets", budgets)
    if budgets:  # raises an error now if there are too few labels for them
        splitter = LabelBudgetSplit(budgets, n_repeats=1, test_size=test_size, task=data.facts.task)
        next(splitter.split(None, data.y))
    sizes = None if components is None else checked_sizes(components, data)
    runs = []
    for method in chosen:
        most = data.X.shape[1] if method.most is None else max(method.most(data.facts), 1)
        ks: list[int | None] = [None]
        if method.embeds:
            ks = sorted({min(k, most) for k in sizes or [_default_size(method, data)]})
        runs += [Run(method, k) for k in ks]
    late = data.labels.n_labelled > _MANY_LABELLED
    runs.sort(key=lambda run: run.method.slow or (late and run.method.own_forms))
    return Plan(runs, budgets, sizes or [], left_out)


def _methods(data: Data, methods: Sequence[str | Method] | None) -> tuple[list[Method], dict[str, str]]:
    """Return the methods to run, and the titles of the others with reasons."""
    if methods is not None:
        methods = [methods] if isinstance(methods, str | Method) else methods
        chosen = [m if isinstance(m, Method) else get_method(m) for m in methods]
        if not chosen:
            raise ValueError("There is no method to compare; name at least one.")
        for method in chosen:
            refuse_other_task(method, data.facts.task)
        return list({m.name: m for m in chosen}.values()), {}
    chosen, left_out = [], {}
    reason: str | None
    for method in METHODS.values():
        if not method.available:
            reason = f"it is not installed ({install(method)})"
        elif not method.compared:
            reason = "it is run only where asked for by name"
        else:
            reason = why_not(method, data.facts)
        if reason:
            left_out[method.title] = reason
        else:
            chosen.append(method)
    if not chosen:
        reasons = "; ".join(f"{title}: {reason}" for title, reason in left_out.items())
        raise ValueError(f"No method suits these data. {reasons}.")
    return chosen, left_out


def _default_size(method: Method, data: Data) -> int:
    """Return the default number of components.

    It is the number of discriminant directions, or more for unsupervised components. In regression LabelFold has two,
    for a map.
    """
    n, d = data.X.shape
    natural = data.facts.most_directions
    if method.most is not None:
        return natural
    if method.by_labels:
        return min(2, d) if data.facts.numbers else natural
    return max(min(max(2 * natural, 20), d - 1, n, _MOST_COMPONENTS), 1)


def checked_sizes(components: int | Sequence[int], data: Data) -> list[int]:
    """Return the given numbers of components, after a check."""
    d = data.X.shape[1]
    sizes = _whole("components", components)
    if not sizes or sizes[0] < 1:
        raise ValueError(f"components are sizes of the embedding, at least 1, not {components}.")
    if sizes[-1] > d:
        raise ValueError(f"An embedding of {sizes[-1]} components is larger than X, which has {d} columns.")
    return sizes


def _whole(name: str, values: Any) -> list[int]:
    """Return whole numbers sorted, without duplicates."""
    try:
        numbers = [int(v) for v in np.atleast_1d(values)]
        if any(number != v for number, v in zip(numbers, np.atleast_1d(values), strict=True)):
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(f"{name} are whole numbers, such as [10, 50], not {values!r}.") from None
    return sorted(set(numbers))


def image_sides(
    d: int, names: Sequence[str] | None, image_shape: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Return the shape of images with d columns: the given one or that of the column names; None if not images."""
    if image_shape is not None:
        shape = tuple(int(side) for side in image_shape)
        if prod(shape) != d or len(shape) not in (2, 3) or shape[2:] not in ((), (3,)):
            said = " x ".join(map(str, shape))
            raise ValueError(f"Images of {said} have {prod(shape)} pixels, and X has {d} columns.")
        return shape
    pixels, found = pixel_columns(names or ())
    return found if len(pixels) == d else None
