"""Compiled: the minimum of a linear SVM of few columns, solved for from an approximate one.

Rows are the four arguments that `labelfold.numerics.svm_rows` explains.
"""

from __future__ import annotations

import numpy as np

from labelfold.numerics.svm_rows import add, compiled, dot, squared_norm, weights

_TINY = np.finfo(np.float64).tiny

# Multiplications that one call may take.
_MOST_WORK = 1e8

# What is added to the diagonal of a singular matrix before it is solved with, relative to the squares of the rows.
_RIDGE = 1e-9

# A coordinate so near to the bound it was moved towards, relative to what it was, is at it.
_AT_BOUND = 1e-15

# Steps that change no guess only mend the round-off of the one before.
_REPEATS = 2

# Newton steps on the primal, and what the last of them may still gain, relative to the squared weights.
_MOST_STEPS = 50
_STILL = 1e-28


@compiled
def settle(X, data, indices, indptr, y, upper, diagonal, alpha, w, bias):
    """Lower the dual in one go, as far as the guess of what lies at a bound is right; write alpha and w."""
    if diagonal.max() > 0:
        old, old_w, before = alpha.copy(), w.copy(), _dual(diagonal, alpha, w)
        _primal(X, data, indices, indptr, y, diagonal, alpha, w, bias)
        if _dual(diagonal, alpha, w) < before:
            return
        alpha[:], w[:] = old, old_w
    _free(X, data, indices, indptr, y, upper, diagonal, alpha, w, bias)


@compiled
def _dual(diagonal, alpha, w):
    total = 0.5 * squared_norm(w)
    for i in range(alpha.size):
        total += alpha[i] * (0.5 * diagonal[i] * alpha[i] - 1)
    return total


@compiled
def _primal(X, data, indices, indptr, y, diagonal, alpha, w, bias):
    """Minimise the primal of the squared hinge by Newton steps; write alpha and w that belong together.

    It is quadratic between margins, so that a step ends at the minimum once it is known which rows fall short.
    """
    n, width = y.size, w.size
    margin, change, z = np.empty(n), np.empty(n), np.empty(width)
    for i in range(n):
        margin[i] = y[i] * dot(X, data, indices, indptr, i, w, bias)
    for _ in range(_MOST_STEPS):
        A, b = np.eye(width), -w
        for i in range(n):
            if margin[i] < 1 and diagonal[i] > 0:
                z[:] = 0.0
                add(X, data, indices, indptr, i, y[i], z, bias)
                weight = 1 / diagonal[i]
                for j in range(width):
                    b[j] += weight * (1 - margin[i]) * z[j]
                    for h in range(width):
                        A[j, h] += weight * z[j] * z[h]
        step = np.linalg.solve(A, b)
        for i in range(n):
            change[i] = y[i] * dot(X, data, indices, indptr, i, step, bias)
        share = _minimum_along(diagonal, margin, change, w, step)
        if not share > 0:
            break
        for j in range(width):
            w[j] += share * step[j]
        for i in range(n):
            margin[i] += share * change[i]
        if share * np.dot(b, step) <= _STILL * (1 + squared_norm(w)):
            break
    for i in range(n):
        alpha[i] = (1 - margin[i]) / diagonal[i] if margin[i] < 1 and diagonal[i] > 0 else 0.0
    weights(X, data, indices, indptr, y, alpha, w, bias)


@compiled
def _minimum_along(diagonal, margin, change, w, step):
    """Return the share of a step at which the primal is least: its slope only rises, and is found zero by halving."""
    low, high, share = 0.0, np.inf, 1.0
    for _ in range(60):
        slope, curvature = 0.0, squared_norm(step)
        for j in range(w.size):
            slope += (w[j] + share * step[j]) * step[j]
        for i in range(margin.size):
            slack = 1 - margin[i] - share * change[i]
            if slack > 0 and diagonal[i] > 0:
                slope -= slack * change[i] / diagonal[i]
                curvature += change[i] * change[i] / diagonal[i]
        if slope > 0:
            high = share
        else:
            low = share
        if not curvature > 0:
            break
        next_share = share - slope / curvature
        if not low <= next_share <= high:
            next_share = 0.5 * (low + high) if high < np.inf else 2 * share
        if abs(next_share - share) <= 1e-15 * share:
            break
        share = next_share
    return share


