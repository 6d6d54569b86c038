r"""The global maximum of a sum of two Rayleigh quotients.

.. math:: \max_w J(w) = \frac{\|R'Zw\|^2}{\|Zw\|^2} + \frac{w'Sw}{w'w}

J has local maxima, so ascent from some points is not enough. Let t be the first quotient. The best second quotient
among all w whose first quotient is at least t is, by the S-lemma (two quadratic forms on a sphere), exactly

.. math:: V(t) = \min_{\nu \ge 0} \lambda_{\max}\big(S + \nu (C C' - t G)\big), \qquad C = Z'R, \; G = Z'Z,

so max J = max over t of t + V(t), a problem in one dimension for any number of columns of R. For fixed nu the bound

.. math:: h(t, \nu) = t + \lambda_{\max}\big(S + \nu (C C' - t G)\big) \ge t + V(t)

is convex in t. If it is below a value at both ends of an interval, it is below it in between. Intervals of t that
cover all t in this way, each with a nu, prove that J nowhere exceeds the value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelfold.numerics import first_eigenvector
from labelfold.subspace._ratio_sum import REACHED, RatioSum

# Tolerance of the proof: the maximum exceeds the value found by at most this share of it.
PROVED_TO = 2e-7

# Largest number of splits of intervals: round-off can make a bound useless if nu is very large.
_MOST_NODES = 300


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
