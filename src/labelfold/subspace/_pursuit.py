r"""The pursuit: directions one at a time, each the global maximum of its gain.

With residual rows R (n, d), of which Z are the labelled ones, and residual responses r (l, q), the next direction
maximises the decrease of the objective (eq. 2 of the paper, with its multipliers eliminated),

.. math:: J(w) = \frac{\|r'Zw\|^2}{\|Zw\|^2} + \lambda \frac{\|Rw\|^2}{\|w\|^2},

and then the explained part is subtracted from r and R. R is never computed: w is kept orthogonal to the previous
directions, and for such w the products with the residual rows are those with the rows themselves. The search for one
direction is in `_direction_search.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from labelfold.base import Iterates, descend
from labelfold.subspace._direction_search import PROVED, Search
from labelfold.subspace._vector_spaces import MatrixSpace, Space


class Pursuit(NamedTuple):
    """Result of a pursuit.

    Attributes
    ----------
    W : ndarray of shape (size, k)
        The directions, orthonormal in their space.
    alpha : ndarray of shape (k, q)
        Coefficients, each fitted to the residual after the previous directions.
    Z : ndarray of shape (l, k)
        The scores of the labelled rows.
    gains : ndarray of shape (k,)
        J of each direction: the decrease of the objective.
    objective : ndarray of shape (k,)
        The objective of eq. 2 with 1, 2 ... k directions.
    n_iter : int
        Number of products with S, for a block of vectors each.
    converged : bool
        Whether every direction is stationary to the tolerance.
    exhausted : bool
        Whether fewer directions were found than requested, because the rows have no more.
    """

    W: np.ndarray
    alpha: np.ndarray
    Z: np.ndarray
    gains: np.ndarray
    objective: np.ndarray
    n_iter: int
    converged: bool
    exhausted: bool


def pursue(
    space: Space,
    Y: np.ndarray,
    weight: float,
    n_components: int,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
    random_state: int = 0,
    keep_on_interrupt: bool = False,
    callback: Callable[[int, float], None] | None = None,
) -> Pursuit:
    """Find directions one at a time; fewer than requested if the rank of the rows is smaller.

    Parameters
    ----------
    space : Space
        The rows.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows, less their mean if there is an intercept.
    weight : float
        Weight of the reconstruction, lambda.
    n_components : int
        Largest number of directions.
    tol : float
        Tolerance: the norm of J's gradient, relative to J.
    max_iter : int
        Largest number of steps for a direction.
    random_state : int
        Seed of the random start vectors.
    keep_on_interrupt : bool
        Whether Ctrl-C returns the directions found so far.
    callback : callable, optional
        Called with the number of directions and the relative decrease of the objective by the last one.

    Returns
    -------
    Pursuit
    """
    r = np.array(Y, dtype=np.float64)
    left = float((r**2).sum()) + weight * space.square
    V = None
    if isinstance(space, MatrixSpace) and space.size <= PROVED:
        space, V = space.row_space()
    if not space.size or space.square <= 0:
        nothing = np.empty((len(r), 0))
        return Pursuit(np.empty((space.size, 0)), nothing.T, nothing, r[:0, 0], r[:0, 0], 0, True, True)
    search = Search(space, weight, n_components, tol, max_iter, np.random.default_rng(random_state))
    gains: list[float] = []
    alphas: list[np.ndarray] = []
    path = descend(
        _directions(search, r, left, gains, alphas),
        max_iter=n_components,
        tol=None,
        start=(None, left),
        keep_on_interrupt=keep_on_interrupt,
        callback=callback,
    )
    k = len(path.objective)
    taken = search.taken @ np.eye(search.taken.n_vectors)[:, :k]
    return Pursuit(
        taken.Q if V is None else V @ taken.Q,
        np.array(alphas[:k]).reshape(k, r.shape[1]),
        taken.ZQ,
        np.array(gains[:k]),
        np.array(path.objective),
        search.n_iter,
        search.converged,
        path.converged,
    )


def _directions(
    search: Search, r: np.ndarray, left: float, gains: list[float], alphas: list[np.ndarray]
) -> Iterates:
    """Find one direction after the other, store its gain and coefficients, and yield the remaining objective."""
    while (found := search.next_direction(r)) is not None:
        z, gain = found
        square = float(z @ z)
        alpha = (z @ r) / square if square > search.least else np.zeros(r.shape[1])
        r = r - np.outer(z, alpha)
        left -= gain
        gains.append(gain)
        alphas.append(alpha)
        yield None, left
