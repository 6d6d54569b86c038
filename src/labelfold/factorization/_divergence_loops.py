"""Compiled loops of the I-divergence: sums over rows, and rows of H of least divergence.

Sums over sparse rows compute inner product, ratio and sum together for each non-zero. R = X / (H V') is computed only
at the non-zeros of X. No array of the size of X, or of its non-zeros times k, is allocated: the ratios of a row are
buffered, so that quotients and logarithms are computed in vectors. All loops release the GIL and none is parallel
itself: the threads belong to `labelfold.rows._threads`.

Rows of least divergence (`solve_rows`) change one component at a time: each goes to the minimum of a model of the
divergence along it (Hsieh and Dhillon take the quadratic model). Ours has the form v h - a log(b + h), as a row with
one entry has, and the same slope and curvature. It lands between the step of the quadratic model and the minimum.
Components that are nearly equal converge slowly in this way, so now and then a Newton step moves all of them. A step
that raises the divergence is undone, and replaced by the multiplicative update of all components, which cannot raise
it.

With h'v the sum of a row, its divergence is at most (worst - 1) times that sum above the minimum, where worst is the
largest factor of a multiplicative update, since the divergence is convex. This is the gap at which a row stops.

References
----------
C.-J. Hsieh, I. S. Dhillon. Fast coordinate descent methods with variable selection for non-negative matrix
factorization. KDD 2011.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from labelfold.factorization._divergence import floor
from labelfold.rows import loops, n_threads, run_jobs, shares
from labelfold.utils import FAST, compiled

_compile = compiled(FAST)
# Logarithms are computed in vectors, by log f = 2 artanh((f - 1) / (f + 1)). With `np.log` a pass takes 10 to 20 %
# longer at k = 10. The constants are the bits of sqrt(1/2), and the smallest ratio.
_LOG_2, _TINY = float(np.log(2.0)), float(np.finfo(np.float64).tiny)
_ROOT_HALF = int(np.float64(np.sqrt(0.5)).view(np.int64))
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


def csr_ratio_rows(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, V: np.ndarray
) -> np.ndarray:
    """Return R V (m, k) for CSR rows, R = X / (H V')."""
    H, V = np.ascontiguousarray(H), np.ascontiguousarray(V)
    out = np.empty_like(H)
    loops.run(_gather, _special(H.shape[1]), data, indices, indptr, 0, len(H), H, V, out, _floor(H), False)
    return out


def csr_ratio_scatter(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, V: np.ndarray, out: np.ndarray
) -> tuple[float, float]:
    """Add R'H to ``out`` (d, k) for CSR rows; return the sums over the non-zeros of x log(x/p) - x + p and of p."""
    H, V = np.ascontiguousarray(H), np.ascontiguousarray(V)
    return loops.run(_scatter, _special(H.shape[1]), data, indices, indptr, H, V, out, _floor(H))


def csc_ratio_sums(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Return R'H (d, k) and the two sums. Each column of X gathers its rows of H; threads share the columns."""
    out = loops.aligned(V.shape, V.dtype)
    targets = np.linspace(0, len(data), n_threads() + 1)
    cuts = np.searchsorted(indptr, targets)
    cuts[0], cuts[-1] = 0, len(V)

    def work(piece: tuple[int, int], stop: Any) -> tuple[float, float]:
        special = _special(H.shape[1])
        return loops.run(_gather, special, data, indices, indptr, *piece, V, H, out, _floor(H), True)

    parts = run_jobs(work, [piece for piece in itertools.pairwise(cuts.tolist()) if piece[1] > piece[0]])
    return out, sum(part[0] for part in parts), sum(part[1] for part in parts)


def multiplied(
    V_hat: np.ndarray,
    V: np.ndarray,
    sums: np.ndarray,
    inverse: np.ndarray,
    beta: float,
    brake: float,
    least: float,
    new: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return V_hat * sums * inverse, written to ``sums``; its extrapolation; and the column sums of that.

    The extrapolation adds ``beta`` times the change from V, lowers an entry by at most the share ``brake``, and is
    written to ``new``, which may be V itself.
    """
    inverse = np.asarray(inverse, dtype=V.dtype)

    def work(piece: slice, stop: Any) -> np.ndarray:
        columns = np.zeros(V.shape[1])
        _step(
            V_hat,
            V,
            sums,
            inverse,
            V.dtype.type(beta),
            V.dtype.type(brake),
            V.dtype.type(least),
            new,
            piece.start,
            piece.stop,
            columns,
        )
        return columns

    return sums, new, sum(run_jobs(work, shares(len(V), 4.0 * V.size)))


@_compile
def _ratios(data, first, q, m, least, ratio, bits):
    """Replace m modelled values p in q by ratios x / p; return the sums of x log(x/p) - x + p and of p.

    ``ratio`` is a buffer of float64 numbers, and ``bits`` the same memory as integers, for the logarithms.
    """
    loss, total = 0.0, 0.0
    for j in range(m):
        x = data[first + j]
        p = max(q[j], max(least[0] * x, least[1]))
        q[j] = x / p
        ratio[j] = max(np.float64(x) / np.float64(p), _TINY)
        loss += np.float64(p) - np.float64(x)
        total += p
    for j in range(m):
        # r = 2^e f with f between 1/sqrt(2) and sqrt(2): the exponent e and the factor f
        e = (bits[j] - _ROOT_HALF) >> 52
        bits[j] -= e << 52
        f = ratio[j]
        s = (f - 1.0) / (f + 1.0)
        z = s * s
        odd = 2 / 21 * z + 2 / 19
        odd = odd * z + 2 / 17
        odd = odd * z + 2 / 15
        odd = odd * z + 2 / 13
        odd = odd * z + 2 / 11
        odd = odd * z + 2 / 9
        odd = odd * z + 2 / 7
        odd = odd * z + 2 / 5
        odd = odd * z + 2 / 3
        loss += np.float64(data[first + j]) * (np.float64(e) * _LOG_2 + (2.0 * s + s * z * odd))
    return loss, total


@_compile
def dense_ratios(X, P, logs, least):
    """Replace modelled values P by ratios X / P, copied to ``logs`` with 1 where X is 0; return sum(P - X)."""
    total = 0.0
    for i in range(X.shape[0]):
        part = 0.0
        for j in range(X.shape[1]):
            x = X[i, j]
            p = max(P[i, j], max(least[0] * x, least[1]))
            P[i, j] = x / p
            part += np.float64(p) - np.float64(x)
            if logs is not None:
                logs[i, j] = P[i, j] if x > 0 else 1.0
        total += part
    return total


@_compile
def _together(V):
    """Return the number of ratios that are buffered together."""
    # The ratios and their rows of V fit into the first-level cache.
    return max(8, min(256, 2**14 // (V.shape[1] * V.itemsize)))


@cache
# Below, ``special`` is k if a loop is compiled for it, otherwise 0. numba caches a nested function only if it closes
# over numbers alone.
def _gather(special: int) -> Any:
    @_compile
    def gather(data, indices, indptr, start, stop, H, V, out, least, with_loss):
        together = _together(V)
        q, ratio = np.empty(together, dtype=V.dtype), np.empty(together)
        bits = ratio.view(np.int64)
        loss, total = 0.0, 0.0
        for i in range(start, stop):
            h, row = H[i], out[i]
            row[:] = 0
            for first in range(indptr[i], indptr[i + 1], together):
                m = min(together, indptr[i + 1] - first)
                if special > 0:
                    loops.row_products(q, h, V, indices, first, m, special)
                else:
                    loops.plain_products(q, h, V, indices, first, m)
                if with_loss:
                    part = _ratios(data, first, q, m, least, ratio, bits)
                    loss += part[0]
                    total += part[1]
                else:
                    for j in range(m):
                        x = data[first + j]
                        q[j] = x / max(q[j], max(least[0] * x, least[1]))
                if special > 0:
                    loops.add_rows(q, row, V, indices, first, m, special, 0)
                else:
                    loops.add_plain_rows(q, row, V, indices, first, m)
        return loss, total

    return gather


@cache
def _scatter(special: int) -> Any:
    @_compile
    def scatter(data, indices, indptr, H, V, out, least):
        together = _together(V)
        q, ratio = np.empty(together, dtype=V.dtype), np.empty(together)
        bits = ratio.view(np.int64)
        loss, total = 0.0, 0.0
        for i in range(indptr.size - 1):
            h = H[i]
            for first in range(indptr[i], indptr[i + 1], together):
                m = min(together, indptr[i + 1] - first)
                if special > 0:
                    loops.row_products(q, h, V, indices, first, m, special)
                else:
                    loops.plain_products(q, h, V, indices, first, m)
                part = _ratios(data, first, q, m, least, ratio, bits)
                loss += part[0]
                total += part[1]
                if special > 0:
                    loops.add_to_rows(q, h, out, indices, first, m, special)
                else:
                    for j in range(m):
                        column = out[indices[first + j]]
                        for t in range(h.size):
                            column[t] += q[j] * h[t]
        return loss, total

    return scatter


def _floor(factor: np.ndarray) -> np.ndarray:
    """Return the lower bound of a modelled value, in the form that the loops take."""
    return np.array(floor(factor.dtype), dtype=factor.dtype)


def _special(k: int) -> int:
    """Return k if the loops are compiled for it, 0 for the general loops.

    Loops compiled for one k take about 0.6 of the time of the general ones, but every k needs its own compilation.
    """
    return k if k % 2 == 0 and 8 <= k <= 128 else 0


@_compile
def looked_ahead(H, last, beta, brake):
    """Return H extrapolated by ``beta`` times its last change; an entry is lowered by at most the share ``brake``."""
    out = np.empty_like(H)
    for i in range(H.shape[0]):
        for t in range(H.shape[1]):
            h = H[i, t]
            out[i, t] = h + max(beta * (h - last[i, t]), -brake * h)
    return out


@_compile
def scaled(H, factors, divisor, share):
    """Return H * factors / divisor, in ``factors``; positive entries at least ``share`` of their row's largest."""
    for i in range(H.shape[0]):
        most = H.dtype.type(0)
        for t in range(H.shape[1]):
            factors[i, t] = H[i, t] * factors[i, t] / divisor[t]
            most = max(most, factors[i, t])
        for t in range(H.shape[1]):
            if 0 < factors[i, t] < share * most:
                factors[i, t] = share * most
    return factors


@_compile
def _step(V_hat, V, sums, inverse, beta, brake, least, new, start, stop, columns):
    for j in range(start, stop):
        for t in range(V.shape[1]):
            value = V_hat[j, t] * (sums[j, t] * inverse[t])
            if 0 < value < least:
                value = least
            sums[j, t] = value
            new[j, t] = value + max(beta * (value - V[j, t]), -brake * value)
            columns[t] += new[j, t]


def solve_rows(X: Any, V: Any, v: Any, tol: float, max_sweeps: int) -> np.ndarray:
    """Return the rows of least divergence of an array or a CSR array; see `labelfold.factorization._divergence`."""
    S = sparse.csr_array(X)
    H = np.empty((X.shape[0], V.shape[1]), dtype=V.dtype)
    V, v = np.ascontiguousarray(V), np.asarray(v, np.float64)
    longest = int(np.diff(S.indptr).max(initial=0))
    lowest = np.array(floor(V.dtype), dtype=np.float64)
    _solve(S.data, S.indices, S.indptr, V, v, H, longest, lowest, tol, max_sweeps)
    return H


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
