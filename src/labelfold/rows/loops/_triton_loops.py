"""Compiled for a GPU: products of dense rows with narrow matrices, which read X once and at the speed of a copy.

Triton compiles them when they are first used. They take float32 tensors; other arrays take functions of the library.

===============  ==================================================================================
``product``      X M (m, k) for a narrow M, and whether entries of X are negative
``transposed``   X'H (d, k) for a narrow H, in float64
``column_sums``  the sum of the rows, in float64
``normal``       X'H and H'H of H = X M, for few columns: X is read once
===============  ==================================================================================

A centre, in two parts, is subtracted from the rows as they are read.

Several numbers are read at once only from an aligned address. If each row begins at one, a tile holds successive
rows (``STEP`` 1). Otherwise it holds every fourth row (``STEP`` 4), so that all of its rows have the same
misalignment, and begins that many numbers before them. Products in float32 use the matrix units, which keep the
digits of TF32: each number is split into a part with these digits and the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from labelfold.rows.adapters._device_blocks import RUN

# Rows and columns of a tile.
ROWS = COLUMNS = 64
# Rows of a tile in a sum over rows. They are few, because the matrix units do not round their own sums to nearest.
# Then the maximum number of columns of such a tile.
_SUM_ROWS, _SUM_COLUMNS = 16, 128
# Threads of a warp. One warp computes a tile of at most this many columns, without synchronisation, and `normal`
# reads this many rows at a time. It is also the maximum width of a narrow matrix.
_WARP = 32
# Numbers that are read at once.
_UNIT = tl.constexpr(4)
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
    d, stride = in_numbers(d, stride, STEP)
    begin = first_row(tl.program_id(0), ROWS, STEP)
    row = begin + STEP * tl.arange(0, ROWS)
    shift, wide = misalignment(begin, stride, offset, STEP), rounded_up(d + STEP - 1)
    part = tl.arange(0, K)
    total = tl.zeros((ROWS, K), tl.float32)
    below = tl.zeros((ROWS, K), tl.float32)
    for first in range(0, d + shift, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        x = tile(X, row, column, n, d, stride, shift, STEP)
        if CENTERED:
            middle, remainder = load_centre(center, rest, column, shift, d)
            x = (x - middle[None, :]) - remainder[None, :]
        if SIGNS:
            # Sums of the negative entries of each row, as a product with ones: x is in the registers already.
            below = tl.dot(
                tl.minimum(x, 0.0), tl.full((COLUMNS, K), 1.0, tl.float32), below, input_precision="tf32"
            )
        at = (shift * K + part)[None, :] * wide + column[:, None]
        m, rounded_off = load_parts(high, low, at, (column < wide)[:, None])
        total += dot_of_parts(x, m, rounded_off)
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
    d, stride = in_numbers(d, stride, STEP)
    begin = first_row(tl.program_id(0), run, STEP)
    shift = misalignment(begin, stride, offset, STEP)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    if CENTERED:
        middle, remainder = load_centre(center, rest, column, shift, d)
    total = tl.zeros((COLUMNS, K), tl.float32)
    for first in range(0, run, ROWS):
        row = begin + STEP * (first + tl.arange(0, ROWS))
        x = transposed_tile(X, row, column, n, d, stride, shift, STEP)
        if CENTERED:
            x = (x - middle[:, None]) - remainder[:, None]
        known = (row < n)[:, None] & (part < k)[None, :]
        total += dot(x, tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0))
    at = tl.program_id(0).to(tl.int64) * d + column - shift
    used = is_column(column, shift, d)[:, None] & (part < k)[None, :]
    tl.store(sums + at[:, None] * k + part[None, :], total, mask=used)


@any_length
def _normal(
    X, high, low, center, rest, weights, sums, squares, n, k, d, stride, offset, run,
    CENTERED: tl.constexpr, WEIGHTED: tl.constexpr,
    STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    d, stride = in_numbers(d, stride, STEP)
    begin = first_row(tl.program_id(0), run, STEP)
    shift, wide = misalignment(begin, stride, offset, STEP), rounded_up(d + STEP - 1)
    column = tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    at = (shift * K + part)[:, None] * wide + column[None, :]
    m, rounded_off = load_parts(high, low, at, (column < wide)[None, :])
    if CENTERED:
        middle, remainder = load_centre(center, rest, column, shift, d)
    total = tl.zeros((COLUMNS, K), tl.float32)
    square = tl.zeros((K, K), tl.float32)
    for first in range(0, run, ROWS):
        row = begin + STEP * (first + tl.arange(0, ROWS))
        x = transposed_tile(X, row, column, n, d, stride, shift, STEP)
        if CENTERED:
            x = (x - middle[:, None]) - remainder[:, None]
        own = to_tf32(x)
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
    tl.store(sums + at, total, mask=is_column(column, shift, d)[:, None] & (part < k)[None, :])
    at = (program * k + part)[:, None] * k + part[None, :]
    tl.store(squares + at, square, mask=(part < k)[:, None] & (part < k)[None, :])


@any_length
def _column_sums(
    X, center, rest, sums, n, d, stride, offset, run,
    CENTERED: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    d, stride = in_numbers(d, stride, STEP)
    begin = first_row(tl.program_id(0), run, STEP)
    shift = misalignment(begin, stride, offset, STEP)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    if CENTERED:
        middle, remainder = load_centre(center, rest, column, shift, d)
    for first in range(0, run, ROWS):
        row = begin + STEP * (first + tl.arange(0, ROWS))
        x = tile(X, row, column, n, d, stride, shift, STEP)
        if CENTERED:
            x = tl.where((row < n)[:, None], (x - middle[None, :]) - remainder[None, :], 0.0)
        total += x
    at = tl.program_id(0).to(tl.int64) * d + column - shift
    tl.store(sums + at, tl.sum(total, axis=0), mask=is_column(column, shift, d))


def takes(k: int) -> bool:
    """Return whether products with k columns are narrow, so that the loops are quicker than the library's product."""
    return 2 <= k <= _WARP


