r"""A sum of two Rayleigh quotients: its local maxima, and its global maximum.

.. math:: J(w) = \frac{\|R'Zw\|^2}{\|Zw\|^2} + \frac{w'Sw}{w'w}

`maximise` finds the global maximum, and proves it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from labelfold.subspace._source import FACTORED

EPS = float(np.finfo(np.float64).eps)
# Norms of the gradient relative to J: below the first a point is nearly stationary, below the second stationary.
FLAT, REACHED = 1e-6, 1e-13
# Tolerance of the proof: the maximum exceeds the value found by at most this share of it.
PROVED_TO = 2e-7
# Largest number of splits of intervals: round-off can make a bound useless if nu is very large.
_MOST_NODES = 300


class RatioSum:
    """J, and the matrices that are needed to maximise it.

    Parameters
    ----------
    S : ndarray of shape (m, m)
        Symmetric positive semi-definite.
    Z : ndarray of shape (l, m)
        Any number of rows l; stored as its triangular factor if l is much larger than m.
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
        if len(Z) > max(FACTORED, 2 * Z.shape[1]):
            Q, Z = np.linalg.qr(Z)
            R = Q.T @ R
        self.S, self.Z, self.R = S, Z, R
        self.C = Z.T @ R
        self.CC, self.G = self.C @ self.C.T, Z.T @ Z if G is None else G
        # Below this squared norm Zw is round-off, and so is its quotient.
        self.least = (16 * EPS) ** 2 * float(np.trace(self.G))

    def parts(self, w: np.ndarray) -> tuple[float, float, float]:
        """Return both quotients, and ||Zw||^2 / ||w||^2."""
        w = w / _length(w)
        u = self.Z @ w
        square = float(u @ u)
        a = u @ self.R
        t = 0.0 if square <= self.least else float(a @ a) / square
        return t, float(w @ self.S @ w), square

    def value(self, w: np.ndarray) -> float:
        """Return J(w)."""
        t, s, _ = self.parts(w)
        return t + s

    def matrix(self, t: float, nu: float) -> np.ndarray:
        """Return S + nu (CC' - t G), whose leading eigenvector is the maximiser for the right t and nu."""
        M = (-nu * t) * self.G
        M += self.S
        if nu:
            M += nu * self.CC
        return M

    def top(self, t: float, nu: float) -> tuple[float, np.ndarray, float]:
        """Return h(t, nu), the eigenvector, and the slope of h in nu."""
        value, v = first_eigenvector(self.matrix(t, nu))
        return t + value, v, self.slope(t, v)

    def slope(self, t: float, v: np.ndarray) -> float:
        """Return v'(CC' - t G)v."""
        a = v @ self.C
        return float(a @ a - t * (v @ self.G @ v))

    def is_below(self, t: float, nu: float, target: float) -> bool:
        """Return whether h(t, nu) is below a target, by a Cholesky factorisation, which costs less than h."""
        A = (nu * t) * self.G
        A -= self.S
        if nu:
            A -= nu * self.CC
        A.flat[:: len(A) + 1] += target - t
        return is_definite(A)

    def beyond(self, t: float, nu: float, target: float) -> np.ndarray:
        """Return nearly the eigenvector of h(t, nu), where h is above a target, in less time than `top`."""
        M = self.matrix(t, nu)
        for share in np.geomspace(1e-6, 1.0, 5):  # by which the eigenvalue may exceed the target
            A = -M
            A.flat[:: len(A) + 1] += (1 + share) * target - t
            L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1, clean=0)
            if failed:
                continue
            v = np.random.default_rng(0).standard_normal(len(M))
            for _ in range(4):
                v, _ = lapack.dpotrs(L, v / _length(v), lower=1)
            return v / _length(v)
        return self.top(t, nu)[1]

    def best_fit(self) -> tuple[float, np.ndarray]:
        """Return the largest first quotient and its maximiser: the least-squares direction of the responses."""
        R, Z = self.R, self.Z
        if len(Z) > Z.shape[1]:
            Q, Z = np.linalg.qr(Z)
            R = Q.T @ R
        U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
        keep = sigma > max(self.Z.shape) * EPS * sigma.max(initial=0.0)
        if not keep.any():
            return 0.0, np.eye(len(self.S))[0]
        U, sigma, Vt = U[:, keep], sigma[keep], Vt[keep]
        A, s, _ = np.linalg.svd(U.T @ R, full_matrices=False)
        w = (A[:, 0] / sigma) @ Vt
        return float(s[0] ** 2), w / np.linalg.norm(w)

    def rough_fit(self) -> np.ndarray:
        """Return nearly the maximiser of the first quotient, in a fraction of the time of `best_fit`."""
        A = self.G.copy()
        A.flat[:: len(A) + 1] += 1e-10 * np.trace(A) + np.finfo(np.float64).tiny
        _, fits, failed = lapack.dposv(A.T, self.C, lower=1, overwrite_a=1)
        if failed:
            return self.best_fit()[1]
        w = fits @ first_eigenvector(self.C.T @ fits)[1]
        return w if w.any() else self.best_fit()[1]  # there is none if all responses are 0

    def ascend(self, w: np.ndarray, max_iter: int = 60, reached: float = REACHED) -> tuple[np.ndarray, float]:
        """Return a local maximum and its value, by Newton or eigenvector steps from w.

        It is reached if the norm of the gradient, relative to J, is at most ``reached``.
        """
        w = w / _length(w)
        value = self.value(w)
        for _ in range(max_iter):
            gradient, N, M = self.derivatives(w)
            size = _length(gradient)
            if size <= reached * value:
                return w, value
            step = _tangent_step(w, gradient, N)
            # Near a maximum round-off may make a Newton step look like a small descent; a clear descent is rejected.
            least = value * (1 - 64 * EPS) if size <= FLAT * value else value
            found, higher = step, -np.inf if step is None else self.value(step)
            if found is None or higher <= least:
                found = first_eigenvector(M)[1]
                higher = self.value(found)
                if higher <= value * (1 + 1e-3):  # not clearly
                    others = [found, *_uphill(w, gradient, N)]
                    higher, found = max(((self.value(v), v) for v in others), key=lambda pair: pair[0])
            if higher <= value * (1 + 64 * EPS):
                return self._settled(w, value, step, size), value
            w, value = found, higher
        return w, value

    def _settled(self, w: np.ndarray, value: float, step: np.ndarray | None, size: float) -> np.ndarray:
        """Return w to full precision by Newton steps on the gradient, since J itself is flat at its maximum."""
        for _ in range(3):
            if size <= REACHED * value or step is None or self.value(step) < value * (1 - 64 * EPS):
                break
            gradient, N, _ = self.derivatives(step)
            if _length(gradient) > size / 2:
                break
            w, size = step, _length(gradient)
            step = _tangent_step(w, gradient, N)
        return w

    def derivatives(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return half of J's gradient on the sphere, minus half of its second derivative, and `matrix`."""
        t, s, square = self.parts(w)
        nu = 1 / square if square > self.least else 0.0
        M, Gw = self.matrix(t, nu), self.G @ w
        gradient = M @ w - s * w
        of_t = 2 * nu * nu * (self.C @ (self.C.T @ w) - t * Gw)
        # The derivative of M w - s w, projected onto the tangent space of the sphere on both sides.
        Hw = gradient - (of_t * (w @ Gw) + Gw * (of_t @ w))
        half = Hw - (w @ Hw / 2) * w
        N = np.stack([of_t, w, Gw, half]).T @ np.stack([Gw, half, of_t, w])
        N -= M
        N.flat[:: len(w) + 1] += s
        return gradient - (w @ gradient) * w, N, M


def _length(w: np.ndarray) -> float:
    """Return the norm of a vector, in less time than NumPy's function for any array takes."""
    return math.sqrt(w @ w)


def _tangent_step(w: np.ndarray, gradient: np.ndarray, N: np.ndarray) -> np.ndarray | None:
    """Return the unit vector after a Newton step on the sphere; None if J is not concave at w."""
    # N w = 0, so a term along w of the size of N makes the system regular and does not change tangent steps.
    A = np.outer(np.abs(np.diagonal(N)).max(initial=EPS) * w, w)
    A += N
    _, step, failed = lapack.dposv(A.T, gradient, lower=1, overwrite_a=1)
    if failed or not np.isfinite(step).all():
        return None
    step -= (w @ step) * w
    step += w
    return step / _length(step)


def _uphill(w: np.ndarray, gradient: np.ndarray, N: np.ndarray) -> list[np.ndarray]:
    """Return unit vectors after ascent steps along the eigenvectors of N, of the length of Newton's and shorter."""
    values, U = np.linalg.eigh(N)
    length = np.maximum(np.abs(values), 1e-10 * np.abs(values).max(initial=EPS))
    step = U @ ((U.T @ gradient) / length)
    step -= (w @ step) * w
    return [(w + a * step) / np.linalg.norm(w + a * step) for a in 0.2 ** np.arange(8)]


class Interval(NamedTuple):
    """An interval of t in which J does not exceed the target; ``nu`` proves it at both ends."""

    low: float
    high: float
    nu: float


class Maximum(NamedTuple):
    """A global maximum.

    Attributes
    ----------
    w : ndarray of shape (m,)
        The maximiser, of norm 1.
    value : float
        J(w).
    cover : list of Interval
        The intervals of t that prove it. The first has nu = 0. No w has a t beyond the last one.
    """

    w: np.ndarray
    value: float
    cover: list[Interval]


def maximise(
    problem: RatioSum,
    starts: list[np.ndarray] | None = None,
    proved_to: float = PROVED_TO,
    cover: list[Interval] | None = None,
    t_max: float | None = None,
    reached: float = REACHED,
) -> Maximum:
    """Return the global maximum of J, with its proof.

    Parameters
    ----------
    problem : RatioSum
        J.
    starts : list of ndarray of shape (m,), optional
        Starting points near maxima. The better the best of them, the shorter the search.
    proved_to : float
        Tolerance: the maximum exceeds the returned value by at most this share of it.
    cover : list of Interval, optional
        The proof of a similar problem, whose intervals are tried first.
    t_max : float, optional
        The largest first quotient, if it is known.
    reached : float
        Tolerance of the local maximum near the best start, as in `RatioSum.ascend`.

    Returns
    -------
    Maximum

    Examples
    --------
    >>> import numpy as np
    >>> problem = RatioSum(np.diag([2.0, 1.0]), np.array([[0.0, 2.0], [1.0, 1.0]]), np.array([[3.0], [1.0]]))
    >>> found = maximise(problem)
    >>> angles = np.linspace(0, np.pi, 10001)
    >>> naive = max(problem.value(np.array([np.cos(a), np.sin(a)])) for a in angles)
    >>> bool(abs(found.value - naive) < 1e-6)
    True
    """
    s, principal = first_eigenvector(problem.S)
    fit = principal
    if t_max is None:
        t_max, fit = problem.best_fit()
    w, best = _highest(problem, starts or [principal, fit], reached)
    search = _Search(problem, w, best, proved_to, s, principal)
    # With nu = 0 the bound is t + s. Beyond the end, t is within half of the tolerance of t_max.
    start, end = max(0.0, best - s), t_max - proved_to / 2 * best
    if end <= start:
        return Maximum(w, best, [Interval(0.0, max(start, t_max), 0.0)])
    # A cover with more intervals than a new search makes is not reused: most of its intervals would fail.
    known = cover[1:-1] if cover and len(cover) <= _MOST_NODES else []
    todo = [(max(a, start), min(b, end), nu, nu) for a, b, nu in known if a < end and b > start]
    if todo:
        todo[0] = (start, *todo[0][1:])
        todo[-1] = (todo[-1][0], end, *todo[-1][2:])
    else:
        nu = search.best_nu(end, s / max(t_max * problem.parts(fit)[2], np.finfo(np.float64).tiny))
        todo = [(start, end, 0.0, nu)]
    proof = []
    for _ in range(_MOST_NODES):
        if not todo:
            break
        low, high, nu_low, nu_high = todo.pop()
        if high <= search.best - s:
            continue
        covered = _covering(problem, search.target, low, high, nu_low, nu_high, search.t)
        if covered is not None:
            proof.append(Interval(low, high, covered))
            continue
        # A factorisation costs far less than the least bound at the middle, which is computed only where it matters.
        middle, nu = search.split(low, high, nu_low, nu_high)
        if not problem.is_below(middle, nu, search.target):
            nu = search.best_nu(middle, nu)
        todo += [(middle, high, nu, nu_high), (low, middle, nu_low, nu)]
    proof += [Interval(low, high, nu) for low, high, _, nu in todo]  # unproved because of round-off
    proof.sort()
    start = max(0.0, search.best - s)
    last = Interval(max(end, start), t_max, proof[-1].nu if proof else 0.0)
    return Maximum(search.w, search.best, [Interval(0.0, start, 0.0), *proof, last])


def first_guess(problem: RatioSum, reached: float = REACHED) -> Maximum:
    """Return a local maximum, without a proof: the highest near the principal and the least-squares direction."""
    starts = [first_eigenvector(problem.S)[1], problem.rough_fit()]
    return Maximum(*_highest(problem, starts, reached), [])


def _highest(problem: RatioSum, starts: list[np.ndarray], reached: float) -> tuple[np.ndarray, float]:
    return max((problem.ascend(v, reached=reached) for v in starts), key=lambda pair: pair[1])


def holds(problem: RatioSum, cover: list[Interval], target: float) -> bool:
    """Return whether the intervals of a proof, made for a similar problem, prove that J is below a target."""
    # The last of several intervals is shorter than the tolerance: its lower end, where another ends, is enough.
    parts = cover[:-1] or cover
    return all(problem.is_below(t, nu, target) for low, high, nu in parts for t in (high, low))


def merged(problem: RatioSum, found: Maximum, proved_to: float = PROVED_TO) -> list[Interval]:
    """Return a proof with fewer intervals: neighbours are merged if one nu serves both."""
    target, best_t = found.value * (1 + proved_to / 2), problem.parts(found.w)[0]
    wide = [found.cover[0]]
    for low, high, nu in found.cover[1:-1]:
        joint = None
        if len(wide) > 1:
            joint = _covering(problem, target, wide[-1].low, high, wide[-1].nu, nu, best_t)
        if joint is None:
            wide.append(Interval(low, high, nu))
        else:
            wide[-1] = Interval(wide[-1].low, high, joint)
    return [*wide, *found.cover[1:][-1:]]


def _covering(
    problem: RatioSum, target: float, low: float, high: float, nu_low: float, nu_high: float, best_t: float
) -> float | None:
    """Return a nu that proves J <= target for t from ``low`` to ``high``; None if none is found."""
    # Bounds are tightest near the best point, so that end is the first to fail.
    ends = (high, low) if high - best_t < best_t - low else (low, high)
    for nu in ((nu_low + nu_high) / 2, nu_high, nu_low):
        if all(problem.is_below(t, nu, target) for t in ends):
            return nu
    return None


class _Search:
    """The best point so far, and bounds on where a better one can be."""

    def __init__(
        self,
        problem: RatioSum,
        w: np.ndarray,
        best: float,
        proved_to: float,
        s: float,
        principal: np.ndarray,
    ) -> None:
        self.problem, self.proved_to = problem, proved_to
        self._keep(w, best)
        self.s, self.principal = s, principal
        self.size = float(np.trace(problem.G))

    def _keep(self, w: np.ndarray, value: float) -> None:
        self.w, self.best = w, value
        self.t, _, self.square = self.problem.parts(w)

    @property
    def target(self) -> float:
        # The other half of the tolerance is for t beyond the last interval.
        return self.best * (1 + self.proved_to / 2)

    def split(self, low: float, high: float, nu_low: float, nu_high: float) -> tuple[float, float]:
        """Return where to split an interval, and a nu: at the best point if it is well inside, else in the middle."""
        margin = 0.1 * (high - low)
        if low + margin < self.t < high - margin and self.square > self.problem.least:
            return self.t, 1 / self.square
        return (low + high) / 2, (nu_low + nu_high) / 2

    def best_nu(self, t: float, guess: float) -> float:
        """Return the nu of the least bound at t. If even this bound is above the best value, search a better point.

        The bound is convex in nu, so its tangents on both sides of the minimum bound it from below.
        """
        low, f_low, v_low = 0.0, t + self.s, self.principal
        slope_low = self.problem.slope(t, v_low)
        if slope_low >= 0:
            return 0.0
        high = slope_high = f_high = np.inf
        v_high = None
        nu, f_best, nu_best = guess or 1.0, f_low, 0.0
        for i in range(80):
            f, v, slope = self.problem.top(t, nu)
            if f < f_best:
                f_best, nu_best = f, nu
            if slope >= 0:
                high, f_high, slope_high, v_high = nu, f, slope, v
            else:
                low, f_low, slope_low, v_low = nu, f, slope, v
            if v_high is None:
                if nu * t * self.size > 1e16 * f_low:
                    break  # for larger nu all digits are lost
                nu *= 8
                continue
            meet = (f_low - f_high + slope_high * high - slope_low * low) / (slope_high - slope_low)
            bound = f_low + slope_low * (meet - low)
            if f_best - bound <= max(0.4 * (self.target - f_best), 1e-3 * self.proved_to * self.best):
                break
            secant = low - slope_low * (high - low) / (slope_high - slope_low)
            nu = secant if i % 3 and low > 0 else meet
            nu = min(max(nu, low + 0.05 * (high - low)), high - 0.05 * (high - low))
        if f_best > self.target and v_high is not None:
            self._improve(v_low, v_high)
        return nu_best

    def _improve(self, v: np.ndarray, u: np.ndarray) -> None:
        """Search a better point between two eigenvectors from both sides of a least bound."""
        angles = np.linspace(0, np.pi, 17)[:-1]
        between = [np.cos(a) * v + np.sin(a) * u for a in angles]
        between = [w for w in between if np.linalg.norm(w) > 1e-8]
        values = [self.problem.value(w) for w in between]
        for i in np.argsort(values)[-2:]:
            w, value = self.problem.ascend(between[i])
            if value > self.best:
                self._keep(w, value)


def is_definite(A: np.ndarray) -> bool:
    """Return whether a symmetric matrix is positive definite; it is overwritten by its Cholesky factor."""
    # A is symmetric, and LAPACK factors A.T in place.
    return lapack.dpotrf(A.T, lower=1, overwrite_a=1, clean=0)[1] == 0


def first_eigenvector(M: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the largest eigenvalue of a symmetric matrix, and its eigenvector."""
    values, vectors = first_eigenvectors(M, 1)
    return float(values[0]), vectors[:, 0]


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
