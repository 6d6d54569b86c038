r"""Rows that minimise a quadratic plus hinge losses, each solved exactly.

.. math:: \min_h \; \tfrac12 h'Qh - p'h + \sum_j C_j\, \ell\bigl(t_j (w_j'h + b_j)\bigr)
          \qquad (\text{optionally } h \ge 0)

for many rows (p, t, C) that share Q (k x k, positive definite), the r classifiers W (r x k) and their intercepts b.
With q = Q^{-1}p the minimiser is h = q + Q^{-1}(W's + m), where s = t o (dual variables of the losses) and m >= 0 are
the multipliers of h >= 0. Both follow from a small quadratic problem with bounds, with the same matrix for every row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from labelfold.rows import run_jobs, shares

# What the last round over a row's dual variables may still gain, relative to the row's own scale: the distance to the
# minimum goes with the root of that.
_TOL = 1e-24
_MAX_ROUNDS = 2000
# Rounds that most rows take, by which the work is estimated.
_ROUNDS = 8


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
    from labelfold.factorization import _box_loops as box_loops

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

    run_jobs(minimise, shares(len(s), _ROUNDS * float(s.size) * s.shape[1]))
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
