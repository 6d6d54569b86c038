"""Compiled loops of quadratic problems: many small ones with bounds, and the duals of kernel SVMs.

Dual variables of kernel SVMs are signed: s = a o y is between ``low`` and ``high``, one of which is 0, and sums to 0.
The dual is then 1/2 s'Ks - y's, and ``error`` = y - Ks is the residual of the SVM without its bias. At the solution a
bias separates the errors of variables that could still increase from those that could still decrease.
"""

from __future__ import annotations

import numpy as np

from labelfold.utils import FAST, compiled

_compile, _compile_fast = compiled(), compiled(FAST)
# Curvature of a pair with equal kernel rows, relative to the largest diagonal entry. In a joint solve it is added to
# the diagonal, since kernel rows may be linearly dependent. It exceeds the round-off of such a solve.
_FLAT = 1e-12


@_compile
def minimise(K, diagonal, linear, low, high, S, enough, rounds, stiff=False):
    """Minimise 1/2 s'(K + diag)s + linear's within [low, high], for each row of S in place.

    Coordinate descent finds the variables at a bound, and between every eight rounds the others are solved for
    jointly. A row is done when a round gains at most its ``enough``. With ``stiff`` (K nearly singular) a round gains
    little even far from the minimum, so a joint solve must gain at most ``enough`` too.
    """
    for i in range(len(S)):
        _minimise_row(K, diagonal[i], linear[i], low[i], high[i], S[i], enough[i], rounds, stiff)


@_compile
def _minimise_row(K, d, linear, low, high, s, enough, rounds, stiff):
    size = s.size
    gradient = np.empty(size)
    _gradient(K, d, linear, s, gradient)
    for turn in range(rounds):
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
        if gain <= enough and not stiff:
            break
        if gain <= enough or (turn % 8 == 7 and turn + 1 < rounds):
            more = _solve_free(K, d, linear, low, high, s, gradient)
            if max(gain, more) <= enough:
                break


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


