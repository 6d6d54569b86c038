"""Compiled for a GPU: products of sparse rows with narrow matrices, which read each stored entry once.

An entry takes the row of a narrow matrix that its index names, k numbers. A product X M reads the entries row by row,
and X'H column by column, from a copy of X in that order: no two programs add to the same sum, so sums are the same in
every run. Sums are added up in float64, in which a centre is subtracted from them: no digits are lost to it.

===============  =========================================================================
``Entries``      sparse rows, or columns, as three arrays
``columns_of``   the entries of some rows in the order of their columns
``gathered``     X M (m, k) by rows, X'H (d, k) by columns
``summed``       sums of the entries, or of their squares
``least``        the smallest entry of each row
===============  =========================================================================
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

# A column is summed in pieces of so many entries, so that long ones do not take longer than others.
PIECE = 1024
# Numbers of the narrow matrix that a program has at a time, the entries of a row among them, and its warps.
TILE, ENTRIES, WARPS = 4096, 8, 2
# Runs of a program that takes no narrow matrix.
_FOLDED = 128
# The most columns of the narrow matrix for one program; and of these a multiple of so many is read at once.
_WIDEST, _AT_ONCE = 32, 8


class Entries(NamedTuple):
    """Entries in runs: those of row i, or of column i, are ``values[ends[i]:ends[i + 1]]``.

    ``pieces`` are shorter runs, if runs may be long: the first entry of each piece, the first piece of each run, and
    the run of each piece.
    """

    values: Any
    index: Any
    ends: Any
    pieces: tuple[Any, Any, Any] | None = None


@triton.jit
def entries_at(values, index, begin, end, first, ENTRIES: tl.constexpr):
    """Return some entries of each run, where they are in the matrix, and which of them there are."""
    at = begin[:, None] + (first + tl.arange(0, ENTRIES))[None, :]
    inside = at < end[:, None]
    x = tl.load(values + at, mask=inside, other=0.0)
    return x, tl.load(index + at, mask=inside, other=0).to(tl.int64), inside


@triton.jit
def run_ends(ends, row, m):
    """Return where runs begin and end, and the length of the longest."""
    begin = tl.load(ends + row, mask=row < m, other=0).to(tl.int64)
    end = tl.load(ends + row + 1, mask=row < m, other=0).to(tl.int64)
    return begin, end, tl.max(end - begin, axis=0)


@triton.jit
def narrow_rows(B, at, inside, part, STRIDE: tl.constexpr):
    """Return rows of a narrow matrix."""
    there = inside[:, :, None] & (part < STRIDE)[None, None, :]
    return tl.load(B + at[:, :, None] * STRIDE + part[None, None, :], mask=there, other=0.0)


@triton.jit
def _gathered(
    values, index, ends, B, shifts, out, m, k,
    SHIFTED: tl.constexpr, SQUARED: tl.constexpr, ACC: tl.constexpr, STRIDE: tl.constexpr,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1) * K + tl.arange(0, K)
    begin, end, longest = run_ends(ends, row, m)
    total = tl.zeros((ROWS, ENTRIES, K), ACC)
    for first in range(0, longest, ENTRIES):
        x, at, inside = entries_at(values, index, begin, end, first, ENTRIES)
        x = x.to(ACC)
        x = x * x if SQUARED else x
        total += x[:, :, None] * narrow_rows(B, at, inside, part, STRIDE).to(ACC)
    found = tl.sum(total, axis=1)
    if SHIFTED:
        found -= tl.load(shifts + part, mask=part < k, other=0.0)[None, :]
    known = (row < m)[:, None] & (part < k)[None, :]
    tl.store(out + row[:, None] * k + part[None, :], found, mask=known)


@triton.jit
def _summed(values, ends, out, m, k, ROWS: tl.constexpr, ENTRIES: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    begin, end, longest = run_ends(ends, row, m)
    total = tl.zeros((ROWS, ENTRIES, K), tl.float64)
    for first in range(0, longest, ENTRIES):
        at = begin[:, None] + (first + tl.arange(0, ENTRIES))[None, :]
        there = (at < end[:, None])[:, :, None] & (part < k)[None, None, :]
        total += tl.load(values + at[:, :, None] * k + part[None, None, :], mask=there, other=0.0)
    known = (row < m)[:, None] & (part < k)[None, :]
    tl.store(out + row[:, None] * k + part[None, :], tl.sum(total, axis=1), mask=known)


@triton.jit
def _folded(
    values, ends, out, m, d,
    LEAST: tl.constexpr, SQUARED: tl.constexpr, ROWS: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    begin, end, longest = run_ends(ends, row, m)
    nothing: tl.constexpr = float("inf") if LEAST else 0.0
    total = tl.full((ROWS, ENTRIES), nothing, out.dtype.element_ty)
    for first in range(0, longest, ENTRIES):
        at = begin[:, None] + (first + tl.arange(0, ENTRIES))[None, :]
        x = tl.load(values + at, mask=at < end[:, None], other=nothing).to(out.dtype.element_ty)
        if LEAST:
            total = tl.minimum(total, x)
        else:
            total += x * x if SQUARED else x
    if LEAST:
        found = tl.min(total, axis=1)
        found = tl.where(end - begin < d, tl.minimum(found, 0.0), found)
    else:
        found = tl.sum(total, axis=1)
    tl.store(out + row, found, mask=row < m)


def gathered(
    entries: Entries,
    B: Any,
    shifts: Any = None,
    dtype: Any = None,
    *,
    single: bool = False,
    squared: bool = False,
) -> Any:
    """Return the sum of each run's entries times the rows of B (., k) that they name, less ``shifts`` (k,).

    ``squared`` takes the squares of the entries, and ``dtype`` is that of the result, by default float64.
    ``single`` adds up in the dtype of B, which is enough where runs are short and nothing is subtracted.
    """
    k = B.shape[1]
    B, sizes = aligned(B), tiles(k, itemsize=B.element_size())
    single = single and shifts is None and entries.pieces is None
    ends = entries.ends if entries.pieces is None else entries.pieces[0]
    m = ends.shape[0] - 1
    kind = torch.float64 if dtype is None or entries.pieces is not None else dtype
    out = torch.empty((m, k), dtype=kind, device=B.device)
    wide = tl.float32 if single and B.dtype == torch.float32 else tl.float64
    _gathered[(triton.cdiv(m, sizes["ROWS"]), triton.cdiv(k, sizes["K"]))](
        entries.values, entries.index, ends, B, out if shifts is None else shifts, out, m, k,
        SHIFTED=shifts is not None, SQUARED=squared, ACC=wide, STRIDE=B.shape[1], **sizes,
    )  # fmt: skip
    return out if entries.pieces is None else whole_runs(out, entries)


def whole_runs(sums: Any, entries: Entries) -> Any:
    """Return the sums of runs (., k) from those of their pieces, in float64."""
    assert entries.pieces is not None
    m, k = entries.ends.shape[0] - 1, sums.shape[1]
    out = torch.empty((m, k), dtype=torch.float64, device=sums.device)
    sizes = tiles(k, triton.next_power_of_2(k), sums.element_size())
    _summed[(triton.cdiv(m, sizes["ROWS"]),)](sums, entries.pieces[1], out, m, k, **sizes)
    return out


def summed(entries: Entries, *, squared: bool = False) -> Any:
    """Return the sum of each run's entries, or of their squares, in float64."""
    ends = entries.ends if entries.pieces is None else entries.pieces[0]
    sums = _fold(entries.values, ends, torch.float64, SQUARED=squared)
    return sums if entries.pieces is None else whole_runs(sums[:, None], entries)[:, 0]


