"""Compiled for a GPU: rows of least I-divergence by Newton's steps, each row in one thread.

What `_place.py` does with arrays of all rows, one after the other, is here one loop: it reads the Newton system of a
row, decides whether the last step was good, solves for the next one and takes it. Rows that have settled are left out
of the next systems. Arrays hold a component after the other, (k, n), so that neighbouring threads read neighbouring
numbers.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from labelfold.factorization import _triton_pivots as pivots
from labelfold.factorization._triton_pivots import pivoted

_FURTHEST = tl.constexpr(float("inf"))


# Nothing is known of n, nor of the widths of arrays, so that each thread loads its own row.
@triton.jit(do_not_specialize=["n", "wide", "width"])
def _step(
    Q, index, H, last, update, target, slopes, logs, mass, reach, best, v, going, n, wide, width, k,
    tol, slack, shorter, shortest, eps, most, INDEXED: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    lane = tl.arange(0, ROWS)
    row = tl.program_id(0).to(tl.int64) * ROWS + lane
    here = row < n
    place = row
    if INDEXED:
        place = tl.load(index + row, mask=here, other=0)
    part = tl.arange(0, K)
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * wide + place[None, :]
    h = tl.load(H + at, mask=known, other=0.0)
    slope = tl.load(slopes + part[:, None].to(tl.int64) * n + row[None, :], mask=known, other=0.0)
    weight = tl.load(v + part[:, None] * width + lane[None, :], mask=known, other=0.0)
    used = weight > 0
    factor = tl.where(used, slope / tl.where(used, weight, 1.0), 0.0)
    loss = tl.load(logs + row, mask=here, other=0.0)
    size = tl.load(mass + place, mask=here, other=1.0)
    lowest = tl.load(best + place, mask=here, other=0.0)
    lower = loss <= lowest + slack * size
    worse = known & ~lower[None, :]
    done = lower & (tl.max(factor, axis=0) <= 1 + tol)
    updated = tl.where(lower[None, :], h * factor, tl.load(update + at, mask=worse, other=0.0))
    gradient = tl.where(used, weight - slope, 0.0)
    solving = here & lower & ~done
    found, n_systems = pivoted(
        Q, Q, h, gradient, h > 0, solving, part, row, known, n, eps, most, False, K
    )  # fmt: skip
    good = (n_systems > 0) & (tl.sum(found, axis=0) < _FURTHEST)  # which NaN is not
    found = tl.where(good[None, :], found, updated)
    share = tl.where(lower, 1.0, shorter * tl.load(reach + place, mask=here, other=1.0))
    begin = tl.where(lower[None, :], h, tl.load(last + at, mask=worse, other=0.0))
    end = tl.where(lower[None, :], found, tl.load(target + at, mask=worse, other=0.0))
    far = tl.where((share < shortest)[None, :], updated, begin + share[None, :] * (end - begin))
    total = tl.sum(far * weight, axis=0)
    far = far * tl.where(total > 0, size / tl.where(total > 0, total, 1.0), 1.0)[None, :]
    further = known & ~done[None, :]
    tl.store(H + at, tl.where(done[None, :], updated, far), mask=known)
    tl.store(last + at, begin, mask=further)
    tl.store(update + at, updated, mask=further)
    tl.store(target + at, end, mask=further)
    tl.store(reach + place, share, mask=here)
    tl.store(best + place, tl.where(lower, loss, lowest), mask=here)
    tl.store(going + row, (~done).to(tl.int8), mask=here)


def newton_places(
    system: Any, v: Any, H: Any, mass: Any, tol: float, slack: float, rounds: int, step: Any
) -> tuple[Any, Any]:
    """Return the places (k, n) after Newton's steps from H, and the numbers of rows that have not settled.

    ``system(index, H)`` returns the Newton systems of some rows, or of all where the index is None. ``v`` are the
    column sums of V, ``mass`` those of the rows, and ``step`` is by how much a step that leads up is
    shortened, and how short it may be.
    """
    k, n = H.shape
    total = v @ H
    H = H * torch.where(total > 0, mass / torch.where(total > 0, total, 1.0), 1.0)
    last, update, target = (torch.empty_like(H) for _ in range(3))
    reach, best = torch.ones_like(mass), torch.full_like(mass, torch.inf)
    sizes = pivots.sizes(k)
    copies = v[:, None].repeat(1, sizes["ROWS"])
    index = None
    for _ in range(rounds):
        slopes, logs, Q = system(index, H)
        m = logs.shape[0]
        going = torch.empty(m, dtype=torch.int8, device=H.device)
        _step[(triton.cdiv(m, sizes["ROWS"]),)](
            Q, H if index is None else index, H, last, update, target, slopes, logs, mass, reach, best, copies,
            going, m, n, sizes["ROWS"], k, tol, slack, *step, pivots.precision(H.dtype), 4 * k,
            INDEXED=index is not None, **sizes,
        )  # fmt: skip
        left = torch.nonzero(going)[:, 0]
        index = left if index is None else index[left]
        if not len(index):
            break
    H[:, index] = update[:, index]
    return H, index
