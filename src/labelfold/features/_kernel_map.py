"""Feature maps of kernels: the exact map (the kernel of a row with every fitted row) and Nystroem features."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    manhattan_distances,
    pairwise_kernels,
)
from sklearn.utils import check_random_state

from labelfold.numerics import ROUND_OFF, count_negative, refuse_negative, row_spread
from labelfold.rows import (
    Rows,
    Weighted,
    check_fits,
    dense,
    dense_if_full,
    divided_by_maximum,
    short_indices,
    single_blas,
    stored_values,
)
from labelfold.utils import warn_user

_TAKES = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0"), "sigmoid": ("gamma", "coef0")}
_TAKES |= {"polynomial": _TAKES["poly"], "laplacian": ("gamma",), "chi2": ("gamma",)}
# Kernels that refuse negative entries, and kernels that vanish between distant rows.
_OF_COUNTS = ("chi2", "additive_chi2")
_LOCAL = ("rbf", "laplacian", "chi2")
# Kernels whose gamma has the unit of 1 / X^2. Its default follows from the spread of the rows; other kernels have
# scikit-learn's default.
_OF_SQUARES = ("rbf", "poly", "polynomial", "sigmoid")
# Relative range of the kernel values below which they are constant up to round-off, and below which they have lost
# half of their digits.
_EPS = float(np.finfo(np.float64).eps)
_CONSTANT, _HALF_LOST = 100 * _EPS, np.sqrt(_EPS)
# Minimum eigenvalue of the kernel of landmarks, as in scikit-learn.
_MIN_EIGENVALUE = 1e-12
# Budget: number of landmarks of "auto" if the kernel matrix exceeds ``max_gram_bytes``; theirs takes 8 MB.
_LANDMARKS = 1000
# Precision: tolerance for negative residuals of the kernel, relative to its largest value; beyond it K is not a
# kernel.
_NEGATIVE = 1e-3


class KernelMap(BaseEstimator):
    """The features k(x, x_1) ... k(x, x_l) of a row x, where x_1 ... x_l are the fitted rows.

    Parameters
    ----------
    points : array or csr_array of shape (l, d)
        The fitted rows, after ``center`` is subtracted.
    kernel : str or callable
        As in `sklearn.metrics.pairwise.pairwise_kernels`.
    params : dict
        The kernel's own parameters.
    center : ndarray of shape (d,), optional
        Subtracted from every row first; nothing is subtracted when None.
    """

    def __init__(
        self, points: Any, kernel: str | Callable, params: dict[str, Any], center: np.ndarray | None = None
    ) -> None:
        self.points = points
        self.kernel = kernel
        self.params = params
        self.center = center

    @property
    def is_positive(self) -> bool:
        """Whether the kernel is positive semi-definite for any rows, with values of at most 1."""
        return self.kernel in (*_LOCAL, "cosine")

    @staticmethod
    def spread(K: np.ndarray, weights: np.ndarray | None = None) -> float:
        """Return `row_spread` in the space of a kernel, from the kernel matrix of all rows; they may have weights.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.array([[1.0, 5.0], [3.0, 9.0]])
        >>> KernelMap.spread(X @ X.T)
        5.0
        """
        if weights is None:
            largest, shared = float(np.trace(K)) / len(K), float(K.mean())
        else:
            shares = weights / weights.sum()
            largest, shared = float(shares @ np.diagonal(K)), float(shares @ K @ shares)
        found = largest - shared
        return found if found > ROUND_OFF * len(K) * abs(largest) else 1.0

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of some rows, in double precision."""
        return self.of_points(shifted(X, self.center, self.kernel))

    def of_points(self, points: Any = None) -> np.ndarray:
        """Return the features of rows that are already centred, by default of all fitted rows."""
        points = self.points if points is None else points
        K = _kernels(points, self.points, self.kernel, self.params)
        if points is self.points:
            refuse_infinite(K)
        return K


