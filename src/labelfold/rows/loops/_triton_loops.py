"""Compiled for a GPU: products of rows with narrow matrices, which read X once and at the speed of a copy.

Triton compiles them when they are first used. They take float32 tensors; array functions elsewhere take all.

===============  ==================================================================================
``product``      X M (m, k) for a narrow M, and whether entries of X are negative
``transposed``   X'H (d, k) for a narrow H, in float64
``column_sums``  the sum of the rows, in float64
``normal``       X'H and H'H of H = X M, for few columns: X is read once
===============  ==================================================================================

A centre, in two parts, is subtracted from the rows as they are read.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

# Rows and columns of a tile, and the rows whose sums are kept in float32 before they are added up in float64.
ROWS, COLUMNS, RUN = 64, 64, 1024
_NARROW = 32
# Sums of the matrix units over so few rows are as good as rounded to nearest; and the columns of a tile of sums.
_SUM_ROWS, _SUM_COLUMNS = 16, 128
# A tile of few columns takes one warp, which waits for no other.
_NORMAL, _ONE_WARP = {"ROWS": 32, "num_warps": 1}, 32
_WARPS, _STAGES = 4, 3
# A loop is compiled for rows of a length that this many numbers divide, or half as many, or one: it then knows how
# many it may read at once.
_UNIT = tl.constexpr(4)

# One compiled loop serves all lengths of rows that have the same unit.
any_length = triton.jit(do_not_specialize=["d", "stride"])


@triton.jit
def tile(X, row, column, n, d, stride):
    """Return some rows and columns, with 0 outside."""
    inside = (row < n)[:, None] & (column < d)[None, :]
    return tl.load(X + row[:, None] * stride + column[None, :], mask=inside, other=0.0)


@triton.jit
def turned_tile(X, row, column, n, d, stride):
    """Return the same, transposed."""
    inside = (column < d)[:, None] & (row < n)[None, :]
    return tl.load(X + row[None, :] * stride + column[:, None], mask=inside, other=0.0)


@triton.jit
def two_parts(high, low, at, used):
    """Return a matrix in two parts, with 0 outside."""
    return tl.load(high + at, mask=used, other=0.0), tl.load(low + at, mask=used, other=0.0)


@triton.jit
def padded(d):
    """Return the length of the rows of `parts`, which several numbers at once are read of."""
    return tl.cdiv(d, _UNIT) * _UNIT


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


@any_length
def _product(
    X, high, low, center, rest, out, signs, n, k, d, stride,
    SHIFTED: tl.constexpr, SIGNS: tl.constexpr, BY_COMPONENT: tl.constexpr,
    UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = d * UNIT, stride * UNIT
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    total = tl.zeros((ROWS, K), tl.float32)
    below = tl.zeros((ROWS, K), tl.float32)
    for first in range(0, d, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        x = tile(X, row, column, n, d, stride)
        if SHIFTED:
            x -= tl.load(center + column, mask=column < d, other=0.0)[None, :]
            x -= tl.load(rest + column, mask=column < d, other=0.0)[None, :]
        if SIGNS:
            # By the matrix units, whose operand x is anyway.
            below = tl.dot(
                tl.minimum(x, 0.0), tl.full((COLUMNS, K), 1.0, tl.float32), below, input_precision="tf32"
            )
        m, rounded_off = two_parts(
            high, low, part[None, :] * padded(d) + column[:, None], (column < padded(d))[:, None]
        )  # fmt: skip
        total += parted_dot(x, m, rounded_off)
    known = (row < n)[:, None] & (part < k)[None, :]
    at = row[:, None] * k + part[None, :]
    if BY_COMPONENT:
        at = part[None, :].to(tl.int64) * n + row[:, None]
    tl.store(out + at, total, mask=known)
    if SIGNS:
        tl.store(signs + tl.program_id(0), tl.min(tl.min(below, axis=1), axis=0))


@any_length
def _transposed(
    X, H, center, rest, sums, n, k, d, stride, run,
    SHIFTED: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = d * UNIT, stride * UNIT
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    if SHIFTED:
        middle = tl.load(center + column, mask=column < d, other=0.0)[:, None]
        remainder = tl.load(rest + column, mask=column < d, other=0.0)[:, None]
    total = tl.zeros((COLUMNS, K), tl.float32)
    begin = tl.program_id(0).to(tl.int64) * run
    for first in range(0, run, ROWS):
        row = begin + first + tl.arange(0, ROWS)
        x = turned_tile(X, row, column, n, d, stride)
        if SHIFTED:
            x = (x - middle) - remainder
        known = (row < n)[:, None] & (part < k)[None, :]
        total += dot(x, tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0))
    at = tl.program_id(0).to(tl.int64) * d + column
    tl.store(sums + at[:, None] * k + part[None, :], total, mask=(column < d)[:, None] & (part < k)[None, :])


@any_length
def _normal(
    X, high, low, center, rest, weights, sums, squares, n, k, d, stride, run,
    SHIFTED: tl.constexpr, WEIGHTED: tl.constexpr,
    UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = d * UNIT, stride * UNIT
    column = tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    wide = padded(d)
    m, rounded_off = two_parts(high, low, part[:, None] * wide + column[None, :], (column < wide)[None, :])
    if SHIFTED:
        middle = tl.load(center + column, mask=column < d, other=0.0)[:, None]
        remainder = tl.load(rest + column, mask=column < d, other=0.0)[:, None]
    total = tl.zeros((COLUMNS, K), tl.float32)
    square = tl.zeros((K, K), tl.float32)
    program = tl.program_id(0).to(tl.int64)
    for first in range(0, run, ROWS):
        row = program * run + first + tl.arange(0, ROWS)
        x = turned_tile(X, row, column, n, d, stride)
        if SHIFTED:
            x = (x - middle) - remainder
        own = short(x)
        h = tl.dot(rounded_off, own, input_precision="tf32")
        h = tl.dot(m, x - own, h, input_precision="tf32")
        h = tl.dot(m, own, h, input_precision="tf32")
        h = tl.where((row < n)[None, :], h, 0.0)
        if WEIGHTED:
            h *= tl.load(weights + row, mask=row < n, other=0.0)[None, :]
        total += dot(x, tl.trans(h))
        square += dot(h, tl.trans(h))
    at = (program * d + column)[:, None] * k + part[None, :]
    tl.store(sums + at, total, mask=(column < d)[:, None] & (part < k)[None, :])
    at = (program * k + part)[:, None] * k + part[None, :]
    tl.store(squares + at, square, mask=(part < k)[:, None] & (part < k)[None, :])


@any_length
def _column_sums(
    X, center, rest, sums, n, d, stride, run,
    SHIFTED: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    d, stride = d * UNIT, stride * UNIT
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    program = tl.program_id(0).to(tl.int64)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    if SHIFTED:
        middle = tl.load(center + column, mask=column < d, other=0.0)[None, :]
        remainder = tl.load(rest + column, mask=column < d, other=0.0)[None, :]
    for first in range(0, run, ROWS):
        row = program * run + first + tl.arange(0, ROWS)
        x = tile(X, row, column, n, d, stride)
        if SHIFTED:
            x = tl.where((row < n)[:, None], (x - middle) - remainder, 0.0)
        total += x
    tl.store(sums + program * d + column, tl.sum(total, axis=0), mask=column < d)


def takes(k: int) -> bool:
    """Return whether products with k columns are narrow, so that the loops are quicker than the library's product."""
    return 2 <= k <= _NARROW


