"""Initial values of a factorisation X = H B': singular vectors, their non-negative form, or random numbers."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold.numerics import SVD, RandomRows, randomized_svd
from labelfold.rows import Block, Rows, any_to_host
from labelfold.utils import warn_user

# Tolerance of initial values, which need not be exact.
_TOL = 1e-4
_MAX_ITER = 20

# The replacement of zeros in "nndsvda", relative to the mean of the factor.
_FILL = 0.01


class Start(NamedTuple):
    """Initial factors.

    Attributes
    ----------
    H : array of shape (n, k)
        One row for each row of X, stored with the rows.
    B : ndarray of shape (d, k)
        The basis.
    rank : int
        An upper bound of the rank of X; singular vectors beyond it are zero.
    sizes : ndarray of shape (k,)
        The singular values of X, 0 beyond its rank. For random or given factors, k equal values whose squares add up
        to the squared norm of X.
    """

    H: Any
    B: np.ndarray
    rank: int
    sizes: np.ndarray


def factor_start(
    rows: Rows, k: int, init: Any, squared_norm: float, random_state: Any, *, nonnegative: bool
) -> Start:
    """Return the factors named by ``init``, "svd", "nndsvd", "nndsvda" or "random", or given as ``init``.

    Parameters
    ----------
    rows : Rows
        n rows of d columns.
    k : int
        Number of columns of the factors. There is a warning if it exceeds the rank of X.
    init : str or (H, B)
        With ``nonnegative`` "svd" means "nndsvd". "nndsvda" has no zeros, for multiplicative updates, which keep
        zeros.
    squared_norm : float
        Squared norm of X, which scales random factors.
    random_state : int, RandomState instance or None
        Seed of the singular vectors or of the random factors.
    nonnegative : bool
        Whether the factors must be non-negative.

    Returns
    -------
    Start
    """
    start = _named_or_given(rows, k, init, squared_norm, random_state, nonnegative)
    if k > start.rank:
        warn_user(
            f"n_components={k} is more than the rank of X, at most {start.rank}; the components beyond it add "
            "nothing, so lower n_components"
        )
    return start


def _named_or_given(
    rows: Rows, k: int, init: Any, squared_norm: float, random_state: Any, nonnegative: bool
) -> Start:
    if not isinstance(init, str):
        return _given(rows, k, init, np.sqrt(squared_norm), nonnegative)
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    if init == "random":
        return random_start(rows, k, np.sqrt(squared_norm), seed, nonnegative=nonnegative)
    start = (nndsvd_start if nonnegative or init == "nndsvd" else svd_start)(rows, k, seed)
    return _without_zeros(rows, start) if init == "nndsvda" else start


def svd_start(rows: Rows, k: int, random_state: Any) -> Start:
    """Return H = U sqrt(s) and B = V sqrt(s), with zero columns beyond the rank of X."""
    found = _svd(rows, k, random_state, power=0.5)
    rank = len(found.s)
    wide = np.eye(rank, k)
    H = found.U if rank == k else rows.map(_times, found.U, shared=(wide,))
    return Start(H, found.Vt.T @ (np.sqrt(found.s)[:, None] * wide), rank, np.pad(found.s, (0, k - rank)))


def nndsvd_start(rows: Rows, k: int, random_state: Any) -> Start:
    """Return non-negative factors: the larger of the positive and the negative part of each pair of singular vectors.

    References
    ----------
    C. Boutsidis, E. Gallopoulos. SVD based initialization: a head start for nonnegative matrix factorization. Pattern
    Recognition 41, 2008.
    """
    found = _svd(rows, k, random_state)
    B, signs, scales = np.zeros((found.Vt.shape[1], k)), np.ones(len(found.s)), np.zeros(len(found.s))
    sizes_u = np.sqrt(rows.total(_squares_by_sign, found.U))  # (2, r)
    for j, s in enumerate(found.s):
        best = 0.0
        for sign, size_u in zip((1.0, -1.0), sizes_u[:, j], strict=True):
            v = np.maximum(sign * found.Vt[j], 0.0)
            size_v = np.linalg.norm(v)
            if size_u * size_v > best:
                best = float(size_u * size_v)
                root = np.sqrt(s * best)
                signs[j], scales[j], B[:, j] = sign, root / size_u, root * v / size_v
    H = rows.each(partial(_one_sign, signs, scales, k, rows.dtype), found.U)
    return Start(H, B, len(found.s), np.pad(found.s, (0, k - len(found.s))))


def _squares_by_sign(U: np.ndarray) -> np.ndarray:
    U = U.astype(np.float64)
    return np.array([np.square(np.maximum(sign * U, 0.0)).sum(axis=0) for sign in (1.0, -1.0)])


def _one_sign(
    signs: np.ndarray, scales: np.ndarray, k: int, dtype: Any, start: int, stop: int, U: np.ndarray
) -> np.ndarray:
    """Return the parts of one sign of singular vectors, scaled; columns beyond the rank are zero."""
    H = np.zeros((stop - start, k), dtype=dtype)
    H[:, : len(signs)] = scales * np.maximum(signs * U.astype(np.float64), 0.0)
    return H


def _without_zeros(rows: Rows, start: Start) -> Start:
    n, k = rows.shape[0], start.B.shape[1]
    least = _FILL * float(rows.total(np.sum, start.H)) / (n * k)
    H = rows.each(partial(_filled, least), start.H)
    return Start(H, np.where(start.B > 0, start.B, _FILL * start.B.mean()), start.rank, start.sizes)


def _filled(least: float, start: int, stop: int, H: np.ndarray) -> np.ndarray:
    return np.where(H > 0, H, H.dtype.type(least))


def random_start(rows: Rows, k: int, size: float, random_state: Any, *, nonnegative: bool) -> Start:
    """Return random factors whose product has a norm of about ``size``, drawn in row order on the host."""
    n, d = rows.shape
    rng = np.random.default_rng(random_state)
    B = rng.standard_normal((d, k)) * np.sqrt(size / (d * np.sqrt(k)))
    scale = float(np.sqrt(size / (n * np.sqrt(k))))
    H = rows.each(RandomRows(k, random_state, rng, scale, rows.dtype, nonnegative=nonnegative))
    return Start(H, np.abs(B) if nonnegative else B, min(k, n, d), np.full(k, size / np.sqrt(k)))


def _given(rows: Rows, k: int, init: Any, size: float, nonnegative: bool) -> Start:
    n, d = rows.shape
    init = [any_to_host(factor) for factor in init]
    shapes = [np.shape(factor) for factor in init]
    if shapes != [(n, k), (d, k)]:
        raise ValueError(
            f"init holds arrays of shapes {shapes}, where factors of shapes {(n, k)} and {(d, k)} are expected"
        )
    H, B = (np.asarray(factor, dtype=np.float64) for factor in init)
    if not (np.isfinite(H).all() and np.isfinite(B).all()):
        raise ValueError("init holds NaN or infinity, where finite numbers are expected")
    if nonnegative and (H.min() < 0 or B.min() < 0):
        raise ValueError("init holds negative numbers where none is expected; clip them")
    return Start(rows.put(H.astype(rows.dtype)), B, min(k, n, d), np.full(k, size / np.sqrt(k)))


def _svd(rows: Rows, k: int, random_state: Any, power: float = 0.0) -> SVD:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings(
            "ignore", message="n_components=.* is more than the rank", category=UserWarning
        )
        return randomized_svd(rows, k, tol=_TOL, max_iter=_MAX_ITER, random_state=random_state, power=power)


def _times(X: Block, U: Any, M: Any) -> Any:
    return U @ M
