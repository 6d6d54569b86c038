"""Largest eigenvalues of a symmetric matrix that is given by its products, by a block Krylov method."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from labelfold.numerics._block_cg import Operator
from labelfold.rows import n_threads, run_jobs

# The basis grows to this many times the width of a block, and is then reduced to its best vectors.
_MOST_BLOCKS = 4

# After projection against V, a column is round-off if its relative norm is below the first value, and a combination
# of unit columns if its squared norm is below the second.
_NOISE = 1e-14
_DEPENDENT = 1e-12
# The factor by which an orthonormal basis may magnify the square of round-off, in the mean over its vectors, before
# columns are projected a second time.
_MAGNIFIED = 2.0

# The smallest attainable residual, in units of round-off.
ROUND_OFF = 10
# Number of random rows drawn by one generator.
_PIECE = 1 << 16


class Eigen(NamedTuple):
    """Eigenvalues and eigenvectors at the end of an iteration.

    Attributes
    ----------
    values : ndarray of shape (m,)
        The largest eigenvalues, descending: the k requested ones, to tolerance, and some further approximate ones;
        fewer if A has fewer.
    vectors : ndarray of shape (d, m)
        Eigenvectors, orthonormal columns.
    norm : float
        The largest magnitude of an approximate eigenvalue, at either end of the spectrum.
    residual : float
        Largest ``||A v - t v||``, relative to t, of the first k.
    n_iter : int
        Number of iterations, with one product with A each.
    converged : bool
        Whether the residual reached ``tol``, or the limit set by round-off.
    """

    values: np.ndarray
    vectors: np.ndarray
    norm: float
    residual: float
    n_iter: int
    converged: bool


def largest_eigenvectors(
    operator: Operator,
    Q: np.ndarray,
    k: int,
    *,
    tol: float,
    eps: float,
    max_iter: int,
    block: int | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> Eigen:
    """Return the algebraically largest eigenvalues of a symmetric A, and their eigenvectors.

    A block is multiplied by A repeatedly. The best vectors in the span of all products so far (Rayleigh-Ritz) are the
    result when their residuals are small. After a few blocks the basis is reduced to its best vectors and those of
    the previous iteration, which keep most of the information (as in LOBPCG), so memory stays O(d) times the width of
    a block. A may be indefinite. The vectors stay in the smallest invariant subspace that contains Q.

    Parameters
    ----------
    operator : callable
        Returns A @ P for a (d, q) block P.
    Q : ndarray of shape (d, width)
        The first block: random, not zero. Columns beyond k speed up the convergence of the last of the k.
    k : int
        Number of eigenvalues to compute to tolerance, at most width.
    tol : float
        Stop when ``||A v - t v|| <= tol |t|`` for each of the k, or at the limit set by round-off.
    eps : float
        Round-off of a product with A, relative to the norm of A.
    max_iter : int
        Largest number of products with A.
    block : int, optional
        Largest number of columns of a product after the first; as many as Q has when None. With fewer columns a
        product costs less, with more there are fewer products.
    callback : callable, optional
        Called with the iteration and the residual.

    Returns
    -------
    Eigen

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag([3.0, 1.0, 0.0, -5.0])
    >>> Q = np.random.default_rng(0).standard_normal((4, 2))
    >>> largest_eigenvectors(lambda P: A @ P, Q, 2, tol=1e-8, eps=1e-16, max_iter=10).values.round(6)
    array([3., 1.])
    """
    d, width = Q.shape
    looked_at = width if block is None else max(k, block)
    most = min(d, _MOST_BLOCKS * width)
    V, AV = (np.empty((d, most), order="F") for _ in range(2))
    T = np.empty((0, 0))  # V'AV
    before = np.empty((0, 0))  # the best vectors of the previous iteration, in the basis V
    n_iter = 0
    while True:
        n_iter += 1
        old = len(T)
        Q = orthonormal(Q, V[:, :old])
        m = old + Q.shape[1]
        V[:, old:m] = Q
        AV[:, old:m] = operator(Q)
        T = bordered(T, V[:, :m].T @ AV[:, old:m])
        theta, Y = np.linalg.eigh(T)
        norm = float(np.abs(theta).max())
        theta, Y = theta[::-1][:width], Y[:, ::-1][:, :width]
        vectors, R = V[:, :m] @ Y[:, :looked_at], AV[:, :m] @ Y[:, :looked_at]
        R -= vectors * theta[:looked_at]
        norms = np.linalg.norm(R, axis=0)
        least = ROUND_OFF * eps * norm
        goals = np.maximum(tol * np.abs(theta[:looked_at]), least)
        residual = float((tol * norms[:k] / np.where(goals[:k] > 0, goals[:k], 1.0)).max())
        if callback is not None:
            callback(n_iter, residual)
        settled = (norms[:k] <= goals[:k]).all() or m in (old, d)
        if settled or n_iter == max_iter:
            return Eigen(theta[:looked_at], vectors, norm, residual, n_iter, bool(settled))
        # The residuals that have not converged span what the next product would add to the Krylov space.
        pending = np.flatnonzero(norms > goals)[:block]
        Q = R[:, pending] / norms[pending]
        if m + Q.shape[1] > most:
            before = np.vstack([before, np.zeros((m - len(before), before.shape[1]))])
            C = np.hstack([Y, orthonormal(before, Y)])
            kept = slice(C.shape[1])
            V[:, kept], AV[:, kept] = V[:, :m] @ C, AV[:, :m] @ C
            T = C.T @ T @ C
            T, Y = (T + T.T) / 2, np.eye(C.shape[1], Y.shape[1])
        before = Y


def bordered(T: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Return the symmetric matrix with leading block T and last columns C."""
    old = len(T)
    grown = np.empty((len(C), len(C)))
    grown[:old, :old] = T
    grown[:, old:] = C
    grown[old:, :old] = C[:old].T
    grown[old:, old:] = (C[old:] + C[old:].T) / 2
    return grown


