r"""The pursuit: directions one at a time, each the global maximum of its gain.

With residual rows R (n, d), of which Z are the labelled ones, and residual responses r (l, q), the next direction
maximises what it takes off the objective (eq. 2 of the paper, its multipliers eliminated),

.. math:: J(w) = \frac{\|r'Zw\|^2}{\|Zw\|^2} + \lambda \frac{\|Rw\|^2}{\|w\|^2},

and then r and R lose what it explains. R is never formed: w is kept orthogonal to the directions before it, and
for such w the residual rows' products are those of the rows themselves.

J is maximised over a small space of vectors, globally (`numerics.sphere`). The space holds, to begin with, what maxima are
made of: least-squares directions, Z'r and principal directions. It grows by the residual of the best vector found,
until that is a stationary point of J among all vectors, and is kept for the directions to come. Where there are few
columns it is the whole space; where there are somewhat more, Cholesky factors in the whole space confirm that
nothing larger was missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from labelfold.numerics.sphere import PROVED_TO, Maximum, RatioSum, first_eigenvector, maximise
from labelfold.pursuit.spaces import MatrixSpace, Space
from labelfold.pursuit.vectors import Vectors, orthonormal

# Up to so many columns the small space is the whole one; up to the second number it is proved to have been enough.
WHOLE, PROVED = 64, 256

# The small space grows to so many vectors, and then shrinks to those that matter most.
_MOST, _KEPT = 96, 40

# So many vectors are drawn at random to learn principal directions from; so many responses are looked at singly.
_RANDOM, _RESPONSES = 8, 8

# A first search of the small space is as rough as this; where nothing can be proved, the space grows so often by what
# a search of it shows, and by so many vectors at a time.
_ROUGHLY, _EXPLORED, _BLOCK = 0.01, 2, 4


class Pursuit(NamedTuple):
    """What was found.

    Attributes
    ----------
    W : ndarray of shape (size, k)
        The directions, orthonormal in their space.
    alpha : ndarray of shape (k, q)
        Their coefficients, each fitted to what those before left.
    Z : ndarray of shape (l, k)
        The scores of the labelled rows.
    gains : ndarray of shape (k,)
        J of each direction: by so much it lowered the objective.
    objective : ndarray of shape (k,)
        The objective of eq. 2 with so many directions.
    n_iter : int
        Products with S, a block of vectors at a time.
    converged : bool
        Whether every direction is stationary to the tolerance.
    """

    W: np.ndarray
    alpha: np.ndarray
    Z: np.ndarray
    gains: np.ndarray
    objective: np.ndarray
    n_iter: int
    converged: bool


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
    callback: Callable[[int, float], None] | None = None,
) -> Pursuit:
    """Find directions one at a time; fewer than asked for where rows have no more.

    Parameters
    ----------
    space : Space
        The rows.
    Y : ndarray of shape (l, q)
        Responses of the labelled rows, less their mean where there is an intercept.
    weight : float
        Weight of the reconstruction, lambda.
    n_components : int
        The most directions.
    tol : float
        A direction is done when J's gradient is at most this, relative to J.
    max_iter : int
        The most steps that a direction may take.
    random_state : int
        Seeds the vectors that principal directions are learned from.
    keep_on_interrupt : bool
        Whether Ctrl-C returns the directions found so far.
    callback : callable, optional
        Called with the number of directions and the objective.

    Returns
    -------
    Pursuit
    """
    r = np.array(Y, dtype=np.float64)
    left = float((r**2).sum()) + weight * space.square
    gains, objective, alphas = [], [], []
    search = _Search(space, weight, tol, max_iter, np.random.default_rng(random_state))
    try:
        for k in range(n_components):
            found = search.next_direction(r)
            if found is None:
                break
            z, gain = found
            square = float(z @ z)
            alpha = (z @ r) / square if square > search.least else np.zeros(r.shape[1])
            r = r - np.outer(z, alpha)
            left -= gain
            gains.append(gain)
            objective.append(left)
            alphas.append(alpha)
            if callback is not None:
                callback(k + 1, left)
    except KeyboardInterrupt:
        if not keep_on_interrupt or not gains:
            raise
    k = len(gains)
    taken = search.taken @ np.eye(search.taken.count)[:, :k]
    return Pursuit(
        taken.Q,
        np.array(alphas).reshape(k, r.shape[1]),
        taken.ZQ,
        np.array(gains),
        np.array(objective),
        search.n_iter,
        search.converged,
    )


class _Small(NamedTuple):
    """J on the small space: ``ratio``, in the coordinates V (m, k) of its vectors, in which S is diagonal."""

    ratio: RatioSum
    V: np.ndarray


class _Search:
    """The directions taken, and the small space that the next one is looked for in."""

    def __init__(
        self, space: Space, weight: float, tol: float, max_iter: int, rng: np.random.Generator
    ) -> None:
        self.space, self.weight, self.tol, self.max_iter, self.rng = space, weight, tol, max_iter, rng
        self.n_iter, self.converged = 0, True
        self.proves = isinstance(space, MatrixSpace) and space.size <= PROVED
        self.is_whole = self.proves and space.size <= WHOLE
        self.most = space.size if self.proves else _MOST
        self.taken = self.basis = Vectors.none(space)
        self.T = np.empty((0, 0))  # S on the small space
        self.extend(np.eye(space.size) if self.is_whole else space.random(min(_RANDOM, space.size), rng))
        if not self.is_whole and self.basis.count:
            self.extend(self.basis.SQ)
        # Values of ||Zw||^2, and of w'Sw, that are round-off.
        self.least = (16 * np.finfo(np.float64).eps) ** 2 * space.square
        self.tiny = space.noise * (first_eigenvector(self.T)[0] if len(self.T) else 0.0)

    def next_direction(self, r: np.ndarray) -> tuple[np.ndarray, float] | None:
        """Take the best direction for the residuals r: return the labelled rows' scores, and the gain."""
        if not self.is_whole:
            self.seed(r)
        small = self.small(r)
        if small is None:
            return None
        found = maximise(small.ratio, proved_to=PROVED_TO if self.is_whole else _ROUGHLY)
        y = small.V @ found.w
        if self.proves and not self.is_whole:
            y, gain = self.proved(y, r)
        elif not self.is_whole:
            y, gain = self.explored(y, r)
        else:
            gain = found.value
        return self.take(y / np.linalg.norm(y)), gain

    def proved(self, y: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the maximum among all vectors: climbed to in the whole space, and confirmed there."""
        whole = self.whole(r)
        for _ in range(self.max_iter):
            w, _ = whole.ascend(self.basis.Q @ y)
            y = self.extend(w[:, None], y)
            y = self.basis.Q.T @ w
            small = self.small(r)
            found = maximise(small.ratio, [y @ small.V])
            missed = self.disprove(whole, found)
            if missed is None:
                return small.V @ found.w, found.value
            y = self.extend(missed, small.V @ found.w)
        self.converged = False
        return y, found.value

    def explored(self, y: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the maximum of the small space, once that has grown where a larger one may be."""
        for i in range(_EXPLORED + 1):
            y = self.settle(y, r)
            small = self.small(r)
            before = small.ratio.value(y @ small.V)
            found = maximise(small.ratio, [y @ small.V])
            if i == _EXPLORED and found.value <= before * (1 + PROVED_TO):
                break
            y = self.explore(small.V @ found.w, found, r)
        return y, before

    def seed(self, r: np.ndarray) -> None:
        """Add to the small space what the next direction may be made of."""
        space = self.space
        if r.shape[1] > _RESPONSES and not self.proves:
            U, s, _ = np.linalg.svd(r, full_matrices=False)
            r = U[:, :_RESPONSES] * s[:_RESPONSES]
        through = space.back(r)
        # The second are least-squares directions; the last finds rows that nothing so far has seen.
        self.extend(np.hstack([through, space.fits(r, through, self.taken.Q), space.random(1, self.rng)]))

    def small(self, r: np.ndarray) -> _Small | None:
        """Return J on the small space, or None where no row reaches into it."""
        if not len(self.T):
            return None
        values, V = np.linalg.eigh(self.T)
        keep = values > self.tiny
        if not keep.any():
            return None
        values, V = values[keep], V[:, keep]
        return _Small(RatioSum(np.diag(self.weight * values), self.basis.ZQ @ V, r), V)

    def settle(self, y: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Let the space grow until its local maximum by y is a stationary point of J among all vectors."""
        for _ in range(self.max_iter):
            small = self.small(r)
            w, value = small.ratio.ascend(y @ small.V)
            y = small.V @ w
            t, s, square = small.ratio.parts(w)
            nu = 1 / square if square > self.least else 0.0
            values, U = np.linalg.eigh(small.ratio.matrix(t, nu))
            near = small.V @ U[:, ::-1][:, 1:_BLOCK]
            residuals = self.residuals(np.column_stack([y, near]), t, nu, r)
            size = self.weight * self.T.trace() + t * nu * float((self.basis.ZQ**2).sum())
            if self.space.norm(residuals[:, :1]) <= max(self.tol * value, self.space.noise * size):
                return y
            count = self.basis.count
            y = self.extend(self.softened(residuals, t * nu / s), y)
            if self.basis.count == count:
                return y  # what is left is round-off
        self.converged = False
        return y

    def residuals(self, Y: np.ndarray, t: float, nu: float, r: np.ndarray) -> np.ndarray:
        """Return what S + nu (CC' - t G) makes of vectors of the small space, less the best multiples of them."""
        basis = self.basis
        Z = basis.ZQ @ Y
        MY = self.weight * (basis.SQ @ Y) + self.space.back(nu * (r @ (r.T @ Z) - t * Z))
        values = self.weight * np.einsum("ij,ij->j", Y, self.T @ Y)
        values += nu * (((r.T @ Z) ** 2).sum(axis=0) - t * (Z**2).sum(axis=0))
        B, W = MY - basis.Q @ (Y * values), self.taken
        return B - W.Q @ self.space.dot(W.Q, W.SQ, B)

    def softened(self, B: np.ndarray, ratio: float) -> np.ndarray:
        """Return residuals as directions to search in, ``ratio`` being the weight of Z'Z beside 1."""
        return self.space.soften(B, ratio) if ratio * float((self.basis.ZQ**2).sum()) > 0.1 else B

    def explore(self, y: np.ndarray, found: Maximum, r: np.ndarray) -> np.ndarray:
        """Let the space grow where the bounds that prove its maximum are closest to it."""
        small = self.small(r)
        tops = []
        for low, high, nu in found.cover:
            for t in (low, high):
                h, v, _ = small.ratio.top(t, nu)
                tops.append((h, t, nu, v))
        tops.sort(key=lambda top: -top[0])
        B = []
        for h, t, nu, v in tops[:: 1 + len(tops) // _BLOCK]:
            B.append(
                self.softened(
                    self.residuals((small.V @ v)[:, None], t, nu, r), t * nu / max(h - t, self.tiny)
                )
            )
        return self.extend(np.hstack(B), y)

    def extend(self, B: np.ndarray, y: np.ndarray | None = None) -> np.ndarray | None:
        """Add vectors to the small space; return y in terms of the new one."""
        self.n_iter += 1
        if self.basis.count + B.shape[1] > self.most and self.basis.count > _KEPT:
            y = self.shrink(y)
        new = orthonormal(self.space, B, self.taken, self.basis)
        cross = self.space.dot_s(*self.basis[:2], *new[:2])
        corner = self.space.dot_s(*new[:2], *new[:2])
        self.T = np.block([[self.T, cross], [cross.T, (corner + corner.T) / 2]])
        self.basis = self.basis.and_also(new)
        return None if y is None else np.concatenate([y, np.zeros(new.count)])

    def shrink(self, y: np.ndarray | None) -> np.ndarray | None:
        """Keep y, the latest vectors and the principal ones of the small space; return y in terms of these."""
        m = self.basis.count
        principal = np.linalg.eigh(self.T)[1][:, ::-1][:, : _KEPT - 9]
        parts = [principal, np.eye(m)[:, m - 8 :]]
        A = np.linalg.qr(np.hstack(parts if y is None else [y[:, None], *parts]))[0]
        self.basis, self.T = self.basis @ A, A.T @ self.T @ A
        return None if y is None else y @ A

    def take(self, y: np.ndarray) -> np.ndarray:
        """Move a vector from the small space to the directions taken; return the labelled rows' scores."""
        # The reflection that turns y into the first axis: its other columns are the rest of the space.
        u = y.copy()
        u[0] += np.copysign(1.0, y[0])
        rest = (np.eye(len(y)) - 2 * np.outer(u, u) / (u @ u))[:, 1:]
        one = self.basis @ y[:, None]
        one = one.less(self.space, self.taken).less(self.space, self.taken)
        one = one @ (1 / np.sqrt(self.space.dot(one.Q, one.SQ, one.Q)))
        self.basis, self.T = self.basis @ rest, rest.T @ self.T @ rest
        self.taken = self.taken.and_also(one)
        return one.ZQ[:, 0]

    def whole(self, r: np.ndarray) -> RatioSum:
        """Return J on all vectors, of which those taken lead nowhere."""
        W, Z = self.taken.Q, self.space.Z - self.taken.ZQ @ self.taken.Q.T
        SW = self.taken.SQ @ W.T
        return RatioSum(self.weight * (self.space.S - SW - SW.T + W @ (W.T @ SW)), Z, r)

    def disprove(self, whole: RatioSum, found: Maximum) -> np.ndarray | None:
        """Return vectors that may lead to a larger J than the small space has, or None where there are none.

        The intervals that prove the maximum in the small space are checked in the whole one, where bounds can only
        be larger: is (target - t) I - S - nu (CC' - t G) positive definite at both ends?
        """
        target = found.value * (1 + 2 * PROVED_TO)
        missed, eye = [], np.eye(len(whole.S))
        for i, (low, high, nu) in enumerate(found.cover):
            last = i == len(found.cover) - 1
            for t, top in [(low, high)] if last and i else [(low, low), (high, high)]:
                M = whole.matrix(t, nu)
                _, failed = lapack.dpotrf((target - top) * eye - M, lower=1, overwrite_a=1, clean=0)
                if failed:
                    missed.append(first_eigenvector(M)[1])
        return np.stack(missed[:: 1 + len(missed) // 9], axis=1) if missed else None
