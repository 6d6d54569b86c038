"""Compiled for a GPU: the I-divergence of sparse rows, of which only the stored entries are read.

With P = H V' held above a floor and R = X / P, which is 0 where X is.

===================  ===============================================================================
``ratio_rows``       R V (m, k)
``ratio_sums``       R'H (d, k), and the I-divergence
``newton_system``    what a Newton step of placing some rows takes
===================  ===============================================================================
"""

# Triton adds tuples, but does not unpack them.
# ruff: noqa: RUF005
# mypy: disable-error-code="assignment,misc"
from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from labelfold.rows.loops import (
    Entries,
    aligned,
    entries_at,
    narrow_rows,
    run_ends,
    sparse_tiles,
    whole_runs,
)

# Entries of a row in a tile of Newton's systems.
_SYSTEM_ENTRIES = 32
# The most components that the loop takes, and the numbers of V that a thread keeps.
_MOST, _KEPT = 24, 128
# The most sweeps over the components.
_SWEEPS = 300
# Steps are longer by this than to the minimum of their model, and by more after so many sweeps: rows that are left
# then settle slowly. A step leaves this share of a component.
_FURTHER, _SOON, _MUCH_FURTHER = tl.constexpr(1.1), tl.constexpr(8), tl.constexpr(1.5)
_LEAST_LEFT = tl.constexpr(0.05)
# Bounds of slopes and curvatures in a step: a component that makes no entry of the row becomes small.
_LEAST_SLOPE, _LEAST_BEND = tl.constexpr(1e-6), tl.constexpr(1e-12)
# A row is looked at when the gap seemed to be within so many tolerances; a component below this share of one is 0.
_ASK, _NOTHING = tl.constexpr(4.0), tl.constexpr(1e-3)
# By how much of a row's sum its divergence may seem to rise by round-off.
_SLACK = 1e-6
# Number of components that are updated before the slopes of the entries are.
_AT_ONCE = 2
# How many threads a row has, and how many a program, from short rows to long ones. Each takes seconds to compile: a
# smaller share of the rows than this is placed with longer ones.
_SIZES = ((4, 32), (8, 32), (16, 32), (32, 32), (128, 128))
_WORTH = 1 / 8


