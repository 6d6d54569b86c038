"""Compiled loops of the I-divergence: ratios at non-zeros, and rows of H of minimum divergence.

All loops release the GIL and none is parallel itself: the threads belong to `labelfold.rows._threads`.

Rows of minimum divergence (`solve_rows`) change one component at a time: each goes to the minimum of a model of the
divergence along it (Hsieh and Dhillon take the quadratic model). Ours has the form v h - a log(b + h), which is exact
for a row with one entry, and the same slope and curvature. Its minimum is between the step of the quadratic model and
the minimum.
Components that are nearly equal converge slowly in this way, so now and then a Newton step moves all of them. A step
that raises the divergence is undone, and replaced by the multiplicative update of all components, which cannot raise
it.

With h'v the sum of a row, its divergence is at most (f - 1) times that sum above the minimum, where f is the largest
factor of a multiplicative update, since the divergence is convex. A row stops when this bound of the gap is small.

References
----------
C.-J. Hsieh, I. S. Dhillon. Fast coordinate descent methods with variable selection for non-negative matrix
factorization. KDD 2011.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.factorization._device_rows import ROUND_OFF
from labelfold.factorization._divergence import EXACT_GAP, floor
from labelfold.rows import row_products, run, run_jobs, shares, special
from labelfold.utils import FAST, compiled

_compile = compiled(FAST)
# Sweeps over the components: after `_IDLE` of them a component that has stayed at 0 is tried again, after `_JOINT` of
# them there is a Newton step of all components that are not 0, and after `_PATIENT` of them a row may stop at the
# tolerance of the caller, which is tested after each Newton step.
_IDLE, _JOINT, _PATIENT = 4, 12, 200


def csr_ratios(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    H: np.ndarray,
    V: np.ndarray,
    lowest: np.ndarray,
) -> np.ndarray:
    """Return X / (H V') at the non-zeros of X; H V' is at least a share of x, and a number: ``lowest``."""
    out = np.empty(data.size, dtype=V.dtype)
    run(_products, special(V.shape[1]), indices, indptr, H, V, out)
    _divide(data, out, lowest)
    return out


# numba caches a nested function only if it closes over numbers alone.
@cache
def _products(special: int) -> Any:
    """Return the loop that computes H V' at the non-zeros, for a number of columns; 0 for any."""
    if not special:
        return _products_any

    @_compile
    def products(indices, indptr, H, V, out):
        for i in range(indptr.size - 1):
            a, b = indptr[i], indptr[i + 1]
            row_products(out[a:b], H[i], V, indices, a, b - a, special)

    return products


@_compile
def _products_any(indices, indptr, H, V, out):
    for i in range(indptr.size - 1):
        h = H[i]
        for j in range(indptr[i], indptr[i + 1]):
            w, total = V[indices[j]], V.dtype.type(0)
            for t in range(h.size):
                total += w[t] * h[t]
            out[j] = total


@_compile
def _divide(data, out, lowest):
    for j in range(data.size):
        x = data[j]
        out[j] = x / max(out[j], max(lowest[0] * x, lowest[1]))


def multiply_and_extrapolate(
    V_hat: np.ndarray,
    V: np.ndarray,
    sums: np.ndarray,
    inverse: np.ndarray,
    beta: float,
    max_fall: float,
    minimum: float,
    new: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return V_hat * sums * inverse, written to ``sums``; its extrapolation; and the column sums of that.

    Positive entries are at least ``minimum``. The extrapolation adds ``beta`` times the change from V, lowers an
    entry by at most the share ``max_fall``, and is written to ``new``, which may be V itself.
    """
    inverse = np.asarray(inverse, dtype=V.dtype)
    limits = [V.dtype.type(limit) for limit in (beta, max_fall, minimum)]

    def work(piece: slice, stop: Any) -> np.ndarray:
        columns = np.zeros(V.shape[1])
        _multiply_and_extrapolate(V_hat, V, sums, inverse, *limits, new, piece.start, piece.stop, columns)
        return columns

    return sums, new, sum(run_jobs(work, shares(len(V), 4.0 * V.size)))


@_compile
def extrapolated(H, last, beta, max_fall):
    """Return H extrapolated by ``beta`` times its last change; entries fall by at most the share ``max_fall``.

    NumPy's functions would make four arrays of the size of H.
    """
    out = np.empty_like(H)
    for i in range(H.shape[0]):
        for t in range(H.shape[1]):
            h = H[i, t]
            out[i, t] = h + max(beta * (h - last[i, t]), -max_fall * h)
    return out


@_compile
def scaled(H, factors, divisor, share):
    """Return H * factors / divisor, in ``factors``; positive entries at least ``share`` of their row's largest."""
    for i in range(H.shape[0]):
        largest = H.dtype.type(0)
        for t in range(H.shape[1]):
            factors[i, t] = H[i, t] * factors[i, t] / divisor[t]
            largest = max(largest, factors[i, t])
        for t in range(H.shape[1]):
            if 0 < factors[i, t] < share * largest:
                factors[i, t] = share * largest
    return factors


@_compile
def _multiply_and_extrapolate(V_hat, V, sums, inverse, beta, max_fall, minimum, new, start, stop, columns):
    for j in range(start, stop):
        for t in range(V.shape[1]):
            value = V_hat[j, t] * (sums[j, t] * inverse[t])
            if 0 < value < minimum:
                value = minimum
            sums[j, t] = value
            new[j, t] = value + max(beta * (value - V[j, t]), -max_fall * value)
            columns[t] += new[j, t]


def solve_rows(X: Any, V: Any, v: Any, tol: float, max_sweeps: int) -> np.ndarray:
    """Return the rows of minimum divergence of an array or a CSR array; see `labelfold.factorization._divergence`."""
    S = sparse.csr_array(X)
    H = np.empty((X.shape[0], V.shape[1]), dtype=V.dtype)
    V, v = np.ascontiguousarray(V), np.asarray(v, np.float64)
    longest = int(np.diff(S.indptr).max(initial=0))
    lowest = np.array(floor(V.dtype), dtype=np.float64)
    _solve(S.data, S.indices, S.indptr, V, v, H, longest, lowest, tol, max_sweeps)
    return H


@_compile
def _solve(data, indices, indptr, V, v, out, longest, lowest, tol, max_sweeps):
    k = V.shape[1]
    W, entries, work = np.empty((k, longest)), np.empty((3, longest)), np.zeros((3, k))
    for i in range(indptr.size - 1):
        # Entries in columns where all components are 0 are left out: they do not affect h.
        n, mass = 0, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            column, used = indices[p], False
            for t in range(k):
                W[t, n] = V[column, t]
                used = used or V[column, t] > 0
            if used and data[p] > 0:
                entries[0, n] = data[p]
                mass += data[p]
                n += 1
        h = work[0]
        h[:] = 0.0
        if mass > 0:
            _solve_row(W, entries, n, mass, v, work, lowest, tol, max_sweeps)
        for t in range(k):
            out[i, t] = h[t]


@_compile
def _solve_row(W, entries, n, mass, v, work, lowest, tol, max_sweeps):
    """Set work[0] to the h of a row of n entries, entries[0], whose columns of V' are W; they sum to ``mass``."""
    low = entries[2]
    h, best_h, idle = work[0], work[1], work[2]
    k = h.size
    for j in range(n):
        low[j] = max(lowest[0] * entries[0, j], lowest[1])
    for t in range(k):
        h[t] = 1.0 if v[t] > 0 else 0.0
        idle[t] = 0.0
    best, exact, near = np.inf, min(EXACT_GAP, tol), True
    for sweep in range(max_sweeps):
        loss = _model(W, entries, n, mass, v, h)
        raised = not loss <= best + ROUND_OFF * mass  # also if it is NaN
        if raised:
            h[:] = best_h
            _model(W, entries, n, mass, v, h)
        else:
            best = loss
            best_h[:] = h
        patient = sweep < _PATIENT
        if sweep == 0 or raised or near or (not patient and sweep % _JOINT == 0):
            largest = _update(W, entries, n, v, h, sweep == 0 or raised)
            if largest <= 1 + (exact if patient else tol):
                break
            idle[:] = 0.0
            if sweep == 0 or raised:
                continue
        if sweep % _JOINT == _JOINT - 1:
            _joint_step(W, entries, n, v, h)
            continue
        top = 0.0
        for t in range(k):
            if v[t] > 0 and (idle[t] == 0 or sweep % _IDLE == 0):
                ratio = _component_step(W[t], entries, n, v[t], h, t)
                top = max(top, ratio)
                idle[t] = 1.0 if h[t] == 0 and ratio < 1 else 0.0
        near = top <= 1 + exact
    else:
        h[:] = best_h


@_compile
def _model(W, entries, n, mass, v, h):
    """Scale h to the sum of the row, set the modelled values, and return the divergence less constants."""
    x, q, low = entries[0], entries[1], entries[2]
    total = 0.0
    for t in range(h.size):
        total += h[t] * v[t]
    for j in range(n):
        q[j] = 0.0
    for t in range(h.size):
        h[t] *= mass / total
        if h[t] > 0:
            w = W[t]
            for j in range(n):
                q[j] += h[t] * w[j]
    loss = 0.0
    for j in range(n):
        loss -= x[j] * np.log(max(q[j], low[j]))
    return loss


@_compile
def _update(W, entries, n, v, h, change):
    """Return the largest factor of the multiplicative update, which is made if ``change`` is true."""
    x, q, low = entries[0], entries[1], entries[2]
    largest = 0.0
    for t in range(h.size):
        if v[t] > 0:
            w, slope = W[t], 0.0
            for j in range(n):
                slope += x[j] * w[j] / max(q[j], low[j])
            largest = max(largest, slope / v[t])
            if change:
                h[t] *= slope / v[t]
    return largest


@_compile
def _component_step(w, entries, n, weight, h, t):
    """Move component t towards its minimum, and the modelled values with it.

    Return the factor of its multiplicative update before the step. A step down may pass the minimum, so after one
    that ends at 0 there is a second step from there.
    """
    x, q, low = entries[0], entries[1], entries[2]
    old, ratio = h[t], 0.0
    for turn in range(2):
        slope, bend = 0.0, 0.0
        for j in range(n):
            z = w[j] / max(q[j], low[j])
            y = x[j] * z
            slope += y
            bend += y * z
        if turn == 0:
            ratio = slope / weight
        if not bend > 0:
            break
        here = h[t]
        h[t] = max(here + slope / bend * (slope / weight - 1), 0.0)
        step = h[t] - here
        if step == 0:
            break
        for j in range(n):
            q[j] += step * w[j]
        if h[t] > 0 or turn == 1 or old == 0:
            break
    return ratio


@_compile
def _joint_step(W, entries, n, v, h):
    """Move all components that are not 0 by a Newton step; those that it would make negative become 0."""
    free = np.flatnonzero(h > 0)
    w, z = np.empty((free.size, n)), 1.0 / np.maximum(entries[1, :n], entries[2, :n])
    for a in range(free.size):
        w[a] = W[free[a], :n] * z
    x = entries[0, :n].copy()
    slope, Q = w @ x - v[free], (w * x) @ w.T
    size = 0.0
    for a in range(free.size):
        size = max(size, Q[a, a])
    if not 0 < size < np.inf:
        return
    for a in range(free.size):
        Q[a, a] += ROUND_OFF * size
    step = np.linalg.solve(Q, slope)
    for a in range(free.size):
        h[free[a]] = max(h[free[a]] + step[a], 0.0)
