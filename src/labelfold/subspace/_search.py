r"""The search for directions: from several starts, in a small subspace that grows around the best of them.

The gain of a direction is a sum of two quotients,

.. math:: J(w) = \frac{\|R'Zw\|^2}{\|Zw\|^2} + \frac{w'Sw}{w'w},

`RatioSum`, which has several local maxima. In a small space they are found from starts on the curve between the
principal direction and the least-squares direction: the best compromises between both quotients lie on it, and so
does the global maximum. The small space is extended by residuals until its maximum is a stationary point of J in the
whole space. It is kept for later directions. With few columns it is the whole space.

In 360 problems of many kinds this reached every maximum that a branch-and-bound search proves
(`experiments/pcals_starts.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack, lstsq

from labelfold.base import Iterates, descend
from labelfold.subspace._space import MAX_NEWTON, MatrixSpace, Space, Vectors, projected

_EPS = float(np.finfo(np.float64).eps)
# Largest relative difference of two values of J that is round-off.
_ROUND_OFF = 64 * _EPS
# Norms of the gradient relative to J: below the first, J differs from its maximum by round-off; the second is as
# small as round-off allows. An ascent whose result is only a start ends at the third.
_FLAT, _REACHED, _ROUGH = 1e-6, 1e-13, 1e-8
# Number of starts in a small space, of random vectors in the first one, and of responses treated individually.
_STARTS = 8
# Largest number of vectors of the small space before it is reduced to its more important half. With at most so many
# columns it is the whole space.
MAX_VECTORS = 96
# A relative gradient below `_FLAT` that this many steps do not halve is round-off.
_PATIENCE = 12


class LostDigits(Exception):
    """The coordinates of a space cannot represent the vectors of a search to enough digits."""


class RatioSum:
    """J in a small space.

    Parameters
    ----------
    S : ndarray of shape (m, m)
        Symmetric positive semi-definite.
    Z : ndarray of shape (l, m)
        The labelled rows.
    R : ndarray of shape (l, q)
        The responses.
    G : ndarray of shape (m, m), optional
        Z'Z, if it is known.

    Examples
    --------
    >>> import numpy as np
    >>> problem = RatioSum(np.diag([2.0, 1.0]), np.array([[0.0, 1.0]]), np.array([[3.0]]))
    >>> problem.value(np.array([0.0, 1.0]))
    10.0
    >>> round(problem.value(np.array([1.0, 1e-4])), 6)  # any w with Zw not 0 fits exactly
    11.0
    """

    def __init__(self, S: np.ndarray, Z: np.ndarray, R: np.ndarray, G: np.ndarray | None = None) -> None:
        self.S, self.Z, self.R = S, Z, R
        self.C = Z.T @ R
        self.CC, self.G = self.C @ self.C.T, Z.T @ Z if G is None else G
        # Below this squared norm Zw is round-off, and so is its quotient.
        self.least = (16 * _EPS) ** 2 * float(np.trace(self.G))

    def parts(self, w: np.ndarray) -> tuple[float, float, float]:
        """Return both quotients, and nu = ||w||^2 / ||Zw||^2; 0 if Zw is round-off."""
        w = w / _length(w)
        u = self.Z @ w
        square = float(u @ u)
        a = u @ self.R
        s = float(w @ self.S @ w)
        return (0.0, s, 0.0) if square <= self.least else (float(a @ a) / square, s, 1 / square)

    def value(self, w: np.ndarray) -> float:
        """Return J(w)."""
        t, s, _ = self.parts(w)
        return t + s

    def matrix(self, t: float, nu: float) -> np.ndarray:
        """Return S + nu (CC' - t G), of which w is an eigenvector where J is stationary, with its own t and nu."""
        M = (-nu * t) * self.G
        M += self.S
        M += nu * self.CC
        return M

    def derivatives(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return half of J's gradient on the sphere, and minus half of its second derivative."""
        t, s, nu = self.parts(w)
        M, Gw = self.matrix(t, nu), self.G @ w
        gradient = M @ w - s * w
        of_t = 2 * nu * nu * (self.C @ (self.C.T @ w) - t * Gw)
        # The derivative of M w - s w, projected onto the tangent space of the sphere on both sides.
        Hw = gradient - (of_t * (w @ Gw) + Gw * (of_t @ w))
        half = Hw - (w @ Hw / 2) * w
        N = np.stack([of_t, w, Gw, half]).T @ np.stack([Gw, half, of_t, w])
        N -= M
        N.flat[:: len(w) + 1] += s
        return gradient - (w @ gradient) * w, N

    def ascend(
        self, w: np.ndarray, reached: float = _REACHED, max_iter: int = 60
    ) -> tuple[float, np.ndarray]:
        """Return a local maximum and where it is, by Newton steps from w.

        It is reached if the norm of the gradient, relative to J, is at most ``reached``, or is round-off.
        """
        w = w / _length(w)
        value, before, last = self.value(w), w, np.inf
        for _ in range(max_iter):
            gradient, N = self.derivatives(w)
            size = _length(gradient)
            if size > last / 2:
                return value, before
            if size <= reached * value:
                break
            # J itself is flat at its maximum: there the gradient tells whether a step was one.
            is_flat = size <= _FLAT * value
            step = _newton(w, gradient, N)
            higher = -np.inf if step is None else self.value(step)
            if step is None or higher <= (value * (1 - _ROUND_OFF) if is_flat else value):
                t, _, nu = self.parts(w)
                step = first_eigenvectors(self.matrix(t, nu), 1)[1][:, 0]
                higher = self.value(step)
                if higher <= value * (1 + 1e-3):  # not clearly
                    higher, step = max(((self.value(v), v) for v in _uphill(w, gradient, N)), key=_first)
                if higher <= value * (1 + _ROUND_OFF):
                    break
                is_flat = False
            last = size if is_flat else np.inf
            value, w, before = higher, step, w
        return value, w

    def starts(self, n_points: int = _STARTS) -> list[np.ndarray]:
        """Return starts for an ascent: local maxima of J among points of the curve, highest first.

        For a number t, a w with first quotient t has the largest second quotient if it is the first eigenvector of
        `matrix` for the right nu. The curve may jump, so it is followed from both ends, each time over ``n_points``
        numbers nu with t of the point before.
        """
        principal = first_eigenvectors(self.S, 1)[1][:, 0]
        fits = lstsq(
            self.Z, self.R, cond=max(self.Z.shape) * _EPS, lapack_driver="gelsy", check_finite=False
        )[0]
        fit = fits @ first_eigenvectors(self.C.T @ fits, 1)[1][:, 0]
        if not fit.any():
            return [principal]
        fit /= _length(fit)
        size = first_eigenvectors(self.G, 1)[0][0]
        # Where J is stationary nu is 1 / ||Zw||^2, and less than that of the fit unless many fit exactly.
        nus = np.geomspace(0.3 / size, min(100 * self.parts(fit)[2], 1e14 / size) or 1 / size, n_points)
        path = []
        for w, there in ((principal, nus), (fit, nus[::-1])):
            path.append(w)
            for nu in there:
                path.append(first_eigenvectors(self.matrix(self.parts(path[-1])[0], nu), 1)[1][:, 0])
        values = np.array([-np.inf, *map(self.value, path), -np.inf])
        peaks = [i for i in range(len(path)) if values[i + 1] >= max(values[i], values[i + 2])]
        return [path[i] for i in sorted(peaks, key=lambda i: -values[i + 1])[:_STARTS]]

    def modes(
        self, starts: Iterable[np.ndarray], reached: float = _REACHED
    ) -> list[tuple[float, np.ndarray]]:
        """Return the local maxima near starts and where they are, highest first.

        Examples
        --------
        >>> import numpy as np
        >>> problem = RatioSum(np.diag([2.0, 1.0]), np.array([[0.0, 2.0], [1.0, 1.0]]), np.array([[3.0], [1.0]]))
        >>> angles = np.linspace(0, np.pi, 10001)
        >>> naive = max(problem.value(np.array([np.cos(a), np.sin(a)])) for a in angles)
        >>> bool(abs(problem.modes(problem.starts())[0][0] - naive) < 1e-6)
        True
        """
        return sorted((self.ascend(w, reached) for w in starts), key=_first, reverse=True)


def _first(pair: tuple[float, np.ndarray]) -> float:
    return pair[0]


def _length(w: np.ndarray) -> float:
    """Return the norm of a vector, in less time than NumPy's function for any array takes."""
    return math.sqrt(w @ w)


def _newton(w: np.ndarray, gradient: np.ndarray, N: np.ndarray) -> np.ndarray | None:
    """Return the unit vector after a Newton step on the sphere; None if J is not concave at w."""
    # N w = 0, so a term along w of the size of N makes the system regular and does not change tangent steps.
    A = np.outer(np.abs(np.diagonal(N)).max(initial=_EPS) * w, w)
    A += N
    _, step, failed = lapack.dposv(A.T, gradient, lower=1, overwrite_a=1)
    if failed or not np.isfinite(step).all():
        return None
    step += (1 - w @ step) * w
    return step / _length(step)


def _uphill(w: np.ndarray, gradient: np.ndarray, N: np.ndarray) -> list[np.ndarray]:
    """Return unit vectors after ascent steps along the eigenvectors of N, of the length of Newton's and shorter."""
    values, U = np.linalg.eigh(N)
    length = np.maximum(np.abs(values), _EPS * np.abs(values).max(initial=_EPS))
    step = U @ ((U.T @ gradient) / length)
    step -= (w @ step) * w
    return [(w + a * step) / _length(w + a * step) for a in 0.2 ** np.arange(8)]


def first_eigenvectors(M: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest eigenvalues of a symmetric matrix, descending, and their eigenvectors."""
    m = len(M)
    k = min(k, m)
    if m == 1:
        return M[0], np.ones((1, 1))
    values, vectors, count, _, failed = lapack.dsyevr(M.T, range="I", il=m - k + 1, iu=m)
    # If the largest eigenvalue is a multiple one, LAPACK may return no vector, without an error.
    if failed or count != k:
        values, vectors = np.linalg.eigh(M)
        values, vectors = values[-k:], vectors[:, -k:]
    return values[:k][::-1], vectors[:, ::-1]


def is_definite(A: np.ndarray) -> bool:
    """Return whether a symmetric matrix is positive definite; it is overwritten by its Cholesky factor."""
    # A is symmetric, and LAPACK factors A.T in place.
    return lapack.dpotrf(A.T, lower=1, overwrite_a=1, clean=0)[1] == 0


class Search:
    """The directions found so far, and the small space in which the next one is searched."""

    def __init__(
        self, space: Space, weight: float, tol: float, max_iter: int, rng: np.random.Generator
    ) -> None:
        self.space, self.weight, self.tol, self.max_iter, self.rng = space, weight, tol, max_iter, rng
        self.n_iter, self.converged, self.n_taken = 0, True, 0
        self.is_whole = space.size <= MAX_VECTORS
        self.vectors = space.none()
        self.T = self.G = np.empty((0, 0))  # S and Z'Z on the small space
        # Values of ||Zw||^2, and of w'Sw, that are round-off.
        self.least, self.tiny = (16 * _EPS) ** 2 * space.square, 0.0
        if self.is_whole:
            self.extend(np.eye(space.size))
        else:
            if isinstance(space, MatrixSpace) and space.size <= MAX_NEWTON:
                self.extend(np.eye(space.size)[:, -2 * _STARTS :])
            else:
                self.extend(space.random(min(_STARTS, space.size), rng))
                self.extend(self.basis.SQ)

    @property
    def taken(self) -> Vectors:
        """The directions found so far."""
        return self.vectors.part(0, self.n_taken)

    @property
    def basis(self) -> Vectors:
        """The small space."""
        return self.vectors.part(self.n_taken, None)

    def ratio(self, r: np.ndarray) -> RatioSum:
        """Return J on the small space, for residual responses r."""
        return RatioSum(self.weight * self.T, self.basis.ZQ, r, self.G)

    def next_direction(self, r: np.ndarray) -> tuple[np.ndarray, float] | None:
        """Find the best direction for the residuals r; return the scores of the labelled rows, and the gain."""
        if not self.is_whole:
            self.seed(r)
        if not len(self.T):
            return None
        ratio = self.ratio(r)
        modes = ratio.modes(
            ratio.starts(_STARTS if self.is_whole else 0), _REACHED if self.is_whole else _ROUGH
        )
        value, y = modes[0] if self.is_whole else self.improved(modes, r)
        return self.take(y / _length(y)), value

    def seed(self, r: np.ndarray) -> None:
        """Add vectors to the small space of which the next direction may be a combination."""
        if r.shape[1] > _STARTS:
            U, s, _ = np.linalg.svd(r, full_matrices=False)
            r = U[:, :_STARTS] * s[:_STARTS]
        # The second are least-squares directions. The last is random, for rows that are orthogonal to all so far.
        fits = self.space.fits(r, self.taken)
        self.extend(np.hstack([self.space.back(r), fits, self.space.random(1, self.rng)]))

    def improved(self, modes: list[tuple[float, np.ndarray]], r: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the highest maximum, and where it is, after the small space was extended towards several of them."""
        first, is_last, whole = self.n_iter, self.tol > _FLAT, self.whole(r)
        while True:
            Y = np.stack([w for _, w in modes[:4]], axis=1)
            if whole is not None:
                w = whole.ascend(self.basis.Q @ Y[:, 0])[1]
                Y = self.extend(w[:, None], Y)
                Y[:, 0] = w @ self.basis.Q
            else:
                left = self.max_iter - (self.n_iter - first)
                Y = self.settle(Y, r, self.tol if is_last else max(self.tol, 1e-3), left)
            ratio = self.ratio(r)
            before = ratio.value(Y[:, 0])
            if not is_last:
                ways = [self.softened(self.residuals(w[:, None], ratio), w, ratio) for w in Y.T]
                Y = self.extend(np.hstack(ways), Y)
                ratio = self.ratio(r)
            modes = ratio.modes(Y.T if is_last and whole is None else [*Y.T, *ratio.starts()])
            if modes[0][0] <= before * (1 + 1e-11) and (is_last or whole is not None):
                return modes[0]
            if self.n_iter - first >= self.max_iter:
                self.converged = False
                return modes[0]
            is_last = True

    def whole(self, r: np.ndarray) -> RatioSum | None:
        """Return J on all vectors, if their products are known and few; it is 0 along the directions found so far."""
        space, W, ZW = self.space, self.taken.Q, self.taken.ZQ
        if not isinstance(space, MatrixSpace) or space.size > MAX_NEWTON:
            return None
        S, G = projected(space.S, W, self.taken.SQ), projected(space.G, W, space.back(ZW))
        return RatioSum(self.weight * S, space.Z - ZW @ W.T, r, G)

    def settle(self, Y: np.ndarray, r: np.ndarray, tol: float, max_iter: int) -> np.ndarray:
        """Extend the space until its local maximum near the first of Y is stationary in the whole one."""
        norms: list[float] = []
        reached = _ROUGH
        for _ in range(max_iter):
            ratio = self.ratio(r)
            value, y = ratio.ascend(Y[:, 0], reached)
            Y[:, 0] = y
            self.space.check(self.basis.Q @ y, self.basis.ZQ @ y)
            t, _, nu = ratio.parts(y)
            others = first_eigenvectors(ratio.matrix(t, nu), self.space.block)[1][:, 1:]
            B = self.residuals(np.hstack([y[:, None], others]), ratio)
            norms.append(self.space.norm(B[:, 0]))
            # While the residual is large, the maximum of the small space is needed to fewer digits.
            reached = min(max(0.01 * norms[-1] / value, _REACHED), _ROUGH)
            size = self.weight * float(np.trace(self.T)) + t * nu * float(np.trace(self.G))
            if norms[-1] <= max(tol * value, self.space.noise * size):
                return Y
            # J is flat up to round-off where steps no longer reduce a small residual, or add no vector.
            is_stuck = len(norms) > _PATIENCE and min(norms[-_PATIENCE:]) > min(norms[:-_PATIENCE]) / 2
            if is_stuck and min(norms) <= _FLAT * value:
                return Y
            count, Y = len(self.T), self.extend(self.softened(B, y, ratio), Y)
            if len(self.T) == count:
                return Y
        self.converged = False
        return Y

    def residuals(self, Y: np.ndarray, ratio: RatioSum) -> np.ndarray:
        """Return the residuals of vectors of the small space as eigenvectors of `RatioSum.matrix` at the first."""
        basis, (t, _, nu), r = self.basis, ratio.parts(Y[:, 0]), ratio.R
        Z = basis.ZQ @ Y
        MY = self.weight * (basis.SQ @ Y) + self.space.back(nu * (r @ (r.T @ Z) - t * Z))
        B = MY - basis.Q @ (Y * np.einsum("ij,ij->j", Y, ratio.matrix(t, nu) @ Y))
        return B - self.taken.Q @ self.taken.dot(B)

    def softened(self, B: np.ndarray, y: np.ndarray, ratio: RatioSum) -> np.ndarray:
        """Return residuals as search directions: preconditioned, if the fit to the labels dominates J at y."""
        t, s, nu = ratio.parts(y)
        share = t * nu / s
        return self.space.soften(B, share) if share * float(np.trace(self.G)) > 0.1 else B

    def extend(self, B: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
        """Add vectors to the small space; return Y, some of it, in its new coordinates."""
        self.n_iter += 1
        Y = np.empty((len(self.T), 0)) if Y is None else Y
        if len(self.T) + B.shape[1] > MAX_VECTORS and len(self.T) > MAX_VECTORS // 2 and not self.is_whole:
            # The principal vectors of the small space, Y and the latest vectors are kept.
            m = len(self.T)
            principal = np.linalg.eigh(self.T)[1][:, : -(m // 2 - _STARTS) : -1]
            Y = self.combine(np.linalg.qr(np.hstack([Y, principal, np.eye(m)[:, -_STARTS:]]))[0], Y)
        new = self.space.orthonormal(B, self.vectors)
        self.vectors = self.vectors.joined(new)
        basis = self.basis
        self.T, self.G = _bordered(self.T, basis.dot(new.SQ)), _bordered(self.G, basis.ZQ.T @ new.ZQ)
        Y = np.pad(Y, ((0, new.n_vectors), (0, 0)))
        if not self.tiny and len(self.T):
            self.tiny = self.space.noise * first_eigenvectors(self.T, 1)[0][0]
        if not is_definite(self.T - self.tiny * np.eye(len(self.T))):
            values, V = np.linalg.eigh(self.T)
            Y = self.combine(V[:, values > self.tiny], Y)  # all rows are orthogonal to the others
        return Y

    def combine(self, A: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Replace the small space by combinations A (m, k) of its vectors; return Y in its new coordinates."""
        self.vectors = self.taken.joined(self.basis @ A)
        self.T, self.G = A.T @ self.T @ A, A.T @ self.G @ A
        return A.T @ Y

    def take(self, y: np.ndarray) -> np.ndarray:
        """Move a vector from the small space to the directions found; return the scores of the labelled rows."""
        # The reflection I - uv' maps y to the first axis. Its other columns span the rest of the space.
        u = y.copy()
        u[0] += np.copysign(1.0, y[0])
        v = 2 / (u @ u) * u[1:]
        one = self.basis @ y[:, None]
        one = one.less(self.taken).less(self.taken)
        one = one @ one.dot(one.Q) ** -0.5
        for own, its in zip(self.vectors, one, strict=True):
            basis = own[:, self.n_taken :]
            basis[:, 1:] -= np.outer(basis @ u, v)
            basis[:, 0] = its[:, 0]
        self.T, self.G = _reflected(self.T, u, v), _reflected(self.G, u, v)
        self.n_taken += 1
        return one.ZQ[:, 0]


def _reflected(S: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return S after a reflection by I - uv' on both sides, less its first row and column; v has no first entry."""
    Su = S @ u
    half = Su[1:] - (u @ Su) / 2 * v
    return S[1:, 1:] - np.outer(half, v) - np.outer(v, half)


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
    squares : ndarray of shape (k,)
        w'Sw of each direction: the squared norm of the scores of all rows.
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
    stopped : bool
        Whether the callback ended it.
    """

    W: np.ndarray
    alpha: np.ndarray
    Z: np.ndarray
    squares: np.ndarray
    gains: np.ndarray
    objective: np.ndarray
    n_iter: int
    converged: bool
    exhausted: bool
    stopped: bool = False


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
    callback: Callable[[int, float], Any] | None = None,
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
    if isinstance(space, MatrixSpace) and space.size <= MAX_NEWTON:
        space, V = space.row_space()
    if not space.size or space.square <= 0:
        nothing, none = np.empty((len(r), 0)), np.empty(0)
        return Pursuit(np.empty((space.size, 0)), nothing.T, nothing, none, none, none, 0, True, True)
    search = Search(space, weight, tol, max_iter, np.random.default_rng(random_state))
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
    taken = search.vectors.part(0, k)
    return Pursuit(
        taken.Q if V is None else V @ taken.Q,
        np.array(alphas[:k]).reshape(k, r.shape[1]),
        taken.ZQ,
        np.einsum("ij,ij->j", taken.Q, taken.SQ),
        np.array(gains[:k]),
        np.array(path.objective),
        search.n_iter,
        search.converged,
        path.converged,
        path.stopped,
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


def _bordered(T: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Return the symmetric matrix with leading block T and last columns C."""
    old = len(T)
    return np.block([[T, C[:old]], [C[:old].T, (C[old:] + C[old:].T) / 2]])