@compiled
def _free(X, data, indices, indptr, y, upper, diagonal, alpha, w, bias):
    """Minimise the dual over the coordinates between their bounds; those that meet a bound stay there.

    The matrix of m free coordinates is diagonal but for m rows of few columns, and is solved with through the small
    matrix of the columns (Woodbury). A step is cut to the bounds where the dual falls more by that than if it ended
    at the first bound it meets, or at the minimum along it.
    """
    free = np.flatnonzero((alpha > 0) & (alpha < upper))
    m = free.size
    Z, gradient, move, cut = np.zeros((m, w.size)), np.empty(m), np.empty(m), np.empty(m)
    trace, work, repeats = 0.0, 0.0, 0
    for s in range(m):
        add(X, data, indices, indptr, free[s], y[free[s]], Z[s], bias)
        trace += squared_norm(Z[s])
    ridge = _RIDGE * trace / max(m, 1) + _TINY
    while m > 0 and work < _MOST_WORK:
        work += m * w.size * w.size
        _newton(Z[:m], diagonal, ridge, free, alpha, w, gradient, move)
        fall, curvature = _along(Z[:m], diagonal, free, gradient, move)
        if not fall > 0:
            return
        share, met = fall / curvature if curvature > 0 else np.inf, False
        for s in range(m):
            a = free[s]
            room = upper[a] - alpha[a] if move[s] > 0 else alpha[a]
            if room < share * abs(move[s]):
                share, met = room / abs(move[s]), True
        if not share < np.inf:
            return
        if met:
            for s in range(m):
                a = free[s]
                cut[s] = min(max(alpha[a] + move[s], 0.0), upper[a]) - alpha[a]
            fall_cut, curvature_cut = _along(Z[:m], diagonal, free, gradient, cut)
            if fall_cut - 0.5 * curvature_cut > share * (fall - 0.5 * share * curvature):
                share, fall = 1.0, fall_cut
                move[:m] = cut[:m]
        kept = 0
        for s in range(m):
            a, old, up = free[s], alpha[free[s]], move[s] > 0
            new = min(max(old + share * move[s], 0.0), upper[a])
            if up and upper[a] - new <= _AT_BOUND * new:
                new = upper[a]
            elif not up and new <= _AT_BOUND * old:
                new = 0.0
            alpha[a] = new
            for j in range(w.size):
                w[j] += (new - old) * Z[s, j]
            if 0 < new < upper[a]:
                free[kept] = a
                Z[kept] = Z[s]
                kept += 1
        repeats = repeats + 1 if kept == m else 0
        if repeats == _REPEATS:
            return
        m = kept


@compiled
def _newton(Z, diagonal, ridge, free, alpha, w, gradient, move):
    """Write the gradient at the free coordinates, and the move to where it would be zero."""
    m, width = Z.shape
    A, b = np.eye(width), np.zeros(width)
    for s in range(m):
        a = free[s]
        gradient[s] = diagonal[a] * alpha[a] - 1.0
        for j in range(width):
            gradient[s] += Z[s, j] * w[j]
        weight = 1 / (diagonal[a] + ridge)
        for j in range(width):
            z = weight * Z[s, j]
            b[j] += z * gradient[s]
            for h in range(width):
                A[j, h] += z * Z[s, h]
    b = np.linalg.solve(A, b)
    for s in range(m):
        product = 0.0
        for j in range(width):
            product += Z[s, j] * b[j]
        move[s] = (product - gradient[s]) / (diagonal[free[s]] + ridge)


@compiled
def _along(Z, diagonal, free, gradient, move):
    """Return how steeply the dual falls along a move of the free coordinates, and its curvature there."""
    m, width = Z.shape
    total = np.zeros(width)
    fall, curvature = 0.0, 0.0
    for s in range(m):
        fall -= gradient[s] * move[s]
        curvature += diagonal[free[s]] * move[s] * move[s]
        for j in range(width):
            total[j] += move[s] * Z[s, j]
    return fall, curvature + squared_norm(total)
