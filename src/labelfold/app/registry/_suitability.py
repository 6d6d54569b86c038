"""Which methods suit some data: its signs, sparsity, size and kind of labels, and a reason for each that does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from labelfold.app.registry._partly_labelled import Labelled
from labelfold.app.registry._tuned import Tuned

if TYPE_CHECKING:
    from labelfold.app.registry._method import Method
    from labelfold.labels import Labels

_MOST_NAMED = 9  # methods, in a sentence
_SLAB = 4096  # rows of X, or values of a sparse one


@dataclass(frozen=True)
class Facts:
    """The facts of the data that decide which methods suit it.

    Attributes
    ----------
    n_rows, n_columns, n_labelled, n_classes : int
        Sizes; label columns count as classes.
    sparse, nonnegative, multilabel, numbers : bool
        Of X and of y; scaling does not centre what a method needs non-negative.
    whole : bool
        Whether X holds whole numbers only, as counts are.
    """

    n_rows: int
    n_columns: int
    n_labelled: int
    n_classes: int
    sparse: bool = False
    nonnegative: bool = True
    multilabel: bool = False
    whole: bool = True
    numbers: bool = False

    @classmethod
    def of(cls, X: Any, labels: Labels) -> Facts:
        """Look at the data."""
        sparse = sp.issparse(X)
        values = X.data if sparse else X
        positive = values.size == 0 or bool(values.min() >= 0)
        return cls(
            X.shape[0], X.shape[1], labels.n_labelled, labels.n_classes, sparse,
            positive, labels.task == "multilabel", _whole(values), labels.task == "regression",
        )  # fmt: skip

    @property
    def most_directions(self) -> int:
        """How many directions can tell the classes apart by their means: one fewer than classes; one for a number."""
        if self.numbers:
            return 1
        return self.n_classes if self.multilabel else self.n_classes - 1

    @property
    def task(self) -> str:
        """What methods are told: "classification" or "regression"."""
        return "regression" if self.numbers else "classification"


def _whole(values: np.ndarray) -> bool:
    """Tell whether all values are whole numbers, without a copy of them."""
    parts = (values[i : i + _SLAB] for i in range(0, len(values), _SLAB))
    return all(bool(np.all(part == np.floor(part))) for part in parts)


def why_not(method: Method, facts: Facts) -> str | None:
    """Return why a method does not suit the data, or None where it does.

    What a method takes is read from its estimator's tags, so that an entry of the registry need not repeat it.

    >>> from labelfold.app.registry._methods import METHODS
    >>> why_not(METHODS["nmf-svm"], Facts(100, 9, 20, 3, nonnegative=False))
    'it takes no negative numbers, and X has some'
    """
    reason = None if method.suits is None else method.suits(facts)
    if reason:
        return reason
    shape = (facts.n_rows, facts.n_columns)
    # only its shape and kind are looked at
    stand_in = sp.csr_array(shape) if facts.sparse else np.broadcast_to(np.float64(0), shape)
    try:
        parts = _parts(method.make(2, X=stand_in, task=facts.task))
    except Exception:  # any other error is reported by its runs, and does not affect other methods
        return None
    if reason := _other_task(parts, facts.task):
        return reason
    if not facts.nonnegative and any(get_tags(part).input_tags.positive_only for part in parts):
        return "it takes no negative numbers, and X has some"
    if facts.sparse and not all(get_tags(part).input_tags.sparse for part in parts):
        return "it would need the sparse X as a dense array"
    if facts.multilabel and not all(_takes_several(p) for p in parts if get_tags(p).target_tags.required):
        return "it takes one class a row, and y has several labels a row"
    return None


def refuse_other_task(method: Method, task: str) -> None:
    """Refuse a method that was asked for by name and does not take what y holds, with those that do."""
    from labelfold.app.registry._methods import available_methods

    reason = takes(method, task)
    if reason:
        others = [m.name for m in available_methods() if m.compared and takes(m, task) is None]
        raise ValueError(
            f"The method {method.name!r} does not suit: {reason}; choose among {', '.join(others[:_MOST_NAMED])}."
        )


def takes(method: Method, task: str) -> str | None:
    """Return why a method does not take classes, or numbers; None where it does.

    >>> from labelfold.app.registry._methods import METHODS
    >>> takes(METHODS["lda"], "regression")
    'it takes classes, and y holds numbers'
    """
    try:
        return _other_task(_parts(method.make(2, X=np.zeros((9, 3)), task=task)), task)
    except Exception:  # as above
        return None


def _other_task(parts: list[Any], task: str) -> str | None:
    """Return what parts that learn from y take, where that is not what y holds."""
    kinds = {get_tags(part).estimator_type for part in parts if get_tags(part).target_tags.required}
    if task == "regression":
        return None if kinds == {"regressor"} else "it takes classes, and y holds numbers"
    return "it takes numbers, and y holds classes" if "regressor" in kinds else None


def _parts(model: Any) -> list[Any]:
    """Return the estimators inside pipelines and adapters, the one that predicts last."""
    if isinstance(model, Pipeline):
        return [part for _, step in model.steps for part in _parts(step)]
    if isinstance(model, Tuned):
        return _parts(model.estimator)
    if isinstance(model, Labelled) and model.classifier is not None:
        reducer = getattr(model, "reducer", None)
        return [*([] if reducer is None else _parts(reducer)), *_parts(model.classifier)]
    return [model]


def _takes_several(estimator: Any) -> bool:
    tags = get_tags(estimator).classifier_tags
    # estimators that also do regression are no classifiers to scikit-learn
    return "multilabel" in getattr(estimator, "_allowed", ()) or (tags is not None and tags.multi_label)
