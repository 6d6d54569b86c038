"""Least squares with non-negative unknowns, row by row: exactly, or one step at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from scipy import linalg

from labelfold.rows import run_jobs, shares, to_device, to_host

# Tolerance of a row: largest gain of its last round, relative to the row's own scale.
_TOL = 1e-24
_MAX_ROUNDS = 2000
# Reciprocal condition of Q below which coordinate steps may gain almost nothing far from the minimum.
_STIFF = 1e-6
# Rounds that most rows take, by which the work is estimated.
_USUAL_ROUNDS = 8


def nonnegative_least_squares(P: Any, Q: np.ndarray) -> Any:
    """Return the h >= 0 that minimises 1/2 h'Qh - p'h, for each row p of P; Q is positive definite.

    P is an array of any library, and the result has its type and dtype. It is computed in float64 on the host;
    rows of a device are copied there and back.

    Examples
    --------
    >>> import numpy as np
    >>> nonnegative_least_squares(np.array([[1.0, -2.0]]), np.eye(2))
    array([[1., 0.]])
    """
    from labelfold.factorization import _loops as box_loops

    right = np.ascontiguousarray(to_host(P), dtype=np.float64)
    H, zeros, upper = np.zeros_like(right), np.zeros_like(right), np.full(right.shape, np.inf)
    factor = linalg.cho_factor(Q)
    q = linalg.cho_solve(factor, right.T).T
    stiff = linalg.lapack.dpocon(factor[0], np.linalg.norm(Q, 1))[0] < _STIFF
    enough = _TOL * 0.5 * np.einsum("ij,ij->i", right, q)

    def minimise(some: slice, stop: Any) -> None:
        box_loops.minimise(
            Q, zeros[some], -right[some], zeros[some], upper[some], H[some], enough[some], _MAX_ROUNDS, stiff
        )

    run_jobs(minimise, shares(len(H), _USUAL_ROUNDS * float(H.size) * len(Q)))
    return to_device(array_namespace(P), H, device(P), P.dtype)


def hals(H: Any, P: Any, Q: Any, rounds: int = 1) -> Any:
    """Return H after rounds of HALS: each column in turn minimises 1/2 tr(HQH') - tr(P'H), clipped at 0.

    Rows are independent: a round is one exact step for each coordinate of each row.

    Examples
    --------
    >>> import numpy as np
    >>> hals(np.zeros((1, 2)), np.array([[1.0, -2.0]]), np.eye(2))
    array([[1., 0.]])
    """
    if not isinstance(H, np.ndarray):
        return _hals_by_columns(H, P, Q, rounds)
    from labelfold.factorization import _loops as box_loops

    H = np.array(H, order="C")
    box_loops.clipped_steps(H, np.asarray(P, H.dtype), np.asarray(Q, H.dtype), rounds)
    return H


def _hals_by_columns(H: Any, P: Any, Q: Any, rounds: int) -> Any:
    """Return the same for any array that follows the array API, one column of all rows at a time."""
    xp = array_namespace(H)
    for j in list(range(H.shape[1])) * rounds:
        column = H[:, j] + (P[:, j] - H @ Q[:, j]) / Q[j, j]
        column = xp.where(column > 0, column, xp.zeros_like(column))
        H = xp.concat([H[:, :j], column[:, None], H[:, j + 1 :]], axis=1)
    return H


class HingeRows(NamedTuple):
    """The solution for every row.

    Attributes
    ----------
    H : ndarray of shape (l, k)
        The minimisers.
    dual : ndarray of shape (l, r) or (l, r + k)
        Signed dual variables, a warm start for rows that change little.
    """

    H: np.ndarray
    dual: np.ndarray


def hinge_rows(
    P: np.ndarray,
    Q: np.ndarray,
    W: np.ndarray,
    T: np.ndarray,
    C: np.ndarray,
    *,
    intercept: np.ndarray | None = None,
    loss: str = "squared_hinge",
    nonnegative: bool = False,
    dual: np.ndarray | None = None,
) -> HingeRows:
    """Return the minimising h of every row.

    Parameters
    ----------
    P : ndarray of shape (l, k)
        The linear terms, one row for each problem.
    Q : ndarray of shape (k, k)
        Symmetric positive definite.
    W : ndarray of shape (r, k)
        The classifiers.
    T : ndarray of shape (l, r)
        Signs, -1 or +1.
    C : ndarray of shape (l, r)
        Weights of the losses, at least 0.
    intercept : ndarray of shape (r,), optional
        The intercepts of the classifiers; zeros when None.
    loss : {"squared_hinge", "hinge"}
        max(0, 1 - z), or its square.
    nonnegative : bool
        Whether h >= 0.
    dual : ndarray, optional
        Initial dual variables.

    Returns
    -------
    HingeRows

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> hinge_rows(0 * one, one, 2 * one, one, one, loss="hinge").H      # max(0, 1 - 2 h) + h^2 / 2
    array([[0.5]])
    """
    k = W.shape[1]
    factor = _cholesky(Q)
    q = linalg.cho_solve(factor, P.T).T  # (l, k)
    V = linalg.cho_solve(factor, W.T).T  # (r, k)
    margins = q @ W.T + (0.0 if intercept is None else intercept)  # (l, r)
    from labelfold.factorization import _loops as box_loops

    upper = C if loss == "hinge" else np.where(C > 0, np.inf, 0.0)
    diagonal = np.zeros_like(C) if loss == "hinge" else np.divide(0.5, C, out=np.zeros_like(C), where=C > 0)
    low, high = np.where(T > 0, 0.0, -upper), np.where(T > 0, upper, 0.0)
    goal = T
    if nonnegative:
        # h_j is the margin of one more classifier, the j-th unit vector, and the multiplier of h_j >= 0 is its dual
        # variable.
        ones, zeros = np.full(P.shape, np.inf), np.zeros(P.shape)
        W, V = np.vstack([W, np.eye(k)]), np.vstack([V, linalg.cho_solve(factor, np.eye(k))])
        margins, goal = np.hstack([margins, q]), np.hstack([goal, zeros])
        low, high = np.hstack([low, zeros]), np.hstack([high, ones])
        diagonal = np.hstack([diagonal, zeros])
    scale = C.sum(axis=1) + 0.5 * np.einsum("ij,ij->i", P, q)
    s = np.zeros_like(goal) if dual is None else np.clip(dual, low, high)
    K, linear, least = W @ V.T, margins - goal, _TOL * scale

    def minimise(some: slice, stop: Any) -> None:
        box_loops.minimise(
            K, diagonal[some], linear[some], low[some], high[some], s[some], least[some], _MAX_ROUNDS
        )

    run_jobs(minimise, shares(len(s), _USUAL_ROUNDS * float(s.size) * s.shape[1]))
    H = q + s @ V
    return HingeRows(np.maximum(H, 0.0) if nonnegative else H, s)


def hinge_row_objectives(
    H: np.ndarray,
    P: np.ndarray,
    Q: np.ndarray,
    W: np.ndarray,
    T: np.ndarray,
    C: np.ndarray,
    *,
    intercept: np.ndarray | None = None,
    loss: str = "squared_hinge",
) -> np.ndarray:
    """Return the objective of each row's h, (l,)."""
    slack = np.maximum(0.0, 1 - T * (H @ W.T + (0.0 if intercept is None else intercept)))
    losses = slack if loss == "hinge" else slack * slack
    return (C * losses).sum(axis=1) + 0.5 * np.einsum("ij,ij->i", H @ Q, H) - np.einsum("ij,ij->i", P, H)


def _cholesky(Q: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the Cholesky factor of Q, or of the nearest matrix that is positive definite up to round-off."""
    try:
        return linalg.cho_factor(Q)
    except linalg.LinAlgError:
        return linalg.cho_factor(Q + 4 * len(Q) * np.finfo(np.float64).eps * np.trace(Q) * np.eye(len(Q)))
