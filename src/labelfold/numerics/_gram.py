"""Solutions with a symmetric positive semi-definite matrix in memory, for several ridges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from labelfold.rows import Rows, triangle_of

EPS = float(np.finfo(np.float64).eps)
# Precision: singular values and eigenvalues below this share of the largest one, times the larger side of the matrix,
# are zero up to round-off.
ROUND_OFF = 10 * EPS
# A Cholesky factor of X'X is trusted if it keeps half of the digits: round-off times its condition number is below.
_TRUSTED = np.sqrt(EPS)
# Precision: a direction is determined by the data if its singular value exceeds this many times their rounding
# errors.
_ROUNDED = 2.0
# A column takes no part in a linear dependence if its coefficient is below the first value times its rounding errors,
# and its norm above the second value times them.
_NO_PART, _WELL_KNOWN = 10.0, 1e3
# Budget: norms on the rows are computed of at most this many directions, or of as many random mixtures of more.
_MAX_MEASURED = 4
# Number of rows that are processed at a time: 1,000 columns of them take 768 kB, which the cache of a core holds.
WIDTH = 96
# Minimum number of ridges for which a tridiagonal form is faster than Cholesky factors: the same time at 5, 0.6 of it
# at 10 (benchmarks/limits.py --only ridges).
_MIN_RIDGES = 5


class Cholesky(NamedTuple):
    """A factor L of a matrix whose rows and columns were scaled to a diagonal of ones."""

    L: np.ndarray
    scale: np.ndarray

    def solve_both(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return F with F'F = M'A^(-1)M, and A^(-1)M."""
        F = linalg.solve_triangular(self.L, self.scale[:, None] * M, lower=True, check_finite=False)
        W = linalg.solve_triangular(self.L, F, lower=True, trans=1, check_finite=False)
        return F, self.scale[:, None] * W

    def solve(self, M: np.ndarray) -> np.ndarray:
        """Return A^(-1)M."""
        return self.solve_both(M)[1]


