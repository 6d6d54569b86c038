"""Rows of H of least I-divergence D(X, H V') for a fixed V, each row by itself.

Components are changed one at a time: each goes to the minimum of a model of the divergence along it (Hsieh and
Dhillon take the quadratic model). Ours has the form v h - a log(b + h), as a row with one entry has, and the same
slope and curvature. It lands between the step of the quadratic model and the minimum. Components that are nearly
equal converge slowly in this way, so now and then a Newton step moves all of them. A step that raises the divergence
is undone, and replaced by the multiplicative update of all components, which cannot raise it.

With h'v the sum of a row, its divergence is at most (worst - 1) times that sum above the minimum, where worst is the
largest factor of a multiplicative update, since the divergence is convex. This is the gap at which a row stops.

References
----------
C.-J. Hsieh, I. S. Dhillon. Fast coordinate descent methods with variable selection for non-negative matrix
factorization. KDD 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device
from scipy import sparse

from labelfold.factorization._divergence import floor
from labelfold.rows import Block, as_rows, dense_block_rows, host, n_threads, to_device, to_host
from labelfold.utils import FAST, compiled

_compile = compiled(FAST)
# The gap at which a row stops. It is small, because a divergence near its minimum gives half of the digits of h.
_EXACT = 1e-8
# A component that is 0, and is better so, is tried again after this number of sweeps over the components.
_IDLE = 4
# Number of sweeps between two Newton steps of all components that are not 0, and the ridge of a step, relative to the
# largest entry of its diagonal.
_JOINT, _RIDGE = 12, 1e-12
# After this number of sweeps a row may stop at the tolerance of the caller; it is tested every `_EVERY` sweeps.
_PATIENT, _EVERY = 200, 10
# Rise of a row's divergence that is round-off, relative to the row's sum.
_SLACK = 1e-13


def solve_rows(X: Block, V: Any, v: Any, tol: float, max_sweeps: int) -> Any:
    """Return H (m, k), the rows of least divergence for a fixed V (d, k) with column sums v.

    Each row stops when its gap is within 1e-8, or within ``tol`` if it converges slowly. Rows are solved by the loops
    below, in double precision. Rows of a device are copied to the host and back, some blocks at a time.
    """
    if X.xp is not np:
        return _on_host(X, V, v, tol, max_sweeps)
    S = sparse.csr_array(host(X))
    H = np.empty((X.shape[0], V.shape[1]), dtype=V.dtype)
    V, v = np.ascontiguousarray(V), np.asarray(v, np.float64)
    longest = int(np.diff(S.indptr).max(initial=0))
    lowest = np.array(floor(V.dtype), dtype=np.float64)
    _solve(S.data, S.indices, S.indptr, V, v, H, longest, lowest, tol, max_sweeps)
    return H.astype(X.dtype, copy=False)


def _on_host(X: Block, V: Any, v: Any, tol: float, max_sweeps: int) -> Any:
    """Return the same for rows of a device."""
    (m, d), raw, V = X.shape, X.raw, to_host(V)
    H = np.empty((m, V.shape[1]), dtype=V.dtype)
    shared, step = (V, to_host(v), tol, max_sweeps), n_threads() * dense_block_rows(8 * d)
    for start in range(0, m, step):
        some = slice(start, min(start + step, m))
        H[some] = as_rows(to_host(raw[some, ...])).map(solve_rows, shared=shared)
    return to_device(X.xp, H, device(raw))


@_compile
def _solve(data, indices, indptr, V, v, out, longest, least, tol, max_sweeps):
    k = V.shape[1]
    W, entries, work = np.empty((k, longest)), np.empty((3, longest)), np.zeros((3, k))
    for i in range(indptr.size - 1):
        # Entries that no component makes are left out: they do not affect h.
        n, mass = 0, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            column, made = indices[p], False
            for t in range(k):
                W[t, n] = V[column, t]
                made = made or V[column, t] > 0
            if made and data[p] > 0:
                entries[0, n] = data[p]
                mass += data[p]
                n += 1
        h = work[0]
        h[:] = 0.0
        if mass > 0:
            _solve_row(W, entries, n, mass, v, work, least, tol, max_sweeps)
        for t in range(k):
            out[i, t] = h[t]


@_compile
def _solve_row(W, entries, n, mass, v, work, least, tol, max_sweeps):
    """Set work[0] to the h of a row of n entries, entries[0], whose columns of V' are W; they sum to ``mass``."""
    low = entries[2]
    h, kept, idle = work[0], work[1], work[2]
    k = h.size
    for j in range(n):
        low[j] = max(least[0] * entries[0, j], least[1])
    for t in range(k):
        h[t] = 1.0 if v[t] > 0 else 0.0
        idle[t] = 0.0
    best, exact, asked = np.inf, min(_EXACT, tol), True
    for sweep in range(max_sweeps):
        loss = _model(W, entries, n, mass, v, h)
        raised = not loss <= best + _SLACK * mass  # nor is it nan
        if raised:
            h[:] = kept
            _model(W, entries, n, mass, v, h)
        else:
            best = loss
            kept[:] = h
        patient = sweep < _PATIENT
        if sweep == 0 or raised or asked or (not patient and sweep % _EVERY == 0):
            worst = _update(W, entries, n, v, h, sweep == 0 or raised)
            if worst <= 1 + (exact if patient else tol):
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
        asked = top <= 1 + exact
    else:
        h[:] = kept


