"""Least squares with non-negative unknowns, row by row: exactly, or a step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import linalg

# What the last round over a row may still gain, relative to the row's own scale.
_TOL = 1e-24
_MAX_ROUNDS = 2000
# The reciprocal condition of Q below which single coordinates may gain next to nothing far from the minimum.
_STIFF = 1e-6


def nonnegative_rows(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the h >= 0 that minimises 1/2 h'Qh - p'h, for each row p of P; Q is positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> nonnegative_rows(np.array([[1.0, -2.0]]), np.eye(2))
    array([[1., 0.]])
    """
    from labelfold.numerics import _box_loops as box_loops

    P = np.ascontiguousarray(P, dtype=np.float64)
    H, zeros = np.zeros_like(P), np.zeros_like(P)
    factor = linalg.cho_factor(Q)
    q = linalg.cho_solve(factor, P.T).T
    stiff = linalg.lapack.dpocon(factor[0], np.linalg.norm(Q, 1))[0] < _STIFF
    least = _TOL * 0.5 * np.einsum("ij,ij->i", P, q)
    box_loops.minimise(Q, zeros, -P, zeros, np.full(P.shape, np.inf), H, least, _MAX_ROUNDS, stiff)
    return H


def hals(H: Any, P: Any, Q: Any, rounds: int = 1) -> Any:
    """Return H after rounds in which each column in turn minimises 1/2 tr(HQH') - tr(P'H), clipped at 0.

    Rows are independent: a round is one exact step for each coordinate of each row.

    Examples
    --------
    >>> import numpy as np
    >>> hals(np.zeros((1, 2)), np.array([[1.0, -2.0]]), np.eye(2))
    array([[1., 0.]])
    """
    if isinstance(H, np.ndarray):
        from labelfold.numerics import _box_loops as box_loops

        H = np.array(H, order="C")
        box_loops.clipped_steps(H, np.asarray(P, H.dtype), np.asarray(Q, H.dtype), rounds)
        return H
    return _hals_anywhere(H, P, Q, rounds)


def _hals_anywhere(H: Any, P: Any, Q: Any, rounds: int) -> Any:
    """Return the same for any array that follows the array API, a column of all rows at a time."""
    xp = array_namespace(H)
    for j in list(range(H.shape[1])) * rounds:
        column = H[:, j] + (P[:, j] - H @ Q[:, j]) / Q[j, j]
        column = xp.where(column > 0, column, xp.zeros_like(column))
        H = xp.concat([H[:, :j], column[:, None], H[:, j + 1 :]], axis=1)
    return H
