r"""The two-stage approach: a generalised eigenproblem at the price of least squares (Sun, Ceran & Ye, KDD 2010).

Every technique of the family maximises :math:`\mathrm{tr}(W' X_c' T T' X_c W)` under
:math:`W'(X_c'X_c + g I)W = I`, each with a target matrix T of its own. With the paper's letters (X here has one
row a sample, T is the paper's H, g its gamma):

.. math::

    W_1 &= \arg\min \|X_c W_1 - T\|_F^2 + g \|W_1\|_F^2              && \text{stage 1, eq. 27} \\
    D &= W_1' X_c' T = E\, \mathrm{diag}(s)\, E'                     && \text{stage 2} \\
    W &= W_1 E\, \mathrm{diag}(s)^{-1/2}

W spans what the direct problem spans, and s are its eigenvalues, without any assumption on X (theorems 2 and 4).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from labelfold.numerics.least_squares import MAX_GRAM_BYTES, centered, least_squares, triangle
from labelfold.rows import Rows

# Eigenvalues closer than this, relative, are one eigenvalue.
_EQUAL = 1e-9


class Directions(NamedTuple):
    """What either solver finds.

    Attributes
    ----------
    W : ndarray of shape (d, k)
        Directions, W'(X_c'X_c + g I)W = I.
    s : ndarray of shape (k,)
        Eigenvalues, descending.
    targets : ndarray of shape (k, q)
        W'X_c'T: what the directions make of each target.
    mean : ndarray of shape (d,)
        The mean of the rows that count.
    n_iter : int
        Iterations of stage 1.
    """

    W: np.ndarray
    s: np.ndarray
    targets: np.ndarray
    mean: np.ndarray
    n_iter: int


def two_stage(rows: Rows, T: np.ndarray, ridge: float, **options: Any) -> Directions:
    """Find the directions by least squares; ``options`` are those of `least_squares`."""
    stage1 = least_squares(rows, T, ridge, **options)
    s, E = np.linalg.eigh(stage1.D)
    s, E = s[::-1], E[:, ::-1]
    keep = s > _tiny(rows) * max(s[0], 0.0)
    s, E = s[keep], E[:, keep]
    E = E @ _settle(s, E.T)
    root = np.sqrt(s)
    return _signed(Directions(stage1.W @ (E / root), s, root[:, None] * E.T, stage1.mean, stage1.n_iter))


def direct(
    rows: Rows,
    T: np.ndarray,
    ridge: float,
    *,
    mask: np.ndarray | None = None,
    max_gram_bytes: int = MAX_GRAM_BYTES,
) -> Directions:
    """Find the directions from the dense d x d problem: for small data, and for comparison."""
    n, d = rows.shape
    if 8 * d * d > max_gram_bytes:
        raise ValueError(
            f'solver="direct" needs a {d} x {d} matrix of {8 * d * d / 2**20:,.0f} MB, more than '
            f"max_gram_bytes={max_gram_bytes:,} allows; use solver='two-stage', or raise max_gram_bytes"
        )
    weights = np.ones(n) if mask is None else mask.astype(np.float64)
    mean = rows.t(weights) / weights.sum()
    T = (T - weights @ T / weights.sum()) * weights[:, None]
    # X_c'X_c = R'R: its eigenvalues are R's singular values squared, with all their digits.
    R = centered(rows, mean, mask).sum(triangle, T)
    U, sigma, Vt = np.linalg.svd(R[:d, :d])
    rank = int((sigma > max(n, d) * np.finfo(np.float64).eps * sigma.max(initial=0.0)).sum())
    sigma, V = sigma[:rank], Vt[:rank].T
    damped = np.sqrt(sigma**2 + ridge)
    B = (sigma / damped)[:, None] * (U[:, :rank].T @ R[:d, d:])  # eq. 31
    P, root, Et = np.linalg.svd(B, full_matrices=False)
    keep = root**2 > _tiny(rows) * max(root.max(initial=0.0) ** 2, 0.0)
    P, root, Et = P[:, keep], root[keep], Et[keep]
    turn = _settle(root**2, Et)
    P, Et = P @ turn, turn.T @ Et
    return _signed(Directions(V @ (P / damped[:, None]), root**2, root[:, None] * Et, mean, 1))


def keep_components(found: Directions, n_components: int | None) -> Directions:
    """Return the leading directions; warn where there are fewer than asked for."""
    rank = len(found.s)
    if rank == 0:
        raise ValueError(
            "no direction tells the classes apart: in every column of X the labelled rows have the same mean in "
            "each class; give columns that vary, or check that y belongs to these rows"
        )
    if n_components is not None and n_components > rank:
        warnings.warn(
            f"n_components={n_components} is more than the {rank} direction{'s' * (rank != 1)} these labels and "
            f"columns allow; {rank} {'are' if rank != 1 else 'is'} kept",
            UserWarning,
            stacklevel=3,
        )
    k = rank if n_components is None else min(n_components, rank)
    return Directions(found.W[:, :k], found.s[:k], found.targets[:k], found.mean, found.n_iter)


def _tiny(rows: Rows) -> float:
    """Return what counts as zero beside the largest eigenvalue."""
    return 10 * max(rows.shape) * float(np.finfo(np.float64).eps)


def _settle(s: np.ndarray, Et: np.ndarray) -> np.ndarray:
    """Return the rotation that settles directions of equal eigenvalue, which the problem leaves open.

    With ridge 0 and fewer rows than columns every eigenvalue is 1, and round-off would choose. Within such a
    group the directions are turned until their targets are upper triangular, which is one basis only.
    """
    turn = np.eye(len(s))
    groups = np.split(np.arange(len(s)), np.flatnonzero(s[1:] < s[:-1] * (1 - _EQUAL)) + 1)
    for group in groups:
        if len(group) > 1:
            turn[np.ix_(group, group)] = np.linalg.qr(Et[group])[0]
    return turn


def _signed(found: Directions) -> Directions:
    """Make the largest coefficient of each direction positive, so that every container gives the same signs."""
    if not found.W.size:
        return found
    signs = np.sign(found.W[np.abs(found.W).argmax(axis=0), np.arange(found.W.shape[1])])
    return found._replace(W=found.W * signs, targets=found.targets * signs[:, None])
