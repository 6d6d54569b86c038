"""Rows that minimise a quadratic and the hinge losses of linear classifiers: the labelled rows of DRSVM."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from labelfold.factorization._components import minimise_rows


def hinge_losses(margins: np.ndarray, loss: str) -> np.ndarray:
    """Return the hinge max(0, 1 - m) of margins m, or its square, entry by entry."""
    slack = np.maximum(0.0, 1 - margins)
    return slack if loss == "hinge" else slack * slack


def hinge_rows(
    P: np.ndarray,
    Q: np.ndarray,
    W: np.ndarray,
    T: np.ndarray,
    C: np.ndarray,
    *,
    intercept: Any = 0.0,
    loss: str = "squared_hinge",
    nonnegative: bool = False,
    dual: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the h of every row that minimises 1/2 h'Qh - p'h and its weighted losses, and its dual variables.

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
    intercept : float or ndarray of shape (r,)
        The intercepts of the classifiers.
    loss : {"squared_hinge", "hinge"}
        max(0, 1 - z), or its square.
    nonnegative : bool
        Whether h >= 0.
    dual : ndarray, optional
        Initial dual variables.

    Returns
    -------
    H : ndarray of shape (l, k)
        The minimisers.
    dual : ndarray of shape (l, r) or (l, r + k)
        Signed dual variables, a warm start for rows that change little.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> hinge_rows(0 * one, one, 2 * one, one, one, loss="hinge")[0]      # max(0, 1 - 2 h) + h^2 / 2
    array([[0.5]])
    """
    k = W.shape[1]
    factor = _cholesky(Q)
    q = linalg.cho_solve(factor, P.T).T  # (l, k)
    V = linalg.cho_solve(factor, W.T).T  # (r, k)
    margins = q @ W.T + intercept  # (l, r)
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
    minimise_rows(W @ V.T, diagonal, margins - goal, low, high, s, scale)
    H = q + s @ V
    return np.maximum(H, 0.0) if nonnegative else H, s


def hinge_row_objectives(
    H: np.ndarray,
    P: np.ndarray,
    Q: np.ndarray,
    W: np.ndarray,
    T: np.ndarray,
    C: np.ndarray,
    *,
    intercept: Any = 0.0,
    loss: str = "squared_hinge",
) -> np.ndarray:
    """Return the objective of each row's h, (l,)."""
    losses = C * hinge_losses(T * (H @ W.T + intercept), loss)
    return losses.sum(axis=1) + 0.5 * np.einsum("ij,ij->i", H @ Q, H) - np.einsum("ij,ij->i", P, H)


def _cholesky(Q: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the Cholesky factor of Q, or of the nearest matrix that is positive definite up to round-off."""
    try:
        return linalg.cho_factor(Q)
    except linalg.LinAlgError:
        return linalg.cho_factor(Q + 4 * len(Q) * np.finfo(np.float64).eps * np.trace(Q) * np.eye(len(Q)))
