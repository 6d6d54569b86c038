"""Compiled for a GPU: the I-divergence of dense rows, of which no n x d array but X itself is read or written.

With P = H V' held above a floor and R = X / P. Triton compiles the loops when they are first used; they take float32
tensors.

===================  ===============================================================================
``ratio_rows``       R V (m, k)
``updated_rows``     H after an update: extrapolated, times R V, divided
``ratio_sums``       R'H (d, k), and the I-divergence
``newton_system``    what a Newton step of placing some rows takes
===================  ===============================================================================
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from labelfold.factorization import _triton_pivots as pivots
from labelfold.factorization._triton_pivots import pivoted
from labelfold.rows.loops import (
    COLUMNS,
    ROWS,
    any_length,
    first_row,
    lengths,
    lie_of,
    of_row,
    padded,
    parted_dot,
    parts,
    shift_of,
    short,
    tile,
    tiles,
    turned_tile,
    two_parts,
)

# Rows whose sums are kept in float32 before they are added up in float64.
_RUN = 4096
# Rows of a tile of Newton's systems, and how many entries off the diagonal of their matrices one program computes.
_SYSTEM_ROWS, _SYSTEM_COLUMNS, _PAIRS = 128, 32, 128
_FURTHEST = tl.constexpr(float("inf"))


@triton.jit
def _log(r):
    """Return the logarithm, by the device's own instruction: off by less than the rounding of what is summed up."""
    return 0.6931471805599453 * tl.inline_asm_elementwise(
        "lg2.approx.f32 $0, $1;", "=f,f", [r], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _inverse(p):
    """Return 1 / p, by the device's own instruction: off by one unit in the last place."""
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [p], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _modelled(h, high, low, part, column, shift, d, K: tl.constexpr):
    """Return H V' at some positions, from V in the order in which the product reads it, in two parts."""
    at = part[:, None] + (column - shift)[None, :] * K
    v, rounded_off = two_parts(high, low, at, of_row(column, shift, d)[None, :])
    return parted_dot(h, v, rounded_off)


@triton.jit
def _downward(high, low, part, column, shift, wide, K: tl.constexpr):
    """Return V at some positions, in two parts, in the order in which products with ratios read it."""
    at = (shift * K + part)[None, :] * wide + column[:, None]
    return two_parts(high, low, at, (column < wide)[:, None])


@any_length
def _ratio_rows(
    X, H, last, high_t, low_t, high, low, divisor, out, n, k, d, stride, offset,
    share, least, beta, brake, smallest, UPDATE: tl.constexpr, AHEAD: tl.constexpr,
    STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = lengths(d, stride, STEP)
    begin = first_row(tl.program_id(0), ROWS, STEP)
    row = begin + STEP * tl.arange(0, ROWS)
    shift, wide = shift_of(begin, stride, offset, STEP), padded(d + STEP - 1)
    part = tl.arange(0, K)
    known = (row < n)[:, None] & (part < k)[None, :]
    at = row[:, None] * k + part[None, :]
    h = tl.load(H + at, mask=known, other=0.0)
    if AHEAD:
        h += tl.maximum(beta * (h - tl.load(last + at, mask=known, other=0.0)), -brake * h)
    total = tl.zeros((ROWS, K), tl.float32)
    for first in range(0, d + shift, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        x = tile(X, row, column, n, d, stride, shift, STEP)
        p = _modelled(h, high, low, part, column, shift, d, K)
        r = x * _inverse(tl.maximum(tl.maximum(p, x * share), least))
        v, rounded_off = _downward(high_t, low_t, part, column, shift, wide, K)
        total += parted_dot(r, v, rounded_off)
    if UPDATE:
        total = h * total / tl.load(divisor + part, mask=part < k, other=1.0)[None, :]
        floor = smallest * tl.max(total, axis=1)[:, None]
        total = tl.where(total > 0, tl.maximum(total, floor), total)
    tl.store(out + at, total, mask=known)


@any_length
def _ratio_sums(
    X, H, V, sums, losses, n, k, d, stride, offset, share, least, run,
    STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = lengths(d, stride, STEP)
    begin = first_row(tl.program_id(0), run, STEP)
    shift = shift_of(begin, stride, offset, STEP)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    own = of_row(column, shift, d)
    used = own[:, None] & (part < k)[None, :]
    v = tl.load(V + (column - shift)[:, None] * k + part[None, :], mask=used, other=0.0)
    total = tl.zeros((COLUMNS, K), tl.float32)
    loss = tl.zeros((COLUMNS, ROWS), tl.float32)
    for first in range(0, run, ROWS):
        row = begin + STEP * (first + tl.arange(0, ROWS))
        # Tiles are transposed here, so that ratios are multiplied as they come.
        x = turned_tile(X, row, column, n, d, stride, shift, STEP)
        known = (row < n)[:, None] & (part < k)[None, :]
        h = tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0)
        high = short(h)
        p = parted_dot(v, tl.trans(high), tl.trans(h - high))
        p = tl.maximum(tl.maximum(p, x * share), least)
        r = x * _inverse(p)
        total += parted_dot(r, high, h - high)
        loss += tl.where(x > 0, x * _log(r), 0.0) + (p - x)
    at = tl.program_id(0).to(tl.int64) * d + column - shift
    tl.store(sums + at[:, None] * k + part[None, :], total, mask=used)
    tl.store(losses + at, tl.sum(loss, axis=1), mask=own)


# Rows that an index names begin anywhere: as many of their numbers are read at once as the length of all rows allows.
@any_length
def _newton_system(
    X, index, H, high_t, low_t, high, low, pairs, rest, entry, out, logs, Q, n, k, n_pairs, d, stride, wide,
    share, least, INDEXED: tl.constexpr, BY_COMPONENT: tl.constexpr,
    PAIRS: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Programs (i, 0) write slopes, logarithms and diagonals of rows i, each (i, j) some other entries."""
    d, stride = d * UNIT, stride * UNIT
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    pair = tl.program_id(1) * PAIRS + tl.arange(0, PAIRS)
    part = tl.arange(0, K)
    known = (row < n)[:, None] & (part < k)[None, :]
    place = row
    if INDEXED:
        place = tl.load(index + row, mask=row < n, other=0)
    across = part[None, :].to(tl.int64)
    out_at, h_at = row[:, None] * k + across, row[:, None] * k + across
    if BY_COMPONENT:
        out_at, h_at = across * n + row[:, None], across * wide + place[:, None]
    h = tl.load(H + h_at, mask=known, other=0.0)
    total = tl.zeros((ROWS, K), tl.float32)
    loss = tl.zeros((ROWS, COLUMNS), tl.float32)
    own = tl.zeros((ROWS, K), tl.float32)
    curve = tl.zeros((ROWS, PAIRS), tl.float32)
    for first in range(0, d, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = (row < n)[:, None] & (column < d)[None, :]
        x = tl.load(X + place[:, None] * stride + column[None, :], mask=inside, other=0.0)
        p = _modelled(h, high, low, part, column, 0, d, K)
        bound = tl.maximum(x * share, least)
        inverse = _inverse(tl.maximum(p, bound))
        r = x * inverse
        loss += tl.where(x > 0, x * _log(r), 0.0)
        v, rounded_off = _downward(high_t, low_t, part, column, 0, padded(d), K)
        total += parted_dot(r, v, rounded_off)
        # The matrix units cut the weights to a few digits: that is a matrix of other weights, which serve as well.
        # Products of V so cut would be no matrix of squares: they come in two parts. What no component can make has
        # no curvature.
        w = tl.where(p > bound, r * inverse, 0.0)
        squares = (v + rounded_off) * (v + rounded_off)
        most = short(squares)
        own = tl.dot(w, most, own, input_precision="tf32")
        own = tl.dot(w, squares - most, own, input_precision="tf32")
        at = pair[None, :].to(tl.int64) * padded(d) + column[:, None]
        there = (column < padded(d))[:, None] & (pair < n_pairs)[None, :]
        curve = tl.dot(w, tl.load(pairs + at, mask=there, other=0.0), curve, input_precision="tf32")
        curve = tl.dot(w, tl.load(rest + at, mask=there, other=0.0), curve, input_precision="tf32")
    if tl.program_id(1) == 0:
        tl.store(out + out_at, total, mask=known)
        tl.store(logs + row, tl.sum(loss, axis=1), mask=row < n)
        at = (part * (part + 3) // 2)[None, :].to(tl.int64) * n + row[:, None]
        tl.store(Q + at, own, mask=known)
    at = tl.load(entry + pair, mask=pair < n_pairs, other=0)[None, :] * n + row[:, None]
    tl.store(Q + at, curve, mask=(row < n)[:, None] & (pair < n_pairs)[None, :])


def ratio_rows(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> Any:
    """Return R V."""
    return _rows(X, H, H, V, H, floor, (0.0, 0.0, 0.0), update=False)


def updated_rows(
    X: Any,
    H: Any,
    last: Any,
    V: Any,
    divisor: Any,
    floor: tuple[float, float],
    ahead: tuple[float, float],
    smallest: float,
) -> Any:
    """Return H + max(beta (H - last), -brake H), times R V, divided; entries as large as ``smallest`` of the largest.

    ``ahead`` is (beta, brake). Zeros stay zeros.
    """
    return _rows(X, H, last, V, divisor, floor, (*ahead, smallest), update=True)


def _rows(X: Any, H: Any, last: Any, V: Any, divisor: Any, floor: Any, options: Any, *, update: bool) -> Any:
    n, k, lie = X.shape[0], V.shape[1], lie_of(X)
    H, last, sizes = H.contiguous(), last.contiguous(), tiles(k)
    out = torch.empty_like(H)
    _ratio_rows[(lie.programs(n, ROWS),)](
        X, H, last, *parts(V.T, sizes["K"], lie.step, turned=True), divisor, out, n, k, *lie.lengths,
        *floor, *options, UPDATE=update, AHEAD=bool(options[0]), STEP=lie.step, **sizes,
    )  # fmt: skip
    return out


def ratio_sums(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> tuple[Any, Any]:
    """Return R'H and the divergence, in float64."""
    (n, d), k, lie = X.shape, V.shape[1], lie_of(X)
    n_runs = lie.programs(n, _RUN)
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    losses = torch.empty((n_runs, d), dtype=X.dtype, device=X.device)
    _ratio_sums[(n_runs, triton.cdiv(lie.positions(d), COLUMNS))](
        X, H.contiguous(), V.contiguous(), sums, losses, n, k, *lie.lengths, *floor, _RUN,
        STEP=lie.step, **tiles(k),
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64), torch.sum(losses, dtype=torch.float64)


class Pairs(NamedTuple):
    """Products of two different columns of V, in two parts of which the matrix units keep all, and their entries."""

    high: Any  # (k (k - 1) / 2, d), padded
    low: Any
    entry: Any  # (k (k - 1) / 2,)  in a lower triangle, a row after the other


def pairs_of(V: Any) -> Pairs:
    """Return the products of the columns of V."""
    i, j = torch.tril_indices(V.shape[1], V.shape[1], -1, device=V.device)
    high, low = parts(V.T[i] * V.T[j], len(i))
    return Pairs(high, low, i * (i + 1) // 2 + j)


def newton_system(
    X: Any,
    index: Any,
    H: Any,
    V: Any,
    pairs: Pairs,
    floor: tuple[float, float],
    *,
    by_component: bool = False,
) -> tuple[Any, Any, Any]:
    """Return R V (m, k), the sums of x log r (m,) and the matrices V' diag(R / P) V for some rows of X.

    ``index`` says which rows those are, None all; H is theirs. The matrices (k (k + 1) / 2, m) are lower triangles, a
    row after the other. With ``by_component`` R V is (k, m), and H (k, n) is that of all rows.
    """
    k, n_pairs = V.shape[1], len(pairs.entry)
    unit = math.gcd(X.shape[1], X.stride(0), 4)
    H, wide = H.contiguous(), X.shape[0]
    n = wide if index is None else len(index)
    out = torch.empty((k, n) if by_component else (n, k), dtype=H.dtype, device=H.device)
    logs = torch.empty(n, dtype=H.dtype, device=H.device)
    Q = torch.empty((n_pairs + k, n), dtype=H.dtype, device=H.device)
    sizes = {**tiles(k), "ROWS": _SYSTEM_ROWS, "COLUMNS": _SYSTEM_COLUMNS, "num_warps": 8}
    width = min(_PAIRS, max(16, triton.next_power_of_2(n_pairs)))
    _newton_system[(triton.cdiv(n, _SYSTEM_ROWS), max(1, triton.cdiv(n_pairs, width)))](
        X, H if index is None else index, H, *parts(V.T, sizes["K"], turned=True), *pairs, out, logs, Q,
        n, k, n_pairs, X.shape[1] // unit, X.stride(0) // unit, wide, *floor,
        INDEXED=index is not None, BY_COMPONENT=by_component, PAIRS=width, UNIT=unit, **sizes,
    )  # fmt: skip
    return out, logs, Q


# Nothing is known of n, nor of the widths of arrays, so that each thread loads its own row.
@triton.jit(do_not_specialize=["n", "wide", "width"])
def _step(
    Q, index, H, last, update, target, slopes, logs, mass, reach, best, v, going, n, wide, width, k,
    tol, slack, shorter, shortest, eps, most, INDEXED: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    lane = tl.arange(0, ROWS)
    row = tl.program_id(0).to(tl.int64) * ROWS + lane
    here = row < n
    place = row
    if INDEXED:
        place = tl.load(index + row, mask=here, other=0)
    part = tl.arange(0, K)
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * wide + place[None, :]
    h = tl.load(H + at, mask=known, other=0.0)
    slope = tl.load(slopes + part[:, None].to(tl.int64) * n + row[None, :], mask=known, other=0.0)
    weight = tl.load(v + part[:, None] * width + lane[None, :], mask=known, other=0.0)
    used = weight > 0
    factor = tl.where(used, slope / tl.where(used, weight, 1.0), 0.0)
    loss = tl.load(logs + row, mask=here, other=0.0)
    size = tl.load(mass + place, mask=here, other=1.0)
    lowest = tl.load(best + place, mask=here, other=0.0)
    lower = loss <= lowest + slack * size
    worse = known & ~lower[None, :]
    done = lower & (tl.max(factor, axis=0) <= 1 + tol)
    updated = tl.where(lower[None, :], h * factor, tl.load(update + at, mask=worse, other=0.0))
    gradient = tl.where(used, weight - slope, 0.0)
    solving = here & lower & ~done
    found, n_systems = pivoted(
        Q, Q, h, gradient, h > 0, solving, part, row, known, n, eps, most, False, K
    )  # fmt: skip
    good = (n_systems > 0) & (tl.sum(found, axis=0) < _FURTHEST)  # which NaN is not
    found = tl.where(good[None, :], found, updated)
    share = tl.where(lower, 1.0, shorter * tl.load(reach + place, mask=here, other=1.0))
    begin = tl.where(lower[None, :], h, tl.load(last + at, mask=worse, other=0.0))
    end = tl.where(lower[None, :], found, tl.load(target + at, mask=worse, other=0.0))
    far = tl.where((share < shortest)[None, :], updated, begin + share[None, :] * (end - begin))
    total = tl.sum(far * weight, axis=0)
    far = far * tl.where(total > 0, size / tl.where(total > 0, total, 1.0), 1.0)[None, :]
    further = known & ~done[None, :]
    tl.store(H + at, tl.where(done[None, :], updated, far), mask=known)
    tl.store(last + at, begin, mask=further)
    tl.store(update + at, updated, mask=further)
    tl.store(target + at, end, mask=further)
    tl.store(reach + place, share, mask=here)
    tl.store(best + place, tl.where(lower, loss, lowest), mask=here)
    tl.store(going + row, (~done).to(tl.int8), mask=here)


def newton_places(
    system: Any, v: Any, H: Any, mass: Any, tol: float, slack: float, rounds: int, step: Any
) -> tuple[Any, Any]:
    """Return the places (k, n) after Newton's steps from H, and the numbers of rows that have not settled.

    ``system(index, H)`` returns the Newton systems of some rows, or of all where the index is None. ``v`` are the
    column sums of V, ``mass`` those of the rows, and ``step`` is by how much a step that leads up is
    shortened, and how short it may be.
    """
    k, n = H.shape
    total = v @ H
    H = H * torch.where(total > 0, mass / torch.where(total > 0, total, 1.0), 1.0)
    last, update, target = (torch.empty_like(H) for _ in range(3))
    reach, best = torch.ones_like(mass), torch.full_like(mass, torch.inf)
    sizes = pivots.sizes(k)
    copies = v[:, None].repeat(1, sizes["ROWS"])
    index = None
    for _ in range(rounds):
        slopes, logs, Q = system(index, H)
        m = logs.shape[0]
        going = torch.empty(m, dtype=torch.int8, device=H.device)
        _step[(triton.cdiv(m, sizes["ROWS"]),)](
            Q, H if index is None else index, H, last, update, target, slopes, logs, mass, reach, best, copies,
            going, m, n, sizes["ROWS"], k, tol, slack, *step, pivots.precision(H.dtype), 4 * k,
            INDEXED=index is not None, **sizes,
        )  # fmt: skip
        left = torch.nonzero(going)[:, 0]
        index = left if index is None else index[left]
        if not len(index):
            break
    H[:, index] = update[:, index]
    return H, index
