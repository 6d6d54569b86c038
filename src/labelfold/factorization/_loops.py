"""Compiled loops for many small quadratic problems with bounds."""

from __future__ import annotations

import numpy as np

from labelfold.utils import FAST, compiled, dot

_compile = compiled()
# Number of rounds of coordinate steps between two solves of the variables that are not at a bound.
_ROUNDS = 8
_compile_fast = compiled(FAST)
# Damping of the logarithm of a block's scale from step to step, and the least share of a step's curvature that a
# block must have for its scale to be updated.
_SLOWLY, _TELLING = 0.8, 1e-6


@_compile
def minimise(K, diagonal, linear, low, high, S, least, max_rounds, stiff=False):
    """Minimise 1/2 s'(K + diag)s + linear's within [low, high], for each row of S in place.

    Coordinate descent finds the variables at a bound, and every few rounds the others are solved for jointly. A row
    is done when a round gains at most its ``least``. With ``stiff`` (K nearly singular) a round gains little even far
    from the minimum, so a joint solve must gain at most ``least`` too.
    """
    for i in range(len(S)):
        _minimise_row(K, diagonal[i], linear[i], low[i], high[i], S[i], least[i], max_rounds, stiff)


@_compile
def minimise_each(Q, slopes, S, least, max_rounds):
    """Minimise a quadratic over s >= 0, for each row of S in place, given its gradient there.

    A row of Q is the lower triangle of the row's matrix, a row of the triangle after the other.
    """
    size = S.shape[1]
    K, linear, zeros, high = np.empty((size, size)), np.empty(size), np.zeros(size), np.full(size, np.inf)
    for i in range(len(S)):
        place = 0
        for j in range(size):
            for h in range(j + 1):
                K[j, h] = K[h, j] = Q[i, place]
                place += 1
        _gradient(K, zeros, zeros, S[i], linear)
        for j in range(size):
            linear[j] = slopes[i, j] - linear[j]
        _minimise_row(K, zeros, linear, zeros, high, S[i], least[i], max_rounds, False)


@_compile
def _minimise_row(K, d, linear, low, high, s, least, max_rounds, stiff):
    size = s.size
    gradient = np.empty(size)
    _gradient(K, d, linear, s, gradient)
    for turn in range(max_rounds):
        gain = 0.0
        for j in range(size):
            curvature = K[j, j] + d[j]
            if curvature <= 0.0:
                continue
            new = min(max(s[j] - gradient[j] / curvature, low[j]), high[j])
            step = new - s[j]
            if step != 0.0:
                s[j] = new
                for h in range(size):
                    gradient[h] += step * K[j, h]
                gradient[j] += step * d[j]
                gain += curvature * step * step
        if gain <= least and not stiff:
            break
        if gain <= least or turn % _ROUNDS == _ROUNDS - 1:
            more = _solve_free(K, d, linear, low, high, s, gradient)
            if max(gain, more) <= least:
                break


@compiled(FAST)
def clipped_steps(H, P, Q, rounds):
    """Minimise 1/2 h'Qh - p'h over h >= 0 by coordinate steps, in place, for each row of H."""
    n, k = H.shape
    gradient = np.empty(k, dtype=H.dtype)
    for i in range(n):
        h = H[i]
        gradient[:] = -P[i]
        for j in range(k):
            for m in range(k):
                gradient[m] += h[j] * Q[j, m]
        for _ in range(rounds):
            for j in range(k):
                new = max(h[j] - gradient[j] / Q[j, j], H.dtype.type(0))
                step = new - h[j]
                if step != 0:
                    h[j] = new
                    for m in range(k):
                        gradient[m] += step * Q[j, m]


@_compile
def _gradient(K, d, linear, s, out):
    for j in range(s.size):
        total = linear[j] + d[j] * s[j]
        for h in range(s.size):
            total += K[j, h] * s[h]
        out[j] = total


@_compile
def _solve_free(K, d, linear, low, high, s, gradient):
    """Move the variables that are not at a bound to their joint minimum, and return the gain.

    A variable that meets a bound on the way stays there, and the others continue. They end at the minimum over a
    face. Each round lowers the objective, so a face does not come up again.
    """
    gain = 0.0
    for _ in range(s.size):
        free = np.flatnonzero((s > low) & (s < high))
        m = free.size
        if m == 0:
            break
        A, b = np.empty((m, m)), np.empty(m)
        trace, size = 0.0, 0.0
        for a in range(m):
            for c in range(m):
                A[a, c] = K[free[a], free[c]]
            A[a, a] += d[free[a]]
            trace += A[a, a]
            b[a] = -gradient[free[a]]
            size += abs(b[a])
        if not trace + size < np.inf:  # LAPACK takes finite numbers
            break
        for a in range(m):
            # K is singular if there are more free variables than columns.
            A[a, a] += 1e-13 * trace + 1e-300
        move = np.linalg.solve(A, b)
        share, descent, hit = 1.0, 0.0, -1
        for a in range(m):
            j = free[a]
            descent -= b[a] * move[a]
            room = high[j] - s[j] if move[a] > 0.0 else s[j] - low[j]
            if abs(move[a]) * share > room:
                share, hit = room / abs(move[a]), a
        if not descent < 0.0:
            break
        for a in range(m):
            j = free[a]
            s[j] = min(max(s[j] + share * move[a], low[j]), high[j])
        if hit >= 0:
            s[free[hit]] = high[free[hit]] if move[hit] > 0.0 else low[free[hit]]
        gain -= share * (1 - 0.5 * share) * descent
        _gradient(K, d, linear, s, gradient)
        if hit < 0:
            break
    return gain


@_compile_fast
def direction(g, S, Y, rho, kept, held, scale):
    """Return H g, where H is the L-BFGS approximation of the inverse Hessian, by the two-loop recursion.

    The last ``held`` of ``kept`` steps S and gradient changes Y are in a ring buffer; ``scale`` is the initial
    diagonal.
    """
    memory = len(S)
    q = g.copy()
    share = np.empty(memory)
    for back in range(1, held + 1):
        i = (kept - back) % memory
        share[i] = rho[i] * dot(S[i], q)
        _add(q, -share[i], Y[i])
    for j in range(q.size):
        q[j] *= scale[j]
    for back in range(held, 0, -1):
        i = (kept - back) % memory
        _add(q, share[i] - rho[i] * dot(Y[i], q), S[i])
    return q


@_compile_fast
def rescale(scale, ends, s, y, first):
    """Update the scale of each block from a step s and its gradient change y, damped if there are several blocks.

    One step may carry little information on some of several blocks. Blocks end at ``ends``; ``first`` is true if
    their scales are not known yet.
    """
    whole, squares = dot(s, y), dot(y, y)
    slowly = 0.0 if first or ends.size == 1 else _SLOWLY
    start = 0
    for end in ends:
        if end > start:
            part = slice(start, end)
            product, square = dot(s[part], y[part]), dot(y[part], y[part])
            if product > _TELLING * whole and square > 0:
                scale[part] = scale[start] ** slowly * (product / square) ** (1 - slowly)
            elif first:
                scale[part] = whole / squares
        start = end


@_compile_fast
def _add(a, step, b):
    for j in range(a.size):
        a[j] += step * b[j]
