"""The compiled loops of `labelfold.numerics._linear_svm`, imported when the first SVM is trained.

Rows are passed as four arguments, so that the descent is written once: ``(X, None, None, None)`` for dense rows,
``(None, data, indices, indptr)`` for CSR rows. The compiler removes the code of arguments that are None. A vector w
has one entry more than there are columns, which is multiplied by ``bias`` (0 without an intercept).
"""

from __future__ import annotations

import numpy as np

from labelfold.utils import FAST, compiled, dot

_compile = compiled(FAST)
_TINY = np.finfo(np.float64).tiny
_ROUND_OFF = 4 * np.finfo(np.float64).eps
# A coordinate with a smaller gradient is not changed. Newton steps on the primal end when a step gains at most the
# square of this, relative to the squared weights.
_STILL = 1e-14
# Weights this small relative to the rows that they are sums of are round-off: alpha is not scaled up for them. The
# same share of the squares of the rows is added to the diagonal of a singular matrix before a solve.
_NEGLIGIBLE = 1e-9
# Shrunk coordinates take part again at the latest after as many visits as this many full rounds have: without them,
# the few active coordinates may converge very slowly.
_PATIENCE = 10
# Maximum number of multiplications of one call.
_MAX_WORK = 1e8
# Number of further steps when the active set has stopped changing; they only correct round-off.
_REPEATS = 2
# Maximum number of Newton steps on the primal, and of halvings along one.
_MAX_STEPS = 60


@_compile
def squared_norms(X, data, indices, indptr, n, bias):
    """Return the squared norm of each row, including the bias."""
    q = np.empty(n)
    for i in range(n):
        total = 0.0
        if X is not None:
            for j in range(X.shape[1]):
                total += np.float64(X[i, j]) * X[i, j]
        if data is not None:
            for p in range(indptr[i], indptr[i + 1]):
                total += np.float64(data[p]) * data[p]
        q[i] = total + bias * bias
    return q


@_compile
def _dot(X, data, indices, indptr, i, w, bias):
    total = 0.0
    if X is not None:
        for j in range(X.shape[1]):
            total += X[i, j] * w[j]
    if data is not None:
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * w[np.uintp(indices[p])]
    return total + bias * w[-1]


@_compile
def _add(X, data, indices, indptr, i, step, w, bias):
    if X is not None:
        for j in range(X.shape[1]):
            w[j] += step * X[i, j]
    if data is not None:
        for p in range(indptr[i], indptr[i + 1]):
            w[np.uintp(indices[p])] += step * data[p]
    w[-1] += step * bias


@_compile
def _weights(X, data, indices, indptr, y, alpha, w, bias):
    """Write sum_i alpha_i y_i x_i to w and return its squared norm."""
    w[:] = 0.0
    for i in range(y.size):
        if alpha[i] != 0:
            _add(X, data, indices, indptr, i, alpha[i] * y[i], w, bias)
    return dot(w, w)


@_compile
def _loss(slack, upper, diagonal):
    """Return the loss of a row whose margin is short by ``slack``."""
    if slack <= 0:
        return 0.0
    return slack * slack / (2 * diagonal) if diagonal > 0 else slack * upper


@_compile
def _relative_gap(X, data, indices, indptr, y, upper, diagonal, alpha, w, bias):
    """Return (primal - dual) / primal, with w recomputed from alpha."""
    primal = 0.5 * _weights(X, data, indices, indptr, y, alpha, w, bias)
    gap = 0.0
    for i in range(y.size):
        slack = 1 - y[i] * _dot(X, data, indices, indptr, i, w, bias)
        loss = _loss(slack, upper[i], diagonal[i])
        primal += loss
        # Since ||w||^2 is the sum of alpha (1 - slack), the gap is a sum of non-negative terms.
        gap += loss - alpha[i] * (slack - 0.5 * diagonal[i] * alpha[i])
    if not np.isfinite(primal):
        return 1.0
    return max(gap, 0.0) / primal if primal > 0 else 0.0


@_compile
def _scale_warm_start(X, data, indices, indptr, y, upper, diagonal, q, alpha, w, bias):
    """Scale a warm start to its best multiple within the bounds, never worse than zero, and write its w."""
    curvature = _weights(X, data, indices, indptr, y, alpha, w, bias)
    total, size, limit = 0.0, 0.0, np.inf
    for i in range(y.size):
        curvature += diagonal[i] * alpha[i] * alpha[i]
        total += alpha[i]
        size += alpha[i] * np.sqrt(q[i])
        if alpha[i] > 0:
            limit = min(limit, upper[i] / alpha[i])
    if total > 0:
        curvature = max(curvature, (_NEGLIGIBLE * size) ** 2)
        factor = min(total / curvature, limit) if curvature > 0 else limit
        factor = factor if np.isfinite(factor) else 1.0
        for i in range(y.size):
            alpha[i] = min(factor * alpha[i], upper[i])
        for j in range(w.size):
            w[j] *= factor


