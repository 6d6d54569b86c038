"""The search for one direction: a small subspace grows until it contains the global maximum of the gain.

J is maximised globally over the small space (`_ratio_sums.py`). The space starts with least-squares
directions, Z'r and principal directions, since maxima are combinations of these. It is extended by the residual of
the best vector until that vector is a stationary point of J in the whole space, and is kept for later directions.
With few columns it is the whole space. With somewhat more, steps are taken in the whole space, and Cholesky factors
prove that no larger maximum was missed. In 96 fits of up to 80 columns the proof never changed a direction, and the
search with it took 0.6 of the time of one without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from labelfold.base import Iterates, descend
from labelfold.subspace._ratio_sums import (
    FLAT,
    PROVED_TO,
    REACHED,
    Interval,
    Maximum,
    RatioSum,
    first_eigenvector,
    first_eigenvectors,
    first_guess,
    holds,
    is_definite,
    maximise,
    merged,
)
from labelfold.subspace._source import FACTORED, MatrixSpace, Space, Vectors, projected

# Largest number of vectors of the small space before it is reduced to its more important half. With at most so many
# columns it is the whole space.
WHOLE = 64
# The same if maxima are not proved: the space is then large, and a product with S costs more than the algebra of the
# small space.
_UNPROVED = 96
# Number of random start vectors, of responses treated individually, and of latest vectors that a reduction keeps.
_STARTS = 8
# Tolerance of a first search of the small space.
_ROUGHLY = 1e-3
# Relative gradient at which an ascent in the small space stops: in a first search; and later as a share of the
# residual in the whole space, or of its tolerance.
_ROUGH_ASCENT, _PRECISE = 1e-8, 0.01
# A relative gradient below `FLAT` that this many steps do not halve is considered round-off.
_PATIENCE = 12
# Maxima are considered equal if the relative difference of their values is below this.
_SAME = 1e-11


class LostDigits(Exception):
    """The coordinates of a space cannot represent the vectors of a search to enough digits."""


class _SmallSpace(NamedTuple):
    """J on the small space: ``ratio``, in coordinates V (m, k) of its vectors, of which none is orthogonal to S."""

    ratio: RatioSum
    V: np.ndarray


class Search:
    """The directions found so far, and the small space in which the next one is searched."""

    def __init__(
        self,
        space: Space,
        weight: float,
        n_components: int,
        tol: float,
        max_iter: int,
        rng: np.random.Generator,
    ) -> None:
        self.space, self.weight, self.tol, self.max_iter, self.rng = space, weight, tol, max_iter, rng
        self.n_iter, self.converged = 0, True
        self.proved_to, self.explored = max(PROVED_TO, tol), 2 if tol <= FLAT else 0
        self.is_whole = space.size <= WHOLE
        self.proves = isinstance(space, MatrixSpace) and space.size <= FACTORED
        # If maxima are proved, the space must not be reduced during a search.
        most = WHOLE if self.proves else _UNPROVED
        self.most = np.inf if self.proves else most
        self.usual = most + n_components if self.proves else most
        self.store = SearchVectors(space.none(), int(self.usual) + n_components + _STARTS)
        self.T = self.G = np.empty((0, 0))  # S and Z'Z on the small space
        if self.is_whole:
            self.extend(np.eye(space.size))
        else:
            known = space.principal(n_components + _STARTS)
            self.extend(space.random(min(_STARTS, space.size), rng) if known is None else known)
            if known is None:
                self.extend(self.basis.SQ)
        # Values of ||Zw||^2, and of w'Sw, that are round-off.
        self.least = (16 * np.finfo(np.float64).eps) ** 2 * space.square
        self.tiny = space.noise * (first_eigenvector(self.T)[0] if len(self.T) else 0.0)

    @property
    def taken(self) -> Vectors:
        """The directions found so far."""
        return self.store.taken

    @property
    def basis(self) -> Vectors:
        """The small space."""
        return self.store.basis

    def next_direction(self, r: np.ndarray) -> tuple[np.ndarray, float] | None:
        """Find the best direction for the residuals r; return the scores of the labelled rows, and the gain."""
        if not self.is_whole:
            if self.basis.n_vectors > self.usual:
                self.shrink(None)
            self.seed(r)
        small = self.small(r)
        if small is None:
            return None
        if self.is_whole or self.proves:
            found = (
                maximise(small.ratio, proved_to=self.proved_to)
                if self.is_whole
                else maximise(small.ratio, proved_to=_ROUGHLY, reached=_ROUGH_ASCENT)
            )
        else:
            found = first_guess(small.ratio, _ROUGH_ASCENT)
        y = small.V @ found.w
        if not self.is_whole:
            y, found = self.improved(y, found, r)
        return self.take(y / np.linalg.norm(y)), found.value

    def improved(self, y: np.ndarray, found: Maximum, r: np.ndarray) -> tuple[np.ndarray, Maximum]:
        """Return the maximum after the small space was extended wherever a larger one is possible."""
        whole = self.whole(r) if self.proves else None
        confirmed: set = set()
        best, best_y, tried = found, y, 0
        first, explored = self.n_iter, self.explored
        most = float(np.linalg.norm(r, 2)) ** 2  # no direction explains more of the responses
        for i in range(self.max_iter):
            left = self.max_iter - (self.n_iter - first)
            is_last = self.proves or i >= explored
            tol = self.tol if is_last else max(self.tol, _ROUGHLY)
            y = self.settle(y, r, tol, left) if whole is None else self.climb(y, whole)
            small = self.small(r)
            assert small is not None
            value = small.ratio.value(y @ small.V)
            t_max = found.cover[-1].high if self.proves else most
            proved_to, reached = (self.proved_to, REACHED) if is_last else (_ROUGHLY, _ROUGH_ASCENT)
            found = maximise(small.ratio, [y @ small.V], proved_to, found.cover, t_max, reached)
            if whole is not None:
                missed = self.disprove(
                    whole, merged(small.ratio, found, self.proved_to), found.value, confirmed
                )
            else:
                missed = None if is_last else self.around(small, found, r)
            if missed is None and found.value <= value * (1 + _SAME):
                return y, found
            y = small.V @ found.w
            if whole is not None:
                # The proof is given up after four extensions of the small space without a clearly larger maximum:
                # where directions of very little variance fit best, round-off makes bounds useless.
                is_higher = found.value > best.value * (1 + 1e-8)
                best, best_y, tried = (found, y, 0) if is_higher else (best, best_y, tried + 1)
                if tried == 4:
                    return np.pad(best_y, (0, len(y) - len(best_y))), best
            if whole is None and self.n_iter - first >= self.max_iter:
                break
            if missed is not None:
                count = self.basis.n_vectors
                y = self.extend(missed, y)
                is_nothing = self.basis.n_vectors == count and found.value <= value * (1 + _SAME)
                if is_nothing and is_last:
                    return y, found  # the rest is round-off
                # If the bounds of the space before an extension hold after it, there is nothing more to explore.
                if not is_last and (is_nothing or self.still_holds(found, r)):
                    explored = i + 1
        self.converged = False
        return y, found

    def still_holds(self, found: Maximum, r: np.ndarray) -> bool:
        """Return whether the proof of a maximum, made before an extension of the small space, holds after it."""
        small = self.small(r)
        return small is not None and holds(small.ratio, found.cover, found.value * (1 + _ROUGHLY))

    def climb(self, y: np.ndarray, whole: RatioSum) -> np.ndarray:
        """Return the local maximum in the whole space near y; it is added to the small space."""
        w, _ = whole.ascend(self.basis.Q @ y)
        self.extend(w[:, None])
        return w @ self.basis.Q

    def seed(self, r: np.ndarray) -> None:
        """Add vectors to the small space of which the next direction may be a combination."""
        space = self.space
        if r.shape[1] > _STARTS and not self.proves:
            U, s, _ = np.linalg.svd(r, full_matrices=False)
            r = U[:, :_STARTS] * s[:_STARTS]
        through = space.back(r)
        # The second are least-squares directions. The last are random, for rows that are orthogonal to all vectors so
        # far.
        self.extend(np.hstack([through, space.fits(r, through, self.taken.Q), space.random(1, self.rng)]))

    def small(self, r: np.ndarray) -> _SmallSpace | None:
        """Return J on the small space, or None if all rows are orthogonal to it."""
        if not len(self.T):
            return None
        m = len(self.T)
        if is_definite(self.T - self.tiny * np.eye(m)):
            return _SmallSpace(RatioSum(self.weight * self.T, self.basis.ZQ, r, self.G), np.eye(m))
        values, V = np.linalg.eigh(self.T)
        keep = values > self.tiny
        if not keep.any():
            return None
        values, V = values[keep], V[:, keep]
        return _SmallSpace(RatioSum(np.diag(self.weight * values), self.basis.ZQ @ V, r), V)

    def settle(self, y: np.ndarray, r: np.ndarray, tol: float, most: int) -> np.ndarray:
        """Extend the space until its local maximum near y is a stationary point of J in the whole space."""
        norms: list[float] = []
        reached = min(_PRECISE * tol, _ROUGH_ASCENT)
        for _ in range(most):
            small = self.small(r)
            assert small is not None
            # While the residual is large, the maximum of the small space is needed to fewer digits.
            w, value = small.ratio.ascend(y @ small.V, reached=reached)
            y = small.V @ w
            self.space.check(self.basis.Q @ y, self.basis.ZQ @ y)
            t, s, square = small.ratio.parts(w)
            nu = 1 / square if square > self.least else 0.0
            Y = y[:, None]
            if self.space.block > 1:
                U = first_eigenvectors(small.ratio.matrix(t, nu), self.space.block)[1]
                Y = np.hstack([Y, small.V @ U[:, 1:]])
            residuals = self.residuals(Y, t, nu, r)
            size = self.weight * float(np.trace(self.T)) + t * nu * float(np.trace(self.G))
            norms.append(self.space.norm(residuals[:, 0]))
            reached = min(max(_PRECISE * norms[-1] / value, REACHED), _ROUGH_ASCENT)
            if norms[-1] <= max(tol * value, self.space.noise * size):
                return y
            is_stuck = len(norms) > _PATIENCE and min(norms[-_PATIENCE:]) > min(norms[:-_PATIENCE]) / 2
            if is_stuck and min(norms) <= FLAT * value:
                return self.sharpened(y, r)  # J is flat here up to round-off
            count = self.basis.n_vectors
            y = self.extend(self.softened(residuals, np.full(residuals.shape[1], t * nu / s)), y)
            if self.basis.n_vectors == count:
                return self.sharpened(y, r)  # the rest is round-off
        self.converged = False
        return y

    def sharpened(self, y: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Return the local maximum of the small space near y to full precision."""
        small = self.small(r)
        assert small is not None
        return small.V @ small.ratio.ascend(y @ small.V)[0]

    def residuals(self, Y: np.ndarray, t: float, nu: float, r: np.ndarray) -> np.ndarray:
        """Return the residuals of vectors of the small space as eigenvectors of S + nu (CC' - t G)."""
        basis = self.basis
        Z = basis.ZQ @ Y
        MY = self.weight * (basis.SQ @ Y) + self.space.back(nu * (r @ (r.T @ Z) - t * Z))
        values = self.weight * np.einsum("ij,ij->j", Y, self.T @ Y)
        values += nu * (((r.T @ Z) ** 2).sum(axis=0) - t * (Z**2).sum(axis=0))
        B = MY - basis.Q @ (Y * values)
        return B - self.taken.Q @ self.taken.dot(B)

    def softened(self, B: np.ndarray, ratio: np.ndarray) -> np.ndarray:
        """Return preconditioned residuals as search directions; ``ratio`` is the weight of Z'Z for each."""
        matters = ratio * float(np.trace(self.G)) > 0.1
        return self.space.soften(B, np.where(matters, ratio, 0.0)) if matters.any() else B

    def around(self, small: _SmallSpace, found: Maximum, r: np.ndarray) -> np.ndarray:
        """Return vectors for the extension of the space where the bounds of the proof are tightest."""
        ends = [(*small.ratio.top(t, nu)[:2], t, nu) for t, _, nu in found.cover]
        ends.sort(key=lambda end: -end[0])
        chosen = ends[:: 1 + len(ends) // 4]
        leads = [self.residuals((small.V @ v)[:, None], t, nu, r) for _, v, t, nu in chosen]
        ratios = [t * nu / max(h - t, self.weight * self.tiny) for h, _, t, nu in chosen]
        return self.softened(np.hstack(leads), np.array(ratios))

    def extend(self, B: np.ndarray, y: np.ndarray | None = None) -> Any:
        """Add vectors to the small space; return y, if it is given, in its new coordinates."""
        self.n_iter += 1
        if self.basis.n_vectors + B.shape[1] > self.most and self.basis.n_vectors > WHOLE // 2:
            y = self.shrink(y)
        new = self.space.orthonormal(B, self.store.all)
        self.store.add(new)
        basis = self.basis
        self.T = _bordered(self.T, basis.dot(new.SQ))
        self.G = _bordered(self.G, basis.ZQ.T @ new.ZQ)
        return None if y is None else np.concatenate([y, np.zeros(new.n_vectors)])

    def shrink(self, y: np.ndarray | None) -> np.ndarray | None:
        """Keep y, the latest vectors and the principal ones of the small space; return y in the new coordinates."""
        m = self.basis.n_vectors
        principal = np.linalg.eigh(self.T)[1][:, ::-1][:, : m // 2 - _STARTS - 1]
        parts = [principal, np.eye(m)[:, m - _STARTS :]]
        A = np.linalg.qr(np.hstack(parts if y is None else [y[:, None], *parts]))[0]
        self.store.combine(A)
        self.T, self.G = A.T @ self.T @ A, A.T @ self.G @ A
        return None if y is None else y @ A

    def take(self, y: np.ndarray) -> np.ndarray:
        """Move a vector from the small space to the directions found; return the scores of the labelled rows."""
        # The reflection that maps y to the first axis. Its other columns span the rest of the space.
        u = y.copy()
        u[0] += np.copysign(1.0, y[0])
        v = 2 / (u @ u) * u[1:]
        one = self.basis @ y[:, None]
        one = one.less(self.taken).less(self.taken)
        one = one @ one.dot(one.Q) ** -0.5
        self.T, self.G = _reflected(self.T, u, v), _reflected(self.G, u, v)
        self.store.take(one, u, v)
        return one.ZQ[:, 0]

    def whole(self, r: np.ndarray) -> RatioSum:
        """Return J on all vectors; it is 0 along the directions found so far."""
        space, W, ZW = self.space, self.taken.Q, self.taken.ZQ
        assert isinstance(space, MatrixSpace)
        S = projected(space.S, W, self.taken.SQ)
        G = projected(space.G, W, space.back(ZW))
        return RatioSum(self.weight * S, space.Z - ZW @ W.T, r, G)

    def disprove(
        self, whole: RatioSum, cover: list[Interval], value: float, confirmed: set
    ) -> np.ndarray | None:
        """Return vectors that may lead to a larger J than that of the small space, or None if there are none.

        The intervals that prove the maximum in the small space are checked in the whole space, where bounds can only
        be larger. Those that hold are remembered, since the target only increases.
        """
        target = value * (1 + 2 * self.proved_to)
        missed = []
        for i, (low, high, nu) in enumerate(cover):
            ends = [(low, 0.0), (high, 0.0)]
            if i == len(cover) - 1 and i:
                ends = [(low, high - low)]
            elif not nu:
                ends = [(high, 0.0)]  # the bound increases with t
            for t, beyond in ends:
                if (t, nu, beyond) in confirmed:
                    continue
                if whole.is_below(t, nu, target - beyond):
                    confirmed.add((t, nu, beyond))
                else:
                    missed.append(whole.beyond(t, nu, target - beyond))
        return np.stack(missed[:: 1 + len(missed) // 9], axis=1) if missed else None


def _reflected(S: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return S after a reflection by I - uv' on both sides, less its first row and column; v has no first entry."""
    Su = S @ u
    half = Su[1:] - (u @ Su) / 2 * v
    return S[1:, 1:] - np.outer(half, v) - np.outer(v, half)


class SearchVectors:
    """The directions found so far and the vectors of the small space, side by side in memory that is used again.

    Parameters
    ----------
    none : Vectors
        No vectors, of the kind to store.
    capacity : int
        Number of vectors to reserve memory for; more is reserved when there are more.

    Attributes
    ----------
    n_taken, n_vectors : int
        Number of directions found, and of all vectors.
    """

    def __init__(self, none: Vectors, capacity: int) -> None:
        self.kind = type(none)
        self.n_taken = self.n_vectors = 0
        self.columns = [np.empty((len(own), capacity), order="F") for own in none]

    def _part(self, start: int, stop: int) -> Vectors:
        return self.kind(*(own[:, start:stop] for own in self.columns))

    @property
    def all(self) -> Vectors:
        """The directions found and the small space."""
        return self._part(0, self.n_vectors)

    @property
    def taken(self) -> Vectors:
        """The directions found."""
        return self._part(0, self.n_taken)

    @property
    def basis(self) -> Vectors:
        """The small space."""
        return self._part(self.n_taken, self.n_vectors)

    def add(self, new: Vectors) -> None:
        """Add vectors to the small space."""
        stop = self.n_vectors + new.n_vectors
        if stop > self.columns[0].shape[1]:
            kept = self.all
            self.columns = [np.empty((len(own), 2 * stop), order="F") for own in kept]
            for own, its in zip(self.columns, kept, strict=True):
                own[:, : self.n_vectors] = its
        for own, its in zip(self.columns, new, strict=True):
            own[:, self.n_vectors : stop] = its
        self.n_vectors = stop

    def take(self, one: Vectors, u: np.ndarray, v: np.ndarray) -> None:
        """Move a vector to the directions found: the small space is reflected by I - uv', and its first replaced.

        ``v`` has no first entry.
        """
        start = self.n_taken
        for own, its in zip(self.columns, one, strict=True):
            along = own[:, start : self.n_vectors] @ u
            rest = own[:, start + 1 : self.n_vectors].T
            rest -= np.outer(v, along)
            own[:, start] = its[:, 0]
        self.n_taken += 1

    def combine(self, A: np.ndarray) -> None:
        """Replace the small space by combinations of its vectors, with coefficients A (m, k)."""
        new = self.basis @ A
        self.n_vectors = self.n_taken
        self.add(new)


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
    """

    W: np.ndarray
    alpha: np.ndarray
    Z: np.ndarray
    gains: np.ndarray
    objective: np.ndarray
    n_iter: int
    converged: bool
    exhausted: bool


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
    if isinstance(space, MatrixSpace) and space.size <= FACTORED:
        space, V = space.row_space()
    if not space.size or space.square <= 0:
        nothing = np.empty((len(r), 0))
        return Pursuit(np.empty((space.size, 0)), nothing.T, nothing, r[:0, 0], r[:0, 0], 0, True, True)
    search = Search(space, weight, n_components, tol, max_iter, np.random.default_rng(random_state))
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
    taken = search.taken @ np.eye(search.taken.n_vectors)[:, :k]
    return Pursuit(
        taken.Q if V is None else V @ taken.Q,
        np.array(alphas[:k]).reshape(k, r.shape[1]),
        taken.ZQ,
        np.array(gains[:k]),
        np.array(path.objective),
        search.n_iter,
        search.converged,
        path.converged,
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
