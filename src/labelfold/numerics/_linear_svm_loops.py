"""The compiled loops of `labelfold.numerics._linear_svm`, imported when the first SVM is trained.

Rows are passed as four arguments, so that the descent is written once: ``(X, None, None, None)`` for dense rows,
``(None, data, indices, indptr)`` for CSR rows. The compiler removes the code of arguments that are None. `TSVM` on
5,000 x 200 dense rows takes 0.6 s, and 5.4 s if they are held as CSR (`TSVM` of `benchmarks/threads.py`, half of its
rows). A vector w has one entry more than there are columns, which is multiplied by ``bias`` (0 without an intercept).
"""

from __future__ import annotations

import numpy as np

from labelfold.utils import FAST, compiled, dot

_compile = compiled(FAST)
# Precision: a coordinate with a smaller gradient is not changed.
_STILL = 1e-14
# Precision: weights this small relative to the rows that they are sums of are round-off: alpha is not scaled up for
# them.
_NEGLIGIBLE = 1e-9
# Budget: shrunk coordinates take part again at the latest after as many visits as this many full rounds have: without
# them, the few active coordinates may converge very slowly.
_PATIENCE = 10


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
