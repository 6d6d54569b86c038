"""Compiled loops for factors of sparse rows: the H that minimises the I-divergence D(X, H V') for a fixed V."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from labelfold.numerics.kl._place import (
    EXACT,
    INNER_ROUNDS,
    INNER_SHARE,
    LEAST_LEFT,
    NEWTON_MOST,
    ROUNDS,
    SHORTER,
    SHORTEST,
)
from labelfold.numerics.kl._ratio_loops import _floor, _special, _together
from labelfold.rows.loops._vectors import (
    _compile,
    add_plain_rows,
    add_rows,
    plain_products,
    row_products,
    run,
)

# At most this many Newton steps follow the updates of a row.
_STEPS = 2


def csr_place(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    V: np.ndarray,
    v: np.ndarray,
    tol: float,
    max_rounds: int,
) -> np.ndarray:
    """Return H (m, k) for CSR rows and a fixed V with column sums v; each row stops at a gap within ``tol``.

    Multiplicative updates with a squared extrapolation: `labelfold.numerics.kl._place._by_updates` is the twin for
    dense rows. Newton's steps then determine the remaining digits, as for dense rows.
    """
    V = np.ascontiguousarray(V)
    out = np.empty((len(indptr) - 1, V.shape[1]), dtype=V.dtype)
    v = np.asarray(v, V.dtype)
    run(_place, _special(V.shape[1]), data, indices, indptr, V, v, out, _floor(V), tol, max_rounds)
    return out


# The point of a row that is updated in `csr_place`: the current one, its update, or the extrapolated one.
_HERE, _NEXT, _FAR = 0, 1, 2


@cache
def _place(special: int) -> Any:
    @_compile
    def place(data, indices, indptr, V, v, out, least, tol, max_rounds):
        k, together = V.shape[1], _together(V)
        q = np.empty(together, dtype=V.dtype)
        one, two, far = np.empty(k, V.dtype), np.empty(k, V.dtype), np.empty(k, V.dtype)
        whole = v.sum()
        steps = min(_STEPS, (max_rounds - 1) // 3) if k <= NEWTON_MOST else 0
        exact = min(EXACT, tol)
        work = np.zeros((5, k)), np.zeros((1, k * (k + 1) // 2)), np.zeros(1)
        for i in range(indptr.size - 1):
            h, begin, end = out[i], indptr[i], indptr[i + 1]
            mass = 0.0
            for p in range(begin, end):
                mass += data[p]
            for t in range(k):
                h[t] = mass / whole if v[t] > 0 else 0.0
            if mass == 0:
                continue
            at, new, what, loss = h, one, _HERE, 0.0
            for rounds in range(1, max_rounds + 1):
                # new = the update of at, value = the divergence at it without constants, worst = the largest
                # factor
                new[:] = 0
                value, worst = 0.0, 0.0
                for first in range(begin, end, together):
                    m = min(together, end - first)
                    if special > 0:
                        row_products(q, at, V, indices, first, m, special)
                    else:
                        plain_products(q, at, V, indices, first, m)
                    value -= _log_ratios(data, first, q, m, least)
                    if special > 0:
                        add_rows(q, new, V, indices, first, m, special)
                    else:
                        add_plain_rows(q, new, V, indices, first, m)
                for t in range(k):
                    factor = new[t] / v[t] if v[t] > 0 else 0.0
                    worst = max(worst, factor)
                    new[t] = at[t] * factor
                    value += at[t] * v[t]
                if what == _NEXT:
                    _further(h, one, two, far, v, mass)
                    at, new, what = far, one, _FAR
                elif what == _FAR:
                    h[:] = one if value <= loss else two
                    at, new, what = h, one, _HERE
                elif rounds == 1:  # from now on h'v is the row's sum
                    h[:] = one
                elif worst <= 1 + tol or rounds + 2 > max_rounds:
                    h[:] = one
                    break
                else:
                    loss = value
                    at, new, what = one, two, _NEXT
            if steps:
                known = _known_sum(data, indices, begin, end, V)
            for _ in range(steps):
                if not _newton_step(data, indices, begin, end, V, v, h, known, least, exact, work):
                    break

    return place


@_compile
def _known_sum(data, indices, begin, end, V):
    """Return the sum of a row over the columns that V has, which is that of its model."""
    total = 0.0
    for p in range(begin, end):
        for t in range(V.shape[1]):
            if V[indices[p], t] > 0:
                total += data[p]
                break
    return total


@_compile
def _newton_step(data, indices, begin, end, V, v, h, mass, least, exact, work):
    """Move h towards the minimum of the quadratic model of its divergence, in float64; return whether that helped.

    ``mass`` is the row's sum over the columns that V has.
    """
    points, Q, enough = work
    here, there, slope = points[0], points[1:2], points[2:3]
    k = h.size
    Q[:] = 0
    held = 0.0
    for t in range(k):
        held += np.float64(h[t]) * v[t]
    for t in range(k):
        here[t] = h[t] * (mass / held) if held > 0 else h[t]
        there[0, t] = here[t]
        slope[0, t] = v[t]
    for p in range(begin, end):
        x, column = np.float64(data[p]), indices[p]
        made, low = 0.0, max(least[0] * x, np.float64(least[1]))
        for t in range(k):
            made += here[t] * V[column, t]
        bend = x / made / made if made > low else 0.0
        ratio = x / max(made, low)
        place = 0
        for a in range(k):
            slope[0, a] -= ratio * V[column, a]
            weighted = bend * V[column, a]
            for b in range(a + 1):
                Q[0, place] += weighted * V[column, b]
                place += 1
    worst = 0.0
    for t in range(k):
        if v[t] > 0:
            worst = max(worst, 1 - slope[0, t] / v[t])
        else:
            slope[0, t] = 0.0
    if worst <= 1 + exact:
        return False
    enough[0] = INNER_SHARE * 10 * exact * mass
    clipped_steps(Q, there, slope, enough, INNER_ROUNDS)
    reach = 1.0
    while reach >= SHORTEST:
        gain = 0.0
        for t in range(k):
            gain += reach * (here[t] - there[0, t]) * v[t]
        for p in range(begin, end):
            x, column, old, step = np.float64(data[p]), indices[p], 0.0, 0.0
            for t in range(k):
                old += here[t] * V[column, t]
                step += (there[0, t] - here[t]) * V[column, t]
            low = max(least[0] * x, np.float64(least[1]))
            gain += x * np.log(max(old + reach * step, low) / max(old, low))
        if gain >= 0:
            for t in range(k):
                h[t] = here[t] + reach * (there[0, t] - here[t])
            return gain > 0
        reach *= SHORTER
    return False


@_compile
def _log_ratios(data, first, q, m, least):
    """Replace m modelled values p in q by ratios x / p; return the sum of x log p."""
    total = 0.0
    for j in range(m):
        x = data[first + j]
        p = max(q[j], max(least[0] * x, least[1]))
        total += np.float64(x) * np.log(np.float64(p))
        q[j] = x / p
    return total


@_compile
def _further(h, one, two, far, v, mass):
    """Set ``far`` to the squared extrapolation of h, its update and the update of that."""
    squares, bends = 0.0, 0.0
    for t in range(h.size):
        scale = v[t] / mass  # so that squares do not overflow
        squares += ((one[t] - h[t]) * scale) ** 2
        bends += ((two[t] - 2 * one[t] + h[t]) * scale) ** 2
    reach = max(1.0, np.sqrt(squares / bends)) if bends > 0 else 1.0
    for t in range(h.size):
        ahead = h[t] + 2 * reach * (one[t] - h[t]) + reach**2 * (two[t] - 2 * one[t] + h[t])
        far[t] = max(ahead, LEAST_LEFT * two[t])


@_compile
def clipped_steps(Q, H, slopes, enough, rounds):
    """Minimise a quadratic over h >= 0, in place, for each row of H; return a mask of settled rows.

    Coordinate steps, and every few rounds a joint step of all variables that are not 0. A row of Q holds the lower
    triangle of the row's matrix; ``slopes`` is the gradient, and is overwritten.
    """
    m, k = H.shape
    settled = np.zeros(m, dtype=np.bool_)
    work, q = np.zeros((4, k), dtype=H.dtype), np.zeros((k, k), dtype=H.dtype)
    for i in range(m):
        h, slope, packed, place = H[i], slopes[i], Q[i], 0
        for a in range(k):
            for b in range(a + 1):
                q[a, b] = packed[place]
                q[b, a] = packed[place]
                place += 1
        for turn in range(rounds):
            gain = enough[i] * 0
            for j in range(k):
                curve = q[j, j]
                if curve <= 0:
                    continue
                new = max(h[j] - slope[j] / curve, curve * 0)
                step = new - h[j]
                if step != 0:
                    h[j] = new
                    for a in range(k):
                        slope[a] += step * q[j, a]
                    gain += curve * step * step
            if gain <= enough[i]:
                settled[i] = True
                break
            if turn % ROUNDS == ROUNDS - 1:
                _free_step(q, h, slope, work)
    return settled


@_compile
def _free_step(q, h, slope, work):
    """Move the variables that are not 0 towards their joint minimum by conjugate gradients, until the first is 0."""
    k = h.size
    move, rest, way, turned = work[0], work[1], work[2], work[3]
    size = h[0] * 0
    for a in range(k):
        free = h[a] > 0
        move[a] = 0
        rest[a] = -slope[a] if free else 0
        way[a] = rest[a] / q[a, a] if free else 0
        size += rest[a] * way[a]
    first = size
    for _ in range(k):
        if not size > first * 1e-20:
            break
        bend = size * 0
        for a in range(k):
            turned[a] = 0
            if h[a] > 0:
                for b in range(k):
                    turned[a] += q[a, b] * way[b]
                bend += turned[a] * way[a]
        if not bend > 0:
            break
        share = size / bend
        new = size * 0
        for a in range(k):
            if h[a] > 0:
                move[a] += share * way[a]
                rest[a] -= share * turned[a]
                new += rest[a] * rest[a] / q[a, a]
        for a in range(k):
            if h[a] > 0:
                way[a] = rest[a] / q[a, a] + new / size * way[a]
        size = new
    share = h[0] * 0 + 1
    for a in range(k):
        if move[a] < 0 and h[a] + share * move[a] < 0:
            share = -h[a] / move[a]
    for a in range(k):
        if move[a] != 0:
            h[a] = max(h[a] + share * move[a], h[a] * 0)
    for a in range(k):
        for b in range(k):
            slope[a] += share * q[a, b] * move[b]
