"""Compiled loops: the exact minimum of a linear SVM with few columns, from an approximate one.

Z holds the dense rows, each times its sign, with the column of the intercept, so the margins are Zw.
"""

from __future__ import annotations

import numpy as np

from labelfold.utils import FAST, compiled, dot

_compile = compiled(FAST)

_TINY = np.finfo(np.float64).tiny
_ROUND_OFF = 4 * np.finfo(np.float64).eps

# Largest number of multiplications of one call.
_MOST_WORK = 1e8

# Added to the diagonal of a singular matrix before a solve, relative to the squares of the rows.
_RIDGE = 1e-9

# A coordinate within this relative distance of the bound that it moved towards is set to the bound.
_AT_BOUND = 1e-15

# Number of steps without a change of the active set, which only correct round-off.
_REPEATS = 2

# Most Newton steps on the primal, and the largest gain of the last one, relative to the squared weights.
_MOST_STEPS = 50
_STILL = 1e-28


def settle(Z: np.ndarray, upper: np.ndarray, diagonal: np.ndarray, alpha: np.ndarray, w: np.ndarray) -> None:
    """Minimise the dual directly, given a guess of the coordinates at a bound; write alpha and w.

    If round-off raises the dual, alpha and w stay unchanged.
    """
    old, least = alpha.copy(), _dual(Z, diagonal, alpha)
    if diagonal.any():
        _primal(Z, diagonal, alpha, w)
        if _dual(Z, diagonal, alpha) < least:
            return
        alpha[:], w[:] = old, old @ Z
    free = np.flatnonzero((alpha > 0) & (alpha < upper))
    _free(Z[free], free, upper, diagonal, alpha, w)
    if not _dual(Z, diagonal, alpha) <= least:
        alpha[:] = old
    w[:] = alpha @ Z


def _dual(Z: np.ndarray, diagonal: np.ndarray, alpha: np.ndarray) -> float:
    """Return an upper bound of the dual, given the round-off of w = Z'alpha, in which large alphas nearly cancel."""
    w, sizes = _weighted(Z, alpha)
    with np.errstate(over="ignore", invalid="ignore"):
        error = _ROUND_OFF * np.linalg.norm(sizes)
        return float(0.5 * (np.linalg.norm(w) + error) ** 2 + alpha @ (0.5 * diagonal * alpha - 1))


@_compile
def _weighted(Z, alpha):
    """Return Z'alpha and |Z|'alpha, without an array of the size of Z: machines are trained in threads."""
    total, sizes = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    for i in range(len(Z)):
        if alpha[i] != 0:
            for j in range(Z.shape[1]):
                term = alpha[i] * Z[i, j]
                total[j] += term
                sizes[j] += abs(term)
    return total, sizes


@_compile
def _product(Z, w):
    out = np.empty(len(Z))
    for i in range(len(Z)):
        out[i] = dot(Z[i], w)
    return out


@_compile
def _primal(Z, diagonal, alpha, w):
    """Minimise the primal of the squared hinge by Newton steps; write consistent alpha and w.

    It is quadratic between margins, so a step ends at the minimum as soon as the rows inside the margin are known.
    """
    n, width = Z.shape
    margin = _product(Z, w)
    for _ in range(_MOST_STEPS):
        A, b = np.eye(width), -w
        for i in range(n):
            if margin[i] < 1 and diagonal[i] > 0:
                z, weight = Z[i], 1 / diagonal[i]
                for j in range(width):
                    b[j] += weight * (1 - margin[i]) * z[j]
                    for h in range(j + 1):
                        A[j, h] += weight * z[j] * z[h]
        step = _solved(A, b)
        change = _product(Z, step)
        share = _minimum_along(diagonal, margin, change, w, step)
        if not share > 0:
            break
        for j in range(width):
            w[j] += share * step[j]
        for i in range(n):
            margin[i] += share * change[i]
        if share * dot(b, step) <= _STILL * (1 + dot(w, w)):
            break
    for i in range(n):
        alpha[i] = (1 - margin[i]) / diagonal[i] if margin[i] < 1 and diagonal[i] > 0 else 0.0
    w[:] = 0.0
    for i in range(n):
        if alpha[i] > 0:
            for j in range(width):
                w[j] += alpha[i] * Z[i, j]


