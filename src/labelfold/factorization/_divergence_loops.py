"""Compiled loops of the I-divergence over sparse rows: inner product, ratio and sum together for each non-zero.

R = X / (H V') is computed only at the non-zeros of X. No array of the size of X, or of its non-zeros times k, is
allocated: the ratios of a row are buffered, so that quotients and logarithms are computed in vectors. All loops
release the GIL and none is parallel itself: the threads belong to `labelfold.rows._threads`.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np

from labelfold.factorization._divergence import floor
from labelfold.rows import (
    add_plain_rows,
    add_rows,
    add_to_rows,
    aligned,
    n_threads,
    plain_products,
    row_products,
    run_jobs,
    shares,
)
from labelfold.rows.loops import run
from labelfold.utils import FAST, compiled

_compile = compiled(FAST)
# Most ratios in the buffer, and most bytes of their rows of V, so that these fit into the first-level cache.
_WAITING, _WAITING_BYTES = 256, 2**14
# Logarithms are computed in vectors, by log f = 2 artanh((f - 1) / (f + 1)). With `np.log` a pass takes 10 to 20 %
# longer at k = 10. The constants are the bits of sqrt(1/2), and the smallest ratio.
_LOG_2, _TINY = float(np.log(2.0)), 2.3e-308
_ROOT_HALF = int(np.float64(np.sqrt(0.5)).view(np.int64))
# Loops compiled for one k take about 0.6 of the time of the general ones, but every k needs its own compilation.
_LEAST, _MOST = 8, 128


def csr_ratio_rows(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, V: np.ndarray
) -> np.ndarray:
    """Return R V (m, k) for CSR rows, R = X / (H V')."""
    H, V = np.ascontiguousarray(H), np.ascontiguousarray(V)
    out = np.empty_like(H)
    run(_gather, _special(H.shape[1]), data, indices, indptr, 0, len(H), H, V, out, _floor(H), False)
    return out


def csr_ratio_scatter(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, V: np.ndarray, out: np.ndarray
) -> tuple[float, float]:
    """Add R'H to ``out`` (d, k) for CSR rows; return the sums over the non-zeros of x log(x/p) - x + p and of p."""
    H, V = np.ascontiguousarray(H), np.ascontiguousarray(V)
    return run(_scatter, _special(H.shape[1]), data, indices, indptr, H, V, out, _floor(H))


def csc_ratio_sums(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, H: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Return R'H (d, k) and the two sums. Each column of X gathers its rows of H; threads share the columns."""
    out = aligned(V.shape, V.dtype)
    targets = np.linspace(0, len(data), n_threads() + 1)
    cuts = np.searchsorted(indptr, targets)
    cuts[0], cuts[-1] = 0, len(V)

    def work(piece: tuple[int, int], stop: Any) -> tuple[float, float]:
        special = _special(H.shape[1])
        return run(_gather, special, data, indices, indptr, *piece, V, H, out, _floor(H), True)

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
    return max(8, min(_WAITING, _WAITING_BYTES // (V.shape[1] * V.itemsize)))


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
                    row_products(q, h, V, indices, first, m, special)
                else:
                    plain_products(q, h, V, indices, first, m)
                if with_loss:
                    part = _ratios(data, first, q, m, least, ratio, bits)
                    loss += part[0]
                    total += part[1]
                else:
                    for j in range(m):
                        x = data[first + j]
                        q[j] = x / max(q[j], max(least[0] * x, least[1]))
                if special > 0:
                    add_rows(q, row, V, indices, first, m, special, 0)
                else:
                    add_plain_rows(q, row, V, indices, first, m)
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
                    row_products(q, h, V, indices, first, m, special)
                else:
                    plain_products(q, h, V, indices, first, m)
                part = _ratios(data, first, q, m, least, ratio, bits)
                loss += part[0]
                total += part[1]
                if special > 0:
                    add_to_rows(q, h, out, indices, first, m, special)
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
    """Return k if the loops are compiled for it, 0 for the general loops."""
    return k if k % 2 == 0 and _LEAST <= k <= _MOST else 0


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
