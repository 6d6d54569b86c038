"""Loops compiled for a GPU: the I-divergence of dense rows. X is the only n x d array that is read or written.

P = H V', with a lower bound for each entry, and R = X / P. Triton compiles the loops when they are first used. They
take float32 tensors.

===================  ===============================================================================
``ratio_rows``       R V (m, k)
``ratio_sums``       R'H (d, k), and the I-divergence
===================  ===============================================================================
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

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

# Number of rows whose sums are in float32; the sums of these groups are added up in float64.
_RUN = 4096


@triton.jit
def _log(r):
    """Return the logarithm by an instruction of the device. Its error is below the round-off of the sum of terms."""
    return 0.6931471805599453 * tl.inline_asm_elementwise(
        "lg2.approx.f32 $0, $1;", "=f,f", [r], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _inverse(p):
    """Return 1 / p by an instruction of the device. Its error is at most one unit in the last place."""
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [p], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _modelled(h, high, low, part, column, shift, d, K: tl.constexpr):
    """Return H V' at some positions, from the two parts of V in the memory order in which the product reads them."""
    at = part[:, None] + (column - shift)[None, :] * K
    v, rounded_off = two_parts(high, low, at, of_row(column, shift, d)[None, :])
    return parted_dot(h, v, rounded_off)


@triton.jit
def _downward(high, low, part, column, shift, wide, K: tl.constexpr):
    """Return the two parts of V at some positions, in the memory order in which products with ratios read them."""
    at = (shift * K + part)[None, :] * wide + column[:, None]
    return two_parts(high, low, at, (column < wide)[:, None])


@any_length
def _ratio_rows(
    X, H, high_t, low_t, high, low, out, n, k, d, stride, offset, share, least,
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
    total = tl.zeros((ROWS, K), tl.float32)
    for first in range(0, d + shift, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        x = tile(X, row, column, n, d, stride, shift, STEP)
        p = _modelled(h, high, low, part, column, shift, d, K)
        r = x * _inverse(tl.maximum(tl.maximum(p, x * share), least))
        v, rounded_off = _downward(high_t, low_t, part, column, shift, wide, K)
        total += parted_dot(r, v, rounded_off)
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
        # The tile is transposed, so that the product takes the ratios as they are, without another transpose.
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


def ratio_rows(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> Any:
    """Return R V."""
    n, k, lie = X.shape[0], V.shape[1], lie_of(X)
    H, sizes = H.contiguous(), tiles(k)
    out = torch.empty_like(H)
    _ratio_rows[(lie.programs(n, ROWS),)](
        X, H, *parts(V.T, sizes["K"], lie.step, turned=True), out, n, k, *lie.lengths, *floor, STEP=lie.step,
        **sizes,
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