def least(entries: Entries, d: int) -> Any:
    """Return the smallest entry of each row of d columns, where entries that are not stored are 0."""
    return _fold(entries.values, entries.ends, entries.values.dtype, d, LEAST=True)


def _fold(
    values: Any, ends: Any, dtype: Any, d: int = 0, *, LEAST: bool = False, SQUARED: bool = False
) -> Any:
    m = ends.shape[0] - 1
    out = torch.empty(m, dtype=dtype, device=values.device)
    _folded[(triton.cdiv(m, _FOLDED),)](
        values, ends, out, m, d, LEAST=LEAST, SQUARED=SQUARED, ROWS=_FOLDED, ENTRIES=ENTRIES, num_warps=WARPS
    )
    return out


def aligned(B: Any) -> Any:
    """Return a matrix whose rows are as long as the device reads at once, filled up with 0."""
    k = B.shape[1]
    stride = triton.next_power_of_2(k) if k < _AT_ONCE else triton.cdiv(k, _AT_ONCE) * _AT_ONCE
    return (torch.nn.functional.pad(B, (0, stride - k)) if stride > k else B).contiguous()


def tiles(k: int, widest: int = _WIDEST, itemsize: int = 4) -> dict[str, Any]:
    """Return what a loop over entries is compiled for, where the narrow matrix has k columns."""
    K = min(widest, triton.next_power_of_2(k))
    rows = max(1, TILE * 4 // (itemsize * ENTRIES * K))
    return {"ROWS": min(rows, _FOLDED), "ENTRIES": ENTRIES, "K": K, "num_warps": WARPS}


def columns_of(values: Any, columns: Any, ends: Any, d: int) -> Entries:
    """Return rows in the order of their columns, d of them; ``ends`` begins with 0."""
    m = ends.shape[0] - 1
    ordered, place = torch.sort(columns.to(torch.int32), stable=True)
    numbers = torch.arange(m, dtype=torch.int32, device=values.device)
    rows = torch.repeat_interleave(numbers, ends[1:] - ends[:-1], output_size=values.shape[0])
    limits = torch.arange(d + 1, dtype=torch.int32, device=values.device)
    found = torch.searchsorted(ordered, limits)
    return Entries(values[place], rows[place], found, _pieces(found, values.shape[0]))


def _pieces(ends: Any, n_entries: int) -> tuple[Any, Any, Any]:
    """Return the pieces of runs: their first entries and the number of all, each run's first, and their runs."""
    n_pieces = (ends[1:] - ends[:-1] + PIECE - 1) // PIECE
    first = torch.nn.functional.pad(torch.cumsum(n_pieces, 0), (1, 0))
    run = torch.repeat_interleave(n_pieces)  # (pieces,)  the run of each
    number = torch.arange(run.shape[0], device=ends.device) - first[run]
    return torch.nn.functional.pad(ends[run] + PIECE * number, (0, 1), value=n_entries), first, run
