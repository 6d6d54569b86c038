r"""Ridge regression in every view, its leave-one-out errors in closed form, and the resulting weights of the views.

The constant k is added to the kernel K of the l labelled rows in a view, which is a shrunk intercept. With
:math:`K_k = K + k 11'`, ridge g and the hat matrix H,

.. math:: \alpha = (K_k + g I)^{-1} Y, \qquad H = K_k (K_k + g I)^{-1}, \qquad r_i = (y_i - f_i) / (1 - h_{ii}),

r_i is the leave-one-out residual of row i. If several rows S are left out together, their residuals are
:math:`(I - H_{SS})^{-1} (y_S - f_S)`. This gives the residuals of rows that belong together, and the errors that a
view would have without row i, or without its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from labelfold.model_selection import Groups

# Eigenvalues of a kernel below this share of the largest are round-off.
_ROUND_OFF = 1e-12

# Lower bound of 1 - h_ii, which is 0 if a row determines its own value.
_LEAST_GAP = 1e-9

# Weights below this share of the largest are 0.
NEGLIGIBLE = 1e-4

# Number of labelled rows that the indecision on unlabelled rows counts for.
_MORE_ROWS = 20

# Exponent of the error in the weights, for each row.
_POWER = 1 / 3


class Reserved(NamedTuple):
    """A share of the weight that is reserved for some views.

    Attributes
    ----------
    views : ndarray of shape (v,), bool
        Mask of the views.
    share : float
        The share if their loss is the least.
    power : float
        How fast the share falls with their loss, as a multiple of the exponent in `weights`.
    """

    views: np.ndarray
    share: float
    power: float


class Spectrum(NamedTuple):
    """The eigendecomposition K + k 11' = U diag(s) U' for the labelled rows in a view."""

    U: np.ndarray
    s: np.ndarray


def spectrum(own: np.ndarray, is_kernel: bool, constant: float) -> Spectrum:
    """Return the eigenvectors of a kernel (l, l), or of the kernel of features (l, p), p < l, plus a constant."""
    if is_kernel:
        s, V = np.linalg.eigh(own + constant)
    else:
        phi = with_constant(own, constant)
        s, V = np.linalg.eigh(phi.T @ phi)
    keep = s > _ROUND_OFF * s[-1]
    s, V = s[keep], V[:, keep]
    return Spectrum(V if is_kernel else phi @ (V / np.sqrt(s)), s)


def with_constant(phi: np.ndarray, constant: float) -> np.ndarray:
    """Return features with an additional constant one."""
    return np.hstack([phi, np.full((len(phi), 1), np.sqrt(constant))])


def coefficients(found: Spectrum, Y: np.ndarray, ridges: np.ndarray) -> np.ndarray:
    """Return alpha for every ridge, (r, l, c), without its component in the null space of the kernel."""
    U, s = found
    return U @ ((U.T @ Y) / (s + ridges[:, None])[:, :, None])


class LeftOut(NamedTuple):
    """Ridge regression in one view, for each of r ridges.

    Attributes
    ----------
    residuals : ndarray of shape (r, l, c)
        y_i less its prediction, with row i and its group left out.
    leverage : ndarray of shape (r, l)
        h_ii.
    """

    residuals: np.ndarray
    leverage: np.ndarray


def leave_one_out(found: Spectrum, Y: np.ndarray, ridges: np.ndarray, groups: Groups) -> LeftOut:
    """Return the residuals of every ridge, each row left out together with its group."""
    U, s = found
    shrink = s / (s + ridges[:, None])  # (r, k)
    gaps = Y - U @ (shrink[:, :, None] * (U.T @ Y))  # (r, l, c)
    leverage = shrink @ (U**2).T
    if groups.are_single:
        return LeftOut(gaps / np.maximum(1 - leverage, _LEAST_GAP)[:, :, None], leverage)
    for r, each in enumerate(shrink):
        for rows in groups.by_size:
            own = U[rows]  # (g, m, k)
            if own.shape[1] <= own.shape[2]:
                gaps[r, rows] = _without((own * each) @ own.swapaxes(1, 2), gaps[r, rows])
                continue
            # (I - U S U')^-1 = I + U (S^-1 - U'U)^-1 U', a k x k system for a large group
            inner = (1 + _LEAST_GAP) * np.eye(len(s)) / each - own.swapaxes(1, 2) @ own
            gaps[r, rows] += own @ np.linalg.solve(inner, own.swapaxes(1, 2) @ gaps[r, rows])
    return LeftOut(gaps, leverage)


def _without(H: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return (I - H)^-1 e for blocks H (g, m, m) of the hat matrix, and e (g, m, c)."""
    return np.linalg.solve((1 + _LEAST_GAP) * np.eye(H.shape[-1]) - H, e)


