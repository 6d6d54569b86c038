"""Feature maps of kernels: the exact one (a row's kernel with every fitted row) and Nystroem's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils import check_random_state

from labelfold.rows import Rows

_TAKES = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0"), "sigmoid": ("gamma", "coef0")}
_TAKES |= {"polynomial": _TAKES["poly"], "laplacian": ("gamma",), "chi2": ("gamma",)}

# What is left of a kernel's diagonal is round-off below this many times n eps.
_ROUND_OFF = 10

# Where features have the kernel, what is left is not below zero by more than this many times its largest value.
_NEGATIVE = 1e-3

# What "auto" takes where the kernel matrix does not fit.
_LANDMARKS = 1000


class KernelMap(BaseEstimator):
    """The features k(x, x_1) ... k(x, x_l) of a row x, for the l rows it was made with.

    Parameters
    ----------
    points : array or csr_array of shape (l, d)
        The fitted rows.
    kernel : str or callable
        As in `sklearn.metrics.pairwise.pairwise_kernels`.
    params : dict
        The kernel's own parameters.
    """

    def __init__(self, points: Any, kernel: str | Callable, params: dict[str, Any]) -> None:
        self.points = points
        self.kernel = kernel
        self.params = params

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of some rows."""
        return pairwise_kernels(X, self.points, metric=self.kernel, **self.params)


def kernel_params(kernel: str | Callable, **given: Any) -> dict[str, Any]:
    """Return the parameters that the kernel takes; refuse those that belong to another."""
    given = {name: value for name, value in given.items() if value is not None}
    if callable(kernel):
        takes: tuple[str, ...] = ()
    elif kernel in PAIRWISE_KERNEL_FUNCTIONS:
        takes = _TAKES.get(kernel, ())
    else:
        known = ", ".join(sorted(PAIRWISE_KERNEL_FUNCTIONS))
        raise ValueError(f"kernel={kernel!r} is not known; use one of {known}, or a function of two rows")
    wrong = [name for name in given if name not in takes]
    if wrong:
        what = f"kernel={kernel!r}" if not callable(kernel) else "a kernel given as a function"
        takes_what = f"takes {' and '.join(takes)}" if takes else "takes none of these parameters"
        raise ValueError(
            f"{wrong[0]}={given[wrong[0]]!r} belongs to another kernel: {what} {takes_what}; leave {wrong[0]} out"
        )
    return given


def exact_map(rows: Rows, kernel: str | Callable, params: dict[str, Any], max_gram_bytes: int) -> KernelMap:
    """Return the exact feature map of rows in memory, if their kernel matrix fits the budget."""
    n = rows.shape[0]
    if 8 * n * n > max_gram_bytes:
        raise ValueError(
            f"the exact kernel form needs a {n} x {n} matrix of {8 * n * n / 2**20:,.0f} MB, more than "
            f"max_gram_bytes={max_gram_bytes:,} allows; set n_landmarks (500, say), or raise max_gram_bytes to "
            f"{8 * n * n:,}"
        )
    return KernelMap(rows.whole().double().raw, kernel, params)


def landmarks_for(n_landmarks: int | str | None, n: int, max_gram_bytes: float) -> int | None:
    """Return how many landmarks to take: as given, or for "auto" none (exact) where an n x n matrix fits the budget.

    Examples
    --------
    >>> landmarks_for("auto", 1000, 8e6) is None, landmarks_for("auto", 1001, 8e6), landmarks_for(50, 1001, 8e6)
    (True, 1000, 50)
    """
    if not isinstance(n_landmarks, str):
        return n_landmarks
    return None if 8 * n * n <= max_gram_bytes else _LANDMARKS


def nystroem_map(
    rows: Rows, kernel: str | Callable, params: dict[str, Any], n_landmarks: int, random_state: Any
) -> Nystroem:
    """Return a Nystroem feature map with landmarks drawn from the rows."""
    m = min(n_landmarks, rows.shape[0])
    chosen = np.sort(check_random_state(random_state).permutation(rows.shape[0])[:m])
    landmarks = rows.take(chosen).whole().double().raw
    return Nystroem(kernel=kernel, **params, n_components=m, random_state=0).fit(landmarks)


def cholesky_features(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L (n, r) with L L' = K[order][:, order], lower trapezoidal, and the order; K is written over.

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
    if not np.isfinite(span):
        raise ValueError(
            "the kernel of some rows is NaN or infinite; scale X, or use another kernel or other parameters"
        )
    tol = _ROUND_OFF * n * np.finfo(np.float64).eps * largest
    # K.T of an array in C order is in the order LAPACK wants, and its upper factor is L in C order.
    U, order, rank, _ = lapack.dpstrf(K.T, tol=tol, lower=0, overwrite_a=1)
    L: Any = U.T[:, :rank] if rank else np.zeros((n, 1))
    for start in range(0, rank, 256):
        here = slice(start, start + 256)
        L[here, start:] = np.tril(L[here, start:])
    order = order - 1
    left = diagonal[order] - np.einsum("ij,ij->i", L, L)
    if min(left.min(), largest - span) < -_NEGATIVE * span:
        raise ValueError(
            "the kernel's matrix is not positive semi-definite, so no features have it for products; use another "
            "kernel, such as 'rbf', or other parameters"
        )
    return L, order
