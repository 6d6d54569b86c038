"""Feature maps of kernels: the exact one (a row's kernel with every fitted row) and Nystroem's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils import check_random_state

from labelfold.numerics.gram import Gram
from labelfold.numerics.solution import LeastSquares, Problem
from labelfold.rows import Rows

_TAKES = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0"), "sigmoid": ("gamma", "coef0")}
_TAKES |= {"polynomial": _TAKES["poly"], "laplacian": ("gamma",), "chi2": ("gamma",)}

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


class KernelProblem(Problem):
    """Least squares in the space of an exact kernel: (K_c + g I) A = T_c, of which A stands for W."""

    def __init__(self, K: np.ndarray, T: np.ndarray) -> None:
        self.T = T - T.mean(axis=0)
        self.mean = K.mean(axis=0)
        Kc = K - self.mean
        Kc -= Kc.mean(axis=1, keepdims=True)
        Kc = (Kc + Kc.T) / 2
        self.gram = Gram(Kc, len(K), constant=np.trace(Kc) / len(K) ** 2)

    def prepare(self, ridges: Sequence[float]) -> None:
        """Share a factorisation among many ridges."""
        self.gram.expect(ridges)

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge."""
        A, D = self.gram.solve_centered(self.T, ridge)
        return LeastSquares(A, D, self.mean, 0.0, 1, "kernel")


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
    if n_landmarks != "auto":
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
