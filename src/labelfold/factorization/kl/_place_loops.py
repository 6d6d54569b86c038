"""Compiled loops for factors of rows: the h that minimises the I-divergence of a row from its model for a fixed V."""

from __future__ import annotations

import numpy as np

from labelfold.factorization.kl._place import EXACT
from labelfold.factorization.kl._ratio_loops import _floor
from labelfold.utils import FAST, compiled

_compile = compiled(FAST)
# A component that is 0, and is better so, is looked at again after so many sweeps over the components.
_IDLE = 4
# Every so many sweeps all components that are not 0 make a Newton step, with a ridge of so much of the diagonal.
_JOINT, _RIDGE = 12, 1e-12
# A row that is slow to settle may stop at the tolerance after so many sweeps; that is asked after every so many.
_PATIENT, _EVERY = 200, 10
# By how much of a row's sum its divergence may seem to rise by round-off.
_SLACK = 1e-13


def csr_place(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    V: np.ndarray,
    v: np.ndarray,
    tol: float,
    max_sweeps: int,
) -> np.ndarray:
    """Return H (m, k) for CSR rows and a fixed V with column sums v.

    Each row stops when its gap is within 1e-8, a slow one when it is within ``tol``, in double precision.

    One component at a time goes to the minimum of a model of the divergence along it (Hsieh and Dhillon take the
    quadratic one). Ours has the form v h - a log(b + h), as a row with one entry has, and the same slope and
    curvature: it lands between the quadratic one's step and the minimum. Components that are nearly equal settle
    slowly so, and now and then a Newton step moves all of them. What raises the divergence is undone, and the
    multiplicative update of all components is made in its place, which cannot raise it.

    References
    ----------
    C.-J. Hsieh, I. S. Dhillon. Fast coordinate descent methods with variable selection for non-negative matrix
    factorization. KDD 2011.
    """
    out = np.empty((len(indptr) - 1, V.shape[1]), dtype=V.dtype)
    V, v = np.ascontiguousarray(V), np.asarray(v, np.float64)
    longest = int(np.diff(indptr).max(initial=0))
    _place(data, indices, indptr, V, v, out, longest, _floor(V).astype(np.float64), tol, max_sweeps)
    return out


@_compile
def _place(data, indices, indptr, V, v, out, longest, least, tol, max_sweeps):
    k = V.shape[1]
    W, entries, work = np.empty((k, longest)), np.empty((3, longest)), np.zeros((3, k))
    for i in range(indptr.size - 1):
        # What no component makes is left out: it says nothing about h.
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
            _place_row(W, entries, n, mass, v, work, least, tol, max_sweeps)
        for t in range(k):
            out[i, t] = h[t]


@_compile
def _place_row(W, entries, n, mass, v, work, least, tol, max_sweeps):
    """Set work[0] to the h of a row of n entries, entries[0], whose columns of V' are W; they sum to ``mass``."""
    low = entries[2]
    h, kept, idle = work[0], work[1], work[2]
    k = h.size
    for j in range(n):
        low[j] = max(least[0] * entries[0, j], least[1])
    for t in range(k):
        h[t] = 1.0 if v[t] > 0 else 0.0
        idle[t] = 0.0
    best, exact, asked = np.inf, min(EXACT, tol), True
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