@_compile
def solve_svm(K, y, low, high, s, error, tol, max_iter):
    """Maximise the dual of one SVM from s, in place.

    Returns the bias, the dual and the primal objective, their relative gap, and the number of pairs moved.

    Pairs are chosen by second-order information (Fan, Chen and Lin 2005). Between rounds of pairs the variables
    strictly between their bounds are solved for jointly, which gives the last digits.
    """
    n = y.size
    _make_feasible(low, high, s)
    _errors(K, y, s, error)
    _scale(y, low, high, s, error)
    flat = _FLAT * max(np.diag(K).max(), 1e-300)
    steps, goal, rounds = 0, np.inf, max(n // 20, 30)
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
        bias, objective, primal, gap = _gap(y, low, high, s, error)
        if gap <= tol or steps >= max_iter or steps == before:
            # Errors are updated step by step, which accumulates round-off; the result is judged by recomputed errors.
            _errors(K, y, s, error)
            bias, objective, primal, gap = _gap(y, low, high, s, error)
            if gap <= tol or steps >= max_iter or steps == before:
                return bias, objective, primal, gap, steps
        goal = 0.1 * min(goal, violation)


@_compile
def polynomial(products, gamma, coef0, degree):
    """Overwrite a matrix of inner products with (gamma products + coef0)^degree, entry by entry."""
    n, m = products.shape
    base = np.empty(m)
    for i in range(n):
        # Inner loops over a row, which the compiler can vectorise.
        for t in range(m):
            base[t] = gamma * products[i, t] + coef0
            products[i, t] = base[t] if degree > 0 else 1.0
        for _ in range(degree - 1):
            for t in range(m):
                products[i, t] *= base[t]


@_compile
def _pair(K, low, high, s, error, flat):
    """Move the pair with the largest expected gain; return the violation of the optimality conditions, 0 if none."""
    n = s.size
    i, best = -1, -np.inf
    for t in range(n):
        if s[t] < high[t] and error[t] > best:
            i, best = t, error[t]
    j, lowest, gain = -1, np.inf, 0.0
    if i < 0:
        return 0.0
    for t in range(n):
        if s[t] > low[t]:
            lowest = min(lowest, error[t])
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
        # Bounds are met exactly, so that round-off does not decide whether a variable is at a bound.
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
    return best - lowest


@_compile
def _free(K, low, high, s, error, flat):
    """Move the variables strictly between their bounds to their unconstrained minimum, as far as the bounds allow.

    A variable that meets its bound stays there, and the others continue without it: the inverse of their matrix is
    the previous one less a matrix of rank one.
    """
    where = np.flatnonzero((s > low) & (s < high))
    m = where.size
    if m < 2 or m > 1500:  # a joint solve costs the cube of m
        return
    L = np.empty((m, m))
    for p in range(m):
        for q in range(p + 1):
            L[p, q] = K[where[p], where[q]]
        L[p, p] += flat
    if not _factor(L):
        return
    old, old_error = s.copy(), error.copy()
    lack, moved = error[where], np.zeros(m)
    left = np.ones(m)  # 0 for a variable that has met its bound
    # B lack and B 1, where B is the inverse of the matrix A of the variables that have not met their bounds.
    ahead_free, ones = _solved(L, lack), _solved(L, left)
    columns = np.empty((m, m))  # B is reduced by column column' when a variable leaves A
    for n_met in range(m):
        bias = ahead_free.sum() / ones.sum()
        ahead = (ahead_free - bias * ones) * left
        ahead -= left * (ahead.sum() / left.sum())  # 0 up to round-off, which a singular kernel magnifies
        share, hit, gain = 1.0, -1, 0.0
        for p in range(m):
            gain += ahead[p] * lack[p]
            now, t = s[where[p]] + moved[p], where[p]
            room = high[t] - now if ahead[p] > 0 else now - low[t]
            if abs(ahead[p]) * share > room:
                share, hit = max(room, 0.0) / abs(ahead[p]), p
        if not (np.isfinite(share) and gain > 0.0):
            break
        for p in range(m):
            moved[p] += share * ahead[p]
            lack[p] -= share * (lack[p] - bias)
            ahead_free[p] -= share * (ahead_free[p] - bias * ones[p])
        if hit < 0 or left.sum() <= 2:
            break
        t = where[hit]
        moved[hit] = (high[t] if ahead[hit] > 0 else low[t]) - s[t]
        unit = np.zeros(m)
        unit[hit] = 1.0
        column = _solved(L, unit)
        for i in range(n_met):
            column -= columns[i] * columns[i, hit]
        if not column[hit] > 0.0:  # by round-off; the variables moved so far stay moved
            break
        column *= left / np.sqrt(column[hit])
        ahead_free -= column * (ahead_free[hit] / column[hit])
        ones -= column * (ones[hit] / column[hit])
        left[hit] = ahead_free[hit] = ones[hit] = 0.0
        columns[n_met] = column
    gain = 0.0
    for p in range(m):
        t = where[p]
        if left[p] == 0.0:  # set exactly, so that round-off does not decide
            new = high[t] if abs(old[t] + moved[p] - high[t]) < abs(old[t] + moved[p] - low[t]) else low[t]
        else:
            new = min(max(old[t] + moved[p], low[t]), high[t])
        _move(K, s, error, t, new - old[t])
        s[t] = new
    _balance(K, low, high, s, error)
    for p in range(m):
        t = where[p]
        # The steps sum to 0, so the gain does not depend on the bias; subtracting it reduces round-off.
        gain += (s[t] - old[t]) * (0.5 * (error[t] + old_error[t]) - bias)
    if not gain > 0.0:
        s[:] = old
        error[:] = old_error


@_compile_fast
def _factor(A):
    """Overwrite the lower triangle of A with its Cholesky factor; return whether A is positive definite."""
    for i in range(len(A)):
        for j in range(i + 1):
            rest = A[i, j]
            for q in range(j):
                rest -= A[i, q] * A[j, q]
            if j < i:
                A[i, j] = rest / A[j, j]
            elif rest > 0.0:
                A[i, i] = np.sqrt(rest)
            else:
                return False
    return True


@_compile_fast
def _solved(L, right):
    """Return the solution x of L L'x = right."""
    x = right.copy()
    for i in range(x.size):
        rest = x[i]
        for q in range(i):
            rest -= L[i, q] * x[q]
        x[i] = rest / L[i, i]
    for i in range(x.size - 1, -1, -1):
        x[i] /= L[i, i]
        for q in range(i):
            x[q] -= L[i, q] * x[i]
    return x


@_compile
def _move(K, s, error, t, step):
    s[t] += step
    for i in range(s.size):
        error[i] -= step * K[t, i]


@_compile
def _balance(K, low, high, s, error):
    """Subtract the sum of s, which is 0 up to round-off, from the free variables with most room.

    A variable at a bound must stay there: with a step of 1e-17 it would count as free, and its error for the bias.
    """
    for _ in range(s.size):
        drift, best, most_room = s.sum(), -1, 0.0
        for t in range(s.size):
            room = s[t] - low[t] if drift > 0 else high[t] - s[t]
            if low[t] < s[t] < high[t] and room > most_room:
                best, most_room = t, room
        if drift == 0.0 or best < 0:
            return
        _move(K, s, error, best, -min(drift, most_room) if drift > 0 else min(-drift, most_room))
        if abs(drift) <= most_room:
            return


@_compile
def _gap(y, low, high, s, error):
    """Return the bias, the dual and the primal objective, and the gap between them relative to the primal."""
    n = s.size
    above, below = -np.inf, np.inf
    for t in range(n):
        if s[t] < high[t]:
            above = max(above, error[t])
        if s[t] > low[t]:
            below = min(below, error[t])
    # If no variable could increase (or decrease), any bias beyond the bound is optimal.
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
        # A sum of non-negative terms, so it is accurate even if it is small.
        gap += (high[t] - s[t]) * lack if lack > 0 else (low[t] - s[t]) * lack
    primal = objective + gap
    return bias, objective, primal, gap / primal if primal > 0 else 0.0


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
    """Clip s to its bounds, and shrink the heavier side so that s sums to 0."""
    s[:] = np.minimum(np.maximum(s, low), high)
    up, down = np.maximum(s, 0.0).sum(), np.maximum(-s, 0.0).sum()
    if up > down:
        s[:] = np.where(s > 0, s * (down / up), s)
    elif down > up:
        s[:] = np.where(s < 0, s * (up / down), s)


@_compile
def _scale(y, low, high, s, error):
    """Multiply s by the best factor within the bounds, so that a warm start is never worse than zero."""
    linear, quadratic, largest = (y * s).sum(), ((y - error) * s).sum(), np.inf
    for i in range(s.size):
        if s[i] != 0.0:
            largest = min(largest, (high[i] if s[i] > 0 else low[i]) / s[i])
    if linear <= 0.0:
        return
    factor = min(linear / quadratic, largest) if quadratic > 0 else largest
    if np.isfinite(factor):
        s[:] = np.minimum(np.maximum(factor * s, low), high)
        error[:] = y - factor * (y - error)
