"""Column forms: feature maps that transform the columns, fitted on rows and applied row by row."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold.base import RowsTransformer, fitting
from labelfold.rows import (
    Block,
    Centered,
    Rows,
    RowsWrapper,
    as_rows,
    dense,
    on_entries,
    stored_values,
    unit_rows,
)

# Maximum number of points of a column's quantile function, and of all columns together.
_POINTS, _ALL_POINTS = 1000, 4_000_000

# A column with a smaller relative standard deviation is constant up to rounding.
_CONSTANT = 1e-10


class ColumnForm(OneToOneFeatureMixin, RowsTransformer):
    """A map of rows to rows of the same width, fitted in at most two passes.

    A subclass implements `_learn`, for fit, and `apply`, for transform. Zero rows stay zero and sparse rows stay
    sparse, unless the subclass documents otherwise.
    """

    _needs_labels = False

    @fitting
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the form.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.
        y : None
            Not used.

        Returns
        -------
        self : ColumnForm
        """
        self._learn(self._rows(X, reset=True))
        return self

    def transform(self, X: Any) -> Any:
        """Return the rows in this form.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.

        Returns
        -------
        T : ndarray or csr_array of shape (n, d)
            In host memory.
        """
        check_is_fitted(self)
        return self.of(self._rows(X, reset=False)).whole().raw

    def of(self, rows: Rows) -> Rows:
        """Return a lazy view of the rows in this form, without a pass."""
        return RowsInForm(rows, self)

    def kept(self, rows: Rows, max_bytes: float) -> tuple[Rows, float]:
        """Return the rows in this form, and the bytes that they take in memory.

        They are in memory if ``max_bytes`` allows it, if necessary in float32; otherwise every pass computes them.
        """
        found = self.of(rows)
        if found is rows and rows.in_memory:
            return rows, 0.0
        size, dense_rows = found.shape[0] * found.row_bytes(), not found.take(np.arange(1)).whole().is_sparse
        if size <= max_bytes:
            return as_rows(found.get(found.map(_raw)) if dense_rows else found.whole().host()), size
        # float32 halves dense rows only: sparse rows hold indices too
        if dense_rows and found.dtype == np.float64 and size <= 2 * max_bytes:
            return as_rows(found.get(found.map(_single)).astype(np.float32, copy=False)), size / 2
        return found, 0.0

    @property
    def keeps_zeros(self) -> bool:
        """Whether sparse rows stay sparse."""
        return True

    def _learn(self, rows: Rows) -> None:
        """Fit on rows; most forms have no parameters."""

    def apply(self, X: Any) -> Any:
        """Return some rows (ndarray or csr_array) in this form, each by itself."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether the columns are known."""
        return hasattr(self, "n_features_in_")


class AsTheyAre(ColumnForm):
    """The columns as they are."""

    def of(self, rows: Rows) -> Rows:
        """Return the rows themselves."""
        return rows

    def apply(self, X: Any) -> Any:
        """Return the rows."""
        return X


