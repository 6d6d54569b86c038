"""Which methods suit some data, with a reason for each that does not."""

from __future__ import annotations

from collections.abc import Callable
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

_MOST_NAMED = 9  # methods named in an error
_MOST_LABELLED = 10_000  # labelled rows of kernel SVMs
_SLAB = 4096  # rows of a dense X, or stored values of a sparse one, checked at a time


@dataclass(frozen=True)
class Facts:
    """The properties of X and y that decide which methods suit.

    Attributes
    ----------
    n_rows, n_columns, n_labelled, n_classes : int
        Sizes. For a multi-label y ``n_classes`` is the number of label columns.
    sparse, nonnegative : bool
        Properties of X.
    multilabel, numbers : bool
        Properties of y; ``numbers`` means regression.
    whole : bool
        Whether X holds whole numbers only, as counts do.
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
        """Return the facts about some data."""
        sparse = sp.issparse(X)
        values = X.data if sparse else X
        positive = values.size == 0 or bool(values.min() >= 0)
        return cls(
            X.shape[0], X.shape[1], labels.n_labelled, labels.n_classes, sparse,
            positive, labels.task == "multilabel", _whole(values), labels.task == "regression",
        )  # fmt: skip

    @property
    def most_directions(self) -> int:
        """The number of discriminant directions: classes less one, or label columns, or 1 in regression."""
        if self.numbers:
            return 1
        return self.n_classes if self.multilabel else self.n_classes - 1

    @property
    def task(self) -> str:
        """The ``task`` that methods are made for: "classification" or "regression"."""
        return "regression" if self.numbers else "classification"


def _whole(values: np.ndarray) -> bool:
    """Tell whether all values are whole numbers, without copying them at once."""
    parts = (values[i : i + _SLAB] for i in range(0, len(values), _SLAB))
    return all(bool(np.all(part == np.floor(part))) for part in parts)


def why_not(method: Method, facts: Facts) -> str | None:
    """Return why a method does not suit the data; None if it does.

    The tags of the estimator state which data it takes, so an entry of the registry does not repeat that.

    >>> from labelfold.app.registry._methods import METHODS
    >>> why_not(METHODS["nmf-svm"], Facts(100, 9, 20, 3, nonnegative=False))
    'it takes no negative numbers, and X has some'
    """
    reason = None if method.suits is None else method.suits(facts)
    if reason:
        return reason
    shape = (facts.n_rows, facts.n_columns)
    # builders read only the shape, and whether X is sparse
    stand_in = sp.csr_array(shape) if facts.sparse else np.broadcast_to(np.float64(0), shape)
    try:
        parts = _parts(method.make(2, X=stand_in, task=facts.task))
    except Exception:  # the run of this method reports the error
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
    """Raise an error if a method does not take the task; the error names methods that do."""
    from labelfold.app.registry._methods import available_methods

    reason = takes(method, task)
    if reason:
        others = [m.name for m in available_methods() if m.compared and takes(m, task) is None]
        raise ValueError(
            f"The method {method.name!r} does not suit: {reason}; choose among {', '.join(others[:_MOST_NAMED])}."
        )


def takes(method: Method, task: str) -> str | None:
    """Return why a method does not take a task; None if it does.

    >>> from labelfold.app.registry._methods import METHODS
    >>> takes(METHODS["lda"], "regression")
    'it takes classes, and y holds numbers'
    """
    try:
        return _other_task(_parts(method.make(2, X=np.zeros((9, 3)), task=task)), task)
    except Exception:  # the run of this method reports the error
        return None


def _other_task(parts: list[Any], task: str) -> str | None:
    """Return why the parts that learn from y do not take the task; None if they do."""
    kinds = {get_tags(part).estimator_type for part in parts if get_tags(part).target_tags.required}
    if task == "regression":
        return None if kinds == {"regressor"} else "it takes classes, and y holds numbers"
    return "it takes numbers, and y holds classes" if "regressor" in kinds else None


def _parts(model: Any) -> list[Any]:
    """Return the estimators inside pipelines and adapters, in order; the last one predicts."""
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
    # estimators that also do regression have no classifier tags
    return "multilabel" in getattr(estimator, "_allowed", ()) or (tags is not None and tags.multi_label)


def most_directions(facts: Facts) -> int:
    """Return the largest number of components of a discriminant method, for ``Method.most``."""
    return facts.most_directions


def needs_label_columns(facts: Facts) -> str | None:
    """Return why a method for multi-label y does not suit, for ``Method.suits``."""
    if facts.numbers:
        return "with one number a row it gives what OPLS gives"
    return None if facts.multilabel else "with one class a row it gives what LDA gives"


def needs_counts(facts: Facts) -> str | None:
    """Return why a method for counts does not suit, for ``Method.suits``."""
    return None if facts.whole else "it takes counts, and X has numbers that are not whole"


def few_labelled(facts: Facts) -> str | None:
    """Return why a kernel SVM does not suit, for ``Method.suits``."""
    too_many = facts.n_labelled > _MOST_LABELLED
    return f"too slow for more than {_MOST_LABELLED:,} labelled rows" if too_many else None


def at_most(rows: int, columns: int, what: str) -> Callable[[Facts], str | None]:
    """Return a ``Method.suits`` that limits the size of X; ``what`` says why there is a limit."""

    def suits(facts: Facts) -> str | None:
        if facts.n_rows > rows:
            return f"{what}: too slow for more than {rows:,} rows"
        return f"{what}: too large for more than {columns:,} columns" if facts.n_columns > columns else None

    return suits
