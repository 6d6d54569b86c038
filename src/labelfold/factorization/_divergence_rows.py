"""New rows placed: the H that minimises the I-divergence D(X, H V') for a fixed V, each row by itself.

Dense blocks of other array libraries than NumPy are computed here. The loop over NumPy and SciPy rows is in
`_place_loops.py`, sparse tensors on a GPU are placed in `_place_sparse.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import device
from scipy import sparse

from labelfold.factorization._divergence import floor, lowest
from labelfold.rows import Block, as_rows, on_gpu, tiled, to_device, to_host

# Extrapolation leaves at least this share of an entry.
LEAST_LEFT = 0.01
# A row starts with at least this share of an equal part of each component.
_LEAST_START = 0.02
# Singular values of V, relative to the largest, that the fit from which a row starts leaves out.
_SINGULAR = 1e-6
# Newton's steps are taken for so many components at most, and so many of them; each is found by so many rounds over
# the coordinates, as long as one gains more than this share of the tolerance.
NEWTON_MOST, NEWTON_ROUNDS, INNER_ROUNDS, INNER_SHARE = 64, 60, 40, 1e-7
# Rounds of coordinate steps between two solves of the variables that are not at 0.
ROUNDS = 8
# A divergence within the tolerance of its minimum determines half of the digits of an embedding. At most this many
# Newton steps in double precision follow, until the gap is below this.
POLISH, EXACT = 4, 1e-8
# A step that leads up is shortened by this, and below the shortest an update is taken.
SHORTER, SHORTEST = 0.25, 0.01
# By how much of a row's sum its divergence may seem to rise by round-off.
_SLACK, _SLACK_SINGLE = 1e-13, 1e-6


def least_squares_fit(V: np.ndarray) -> np.ndarray:
    """Return M (d, k) with which X M is the least-squares fit of V to the rows: from there few Newton steps are left.

    >>> least_squares_fit(np.array([[2.0], [0.0]])).tolist()
    [[0.5], [0.0]]
    """
    V = np.asarray(V, dtype=np.float64)
    return V @ np.linalg.pinv(V.T @ V, rcond=_SINGULAR, hermitian=True)


def kl_place(X: Any, V: Any, v: Any, fit: Any, tol: float, max_rounds: int) -> Any:
    """Return the H (m, k) of least divergence, each row until its own gap is within ``tol``.

    ``v`` are the column sums of V, and ``fit`` is its `least_squares_fit`, which rows of NumPy and SciPy do not need.
    """
    if X.is_sparse or X.xp is np:
        from labelfold.factorization import _divergence_loops as loops

        S = X if X.is_sparse else sparse.csr_array(X.raw)
        return loops.csr_place(S.data, S.indices, S.indptr, V, v, tol, max_rounds).astype(X.dtype, copy=False)
    if X.sparse_part is not None:
        return place_entries(X, V, v, fit, tol, max_rounds)
    with np.errstate(over="ignore", invalid="ignore"):  # a Newton step that overflows is not taken
        return _place(X.xp, X.raw, V, v, fit, tol, max_rounds)


def _place(xp: Any, X: Any, V: Any, v: Any, fit: Any, tol: float, max_rounds: int) -> Any:
    """Return H (m, k) for dense rows and a fixed V with column sums v, each row until its own gap is within ``tol``.

    Newton's steps: the quadratic model of a row's divergence is minimised over h >= 0, a coordinate at a time. A step
    that leads up is shortened, and in the end an update is taken in its place, which cannot lead up. With h'v the
    row's sum, the divergence lies at most (worst - 1) times that sum above its minimum: it is convex, and worst is
    the largest factor of an update. Rows that need more than some Newton steps go on by updates.
    """
    used = v > 0
    safe = xp.where(used, v, xp.ones_like(v))[None, :]
    mass = xp.sum(X, axis=1)
    whole = xp.sum(v)
    whole = xp.where(whole > 0, whole, xp.ones_like(whole))
    H = (mass / whole)[:, None] * xp.astype(used, X.dtype)[None, :]
    mass = xp.where(mass > 0, mass, xp.ones_like(mass))
    if tiled(X, V) and fits_a_thread(V.shape[1]):
        return _place_in_threads(xp, X, V, v, fit, H, safe, mass, tol, max_rounds)
    held = (_RowsOnGPU if tiled(X, V) else _Rows)(xp, X, V)
    H = xp.maximum(held.product(fit), _LEAST_START * H) * xp.astype(used, X.dtype)[None, :]
    if V.shape[1] > NEWTON_MOST:
        return _by_updates(xp, X, H, V, v, safe, mass, tol, max_rounds)
    single = "32" in str(X.dtype)
    slack = (_SLACK_SINGLE if single else _SLACK) * mass
    polish = 0 if single else POLISH
    index = xp.arange(X.shape[0], device=device(X))
    rows = (mass, slack, H, H, H, H, xp.ones_like(mass), xp.full_like(mass, xp.inf), xp.zeros_like(mass))
    done, order = [], []
    for _ in range(min(NEWTON_ROUNDS, (max_rounds - 1) // 3)):
        mass, slack, H, last, update, target, reach, best, polished = rows
        total = xp.sum(H * v, axis=1)
        H = H * (mass / xp.where(total > 0, total, mass))[:, None]
        slopes, loss, curvature = held.newton_terms(H)
        lower = loss <= best + slack
        worst = xp.max(slopes / safe, axis=1)
        polished = polished + xp.astype(worst <= 1 + tol, mass.dtype)
        settled = lower & (worst <= 1 + tol) & ((polished > polish) | (worst <= 1 + EXACT))
        update = xp.where(lower[:, None], H * slopes / safe, update)
        left = ~settled
        n_left, stay = int(xp.sum(xp.astype(left, xp.int64))), None
        if n_left <= held.worth * H.shape[0]:
            stay, leave = xp.nonzero(left)[0], xp.nonzero(settled)[0]
            done.append(_taken(xp, update, leave))
            order.append(_taken(xp, index, leave))
            index = _taken(xp, index, stay)
            held = held.take(stay)
            mass, slack, last, H, update, target = (
                _taken(xp, a, stay) for a in (mass, slack, last, H, update, target)
            )
            reach, best, polished, loss, lower, slopes, settled = (
                _taken(xp, a, stay) for a in (reach, best, polished, loss, lower, slopes, settled)
            )
            if not n_left:
                break
        down = xp.where(used[None, :], v[None, :] - slopes, xp.zeros_like(H))
        enough = INNER_SHARE * (tol if single else EXACT) * mass
        newton = clipped_steps(xp, curvature(stay), H, down, enough, INNER_ROUNDS)
        reach = xp.where(lower, xp.ones_like(reach), SHORTER * reach)
        last, target = xp.where(lower[:, None], H, last), xp.where(lower[:, None], newton, target)
        best = xp.where(lower, loss, best)
        far = last + reach[:, None] * (target - last)
        far = xp.where((reach < SHORTEST)[:, None], update, far)
        # Where it has settled a row stays, until it leaves with others.
        H = xp.where(settled[:, None], last, far)
        rows = (mass, slack, H, last, update, target, reach, best, polished)
    else:
        done.append(_by_updates(xp, held.formed(), rows[4], V, v, safe, rows[0], tol, max_rounds))
        order.append(index)
    return _taken(xp, xp.concat(done, axis=0), xp.argsort(xp.concat(order, axis=0)))


def fits_a_thread(k: int) -> bool:
    """Return whether a thread of a GPU solves the Newton system of a row with k components."""
    from labelfold.factorization import _triton_pivots as pivots

    return pivots.takes(k)


def _place_in_threads(
    xp: Any, X: Any, V: Any, v: Any, fit: Any, even: Any, safe: Any, mass: Any, tol: float, max_rounds: int
) -> Any:
    """Return the same for few components by the loops of a GPU, a row in each thread."""
    from labelfold.factorization import _triton_divergence as loops

    pairs = loops.pairs_of(V)

    def system(index: Any, H: Any) -> Any:
        return loops.newton_system(X, index, H, V, pairs, floor(X.dtype), by_component=True)

    fitted = _RowsOnGPU(xp, X, V).product(fit)
    H, left = newton_in_threads(xp, system, fitted, v, even, mass, tol, max_rounds)
    if left.shape[0]:
        rows, places, masses = (_taken(xp, a, left) for a in (X, H, mass))
        H[left] = _by_updates(xp, rows, places, V, v, safe, masses, tol, max_rounds)
    return H


def newton_in_threads(
    xp: Any, system: Any, fitted: Any, v: Any, even: Any, mass: Any, tol: float, max_rounds: int
) -> tuple[Any, Any]:
    """Return H (m, k) after Newton's steps by the loops of a GPU, and which rows have not settled.

    ``system(index, H)`` returns the Newton systems of some rows. The steps begin at ``fitted`` (m, k), or at a share
    of ``even`` (m, k), whichever is larger.
    """
    from labelfold.factorization import _triton_divergence as steps

    start = xp.maximum(fitted.T, _LEAST_START * even.T)
    start = xp.where((v > 0)[:, None], start, xp.zeros_like(start)).contiguous()
    rounds = min(NEWTON_ROUNDS, (max_rounds - 1) // 3)
    H, left = steps.newton_places(system, v, start, mass, tol, _SLACK_SINGLE, rounds, (SHORTER, SHORTEST))
    return H.T.contiguous(), left


class _Rows:
    """Rows that are being placed, and V: arrays of any library."""

    # The share of rows still to be placed below which the others are let go of.
    worth = 0.5

    def __init__(self, xp: Any, X: Any, V: Any, pairs: Any = None) -> None:
        self.xp, self.X, self.V, self._pairs = xp, X, V, pairs

    @property
    def pairs(self) -> Any:
        """The products of two columns of V, (k (k + 1) / 2, d)."""
        if self._pairs is None:
            V = self.V.T
            first, second = (_numbers(self.xp, i, V) for i in np.tril_indices(self.V.shape[1]))
            self._pairs = _taken(self.xp, V, first) * _taken(self.xp, V, second)
        return self._pairs

    def take(self, stay: Any) -> _Rows:
        """Return some of the rows."""
        return _Rows(self.xp, _taken(self.xp, self.X, stay), self.V, self.pairs)

    def formed(self) -> Any:
        """Return the rows as an array."""
        return self.X

    def product(self, M: Any) -> Any:
        """Return the rows times a narrow matrix."""
        return self.X @ M

    def newton_terms(self, H: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
        """Return R V (m, k), the sum of x log r of each row (m,), and how to get at the rows' second derivatives.

        Those are a function of which rows are wanted, None all; it returns their lower triangles, (k (k + 1) / 2, m).
        """
        xp, X, V = self.xp, self.X, self.V
        low = lowest(xp, X)
        P = xp.maximum(H @ V.T, low)
        R = X / P
        # What no component can make has no curvature.
        W = xp.where(low < P, R / P, xp.zeros_like(R))

        def curvature(stay: Any) -> Any:
            return self.pairs @ (W if stay is None else _taken(xp, W, stay)).T

        return R @ V, xp.sum(X * xp.log(xp.where(X > 0, R, xp.ones_like(R))), axis=1), curvature


class _RowsOnGPU(_Rows):
    """Rows of a float32 tensor: no array of its size is made, and rows that are done with are skipped over."""

    worth = 0.9

    def __init__(self, xp: Any, X: Any, V: Any, pairs: Any = None, index: Any = None) -> None:
        super().__init__(xp, X, V, pairs)
        self.index = index

    @property
    def pairs(self) -> Any:
        """The products of two columns of V, as the loops take them."""
        from labelfold.factorization import _triton_divergence as loops

        self._pairs = loops.pairs_of(self.V) if self._pairs is None else self._pairs
        return self._pairs

    def take(self, stay: Any) -> _Rows:
        """Return some of the rows, by their numbers."""
        index = stay if self.index is None else _taken(self.xp, self.index, stay)
        return _RowsOnGPU(self.xp, self.X, self.V, self.pairs, index)

    def formed(self) -> Any:
        """Return the rows as an array."""
        return self.X if self.index is None else _taken(self.xp, self.X, self.index)

    def product(self, M: Any) -> Any:
        """Return the rows times a narrow matrix."""
        from labelfold.rows.loops import product, takes

        return product(self.X, M)[0] if takes(M.shape[1]) else self.X @ M

    def newton_terms(self, H: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
        """Return what the same of any library does, in one read of the rows."""
        from labelfold.factorization import _triton_divergence as loops

        slopes, loss, Q = loops.newton_system(self.X, self.index, H, self.V, self.pairs, floor(self.X.dtype))
        return slopes, loss, lambda stay: Q if stay is None else Q[:, stay]


def clipped_steps(xp: Any, Q: Any, H: Any, slopes: Any, enough: Any, rounds: int) -> Any:
    """Return H (m, k) after rounds of steps that minimise a quadratic over h >= 0.

    Parameters
    ----------
    xp : namespace
        Of the arrays.
    Q : array of shape (k (k + 1) / 2, m)
        The lower triangle of each row's matrix, a row of the triangle after the other.
    H, slopes : arrays of shape (m, k)
        Where to start, and the gradient there.
    enough : array of shape (m,)
        A row has settled when a round gains no more than this.
    rounds : int
        The most rounds over the coordinates.
    """
    if on_gpu(Q, H, slopes, enough):
        return _on_gpu(xp, Q, H, slopes, enough, rounds)
    from labelfold.factorization import _loops as box_loops

    Q, out, slopes, enough = (np.array(to_host(a), np.float64, order="C") for a in (Q.T, H, slopes, enough))
    box_loops.minimise_each(Q, slopes, out, enough, rounds)
    return xp.asarray(out, dtype=H.dtype, device=device(H))


def _on_gpu(xp: Any, Q: Any, H: Any, slopes: Any, enough: Any, rounds: int) -> Any:
    """Return the same, for few components by pivots."""
    from labelfold.factorization import _triton_loops as loops, _triton_pivots as pivots

    if not pivots.takes(H.shape[1]):
        return loops.clipped_steps(Q, H, slopes, enough, rounds, ROUNDS)[0]
    found, n_systems = pivots.minimised(Q, H, slopes)
    left = xp.nonzero(n_systems <= 0)[0]
    if left.shape[0]:
        places, gradients, least = (_taken(xp, a, left) for a in (H, slopes, enough))
        found[left] = loops.clipped_steps(Q[:, left], places, gradients, least, rounds, ROUNDS)[0]
    return found


def _by_updates(
    xp: Any, X: Any, H: Any, V: Any, v: Any, safe: Any, mass: Any, tol: float, max_rounds: int
) -> Any:
    """Return H after updates, each row until its own gap is within ``tol``.

    After every two updates a squared extrapolation is tried, and taken where it does not raise the row's
    divergence.

    References
    ----------
    R. Varadhan, C. Roland. Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm. Scandinavian Journal of Statistics 35, 2008.
    """
    low = lowest(xp, X)
    left = np.arange(X.shape[0])
    done, order = [], []
    rounds = 1
    while rounds < max_rounds:
        one, loss, worst = _step(xp, X, low, H, V, safe, v)
        rounds += 1
        going = to_host(worst) > 1 + tol
        if rounds + 2 > max_rounds:
            going[:] = False
        if not going.all():
            leave, here = np.flatnonzero(~going), np.flatnonzero(going)
            done.append(_taken(xp, one, _numbers(xp, leave, one)))
            order.append(left[leave])
            left, stay = left[here], _numbers(xp, here, one)
            X, low, H, one, loss, mass = (_taken(xp, a, stay) for a in (X, low, H, one, loss, mass))
        if not len(left):
            break
        two = _step(xp, X, low, one, V, safe)[0]
        bend = two - 2 * one + H
        scale = v / mass[:, None]  # so that squares stay in range
        squares = xp.sum(((one - H) * scale) ** 2, axis=1)
        bends = xp.sum((bend * scale) ** 2, axis=1)
        reach = xp.sqrt(squares / xp.where(bends > 0, bends, xp.ones_like(bends)))
        reach = xp.where((bends > 0) & (reach > 1), reach, xp.ones_like(reach))[:, None]
        far = xp.maximum(H + 2 * reach * (one - H) + reach**2 * bend, LEAST_LEFT * two)
        new, far_loss, _ = _step(xp, X, low, far, V, safe, v)
        H = xp.where((far_loss <= loss)[:, None], new, two)
        rounds += 2
    if not done:
        return H
    H = xp.concat(done, axis=0)
    return _taken(xp, H, _numbers(xp, np.argsort(np.concatenate(order)), H))


def _step(xp: Any, X: Any, low: Any, H: Any, V: Any, safe: Any, v: Any = None) -> tuple[Any, Any, Any]:
    """Return H updated; and, where v is given, each row's divergence before, less constants, and largest factor."""
    P = xp.maximum(H @ V.T, low)
    factors = ((X / P) @ V) / safe
    if v is None:
        return H * factors, None, None
    loss = xp.sum(H * v, axis=1) - xp.sum(X * xp.log(P), axis=1)
    return H * factors, loss, xp.max(factors, axis=1)