@_compile
def _model(W, entries, n, mass, v, h):
    """Scale h to the sum of the row, set the modelled values, and return the divergence less constants."""
    x, q, low = entries[0], entries[1], entries[2]
    held = 0.0
    for t in range(h.size):
        held += h[t] * v[t]
    for j in range(n):
        q[j] = 0.0
    for t in range(h.size):
        h[t] *= mass / held
        if h[t] > 0:
            w = W[t]
            for j in range(n):
                q[j] += h[t] * w[j]
    loss = 0.0
    for j in range(n):
        loss -= x[j] * np.log(max(q[j], low[j]))
    return loss


@_compile
def _update(W, entries, n, v, h, taken):
    """Return the largest factor of the multiplicative update, which is made if ``taken``."""
    x, q, low = entries[0], entries[1], entries[2]
    worst = 0.0
    for t in range(h.size):
        if v[t] > 0:
            w, slope = W[t], 0.0
            for j in range(n):
                slope += x[j] * w[j] / max(q[j], low[j])
            worst = max(worst, slope / v[t])
            if taken:
                h[t] *= slope / v[t]
    return worst


@_compile
def _component_step(w, entries, n, weight, h, t):
    """Move component t towards its minimum, and the modelled values with it; return its factor before.

    A step down may pass the minimum. One that ends at 0 is made again from there.
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
    x, q, low = entries[0], entries[1], entries[2]
    free = np.flatnonzero(h > 0)
    weighted, Q, slope = np.empty(n), np.empty((free.size, free.size)), np.empty(free.size)
    size = 0.0
    for a in range(free.size):
        w = W[free[a]]
        slope[a] = -v[free[a]]
        for j in range(n):
            z = w[j] / max(q[j], low[j])
            slope[a] += x[j] * z
            weighted[j] = x[j] * z / max(q[j], low[j])
        for b in range(a + 1):
            total, other = 0.0, W[free[b]]
            for j in range(n):
                total += weighted[j] * other[j]
            Q[a, b] = Q[b, a] = total
        size = max(size, Q[a, a])
    if not 0 < size < np.inf:
        return
    for a in range(free.size):
        Q[a, a] += _RIDGE * size
    step = np.linalg.solve(Q, slope)
    for a in range(free.size):
        h[free[a]] = max(h[free[a]] + step[a], 0.0)
