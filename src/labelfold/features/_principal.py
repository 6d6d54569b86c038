"""The first principal coordinates of rows in any container."""

from __future__ import annotations

import warnings
from copy import copy
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from labelfold.base import LinearReducer, fitting
from labelfold.features._forms import mostly_zeros, scatter_rows
from labelfold.labels import read_weights
from labelfold.numerics import randomized_svd, row_side_svd, signed
from labelfold.rows import Rows, beside, cast
from labelfold.utils import Interval

# A d x d or n x n matrix up to twice this size is decomposed directly, in one pass.
_DIRECT = 2000
# Default number of coordinates if the smaller side of X is decomposed directly, and otherwise.
_COORDINATES, _FEWER_COORDINATES = 1000, 100
# Maximum number of entries of the matrix of principal directions, if the number of coordinates is the default.
_ENTRIES = 16_000_000


class Principal(LinearReducer):
    r"""Principal components in a few passes over any container; sparse rows stay sparse.

    Parameters
    ----------
    n_components : int, default=50
        Number of coordinates; fewer if the rank is smaller.
    whiten : bool, default=False
        Whether coordinates are divided by their standard deviation, so that all have unit variance.
    random_state : int, RandomState instance or None, default=0
        Seed of the randomised decomposition of large rows.

    Attributes
    ----------
    components_ : ndarray of shape (q, d)
        Orthonormal directions of largest variance, divided by the standard deviations if ``whiten``.
    deviations_ : ndarray of shape (q,)
        The standard deviation along each direction, descending.
    mean_ : ndarray of shape (d,)
        The mean row.
    total_variance_ : float
        The mean squared distance of the rows from their mean.

    Notes
    -----
    Cost: two passes and a decomposition of a d x d or n x n matrix if the smaller side is at most 2,000; otherwise
    one pass for the mean and one for each step of a randomised block Krylov iteration, to a tolerance of 1e-4.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from labelfold.features import Principal
    >>> X, _ = load_iris(return_X_y=True)
    >>> Principal(2).fit(X).deviations_.round(3)
    array([2.049, 0.491])
    """

    deviations_: np.ndarray
    mean_: np.ndarray
    total_variance_: float

    _needs_labels = False
    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "whiten": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(self, n_components: int = 50, *, whiten: bool = False, random_state: Any = 0) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.random_state = random_state

    @fitting
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the directions.

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
        self : Principal
            The fitted estimator.
        """
        rows = self._rows(X, reset=True)
        weights = read_weights(sample_weight, rows.shape[0])
        found = principal_axes(rows, self.n_components, weights=weights, random_state=self.random_state)
        basis = found.basis / found.deviations if self.whiten else found.basis
        self.components_: np.ndarray = np.ascontiguousarray(basis.T)
        self.deviations_, self.mean_, self.total_variance_ = found.deviations, found.mean, found.total
        return self


class PrincipalAxes:
    """Principal axes of rows. Called on rows, they return principal coordinates. For `Featurized`.

    Attributes
    ----------
    basis : ndarray of shape (d, q)
        Orthonormal columns, by descending variance.
    deviations : ndarray of shape (q,)
        Standard deviations of the coordinates.
    mean : ndarray of shape (d,)
        The mean row.
    total : float
        The mean squared distance from the mean.
    complete : bool
        Whether these are all axes of the rows, because their rank is smaller than the requested number.
    """

    takes_any_array = True
    basis: np.ndarray
    deviations: np.ndarray
    mean: np.ndarray
    total: float

    def __init__(
        self, basis: np.ndarray, deviations: np.ndarray, mean: np.ndarray, total: float, complete: bool
    ) -> None:
        self.basis, self.deviations, self.mean, self.total = basis, deviations, mean, total
        self.complete = complete
        self.offset: np.ndarray = mean @ basis

    def __call__(self, X: Any) -> np.ndarray:
        """Return the coordinates (n, q) of some rows."""
        basis, offset = (cast(beside(X, a), X.dtype) for a in (self.basis, self.offset))
        return X @ basis - offset

    def first(self, q: int) -> PrincipalAxes:
        """Return the first q axes."""
        some = copy(self)
        some.basis, some.deviations, some.offset = self.basis[:, :q], self.deviations[:q], self.offset[:q]
        return some


def principal_axes(
    rows: Rows,
    n_components: int | None = None,
    *,
    weights: np.ndarray | None = None,
    tol: float = 1e-4,
    max_iter: int = 30,
    random_state: Any = 0,
) -> PrincipalAxes:
    """Return the first principal axes of the rows, as many as their rank allows.

    Parameters
    ----------
    n_components : int, optional
        Number of axes; when None 1,000, or 100 for large rows, for which each costs more.
    weights : ndarray of shape (n,), optional
        Weights of the rows; all are 1 when None.
    tol, max_iter : float, int
        Tolerance and number of the iterations for large rows. Principal coordinates are features, for which few
        digits are enough.
    """
    n, d = rows.shape
    mean = rows.mean(weights)
    centered, size = scatter_rows(rows, mean, weights)
    eps = float(np.finfo(rows.dtype).eps)
    if n_components is None:
        n_components = _FEWER_COORDINATES if min(n, d) > _DIRECT else min(_COORDINATES, _ENTRIES // d)
    q = min(n_components, n, d)
    by_columns = d <= max(_DIRECT, n) and d <= 2 * _DIRECT
    S = centered.gram() / size if by_columns else None
    total = float(centered.squared_norm() / size if S is None else np.trace(S))
    if not np.isfinite(total):
        raise ValueError("the squares of X overflow; scale X to about 1")
    # Below this the rows are equal up to the round-off of centring.
    if total <= 10 * (eps * np.abs(mean).max(initial=0.0)) ** 2 * d:
        return PrincipalAxes(np.zeros((d, 0)), np.zeros(0), mean, 0.0, True)
    if S is not None:
        squares, basis = _largest(S, q, eps)
    elif n <= 2 * _DIRECT and n * rows.row_bytes() <= 2**30:
        squares, U = _largest(np.asarray(centered.whole().double().outer()) / size, q, eps)
        basis = centered.t(U) / (np.sqrt(squares) * np.sqrt(size))
    else:
        options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "random_state": _seed(random_state)}
        if mostly_zeros(rows) and n < d // 2:
            squares, basis = row_side_svd(centered, q, **options)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", UserWarning)
                svd = randomized_svd(centered, q, **options)
            squares, basis = svd.s**2, svd.Vt.T
        squares = squares / size
    complete = len(squares) < n_components
    return PrincipalAxes(signed(np.asarray(basis)), np.sqrt(squares), mean, total, complete)


def _largest(A: np.ndarray, k: int, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues of a symmetric matrix, without those that are round-off, and their vectors."""
    m = len(A)
    values, vectors = linalg.eigh((A + A.T) / 2, subset_by_index=[m - min(k, m), m - 1], check_finite=False)
    values, vectors = values[::-1], vectors[:, ::-1]
    keep = values > 10 * m * eps * max(values[0], 0.0)
    return values[keep], vectors[:, keep]


def _seed(random_state: Any) -> Any:
    """Return a seed for NumPy's generators."""
    if random_state is None or isinstance(random_state, Integral | np.random.Generator):
        return random_state
    return int(random_state.randint(2**31 - 1))