class UnitVariance(ColumnForm):
    """Columns of unit variance, centred unless most entries are zeros; constant columns become 0.

    Attributes
    ----------
    mean_ : ndarray of shape (d,)
        Means that are subtracted; 0 if zeros must stay zeros.
    scale_ : ndarray of shape (d,)
        Factors of the columns: one over their standard deviation, 0 for constant columns.

    Examples
    --------
    >>> import numpy as np
    >>> UnitVariance().fit_transform(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    @property
    def keeps_zeros(self) -> bool:
        """Whether sparse rows stay sparse."""
        return not self.mean_.any()

    def _learn(self, rows: Rows) -> None:
        mean = rows.mean()
        squares = Centered(rows, mean).sum(_squares)
        self.scale_ = _inverse(np.sqrt(squares / rows.shape[0]), np.abs(mean))
        self.mean_ = np.zeros_like(mean) if mostly_zeros(rows) else mean

    def apply(self, X: Any) -> Any:
        """Return rows with scaled columns."""
        if self.keeps_zeros:
            return on_entries(X, np.multiply, self.scale_)
        # The mean is subtracted in double precision, because the difference may overflow float32.
        return ((dense(X) - self.mean_) * self.scale_).astype(X.dtype)


class Ranks(ColumnForm):
    """Ranks of the values within each column, scaled to unit variance, for heavy tails and outliers. Dense.

    The rank is piecewise linear between the values of a bounded sample of rows. Equal values share their mean rank.
    Values beyond those of the sample have the first or the last rank.

    Parameters
    ----------
    from_zero : bool, default=False
        Whether the lowest value of each column becomes 0, for methods that need non-negative numbers; otherwise the
        mean rank becomes 0.

    Attributes
    ----------
    values_, ranks_ : ndarray
        The points of all columns' rank functions, one column after the other.
    ends_ : ndarray of shape (d + 1,)
        Boundaries of the points of each column.

    Examples
    --------
    >>> import numpy as np
    >>> Ranks().fit_transform(np.array([[1.0], [2.0], [1000.0]])).ravel().round(3)
    array([-1.225,  0.   ,  1.225])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"from_zero": ["boolean"]}

    def __init__(self, from_zero: bool = False) -> None:
        self.from_zero = from_zero

    @property
    def keeps_zeros(self) -> bool:
        """Whether sparse rows stay sparse."""
        return False

    def _learn(self, rows: Rows) -> None:
        X = dense(sample(rows))
        most = int(np.clip(_ALL_POINTS // X.shape[1], 64, _POINTS))
        points = [_rank_function(np.sort(column), most) for column in X.T]
        self.values_ = np.concatenate([values for values, _ in points])
        self.ranks_ = np.concatenate([ranks - ranks[0] if self.from_zero else ranks for _, ranks in points])
        self.ends_ = np.cumsum([0, *(len(values) for values, _ in points)])

    def apply(self, X: Any) -> np.ndarray:
        """Return the ranks of the entries."""
        X = dense(X)
        T = np.empty(X.shape, dtype=X.dtype, order="F")
        for j in range(X.shape[1]):
            here = slice(self.ends_[j], self.ends_[j + 1])
            T[:, j] = np.interp(X[:, j], self.values_[here], self.ranks_[here])
        return np.ascontiguousarray(T)


class UnitRows(ColumnForm):
    """Rows of unit norm, so that distances are cosine distances. A row of zeros stays zero.

    Examples
    --------
    >>> import numpy as np
    >>> UnitRows().fit_transform(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    def apply(self, X: Any) -> Any:
        """Return rows of unit norm."""
        return _of_unit_length(X)


class RootCounts(ColumnForm):
    """Square roots of counts, in rows of unit norm, so that distances are Hellinger distances.

    Negative values keep their sign.
    """

    def apply(self, X: Any) -> Any:
        """Return the square roots in rows of unit norm."""
        return _of_unit_length(on_entries(X, _signed_root))


class TfIdf(ColumnForm):
    """Counts of words weighted by inverse document frequency: (1 + log count) idf, in rows of unit norm.

    The weights are those of scikit-learn's ``TfidfTransformer(sublinear_tf=True)``.

    Attributes
    ----------
    idf_ : ndarray of shape (d,)
        log((1 + n) / (1 + rows that have the word)) + 1.

    Examples
    --------
    >>> import numpy as np
    >>> TfIdf().fit_transform(np.array([[1.0, 1.0], [0.0, 2.0]])).round(3)
    array([[0.815, 0.58 ],
           [0.   , 1.   ]])
    """

    def _learn(self, rows: Rows) -> None:
        self.idf_ = np.log((1 + rows.shape[0]) / (1 + rows.sum(_occurrences))) + 1

    def apply(self, X: Any) -> Any:
        """Return the weighted counts in rows of unit norm."""
        return _of_unit_length(on_entries(X, _weighted_count, self.idf_.astype(X.dtype)))


# The forms by their names.
FORMS: dict[str, type[ColumnForm]] = {
    "as they are": AsTheyAre,
    "unit variance": UnitVariance,
    "ranks": Ranks,
    "unit rows": UnitRows,
    "tf-idf": TfIdf,
    "root counts": RootCounts,
}


class RowsInForm(RowsWrapper):
    """Rows in a column form, of the same width, and sparse if the form keeps zeros."""

    def __init__(self, rows: Rows, form: ColumnForm) -> None:
        super().__init__(rows)
        self.form = form
        self._shared = (form,)

    @staticmethod
    def wrap(block: Block, form: ColumnForm) -> Block:
        """Return the block in its form."""
        return block.apply(form.apply)

    def over(self, rows: Rows, index: np.ndarray) -> RowsInForm:
        """Return other rows in the same form."""
        return RowsInForm(rows, self.form)

    def row_bytes(self) -> float:
        """Return the bytes of an average row."""
        return self.rows.row_bytes() if self.form.keeps_zeros else self.shape[1] * self.dtype.itemsize


def _of_unit_length(X: Any) -> Any:
    """Return rows of unit norm, scaled by the largest entry first, so that squares do not overflow.

    In double precision, so that rows of every container agree in all digits of single precision.
    """
    return unit_rows(X.astype(np.float64, copy=False)).astype(X.dtype, copy=False)


def looks_like_counts(X: Any) -> bool:
    """Tell whether the values look like counts of rare things, such as words.

    They do if all are non-negative whole numbers, four in five are 0 and, of the others, two in five are 1 and some
    are larger. Pixels are whole numbers too, but few of them are 1.

    Parameters
    ----------
    X : container or Rows
        Any rows; a sample of bounded size is checked.

    Returns
    -------
    bool

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.features import looks_like_counts
    >>> X = np.zeros((2, 10))
    >>> X[0, 3], X[1, 4], X[1, 7] = 1, 2, 1
    >>> looks_like_counts(X), looks_like_counts(X / 2)
    (True, False)
    """
    X = sample(as_rows(X), 2000)
    values = stored_values(X)
    values = values[values != 0]
    if not len(values) or len(values) > 0.2 * X.shape[0] * X.shape[1]:
        return False
    if values.min() < 0 or values.max() < 2 or (values != np.floor(values)).any():
        return False
    return bool((values == 1).mean() >= 0.4)


def density(X: Any) -> float:
    """Return the share of entries that are not 0, in a bounded sample of the rows."""
    X = sample(as_rows(X), 2000)
    return float(np.count_nonzero(stored_values(X)) / (X.shape[0] * X.shape[1]))


def sample(rows: Rows, most_rows: int = 10_000) -> Any:
    """Return a random sample of rows as one array, from which quantiles and shares are estimated."""
    n = rows.shape[0]
    if n <= most_rows:
        return rows.whole().host()
    chosen = np.sort(check_random_state(0).permutation(n)[:most_rows])
    return rows.take(chosen).whole().host()


def _rank_function(column: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of a sorted column, and their mean ranks scaled to unit variance."""
    n = len(column)
    values, first, count = np.unique(column, return_index=True, return_counts=True)
    ranks = (first + (count - 1) / 2) / max(1, n - 1) - 0.5
    deviation = np.sqrt(max(0.0, np.average(ranks**2, weights=count) - np.average(ranks, weights=count) ** 2))
    ranks = ranks / deviation if deviation > _CONSTANT else np.zeros(len(values))
    if len(values) > most:
        # Points are spaced evenly among the rows, not among the distinct values.
        after = np.cumsum(count)
        chosen = np.unique(np.searchsorted(after, np.linspace(1, n, most)))
        values, ranks = values[chosen], ranks[chosen]
    return values.astype(np.float64), ranks


def _inverse(deviation: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return 1 over deviations, 0 for a column that is constant up to round-off."""
    varies = deviation > _CONSTANT * size
    return np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)


def _squares(X: Block) -> Any:
    return X.double().colsq()


def _occurrences(X: Block) -> np.ndarray:
    present = on_entries(X.host(), lambda values: values != 0)
    return np.asarray(present.sum(axis=0, dtype=np.float64))


def _weighted_count(X: np.ndarray, idf: np.ndarray) -> np.ndarray:
    """Return sign(x) (1 + log|x|) idf, 0 at 0; for counts, which are at least 1 if they are not 0."""
    size = np.abs(X)
    return np.where(size > 0, np.sign(X) * (1 + np.log(np.where(size >= 1, size, 1.0))), 0.0) * idf


def _signed_root(X: np.ndarray) -> np.ndarray:
    return np.sign(X) * np.sqrt(np.abs(X))


def _raw(X: Block) -> Any:
    return X.raw


def _single(X: Block) -> Any:
    return X.single().raw


def mostly_zeros(rows: Rows) -> bool:
    """Tell whether rows take fewer bytes than all their entries would, because zeros are not stored."""
    return rows.row_bytes() < rows.dtype.itemsize * rows.shape[1]
