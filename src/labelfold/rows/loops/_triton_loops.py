"""Compiled for a GPU: products of rows with narrow matrices, which read X once and at the speed of a copy.

Triton compiles them when they are first used. They take float32 tensors; array functions elsewhere take all.

===============  ==================================================================================
``product``      (X - center) M (m, k) for a narrow M, and the smallest entry of each row, or 0
``transposed``   X'H (d, k) for a narrow H, in float64
===============  ==================================================================================
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Rows and columns of a tile, and the rows whose sums are kept in float32 before they are added up in float64.
ROWS, COLUMNS, RUN = 64, 64, 1024
_NARROW = 32
# Sums of the matrix units over so few rows are as good as rounded to nearest.
_TRANSPOSED = {"ROWS": 16, "COLUMNS": 128}
_WARPS, _STAGES = 4, 3


@triton.jit
def short(a):
    """Return numbers rounded to the digits that the matrix units keep."""
    return (((a.to(tl.int32, bitcast=True) + 4096) >> 13) << 13).to(tl.float32, bitcast=True)


@triton.jit
def dot(a, b):
    """Return a b: each number in two parts, of which the units lose nothing that matters.

    The units' own sums are not rounded to nearest: they should be short, and their results added up.
    """
    other = short(b)
    return parted_dot(a, other, b - other)


@triton.jit
def parted_dot(a, high, low):
    """Return a (high + low), where ``high`` has no more digits than the matrix units keep."""
    own = short(a)
    total = tl.dot(a - own, high, input_precision="tf32")
    total = tl.dot(own, low, total, input_precision="tf32")
    return tl.dot(own, high, total, input_precision="tf32")


@triton.jit
def _product(
    X, high, low, center, out, least, n, d, k, stride,
    SHIFTED: tl.constexpr, LEAST: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    total = tl.zeros((ROWS, K), tl.float32)
    smallest = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, d, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = (row < n)[:, None] & (column < d)[None, :]
        x = tl.load(X + row[:, None] * stride + column[None, :], mask=inside, other=0.0)
        if SHIFTED:
            x -= tl.load(center + column, mask=column < d, other=0.0)[None, :]
        if LEAST:
            smallest = tl.minimum(smallest, x)
        at = part[None, :] * d + column[:, None]
        used = (column < d)[:, None]
        total += parted_dot(
            x, tl.load(high + at, mask=used, other=0.0), tl.load(low + at, mask=used, other=0.0)
        )
    known = (row < n)[:, None] & (part < k)[None, :]
    tl.store(out + row[:, None] * k + part[None, :], total, mask=known)
    if LEAST:
        tl.store(least + row, tl.min(smallest, axis=1), mask=row < n)


@triton.jit
def _transposed(
    X, H, sums, n, d, k, stride, run,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    total = tl.zeros((COLUMNS, K), tl.float32)
    begin = tl.program_id(0).to(tl.int64) * run
    for first in range(0, run, ROWS):
        row = begin + first + tl.arange(0, ROWS)
        inside = (column < d)[:, None] & (row < n)[None, :]
        x = tl.load(X + row[None, :] * stride + column[:, None], mask=inside, other=0.0)
        known = (row < n)[:, None] & (part < k)[None, :]
        h = tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0)
        total += dot(x, h)
    at = tl.program_id(0).to(tl.int64) * d + column
    tl.store(sums + at[:, None] * k + part[None, :], total, mask=(column < d)[:, None] & (part < k)[None, :])


def takes(k: int) -> bool:
    """Return whether products with k columns are narrow, so that the loops are quicker than the library's product."""
    return 2 <= k <= _NARROW


def product(X: Any, M: Any, center: Any = None, *, with_least: bool = False) -> tuple[Any, Any]:
    """Return (X - center) M, and the smallest entry of each row of X - center, or 0, if asked for, otherwise None."""
    (n, d), k = X.shape, M.shape[1]
    sizes = tiles(k)
    out = torch.empty((n, k), dtype=X.dtype, device=X.device)
    least = torch.empty((n,), dtype=X.dtype, device=X.device) if with_least else None
    shift = out if center is None else center.contiguous()
    _product[(triton.cdiv(n, ROWS),)](
        X, *parts(M.T, sizes["K"]), shift, out, out if least is None else least, n, d, k, X.stride(0),
        SHIFTED=center is not None, LEAST=with_least, **sizes,
    )  # fmt: skip
    return out, least


def transposed(X: Any, H: Any) -> Any:
    """Return X'H in float64: sums over short runs of rows are in float32."""
    (n, d), k = X.shape, H.shape[1]
    n_runs = triton.cdiv(n, RUN)
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    sizes = {**tiles(k), **_TRANSPOSED}
    _transposed[(n_runs, triton.cdiv(d, sizes["COLUMNS"]))](
        X, H.contiguous(), sums, n, d, k, X.stride(0), RUN, **sizes
    )
    return torch.sum(sums, 0, dtype=torch.float64)


def parts(A: Any, size: int) -> tuple[Any, Any]:
    """Return two tensors whose sum is A, with rows of 0 up to ``size``; of the first the matrix units keep all."""
    A = torch.nn.functional.pad(A, (0, 0, 0, size - A.shape[0])).contiguous()
    high = (((A.view(torch.int32) + 4096) >> 13) << 13).view(torch.float32)
    return high, A - high


def tiles(k: int) -> dict[str, Any]:
    """Return what a loop over tiles is compiled for, where the narrow side has k columns: 16 at least."""
    sizes = {"ROWS": ROWS, "COLUMNS": COLUMNS, "K": max(16, triton.next_power_of_2(k))}
    return {**sizes, "num_warps": _WARPS, "num_stages": _STAGES}