def _taken(xp: Any, a: Any, index: Any) -> Any:
    """Return some rows of an array of any library."""
    return a[index] if xp is np else xp.take(a, index, axis=0)


def _numbers(xp: Any, index: np.ndarray, like: Any) -> Any:
    """Return row numbers where an array is that rows are taken from."""
    return index if xp is np else xp.asarray(index, device=device(like))


def place_entries(X: Block, V: Any, v: Any, fit: Any, tol: float, max_rounds: int) -> Any:
    """Return H (m, k) of sparse rows on a GPU, with the arguments of `kl_place`.

    Rows in float32 are placed there a component at a time. Long ones, and the few that do not settle, are placed by
    Newton's steps if components are few; what is left is placed on the host, and so are rows in float64.
    """
    from labelfold.factorization import _triton_divergence_sparse as loops

    rest = V, v, fit, tol, max_rounds
    if "32" not in str(V.dtype) or not loops.takes(V.shape[1]):
        return _on_host(X, None, *rest)
    H, sweeps = loops.placed_rows(X.sparse_part.entries, V, v, floor(V.dtype), tol, max_rounds)
    if bool(X.xp.all(sweeps > 0)):
        return H
    left = X.xp.nonzero(sweeps <= 0)[0]
    if fits_a_thread(V.shape[1]):
        H[left], unsettled = _by_newton(X, left, *rest)
        left = left[unsettled]
    if left.shape[0]:
        H[left] = _on_host(X, left, *rest)
    return H


