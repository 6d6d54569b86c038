"""The properties of a method in the registry, and how its estimator is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from labelfold.app.registry._columns import AS_IS, TF_IDF, column_form, make_form
from labelfold.app.registry._multilabel import for_task
from labelfold.model_selection import Groups

if TYPE_CHECKING:
    from labelfold.app.registry._suitability import Facts

# How a penalty is chosen, in the words of the summaries.
TUNED = "chosen by cross-validation on the labelled rows from multiples of their spread"
HIDDEN = "chosen by cross-validation with labels hidden in turn"


@dataclass(frozen=True)
class Method:
    """A method that the command line and `compare` can use.

    Attributes
    ----------
    name : str
        Its name on the command line.
    title : str
        Its name in reports.
    summary : str
        What it does, and how its penalty is chosen.
    paper : str
        Its reference.
    build : callable
        ``build(k, X, random_state)`` returns the estimator, not fitted.
    penalty : str, optional
        The parameter that is tuned unless the caller sets it.
    labels : {"semi-supervised", "supervised"}, default="semi-supervised"
        Whether it learns from all rows, or from the labelled rows only.
    embeds : bool, default=True
        Whether it has ``transform``.
    compared : bool, default=True
        Whether `compare` runs it by default. False if it is very slow, or nearly the same as another method.
    suits : callable, optional
        ``suits(facts)`` returns the reason why the method does not suit some data, or None. `_suitability` reads
        from the estimator's tags whether it takes negative numbers, sparse X, multi-label y and regression.
    most : callable, optional
        ``most(facts)`` returns the largest number of components.
    needs : str, optional
        An optional package that it imports.
    nonnegative : bool, default=False
        Whether X must be non-negative. Its columns are then scaled without centring.
    own_forms : bool, default=False
        Whether it transforms the columns itself. It is then given them as they are.
    counts : bool, default=False
        Whether it is made for counts. It is then given counts as they are, in place of tf-idf.
    by_labels : bool, default=False
        Whether its default number of components is the number of discriminant directions.
    slow : bool, default=False
        Whether `compare` runs it after the other methods, because a fit takes many times as long.
    """

    name: str
    title: str
    summary: str
    paper: str
    build: Callable[..., Any]
    penalty: str | None = None
    labels: str = "semi-supervised"
    embeds: bool = True
    compared: bool = True
    suits: Callable[[Facts], str | None] | None = None
    most: Callable[[Facts], int] | None = None
    needs: str | None = None
    nonnegative: bool = False
    own_forms: bool = False
    counts: bool = False
    by_labels: bool = False
    slow: bool = False

    @property
    def available(self) -> bool:
        """Whether the optional package that it imports, if any, is installed."""
        return self.needs is None or find_spec(self.needs) is not None

    def make(
        self,
        n_components: int | None = None,
        *,
        X: Any,
        random_state: int | None = 0,
        scale: bool | str = False,
        task: str = "classification",
        **penalty: float,
    ) -> Any:
        """Return the estimator, not fitted. Its ``fit(X, y)`` takes a y with unlabelled rows.

        Parameters
        ----------
        n_components : int, optional
            Number of components, limited to what X allows.
        X : array or sparse matrix of shape (n, d)
            The rows to fit on. Only the shape is read, and whether X is sparse.
        random_state : int, optional
            Seed.
        scale : bool or str, default=False
            The form of the columns: "as they are" (False), "unit variance" (True), "ranks" or "tf-idf". Columns are
            centred only if X is dense and the method takes negative numbers.
        task : {"classification", "regression"}, default="classification"
            Classification includes multi-label y. `why_not` says which methods take which task.
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
        model = self.build(n_components, X, random_state, **penalty)
        if task == "regression":
            model = for_task(model, task)
        form = make_form(self.form(scale), sparse=sp.issparse(X), nonnegative=self.nonnegative)
        return model if form is None else Pipeline([("scale", form), ("model", model)])

    def form(self, scale: bool | str) -> str:
        """Return the form of the columns that the method gets for a value of ``scale``.

        >>> from labelfold.app.registry import METHODS
        >>> METHODS["naive-bayes"].form("tf-idf"), METHODS["svm"].form("tf-idf")
        ('as they are', 'tf-idf')
        """
        form = column_form(scale)
        return AS_IS if self.own_forms or (self.counts and form == TF_IDF) else form


def fit_grouped(model: Any, X: Any, y: Any, groups: Groups | None) -> Any:
    """Fit a model, and tell it the groups of the rows if it, or the last step of a pipeline, has a use for them.

    >>> from sklearn.linear_model import Ridge
    >>> fit_grouped(Ridge(), [[0.0], [1.0]], [0.0, 1.0], Groups.single(2)).n_features_in_
    1
    """
    last = model[-1] if isinstance(model, Pipeline) else model
    if groups is None or "groups" not in signature(last.fit).parameters:
        return model.fit(X, y)
    step = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    return model.fit(X, y, **{f"{step}groups": groups.codes})