def orthonormal(Q: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the part of Q that is orthogonal to the orthonormal V.

    It uses the eigenvectors of Q'Q, which needs only matrix products (Stathopoulos & Wu 2002). Directions that are
    negligible beside the others, or round-off of Q, are dropped. Columns that are nearly dependent, or nearly in the
    span of V, are projected twice, which is enough.
    """
    norms = np.linalg.norm(Q, axis=0)
    for _ in range(2):
        Q = Q - V @ (V.T @ Q)
        C = whitening(Q.T @ Q, norms)
        Q = Q @ C
        if np.square(norms[:, None] * C).sum() < _MAGNIFIED * C.shape[1]:
            break
        norms = np.ones(Q.shape[1])
    return Q[:, : len(V) - V.shape[1]]


def whitening(G: np.ndarray, norms: np.ndarray, noise: float = _NOISE) -> np.ndarray:
    """Return C (k, m) with C'GC = I, where G (k, k) are inner products of vectors whose ``norms`` were once larger.

    Vectors that are shorter than ``noise`` times these norms, and combinations that are negligible, are dropped.
    """
    size = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > noise * norms)
    if len(G) == 1:
        return scale[:, None][:, scale > 0]
    values, Y = np.linalg.eigh(G * np.outer(scale, scale))
    keep = values > _DEPENDENT
    return scale[:, None] * (Y[:, keep] / np.sqrt(values[keep]))[:, ::-1]


def signed(V: np.ndarray) -> np.ndarray:
    """Return the columns with signs such that the largest entry of each, by magnitude, is positive."""
    signs = np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])
    return V * signs


class RandomRows:
    """Normal random rows (n, k) that do not depend on how the rows are cut into blocks; for `Rows.each`.

    Parameters
    ----------
    k : int
        Number of columns.
    seed : int
        Seed. Rows are drawn in pieces, each with its own generator, a child of this seed.
    first : numpy.random.Generator, optional
        The generator of the first piece, in place of such a child.
    scale : float
        Standard deviation.
    dtype : dtype
        The dtype of the rows.
    nonnegative : bool
        Whether absolute values are returned.

    Examples
    --------
    >>> draw = RandomRows(2, 0)
    >>> bool((draw(0, 9)[4:6] == draw(4, 6)).all())
    True
    """

    def __init__(
        self,
        k: int,
        seed: int,
        first: np.random.Generator | None = None,
        scale: float = 1.0,
        dtype: Any = np.float64,
        *,
        nonnegative: bool = False,
    ) -> None:
        self.k, self.seed, self.first = k, seed, first
        self.scale, self.dtype, self.nonnegative = scale, dtype, nonnegative

    def __call__(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from start to stop."""
        H = np.empty((stop - start, self.k), dtype=self.dtype)

        def draw(pieces: list[int], _: Any) -> None:
            for piece in pieces:
                begin = piece * _PIECE
                end = min(begin + _PIECE, stop)
                drawn = self._generator(piece).standard_normal((end - begin, self.k))[max(start - begin, 0) :]
                drawn *= self.scale
                H[max(begin - start, 0) : end - start] = np.abs(drawn) if self.nonnegative else drawn

        pieces = list(range(start // _PIECE, -(-stop // _PIECE)))
        n_jobs = min(len(pieces), n_threads())
        run_jobs(draw, [pieces[i::n_jobs] for i in range(n_jobs)])
        return H

    def _generator(self, piece: int) -> np.random.Generator:
        if self.first is None:
            return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(piece,)))
        if piece == 0:
            return deepcopy(self.first)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(piece - 1,)))
