"""Where a factorisation X = H B' starts: from singular vectors, their non-negative form, or at random."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from labelfold._warn import warn_user
from labelfold.numerics._svd import SVD, randomized_svd
from labelfold.rows import Block, Rows
from labelfold.rows import _threads as threads
from labelfold.rows.adapters._device_blocks import any_to_host

# A start need not be exact: the factorisation goes on from it.
_TOL = 1e-4
_MAX_ITER = 20

# Random rows are drawn so many at a time.
_DRAWN = 1 << 16

# What takes the place of zeros in "nndsvda", relative to the mean of the factor.
_FILL = 0.01


class Start(NamedTuple):
    """Factors to start from.

    Attributes
    ----------
    H : array of shape (n, k)
        One row each, living with the rows.
    B : ndarray of shape (d, k)
        The basis.
    rank : int
        The most that the rank of X can be; singular vectors beyond it are zero.
    sizes : ndarray of shape (k,)
        The singular values of X, 0 beyond its rank; for factors that are drawn or given, which know none, k equal
        values whose squares sum to the squared norm of X.
    """

    H: Any
    B: np.ndarray
    rank: int
    sizes: np.ndarray


def factor_start(
    rows: Rows, k: int, init: Any, squared_norm: float, random_state: Any, *, nonnegative: bool
) -> Start:
    """Return the factors that ``init`` names, "svd", "nndsvd", "nndsvda" or "random", or those it holds.

    Parameters
    ----------
    rows : Rows
        n rows of d columns.
    k : int
        Columns of the factors; more than the rank of X is said.
    init : str or (H, B)
        With ``nonnegative`` "svd" means "nndsvd"; "nndsvda" is that with no zeros, for updates that never leave one.
    squared_norm : float
        That of X, by which random factors are sized.
    random_state : int, RandomState instance or None
        Seeds the singular vectors or the random factors.
    nonnegative : bool
        Whether the factors must not be negative.

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
    """Return H = U sqrt(s) and B = V sqrt(s), columns beyond the rank of X zero."""
    found = _svd(rows, k, random_state)
    roots = np.zeros((len(found.s), k))
    np.fill_diagonal(roots, np.sqrt(found.s))
    return Start(
        rows.map(_times, found.U, shared=(roots,)), found.Vt.T @ roots, len(found.s), roots.max(axis=0) ** 2
    )


def nndsvd_start(rows: Rows, k: int, random_state: Any) -> Start:
    """Return non-negative factors: of each pair of singular vectors, the larger of the parts of one sign.

    References
    ----------
    C. Boutsidis, E. Gallopoulos. SVD based initialization: a head start for nonnegative matrix factorization. Pattern
    Recognition 41, 2008.
    """
    found = _svd(rows, k, random_state)
    U = np.asarray(rows.get(found.U), dtype=np.float64)
    H, B = np.zeros((len(U), k)), np.zeros((found.Vt.shape[1], k))
    for j, s in enumerate(found.s):
        best = 0.0
        for sign in (1.0, -1.0):
            u, v = np.maximum(sign * U[:, j], 0.0), np.maximum(sign * found.Vt[j], 0.0)
            size_u, size_v = np.linalg.norm(u), np.linalg.norm(v)
            if size_u * size_v > best:
                best = float(size_u * size_v)
                root = np.sqrt(s * best)
                H[:, j], B[:, j] = root * u / size_u, root * v / size_v
    return Start(rows.put(H.astype(rows.dtype)), B, len(found.s), np.pad(found.s, (0, k - len(found.s))))


def _without_zeros(rows: Rows, start: Start) -> Start:
    H = np.array(rows.get(start.H))
    H, B = (np.where(factor > 0, factor, _FILL * factor.mean()) for factor in (H, start.B))
    return Start(rows.put(H.astype(rows.dtype)), B, start.rank, start.sizes)


def random_start(rows: Rows, k: int, size: float, random_state: Any, *, nonnegative: bool) -> Start:
    """Return random factors whose product has about the norm ``size``, drawn in row order on the host."""
    n, d = rows.shape
    rng = np.random.default_rng(random_state)
    B = rng.standard_normal((d, k)) * np.sqrt(size / (d * np.sqrt(k)))
    H = np.empty((n, k), dtype=rows.dtype)
    starts = range(0, n, _DRAWN)
    # The first rows with the generator itself, the others with children of it, so that threads can share the work.
    pieces = list(zip(starts, [rng, *rng.spawn(len(starts) - 1)], strict=True))

    def draw(pieces: list, stop: Any) -> None:
        for start, own in pieces:
            part = H[start : start + _DRAWN]
            drawn = own.standard_normal(part.shape)
            drawn *= np.sqrt(size / (n * np.sqrt(k)))
            part[:] = np.abs(drawn, out=drawn) if nonnegative else drawn

    n_jobs = min(len(pieces), threads.n_threads())
    threads.run(draw, [pieces[i::n_jobs] for i in range(n_jobs)])
    return Start(rows.put(H), np.abs(B) if nonnegative else B, min(k, n, d), np.full(k, size / np.sqrt(k)))


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


def _svd(rows: Rows, k: int, random_state: Any) -> SVD:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings(
            "ignore", message="n_components=.* is more than the rank", category=UserWarning
        )
        return randomized_svd(rows, k, tol=_TOL, max_iter=_MAX_ITER, random_state=random_state)


def _times(X: Block, U: Any, M: Any) -> Any:
    return U @ M
