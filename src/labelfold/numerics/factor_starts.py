"""Where a factorisation X = H B' starts: from singular vectors, their non-negative form, or at random."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from labelfold.numerics.svd import SVD, randomized_svd
from labelfold.rows import Rows

# A start need not be exact: the factorisation goes on from it.
_TOL = 1e-4
_MAX_ITER = 20


class Start(NamedTuple):
    """Factors to start from.

    Attributes
    ----------
    H : array of shape (n, k)
        One row each, living with the rows.
    B : ndarray of shape (d, k)
        The basis.
    rank : int
        How many columns are not zero.
    """

    H: Any
    B: np.ndarray
    rank: int


def svd_start(rows: Rows, k: int, random_state: Any) -> Start:
    """Return H = U sqrt(s) and B = V sqrt(s), columns beyond the rank zero."""
    found = _svd(rows, k, random_state)
    root = np.sqrt(found.s)
    B = _padded(found.Vt.T * root, k)
    H = rows.map(_scaled, found.U, shared=(_padded(np.diag(root), k),))
    return Start(H, B, len(found.s))


def nndsvd_start(rows: Rows, k: int, random_state: Any) -> Start:
    """Return the non-negative start of Boutsidis & Gallopoulos (2008): the larger same-signed part of each pair."""
    found = _svd(rows, k, random_state)
    U = np.asarray(rows.get(found.U), dtype=np.float64)
    H, B = np.zeros((len(U), k)), np.zeros((found.Vt.shape[1], k))
    for j, s in enumerate(found.s):
        best = 0.0
        for sign in (1.0, -1.0):
            u, v = np.maximum(sign * U[:, j], 0.0), np.maximum(sign * found.Vt[j], 0.0)
            size_u, size_v = np.linalg.norm(u), np.linalg.norm(v)
            if size_u * size_v > best:
                best = size_u * size_v
                root = np.sqrt(s * best)
                H[:, j], B[:, j] = root * u / size_u, root * v / size_v
    return Start(rows.put(H.astype(rows.dtype)), B, len(found.s))


def random_start(
    rows: Rows, k: int, size: float, random_state: np.random.Generator, *, nonnegative: bool
) -> Start:
    """Return random factors whose product has about the Frobenius norm ``size``, drawn in row order on the host."""
    n, d = rows.shape
    B = random_state.standard_normal((d, k)) * np.sqrt(size / (d * k))
    H = random_state.standard_normal((n, k)) * np.sqrt(size / (n * k))
    if nonnegative:
        H, B = np.abs(H), np.abs(B)
    return Start(rows.put(H.astype(rows.dtype)), B, k)


def _svd(rows: Rows, k: int, random_state: Any) -> SVD:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="n_components=.* is more than the rank", category=UserWarning)
        return randomized_svd(rows, k, tol=_TOL, max_iter=_MAX_ITER, random_state=random_state)


def _padded(A: np.ndarray, k: int) -> np.ndarray:
    return np.hstack([A, np.zeros((len(A), k - A.shape[1]))])


def _scaled(X: Any, U: Any, roots: Any) -> Any:
    return U @ roots
