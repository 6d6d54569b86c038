"""Compiled for a GPU: the I-divergence of sparse rows, of which only the stored entries are read.

With P = H V' held above a floor and R = X / P, which is 0 where X is.

===================  ===============================================================================
``ratio_rows``       R V (m, k)
``ratio_sums``       R'H (d, k), and the I-divergence
``newton_system``    what a Newton step of placing some rows takes
===================  ===============================================================================
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from labelfold.rows.loops._triton_sparse import (
    Entries,
    aligned,
    entries_at,
    narrow_rows,
    run_ends,
    tiles,
    whole_runs,
)

# Entries of a row in a tile of Newton's systems.
_SYSTEM_ENTRIES = 32


@triton.jit
def _ratios(
    values, index, ends, which, own, B, bounds, out, losses, m, k,
    LOSS: tl.constexpr, STRIDE: tl.constexpr, ROWS: tl.constexpr, ENTRIES: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    begin, end, longest = run_ends(ends, row, m)
    place = tl.load(which + row, mask=row < m, other=0).to(tl.int64)
    there = (row < m)[:, None] & (part < STRIDE)[None, :]
    mine = tl.load(own + place[:, None] * STRIDE + part[None, :], mask=there, other=0.0)
    share, lowest = tl.load(bounds), tl.load(bounds + 1)
    total = tl.zeros((ROWS, ENTRIES, K), B.dtype.element_ty)
    loss = tl.zeros((ROWS, ENTRIES), B.dtype.element_ty)
    for first in range(0, longest, ENTRIES):
        x, at, inside = entries_at(values, index, begin, end, first, ENTRIES)
        b = narrow_rows(B, at, inside, part, STRIDE)
        p = tl.sum(b * mine[:, None, :], axis=2)
        r = x / tl.maximum(tl.maximum(p, x * share), lowest)
        total += r[:, :, None] * b
        if LOSS:
            loss += x * tl.log(tl.where(x > 0, r, 1.0)) - x
    known = (row < m)[:, None] & (part < k)[None, :]
    tl.store(out + row[:, None] * k + part[None, :], tl.sum(total, axis=1), mask=known)
    if LOSS:
        tl.store(losses + row, tl.sum(loss, axis=1), mask=row < m)


@triton.jit
def _newton_system(
    values, index, ends, chosen, H, V, bounds, out, logs, Q, m, n, d, k,
    INDEXED: tl.constexpr, STRIDE: tl.constexpr, ENTRIES: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0).to(tl.int64)
    row = number
    if INDEXED:
        row = tl.load(chosen + number).to(tl.int64)
    part, lane = tl.arange(0, K), tl.arange(0, ENTRIES)
    begin, end = tl.load(ends + row).to(tl.int64), tl.load(ends + row + 1).to(tl.int64)
    h = tl.load(H + part.to(tl.int64) * n + row, mask=part < k, other=0.0)
    share, lowest = tl.load(bounds), tl.load(bounds + 1)
    # Entries are about so much larger than their model, which is spread over all columns. Without this factor, the
    # logarithms of all steps would have a large constant part, and fewer digits for what differs.
    usual = (end - begin).to(tl.float32) / d
    total = tl.zeros((ENTRIES, K), tl.float32)
    loss = tl.zeros((ENTRIES,), tl.float32)
    curve = tl.zeros((K, K), tl.float32)
    for first in range(begin, end, ENTRIES):
        inside = first + lane < end
        x = tl.load(values + first + lane, mask=inside, other=0.0)
        at = tl.load(index + first + lane, mask=inside, other=0).to(tl.int64)
        there = inside[:, None] & (part < STRIDE)[None, :]
        v = tl.load(V + at[:, None] * STRIDE + part[None, :], mask=there, other=0.0)
        p = tl.sum(v * h[None, :], axis=1)
        bound = tl.maximum(x * share, lowest)
        inverse = 1.0 / tl.maximum(p, bound)
        r = x * inverse
        loss += x * tl.log(tl.where(x > 0, r * usual, 1.0))
        total += r[:, None] * v
        # What no component can make has no curvature.
        w = tl.where(p > bound, r * inverse, 0.0)
        curve += tl.dot(tl.trans(v), v * w[:, None], input_precision="tf32x3")
    tl.store(out + part.to(tl.int64) * m + number, tl.sum(total, axis=0), mask=part < k)
    tl.store(logs + number, tl.sum(loss, axis=0))
    row_at, column_at = part[:, None], part[None, :]
    at = (row_at * (row_at + 1) // 2 + column_at).to(tl.int64) * m + number
    tl.store(Q + at, curve, mask=(row_at < k) & (column_at <= row_at))


def ratio_rows(entries: Entries, H: Any, V: Any, floor: tuple[float, float]) -> Any:
    """Return R V."""
    numbers = torch.arange(H.shape[0], device=H.device)
    return _over(entries, entries.ends, numbers, H, V, floor, with_loss=False)[0]


def ratio_sums(columns: Entries, H: Any, V: Any, floor: tuple[float, float]) -> tuple[Any, Any]:
    """Return R'H and the divergence, in float64, from entries by columns."""
    assert columns.pieces is not None
    sums, losses = _over(columns, columns.pieces[0], columns.pieces[2], V, H, floor, with_loss=True)
    modelled = torch.sum(H, 0, dtype=torch.float64) @ torch.sum(V, 0, dtype=torch.float64)
    return whole_runs(sums, columns), torch.sum(losses, dtype=torch.float64) + modelled