@_compile
def descend(X, data, indices, indptr, y, upper, diagonal, q, alpha, w, bias, tol, max_iter, seed):
    """Minimise the dual over each coordinate in turn, in random order; write alpha and w.

    ``upper`` bounds alpha, and ``diagonal`` is added to the diagonal of the dual's matrix. Coordinates at a bound,
    with a gradient beyond the projected gradients of the last round, are left out (shrinking). Each round also sums
    up the duality gap during its steps. When that sum is small enough, all coordinates take part in a round, and if
    it is still small, the gap is computed.

    Returns
    -------
    gap : float
        The relative duality gap.
    n_iter : int
        Number of rounds over the coordinates.
    """
    active = np.flatnonzero(upper > 0)
    n_all = n_active = active.size
    state = np.uint64(seed) * np.uint64(2) + np.uint64(0x9E3779B97F4A7C15)
    _scale_warm_start(X, data, indices, indptr, y, upper, diagonal, q, alpha, w, bias)
    primal, goal, visits, high, low = 0.0, tol, 0, np.inf, -np.inf
    for n_iter in range(1, max_iter + 1):
        for s in range(n_active - 1, 0, -1):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            t = np.int64(((state >> np.uint64(32)) * np.uint64(s + 1)) >> np.uint64(32))
            active[s], active[t] = active[t], active[s]
        top, bottom = -np.inf, np.inf
        gap, losses, full = 0.0, 0.0, n_active == n_all
        visits += n_active
        s = 0
        while s < n_active:
            i = active[s]
            a = alpha[i]
            slack = 1 - y[i] * _dot(X, data, indices, indptr, i, w, bias)
            g = diagonal[i] * a - slack
            loss = _loss(slack, upper[i], diagonal[i])
            losses += loss
            gap += loss - a * (slack - 0.5 * diagonal[i] * a)
            if (a <= 0 and g > high) or (a >= upper[i] and g < low):
                n_active -= 1
                active[s], active[n_active] = active[n_active], i
                continue
            projected = min(g, 0.0) if a <= 0 else max(g, 0.0) if a >= upper[i] else g
            top, bottom = max(top, projected), min(bottom, projected)
            if abs(projected) > _STILL:
                alpha[i] = min(max(a - g / (q[i] + diagonal[i]), 0.0), upper[i])
                _add(X, data, indices, indptr, i, (alpha[i] - a) * y[i], w, bias)
            s += 1
        high = top if top > 0 else np.inf
        low = bottom if bottom < 0 else -np.inf
        if full:
            primal = losses + 0.5 * dot(w, w)
            if gap <= goal * primal:
                exact = _relative_gap(X, data, indices, indptr, y, upper, diagonal, alpha, w, bias)
                if exact <= tol:
                    return exact, n_iter
                goal *= 0.5
            visits = 0
        elif gap <= 0.5 * goal * primal or visits > _PATIENCE * n_all:
            n_active, high, low = n_all, np.inf, -np.inf
    return _relative_gap(X, data, indices, indptr, y, upper, diagonal, alpha, w, bias), max_iter


@_compile
def mistakes(X, data, indices, indptr, y, order, max_epochs, w):
    """Return the number of mistakes of a perceptron, started from zero weights, on each row."""
    count = np.zeros(y.size)
    for _ in range(max_epochs):
        clean = True
        for i in order:
            if y[i] * _dot(X, data, indices, indptr, i, w, 0.0) <= 0:
                _add(X, data, indices, indptr, i, y[i], w, 0.0)
                count[i] += 1
                clean = False
        if clean:
            break
    return count


def polish(Z: np.ndarray, upper: np.ndarray, diagonal: np.ndarray, alpha: np.ndarray, w: np.ndarray) -> None:
    """Minimise the dual directly, given a guess of the coordinates at a bound; write alpha and w.

    If round-off raises the dual, alpha and w stay unchanged.
    """
    old, before = alpha.copy(), _dual(Z, diagonal, alpha)
    if diagonal.any():
        _primal(Z, diagonal, alpha, w)
        if _dual(Z, diagonal, alpha) < before:
            return
        alpha[:], w[:] = old, old @ Z
    free = np.flatnonzero((alpha > 0) & (alpha < upper))
    _free(Z[free], free, upper, diagonal, alpha, w)
    if not _dual(Z, diagonal, alpha) <= before:
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
    for _ in range(_MAX_STEPS):
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
        if share * dot(b, step) <= _STILL * _STILL * (1 + dot(w, w)):
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
    """Return the step length that minimises the primal, by Newton steps within a bracket: its slope increases."""
    low, high, share = 0.0, np.inf, 1.0
    for _ in range(_MAX_STEPS):
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
        if abs(next_share - share) <= _ROUND_OFF * share:
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
    ridge = _NEGLIGIBLE * trace / max(m, 1) + _TINY
    while m > 0 and work < _MAX_WORK:
        work += m * w.size * w.size
        _newton(Z, m, diagonal, ridge, free, alpha, w, gradient, move)
        fall, curvature = _slope_and_curvature(Z, m, diagonal, free, gradient, move)
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
            fall_cut, curvature_cut = _slope_and_curvature(Z, m, diagonal, free, gradient, cut)
            if fall_cut - 0.5 * curvature_cut > share * (fall - 0.5 * share * curvature):
                share, fall = 1.0, fall_cut
                move, cut = cut, move
        kept = 0
        for s in range(m):
            a, old, up = free[s], alpha[free[s]], move[s] > 0
            new = min(max(old + share * move[s], 0.0), upper[a])
            if up and upper[a] - new <= _ROUND_OFF * new:
                new = upper[a]
            elif not up and new <= _ROUND_OFF * old:
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
def _slope_and_curvature(Z, m, diagonal, free, gradient, move):
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
