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

from typing import Any, NamedTuple

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
# Numbers that are read at once, and their bytes.
_UNIT, _BYTES = tl.constexpr(4), tl.constexpr(16)
# Columns of a narrow matrix that a program splits into two parts.
_SPLIT = 1024
# One compiled loop serves all lengths of rows.
any_length = triton.jit(do_not_specialize=["d", "stride", "offset"])


@any_length
def _product(
    X, high, low, center, rest, out, signs, n, k, d, stride, offset,
    CENTERED: tl.constexpr, SIGNS: tl.constexpr, BY_COMPONENT: tl.constexpr,
    STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = lengths(d, stride, STEP)
    begin = first_row(tl.program_id(0), ROWS, STEP)
    row = begin + STEP * tl.arange(0, ROWS)
    shift, wide = shift_of(begin, stride, offset, STEP), padded(d + STEP - 1)
    part = tl.arange(0, K)
    total = tl.zeros((ROWS, K), tl.float32)
    below = tl.zeros((ROWS, K), tl.float32)
    for first in range(0, d + shift, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        x = tile(X, row, column, n, d, stride, shift, STEP)
        if CENTERED:
            middle, remainder = centre(center, rest, column, shift, d)
            x = (x - middle[None, :]) - remainder[None, :]
        if SIGNS:
            # By the matrix units, whose operand x is anyway.
            below = tl.dot(
                tl.minimum(x, 0.0), tl.full((COLUMNS, K), 1.0, tl.float32), below, input_precision="tf32"
            )
        at = (shift * K + part)[None, :] * wide + column[:, None]
        m, rounded_off = two_parts(high, low, at, (column < wide)[:, None])
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
    X, H, center, rest, sums, n, k, d, stride, offset, run,
    CENTERED: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = lengths(d, stride, STEP)
    begin = first_row(tl.program_id(0), run, STEP)
    shift = shift_of(begin, stride, offset, STEP)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    if CENTERED:
        middle, remainder = centre(center, rest, column, shift, d)
    total = tl.zeros((COLUMNS, K), tl.float32)
    for first in range(0, run, ROWS):
        row = begin + STEP * (first + tl.arange(0, ROWS))
        x = turned_tile(X, row, column, n, d, stride, shift, STEP)
        if CENTERED:
            x = (x - middle[:, None]) - remainder[:, None]
        known = (row < n)[:, None] & (part < k)[None, :]
        total += dot(x, tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0))
    at = tl.program_id(0).to(tl.int64) * d + column - shift
    used = of_row(column, shift, d)[:, None] & (part < k)[None, :]
    tl.store(sums + at[:, None] * k + part[None, :], total, mask=used)


@any_length
def _normal(
    X, high, low, center, rest, weights, sums, squares, n, k, d, stride, offset, run,
    CENTERED: tl.constexpr, WEIGHTED: tl.constexpr,
    STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = lengths(d, stride, STEP)
    begin = first_row(tl.program_id(0), run, STEP)
    shift, wide = shift_of(begin, stride, offset, STEP), padded(d + STEP - 1)
    column = tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    at = (shift * K + part)[:, None] * wide + column[None, :]
    m, rounded_off = two_parts(high, low, at, (column < wide)[None, :])
    if CENTERED:
        middle, remainder = centre(center, rest, column, shift, d)
    total = tl.zeros((COLUMNS, K), tl.float32)
    square = tl.zeros((K, K), tl.float32)
    for first in range(0, run, ROWS):
        row = begin + STEP * (first + tl.arange(0, ROWS))
        x = turned_tile(X, row, column, n, d, stride, shift, STEP)
        if CENTERED:
            x = (x - middle[:, None]) - remainder[:, None]
        own = short(x)
        h = tl.dot(rounded_off, own, input_precision="tf32")
        h = tl.dot(m, x - own, h, input_precision="tf32")
        h = tl.dot(m, own, h, input_precision="tf32")
        h = tl.where((row < n)[None, :], h, 0.0)
        if WEIGHTED:
            h *= tl.load(weights + row, mask=row < n, other=0.0)[None, :]
        total += dot(x, tl.trans(h))
        square += dot(h, tl.trans(h))
    program = tl.program_id(0).to(tl.int64)
    at = (program * d + column - shift)[:, None] * k + part[None, :]
    tl.store(sums + at, total, mask=of_row(column, shift, d)[:, None] & (part < k)[None, :])
    at = (program * k + part)[:, None] * k + part[None, :]
    tl.store(squares + at, square, mask=(part < k)[:, None] & (part < k)[None, :])


@any_length
def _column_sums(
    X, center, rest, sums, n, d, stride, offset, run,
    CENTERED: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    d, stride = lengths(d, stride, STEP)
    begin = first_row(tl.program_id(0), run, STEP)
    shift = shift_of(begin, stride, offset, STEP)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    if CENTERED:
        middle, remainder = centre(center, rest, column, shift, d)
    for first in range(0, run, ROWS):
        row = begin + STEP * (first + tl.arange(0, ROWS))
        x = tile(X, row, column, n, d, stride, shift, STEP)
        if CENTERED:
            x = tl.where((row < n)[:, None], (x - middle[None, :]) - remainder[None, :], 0.0)
        total += x
    at = tl.program_id(0).to(tl.int64) * d + column - shift
    tl.store(sums + at, tl.sum(total, axis=0), mask=of_row(column, shift, d))


def takes(k: int) -> bool:
    """Return whether products with k columns are narrow, so that the loops are quicker than the library's product."""
    return 2 <= k <= _NARROW


def reads_once(X: Any, k: int) -> bool:
    """Return whether a tile holds all columns, so that `normal` takes them."""
    return lie_of(X).positions(X.shape[1]) <= _SUM_COLUMNS and takes(k)


def product(
    X: Any, M: Any, center: Any = None, *, with_signs: bool = False, by_component: bool = False
) -> tuple[Any, Any]:
    """Return (X - center) M, and on request numbers, some below 0 if X - center has negative entries.

    ``center`` is a pair of vectors whose sum is subtracted. ``by_component`` stores the product by columns.
    """
    n, k, lie = X.shape[0], M.shape[1], lie_of(X)
    sizes, n_programs = tiles(k), lie.programs(n, ROWS)
    out = torch.empty((k, n) if by_component else (n, k), dtype=X.dtype, device=X.device)
    signs = torch.empty(n_programs, dtype=X.dtype, device=X.device) if with_signs else None
    _product[(n_programs,)](
        X, *parts(M.T, sizes["K"], lie.step), *_pair(center, X), out, out if signs is None else signs,
        n, k, *lie.lengths,
        CENTERED=center is not None, SIGNS=with_signs, BY_COMPONENT=by_component, STEP=lie.step, **sizes,
    )  # fmt: skip
    return out.T if by_component else out, signs


def transposed(X: Any, H: Any, center: Any = None) -> Any:
    """Return (X - center)'H in float64: sums over short runs of rows are in float32."""
    (n, d), k, lie = X.shape, H.shape[1], lie_of(X)
    n_runs, sizes = lie.programs(n, RUN), _sum_tiles(lie.positions(d), k)
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    _transposed[(n_runs, triton.cdiv(lie.positions(d), sizes["COLUMNS"]))](
        X, H.contiguous(), *_pair(center, X), sums, n, k, *lie.lengths, RUN,
        CENTERED=center is not None, STEP=lie.step, **sizes,
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64)


def normal(X: Any, M: Any, center: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """Return X'H and H'H of H = diag(weights) X M in float64, where X is less a centre; H is not stored."""
    (n, d), k, lie = X.shape, M.shape[1], lie_of(X)
    n_runs, sizes = lie.programs(n, RUN), _sum_tiles(lie.positions(d), k) | _NORMAL
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    squares = torch.empty((n_runs, k, k), dtype=X.dtype, device=X.device)
    _normal[(n_runs,)](
        X, *parts(M.T, sizes["K"], lie.step), *_pair(center, X), X if weights is None else weights.contiguous(),
        sums, squares, n, k, *lie.lengths, RUN,
        CENTERED=center is not None, WEIGHTED=weights is not None, STEP=lie.step, **sizes,
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64), torch.sum(squares, 0, dtype=torch.float64)


def column_sums(X: Any, center: Any = None) -> Any:
    """Return the sum of the rows of X - center in float64."""
    (n, d), lie = X.shape, lie_of(X)
    n_runs = lie.programs(n, RUN)
    sums = torch.empty((n_runs, d), dtype=X.dtype, device=X.device)
    _column_sums[(n_runs, triton.cdiv(lie.positions(d), COLUMNS))](
        X, *_pair(center, X), sums, n, *lie.lengths, RUN, CENTERED=center is not None, STEP=lie.step,
        ROWS=ROWS, COLUMNS=COLUMNS, num_warps=_WARPS, num_stages=_STAGES,
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64)


def _pair(center: Any, X: Any) -> tuple[Any, Any]:
    """Return the two parts of a centre, or anything where there is none."""
    return (X, X) if center is None else (center[0].contiguous(), center[1].contiguous())


def tiles(k: int) -> dict[str, Any]:
    """Return what a loop over tiles is compiled for, where the narrow side has k columns: 16 at least."""
    sizes = {"ROWS": ROWS, "COLUMNS": COLUMNS, "K": max(16, triton.next_power_of_2(k))}
    return {**sizes, "num_warps": _WARPS, "num_stages": _STAGES}


def _sum_tiles(d: int, k: int) -> dict[str, Any]:
    """Return the same for loops that sum over rows, of which few are in a tile."""
    columns = min(_SUM_COLUMNS, max(16, triton.next_power_of_2(d)))
    sizes = {**tiles(k), "ROWS": _SUM_ROWS, "COLUMNS": columns}
    return sizes | {"num_warps": 1} if columns <= _ONE_WARP else sizes


@triton.jit
def lengths(d, stride, STEP: tl.constexpr):
    """Return the length and the distance of the rows; if tiles hold successive rows, they are given in units."""
    if STEP == 1:
        d, stride = d * _UNIT, stride * _UNIT
    return d, stride


@triton.jit
def first_row(program, size, STEP: tl.constexpr):
    """Return the first row of a program that takes so many rows, each ``STEP`` after the last."""
    program = program.to(tl.int64)
    return (program // STEP) * (size * STEP) + program % STEP


@triton.jit
def shift_of(first, stride, offset, STEP: tl.constexpr):
    """Return how far after a place where several numbers can be read at once a row begins."""
    return 0 if STEP == 1 else ((first * stride + offset) % _UNIT).to(tl.int32)


@triton.jit
def _starts(X, row, stride, shift, STEP: tl.constexpr):
    start = X + (row * stride - shift)
    if STEP > 1:
        start = tl.multiple_of(start, _BYTES)
    return start


@triton.jit
def of_row(column, shift, d):
    """Return whether positions of a tile are columns of the rows."""
    return (column >= shift) & (column < d + shift)


@triton.jit
def tile(X, row, column, n, d, stride, shift, STEP: tl.constexpr):
    """Return some rows, at some positions, with 0 outside."""
    inside = (row < n)[:, None] & (column < padded(d + shift))[None, :]
    x = tl.load(_starts(X, row, stride, shift, STEP)[:, None] + column[None, :], mask=inside, other=0.0)
    if STEP > 1:
        x = tl.where(of_row(column, shift, d)[None, :], x, 0.0)
    return x


@triton.jit
def turned_tile(X, row, column, n, d, stride, shift, STEP: tl.constexpr):
    """Return the same, transposed."""
    inside = (column < padded(d + shift))[:, None] & (row < n)[None, :]
    x = tl.load(_starts(X, row, stride, shift, STEP)[None, :] + column[:, None], mask=inside, other=0.0)
    if STEP > 1:
        x = tl.where(of_row(column, shift, d)[:, None], x, 0.0)
    return x


@triton.jit
def centre(center, rest, column, shift, d):
    """Return the two parts of a centre at some positions of a tile."""
    at, inside = column - shift, of_row(column, shift, d)
    return tl.load(center + at, mask=inside, other=0.0), tl.load(rest + at, mask=inside, other=0.0)


@triton.jit
def two_parts(high, low, at, used):
    """Return a matrix in two parts, with 0 outside."""
    return tl.load(high + at, mask=used, other=0.0), tl.load(low + at, mask=used, other=0.0)


@triton.jit
def padded(d):
    """Return the next length that several numbers at once can be read of."""
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


@triton.jit(do_not_specialize=["k", "d", "wide", "row_stride", "column_stride"])
def _parts(
    A, high, low, turned_high, turned_low, k, d, wide, row_stride, column_stride,
    SHIFTS: tl.constexpr, TURNED: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    part, n_parts = tl.program_id(1), tl.num_programs(1)
    for shift in tl.static_range(SHIFTS):
        inside = of_row(column, shift, d) & (part < k)
        a = tl.load(A + part * row_stride + (column - shift) * column_stride, mask=inside, other=0.0)
        most = short(a)
        at = (shift * n_parts + part) * wide + column
        tl.store(high + at, most, mask=column < wide)
        tl.store(low + at, a - most, mask=column < wide)
        if TURNED and shift == 0:
            tl.store(turned_high + column * n_parts + part, most, mask=column < d)
            tl.store(turned_low + column * n_parts + part, a - most, mask=column < d)


class Lie(NamedTuple):
    """How the rows of a tensor lie in memory, as the loops take it."""

    lengths: tuple[int, int, int]  # the length and the distance of rows, and how far X is after a unit
    step: int  # a tile holds every so many rows: 1, or 4

    def programs(self, n: int, rows: int) -> int:
        """Return the number of programs that take so many rows each."""
        return self.step * triton.cdiv(n, rows * self.step)

    def positions(self, d: int) -> int:
        """Return the positions that tiles of all columns have."""
        return d + self.step - 1


def lie_of(X: Any) -> Lie:
    """Return how the rows of a tensor lie in memory."""
    d, stride, unit = X.shape[1], X.stride(0), _UNIT.value
    offset = X.data_ptr() // X.element_size() % unit
    if offset or d % unit or stride % unit:
        return Lie((d, stride, offset), unit)
    return Lie((d // unit, stride // unit, 0), 1)


def parts(A: Any, size: int, step: int = 1, *, width: int = 0, turned: bool = False) -> tuple[Any, ...]:
    """Return two tensors whose sum is A (k, d), with rows of 0 up to ``size``; the first in few digits.

    There is a copy for each shift of tiles that hold every so many rows. Rows end with zeros, so that they are at
    least ``width`` long, and each begins where several numbers can be read at once. The matrix units keep all digits
    of the first tensor. On request the transposes (d, size) of the two follow, without these zeros.
    """
    k, d = A.shape
    wide = max(width, triton.cdiv(d + step - 1, _UNIT.value) * _UNIT.value)
    high, low = torch.empty((2, step * size, wide), dtype=A.dtype, device=A.device)
    ways = tuple(torch.empty((2, d, size), dtype=A.dtype, device=A.device)) if turned else ()
    _parts[(triton.cdiv(wide, _SPLIT), size)](
        A, high, low, *(ways or (high, low)), k, d, wide, *A.stride(), SHIFTS=step, TURNED=turned, SIZE=_SPLIT
    )
    return high, low, *ways
