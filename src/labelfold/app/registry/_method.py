"""What an entry of the registry is: a method with all that the command line and `compare` need to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from labelfold.app.registry._column_forms import column_form, make_form
from labelfold.app.registry._multilabel import for_task
from labelfold.features._column_kind import AS_IS, TF_IDF

if TYPE_CHECKING:
    from labelfold.app.registry._suitability import Facts

# How penalties are chosen, for summaries.
TUNED = "chosen by cross-validation on the labelled rows from multiples of their spread"
HIDDEN = "chosen by cross-validation with labels hidden in turn"


@dataclass(frozen=True)
class Method:
    """A method that the command line and `compare` can use.

    Attributes
    ----------
    name : str
        What it is called on the command line.
    title : str
        What it is called in print.
    summary : str
        What it does, and how its penalty is chosen, in a sentence or two.
    labels : {"supervised", "semi-supervised"}
        Whether it learns from the labelled rows only, or from all rows.
    embeds : bool
        Whether it gives an embedding.
    paper : str
        Where it comes from.
    build : callable
        ``build(k, X, random_state)`` gives the estimator.
    penalty : str, optional
        The name of the parameter that is tuned unless given.
    compared : bool, default=True
        Whether `compare` tries it unless told which; not where a fit takes many times as long, or another method is
        much the same.
    suits : callable, optional
        ``suits(facts)`` gives the reason why it does not suit some data, or None; `_suitability` already
        asks the estimator about signs, sparsity, several labels a row and numbers.
    most : callable, optional
        ``most(facts)`` gives the largest embedding it can give.
    needs : str, optional
        A package it needs that labelfold does not.
    nonnegative : bool, default=False
        Whether X must not be negative: scaling then leaves its columns where they are.
    own_forms : bool, default=False
        Whether it makes forms of the columns itself, and so is given them as they are.
    counts : bool, default=False
        Whether it is made for counts, and so is given them as they are.
    by_labels : bool, default=False
        Whether its components are by default those that tell the labels apart, and no more.
    slow : bool, default=False
        Whether a fit takes many times as long as most: `compare` runs it after the others.
    """

    name: str
    title: str
    summary: str
    labels: str
    embeds: bool
    paper: str
    build: Callable[..., Any]
    penalty: str | None = None
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
        """Whether the package that it needs, if any, is installed."""
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
        """Make the estimator, to be fitted on X and a y in which unlabelled rows are marked.

        Parameters
        ----------
        n_components : int, optional
            Size of the embedding, no more than X allows.
        X : array or sparse matrix of shape (n, d)
            What it will be fitted on; only its shape and kind are looked at.
        random_state : int, optional
            Seed.
        scale : bool or str, default=False
            Which form of the columns the method is given: "as they are", "unit variance", "ranks" or "tf-idf".
            True is unit variance, False as they are. Unit variance is centred, and ranks are around 0, where X is
            dense and the method takes negative numbers. A method made for counts takes them as they are in place of
            tf-idf.
        task : {"classification", "regression"}, default="classification"
            Whether y holds classes, one or several a row, or numbers; `why_not` says which methods take which.
        **penalty : float
            The method's own penalty by its name, in place of tuning: ``ridge=0.1``.

        Returns
        -------
        estimator
            A classifier or a regressor, with ``transform`` where the method embeds.
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
        """Return the form of the columns that the method is given where ``scale`` is asked for.

        >>> from labelfold.app.registry import METHODS
        >>> METHODS["naive-bayes"].form("tf-idf"), METHODS["svm"].form("tf-idf")
        ('as they are', 'tf-idf')
        """
        form = column_form(scale)
        return AS_IS if self.own_forms or (self.counts and form == TF_IDF) else form


def at_most(rows: int, columns: int, what: str) -> Callable[[Facts], str | None]:
    """Return a `suits` that refuses more rows or columns than this."""

    def suits(facts: Facts) -> str | None:
        if facts.n_rows > rows:
            return f"{what}: too slow for more than {rows:,} rows"
        return f"{what}: too large for more than {columns:,} columns" if facts.n_columns > columns else None

    return suits
