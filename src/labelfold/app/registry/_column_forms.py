"""Chooses the form of the columns of a table (tf-idf, ranks, unit variance, as they are) from their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.preprocessing import StandardScaler

from labelfold.app.registry._adapters import Shape
from labelfold.features import FORMS as COLUMN_FORMS, looks_like_counts

AS_IS, UNIT_VARIANCE, RANKS, TF_IDF = "as they are", "unit variance", "ranks", "tf-idf"
FORMS = (AS_IS, UNIT_VARIANCE, RANKS, TF_IDF)
# The limits below choose between forms. experiments/settings.py compares each method, with its columns in the chosen
# form, with the best of its settings in hindsight, where columns have unit variance or one unit.
# Budget of 160 MB: largest numbers of rows and of values that are examined.
_MAX_ROWS, _MAX_VALUES = 10_000, 20_000_000
# Most of something: the share of a common range that most columns must fill, and the share of equal entries in a
# column that is mostly one value, and in counts.
_MOST = 0.5
# A choice, for spectra and time series: minimum correlation of neighbouring columns, and minimum number of columns.
_SMOOTH, _MIN_SMOOTH = 0.9, 8
# A choice: a column differs in kind if its standard deviation is smaller than the median by this factor.
_NEGLIGIBLE = 100.0
# A choice: columns differ in kind if the standard deviation of one is this many times the median, and few columns, 2
# or this share of all, have most of the variance; or if the ninth decile of the standard deviations is this many
# times the first.
_OUTWEIGHS, _FEW_OF, _SPREAD = 4.0, 0.1, 8.0
# Tails are heavy if half of the columns have at least this excess kurtosis. It is 0 for a normal and 6 for an
# exponential distribution, and much larger for frequencies of words, which are mostly 0. The limit is a choice beyond
# an exponential distribution.
_HEAVY = 10.0


class ColumnKind(NamedTuple):
    """The chosen form, with the reason.

    Attributes
    ----------
    form : str
        One of `FORMS`.
    reason : str
        The reason, as the end of a sentence: "they share one range".
    column : int or None
        The column that the reason is about, if it is about one.
    """

    form: str
    reason: str
    column: int | None = None


_COUNTS = ColumnKind(TF_IDF, "they are counts, most of them 0, as those of words are")


def column_kind(X: Any) -> ColumnKind:
    """Choose a form for the columns of X: tf-idf, ranks, unit variance, or as they are.

    Counts of words become tf-idf. Other columns stay as they are if they have two values only (one-hot columns), if
    most of them fill one range with similar variance (pixels, shares, correlations), or if neighbours are highly
    correlated (spectra). Of the rest, columns with heavy tails become ranks, columns of different variance get unit
    variance, and others stay as they are. Sparse columns that are not counts of words stay as they are, unless one of
    them has most of the sum of squares.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
        The rows; at most 10,000 evenly spaced ones are examined.

    Returns
    -------
    ColumnKind
        The form and the reason.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> column_kind(rng.integers(0, 256, size=(50, 9)) * 1.0)
    ColumnKind(form='as they are', reason='they share one range', column=None)
    >>> column_kind(rng.normal(size=(50, 3)) * [1.0, 1.0, 1000.0]).form
    'unit variance'
    """
    n, d = X.shape
    most = int(np.clip(_MAX_VALUES // max(d, 1), 100, _MAX_ROWS))
    if n > most:
        X = X[np.linspace(0, n - 1, most).astype(int)]
    if Shape.of(X).sparse:
        return _COUNTS if looks_like_counts(X) else _of_sparse(sp.csc_array(X))
    X = np.asarray(X, dtype=np.float64)
    low, high = X.min(axis=0), X.max(axis=0)
    varying = np.flatnonzero(high > low)
    if len(varying) < 2:
        return ColumnKind(AS_IS, "no more than one of them varies")
    X, low, high = X[:, varying], low[varying], high[varying]
    if len(np.unique(X[: 1 + 1000 // d])) <= 2 and len(np.unique(X)) == 2:
        return ColumnKind(AS_IS, "they hold two values only")
    spread = X.std(axis=0)
    # A column that is mostly one value, as at the edge of an image, has a smaller variance but is not of another
    # kind.
    lively = np.sort(spread[np.mean(np.median(X, axis=0) == X, axis=0) < _MOST])
    median = np.quantile(spread, 0.5, method="lower")
    fills = np.mean(high - low >= _MOST * (high.max() - low.min())) > _MOST
    times = 1.0
    if len(lively) > 1:
        times = np.quantile(lively, 0.9, method="higher") / np.quantile(lively, 0.1, method="lower")
    if fills and times <= _SPREAD and lively.min(initial=np.inf) * _NEGLIGIBLE >= median:
        return ColumnKind(AS_IS, "they share one range")
    if looks_like_counts(X):
        return _COUNTS
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if len(varying) >= _MIN_SMOOTH and _neighbours(Z) >= _SMOOTH:
        return ColumnKind(AS_IS, "neighbouring ones go closely together, as in a spectrum")
    # For columns of two values ranks are equivalent to the values.
    heavy = _kurtosis(Z[:, ((low < X) & (high > X)).any(axis=0)])
    if np.median(heavy) >= _HEAVY:
        share = np.mean(heavy >= _HEAVY)
        return ColumnKind(RANKS, f"{share:.0%} of them have heavy tails (excess kurtosis above {_HEAVY:.0f})")
    if low.min() >= 0 and np.mean(X == 0) >= _MOST and (np.round(X) == X).all():
        return ColumnKind(AS_IS, "they are counts")
    widest = int(spread.argmax())
    if spread[widest] > _OUTWEIGHS * median and _effective(spread) <= max(2.0, _FEW_OF * len(spread)):
        reason = f"varies {spread[widest] / median:,.0f} times as much as the columns usually do"
        return ColumnKind(UNIT_VARIANCE, reason, int(varying[widest]))
    if times > _SPREAD:
        return ColumnKind(UNIT_VARIANCE, f"some vary {times:,.0f} times as much as others")
    return ColumnKind(AS_IS, "they vary by about as much")


def _effective(spread: np.ndarray) -> float:
    """Return the effective number of columns that carry the variance: d if all are equal, 1 if one dominates."""
    share = (spread / spread.max()) ** 2
    return float(share.sum() ** 2 / (share**2).sum())


def _of_sparse(X: Any) -> ColumnKind:
    """Choose the form of a sparse X: unit variance if one column has most of the sum of squares."""
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel()
    total, widest = squares.sum(), int(squares.argmax())
    if np.count_nonzero(squares) > 2 and squares[widest] > _MOST * total:
        reason = f"holds {squares[widest] / total:.0%} of the sum of squares of all columns"
        return ColumnKind(UNIT_VARIANCE, reason, widest)
    return ColumnKind(AS_IS, "no column outweighs the others")


def _kurtosis(Z: np.ndarray) -> np.ndarray:
    """Return the excess kurtosis of standardised columns; 0 if there is no column."""
    return np.einsum("ij,ij->j", Z**2, Z**2) / len(Z) - 3 if Z.shape[1] else np.zeros(1)


def _neighbours(Z: np.ndarray) -> float:
    """Return the median correlation of neighbouring standardised columns."""
    return float(np.median(np.einsum("ij,ij->j", Z[:, 1:], Z[:, :-1]) / len(Z)))


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
        RANKS: lambda: COLUMN_FORMS[RANKS](from_zero=nonnegative),
        TF_IDF: COLUMN_FORMS[TF_IDF],
    }
    return makers[form]() if form in makers else None


def form_of(model: Any) -> str:
    """Return the form to which a model transforms the columns."""
    step = getattr(model, "named_steps", {}).get("scale")
    names = {StandardScaler: UNIT_VARIANCE, COLUMN_FORMS[RANKS]: RANKS, COLUMN_FORMS[TF_IDF]: TF_IDF}
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
