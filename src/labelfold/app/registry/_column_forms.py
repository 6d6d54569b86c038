"""The form of the columns that methods get: given by the user, or chosen from the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import TransformerMixin
from sklearn.preprocessing import StandardScaler

from labelfold.app.registry._column_kind import AS_IS, FORMS, RANKS, TF_IDF, UNIT_VARIANCE, column_kind
from labelfold.features import Ranks, TfIdf


def column_form(scale: bool | str) -> str:
    """Return the name of a form: "unit variance" for True, "as they are" for False.

    >>> column_form(True), column_form("as they are")
    ('unit variance', 'as they are')
    """
    if isinstance(scale, str):
        if scale not in FORMS:
            raise ValueError(
                f"scale={scale!r} was given, where 'auto', True or False is expected, or one of {', '.join(FORMS)}."
            )
        return scale
    return UNIT_VARIANCE if scale else AS_IS


def make_form(form: str, *, sparse: bool, nonnegative: bool) -> TransformerMixin | None:
    """Return the transformer that brings columns to a form; None if they stay as they are.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    sparse : bool
        Whether X is sparse. It stays sparse.
    nonnegative : bool
        Whether non-negative columns must stay non-negative: ranks then begin at 0, and unit variance is not centred.
    """
    if form == RANKS and sparse:
        raise ValueError(
            "scale='ranks' was given with a sparse X, where a dense one is expected; pass 'unit variance' or "
            "'tf-idf', which keep it sparse."
        )
    makers: dict[str, Callable[[], Any]] = {
        UNIT_VARIANCE: lambda: StandardScaler(with_mean=not (sparse or nonnegative)),
        RANKS: lambda: Ranks(from_zero=nonnegative),
        TF_IDF: TfIdf,
    }
    return makers[form]() if form in makers else None


def form_of(model: Any) -> str:
    """Return the form to which a model transforms the columns."""
    step = getattr(model, "named_steps", {}).get("scale")
    names = {StandardScaler: UNIT_VARIANCE, Ranks: RANKS, TfIdf: TF_IDF}
    return names.get(type(step), AS_IS)


def chosen_form(
    X: Any, scale: bool | str | None, name_of: Callable[[int], str], *, in_unit: bool = False
) -> tuple[str, str]:
    """Return the form of the columns, and a sentence about it, "" if the user chose it.

    Parameters
    ----------
    X : ndarray or sparse matrix
        The rows.
    scale : bool, str or None
        As in `column_form`; "auto" or None to choose.
    name_of : callable
        Returns the name of a column from its index.
    in_unit : bool, default=False
        Whether a recipe has already scaled the columns. There is then no sentence if they stay as they are.
    """
    if scale is not None and scale != "auto":
        return column_form(scale), ""
    kind = column_kind(X)
    who = "" if kind.column is None else f"{name_of(kind.column)} "
    if kind.form == AS_IS:
        return kind.form, "" if in_unit else f"The columns were left as they are: {kind.reason}."
    return kind.form, (
        f"The columns were brought to {kind.form}: {who}{kind.reason} (--no-scale, in Python scale=False, leaves "
        "them as they are)."
    )