class CenteredNystroem(Nystroem):
    """Nystroem features in double precision. Rows are centred first if the kernel is invariant to a shift.

    Attributes
    ----------
    center_ : ndarray of shape (d,) or None
        The mean of the landmarks, subtracted from every row; None for sparse rows, which keep their zeros, and for
        kernels that depend on the origin.
    eps_ : float
        Relative round-off of the features. It exceeds that of the kernel, because features are divided by the square
        roots of the kernel's eigenvalues.
    """

    def fit(self, X: Any, y: Any = None) -> CenteredNystroem:
        """Take the rows for landmarks."""
        self.center_ = _center_of(X, self.kernel, True)
        # For so few landmarks several threads of BLAS take longer than one.
        few = single_blas() if X.shape[0] <= _LANDMARKS else nullcontext()
        with few, np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # as `_kernels`
            X = shifted(X, self.center_, self.kernel)
            # What scikit-learn's `fit` sets. Eigenvectors of a symmetric matrix take half the time of its singular
            # vectors.
            order = check_random_state(self.random_state).permutation(X.shape[0])[: self.n_components]
            points = X[order]
            self.components_, self.component_indices_ = points, order
            self.n_features_in_, self._n_features_out = X.shape[1], len(order)
            K = _kernels(points, points, self.kernel, self._get_kernel_params())
            values, V = np.linalg.eigh(K)
            sizes = np.maximum(np.abs(values), _MIN_EIGENVALUE)
            self.normalization_ = (V * np.copysign(1 / np.sqrt(sizes), values)) @ V.T
            F = K @ self.normalization_.T  # F F' = K
            largest, root = float(np.abs(F @ F.T).max()), float(1 / np.sqrt(sizes.min(initial=np.inf)))
            noise = _EPS * largest * root / np.sqrt(np.square(F).sum() / len(F))
        self.eps_ = float(noise) if noise < 1 else 0.0
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of some rows."""
        with np.errstate(over="ignore", invalid="ignore"):  # as `_kernels`
            return super().transform(shifted(X, self.center_, self.kernel))


def shifted(X: Any, center: np.ndarray | None, kernel: str | Callable) -> Any:
    """Return rows in double precision with the centre subtracted; without a centre sparse rows stay sparse.

    The result suits scikit-learn's kernels: "laplacian" needs 32-bit indices, "chi2" a writable array, and "cosine"
    rows whose squares do not underflow.
    """
    if kernel == "cosine":
        X = divided_by_maximum(X)
    if center is not None:
        with np.errstate(over="ignore"):  # the kernel of such rows is refused, or 0
            return dense(X).astype(np.float64, copy=False) - center
    X = short_indices(X.astype(np.float64, copy=False))
    return X if stored_values(X).flags.writeable else X.copy()


def _center_of(points: Any, kernel: str | Callable, centred: bool) -> np.ndarray | None:
    """Return the centre of rows for a kernel that is invariant to a shift: their mean; None for other kernels.

    Subtracting it avoids cancellation in distances and products. ``centred`` is as in `kernel_map`. Sparse rows keep
    their zeros. Where the sum of a column overflows, its first entry is taken: any centre near the rows will do.
    """
    # Not a question for each row: all rows are kept sparse, or all are centred.
    if sp.issparse(points) or not (kernel in ("rbf", "laplacian") or (kernel == "linear" and centred)):
        return None
    with np.errstate(over="ignore"):
        mean = points.mean(axis=0)
    return np.where(np.isfinite(mean), mean, points[0])


def default_gamma(
    rows: Rows, weights: np.ndarray | None = None, rule: Literal["auto", "scale"] = "auto"
) -> float:
    """Return a gamma that makes the kernel independent of the unit of the rows, which may have weights.

    "auto" is one over twice the mean squared distance between rows. "scale" is scikit-learn's: one over the number
    of columns times the variance of the entries.

    Examples
    --------
    >>> import numpy as np
    >>> from labelfold.rows import as_rows
    >>> rows = as_rows(np.array([[0.0], [2.0]]))  # the spread is 1, two rows drawn at random differ by 2
    >>> default_gamma(rows), default_gamma(rows, rule="scale")
    (0.25, 1.0)
    """
    if rule == "scale":
        return 1 / row_spread(rows, weights, one_mean=True)
    return 1 / (2 * 2 * row_spread(rows, weights))


def _params_for(
    rows: Rows, kernel: str | Callable, weights: np.ndarray | None = None, **given: Any
) -> dict[str, Any]:
    """Return the parameters of the kernel, gamma as a number; refuse those that it does not have."""
    params = {name: value for name, value in given.items() if value not in (None, "auto")}
    if callable(kernel):
        takes: tuple[str, ...] = ()
    elif kernel in PAIRWISE_KERNEL_FUNCTIONS:
        takes = _TAKES.get(kernel, ())
    else:
        known = ", ".join(sorted(PAIRWISE_KERNEL_FUNCTIONS))
        raise ValueError(f"kernel={kernel!r} is not known; use one of {known}, or a function of two rows")
    wrong = [name for name in params if name not in takes]
    if wrong:
        what = f"kernel={kernel!r}" if not callable(kernel) else "a kernel given as a function"
        takes_what = f"takes {' and '.join(takes)}" if takes else "takes none of these parameters"
        raise ValueError(
            f"{wrong[0]}={params[wrong[0]]!r} belongs to another kernel: {what} {takes_what}; leave {wrong[0]} out"
        )
    gamma = given["gamma"]
    if gamma == "scale" or (gamma == "auto" and kernel in _OF_SQUARES):
        params["gamma"] = default_gamma(rows, weights, gamma)
    return params


@np.errstate(over="ignore", invalid="ignore")  # as `_kernels`
def kernel_map(
    rows: Rows,
    kernel: str | Callable,
    *,
    gamma: float | Literal["auto", "scale"],
    degree: float | None,
    coef0: float | None,
    n_landmarks: int | Literal["auto"] | None,
    max_gram_bytes: float,
    random_state: Any,
    weights: np.ndarray | None = None,
    centred: bool = False,
) -> tuple[KernelMap | Nystroem, float | None]:
    """Return the map of rows into the space of a kernel, exact or Nystroem's, and the kernel's gamma.

    Parameters
    ----------
    rows : Rows
        The rows to fit.
    kernel, gamma, degree, coef0
        The kernel. A gamma of "auto" is `default_gamma` for kernels of squared distances and products, and
        scikit-learn's default for others; "scale" is `default_gamma` by that rule for all.
    n_landmarks : int, "auto" or None
        Number of landmarks of Nystroem features. None is the exact kernel, and so is "auto" if an n x n matrix takes
        at most ``max_gram_bytes``.
    max_gram_bytes : float
    random_state : int or RandomState
        Seeds the draw of the landmarks.
    weights : ndarray of shape (n,), optional
        The weights of the rows, or a mask of the rows to use; all 1 when None. Rows of weight 0 are left out, and
        landmarks are drawn with probabilities in proportion to the weights.
    centred : bool
        Whether the caller centres the features, so that a constant in them has no effect.
    """
    params = _params_for(rows, kernel, weights, gamma=gamma, degree=degree, coef0=coef0)
    index = None if weights is None else np.flatnonzero(weights)
    n = rows.shape[0] if index is None else len(index)
    if kernel in _OF_COUNTS:
        used = rows if weights is None else Weighted(rows, weights)
        refuse_negative(used, used.sum(count_negative), estimator=f"kernel={kernel!r}")
    if n_landmarks == "auto":
        fits = 8 * n * n <= max_gram_bytes and (rows.in_memory or n * rows.row_bytes() <= max_gram_bytes)
        n_landmarks = None if fits else _LANDMARKS
    if n_landmarks is not None:
        # The landmarks alone are read into memory.
        chosen = _drawn(n, n_landmarks, None if weights is None else weights[index], random_state)
        drawn = rows.take(chosen if index is None else index[chosen])
        nystroem = nystroem_map(drawn, kernel, params, centred=centred)
        _check_digits(nystroem.components_, kernel, params)
        return nystroem, params.get("gamma")
    if 8 * n * n > max_gram_bytes:
        raise ValueError(
            f"the exact kernel form needs a {n} x {n} matrix of {8 * n * n / 2**20:,.0f} MB, more than "
            f"max_gram_bytes={max_gram_bytes:,} allows; leave n_landmarks at 'auto', or raise max_gram_bytes to "
            f"{8 * n * n:,}"
        )
    check_fits(rows, "the exact kernel form", "set n_landmarks=1000", n_rows=n, max_gram_bytes=max_gram_bytes)
    rows = rows if index is None else rows.take(index)
    return _map_of(rows, kernel, params, centred), params.get("gamma")


def _kernels(X: Any, Y: Any, kernel: str | Callable, params: dict[str, Any]) -> np.ndarray:
    """Return the kernel of every pair of rows. An overflow of gamma times a distance gives a kernel of 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        return pairwise_kernels(X, Y, metric=kernel, **params)


