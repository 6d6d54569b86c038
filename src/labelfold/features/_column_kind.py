"""Which form the columns of a table should be given to a method in, chosen from the numbers alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelfold.rows import as_rows

AS_IS, UNIT_VARIANCE = "as they are", "unit variance"
FORMS = (AS_IS, UNIT_VARIANCE)

# Looked at: this many rows at most, and this many numbers.
_ROWS, _NUMBERS = 10_000, 20_000_000

# Columns share a range if most of them fill so much of it.
_FILLS = 0.5
# Spectra and time series: so closely do neighbouring columns go together, if there are so many.
_SMOOTH, _FEWEST_SMOOTH = 0.9, 8
# Of a column that is mostly one value, and of counts, so many entries are the same.
_MOSTLY_ONE = 0.5
# A column is of another kind than the others if it varies so many times less.
_NEGLIGIBLE = 100.0
# Columns differ in kind if one varies so many times as much as the median one, and the variance lies in a few; or if
# one in ten varies so many times as much as another one in ten.
_OUTWEIGHS, _FEW, _FEW_OF, _SPREAD = 4.0, 2.0, 0.1, 8.0


class ColumnKind(NamedTuple):
    """A form for the columns, and the reason for it.

    Attributes
    ----------
    form : str
        One of `FORMS`.
    reason : str
        What was found, as the end of a sentence: "they share one range".
    column : int or None
        The column that the reason is about, if it is about one.
    """

    form: str
    reason: str
    column: int | None = None


def column_kind(X: Any) -> ColumnKind:
    """Choose a form for the columns of X: unit variance where they differ in kind, as they are where they share one.

    Columns share a kind if they hold two values only (one-hot columns, answers), if most of them fill one range
    (pixels, shares, correlations), if neighbours go closely together (spectra), if all are counts that are mostly 0
    (words), or if they vary by about as much. Sparse columns do unless one of them has most of the sum of squares.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
        The rows; at most 10,000 of them are looked at, evenly spaced.

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
    most = int(np.clip(_NUMBERS // max(d, 1), 100, _ROWS))
    if n > most:
        X = X[np.linspace(0, n - 1, most).astype(int)]
    if as_rows(X[:1]).is_sparse:
        return _of_sparse(sp.csc_array(X))
    X = np.asarray(X, dtype=np.float64)
    low, high = X.min(axis=0), X.max(axis=0)
    varying = np.flatnonzero(high > low)
    if len(varying) < 2:
        return ColumnKind(AS_IS, "no more than one of them varies")
    X, low, high = X[:, varying], low[varying], high[varying]
    if len(np.unique(X[: 1 + 1000 // d])) <= 2 and len(np.unique(X)) == 2:
        return ColumnKind(AS_IS, "they hold two values only")
    spread = X.std(axis=0)
    # A column that is mostly one value, as at the edge of an image, varies less without being of another kind.
    lively = np.sort(spread[np.mean(np.median(X, axis=0) == X, axis=0) < _MOSTLY_ONE])
    median = np.quantile(spread, 0.5, method="lower")
    fills = np.mean(high - low >= _FILLS * (high.max() - low.min())) > 0.5
    if fills and lively.min(initial=np.inf) * _NEGLIGIBLE >= median:
        return ColumnKind(AS_IS, "they share one range")
    if low.min() >= 0 and np.mean(X == 0) >= _MOSTLY_ONE and (np.round(X) == X).all():
        return ColumnKind(AS_IS, "they are counts")
    if len(varying) >= _FEWEST_SMOOTH and _neighbours(X, spread) >= _SMOOTH:
        return ColumnKind(AS_IS, "neighbouring ones go closely together, as in a spectrum")
    widest = int(spread.argmax())
    if spread[widest] > _OUTWEIGHS * median and _effective(spread) <= max(_FEW, _FEW_OF * len(spread)):
        reason = f"varies {spread[widest] / median:,.0f} times as much as the columns usually do"
        return ColumnKind(UNIT_VARIANCE, reason, int(varying[widest]))
    if len(lively) > 1:
        least, most = np.quantile(lively, 0.1, method="lower"), np.quantile(lively, 0.9, method="higher")
        if most > _SPREAD * least:
            return ColumnKind(UNIT_VARIANCE, f"some vary {most / least:,.0f} times as much as others")
    return ColumnKind(AS_IS, "they vary by about as much")


def _effective(spread: np.ndarray) -> float:
    """Return how many columns the variance is spread over: d where all vary by as much, 1 where one does."""
    share = (spread / spread.max()) ** 2
    return float(share.sum() ** 2 / (share**2).sum())


def _of_sparse(X: Any) -> ColumnKind:
    """Decide by the entries that are not 0: a column that most of their squares lie in is of another kind."""
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel()
    total, widest = squares.sum(), int(squares.argmax())
    if np.count_nonzero(squares) > 2 and squares[widest] > 0.5 * total:
        reason = f"holds {squares[widest] / total:.0%} of the sum of squares of all columns"
        return ColumnKind(UNIT_VARIANCE, reason, widest)
    return ColumnKind(AS_IS, "no column outweighs the others")


def _neighbours(X: np.ndarray, spread: np.ndarray) -> float:
    """Return the median correlation of a column with the next one."""
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return float(np.median(np.einsum("ij,ij->j", Z[:, 1:], Z[:, :-1]) / len(Z)))
