"""Compiled for a GPU: products of the ratios R = X / P of dense rows, where P = H V' is held above a floor.

Of all n x d arrays only X itself is read, and none is written; functions of the library write P and R, which takes
KLNMF 2 to 6 times as long (``benchmarks/gpu.py --plain``). Triton compiles the loops when
they are first used. They take float32 tensors.

===================  ===============================================================================
``ratio_rows``       R V (m, k)
``ratio_sums``       R'H (d, k), and the I-divergence
===================  ===============================================================================

The matrix units keep the digits of TF32. A number is therefore split into a part with these digits and the rest, and
a product of two numbers is the sum of three products of parts.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Budget: rows and columns of a tile, whose ratios take 16 kB in float32.
_ROWS = _COLUMNS = 64
# Precision: rows whose sums are kept in float32 before they are added up in float64. The round-off of a sum is about
# the square root of its length, here 64 units.
_RUN = 4096
# Numbers of float32 in 16 bytes, which a thread reads at once if all rows begin at a multiple of as many.
_UNIT = 4
# One compiled loop serves all lengths of rows. They are given in units, so that the compiler knows what divides them.
_any_length = triton.jit(do_not_specialize=["d", "stride"])


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
def _to_tf32(a):
    """Return float32 numbers, rounded to the digits of TF32."""
    return (((a.to(tl.int32, bitcast=True) + 4096) >> 13) << 13).to(tl.float32, bitcast=True)


@triton.jit
def _dot(a, high, low):
    """Return a (high + low) to the precision of float32, where ``high`` has the digits of TF32.

    The matrix units do not round their own sums to nearest. So these should be short, and be added up outside.
    """
    own = _to_tf32(a)
    total = tl.dot(a - own, high, input_precision="tf32")
    total = tl.dot(own, low, total, input_precision="tf32")
    return tl.dot(own, high, total, input_precision="tf32")


@triton.jit
def _load_parts(high, low, at, used):
    """Return a matrix in two parts, with 0 outside."""
    return tl.load(high + at, mask=used, other=0.0), tl.load(low + at, mask=used, other=0.0)


@_any_length
def _ratio_rows(
    X, H, high_t, low_t, high, low, out, n, k, d, stride, share, least,
    UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = d * UNIT, stride * UNIT
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    known = (row < n)[:, None] & (part < k)[None, :]
    at = row[:, None] * k + part[None, :]
    h = tl.load(H + at, mask=known, other=0.0)
    total = tl.zeros((ROWS, K), tl.float32)
    for first in range(0, d, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = (row < n)[:, None] & (column < d)[None, :]
        x = tl.load(X + row[:, None] * stride + column[None, :], mask=inside, other=0.0)
        v, rest = _load_parts(high, low, part[:, None] + column[None, :] * K, (column < d)[None, :])
        r = x * _inverse(tl.maximum(tl.maximum(_dot(h, v, rest), x * share), least))
        v, rest = _load_parts(high_t, low_t, part[None, :] * d + column[:, None], (column < d)[:, None])
        total += _dot(r, v, rest)
    tl.store(out + at, total, mask=known)


@_any_length
def _ratio_sums(
    X, H, V, sums, losses, n, k, d, stride, share, least, run,
    UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = d * UNIT, stride * UNIT
    begin = tl.program_id(0).to(tl.int64) * run
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    used = (column < d)[:, None] & (part < k)[None, :]
    v = tl.load(V + column[:, None] * k + part[None, :], mask=used, other=0.0)
    total = tl.zeros((COLUMNS, K), tl.float32)
    loss = tl.zeros((COLUMNS, ROWS), tl.float32)
    for first in range(0, run, ROWS):
        row = begin + first + tl.arange(0, ROWS)
        # Tiles are transposed, so that R'H needs no transpose of the ratios.
        inside = (column < d)[:, None] & (row < n)[None, :]
        x = tl.load(X + row[None, :] * stride + column[:, None], mask=inside, other=0.0)
        known = (row < n)[:, None] & (part < k)[None, :]
        h = tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0)
        high = _to_tf32(h)
        p = tl.maximum(tl.maximum(_dot(v, tl.trans(high), tl.trans(h - high)), x * share), least)
        r = x * _inverse(p)
        total += _dot(r, high, h - high)
        loss += tl.where(x > 0, x * _log(r), 0.0) + (p - x)
    at = tl.program_id(0).to(tl.int64) * d + column
    tl.store(sums + at[:, None] * k + part[None, :], total, mask=used)
    tl.store(losses + at, tl.sum(loss, axis=1), mask=column < d)


def ratio_rows(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> Any:
    """Return R V."""
    n, k, layout = X.shape[0], V.shape[1], _layout(X, V.shape[1])
    padded = torch.nn.functional.pad(V, (0, layout["K"] - k)).contiguous()
    out = torch.empty_like(H, memory_format=torch.contiguous_format)
    _ratio_rows[(triton.cdiv(n, _ROWS),)](
        X, H.contiguous(), *_parts(padded.T.contiguous()), *_parts(padded), out, n, k, share=floor[0], least=floor[1],
        **layout,
    )  # fmt: skip
    return out


def ratio_sums(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> tuple[Any, Any]:
    """Return R'H and the divergence, in float64."""
    (n, d), k = X.shape, V.shape[1]
    n_runs = triton.cdiv(n, _RUN)
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    losses = torch.empty((n_runs, d), dtype=X.dtype, device=X.device)
    _ratio_sums[(n_runs, triton.cdiv(d, _COLUMNS))](
        X, H.contiguous(), V.contiguous(), sums, losses, n, k, share=floor[0], least=floor[1], run=_RUN,
        **_layout(X, k),
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64), torch.sum(losses, dtype=torch.float64)


def _layout(X: Any, k: int) -> dict[str, Any]:
    """Return the length and the distance of rows in units, and the sizes of tiles for which a loop is compiled."""
    d, stride = X.shape[1], X.stride(0)
    unit = 1 if d % _UNIT or stride % _UNIT else _UNIT
    sizes = {"ROWS": _ROWS, "COLUMNS": _COLUMNS, "K": max(16, triton.next_power_of_2(k))}
    return {"d": d // unit, "stride": stride // unit, "UNIT": unit, **sizes}


def _parts(V: Any) -> tuple[Any, Any]:
    """Return the two parts of a matrix."""
    high = (((V.view(torch.int32) + 4096) >> 13) << 13).view(torch.float32)
    return high, V - high
