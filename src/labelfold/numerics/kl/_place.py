"""Factors of new rows: the H that minimises the I-divergence D(X, H V') for a fixed V, independently for each row.

Dense blocks of any array library are computed here. The loops over sparse rows are in `_place_loops.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from labelfold.numerics.kl._ratios import floor, lowest
from labelfold.rows.adapters._device_blocks import to_host
from labelfold.rows.loops import device_loops, fused

# Extrapolation leaves at least this share of an entry.
LEAST_LEFT = 0.01

# Newton's method is used up to this many components and this many steps. The quadratic problem of a step takes at
# most this many rounds over the coordinates, and ends when a round gains less than this share of the tolerance.
NEWTON_MOST, NEWTON_ROUNDS, INNER_ROUNDS, INNER_SHARE = 64, 60, 40, 1e-7
# Number of rounds of coordinate steps between two solves of the variables that are not at 0.
ROUNDS = 8
# A divergence within the tolerance of its minimum determines half of the digits of an embedding. At most this many
# Newton steps in double precision follow, until the gap is below this.
POLISH, EXACT = 4, 1e-8
# A step that raises the divergence is shortened by this factor; below the shortest one a plain update is used.
SHORTER, SHORTEST = 0.25, 0.01
# Apparent increase of a row's divergence that is accepted as round-off, relative to the row's sum.
_SLACK, _SLACK_SINGLE = 1e-13, 1e-6


def kl_place(X: Any, V: Any, v: Any, tol: float, max_rounds: int) -> Any:
    """Return the H (m, k) of least divergence; each row stops when its own gap is within ``tol``."""
    if X.is_sparse:
        from labelfold.numerics.kl import _place_loops as loops

        return loops.csr_place(X.data, X.indices, X.indptr, V, v, tol, max_rounds)
    with np.errstate(over="ignore", invalid="ignore"):  # a Newton step that overflows is not taken
        if X.xp is not np:
            return _place(X.xp, X.raw, V, v, tol, max_rounds)
        V, v = (np.asarray(a, dtype=np.float64) for a in (V, v))
        return _place(np, X.double().raw, V, v, tol, max_rounds).astype(X.dtype, copy=False)


def _place(xp: Any, X: Any, V: Any, v: Any, tol: float, max_rounds: int) -> Any:
    """Return H (m, k) for dense rows and a fixed V with column sums v; each row stops at a gap within ``tol``.

    Newton's method: the quadratic model of a row's divergence is minimised over h >= 0 by coordinate steps. A step
    that raises the divergence is shortened, and finally replaced by a multiplicative update, which cannot raise it.
    If h'v is the row's sum, the divergence is at most (worst - 1) times that sum above its minimum, where worst is
    the largest factor of an update, because the divergence is convex. Rows that need more than some Newton steps
    continue with updates.
    """
    used = v > 0
    safe = xp.where(used, v, xp.ones_like(v))[None, :]
    mass = xp.sum(X, axis=1)
    whole = xp.sum(v)
    whole = xp.where(whole > 0, whole, xp.ones_like(whole))
    H = (mass / whole)[:, None] * xp.astype(used, X.dtype)[None, :]
    mass = xp.where(mass > 0, mass, xp.ones_like(mass))
    H = _step(xp, X, lowest(xp, X), H, V, safe)[0]
    if V.shape[1] > NEWTON_MOST:
        return _by_updates(xp, X, H, V, v, safe, mass, tol, max_rounds)
    single = "32" in str(X.dtype)
    slack = (_SLACK_SINGLE if single else _SLACK) * mass
    polish = 0 if single else POLISH
    first, second = np.tril_indices(V.shape[1])
    pairs = _taken(xp, V.T, first) * _taken(xp, V.T, second)  # (k (k + 1) / 2, d)
    index = xp.arange(X.shape[0], device=device(X))
    rows = (X, mass, slack, H, H, H, H, xp.ones_like(mass), xp.full_like(mass, xp.inf), xp.zeros_like(mass))
    done, order = [], []
    for _ in range(min(NEWTON_ROUNDS, (max_rounds - 1) // 3)):
        X, mass, slack, H, last, update, target, reach, best, polished = rows
        held = xp.sum(H * v, axis=1)
        H = H * (mass / xp.where(held > 0, held, mass))[:, None]
        slopes, loss, W = _newton_terms(xp, X, H, V)
        lower = loss <= best + slack
        worst = xp.max(slopes / safe, axis=1)
        polished = polished + xp.astype(worst <= 1 + tol, mass.dtype)
        settled = lower & (worst <= 1 + tol) & ((polished > polish) | (worst <= 1 + EXACT))
        update = xp.where(lower[:, None], H * slopes / safe, update)
        left = ~settled
        n_left = int(xp.sum(xp.astype(left, xp.int64)))
        if 2 * n_left <= X.shape[0]:
            stay, leave = xp.nonzero(left)[0], xp.nonzero(settled)[0]
            done.append(_taken(xp, update, leave))
            order.append(_taken(xp, index, leave))
            index = _taken(xp, index, stay)
            X, W, mass, slack, last, H, update = (
                _taken(xp, a, stay) for a in (X, W, mass, slack, last, H, update)
            )
            target, reach, best, polished, loss, lower, slopes, settled = (
                _taken(xp, a, stay) for a in (target, reach, best, polished, loss, lower, slopes, settled)
            )
            if not n_left:
                break
        down = xp.where(used[None, :], v[None, :] - slopes, xp.zeros_like(H))
        enough = INNER_SHARE * (tol if single else EXACT) * mass
        newton = clipped_steps(xp, pairs @ W.T, H, down, enough, INNER_ROUNDS)[0]
        reach = xp.where(lower, xp.ones_like(reach), SHORTER * reach)
        last, target = xp.where(lower[:, None], H, last), xp.where(lower[:, None], newton, target)
        best = xp.where(lower, loss, best)
        far = last + reach[:, None] * (target - last)
        far = xp.where((reach < SHORTEST)[:, None], update, far)
        # A settled row stays unchanged until rows are removed together.
        H = xp.where(settled[:, None], last, far)
        rows = (X, mass, slack, H, last, update, target, reach, best, polished)
    else:
        X, mass = rows[0], rows[1]
        done.append(_by_updates(xp, X, rows[5], V, v, safe, mass, tol, max_rounds))
        order.append(index)
    return _taken(xp, xp.concat(done, axis=0), xp.argsort(xp.concat(order, axis=0)))


def _newton_terms(xp: Any, X: Any, H: Any, V: Any) -> tuple[Any, Any, Any]:
    """Return R V (m, k), the sum of x log r of each row (m,), and R / P (m, d), the weights of the curvature."""
    loops = fused(X, H, V)
    if loops is not None:
        return loops.newton_terms(X, H, V, floor(X.dtype))
    low = lowest(xp, X)
    P = xp.maximum(H @ V.T, low)
    R = X / P
    # Entries that no component can reach have no curvature.
    W = xp.where(low < P, R / P, xp.zeros_like(R))
    return R @ V, xp.sum(X * xp.log(xp.where(X > 0, R, xp.ones_like(R))), axis=1), W


def clipped_steps(xp: Any, Q: Any, H: Any, slopes: Any, enough: Any, rounds: int) -> tuple[Any, Any]:
    """Return H (m, k) after rounds of steps that minimise a quadratic over h >= 0, and a mask of settled rows.

    Parameters
    ----------
    xp : namespace
        Namespace of the arrays.
    Q : array of shape (k (k + 1) / 2, m)
        The lower triangle of each row's matrix, row by row of the triangle.
    H, slopes : arrays of shape (m, k)
        Initial values, and the gradient there.
    enough : array of shape (m,)
        A row has settled when a round gains at most this.
    rounds : int
        Largest number of rounds over the coordinates.
    """
    on_gpu = device_loops(Q, H, slopes, enough)
    if on_gpu is not None:
        return on_gpu.clipped_steps(Q, H, slopes, enough, rounds, ROUNDS)
    from labelfold.numerics.kl import _place_loops as loops

    Q, out, slopes, enough = (np.array(to_host(a), order="C") for a in (Q.T, H, slopes, enough))
    settled = loops.clipped_steps(Q, out, slopes, enough, rounds)
    if xp is np:
        return out, settled
    return xp.asarray(out, device=device(H)), xp.asarray(settled, device=device(H))


def _by_updates(
    xp: Any, X: Any, H: Any, V: Any, v: Any, safe: Any, mass: Any, tol: float, max_rounds: int
) -> Any:
    """Return H after multiplicative updates; each row stops when its own gap is within ``tol``.

    After every two updates a squared extrapolation is tried, and accepted if it does not raise the row's divergence.

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
            leave, stay = np.flatnonzero(~going), np.flatnonzero(going)
            done.append(_taken(xp, one, leave))
            order.append(left[leave])
            left = left[stay]
            X, low, H, one, loss, mass = (_taken(xp, a, stay) for a in (X, low, H, one, loss, mass))
        if not len(left):
            break
        two = _step(xp, X, low, one, V, safe)[0]
        bend = two - 2 * one + H
        scale = v / mass[:, None]  # so that squares do not overflow
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
    return _taken(xp, xp.concat(done, axis=0), np.argsort(np.concatenate(order)))


def _step(xp: Any, X: Any, low: Any, H: Any, V: Any, safe: Any, v: Any = None) -> tuple[Any, Any, Any]:
    """Return H updated and, if v is given, each row's divergence before (without constants) and largest factor."""
    P = xp.maximum(H @ V.T, low)
    factors = ((X / P) @ V) / safe
    if v is None:
        return H * factors, None, None
    loss = xp.sum(H * v, axis=1) - xp.sum(X * xp.log(P), axis=1)
    return H * factors, loss, xp.max(factors, axis=1)


def _taken(xp: Any, a: Any, index: Any) -> Any:
    """Return some rows of an array of any library."""
    if xp is np:
        return a[index]
    return xp.take(a, xp.asarray(index, device=device(a)), axis=0)
