"""Compiled loops of the I-divergence: sums over rows, and rows of H of minimum divergence.

Sums over sparse rows compute inner product, ratio and sum together for each non-zero. R = X / (H V') is computed only
at the non-zeros of X. No array of the size of X, or of its non-zeros times k, is allocated: the ratios of a row are
buffered, so that quotients and logarithms are computed in vectors. All loops release the GIL and none is parallel
itself: the threads belong to `labelfold.rows._threads`.

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

import itertools
from functools import cache, partial
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
# The gap at which a row stops. It is small: near the minimum h has half of the digits of the divergence.
_EXACT = 1e-8
# Sweeps over the components: after `_IDLE` of them a component that has stayed at 0 is tried again, after `_JOINT` of
# them there is a Newton step of all components that are not 0, and after `_PATIENT` of them a row may stop at the
# tolerance of the caller, which is tested after each Newton step.
_IDLE, _JOINT, _PATIENT = 4, 12, 200
# A rise of the divergence that is round-off, relative to the row's sum, and the ridge of a Newton step, relative to
# the largest entry of its diagonal.
_ROUND_OFF = 1e-13


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
    special = _special(H.shape[1])
    return loops.run(_scatter, special, data, indices, indptr, 0, len(H), H, V, out, _floor(H), True)


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
def _ratios(data, first, q, m, lowest, ratio, bits):
    """Replace m modelled values p in q by ratios x / p; return the sums of x log(x/p) - x + p and of p.

    ``lowest`` has the lower bounds of p: a share of x, and a number.
    ``ratio`` is a buffer of float64 numbers, and ``bits`` the same memory as integers, for the logarithms.
    """
    loss, total = 0.0, 0.0
    for j in range(m):
        x = data[first + j]
        p = max(q[j], max(lowest[0] * x, lowest[1]))
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
def dense_ratios(X, P, logs, lowest):
    """Replace modelled values P by ratios X / P, copied to ``logs`` with 1 where X is 0; return sum(P - X)."""
    total = 0.0
    for i in range(X.shape[0]):
        part = 0.0
        for j in range(X.shape[1]):
            x = X[i, j]
            p = max(P[i, j], max(lowest[0] * x, lowest[1]))
            P[i, j] = x / p
            part += np.float64(p) - np.float64(x)
            if logs is not None:
                logs[i, j] = P[i, j] if x > 0 else 1.0
        total += part
    return total


@_compile
def _plain_products(q, h, M, indices, first, m):
    """Set q[j] to the product of h with row indices[first + j] of M, for j < m: `row_products` for any width."""
    for j in range(m):
        w = M[indices[first + j]]
        p = w[0] * h[0]
        for t in range(1, h.size):
            p += w[t] * h[t]
        q[j] = p


@_compile
def _buffer_size(V):
    """Return the number of ratios that are buffered together."""
    # The ratios and their rows of V fit into the first-level cache.
    return max(8, min(256, 2**14 // (V.shape[1] * V.itemsize)))


# ``special`` is k if the loop is compiled for it, otherwise 0. numba caches a nested function only if it closes over
# numbers alone.
@cache
def _ratio_loop(special: int, scatter: bool) -> Any:
    """Return a loop over sparse rows: it replaces ``out`` by R V, or adds R'H to it (``scatter``)."""

    @_compile
    def loop(data, indices, indptr, start, stop, H, V, out, lowest, with_loss):
        size = _buffer_size(V)
        q, ratio = np.empty(size, dtype=V.dtype), np.empty(size)
        bits = ratio.view(np.int64)
        loss, total = 0.0, 0.0
        for i in range(start, stop):
            h = H[i]
            if not scatter:
                out[i] = 0
            for first in range(indptr[i], indptr[i + 1], size):
                m = min(size, indptr[i + 1] - first)
                if special > 0:
                    loops.row_products(q, h, V, indices, first, m, special)
                else:
                    _plain_products(q, h, V, indices, first, m)
                if with_loss:
                    part = _ratios(data, first, q, m, lowest, ratio, bits)
                    loss += part[0]
                    total += part[1]
                else:
                    for j in range(m):
                        x = data[first + j]
                        q[j] = x / max(q[j], max(lowest[0] * x, lowest[1]))
                if scatter and special > 0:
                    loops.add_to_rows(q, h, out, indices, first, m, special)
                elif scatter:
                    for j in range(m):
                        column = out[indices[first + j]]
                        for t in range(h.size):
                            column[t] += q[j] * h[t]
                elif special > 0:
                    loops.add_rows(q, out[i], V, indices, first, m, special, 0)
                else:
                    for j in range(m):
                        row, w = out[i], V[indices[first + j]]
                        for t in range(h.size):
                            row[t] += q[j] * w[t]
        return loss, total

    return loop


_gather, _scatter = partial(_ratio_loop, scatter=False), partial(_ratio_loop, scatter=True)


def _floor(factor: np.ndarray) -> np.ndarray:
    """Return the lower bound of a modelled value, in the form that the loops take."""
    return np.array(floor(factor.dtype), dtype=factor.dtype)


def _special(k: int) -> int:
    """Return k if the loops are compiled for it, 0 for the general loops.

    Loops compiled for one k take about 0.6 of the time of the general ones, but every k needs its own compilation.
    """
    return k if k % 2 == 0 and 8 <= k <= 128 else 0


@_compile
def extrapolated(H, last, beta, max_fall):
    """Return H extrapolated by ``beta`` times its last change; entries fall by at most the share ``max_fall``."""
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
    best, exact, near = np.inf, min(_EXACT, tol), True
    for sweep in range(max_sweeps):
        loss = _model(W, entries, n, mass, v, h)
        raised = not loss <= best + _ROUND_OFF * mass  # also if it is NaN
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
        Q[a, a] += _ROUND_OFF * size
    step = np.linalg.solve(Q, slope)
    for a in range(free.size):
        h[free[a]] = max(h[free[a]] + step[a], 0.0)