def reads_once(d: int, k: int) -> bool:
    """Return whether a tile holds all d columns, so that `normal` takes them."""
    return d <= _SUM_COLUMNS and takes(k)


def product(
    X: Any, M: Any, center: Any = None, *, with_signs: bool = False, by_component: bool = False
) -> tuple[Any, Any]:
    """Return (X - center) M, and on request numbers, some below 0 if X - center has negative entries.

    ``center`` is a pair of vectors whose sum is subtracted. ``by_component`` stores the product by columns.
    """
    n, k = X.shape[0], M.shape[1]
    sizes, (lengths, unit) = tiles(k), in_units(X)
    out = torch.empty((k, n) if by_component else (n, k), dtype=X.dtype, device=X.device)
    signs = torch.empty(triton.cdiv(n, ROWS), dtype=X.dtype, device=X.device) if with_signs else None
    _product[(triton.cdiv(n, ROWS),)](
        X, *parts(M.T, sizes["K"]), *_pair(center, X), out, out if signs is None else signs, n, k, *lengths,
        SHIFTED=center is not None, SIGNS=with_signs, BY_COMPONENT=by_component, UNIT=unit, **sizes,
    )  # fmt: skip
    return out.T if by_component else out, signs


def transposed(X: Any, H: Any, center: Any = None) -> Any:
    """Return (X - center)'H in float64: sums over short runs of rows are in float32."""
    (n, d), k, (lengths, unit) = X.shape, H.shape[1], in_units(X)
    n_runs, sizes = triton.cdiv(n, RUN), _sum_tiles(d, k)
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    _transposed[(n_runs, triton.cdiv(d, sizes["COLUMNS"]))](
        X,
        H.contiguous(),
        *_pair(center, X),
        sums,
        n,
        k,
        *lengths,
        RUN,
        SHIFTED=center is not None,
        UNIT=unit,
        **sizes,
    )
    return torch.sum(sums, 0, dtype=torch.float64)


