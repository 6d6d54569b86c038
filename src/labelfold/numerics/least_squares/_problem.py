"""The interface of a least-squares problem whose data has been read, and its solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class LeastSquares:
    """A solution, and how it was found.

    Attributes
    ----------
    W : ndarray of shape (d, q)
        The coefficients.
    D : ndarray of shape (q, q)
        W'X_c'T_c, symmetric positive semi-definite, from the most accurate product available.
    mean : ndarray of shape (d,)
        The mean of the rows in use.
    residual : float
        Largest residual X_c'(T_c - X_c W) - g W of a target, relative to its X_c'T_c, recomputed from W at the end; 0
        for the direct methods.
    n_iter : int
        Number of iterations of "krylov", otherwise 1.
    way : str
        "gram", "dual" or "krylov".
    state : object
        The warm start of "krylov" for another ridge.
    """

    W: np.ndarray
    D: np.ndarray
    mean: np.ndarray
    residual: float
    n_iter: int
    way: str
    state: Any = field(default=None, repr=False)


class LeastSquaresProblem:
    """A least-squares problem whose data has been read, to be solved for several ridges."""

    def prepare(self, ridges: Sequence[float]) -> None:
        """Announce the ridges, so that work for all of them can be shared."""

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge; ``start`` is a solution for another."""
        raise NotImplementedError
