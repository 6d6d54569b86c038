"""Compiled for a GPU: sparse rows of least I-divergence for a fixed V, a component at a time.

A program reads the entries of a row and what they take of V once, and keeps them in its registers until the row has
settled. The threads of a warp share several short rows; a long row has several warps. Rows are divided by their sums
and columns of V by theirs, so that numbers of any size stay in range.

A sweep steps each component in turn, to the minimum of a logarithm that has the slope and the curvature of the
divergence. Within a sweep slopes follow the quadratic model around its start, so that an entry takes multiplications
only; exact slopes hardly save a sweep. If the divergence has risen, the row goes back and is updated by factors,
which cannot raise it.
"""

# Triton adds tuples, but does not unpack them.
# ruff: noqa: RUF005
# mypy: disable-error-code="assignment,misc"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from labelfold.rows.loops._triton_sparse import Entries

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