@triton.jit
def _ratios(
    values, index, ends, which, own, B, bounds, out, losses, m, k,
    LOSS: tl.constexpr, STRIDE: tl.constexpr, ROWS: tl.constexpr, ENTRIES: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    begin, end, longest = run_ends(ends, row, m)
    place = tl.load(which + row, mask=row < m, other=0).to(tl.int64)
    there = (row < m)[:, None] & (part < STRIDE)[None, :]
    mine = tl.load(own + place[:, None] * STRIDE + part[None, :], mask=there, other=0.0)
    share, lowest = tl.load(bounds), tl.load(bounds + 1)
    total = tl.zeros((ROWS, ENTRIES, K), B.dtype.element_ty)
    loss = tl.zeros((ROWS, ENTRIES), B.dtype.element_ty)
    for first in range(0, longest, ENTRIES):
        x, at, inside = entries_at(values, index, begin, end, first, ENTRIES)
        b = narrow_rows(B, at, inside, part, STRIDE)
        p = tl.sum(b * mine[:, None, :], axis=2)
        r = x / tl.maximum(tl.maximum(p, x * share), lowest)
        total += r[:, :, None] * b
        if LOSS:
            loss += x * tl.log(tl.where(x > 0, r, 1.0)) - x
    known = (row < m)[:, None] & (part < k)[None, :]
    tl.store(out + row[:, None] * k + part[None, :], tl.sum(total, axis=1), mask=known)
    if LOSS:
        tl.store(losses + row, tl.sum(loss, axis=1), mask=row < m)


@triton.jit
def _newton_system(
    values, index, ends, chosen, H, V, bounds, out, logs, Q, m, n, d, k,
    INDEXED: tl.constexpr, STRIDE: tl.constexpr, ENTRIES: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0).to(tl.int64)
    row = number
    if INDEXED:
        row = tl.load(chosen + number).to(tl.int64)
    part, lane = tl.arange(0, K), tl.arange(0, ENTRIES)
    begin, end = tl.load(ends + row).to(tl.int64), tl.load(ends + row + 1).to(tl.int64)
    h = tl.load(H + part.to(tl.int64) * n + row, mask=part < k, other=0.0)
    share, lowest = tl.load(bounds), tl.load(bounds + 1)
    # Entries are about so much larger than their model, which is spread over all columns. Without this factor, the
    # logarithms of all steps would have a large constant part, and fewer digits for what differs.
    usual = (end - begin).to(tl.float32) / d
    total = tl.zeros((ENTRIES, K), tl.float32)
    loss = tl.zeros((ENTRIES,), tl.float32)
    curve = tl.zeros((K, K), tl.float32)
    for first in range(begin, end, ENTRIES):
        inside = first + lane < end
        x = tl.load(values + first + lane, mask=inside, other=0.0)
        at = tl.load(index + first + lane, mask=inside, other=0).to(tl.int64)
        there = inside[:, None] & (part < STRIDE)[None, :]
        v = tl.load(V + at[:, None] * STRIDE + part[None, :], mask=there, other=0.0)
        p = tl.sum(v * h[None, :], axis=1)
        bound = tl.maximum(x * share, lowest)
        inverse = 1.0 / tl.maximum(p, bound)
        r = x * inverse
        loss += x * tl.log(tl.where(x > 0, r * usual, 1.0))
        total += r[:, None] * v
        # What no component can make has no curvature.
        w = tl.where(p > bound, r * inverse, 0.0)
        curve += tl.dot(tl.trans(v), v * w[:, None], input_precision="tf32x3")
    tl.store(out + part.to(tl.int64) * m + number, tl.sum(total, axis=0), mask=part < k)
    tl.store(logs + number, tl.sum(loss, axis=0))
    row_at, column_at = part[:, None], part[None, :]
    at = (row_at * (row_at + 1) // 2 + column_at).to(tl.int64) * m + number
    tl.store(Q + at, curve, mask=(row_at < k) & (column_at <= row_at))


def ratio_rows(entries: Entries, H: Any, V: Any, floor: tuple[float, float]) -> Any:
    """Return R V."""
    numbers = torch.arange(H.shape[0], device=H.device)
    return _over(entries, entries.ends, numbers, H, V, floor, with_loss=False)[0]


def ratio_sums(columns: Entries, H: Any, V: Any, floor: tuple[float, float]) -> tuple[Any, Any]:
    """Return R'H and the divergence, in float64, from entries by columns."""
    assert columns.pieces is not None
    sums, losses = _over(columns, columns.pieces[0], columns.pieces[2], V, H, floor, with_loss=True)
    modelled = torch.sum(H, 0, dtype=torch.float64) @ torch.sum(V, 0, dtype=torch.float64)
    return whole_runs(sums, columns), torch.sum(losses, dtype=torch.float64) + modelled


def _over(
    entries: Entries, ends: Any, which: Any, own: Any, B: Any, floor: tuple, *, with_loss: bool
) -> tuple[Any, Any]:
    """Return the sums of ratios times rows of B over runs, each with a row of ``own``, and x log r - x."""
    m, k = ends.shape[0] - 1, B.shape[1]
    B, own, sizes = aligned(B), aligned(own), sparse_tiles(k, triton.next_power_of_2(k))
    out = torch.empty((m, k), dtype=B.dtype, device=B.device)
    losses = torch.empty(m, dtype=B.dtype, device=B.device)
    _ratios[(triton.cdiv(m, sizes["ROWS"]),)](
        entries.values, entries.index, ends, which, own, B, bounds_of(floor, B.dtype, B.device), out, losses,
        m, k, LOSS=with_loss, STRIDE=B.shape[1], **sizes,
    )  # fmt: skip
    return out, losses


@cache
def bounds_of(floor: tuple[float, float], dtype: Any, device: Any) -> Any:
    """Return the two parts of the floor of P on the device: in float64 they are too small for a loop's argument."""
    return torch.tensor(floor, dtype=dtype, device=device)


def newton_system(entries: Entries, index: Any, H: Any, V: Any, bounds: Any) -> tuple[Any, Any, Any]:
    """Return R V (k, m), sums of x log r (m,) up to a constant of each row, and V' diag(R / P) V for some rows of X.

    ``index`` says which rows those are, None all; H (k, n) is that of all rows, V is aligned. The matrices (k (k + 1)
    / 2, m) are lower triangles, a row after the other. ``bounds`` are the two parts of the floor of P.
    """
    k, n = H.shape
    m = n if index is None else index.shape[0]
    out = torch.empty((k, m), dtype=H.dtype, device=H.device)
    logs = torch.empty(m, dtype=H.dtype, device=H.device)
    Q = torch.empty((k * (k + 1) // 2, m), dtype=H.dtype, device=H.device)
    _newton_system[(m,)](
        entries.values, entries.index, entries.ends, H if index is None else index, H, V, bounds, out, logs, Q,
        m, n, V.shape[0], k, INDEXED=index is not None, STRIDE=V.shape[1], ENTRIES=_SYSTEM_ENTRIES,
        K=max(16, triton.next_power_of_2(k)), num_warps=1,
    )  # fmt: skip
    return out, logs, Q


@triton.jit
def _over_row(a, GROUP: tl.constexpr):
    """Return the sums over the threads of each row, in all of them."""
    n: tl.constexpr = a.shape[0]
    total = tl.sum(tl.reshape(a, (n // GROUP, GROUP)), axis=1)
    return tl.reshape(tl.broadcast_to(total[:, None], (n // GROUP, GROUP)), (n,))


@triton.jit
def _summed(a, GROUP: tl.constexpr):
    """Return the sums over the entries of each row, in all of its threads."""
    return _over_row(tl.sum(a, axis=0), GROUP)


@triton.jit
def _components(V, column, inside, WIDTH: tl.constexpr, SLOTS: tl.constexpr):
    """Return what the entries take of each component: registers, since sums of integers with 0 are left out."""
    found = ()
    part = tl.arange(0, 4)
    for c in tl.static_range(WIDTH // 4):
        at = column[None, :] * WIDTH + (part + 4 * c)[:, None]
        four = tl.load(V + at, mask=inside[None, :], other=0.0).to(tl.int32, bitcast=True)
        for j in tl.static_range(4):
            one = tl.sum(tl.where((part == j)[:, None], four, 0), axis=0).to(tl.float32, bitcast=True)
            found = found + (tl.reshape(one, (SLOTS, one.shape[0] // SLOTS)),)
    return found


@triton.jit
def _modelled(W, h, low, WIDTH: tl.constexpr):
    q = low
    for j in tl.static_range(WIDTH):
        q += W[j] * h[j][None, :]
    return q


@triton.jit
def _chosen(which, a, b, WIDTH: tl.constexpr):
    """Return a where it is wanted, otherwise b."""
    found = ()
    for j in tl.static_range(WIDTH):
        found = found + (tl.where(which, a[j], b[j]),)
    return found


@triton.jit
def _inverse(a):
    """Return 1 / a, in fewer instructions than a division."""
    root = tl.rsqrt(a)
    return root * root


@triton.jit
def _any(flags):
    return tl.max(flags.to(tl.int32), axis=0) > 0


# One compiled loop serves any number of rows, and arrays that begin anywhere.
@triton.jit(
    do_not_specialize=["n", "k", "d", "most"],
    do_not_specialize_on_alignment=["values", "index", "ends", "chosen"],
)
def _place(
    values, index, ends, chosen, V, v, H, sweeps, n, k, d, share, lowest, tol, slack, most,
    CHOSEN: tl.constexpr, WIDTH: tl.constexpr, GROUP: tl.constexpr, SLOTS: tl.constexpr, THREADS: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    thread = tl.arange(0, THREADS)
    row = tl.program_id(0).to(tl.int64) * (THREADS // GROUP) + thread // GROUP
    here = row < n
    if CHOSEN:
        row = tl.load(chosen + row, mask=here, other=0).to(tl.int64)
    begin, end = tl.load(ends + row, mask=here, other=0), tl.load(ends + row + 1, mask=here, other=0)
    # A thread has SLOTS entries of a row, and their numbers of V. Slots and threads are one axis as arrays are read:
    # then every version of Triton keeps the slots of a thread in its registers.
    at = begin[None, :] + tl.arange(0, SLOTS)[:, None] * GROUP + (thread % GROUP)[None, :]
    inside = tl.reshape(at < end[None, :], (SLOTS * THREADS,))
    at = tl.reshape(at, (SLOTS * THREADS,))
    x = tl.load(values + at, mask=inside, other=0.0)
    inside = inside & (x > 0)
    W = _components(V, tl.load(index + at, mask=inside, other=0).to(tl.int64), inside, WIDTH, SLOTS)
    # What no component makes is left out: it says nothing about h.
    total = W[0]
    for j in tl.static_range(1, WIDTH):
        total += W[j]
    x = tl.where(total > 0, tl.reshape(x, (SLOTS, THREADS)), 0.0)
    mass = _summed(x, GROUP)
    x = x / tl.where(mass > 0, mass, 1.0)[None, :]
    # The factors of an update from equal components, squared: it saves a sweep.
    ratio = x / tl.where(total > 0, total, 1.0)
    h = ()
    for j in tl.static_range(WIDTH):
        factor = _summed(W[j] * ratio, GROUP)
        h = h + (factor * factor,)
    kept = h
    best = mass * 0 + float("inf")
    active = mass > 0
    asked = mass < 0
    sweep, times = 0, active.to(tl.int32) * 0
    while (sweep < most) & _any(active):
        sweep += 1
        whole = h[0]
        for j in tl.static_range(1, WIDTH):
            whole += h[j]
        scale = tl.where(active, 1.0 / whole, 1.0)
        scaled = ()
        for j in tl.static_range(WIDTH):
            scaled = scaled + (h[j] * scale,)
        low = tl.maximum(x * share, lowest)
        q = _modelled(W, scaled, low, WIDTH)
        # Modelled values are about 1 / d, and without this factor the logarithms would have fewer digits.
        loss = -_summed(x * tl.log(q * d), GROUP)
        raised = active & ~(loss <= best + slack)  # nor is it nan
        best = tl.where(raised, best, loss)
        kept = _chosen(raised, kept, scaled, WIDTH)
        h = kept
        # Rows that seem to have settled go on until all rows of the program do: a look costs a third of a sweep.
        if _any(raised) | ~_any(active & ~asked):
            q = _modelled(W, h, low, WIDTH)
            ratio = x / q
            worst, updated = mass * 0, ()
            for j in tl.static_range(WIDTH):
                factor = _summed(W[j] * ratio, GROUP)
                worst = tl.maximum(worst, factor)
                updated = updated + (h[j] * factor,)
            active = active & ~((raised | asked) & (worst <= 1 + tol))
            h = _chosen(raised & active, updated, h, WIDTH)
        going = active & ~raised
        # Slopes follow a quadratic model around the start of the sweep, so that no entry is divided for a component.
        # Components are taken a few at a time: the sums of one do not wait for the step of another.
        further = tl.where(sweep <= _SOON, _FURTHER, _MUCH_FURTHER)
        square = _inverse(q)
        ratio = x * square
        bends = ratio * square
        top, stepped = mass * 0, ()
        for j in tl.static_range(0, WIDTH, AT_ONCE):
            bent, steps = (), ()
            for i in tl.static_range(AT_ONCE):
                bent = bent + (W[j + i] * bends,)
            for i in tl.static_range(AT_ONCE):
                slope = _summed(W[j + i] * ratio, GROUP)
                for earlier in tl.static_range(i):
                    slope -= _summed(W[j + i] * bent[earlier], GROUP) * steps[earlier]
                far = _inverse(tl.maximum(_summed(W[j + i] * bent[i], GROUP), _LEAST_BEND))
                step = further * tl.maximum(slope, _LEAST_SLOPE) * (slope - 1) * far
                steps = steps + (tl.maximum(step, (_LEAST_LEFT - 1) * h[j + i]),)
                top = tl.maximum(top, slope)
                stepped = stepped + (h[j + i] + steps[i],)
            for i in tl.static_range(AT_ONCE):
                ratio -= bent[i] * steps[i][None, :]
        h = _chosen(going, stepped, h, WIDTH)
        times += (going & ~asked).to(tl.int32)
        asked = going & (top <= 1 + _ASK * tol)
    first = here & (thread % GROUP == 0)
    for j in tl.static_range(WIDTH):
        weight = tl.load(v + j)
        size = tl.where(weight > 0, mass / tl.where(weight > 0, weight, 1.0), 0.0)
        found = tl.where((mass > 0) & (kept[j] > _NOTHING * tol), kept[j] * size, 0.0)
        tl.store(H + row * k + j, found, mask=first & (j < k))
    tl.store(sweeps + row, tl.where(active, 0, tl.maximum(times, 1)), mask=first)


def takes(k: int) -> bool:
    """Return whether the loop takes rows of k components."""
    return k <= _MOST


def placed_rows(
    entries: Entries, V: Any, v: Any, floor: tuple[float, float], tol: float, rounds: int
) -> tuple[Any, Any]:
    """Return H (m, k) of sparse float32 rows, and the number of sweeps over the components (m,).

    That number is -1 where a row has too many entries, 0 where it has not settled. ``v`` are the column sums of V.
    """
    m, k = entries.ends.shape[0] - 1, V.shape[1]
    width = triton.cdiv(k, 4) * 4
    v = torch.nn.functional.pad(v, (0, width - k))
    narrow = (torch.nn.functional.pad(V, (0, width - k)) / torch.where(v > 0, v, 1.0)).contiguous()
    H = torch.empty((m, k), dtype=V.dtype, device=V.device)
    sweeps = torch.full((m,), -1, dtype=torch.int32, device=V.device)
    lengths = entries.ends[1:] - entries.ends[:-1]
    slots = _KEPT // triton.next_power_of_2(width)
    for (group, threads), shorter, longest, n in _groups(lengths, slots):
        chosen = None
        if n < m:
            chosen = torch.nonzero((lengths > shorter) & (lengths <= longest))[:, 0]
        _place[(triton.cdiv(n * group, threads),)](
            entries.values, entries.index, entries.ends, entries.ends if chosen is None else chosen,
            narrow, v, H, sweeps, n, k, V.shape[0], *floor, tol, _SLACK, min(rounds, _SWEEPS),
            CHOSEN=chosen is not None, WIDTH=width, GROUP=group, SLOTS=slots, THREADS=threads, AT_ONCE=_AT_ONCE,
            num_warps=threads // 32,
        )  # fmt: skip
    return H, sweeps


def _groups(lengths: Any, slots: int) -> list[tuple[tuple[int, int], int, int, int]]:
    """Return the sizes of programs that are used, the lengths of the rows of each (above, to), and their number."""
    m, most = lengths.shape[0], [slots * group for group, _ in _SIZES]
    bounds = torch.tensor(most, dtype=lengths.dtype, device=lengths.device)
    counts = torch.count_nonzero(lengths[:, None] <= bounds[None, :], dim=0).tolist()
    found, shorter, taken = [], -1, 0
    for size, longest, count in zip(_SIZES, most, counts, strict=True):
        n, is_last = count - taken, count == m or size == _SIZES[-1]
        if n and (is_last or n >= _WORTH * m):
            found.append((size, shorter, longest, n))
            shorter, taken = longest, count
    return found
