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
def _summed(
    values, ends, out, m, k, SQUARED: tl.constexpr, ROWS: tl.constexpr, ENTRIES: tl.constexpr, K: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    begin, end, longest = run_ends(ends, row, m)
    total = tl.zeros((ROWS, ENTRIES, K), tl.float64)
    for first in range(0, longest, ENTRIES):
        at = begin[:, None] + (first + tl.arange(0, ENTRIES))[None, :]
        there = (at < end[:, None])[:, :, None] & (part < k)[None, None, :]
        x = tl.load(values + at[:, :, None] * k + part[None, None, :], mask=there, other=0.0).to(tl.float64)
        total += x * x if SQUARED else x
    known = (row < m)[:, None] & (part < k)[None, :]
    tl.store(out + row[:, None] * k + part[None, :], tl.sum(total, axis=1), mask=known)


@triton.jit
def _least(values, ends, out, m, d, ROWS: tl.constexpr, ENTRIES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    begin, end, longest = run_ends(ends, row, m)
    smallest = tl.full((ROWS, ENTRIES), float("inf"), values.dtype.element_ty)
    for first in range(0, longest, ENTRIES):
        at = begin[:, None] + (first + tl.arange(0, ENTRIES))[None, :]
        x = tl.load(values + at, mask=at < end[:, None], other=float("inf"))
        smallest = tl.minimum(smallest, x)
    found = tl.min(smallest, axis=1)
    found = tl.where(end - begin < d, tl.minimum(found, 0.0), found)
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
    B, sizes = aligned(B), tiles(k)
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
    """Return the sums of runs from those of their pieces."""
    assert entries.pieces is not None
    return _sums(sums, entries.pieces[1])


def summed(entries: Entries, *, squared: bool = False) -> Any:
    """Return the sum of each run's entries, or of their squares, in float64."""
    ends = entries.ends if entries.pieces is None else entries.pieces[0]
    sums = _sums(entries.values[:, None], ends, squared=squared)
    return (sums if entries.pieces is None else whole_runs(sums, entries))[:, 0]


def _sums(values: Any, ends: Any, *, squared: bool = False) -> Any:
    """Return the sums of runs of rows of a matrix (., k)."""
    m, k = ends.shape[0] - 1, values.shape[1]
    sizes = {**tiles(k), "K": triton.next_power_of_2(k)}
    sizes["ROWS"] = max(1, TILE // (sizes["ENTRIES"] * sizes["K"]))
    out = torch.empty((m, k), dtype=torch.float64, device=values.device)
    _summed[(triton.cdiv(m, sizes["ROWS"]),)](values, ends, out, m, k, SQUARED=squared, **sizes)
    return out


def least(entries: Entries, d: int) -> Any:
    """Return the smallest entry of each row of d columns, where entries that are not stored are 0."""
    m, sizes = entries.ends.shape[0] - 1, tiles(1)
    out = torch.empty(m, dtype=entries.values.dtype, device=entries.values.device)
    del sizes["K"]
    _least[(triton.cdiv(m, sizes["ROWS"]),)](entries.values, entries.ends, out, m, d, **sizes)
    return out


def aligned(B: Any) -> Any:
    """Return a matrix whose rows are as long as the device reads at once, filled up with 0."""
    k = B.shape[1]
    stride = triton.next_power_of_2(k) if k < _AT_ONCE else triton.cdiv(k, _AT_ONCE) * _AT_ONCE
    return (torch.nn.functional.pad(B, (0, stride - k)) if stride > k else B).contiguous()


def tiles(k: int, widest: int = _WIDEST) -> dict[str, Any]:
    """Return what a loop over entries is compiled for, where the narrow matrix has k columns."""
    K = min(widest, triton.next_power_of_2(k))
    rows = max(1, TILE // (ENTRIES * K))
    return {"ROWS": min(rows, 128), "ENTRIES": ENTRIES, "K": K, "num_warps": WARPS}


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