def _by_newton(
    X: Block, index: Any, V: Any, v: Any, fit: Any, tol: float, max_rounds: int
) -> tuple[Any, Any]:
    """Return the same of some rows by Newton's steps on the GPU, and which of them have not settled."""
    from labelfold.factorization import _triton_divergence_sparse as loops
    from labelfold.rows.loops import Entries, aligned, gathered, summed

    xp, entries = X.xp, Entries(*X.sparse_part.taken(to_host(index)))
    mass = xp.astype(summed(entries), V.dtype)
    whole = xp.sum(v)
    even = (mass / xp.where(whole > 0, whole, xp.ones_like(whole)))[:, None] * xp.ones_like(v)[None, :]
    mass = xp.where(mass > 0, mass, xp.ones_like(mass))
    rows, bounds = aligned(V), loops.bounds_of(floor(V.dtype), V.dtype, V.device)

    def system(chosen: Any, H: Any) -> Any:
        return loops.newton_system(entries, chosen, H, rows, bounds)

    fitted = gathered(entries, fit, dtype=V.dtype, single=True)
    return newton_in_threads(xp, system, fitted, v, even, mass, tol, max_rounds)


def _on_host(X: Block, index: Any, V: Any, *options: Any) -> Any:
    """Return the same of some rows, or of all, by the loops of the host."""
    rows = as_rows(X.sparse_part.on_host(None if index is None else to_host(index)))
    shared = tuple(to_host(a) if hasattr(a, "shape") else a for a in (V, *options))
    H = np.asarray(rows.map(kl_place, shared=shared))
    return to_device(X.xp, H, V.device, V.dtype)
