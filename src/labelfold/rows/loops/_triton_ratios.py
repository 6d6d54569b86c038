"""Compiled for a GPU: products of the ratios R = X / P of dense rows, where P = H V' is held above a floor.

Of all n x d arrays only X itself is read, and none is written. Triton compiles the loops when they are first used;
they take float32 tensors.

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

from labelfold.rows.loops._triton_loops import (
    COLUMNS,
    ROWS,
    any_length,
    dot_of_parts,
    first_row,
    in_numbers,
    is_column,
    layout_of,
    load_parts,
    misalignment,
    rounded_up,
    tf32_parts,
    tile,
    tile_sizes,
    to_tf32,
    transposed_tile,
)

# Rows whose sums are kept in float32 before they are added up in float64.
_RUN = 4096


@triton.jit
def _log(r):
    """Return the logarithm by the device's own instruction, whose error is below the rounding of the terms summed."""
    return 0.6931471805599453 * tl.inline_asm_elementwise(
        "lg2.approx.f32 $0, $1;", "=f,f", [r], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _inverse(p):
    """Return 1 / p by the device's own instruction, to one unit in the last place."""
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [p], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _model_tile(h, high, low, part, column, shift, d, K: tl.constexpr):
    """Return H V' at some positions; V is stored by columns, in two parts."""
    at = part[:, None] + (column - shift)[None, :] * K
    v, rounded_off = load_parts(high, low, at, is_column(column, shift, d)[None, :])
    return dot_of_parts(h, v, rounded_off)


@triton.jit
def _load_basis(high, low, part, column, shift, wide, K: tl.constexpr):
    """Return V (positions, K) at some positions, in two parts, for a product with ratios."""
    at = (shift * K + part)[None, :] * wide + column[:, None]
    return load_parts(high, low, at, (column < wide)[:, None])


@any_length
def _ratio_rows(
    X, H, high_t, low_t, high, low, out, n, k, d, stride, offset, share, least,
    STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = in_numbers(d, stride, STEP)
    begin = first_row(tl.program_id(0), ROWS, STEP)
    row = begin + STEP * tl.arange(0, ROWS)
    shift, wide = misalignment(begin, stride, offset, STEP), rounded_up(d + STEP - 1)
    part = tl.arange(0, K)
    known = (row < n)[:, None] & (part < k)[None, :]
    at = row[:, None] * k + part[None, :]
    h = tl.load(H + at, mask=known, other=0.0)
    total = tl.zeros((ROWS, K), tl.float32)
    for first in range(0, d + shift, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        x = tile(X, row, column, n, d, stride, shift, STEP)
        p = _model_tile(h, high, low, part, column, shift, d, K)
        r = x * _inverse(tl.maximum(tl.maximum(p, x * share), least))
        v, rounded_off = _load_basis(high_t, low_t, part, column, shift, wide, K)
        total += dot_of_parts(r, v, rounded_off)
    tl.store(out + at, total, mask=known)


@any_length
def _ratio_sums(
    X, H, V, sums, losses, n, k, d, stride, offset, share, least, run,
    STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = in_numbers(d, stride, STEP)
    begin = first_row(tl.program_id(0), run, STEP)
    shift = misalignment(begin, stride, offset, STEP)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    own = is_column(column, shift, d)
    used = own[:, None] & (part < k)[None, :]
    v = tl.load(V + (column - shift)[:, None] * k + part[None, :], mask=used, other=0.0)
    total = tl.zeros((COLUMNS, K), tl.float32)
    loss = tl.zeros((COLUMNS, ROWS), tl.float32)
    for first in range(0, run, ROWS):
        row = begin + STEP * (first + tl.arange(0, ROWS))
        # Tiles are transposed, so that R'H needs no transpose of the ratios.
        x = transposed_tile(X, row, column, n, d, stride, shift, STEP)
        known = (row < n)[:, None] & (part < k)[None, :]
        h = tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0)
        high = to_tf32(h)
        p = dot_of_parts(v, tl.trans(high), tl.trans(h - high))
        p = tl.maximum(tl.maximum(p, x * share), least)
        r = x * _inverse(p)
        total += dot_of_parts(r, high, h - high)
        loss += tl.where(x > 0, x * _log(r), 0.0) + (p - x)
    at = tl.program_id(0).to(tl.int64) * d + column - shift
    tl.store(sums + at[:, None] * k + part[None, :], total, mask=used)
    tl.store(losses + at, tl.sum(loss, axis=1), mask=own)


def ratio_rows(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> Any:
    """Return R V."""
    n, k, layout = X.shape[0], V.shape[1], layout_of(X)
    H, sizes = H.contiguous(), tile_sizes(k)
    out = torch.empty_like(H)
    _ratio_rows[(layout.programs(n, ROWS),)](
        X, H, *tf32_parts(V.T, sizes["K"], layout.step, turned=True), out, n, k, *layout.sizes, *floor,
        STEP=layout.step, **sizes,
    )  # fmt: skip
    return out


def ratio_sums(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> tuple[Any, Any]:
    """Return R'H and the divergence, in float64."""
    (n, d), k, layout = X.shape, V.shape[1], layout_of(X)
    n_runs = layout.programs(n, _RUN)
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    losses = torch.empty((n_runs, d), dtype=X.dtype, device=X.device)
    _ratio_sums[(n_runs, triton.cdiv(layout.positions(d), COLUMNS))](
        X, H.contiguous(), V.contiguous(), sums, losses, n, k, *layout.sizes, *floor, _RUN,
        STEP=layout.step, **tile_sizes(k),
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64), torch.sum(losses, dtype=torch.float64)
