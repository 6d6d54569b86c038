"""A least-squares problem that has been read, and its solution."""

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
        W'X_c'T_c, symmetric positive semi-definite, from the most accurate product at hand.
    mean : ndarray of shape (d,)
        The mean of the rows that count.
    residual : float
        Largest residual X_c'(T_c - X_c W) - g W of a target, beside its X_c'T_c, computed afresh from W at the end;
        0 for the direct ways.
    n_iter : int
        Iterations of the Krylov way, otherwise 1.
    way : str
        "gram", "dual" or "krylov".
    state : object
        What the Krylov way sets out from for another ridge.
    """

    W: np.ndarray
    D: np.ndarray
    mean: np.ndarray
    residual: float
    n_iter: int
    way: str
    state: Any = field(default=None, repr=False)


class LeastSquaresProblem:
    """A least-squares problem that has been read, to be solved for one ridge after another."""

    def prepare(self, ridges: Sequence[float]) -> None:
        """Announce the ridges, so that work for all of them can be shared."""

    def solve(self, ridge: float, start: LeastSquares | None = None) -> LeastSquares:
        """Solve for one ridge; ``start`` is a solution for another."""
        raise NotImplementedError