class Gram:
    """Solves systems with G + ridge I.

    Parameters
    ----------
    G : ndarray of shape (m, m)
        Symmetric positive semi-definite.
    size : int
        The larger side of the matrix X for G = X'X or XX': round-off grows with it.
    null : ndarray of shape (m,), optional
        A null vector of G, whose outer product is added before factoring. So a centred G = X X' becomes regular, and
        solutions with centred right-hand sides do not change. It holds the square roots of the rows' weights, in the
        scale of X.
    noise : float
        Relative error of the entries of G in units of round-off; above 1 if centring has cost digits.
    rounding : ndarray of shape (m,), optional
        The result of `rounding` for the vectors whose products G contains.
    only_products : bool
        Whether nothing but G is known of the vectors, as for a kernel matrix. Eigenvalues within ``noise`` are then
        zero.
    """

    size: int
    null: np.ndarray | None
    noise: float
    rounding: np.ndarray | None

    def __init__(
        self,
        G: np.ndarray,
        size: int,
        null: np.ndarray | None = None,
        noise: float = 1.0,
        rounding: np.ndarray | None = None,
        only_products: bool = False,
    ) -> None:
        self.G, self.size, self.null, self.noise, self.rounding = G, size, null, noise, rounding
        self._min_share = size * EPS * (noise if only_products else 1.0)
        self.ridges: list[float] = []
        self._shared: Tridiagonal | None = None
        largest = np.diagonal(G).max(initial=0.0)
        if not np.isfinite(largest):
            raise ValueError(
                "the values of X are so large that their squares overflow; divide X by a constant, such as its "
                "largest absolute value"
            )

    def expect(self, ridges: Iterable[float]) -> None:
        """Announce the ridges, so that work can be shared."""
        self.ridges, self._shared = sorted(set(ridges)), None

    def solve(self, M: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Return F with F'F = M'(G + ridge I)^(-1) M, and (G + ridge I)^(-1) M; None if digits would be lost.

        If several ridges were announced, M must be the same for all of them.
        """
        if ridge in self.ridges and len(self.ridges) >= _MIN_RIDGES and len(self.G) > WIDTH:
            if self._shared is None:
                lifted = self.G.copy() if self.null is None else self.G + np.outer(self.null, self.null)
                self._shared = Tridiagonal(lifted, M)
            rcond = self._shared.rcond(ridge)
            if rcond >= self._min_rcond(ridge):
                return self._shared.solve(ridge)
            # Columns of different scales are ill-conditioned here, but not for a factor of the scaled G. Its
            # condition number is smaller by at most the ratio of the scales.
            diagonal = self._diagonal(ridge)
            rcond = max(rcond, self.size * EPS)  # smaller values are not reliable
            if rcond * diagonal.max() < self._min_rcond(ridge) * diagonal.min():
                return None
        factor = self.trusted(ridge)
        return None if factor is None else factor.solve_both(M)

    def _diagonal(self, ridge: float) -> np.ndarray:
        """Return the diagonal of the matrix that is factorised."""
        return np.diagonal(self.G) + (ridge if self.null is None else self.null**2 + ridge)

    def _min_rcond(self, ridge: float = 0.0) -> float:
        """Return the minimum reciprocal condition at which a factor of G + ridge I is trusted.

        Besides round-off, the rounding errors of the data must be small relative to the smallest singular value.
        """
        round_off = EPS * self.noise / _TRUSTED
        if self.rounding is None:
            return round_off
        diagonal = self._diagonal(ridge)
        shares = np.divide(self.rounding**2, diagonal, out=np.full(len(diagonal), np.inf), where=diagonal > 0)
        return max(round_off, float(shares.max(initial=0.0)))

    def trusted(self, ridge: float) -> Cholesky | None:
        """Return the Cholesky factor, or None if the condition would cost too many digits."""
        diagonal = self._diagonal(ridge)
        if not len(diagonal) or diagonal.min() <= 0:
            return None
        scale = 1 / np.sqrt(diagonal)
        A = np.empty_like(self.G)
        for start in range(0, len(A), WIDTH):  # blocks of rows, so that each is read from memory once
            here = slice(start, start + WIDTH)
            A[here] = self.G[here]
            if self.null is not None:
                A[here] += np.outer(self.null[here], self.null)
            A[here] *= scale
            A[here] *= scale[here, None]
        np.fill_diagonal(A, 1.0)
        norm = linalg.lapack.dlange("1", A.T)  # A is symmetric, and A.T has the order of LAPACK
        L, failed = linalg.lapack.dpotrf(A.T, lower=1, overwrite_a=1, clean=0)
        if failed:
            return None
        rcond, failed = linalg.lapack.dpocon(L, norm, uplo="L")
        return None if failed or rcond < self._min_rcond(ridge) else Cholesky(L, scale)

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (r, 1) and eigenvectors (m, r) of G, without those that are zero up to round-off."""
        values, vectors = np.linalg.eigh(self.G)
        keep = values > self._min_share * values.max(initial=0.0)
        self._left_out: np.ndarray = vectors[:, ~keep]
        values, vectors = values[keep], vectors[:, keep]
        if self.rounding is not None:
            root = np.sqrt(values)[:, None] * vectors.T  # G = root'root
            _, sigma, Vt = np.linalg.svd(known_part(root, self.rounding), full_matrices=False)
            keep = sigma[::-1] ** 2 > self.size * EPS * sigma.max(initial=0.0) ** 2
            values, vectors = sigma[::-1][keep] ** 2, Vt[::-1][keep].T
        return values[:, None], vectors

    @property
    def blurred(self) -> bool:
        """Whether G has eigenvalues that are not zero, but cannot be distinguished from round-off."""
        values, _ = self.spectrum
        return bool((values < self._min_rcond() * values.max(initial=0.0)).any())

    def has_rank(self, norms: Callable[[np.ndarray], np.ndarray]) -> bool:
        """Tell whether all rows of X are orthogonal to the eigenvectors that the spectrum leaves out.

        An eigenvalue of G that is all round-off may belong to a singular value of X that is not: a direction whose
        singular value is the root of that round-off. So its norm is measured on the rows.

        Parameters
        ----------
        norms : callable
            Returns the norm of X N for each of some directions N.
        """
        values, _ = self.spectrum
        if self.rounding is not None or self.blurred or not len(values):
            return False
        null = self._left_out
        if null.shape[1] > _MAX_MEASURED:
            # The expected squared norms of random mixtures add up to those of all directions.
            mixing = np.random.default_rng(0).standard_normal((null.shape[1], _MAX_MEASURED))
            null = null @ (mixing / np.sqrt(_MAX_MEASURED))
        # The joint norm is compared. If one direction has ten times the limit, the mixtures of more than four stay
        # below it with a probability of 0.0002.
        return bool(np.linalg.norm(norms(null)) <= self.size * EPS * np.sqrt(values.max()))

    def solve_trusted(self, T: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Return A = (G + ridge I)^+ T and D = T'G A, for a centred G and centred columns of T.

        They are from a Cholesky factor; None if it cannot be trusted.
        """
        found = self.solve(T, ridge)
        if found is None:
            return None
        A = self._centred(found[1])
        D = T.T @ (self.G @ A)
        return A, (D + D.T) / 2

    def solve_spectrum(self, T: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the same from the eigenvalues."""
        values, U = self.spectrum
        U = self._centred(U)  # round-off mixes the null vector into eigenvectors with a small eigenvalue
        C = U.T @ T
        return U @ (C / (values + ridge)), C.T @ (values / (values + ridge) * C)

    def _centred(self, A: np.ndarray) -> np.ndarray:
        """Return columns without their part along the null vector."""
        if self.null is None:
            return A - A.mean(axis=0)
        unit = self.null / (np.linalg.norm(self.null) or 1.0)
        return A - np.outer(unit, unit @ A)


class Factor:
    """A triangular factor R of X, with C = Q'T, for problems where X'X would lose too many digits.

    Parameters
    ----------
    R : ndarray of shape (d, d)
        X = Q R.
    C : ndarray of shape (d, q)
        Q'T.
    size : int
        The larger side of X.
    rounding : ndarray of shape (d,), optional
        The result of `rounding` for the columns of X.
    """

    def __init__(self, R: np.ndarray, C: np.ndarray, size: int, rounding: np.ndarray | None = None) -> None:
        self.R, self.C, self.size, self.rounding = R, C, size, rounding

    def solve(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """Return W that minimises ||R W - C||^2 + ridge ||W||^2, and D = W'R'C."""
        if self.full_rank:
            # For every scale of the columns, without singular values.
            R, B = self.damped(ridge)
            return linalg.solve_triangular(R, B, check_finite=False), B.T @ B
        U, sigma, V = self.singular
        return solve_spectrum(U.T @ self.C, sigma, V, ridge)

    def whitened(self, ridge: float) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Return F^(-1) X'T and the product with F^(-T), where F F' = X'X + ridge I."""
        if self.full_rank:
            R, B = self.damped(ridge)
            return B, lambda P: linalg.solve_triangular(R, P, check_finite=False)
        U, sigma, V = self.singular
        return spectrum_whitened(U.T @ self.C, sigma, V, ridge)

    def against(self, M: np.ndarray) -> np.ndarray:
        """Return C with R'C = M, as Q'T is for M = X'T."""
        if self.full_rank:
            return linalg.solve_triangular(self.R, M, trans=1, check_finite=False)
        U, sigma, V = self.singular
        return U @ ((V.T @ M) / sigma)

    def damped(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """Return R and C of X stacked on sqrt(ridge) I: R'R = X'X + ridge I and R'C = X'T."""
        d = len(self.R)
        if not ridge:
            return self.R, self.C
        stacked = np.block([[self.R, self.C], [np.sqrt(ridge) * np.eye(d), np.zeros_like(self.C)]])
        stacked = triangle_of(stacked)
        return stacked[:d, :d], stacked[:d, d:]

    @cached_property
    def full_rank(self) -> bool:
        """Whether R is regular, for every scale of its columns."""
        norms = np.linalg.norm(self.R, axis=0)
        if norms.min(initial=np.inf) <= 0:
            return False
        rcond, failed = linalg.lapack.dtrcon(self.R / norms)
        if failed or rcond <= 100 * self.size * EPS:
            return False
        return known_part(self.R, self.rounding) is self.R

    @cached_property
    def singular(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """U, sigma (r, 1) and V of R, without singular values that are zero up to round-off."""
        filled = self.R.any(axis=1)  # at most as many rows as X has
        U, sigma, V = trim_svd(
            *np.linalg.svd(known_part(self.R, self.rounding)[filled], full_matrices=False), self.size
        )
        padded = np.zeros((len(self.R), U.shape[1]))
        padded[filled] = U
        return padded, sigma, V


def rounding(squares: np.ndarray, length: int, eps: float) -> np.ndarray | None:
    """Return the spectral norm of the rounding errors of some vectors of data.

    Each entry has a relative rounding error, before it is centred. Independent errors form a matrix whose largest
    singular value grows with the square root of its longer side.

    Parameters
    ----------
    squares : ndarray of shape (m,)
        Squared norms of the vectors, before centring.
    length : int
        Length of a vector.
    eps : float
        Relative round-off of the data, as in `Rows.eps`.

    Returns
    -------
    ndarray of shape (m,) or None
        A norm for each vector; None if the data has the full precision of float64, since sums then lose more.

    Examples
    --------
    >>> rounding(np.array([4.0]), 1, EPS) is None
    True
    >>> rounding(np.array([4.0]), 1, 1e-7) / 1e-7
    array([8.])
    """
    if eps <= EPS:
        return None
    return _ROUNDED * eps * (1 + np.sqrt(len(squares) / max(length, 1))) * np.sqrt(squares)


def known_part(R: np.ndarray, rounding: np.ndarray | None) -> np.ndarray:
    """Return R without directions that the rounding errors of its columns explain; R itself if there are none.

    Each column is measured in units of its own rounding error, so the scale of the columns does not matter.
    """
    if rounding is None or not R.size:
        return R
    scaled = R / np.where(rounding > 0, rounding, 1.0)
    _, sizes, Qt = np.linalg.svd(scaled, full_matrices=False)
    explained = (sizes <= 1) & (sizes > len(R) * EPS * sizes.max())
    if not explained.any():
        return R
    N = Qt[explained].T
    # A column that takes no part in a dependence appears to have a part of the size of its errors, which is large for
    # a small column beside large ones. Setting it to 0 changes the product with N by at most these errors.
    norms = np.linalg.norm(scaled, axis=0)
    none = np.abs(N) * norms[:, None] < _NO_PART
    none &= (norms > _WELL_KNOWN)[:, None]
    cleaned = np.where(none, 0.0, N)
    N = np.linalg.qr(np.where(np.linalg.norm(cleaned, axis=0) > 0.5, cleaned, N))[0]
    return R - scaled @ N @ (N.T * rounding)


def trim_svd(
    U: np.ndarray, sigma: np.ndarray, Vt: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return U, sigma (r, 1) and V without singular values that are zero up to round-off."""
    keep = sigma > size * EPS * sigma.max(initial=0.0)
    return U[:, : len(sigma)][:, keep], sigma[keep, None], Vt[: len(sigma)][keep].T


def solve_spectrum(
    C: np.ndarray, sigma: np.ndarray, V: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return W and D = W'X'T from X = U diag(sigma) V' and C = U'T."""
    damped = np.hypot(sigma, np.sqrt(ridge))  # squares of sigma may overflow or vanish
    share = sigma / damped
    return V @ (share / damped * C), C.T @ (share**2 * C)


def spectrum_whitened(
    C: np.ndarray, sigma: np.ndarray, V: np.ndarray, ridge: float
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Return F^(-1) X'T and the product with F^(-T), F F' = X'X + ridge I, from X = U diag(sigma) V' and C = U'T."""
    damped = np.hypot(sigma, np.sqrt(ridge))
    return sigma / damped * C, lambda P: V @ (P / damped)


def provisional_center(
    rows: Rows, index: np.ndarray | None = None, n_rows: int = 256
) -> tuple[np.ndarray, bool]:
    """Return a centre, near enough to the mean that sums about it keep their digits, and whether shifts are implicit.

    It is the mean of the first ``n_rows`` rows at ``index``, in the precision of the blocks. A block of sparse rows
    subtracts it implicitly, which loses digits.
    """
    first = np.arange(rows.shape[0]) if index is None else index
    some = rows.take(first[:n_rows])
    center = some.mean().astype(rows.dtype).astype(np.float64)
    return center, some.whole().shift(center).is_implicit


def lost(centred: np.ndarray, shift: Any) -> float:
    """Return the ratio of squares before and after centring: relative round-off grows by this factor."""
    sizes = np.maximum(centred, EPS * (np.abs(centred) + shift))
    return float(np.max((sizes + shift) / np.where(sizes > 0, sizes, 1.0), initial=1.0))


class Tridiagonal:
    """G = Q B Q' with a tridiagonal B, for the solutions of several ridges with the same right-hand sides M.

    The reduction takes about as long as two Cholesky factors. `CCA().path` of 10 ridges on
    2,000 x 2,000 takes 0.6 s with it and 1.8 s without (`benchmarks/two_stage.py --parts path`).

    Parameters
    ----------
    G : ndarray of shape (m, m)
        Symmetric; it is overwritten.
    M : ndarray of shape (m, q)

    Examples
    --------
    >>> import numpy as np
    >>> G = np.array([[4.0, 1.0, 2.0], [1.0, 3.0, 0.0], [2.0, 0.0, 5.0]])
    >>> _, X = Tridiagonal(G.copy(), np.eye(3)).solve(1.0)
    >>> bool(np.allclose(X @ (G + np.eye(3)), np.eye(3)))
    True
    """

    def __init__(self, G: np.ndarray, M: np.ndarray) -> None:
        lwork = int(linalg.lapack.dsytrd_lwork(len(G), lower=1)[0])
        A, diagonal, below, self.tau, _ = linalg.lapack.dsytrd(G.T, lower=1, lwork=lwork, overwrite_a=1)
        self.B = np.array([diagonal, np.append(below, 0.0)])
        # Reflection i leaves the first i + 1 coordinates: below the diagonal they are those of a QR factor.
        self.reflectors = np.asfortranarray(A[1:, :-1])
        self.C = self._reflected(M, "T")
        # The smallest eigenvalue and the largest one.
        self.ends = [
            linalg.eigvalsh_tridiagonal(diagonal, below, select="i", select_range=(i, i))[0]
            for i in (0, len(diagonal) - 1)
        ]

    def _reflected(self, C: np.ndarray, trans: str) -> np.ndarray:
        """Return Q C, or Q'C for "T"."""
        C, k = np.array(C, dtype=np.float64), len(self.tau)
        if k and C.size:
            multiply = partial(linalg.lapack.dormqr, "L", trans, self.reflectors, self.tau, C[1:])
            C[1:] = multiply(lwork=int(multiply(lwork=-1)[1][0]))[0]
        return C

    def rcond(self, ridge: float) -> float:
        """Return the reciprocal condition of G + ridge I."""
        low, high = self.ends
        return float((low + ridge) / (high + ridge)) if low + ridge > 0 else 0.0

    def solve(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """Return F with F'F = M'(G + ridge I)^(-1) M, and (G + ridge I)^(-1) M; `rcond` must be positive."""
        shifted = np.array([self.B[0] + ridge, self.B[1]])
        L = linalg.cholesky_banded(shifted, lower=True, check_finite=False)
        F = linalg.lapack.dtbtrs(L, self.C, uplo="L")[0]
        return F, self._reflected(linalg.lapack.dtbtrs(L, F, uplo="L", trans="T")[0], "N")
