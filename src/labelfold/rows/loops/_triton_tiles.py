"""Compiled for a GPU: tiles of the rows of a tensor, and the narrow matrices they are multiplied by.

A device reads fastest in pieces of four numbers that begin at a multiple of 16 bytes. If the rows of a tensor begin
there, a tile holds successive rows. Otherwise it holds every fourth row: these all begin equally far after such a
place, and the tile begins there, before their first column. This distance is the *shift* of the tile: it holds column
j of the tensor at position j + shift. Narrow matrices are stored once for each shift.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

# Numbers that are read at once, and their bytes.
_UNIT, _BYTES = tl.constexpr(4), tl.constexpr(16)
# Columns of a narrow matrix that a program splits into two parts.
_SPLIT = 1024

# One compiled loop serves all lengths of rows.
any_length = triton.jit(do_not_specialize=["d", "stride", "offset"])


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