def reads_once(X: Any, k: int) -> bool:
    """Return whether a tile holds all columns, so that `normal` takes them."""
    return layout_of(X).positions(X.shape[1]) <= _SUM_COLUMNS and takes(k)


def product(
    X: Any, M: Any, center: Any = None, *, with_signs: bool = False, by_component: bool = False
) -> tuple[Any, Any]:
    """Return (X - center) M, and, with signs, numbers of which some are below 0 if X - center has negative entries.

    ``center`` is a pair of vectors whose sum is subtracted. ``by_component`` stores the product by columns.
    """
    n, k, layout = X.shape[0], M.shape[1], layout_of(X)
    sizes, n_programs = tile_sizes(k), layout.programs(n, ROWS)
    out = torch.empty((k, n) if by_component else (n, k), dtype=X.dtype, device=X.device)
    signs = torch.empty(n_programs, dtype=X.dtype, device=X.device) if with_signs else None
    _product[(n_programs,)](
        X, *tf32_parts(M.T, sizes["K"], layout.step), *_centre_arguments(center, X),
        out, out if signs is None else signs, n, k, *layout.sizes,
        CENTERED=center is not None, SIGNS=with_signs, BY_COMPONENT=by_component, STEP=layout.step, **sizes,
    )  # fmt: skip
    return out.T if by_component else out, signs


def transposed(X: Any, H: Any, center: Any = None) -> Any:
    """Return (X - center)'H in float64: sums over short runs of rows are in float32."""
    (n, d), k, layout = X.shape, H.shape[1], layout_of(X)
    n_runs, sizes = layout.programs(n, RUN), _sum_tiles(layout.positions(d), k)
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    _transposed[(n_runs, triton.cdiv(layout.positions(d), sizes["COLUMNS"]))](
        X, H.contiguous(), *_centre_arguments(center, X), sums, n, k, *layout.sizes, RUN,
        CENTERED=center is not None, STEP=layout.step, **sizes,
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64)


