"""Column forms: feature maps that transform the columns, fitted on rows and applied row by row."""

from __future__ import annotations

import operator
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold.base import RowsTransformer, fitting
from labelfold.labels import read_weights
from labelfold.rows import (
    Block,
    Centered,
    Rows,
    RowsWrapper,
    Weighted,
    as_rows,
    beside,
    cast,
    dense,
    double,
    interpolated,
    library_of,
    on_entries,
    stored_values,
    to_host,
    unit_rows,
)

# Maximum number of points of a column's quantile function, and of all columns together.
_POINTS, _ALL_POINTS = 1000, 4_000_000

# Maximum number of rows from which quantiles are estimated.
_SAMPLE = 10_000

# A column with a smaller relative standard deviation is constant up to rounding.
_CONSTANT = 1e-10


class ColumnForm(OneToOneFeatureMixin, RowsTransformer):
    """A map of rows to rows of the same width, fitted in at most two passes.

    A subclass implements `_learn`, for fit, and `apply`, for transform. Zero rows stay zero and sparse rows stay
    sparse, unless the subclass documents otherwise.
    """

    _needs_labels = False
    takes_any_array = True

    @fitting
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the form.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.
        y : None
            Not used.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : ColumnForm
            The fitted form.
        """
        rows = self._rows(X, reset=True)
        self._learn(rows, read_weights(sample_weight, rows.shape[0]))
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

        They are in memory if ``max_bytes`` allows it, if necessary in float32. Otherwise every pass computes them, as
        it does in a cluster.
        """
        return rows.computed(self.of(rows), max_bytes)

    @property
    def keeps_zeros(self) -> bool:
        """Whether sparse rows stay sparse."""
        return True

    def _learn(self, rows: Rows, weights: np.ndarray | None) -> None:
        """Fit on rows with weights, None if all are 1; most forms have no parameters."""

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

    def _learn(self, rows: Rows, weights: np.ndarray | None) -> None:
        mean = rows.mean(weights)
        centered, total = scatter_rows(rows, mean, weights)
        self.scale_ = _inverse(np.sqrt(centered.sum(_squares) / total), np.abs(mean))
        self.mean_ = np.zeros_like(mean) if mostly_zeros(rows) else mean

    def apply(self, X: Any) -> Any:
        """Return rows with scaled columns."""
        if self.keeps_zeros:
            return on_entries(X, operator.mul, self.scale_)
        # The mean is subtracted in double precision, because the difference may overflow float32.
        moved = (dense(X) - beside(X, self.mean_)) * beside(X, self.scale_)
        return cast(moved, X.dtype)


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

    def _learn(self, rows: Rows, weights: np.ndarray | None) -> None:
        index = drawn_rows(rows.shape[0], _SAMPLE, weights)
        X, weights = dense(_taken(rows, index)), None if weights is None else weights[index]
        most = int(np.clip(_ALL_POINTS // X.shape[1], 64, _POINTS))
        points = [_rank_function(column, weights, most) for column in X.T]
        self.values_ = np.concatenate([values for values, _ in points])
        self.ranks_ = np.concatenate([ranks - ranks[0] if self.from_zero else ranks for _, ranks in points])
        self.ends_ = np.cumsum([0, *(len(values) for values, _ in points)])

    def apply(self, X: Any) -> np.ndarray:
        """Return the ranks of the entries."""
        return interpolated(dense(X), self.ends_, self.values_, self.ranks_)


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

    def _learn(self, rows: Rows, weights: np.ndarray | None) -> None:
        weights = np.ones(rows.shape[0]) if weights is None else weights
        total = weights.sum()
        self.idf_ = np.log((1 + total) / (1 + rows.sum(_occurrences, weights))) + 1

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
    return cast(unit_rows(double(X)), X.dtype)


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


def sample(rows: Rows, most_rows: int = _SAMPLE) -> Any:
    """Return a random sample of rows as one array, from which quantiles and shares are estimated."""
    return _taken(rows, drawn_rows(rows.shape[0], most_rows))


def _taken(rows: Rows, index: np.ndarray) -> Any:
    return (rows if len(index) == rows.shape[0] else rows.take(index)).whole().host()


def drawn_rows(
    n: int, most_rows: int, weights: np.ndarray | None = None, random_state: Any = 0
) -> np.ndarray:
    """Return the ascending indices of a random sample of the rows that have a weight above 0.

    >>> drawn_rows(4, 10, np.array([1.0, 0.0, 2.0, 1.0]))
    array([0, 2, 3])
    """
    some = np.arange(n) if weights is None else np.flatnonzero(weights)
    if len(some) <= most_rows:
        return some
    return np.sort(some[check_random_state(random_state).permutation(len(some))[:most_rows]])


def scatter_rows(rows: Rows, mean: np.ndarray, weights: np.ndarray | None) -> tuple[Rows, float]:
    """Return rows whose sums of squares are those of the weighted rows about a mean, and the total weight."""
    centered = Centered(rows, mean)
    if weights is None:
        return centered, rows.shape[0]
    return Weighted(centered, np.sqrt(weights)), float(weights.sum())


def _rank_function(
    column: np.ndarray, weights: np.ndarray | None, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of a column, and their mean ranks scaled to unit variance."""
    if weights is None:
        values, count = np.unique(column, return_counts=True)
    else:
        values, place = np.unique(column, return_inverse=True)
        count = np.bincount(place, weights)
    after = np.cumsum(count)
    ranks = (after - count / 2) / after[-1] - 0.5
    deviation = np.sqrt(max(0.0, np.average(ranks**2, weights=count) - np.average(ranks, weights=count) ** 2))
    ranks = ranks / deviation if deviation > _CONSTANT else np.zeros(len(values))
    if len(values) > most:
        # Points are spaced evenly among the rows, not among the distinct values.
        chosen = np.unique(np.searchsorted(after, np.linspace(min(1.0, after[0]), after[-1], most)))
        values, ranks = values[chosen], ranks[chosen]
    return values.astype(np.float64), ranks


def _inverse(deviation: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return 1 over deviations, 0 for a column that is constant up to round-off."""
    varies = deviation > _CONSTANT * size
    return np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)


def _squares(X: Block) -> Any:
    return X.double().colsq()


def _occurrences(X: Block, weights: Any) -> np.ndarray:
    present = on_entries(X.host(), lambda values: values != 0)
    return np.asarray(present.T @ to_host(weights))


def _weighted_count(X: Any, idf: Any) -> Any:
    """Return sign(x) (1 + log|x|) idf, 0 at 0; for counts, which are at least 1 if they are not 0."""
    xp = library_of(X)
    size = xp.abs(X)
    return xp.sign(X) * (1 + xp.log(xp.where(size >= 1, size, xp.ones_like(size)))) * idf


def _signed_root(X: Any) -> Any:
    xp = library_of(X)
    return xp.sign(X) * xp.sqrt(xp.abs(X))


def mostly_zeros(rows: Rows) -> bool:
    """Tell whether rows take fewer bytes than all their entries would, because zeros are not stored."""
    return rows.row_bytes() < rows.dtype.itemsize * rows.shape[1]
