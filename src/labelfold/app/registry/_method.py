"""A method of the registry: its description, which data it suits, and how its estimator is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from labelfold.app.registry._adapters import OnLabelledRows, Shape, set_task
from labelfold.app.registry._class_weights import set_class_weight, takes_class_weight
from labelfold.app.registry._column_forms import AS_IS, TF_IDF, column_form, make_form
from labelfold.app.registry._tuned import Tuned
from labelfold.labels import Labels
from labelfold.rows import stored_values

# How a penalty is chosen, in the words of the summaries.
TUNED = "chosen by cross-validation on the labelled rows from multiples of their spread"
HIDDEN = "chosen by cross-validation with labels hidden in turn"


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
        values, shape = stored_values(X), Shape.of(X)
        return cls(
            shape.n_rows,
            shape.n_columns,
            labels.n_labelled,
            labels.n_classes,
            sparse=shape.sparse,
            nonnegative=values.size == 0 or bool(values.min() >= 0),
            multilabel=labels.task == "multilabel",
            whole=_whole(values),
            numbers=labels.task == "regression",
        )

    @property
    def n_directions(self) -> int:
        """The number of discriminant directions: classes less one, or label columns, or 1 in regression."""
        if self.numbers:
            return 1
        return self.n_classes if self.multilabel else self.n_classes - 1

    @property
    def task(self) -> str:
        """The ``task`` that methods are made for: "classification" or "regression"."""
        return "regression" if self.numbers else "classification"


def _whole(values: np.ndarray, at_once: int = 4096) -> bool:
    """Tell whether all values are whole numbers, without copying all of them."""
    parts = (values[i : i + at_once] for i in range(0, len(values), at_once))
    return all(bool(np.all(part == np.floor(part))) for part in parts)


@dataclass(frozen=True)
class Method:
    """A method that the command line and `compare` can use.

    Attributes
    ----------
    name : str
        Its name on the command line.
    title : str
        Its name in reports.
    gloss : str
        What it does, in a few words.
    summary : str
        What it does, and how its penalty is chosen.
    paper : str
        Its reference.
    build : callable
        ``build(k, shape, random_state)`` returns the estimator, not fitted, for rows of a `Shape`. A fourth parameter
        is a penalty, which is tuned unless it is given.
    use : str
        What it is used for: the heading under which it is listed.
    rank : int, default=9
        Methods run in the order of their ranks, and of equally good ones that of lowest rank is recommended. So
        simple methods have low ranks. Methods of the same rank follow each other as they are written down.
    labels : {"semi-supervised", "supervised"}, default="semi-supervised"
        Whether it learns from all rows, or from the labelled rows only.
    embeds : bool, default=True
        Whether it has ``transform``.
    compared : bool, default=True
        Whether `compare` runs it by default. False if it is very slow, or nearly the same as another method.
    suits : callable, optional
        ``suits(facts)`` returns the reason why the method does not suit some data, or None. `why_not` reads from the
        estimator's tags whether it takes negative numbers, sparse X, multi-label y and regression.
    directions : {"", "default", "limit"}, default=""
        Whether the number of discriminant directions is its default number of components, or also the largest one.
    needs : str, optional
        An optional package that it imports.
    nonnegative : bool, default=False
        Whether X must be non-negative. Its columns are then scaled without centring.
    own_forms : bool, default=False
        Whether it transforms the columns itself. It is then given them as they are.
    counts : bool, default=False
        Whether it is made for counts. It is then given counts as they are, in place of tf-idf.
    slow : bool, default=False
        Whether `compare` runs it after the other methods, because a fit takes many times as long.
    """

    name: str
    title: str
    gloss: str
    summary: str
    paper: str
    build: Callable[..., Any]
    use: str = ""
    rank: int = 9
    labels: str = "semi-supervised"
    embeds: bool = True
    compared: bool = True
    suits: Callable[[Facts], str | None] | None = None
    directions: str = ""
    needs: str | None = None
    nonnegative: bool = False
    own_forms: bool = False
    counts: bool = False
    slow: bool = False

    @property
    def available(self) -> bool:
        """Whether the optional package that it imports, if any, is installed."""
        return self.needs is None or find_spec(self.needs) is not None

    @property
    def penalty(self) -> str | None:
        """The name of the penalty that is tuned unless it is given."""
        return next(iter(list(signature(self.build).parameters)[3:]), None)

    @property
    def installation(self) -> str:
        """The command that installs the optional package."""
        return f"pip install {'umap-learn' if self.needs == 'umap' else self.needs}"

    def make(
        self,
        n_components: int | None = None,
        *,
        X: Any,
        random_state: int | None = 0,
        scale: bool | str = False,
        task: str = "classification",
        class_weight: Any = None,
        **penalty: float,
    ) -> Any:
        """Return the estimator, not fitted. Its ``fit(X, y)`` takes a y with unlabelled rows.

        Parameters
        ----------
        n_components : int, optional
            Number of components, limited to what X allows.
        X : array or sparse matrix of shape (n, d), or Shape
            The rows to fit on. Only the shape is read, and whether X is sparse.
        random_state : int, optional
            Seed.
        scale : bool or str, default=False
            The form of the columns: "as they are" (False), "unit variance" (True), "ranks" or "tf-idf". Columns are
            centred only if X is dense and the method takes negative numbers.
        task : {"classification", "regression"}, default="classification"
            Classification includes multi-label y. `why_not` says which methods take which task.
        class_weight : None, "balanced" or dict of int to float, default=None
            The weights of class codes, for all parts that have this parameter; see `read_class_weight`.
        **penalty : float
            A fixed penalty, by the name of its parameter, in place of tuning: ``ridge=0.1``.

        Returns
        -------
        estimator
            A classifier or a regressor, with ``transform`` if the method embeds.
        """
        unknown = [p for p in penalty if p != self.penalty]
        if unknown:
            raise ValueError(f"The method {self.name!r} has no parameter {unknown[0]!r}.")
        shape = X if isinstance(X, Shape) else Shape.of(X)
        model = self.build(n_components, shape, random_state, **penalty)
        if task == "regression":
            model = set_task(model, task)
        if class_weight is not None:
            model = set_class_weight(model, class_weight)
        form = make_form(self.form(scale), sparse=shape.sparse, nonnegative=self.nonnegative)
        return model if form is None else Pipeline([("scale", form), ("model", model)])

    def form(self, scale: bool | str) -> str:
        """Return the form of the columns that the method gets for a value of ``scale``.

        >>> from labelfold.app.registry import METHODS
        >>> METHODS["naive-bayes"].form("tf-idf"), METHODS["svm"].form("tf-idf")
        ('as they are', 'tf-idf')
        """
        form = column_form(scale)
        return AS_IS if self.own_forms or (self.counts and form == TF_IDF) else form

    def why_not(self, facts: Facts) -> str | None:
        """Return why the method does not suit the data; None if it does.

        The tags of the estimator state which data it takes, so an entry of the registry does not repeat that.

        >>> from labelfold.app.registry import METHODS
        >>> METHODS["nmf-svm"].why_not(Facts(100, 9, 20, 3, nonnegative=False))
        'it takes no negative numbers, and X has some'
        """
        reason = None if self.suits is None else self.suits(facts)
        if reason:
            return reason
        parts = self._parts(Shape(facts.n_rows, facts.n_columns, facts.sparse), facts.task)
        if reason := _other_task(parts, facts.task):
            return reason
        if not facts.nonnegative and any(get_tags(part).input_tags.positive_only for part in parts):
            return "it takes no negative numbers, and X has some"
        if facts.sparse and not all(get_tags(part).input_tags.sparse for part in parts):
            return "it would need the sparse X as a dense array"
        learning = (part for part in parts if get_tags(part).target_tags.required)
        if facts.multilabel and not all(map(_takes_multilabel, learning)):
            return "it takes one class a row, and y has several labels a row"
        return None

    def why_not_weighted(self) -> str | None:
        """Return why the method does not take weights of classes; None if it does.

        >>> from labelfold.app.registry import METHODS
        >>> METHODS["sklearn-lda"].why_not_weighted()
        'it takes no weights of classes'
        """
        model = self.make(2, X=Shape(9, 3, sparse=False))
        return None if takes_class_weight(model) else "it takes no weights of classes"

    def refuse_weighted(self) -> None:
        """Raise an error if the method does not take weights of classes."""
        if reason := self.why_not_weighted():
            raise ValueError(
                f"The method {self.name!r} does not suit: {reason}; choose another, or leave them out."
            )

    def why_not_task(self, task: str) -> str | None:
        """Return why the method does not take a task; None if it does.

        >>> from labelfold.app.registry import METHODS
        >>> METHODS["lda"].why_not_task("regression")
        'it takes classes, and y holds numbers'
        """
        return _other_task(self._parts(Shape(9, 3, sparse=False), task), task)

    def refuse_task(self, task: str, listed: int = 9) -> None:
        """Raise an error if the method does not take a task; the error names some methods that do."""
        from labelfold.app.registry._methods import ranked_methods

        reason = self.why_not_task(task)
        if reason:
            others = [
                other.name
                for other in ranked_methods()
                if other.available and other.compared and other.why_not_task(task) is None
            ]
            raise ValueError(
                f"The method {self.name!r} does not suit: {reason}; choose among {', '.join(others[:listed])}."
            )

    def _parts(self, shape: Shape, task: str) -> list[Any]:
        """Return the estimators inside the estimator; none if it cannot be made, which its run will report."""
        try:
            return _parts(self.make(2, X=shape, task=task))
        except Exception:
            return []


def method(name: str, title: str, **facts: Any) -> Callable[[Callable[..., Any]], Method]:
    """Return a decorator that makes a `Method` of the function that builds its estimator."""
    return lambda build: Method(name, title, build=build, **facts)


def _other_task(parts: list[Any], task: str) -> str | None:
    """Return why the parts that learn from y do not take the task; None if they do."""
    kinds = {get_tags(part).estimator_type for part in parts if get_tags(part).target_tags.required}
    if task == "regression":
        return None if kinds == {"regressor"} or not parts else "it takes classes, and y holds numbers"
    return "it takes numbers, and y holds classes" if "regressor" in kinds else None


def _parts(model: Any) -> list[Any]:
    """Return the estimators inside pipelines and adapters, in order; the last one predicts."""
    if isinstance(model, Pipeline):
        return [part for _, step in model.steps for part in _parts(step)]
    if isinstance(model, Tuned):
        return _parts(model.estimator)
    if isinstance(model, OnLabelledRows) and model.classifier is not None:
        reducer = getattr(model, "reducer", None)
        return [*([] if reducer is None else _parts(reducer)), *_parts(model.classifier)]
    return [model]


def _takes_multilabel(estimator: Any) -> bool:
    tags = get_tags(estimator).classifier_tags
    # estimators that also do regression have no classifier tags
    return "multilabel" in getattr(estimator, "_allowed", ()) or (tags is not None and tags.multi_label)


def at_most(rows: int, columns: int, what: str) -> Callable[[Facts], str | None]:
    """Return a ``Method.suits`` that limits the size of X; ``what`` says why there is a limit."""

    def suits(facts: Facts) -> str | None:
        if facts.n_rows > rows:
            return f"{what}: too slow for more than {rows:,} rows"
        return f"{what}: too large for more than {columns:,} columns" if facts.n_columns > columns else None

    return suits
