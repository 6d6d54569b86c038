"""Least squares with non-negative unknowns, row by row: exactly, or one step at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from scipy import linalg

from labelfold.rows import on_gpu, run_jobs, shares, to_device, to_host

# Tolerance of a row: largest gain of its last round, relative to the row's own scale.
_TOL = 1e-24
_MAX_ROUNDS = 2000
# Reciprocal condition of Q below which coordinate steps may gain almost nothing far from the minimum.
_STIFF = 1e-6
# The same tolerance for float32, and the number of rounds on a device, after which the host solves remaining rows.
_TOL_SINGLE = 1e-12
_DEVICE_ROUNDS = 200
# Condition of Q up to which a device solves the rows directly: in float32, which loses no more digits than to round P
# does; in float32 with a correction; in float64.
_GOOD, _SOLVED_SINGLE, _SOLVED = 1e3, 1e4, 1e8
# Condition of Q up to which a device starts from the solution without bounds.
_WELL_CONDITIONED = 1e4
# Number of rounds of coordinate steps on a device between two solves of the variables that are not at 0.
_ROUNDS = 4
# Rounds that most rows take, by which the work is estimated.
_HINGE_ROUNDS = 8


def nonnegative_rows(P: Any, Q: np.ndarray) -> Any:
    """Return the h >= 0 that minimises 1/2 h'Qh - p'h, for each row p of P; Q is positive definite.

    P is an array of any library, and the result has its type and dtype. On the host it is computed in float64.

    Examples
    --------
    >>> import numpy as np
    >>> nonnegative_rows(np.array([[1.0, -2.0]]), np.eye(2))
    array([[1., 0.]])
    """
    return _on_device(P, Q) if on_gpu(P) else _on_host(P, Q)


def _on_host(given: Any, Q: np.ndarray) -> Any:
    from labelfold.factorization import _loops as box_loops

    P = np.ascontiguousarray(to_host(given), dtype=np.float64)
    H, zeros = np.zeros_like(P), np.zeros_like(P)
    factor = linalg.cho_factor(Q)
    q = linalg.cho_solve(factor, P.T).T
    stiff = linalg.lapack.dpocon(factor[0], np.linalg.norm(Q, 1))[0] < _STIFF
    least = _TOL * 0.5 * np.einsum("ij,ij->i", P, q)
    box_loops.minimise(Q, zeros, -P, zeros, np.full(P.shape, np.inf), H, least, _MAX_ROUNDS, stiff)
    return _there(array_namespace(given), H, given)


def _on_device(P: Any, Q: np.ndarray) -> Any:
    """Return the same by the loops of a GPU; rows that do not converge there are solved on the host."""
    from labelfold.factorization import _triton_loops as loops, _triton_pivots as pivots

    xp = array_namespace(P)
    condition = np.linalg.cond(Q)
    if pivots.takes(len(Q)) and condition <= _SOLVED:
        single = bool(P.dtype == xp.float32 and condition <= _SOLVED_SINGLE)
        H, n_systems = pivots.nonnegative_rows(
            P, Q, single=single, corrected=single and bool(condition > _GOOD)
        )
        settled = n_systems > 0
    else:
        tol = _TOL if P.dtype == xp.float64 else _TOL_SINGLE
        there, inverse = _there(xp, Q, P), _there(xp, linalg.inv(Q), P)
        # The solution without bounds is no start where it is large only because Q is nearly singular.
        from_free = bool(condition <= _WELL_CONDITIONED)
        H, settled = loops.nonnegative_rows(
            P, there, inverse, tol, _DEVICE_ROUNDS, _ROUNDS, from_free=from_free
        )
    if not bool(xp.all(settled)):
        left = xp.nonzero(~settled)[0]
        H[left] = _on_host(xp.take(P, left, axis=0), Q)
    return H


def _there(xp: Any, a: np.ndarray, like: Any) -> Any:
    """Return a host array on the device of another array and in its dtype."""
    return to_device(xp, a, device(like), like.dtype)


def hals(H: Any, P: Any, Q: Any, rounds: int = 1) -> Any:
    """Return H after rounds of HALS: each column in turn minimises 1/2 tr(HQH') - tr(P'H), clipped at 0.

    Rows are independent: a round is one exact step for each coordinate of each row.

    Examples
    --------
    >>> import numpy as np
    >>> hals(np.zeros((1, 2)), np.array([[1.0, -2.0]]), np.eye(2))
    array([[1., 0.]])
    """
    if isinstance(H, np.ndarray):
        from labelfold.factorization import _loops as box_loops

        H = np.array(H, order="C")
        box_loops.clipped_steps(H, np.asarray(P, H.dtype), np.asarray(Q, H.dtype), rounds)
        return H
    if not on_gpu(H, P):
        return _hals_anywhere(H, P, Q, rounds)
    from labelfold.factorization import _triton_loops as loops

    return loops.hals_rows(H, P, Q, rounds)


def _hals_anywhere(H: Any, P: Any, Q: Any, rounds: int) -> Any:
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

    run_jobs(minimise, shares(len(s), _HINGE_ROUNDS * float(s.size) * s.shape[1]))
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