def normal(X: Any, M: Any, center: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """Return X'H and H'H of H = diag(weights) X M in float64, where X is less a centre; H is not stored."""
    (n, d), k, layout = X.shape, M.shape[1], layout_of(X)
    n_runs, sizes = (
        layout.programs(n, RUN),
        _sum_tiles(layout.positions(d), k) | {"ROWS": _WARP, "num_warps": 1},
    )
    sums = torch.empty((n_runs, d, k), dtype=X.dtype, device=X.device)
    squares = torch.empty((n_runs, k, k), dtype=X.dtype, device=X.device)
    _normal[(n_runs,)](
        X, *tf32_parts(M.T, sizes["K"], layout.step), *_centre_arguments(center, X),
        X if weights is None else weights.contiguous(), sums, squares, n, k, *layout.sizes, RUN,
        CENTERED=center is not None, WEIGHTED=weights is not None, STEP=layout.step, **sizes,
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64), torch.sum(squares, 0, dtype=torch.float64)


def column_sums(X: Any, center: Any = None) -> Any:
    """Return the sum of the rows of X - center in float64."""
    (n, d), layout = X.shape, layout_of(X)
    n_runs = layout.programs(n, RUN)
    sums = torch.empty((n_runs, d), dtype=X.dtype, device=X.device)
    _column_sums[(n_runs, triton.cdiv(layout.positions(d), COLUMNS))](
        X, *_centre_arguments(center, X), sums, n, *layout.sizes, RUN, CENTERED=center is not None, STEP=layout.step,
        ROWS=ROWS, COLUMNS=COLUMNS,
    )  # fmt: skip
    return torch.sum(sums, 0, dtype=torch.float64)


def _centre_arguments(center: Any, X: Any) -> tuple[Any, Any]:
    """Return the two parts of a centre as arguments of a loop; without a centre two tensors that are not read."""
    return (X, X) if center is None else (center[0].contiguous(), center[1].contiguous())


def tile_sizes(k: int) -> dict[str, Any]:
    """Return the sizes of tiles for which a loop is compiled, for a narrow matrix of k columns; 16 at least."""
    return {"ROWS": ROWS, "COLUMNS": COLUMNS, "K": max(16, triton.next_power_of_2(k))}


def _sum_tiles(d: int, k: int) -> dict[str, Any]:
    """Return the sizes of tiles for loops that sum over rows."""
    columns = min(_SUM_COLUMNS, max(16, triton.next_power_of_2(d)))
    sizes = {**tile_sizes(k), "ROWS": _SUM_ROWS, "COLUMNS": columns}
    return sizes | {"num_warps": 1} if columns <= _WARP else sizes


@triton.jit
def in_numbers(d, stride, STEP: tl.constexpr):
    """Return the length and the distance of rows in numbers; with ``STEP`` 1 they are given in units of `_UNIT`."""
    if STEP == 1:
        d, stride = d * _UNIT, stride * _UNIT
    return d, stride


@triton.jit
def first_row(program, size, STEP: tl.constexpr):
    """Return the first row of a program that takes ``size`` rows, each ``STEP`` rows after the one before."""
    program = program.to(tl.int64)
    return (program // STEP) * (size * STEP) + program % STEP


@triton.jit
def misalignment(first, stride, offset, STEP: tl.constexpr):
    """Return how many numbers after an aligned address a row begins."""
    return 0 if STEP == 1 else ((first * stride + offset) % _UNIT).to(tl.int32)


@triton.jit
def _row_addresses(X, row, stride, shift, STEP: tl.constexpr):
    start = X + (row * stride - shift)
    if STEP > 1:
        start = tl.multiple_of(start, 4 * _UNIT)  # in bytes
    return start


@triton.jit
def is_column(column, shift, d):
    """Return whether positions of a tile are columns of X, rather than numbers before or after the row."""
    return (column >= shift) & (column < d + shift)


@triton.jit
def tile(X, row, column, n, d, stride, shift, STEP: tl.constexpr):
    """Return a tile of some rows and positions, with 0 outside X."""
    inside = (row < n)[:, None] & (column < rounded_up(d + shift))[None, :]
    x = tl.load(
        _row_addresses(X, row, stride, shift, STEP)[:, None] + column[None, :], mask=inside, other=0.0
    )
    if STEP > 1:
        x = tl.where(is_column(column, shift, d)[None, :], x, 0.0)
    return x


@triton.jit
def transposed_tile(X, row, column, n, d, stride, shift, STEP: tl.constexpr):
    """Return a tile, transposed."""
    inside = (column < rounded_up(d + shift))[:, None] & (row < n)[None, :]
    x = tl.load(
        _row_addresses(X, row, stride, shift, STEP)[None, :] + column[:, None], mask=inside, other=0.0
    )
    if STEP > 1:
        x = tl.where(is_column(column, shift, d)[:, None], x, 0.0)
    return x


@triton.jit
def load_centre(center, rest, column, shift, d):
    """Return the two parts of a centre at some positions of a tile."""
    at, inside = column - shift, is_column(column, shift, d)
    return tl.load(center + at, mask=inside, other=0.0), tl.load(rest + at, mask=inside, other=0.0)


@triton.jit
def load_parts(high, low, at, used):
    """Return a matrix in two parts, with 0 outside."""
    return tl.load(high + at, mask=used, other=0.0), tl.load(low + at, mask=used, other=0.0)


@triton.jit
def rounded_up(d):
    """Return a length, rounded up to a multiple of the numbers that are read at once."""
    return tl.cdiv(d, _UNIT) * _UNIT


@triton.jit
def to_tf32(a):
    """Return float32 numbers, rounded to the digits of TF32, which the matrix units keep."""
    return (((a.to(tl.int32, bitcast=True) + 4096) >> 13) << 13).to(tl.float32, bitcast=True)


@triton.jit
def dot(a, b):
    """Return a b to the precision of float32, with each number split into two parts.

    The matrix units do not round their own sums to nearest. So these should be short, and be added up outside.
    """
    other = to_tf32(b)
    return dot_of_parts(a, other, b - other)


@triton.jit
def dot_of_parts(a, high, low):
    """Return a (high + low), where ``high`` has the digits of TF32."""
    own = to_tf32(a)
    total = tl.dot(a - own, high, input_precision="tf32")
    total = tl.dot(own, low, total, input_precision="tf32")
    return tl.dot(own, high, total, input_precision="tf32")


@triton.jit(do_not_specialize=["k", "d", "wide", "row_stride", "column_stride"])
def _split(
    A, high, low, turned_high, turned_low, k, d, wide, row_stride, column_stride,
    SHIFTS: tl.constexpr, TURNED: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    part, n_parts = tl.program_id(1), tl.num_programs(1)
    for shift in tl.static_range(SHIFTS):
        inside = is_column(column, shift, d) & (part < k)
        a = tl.load(A + part * row_stride + (column - shift) * column_stride, mask=inside, other=0.0)
        main = to_tf32(a)
        at = (shift * n_parts + part) * wide + column
        tl.store(high + at, main, mask=column < wide)
        tl.store(low + at, a - main, mask=column < wide)
        if TURNED and shift == 0:
            tl.store(turned_high + column * n_parts + part, main, mask=column < d)
            tl.store(turned_low + column * n_parts + part, a - main, mask=column < d)


class RowLayout(NamedTuple):
    """How the rows of a tensor lie in memory, as arguments of the loops."""

    sizes: tuple[int, int, int]  # the length and the distance of rows, and the misalignment of the first row
    step: int  # 1 if a tile holds successive rows, 4 if it holds every fourth

    def programs(self, n: int, rows: int) -> int:
        """Return the number of programs that take ``rows`` rows each."""
        return self.step * triton.cdiv(n, rows * self.step)

    def positions(self, d: int) -> int:
        """Return the number of positions that tiles of d columns need."""
        return d + self.step - 1


def layout_of(X: Any) -> RowLayout:
    """Return how the rows of a tensor lie in memory."""
    d, stride, unit = X.shape[1], X.stride(0), _UNIT.value
    offset = X.data_ptr() // X.element_size() % unit
    if offset or d % unit or stride % unit:
        return RowLayout((d, stride, offset), unit)
    return RowLayout((d // unit, stride // unit, 0), 1)


def tf32_parts(A: Any, size: int, step: int = 1, *, turned: bool = False) -> tuple[Any, ...]:
    """Return two tensors whose sum is A (k, d), with further rows of zeros up to ``size`` rows.

    The matrix units keep all digits of the first tensor. There is a copy for each misalignment that the rows of a
    tile may have. Each row begins where several numbers can be read at once, and ends with zeros. With ``turned`` the
    transposes (d, size) of the two follow, without these zeros.
    """
    k, d = A.shape
    wide = triton.cdiv(d + step - 1, _UNIT.value) * _UNIT.value
    high, low = torch.empty((2, step * size, wide), dtype=A.dtype, device=A.device)
    ways = tuple(torch.empty((2, d, size), dtype=A.dtype, device=A.device)) if turned else ()
    _split[(triton.cdiv(wide, _SPLIT), size)](
        A, high, low, *(ways or (high, low)), k, d, wide, *A.stride(), SHIFTS=step, TURNED=turned, SIZE=_SPLIT
    )
    return high, low, *ways
