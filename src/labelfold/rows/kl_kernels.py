"""Compiled loops of the I-divergence over sparse rows: inner product, ratio and sum in one go, non-zero by non-zero.

With R = X / (H V') at the non-zeros of X and nowhere else. Nothing of the size of X or of its non-zeros times k is
made: a row's ratios wait in a short buffer, so that their logarithms and quotients do not wait for each other. All
release the GIL and none is parallel by itself: the threads belong to `labelfold.rows.threads`.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np

from labelfold.rows import threads
from labelfold.rows.kernels import _compile
from labelfold.rows.kl import LEAST_SHARE, floor

# Ratios that wait together; with their rows of V they fit a core's cache.
_WAITING = 256

# Compiled for k itself these loops are a third faster where k fills whole vectors, and slower where it does not.
_VECTOR, _MOST = 16, 128


def csr_ratio_rows(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, V: np.ndarray
) -> np.ndarray:
    """Return R V (m, k) for CSR rows, R = X / (H V')."""
    H, V = np.ascontiguousarray(H), np.ascontiguousarray(V)
    out = np.empty_like(H)
    _gather(_special(H.shape[1]))(data, indices, indptr, 0, len(H), H, V, out, _floor(H), False)
    return out


def csr_ratio_scatter(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, V: np.ndarray, out: np.ndarray
) -> tuple[float, float]:
    """Add R'H to ``out`` (d, k) for CSR rows; return the sums over the non-zeros of x log(x/p) - x + p and of p."""
    H, V = np.ascontiguousarray(H), np.ascontiguousarray(V)
    return _scatter(_special(H.shape[1]))(data, indices, indptr, H, V, out, _floor(H))


def csc_ratio_sums(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Return R'H (d, k) and the two sums, for the columns of X: each gathers its rows of H, columns in threads."""
    out = np.empty_like(V)
    gather = _gather(_special(H.shape[1]))
    targets = np.linspace(0, len(data), threads.n_threads() + 1)
    cuts = np.searchsorted(indptr, targets)
    cuts[0], cuts[-1] = 0, len(V)

    def run(piece: tuple[int, int], stop: Any) -> tuple[float, float]:
        return gather(data, indices, indptr, *piece, V, H, out, _floor(H), True)

    parts = threads.run(run, [piece for piece in itertools.pairwise(cuts.tolist()) if piece[1] > piece[0]])
    return out, sum(part[0] for part in parts), sum(part[1] for part in parts)


def csr_place(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    V: np.ndarray,
    v: np.ndarray,
    tol: float,
    max_rounds: int,
) -> np.ndarray:
    """Return H (m, k) for CSR rows and a fixed V with column sums v, each row until its own gap is within ``tol``.

    See `labelfold.rows.kl.place`, its twin for dense rows.
    """
    V = np.ascontiguousarray(V)
    out = np.empty((len(indptr) - 1, V.shape[1]), dtype=V.dtype)
    _place(_special(V.shape[1]))(
        data, indices, indptr, V, np.asarray(v, V.dtype), out, _floor(V), tol, max_rounds
    )
    return out


def multiplied(
    V_hat: np.ndarray,
    V: np.ndarray,
    sums: np.ndarray,
    inverse: np.ndarray,
    beta: float,
    brake: float,
    least: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return V_hat * sums * inverse, in the place of ``sums``; that some way further on; and the column sums of this.

    Further on by ``beta`` of the way from V, down by no more than ``brake`` of itself.
    """
    new = np.empty_like(V)
    cuts = np.unique(np.linspace(0, len(V), threads.n_threads() + 1).astype(int))
    inverse = np.asarray(inverse, dtype=V.dtype)

    def run(piece: tuple[int, int], stop: Any) -> np.ndarray:
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
            *piece,
            columns,
        )
        return columns

    return sums, new, sum(threads.run(run, list(itertools.pairwise(cuts))))


@_compile
def _ratios(data, first, q, m, least):
    """Turn m modelled values p in q into ratios x / p; return the sums of x log(x/p) - x + p and of p."""
    loss, total = 0.0, 0.0
    for j in range(m):
        x = data[first + j]
        p = max(q[j], max(least[0] * x, least[1]))
        q[j] = x / p
        loss += p - x
        if x > 0:
            loss += np.float64(x) * np.log(np.float64(x) / np.float64(p))
        total += p
    return loss, total


@_compile
def dense_ratios(X, P, logs, least):
    """Turn modelled values P into ratios X / P, in ``logs`` too but 1 where X is 0; return the sum of P - X."""
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


@cache
def _gather(special: int) -> Any:
    @_compile
    def gather(data, indices, indptr, start, stop, H, V, out, least, with_loss):
        k = special if special > 0 else V.shape[1]
        q = np.empty(_WAITING, dtype=V.dtype)
        loss, total = 0.0, 0.0
        for i in range(start, stop):
            h, row = H[i], out[i]
            for t in range(k):
                row[t] = 0
            for first in range(indptr[i], indptr[i + 1], _WAITING):
                m = min(_WAITING, indptr[i + 1] - first)
                for j in range(m):
                    w = V[indices[first + j]]
                    p = w[0] * h[0]
                    for t in range(1, k):
                        p += w[t] * h[t]
                    q[j] = p
                if with_loss:
                    part = _ratios(data, first, q, m, least)
                    loss += part[0]
                    total += part[1]
                else:
                    for j in range(m):
                        x = data[first + j]
                        q[j] = x / max(q[j], max(least[0] * x, least[1]))
                for j in range(m):
                    w = V[indices[first + j]]
                    for t in range(k):
                        row[t] += q[j] * w[t]
        return loss, total

    return gather


@cache
def _scatter(special: int) -> Any:
    @_compile
    def scatter(data, indices, indptr, H, V, out, least):
        k = special if special > 0 else V.shape[1]
        q = np.empty(_WAITING, dtype=V.dtype)
        loss, total = 0.0, 0.0
        for i in range(indptr.size - 1):
            h = H[i]
            for first in range(indptr[i], indptr[i + 1], _WAITING):
                m = min(_WAITING, indptr[i + 1] - first)
                for j in range(m):
                    w = V[indices[first + j]]
                    p = w[0] * h[0]
                    for t in range(1, k):
                        p += w[t] * h[t]
                    q[j] = p
                part = _ratios(data, first, q, m, least)
                loss += part[0]
                total += part[1]
                for j in range(m):
                    column = out[indices[first + j]]
                    for t in range(k):
                        column[t] += q[j] * h[t]
        return loss, total

    return scatter


@cache
def _place(special: int) -> Any:
    @_compile
    def step(data, indices, first, last, V, h, v, q, new, least):
        """Update h into ``new``; return the row's divergence at h, but for constants, and the largest factor."""
        k = special if special > 0 else V.shape[1]
        for t in range(k):
            new[t] = 0
        loss = 0.0
        for start in range(first, last, _WAITING):
            m = min(_WAITING, last - start)
            for j in range(m):
                w = V[indices[start + j]]
                p = w[0] * h[0]
                for t in range(1, k):
                    p += w[t] * h[t]
                q[j] = p
            for j in range(m):
                x = data[start + j]
                p = max(q[j], max(least[0] * x, least[1]))
                loss -= np.float64(x) * np.log(np.float64(p))
                q[j] = x / p
            for j in range(m):
                w = V[indices[start + j]]
                for t in range(k):
                    new[t] += q[j] * w[t]
        worst = 0.0
        for t in range(k):
            factor = new[t] / v[t] if v[t] > 0 else 0.0
            worst = max(worst, factor)
            new[t] = h[t] * factor
            loss += h[t] * v[t]
        return loss, worst

    @_compile
    def place(data, indices, indptr, V, v, out, least, tol, max_rounds):
        k = special if special > 0 else V.shape[1]
        q = np.empty(_WAITING, dtype=V.dtype)
        one, two, far = np.empty(k, V.dtype), np.empty(k, V.dtype), np.empty(k, V.dtype)
        whole = v.sum()
        for i in range(indptr.size - 1):
            h, first, last = out[i], indptr[i], indptr[i + 1]
            mass = 0.0
            for p in range(first, last):
                mass += data[p]
            for t in range(k):
                h[t] = mass / whole if v[t] > 0 else 0.0
            if mass == 0:
                continue
            step(data, indices, first, last, V, h, v, q, one, least)
            h[:] = one
            rounds = 1
            while rounds < max_rounds:
                loss, worst = step(data, indices, first, last, V, h, v, q, one, least)
                rounds += 1
                if worst <= 1 + tol or rounds + 2 > max_rounds:
                    h[:] = one
                    break
                step(data, indices, first, last, V, one, v, q, two, least)
                squares, bends = 0.0, 0.0
                for t in range(k):
                    scale = v[t] / mass  # so that squares stay in range
                    squares += ((one[t] - h[t]) * scale) ** 2
                    bends += ((two[t] - 2 * one[t] + h[t]) * scale) ** 2
                reach = max(1.0, np.sqrt(squares / bends)) if bends > 0 else 1.0
                for t in range(k):
                    ahead = h[t] + 2 * reach * (one[t] - h[t]) + reach**2 * (two[t] - 2 * one[t] + h[t])
                    far[t] = max(ahead, LEAST_SHARE * two[t])
                ahead_loss, _ = step(data, indices, first, last, V, far, v, q, one, least)
                h[:] = one if ahead_loss <= loss else two
                rounds += 2

    return place


def _floor(factor: np.ndarray) -> np.ndarray:
    """Return what a modelled value is held above, as the loops take it."""
    return np.array(floor(factor.dtype), dtype=factor.dtype)


def _special(k: int) -> int:
    """Return k where the loops are compiled for it, 0 for the general ones."""
    return k if k % _VECTOR == 0 and k <= _MOST else 0


@_compile
def _step(V_hat, V, sums, inverse, beta, brake, least, new, start, stop, columns):
    for j in range(start, stop):
        for t in range(V.shape[1]):
            value = V_hat[j, t] * (sums[j, t] * inverse[t])
            value = value if value >= least else 0.0
            sums[j, t] = value
            new[j, t] = value + max(beta * (value - V[j, t]), -brake * value)
            columns[t] += new[j, t]