def _check_digits(points: Any, kernel: str | Callable, params: dict[str, Any], n_rows: int = 60) -> None:
    """Refuse a kernel that is constant up to round-off on a sample of rows, and warn of one that nearly is.

    A tiny gamma makes every value nearly 1; columns far from 0, or a large ``coef0``, make all products nearly
    equal. The remaining differences are then mostly round-off.
    """
    some = points[:: -(-points.shape[0] // n_rows)]
    K = _kernels(some, some, kernel, params)
    size = float(np.abs(K).max())
    unlike = manhattan_distances(short_indices(some), short_indices(some[:1]))[:, 0] > 0
    if not unlike.any() or not 0 < size < np.inf:
        return
    what = f"kernel={kernel!r}" if isinstance(kernel, str) else "the kernel"
    what += "".join(f", {name}={value:g}" for name, value in params.items())
    spread = float(np.ptp(K)) / size
    if spread < _CONSTANT:
        raise ValueError(
            f"{what} has the same value for every two rows of X but for round-off, so that nothing can be learned; "
            "centre the columns of X, scale it, or use other parameters or another kernel"
        )
    if spread < _HALF_LOST:
        digits = int(-np.log10(_EPS / spread))
        warn_user(
            f"{what} differs by {spread:.0e} of its size between rows of X, so that about {digits} of 16 digits are "
            "left; centre the columns of X, or use other parameters"
        )
    if kernel in _LOCAL and not K[0, unlike].any() and not (K - np.diag(np.diagonal(K))).any():
        warn_user(
            f"{what} is 0 between all rows that were looked at, so that a new row is like none of them; use a "
            "smaller gamma, or multiply X by a constant"
        )


def _map_of(rows: Rows, kernel: str | Callable, params: dict[str, Any], centred: bool) -> KernelMap:
    """Return the exact map of these rows; ``centred`` as in `kernel_map`."""
    points = shifted(dense_if_full(rows.whole().double().raw), None, kernel)
    center = _center_of(points, kernel, centred)
    found = KernelMap(points if center is None else points - center, kernel, params, center)
    _check_digits(found.points, kernel, params)
    return found


def kernel_columns(
    rows: Rows,
    kernel: str,
    gamma: float | Literal["auto", "scale"],
    n_landmarks: int | None,
    random_state: Any,
) -> KernelMap:
    """Return the kernel with landmarks drawn from the rows as a feature map; with all rows if n_landmarks is None."""
    params = _params_for(rows, kernel, gamma=gamma)
    if kernel in _OF_COUNTS:
        refuse_negative(rows, rows.sum(count_negative), estimator=f"kernel={kernel!r}")
    if n_landmarks is None:
        check_fits(rows, "a kernel with all rows", "set n_landmarks=1000")
    order = check_random_state(random_state).permutation(rows.shape[0])
    return _map_of(rows.take(np.sort(order[:n_landmarks])), kernel, params, False)


def _drawn(n: int, n_landmarks: int, weights: np.ndarray | None, random_state: Any) -> np.ndarray:
    """Return the indices of landmarks; with weights, all positive, a row of a larger one is drawn more often."""
    rng, m = check_random_state(random_state), min(n_landmarks, n)
    if weights is None or (weights == weights[0]).all():
        return np.sort(rng.permutation(n)[:m])
    return np.sort(rng.choice(n, m, replace=False, p=weights / weights.sum()))


def nystroem_map(
    drawn: Rows, kernel: str | Callable, params: dict[str, Any], *, centred: bool = False
) -> Nystroem:
    """Return a Nystroem feature map with these rows as landmarks; ``centred`` as in `kernel_map`."""
    m = drawn.shape[0]
    landmarks = shifted(dense_if_full(drawn.whole().double().raw), None, kernel)
    refuse_infinite(_kernels(landmarks, landmarks, kernel, params))
    make = Nystroem if kernel == "linear" and not centred else CenteredNystroem
    return make(kernel=kernel, **params, n_components=m, random_state=0).fit(landmarks)


def refuse_infinite(K: Any) -> None:
    """Refuse a kernel with values that are not finite."""
    if not np.isfinite(K).all():
        raise ValueError(
            "the kernel of some rows is NaN or infinite; scale X, or use another kernel or other parameters"
        )


def round_off(K: np.ndarray) -> float:
    """Return the size of residuals of the diagonal of a kernel matrix that are round-off."""
    return ROUND_OFF * len(K) * float(np.diagonal(K).max(initial=0.0))


def cholesky_features(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L (n, r) with L L' = K[order][:, order], lower trapezoidal, and the order; K is overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> L, order = cholesky_features(X @ X.T)
    >>> order.tolist()
    [1, 2, 0]
    >>> L
    array([[2., 0.],
           [0., 1.],
           [1., 0.]])
    """
    n = len(K)
    diagonal = np.diagonal(K).copy()
    largest, span = float(diagonal.max(initial=0.0)), float(max(K.max(), -K.min()))
    refuse_infinite(span)
    tol = round_off(K)
    probe = np.random.default_rng(0).standard_normal(n)
    seen = K @ probe
    # If all rows have the same norm, as with an RBF kernel, the first pivot would depend on the order of the rows.
    # The pivot is therefore the row with the largest sum of similarities, among the longest rows.
    longest = diagonal >= (1 - 1e-12) * largest
    names, first = np.arange(n), int(np.where(longest, K.sum(axis=1), -np.inf).argmax())
    K[[0, first]], names[[0, first]] = K[[first, 0]], names[[first, 0]]
    K[:, [0, first]] = K[:, [first, 0]]
    # K.T of a C-ordered array has the order of LAPACK, and its upper factor is L in C order.
    U, order, rank, _ = lapack.dpstrf(K.T, tol=tol, lower=0, overwrite_a=1)
    L: Any = U.T[:, :rank] if rank else np.zeros((n, 1))
    for start in range(0, rank, 256):
        here = slice(start, start + 256)
        L[here, start:] = np.tril(L[here, start:])
    order = names[order - 1]
    left = diagonal[order] - np.einsum("ij,ij->i", L, L)
    missed = seen[order] - L @ (L.T @ probe[order])  # (K - L L') times a random vector
    if min(left.min(), largest - span, -np.abs(missed).max()) < -_NEGATIVE * span:
        raise ValueError(
            "the kernel's matrix is not positive semi-definite, so no features have it for products; centre X "
            "where its columns lie far from 0, or use another kernel, such as 'rbf', or other parameters"
        )
    return L, order