@_compile
def _minimum_along(diagonal, margin, change, w, step):
    """Return the step length that minimises the primal, by bisection, since its slope increases."""
    low, high, share = 0.0, np.inf, 1.0
    for _ in range(60):
        curvature = dot(step, step)
        slope = dot(w, step) + share * curvature
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


@_compile
def _free(Z, free, upper, diagonal, alpha, w):
    """Minimise the dual over the coordinates between their bounds; a coordinate that meets a bound stays there.

    The matrix of the m free coordinates is a diagonal plus a product of low rank, so it is solved with the small
    matrix of the columns (Woodbury). A step is clipped to the bounds if that lowers the dual more than a step that
    ends at the first bound, or at the minimum along the direction. Z and ``free`` are the rows and indices of these
    coordinates, and are overwritten.
    """
    m = free.size
    gradient, move, cut = np.empty(m), np.empty(m), np.empty(m)
    trace, work, repeats = 0.0, 0.0, 0
    for s in range(m):
        trace += dot(Z[s], Z[s])
    ridge = _RIDGE * trace / max(m, 1) + _TINY
    while m > 0 and work < _MOST_WORK:
        work += m * w.size * w.size
        _newton(Z, m, diagonal, ridge, free, alpha, w, gradient, move)
        fall, curvature = _along(Z, m, diagonal, free, gradient, move)
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
            fall_cut, curvature_cut = _along(Z, m, diagonal, free, gradient, cut)
            if fall_cut - 0.5 * curvature_cut > share * (fall - 0.5 * share * curvature):
                share, fall = 1.0, fall_cut
                move, cut = cut, move
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
                for j in range(w.size):
                    Z[kept, j] = Z[s, j]
                kept += 1
        repeats = repeats + 1 if kept == m else 0
        if repeats == _REPEATS:
            return
        m = kept


@_compile
def _newton(Z, m, diagonal, ridge, free, alpha, w, gradient, move):
    """Write the gradient at the free coordinates, and the Newton step."""
    width = Z.shape[1]
    A, b = np.eye(width), np.zeros(width)
    for s in range(m):
        a = free[s]
        gradient[s] = diagonal[a] * alpha[a] - 1.0 + dot(Z[s], w)
        weight = 1 / (diagonal[a] + ridge)
        for j in range(width):
            z = weight * Z[s, j]
            b[j] += z * gradient[s]
            for h in range(j + 1):
                A[j, h] += z * Z[s, h]
    b = _solved(A, b)
    for s in range(m):
        move[s] = (dot(Z[s], b) - gradient[s]) / (diagonal[free[s]] + ridge)


@_compile
def _along(Z, m, diagonal, free, gradient, move):
    """Return the slope and curvature of the dual along a step of the free coordinates."""
    width = Z.shape[1]
    total = np.zeros(width)
    fall, curvature = 0.0, 0.0
    for s in range(m):
        fall -= gradient[s] * move[s]
        curvature += diagonal[free[s]] * move[s] * move[s]
        for j in range(width):
            total[j] += move[s] * Z[s, j]
    return fall, curvature + dot(total, total)


@_compile
def _solved(A, b):
    """Return A^(-1) b by a Cholesky factor, which overwrites A; a pivot lost in round-off is bounded below."""
    width, x = b.size, b.copy()
    for j in range(width):
        pivot = A[j, j]
        for h in range(j):
            pivot -= A[j, h] * A[j, h]
        root = np.sqrt(max(pivot, _ROUND_OFF * A[j, j], _TINY))
        for i in range(j + 1, width):
            entry = A[i, j]
            for h in range(j):
                entry -= A[i, h] * A[j, h]
            A[i, j] = entry / root
        A[j, j] = root
    for j in range(width):
        for h in range(j):
            x[j] -= A[j, h] * x[h]
        x[j] /= A[j, j]
    for j in range(width - 1, -1, -1):
        for h in range(j + 1, width):
            x[j] -= A[h, j] * x[h]
        x[j] /= A[j, j]
    return x
