"""The compiled loops of `labelfold.numerics.kernel_svm`, imported when the first machine is trained.

Inside, dual variables are signed: s = a o y lies between ``low`` and ``high``, one of which is 0, and adds up to 0. The
dual is then 1/2 s'Ks - y's, and ``error`` = y - Ks is what the machine without its bias still lacks. At the solution some
bias lies between the errors of those that could still rise and of those that could still fall.
"""

from __future__ import annotations

import numba
import numpy as np

_compile = numba.njit(nogil=True, cache=True, error_model="numpy")

# Curvature of a pair whose kernel rows are the same, relative to the largest diagonal entry.
_FLAT = 1e-12
# A solve for all free variables at once costs the cube of their number: beyond this pairs are left to themselves.
_MOST_FREE = 1500
# Solves in a row, each of which but the last ends with a variable that meets its bound.
_MOST_SOLVES = 30


@_compile
def solve(K, y, low, high, s, error, tol, max_iter):
    """Maximise the dual of one machine from s, in place; return bias, objective, relative gap and steps.

    Pairs are chosen by second-order information (Fan, Chen and Lin 2005). Between rounds of pairs the variables that lie
    strictly between their bounds are solved for at once, which is where the last digits come from.
    """
    n = y.size
    _make_feasible(low, high, s)
    _scale(K, y, low, high, s)
    _errors(K, y, s, error)
    top = 0.0
    for i in range(n):
        top = max(top, K[i, i])
    flat = _FLAT * max(top, 1e-300)
    steps, goal, rounds = 0, np.inf, max(n // 20, 10)
    while True:
        before = steps
        violation = np.inf
        while steps - before < rounds and steps < max_iter:
            violation = _pair(K, low, high, s, error, flat)
            if violation <= 0.0:
                break
            steps += 1
            if violation <= goal:
                break
        _free(K, low, high, s, error, flat)
        bias, objective, gap = _gap(y, low, high, s, error)
        if gap <= tol or steps >= max_iter or steps == before:
            # Errors are kept up to date step by step: what counts is what they are made anew.
            _errors(K, y, s, error)
            bias, objective, gap = _gap(y, low, high, s, error)
            if gap <= tol or steps >= max_iter or steps == before:
                return bias, objective, gap, steps
        goal = 0.1 * min(goal, violation)


@_compile
def powers(base, degree):
    """Return base^degree and base^(degree - 1), entry by entry, of a symmetric matrix."""
    n = len(base)
    K, slope = np.empty((n, n)), np.empty((n, n))
    for i in range(n):
        for t in range(n):
            low = 1.0
            for _ in range(degree - 1):
                low *= base[i, t]
            slope[i, t] = low
            K[i, t] = low * base[i, t]
    return K, slope


@_compile
def _pair(K, low, high, s, error, flat):
    """Move the pair that promises most; return by how much the errors violated the conditions, 0 if not at all."""
    n = s.size
    i, best = -1, -np.inf
    for t in range(n):
        if s[t] < high[t] and error[t] > best:
            i, best = t, error[t]
    j, least, gain = -1, np.inf, 0.0
    if i < 0:
        return 0.0
    for t in range(n):
        if s[t] > low[t]:
            least = min(least, error[t])
            lack = best - error[t]
            if lack > 0.0:
                curvature = max(K[i, i] + K[t, t] - 2 * K[i, t], flat)
                if lack * lack > gain * curvature:
                    j, gain = t, lack * lack / curvature
    if j < 0:
        return 0.0
    curvature = max(K[i, i] + K[j, j] - 2 * K[i, j], flat)
    step = (best - error[j]) / curvature
    room_i, room_j = high[i] - s[i], s[j] - low[j]
    if step >= min(room_i, room_j):
        # Bounds are met exactly, so that whether a variable lies at one is not a matter of round-off.
        if room_i <= room_j:
            step = room_i
            s[i] = high[i]
            s[j] = s[j] - step if room_i < room_j else low[j]
        else:
            step = room_j
            s[j] = low[j]
            s[i] += step
    else:
        s[i] += step
        s[j] -= step
    for t in range(n):
        error[t] -= step * (K[i, t] - K[j, t])
    return best - least


@_compile
def _free(K, low, high, s, error, flat):
    """Move the variables strictly between their bounds to where they would be without, as far as the bounds allow."""
    n = s.size
    for _ in range(_MOST_SOLVES):
        where = np.flatnonzero((s > low) & (s < high))
        m = where.size
        if m < 2 or m > _MOST_FREE:
            return
        A = np.empty((m, m))
        right = np.empty((m, 2))
        for p in range(m):
            for q in range(m):
                A[p, q] = K[where[p], where[q]]
            A[p, p] += flat
            right[p, 0] = error[where[p]]
            right[p, 1] = 1.0
        found = np.linalg.solve(A, right)
        bias = found[:, 0].sum() / found[:, 1].sum()
        share, hit = 1.0, -1
        move = np.empty(m)
        for p in range(m):
            t = where[p]
            move[p] = found[p, 0] - bias * found[p, 1]
            room = high[t] - s[t] if move[p] > 0 else s[t] - low[t]
            if abs(move[p]) * share > room:
                share, hit = room / abs(move[p]), p
        if not np.isfinite(share) or share <= 0.0:
            return
        gain = 0.0
        for p in range(m):
            gain += move[p] * error[where[p]]
        if not gain > 0.0:
            return
        for p in range(m):
            move[p] *= share
            t = where[p]
            s[t] = min(max(s[t] + move[p], low[t]), high[t])
        if hit >= 0:
            t = where[hit]
            s[t] = high[t] if move[hit] > 0 else low[t]
        for p in range(m):
            for t in range(n):
                error[t] -= move[p] * K[where[p], t]
        if hit < 0:
            return


@_compile
def _gap(y, low, high, s, error):
    """Return the bias, the dual objective, and the gap to the primal relative to the primal."""
    n = s.size
    above, below = -np.inf, np.inf
    for t in range(n):
        if s[t] < high[t]:
            above = max(above, error[t])
        if s[t] > low[t]:
            below = min(below, error[t])
    # With nothing that could rise (or fall) any bias beyond will do.
    if above == -np.inf:
        bias = below
    elif below == np.inf:
        bias = above
    else:
        bias = 0.5 * (above + below)
    objective, gap = 0.0, 0.0
    for t in range(n):
        lack = error[t] - bias
        objective += 0.5 * s[t] * (y[t] + error[t])
        # A sum of terms none of which is negative, so that it is exact where it is small.
        gap += (high[t] - s[t]) * lack if lack > 0 else (low[t] - s[t]) * lack
    primal = objective + gap
    return bias, objective, gap / primal if primal > 0 else 0.0


@_compile
def _errors(K, y, s, error):
    n = s.size
    error[:] = y
    for i in range(n):
        if s[i] != 0.0:
            for t in range(n):
                error[t] -= s[i] * K[i, t]


@_compile
def _make_feasible(low, high, s):
    """Clip s to its bounds and shrink the side that outweighs the other, so that it adds up to 0."""
    up, down = 0.0, 0.0
    for t in range(s.size):
        s[t] = min(max(s[t], low[t]), high[t])
        if s[t] > 0:
            up += s[t]
        else:
            down -= s[t]
    if up == down:
        return
    for t in range(s.size):
        if s[t] > 0 and up > down:
            s[t] *= down / up
        elif s[t] < 0 and down > up:
            s[t] *= up / down


@_compile
def _scale(K, y, low, high, s):
    """Multiply s by what is best within the bounds: a start is never worse than zero."""
    n = s.size
    linear, quadratic, most = 0.0, 0.0, np.inf
    for i in range(n):
        if s[i] != 0.0:
            linear += y[i] * s[i]
            most = min(most, (high[i] if s[i] > 0 else low[i]) / s[i])
            row = 0.0
            for t in range(n):
                row += K[i, t] * s[t]
            quadratic += s[i] * row
    if linear <= 0.0:
        return
    factor = min(linear / quadratic, most) if quadratic > 0 else most
    if not np.isfinite(factor):
        return
    for i in range(n):
        s[i] = min(max(factor * s[i], low[i]), high[i])