def _over(
    entries: Entries, ends: Any, which: Any, own: Any, B: Any, floor: tuple, *, with_loss: bool
) -> tuple[Any, Any]:
    """Return the sums of ratios times rows of B over runs, each with a row of ``own``, and x log r - x."""
    m, k = ends.shape[0] - 1, B.shape[1]
    B, own, sizes = aligned(B), aligned(own), tiles(k, triton.next_power_of_2(k))
    out = torch.empty((m, k), dtype=B.dtype, device=B.device)
    losses = torch.empty(m, dtype=B.dtype, device=B.device)
    _ratios[(triton.cdiv(m, sizes["ROWS"]),)](
        entries.values, entries.index, ends, which, own, B, bounds_of(floor, B.dtype, B.device), out, losses,
        m, k, LOSS=with_loss, STRIDE=B.shape[1], **sizes,
    )  # fmt: skip
    return out, losses


@cache
def bounds_of(floor: tuple[float, float], dtype: Any, device: Any) -> Any:
    """Return the two parts of the floor of P on the device: in float64 they are too small for a loop's argument."""
    return torch.tensor(floor, dtype=dtype, device=device)


def newton_system(entries: Entries, index: Any, H: Any, V: Any, bounds: Any) -> tuple[Any, Any, Any]:
    """Return R V (k, m), sums of x log r (m,) up to a constant of each row, and V' diag(R / P) V for some rows of X.

    ``index`` says which rows those are, None all; H (k, n) is that of all rows, V is aligned. The matrices (k (k + 1)
    / 2, m) are lower triangles, a row after the other. ``bounds`` are the two parts of the floor of P.
    """
    k, n = H.shape
    m = n if index is None else index.shape[0]
    out = torch.empty((k, m), dtype=H.dtype, device=H.device)
    logs = torch.empty(m, dtype=H.dtype, device=H.device)
    Q = torch.empty((k * (k + 1) // 2, m), dtype=H.dtype, device=H.device)
    _newton_system[(m,)](
        entries.values, entries.index, entries.ends, H if index is None else index, H, V, bounds, out, logs, Q,
        m, n, V.shape[0], k, INDEXED=index is not None, STRIDE=V.shape[1], ENTRIES=_SYSTEM_ENTRIES,
        K=max(16, triton.next_power_of_2(k)), num_warps=1,
    )  # fmt: skip
    return out, logs, Q