def squared_errors(residuals: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    """Return the squared norm of each row of residuals (..., l, c), columns divided by ``scale`` (c,)."""
    return ((residuals / scale) ** 2).sum(axis=-1)


def undecided(F: np.ndarray) -> np.ndarray:
    """Return the mean squared distance of class scores F (..., u, c) from the nearest class indicator.

    Two classes are one column, coded -1 and +1; more are c columns, less 1/c.
    """
    if F.shape[-1] == 1:
        return ((1 - np.minimum(np.abs(F[..., 0]), 3)) ** 2).mean(axis=-1)
    F = F + 1 / F.shape[-1]
    top = F.argmax(axis=-1)[..., None]
    nearest = np.zeros_like(F)
    np.put_along_axis(nearest, top, 1.0, axis=-1)
    return ((np.clip(F, -1, 2) - nearest) ** 2).sum(axis=-1).mean(axis=-1)


def weights(
    errors: np.ndarray,
    n_labelled: int,
    doubts: np.ndarray | None,
    prior: np.ndarray,
    reserved: Sequence[Reserved] = (),
    least: float = NEGLIGIBLE,
) -> np.ndarray:
    """Return the weight of each view and ridge (v, r, ...); they sum to 1 over both.

    The loss of a view is a mean over the l labelled rows and 20 more, whose loss is the indecision of the view on
    unlabelled rows. The indecision distinguishes views if there are few labels, and matters little if there are many.
    A view is weighted by its best ridge, and its weight is divided among its ridges.

    Parameters
    ----------
    errors : ndarray of shape (v, r, ...)
        Leave-one-out errors; infinite for a ridge that is excluded.
    n_labelled : int
        l, or the number of groups of labelled rows.
    doubts : ndarray of shape (v, r, ...) or None
        Indecision on unlabelled rows; None if there are no classes to decide between.
    prior : ndarray of shape (v,)
        Prior weights.
    reserved : sequence of Reserved
        Shares that are reserved for some views, applied in order.
    least : float
        Weights below this share of the largest are 0.
    """
    more = 0 if doubts is None else _MORE_ROWS
    loss = errors if doubts is None else (n_labelled * errors + more * doubts) / (n_labelled + more)
    log = -(n_labelled + more) * _POWER * np.log(np.maximum(loss, np.finfo(float).tiny))
    best = log.max(axis=1, keepdims=True)
    within = np.exp(log - np.where(np.isfinite(best), best, 0.0))
    within /= np.maximum(within.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    best = best + np.log(prior).reshape(-1, *[1] * (best.ndim - 1))

    def shared(best: np.ndarray) -> np.ndarray:
        w = np.exp(best - best.max(axis=0))
        return w / w.sum(axis=0)

    w = shared(best)
    for views, most, power in reserved:
        if views.any() and np.isfinite(best[views]).any(axis=0).all():
            share = most * np.exp(power * (best[views].max(axis=0) - best.max(axis=0)))
            w = (1 - share) * w
            w[views] += share * shared(best[views])
    w = w * within
    w[w < least * w.max(axis=(0, 1))] = 0.0
    return w / w.sum(axis=(0, 1))


def errors_without_each(
    found: Spectrum, Y: np.ndarray, ridges: np.ndarray, groups: Groups, scale: np.ndarray | float
) -> np.ndarray:
    """Return the left-out error of each ridge without the group of row i, (r, l), for each i."""
    U, s = found
    errors = np.empty((len(ridges), len(U)))
    for r, ridge in enumerate(ridges):
        H = (U * (s / (s + ridge))) @ U.T
        e = (Y - H @ Y) / scale
        errors[r] = _without_pairs(H, e) if groups.are_single else _without_groups(H, e, groups)
    return errors


def _without_pairs(H: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Return for each row i the mean squared residual of the other rows j, each without i and j."""
    n, gap = len(H), np.maximum(1 - np.diagonal(H), _LEAST_GAP)
    determinant = np.maximum(np.outer(gap, gap) - H**2, _LEAST_GAP**2)
    # The residual of j without i and j is ((1 - h_ii) e_j + h_ij e_i) / determinant.
    own, cross, here = (e**2).sum(axis=1), e @ e.T, gap[:, None]
    squares = (here**2 * own + 2 * here * H * cross + H**2 * own[:, None]) / determinant**2
    np.fill_diagonal(squares, 0.0)
    return squares.sum(axis=1) / max(1, n - 1)


def _without_groups(H: np.ndarray, e: np.ndarray, groups: Groups) -> np.ndarray:
    """Return for each row the mean squared residual of the rows of other groups, each without both groups."""
    n, errors = len(H), np.empty(len(H))
    blocks = [(rows, H[rows[:, :, None], rows[:, None, :]]) for rows in groups.by_size]
    for own in (group for rows in groups.by_size for group in rows):
        # H and e of the regression without the group
        turn = _without(H[np.ix_(own, own)], np.hstack([e[own], H[own]]))
        moved, back = e + H[:, own] @ turn[:, : e.shape[1]], turn[:, e.shape[1] :]
        squares = np.zeros(n)
        for rows, block in blocks:
            left = block + H[rows[:, :, None], own] @ np.moveaxis(back[:, rows], 0, 1)
            squares[rows] = (_without(left, moved[rows]) ** 2).sum(axis=-1)
        squares[own] = 0.0
        errors[own] = squares.sum() / max(1, n - len(own))
    return errors