def normal(X: Any, M: Any, center: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """Return X'H and H'H of H = diag(weights) X M in float64, where X is less a centre; H is not stored."""
    (n, d), k, (lengths, unit) = X.shape, M.shape[1], in_units(X)
    n_runs, sizes = triton.cdiv(n, RUN), _sum_tiles(d, k)
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    squares = torch.empty((n_runs, k, k), dtype=X.dtype, device=X.device)
    sizes |= _NORMAL
    _normal[(n_runs,)](
        X, *parts(M.T, sizes["K"]), *_pair(center, X), X if weights is None else weights.contiguous(),
        sums, squares, n, k, *lengths, RUN,
        SHIFTED=center is not None, WEIGHTED=weights is not None, UNIT=unit, **sizes,
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64), torch.sum(squares, 0, dtype=torch.float64)


def column_sums(X: Any, center: Any = None) -> Any:
    """Return the sum of the rows of X - center in float64."""
    (n, d), n_runs, (lengths, unit) = X.shape, triton.cdiv(X.shape[0], RUN), in_units(X)
    sums = torch.empty((n_runs, d), dtype=X.dtype, device=X.device)
    _column_sums[(n_runs, triton.cdiv(d, COLUMNS))](
        X, *_pair(center, X), sums, n, *lengths, RUN,
        SHIFTED=center is not None, UNIT=unit, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=_WARPS, num_stages=_STAGES,
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64)


def _pair(center: Any, X: Any) -> tuple[Any, Any]:
    """Return the two parts of a centre, or anything where there is none."""
    return (X, X) if center is None else (center[0].contiguous(), center[1].contiguous())


def parts(A: Any, size: int) -> tuple[Any, Any]:
    """Return two tensors whose sum is A, with rows of 0 up to ``size``; of the first the matrix units keep all.

    Rows end with zeros too, so that each begins where several numbers can be read at once.
    """
    A = torch.nn.functional.pad(A, (0, -A.shape[1] % _UNIT.value, 0, size - A.shape[0])).contiguous()
    high = (((A.view(torch.int32) + 4096) >> 13) << 13).view(torch.float32)
    return high, A - high


def in_units(X: Any) -> tuple[tuple[int, int], int]:
    """Return the length and the distance of the rows of X, as the loops take them: divided by their unit."""
    unit = math.gcd(X.shape[1], X.stride(0), _UNIT.value)
    return (X.shape[1] // unit, X.stride(0) // unit), unit


def tiles(k: int) -> dict[str, Any]:
    """Return what a loop over tiles is compiled for, where the narrow side has k columns: 16 at least."""
    sizes = {"ROWS": ROWS, "COLUMNS": COLUMNS, "K": max(16, triton.next_power_of_2(k))}
    return {**sizes, "num_warps": _WARPS, "num_stages": _STAGES}


def _sum_tiles(d: int, k: int) -> dict[str, Any]:
    """Return the same for loops that sum over rows, of which few are in a tile."""
    columns = min(_SUM_COLUMNS, max(16, triton.next_power_of_2(d)))
    sizes = {**tiles(k), "ROWS": _SUM_ROWS, "COLUMNS": columns}
    return sizes | {"num_warps": 1} if columns <= _ONE_WARP else sizes
