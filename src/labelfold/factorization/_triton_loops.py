"""Compiled for a GPU: small non-negative problems, one for each row, each row in one thread.

Triton compiles the loops when they are first used. They take tensors of either precision.

=====================  ==========================================================================================
``clipped_steps``      towards the h >= 0 of least 1/2 h'Qh - p'h, each row with a Q of its own
``nonnegative_rows``   the same with one Q, from the solution without bounds
``hals_rows``          so many rounds of it, and no more
``multiplied_rows``    multiplicative updates of least squares
``labelled_rows``      the same with a term of the labels, and sums over the rows
=====================  ==========================================================================================
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from labelfold.rows.loops import RUN, dot, parted_dot, parts

# Rows of a program: one warp, so that it ends as soon as its own rows have settled.
_ROWS = 32
# Conjugate gradients between rounds of coordinate steps.
_FURTHER = 8
_TILE_ROWS = 64
# Rows of a tile over which sums of the matrix units are as good as rounded to nearest.
_SUM_ROWS = 16


@triton.jit
def _column(Q, part, j, lane, known, stride):
    """Return column j of each row's matrix, (K, ROWS), of packed lower triangles."""
    low, high = tl.minimum(part, j), tl.maximum(part, j)
    entry = (high * (high + 1) // 2 + low).to(tl.int64)
    return tl.load(Q + entry[:, None] * stride + lane[None, :], mask=known, other=0.0)


@triton.jit
def _picked(a, part, j):
    return tl.sum(tl.where((part == j)[:, None], a, 0.0), axis=0)


@triton.jit
def _one_step(Q, h, slope, gain, active, part, j, lane, known, stride):
    """Move coordinate j of every row to its minimum, or to 0."""
    q = _column(Q, part, j, lane, known, stride)
    curve, old = _picked(q, part, j), _picked(h, part, j)
    new = tl.maximum(old - _picked(slope, part, j) / tl.where(curve > 0, curve, 1.0), 0.0)
    step = tl.where(active & (curve > 0), new - old, 0.0)
    h = tl.where((part == j)[:, None], (old + step)[None, :], h)
    return h, slope + q * step[None, :], gain + curve * step * step


@triton.jit
def _times(Q, way, part, lane, known, stride, k):
    """Return each row's matrix times its vector."""
    product = tl.zeros_like(way)
    for j in range(k):
        product += _column(Q, part, j, lane, known, stride) * _picked(way, part, j)[None, :]
    return product


@triton.jit
def _settle(
    Q, h, slope, least, active, part, lane, known, stride, k, rounds, turns, most, tiny
):  # fmt: skip
    """Return h and which rows are still active after rounds of clipped steps: see `_box_loops.minimise_each`."""
    own = tl.zeros_like(h)
    turn = 0
    while (turn < rounds) & (tl.max(active.to(tl.int32), axis=0) > 0):
        gain = tl.zeros_like(least)
        for j in range(k):
            h, slope, gain = _one_step(Q, h, slope, gain, active, part, j, lane, known, stride)
        active = active & (gain > least)
        turn += 1
        if (turn % turns == 0) & (tl.max(active.to(tl.int32), axis=0) > 0):
            # Those that are not 0 together, by conjugate gradients, until the first one is 0.
            at = (part * (part + 3) // 2)[:, None].to(tl.int64) * stride + lane[None, :]
            own = tl.load(Q + at, mask=known, other=1.0)
            own = tl.where(own > 0, own, 1.0)
            free = (h > 0) & active[None, :]
            rest = tl.where(free, -slope, 0.0)
            way = rest / own
            move = tl.zeros_like(h)
            turned = tl.zeros_like(h)
            size = tl.sum(rest * way, axis=0)
            first = size
            further = 0
            while (further < most) & (tl.max((size > tiny * first).to(tl.int32), axis=0) > 0):
                further += 1
                product = _times(Q, way, part, lane, known, stride, k)
                bend = tl.sum(way * product, axis=0)
                going = (bend > 0) & (size > tiny * first)
                share = tl.where(going, size / tl.where(bend > 0, bend, 1.0), 0.0)
                move += share[None, :] * way
                turned += share[None, :] * product
                rest -= tl.where(free, share[None, :] * product, 0.0)
                ahead = tl.sum(rest * rest / own, axis=0)
                again = tl.where(going, ahead / tl.where(size > 0, size, 1.0), 0.0)
                way = tl.where(going[None, :], rest / own + again[None, :] * way, 0.0)
                size = tl.where(going, ahead, 0.0)
            limit = tl.where(move < 0, -h / tl.where(move < 0, move, 1.0), 1.0)
            reach = tl.minimum(tl.min(limit, axis=0), 1.0)[None, :]
            h = tl.maximum(h + reach * move, 0.0)
            slope += reach * turned
    return h, active


# Nothing is known of n, so that neighbouring threads load neighbouring rows, and each thread has a row of its own.
@triton.jit(do_not_specialize=["n"])
def _own_matrices(
    Q, H, slopes, enough, settled, n, k, rounds, turns, most, tiny,
    ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    here = row < n
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * n + row[None, :]
    h = tl.load(H + at, mask=known, other=0.0)
    slope = tl.load(slopes + at, mask=known, other=0.0)
    least = tl.load(enough + row, mask=here, other=0.0)
    h, active = _settle(Q, h, slope, least, here, part, row, known, n, k, rounds, turns, most, tiny)
    tl.store(H + at, h, mask=known)
    tl.store(settled + row, 1 - active.to(tl.int8), mask=here)


@triton.jit(do_not_specialize=["n"])
def _one_matrix(
    Q, inverse, P, H, settled, n, k, tol, rounds, turns, most, tiny,
    FREE: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    here = row < n
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * n + row[None, :]
    p = tl.load(P + at, mask=known, other=0.0)
    lane = tl.arange(0, ROWS)
    free = _times(inverse, p, part, lane, known, ROWS, k)
    least = 0.5 * tol * tl.sum(free * p, axis=0)
    h = tl.zeros_like(p)
    if FREE:
        h = tl.maximum(free, 0.0)
    slope = _times(Q, h, part, lane, known, ROWS, k) - p
    h, active = _settle(Q, h, slope, least, here, part, lane, known, ROWS, k, rounds, turns, most, tiny)
    tl.store(H + at, h, mask=known)
    tl.store(settled + row, 1 - active.to(tl.int8), mask=here)


@triton.jit(do_not_specialize=["n"])
def _hals(
    Q, P, H, n, k, rounds,
    ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    here = row < n
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * n + row[None, :]
    h = tl.load(H + at, mask=known, other=0.0)
    lane = tl.arange(0, ROWS)
    slope = _times(Q, h, part, lane, known, ROWS, k) - tl.load(P + at, mask=known, other=0.0)
    least = tl.sum(tl.zeros_like(h), axis=0) - 1.0  # nothing is enough
    h, _ = _settle(Q, h, slope, least, here, part, lane, known, ROWS, k, rounds, rounds + 1, 0, 0.0)
    tl.store(H + at, h, mask=known)


@triton.jit
def _multiplied(
    H, numerator, high, low, weights, further_high, further_low, out, n, k, floor,
    WEIGHTED: tl.constexpr, ROUNDS: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    known = (row < n)[:, None] & (part < k)[None, :]
    at = row[:, None] * k + part[None, :]
    h = tl.load(H + at, mask=known, other=0.0)
    above = tl.load(numerator + at, mask=known, other=0.0)
    square = part[None, :] * K + part[:, None]  # the matrices are symmetric
    for _ in tl.static_range(ROUNDS):
        below = parted_dot(h, tl.load(high + square), tl.load(low + square))
        if WEIGHTED:
            weight = tl.load(weights + row, mask=row < n, other=0.0)
            product = parted_dot(h, tl.load(further_high + square), tl.load(further_low + square))
            below += weight[:, None] * product
        h = h * above / tl.maximum(below, floor)
    tl.store(out + at, h, mask=known)


@triton.jit
def _labelled(
    H, P, high, low, T, A, further_high, further_low, out, squares, n, k, lam, floor, run,
    ROUNDS: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    part, code = tl.arange(0, K), tl.arange(0, C)
    square = part[None, :] * K + part[:, None]  # the matrices are symmetric
    gram = tl.zeros((K, K), tl.float32)
    own = tl.zeros((K, K), tl.float32)
    cross = tl.zeros((K, C), tl.float32)
    program = tl.program_id(0).to(tl.int64)
    for first in range(0, run, ROWS):
        row = program * run + first + tl.arange(0, ROWS)
        known = (row < n)[:, None] & (part < k)[None, :]
        at = row[:, None] * k + part[None, :]
        h = tl.load(H + at, mask=known, other=0.0)
        above = tl.load(P + at, mask=known, other=0.0)
        label = tl.load(T + row, mask=row < n, other=-1.0)
        has = label >= 0
        some = tl.max(has.to(tl.int32), axis=0) > 0
        if some:
            pull = A + label.to(tl.int32)[:, None] * K + part[None, :]
            above += lam * tl.load(pull, mask=has[:, None], other=0.0)
        for _ in tl.static_range(ROUNDS):
            below = parted_dot(h, tl.load(high + square), tl.load(low + square))
            if some:
                product = parted_dot(h, tl.load(further_high + square), tl.load(further_low + square))
                below += tl.where(has, lam, 0.0)[:, None] * product
            h = h * above / tl.maximum(below, floor)
        tl.store(out + at, h, mask=known)
        gram += dot(tl.trans(h), h)
        if some:
            labelled = tl.where(has[:, None], h, 0.0)
            own += dot(tl.trans(labelled), h)
            cross += dot(tl.trans(labelled), (label[:, None] == code[None, :]).to(tl.float32))
    at = program * K * (2 * K + C) + part[:, None] * (2 * K + C)
    tl.store(squares + at + part[None, :], gram)
    tl.store(squares + at + K + part[None, :], own)
    tl.store(squares + at + 2 * K + code[None, :], cross)


def clipped_steps(Q: Any, H: Any, slopes: Any, enough: Any, rounds: int, turns: int) -> tuple[Any, Any]:
    """Return H (m, k) after rounds of clipped steps, and which rows have settled.

    Q (k (k + 1) / 2, m) holds the lower triangle of each row's matrix. Every so many ``turns`` the variables that are
    not 0 are moved together; never where that is more than ``rounds``.
    """
    n, k = H.shape
    H = H.T.clone(memory_format=torch.contiguous_format)
    settled = torch.empty(n, dtype=torch.int8, device=H.device)
    _own_matrices[(triton.cdiv(n, _ROWS),)](
        Q.contiguous(), H, slopes.T.contiguous(), enough.contiguous(), settled, n, k, rounds, turns,
        min(k, _FURTHER), _tiny(H), **_sizes(k),
    )  # fmt: skip
    return H.T.contiguous(), settled > 0


def nonnegative_rows(
    P: Any, Q: Any, inverse: Any, tol: float, rounds: int, turns: int, *, from_free: bool
) -> tuple[Any, Any]:
    """Return the h >= 0 of least 1/2 h'Qh - p'h for each row p of P, and which rows have settled.

    A row has when a round gains no more than ``tol`` of what the solution without bounds does; ``from_free`` starts
    from that solution, otherwise from 0.
    """
    n, k = P.shape
    H = torch.empty((k, n), dtype=P.dtype, device=P.device)
    settled = torch.empty(n, dtype=torch.int8, device=P.device)
    _one_matrix[(triton.cdiv(n, _ROWS),)](
        _copies(Q), _copies(inverse), P.T.contiguous(), H, settled, n, k, tol, rounds, turns,
        min(k, _FURTHER), _tiny(H), FREE=from_free, **_sizes(k),
    )  # fmt: skip
    return H.T.contiguous(), settled > 0


def hals_rows(H: Any, P: Any, Q: Any, rounds: int) -> Any:
    """Return H after rounds in which each column minimises 1/2 tr(HQH') - tr(P'H), clipped at 0."""
    n, k = H.shape
    H = H.T.clone(memory_format=torch.contiguous_format)
    _hals[(triton.cdiv(n, _ROWS),)](_copies(Q), P.T.contiguous(), H, n, k, rounds, **_sizes(k))
    return H.T.contiguous()


def multiplied_rows(
    H: Any, numerator: Any, Q: Any, weights: Any, further: Any, rounds: int, floor: float
) -> Any:
    """Return H after rounds of H * numerator / (H Q + weights H further), float32; ``weights`` may be None."""
    (n, k), K = H.shape, max(16, triton.next_power_of_2(H.shape[1]))
    out = torch.empty_like(H, memory_format=torch.contiguous_format)
    weighted, near = weights is not None, parts(Q, K, width=K)
    far = parts(further, K, width=K) if weighted else near
    _multiplied[(triton.cdiv(n, _TILE_ROWS),)](
        H.contiguous(), numerator.contiguous(), *near, weights.contiguous() if weighted else H, *far,
        out, n, k, floor, WEIGHTED=weighted, ROUNDS=rounds, ROWS=_TILE_ROWS, K=K,
    )  # fmt: skip
    return out


def labelled_rows(
    H: Any, P: Any, Q: Any, T: Any, A: Any, lam: float, rounds: int, floor: float
) -> tuple[Any, Any, Any, Any]:
    """Return H after rounds of H * (P + lam Y A') / (H Q + lam H_l A A'), H'H, H_l'H_l and H_l'Y.

    T are the codes of the labels, -1 where there is none: of the rows of H_l the others are 0. A is (k, c). Sums are
    in float64.
    """
    (n, k), c, K = H.shape, A.shape[1], max(16, triton.next_power_of_2(H.shape[1]))
    C, n_runs = max(16, triton.next_power_of_2(c)), triton.cdiv(n, RUN)
    out = torch.empty_like(H, memory_format=torch.contiguous_format)
    sums = torch.empty((n_runs, K, 2 * K + C), dtype=H.dtype, device=H.device)
    near, far = (parts(M, K, width=K) for M in (Q, A @ A.T))
    _labelled[(n_runs,)](
        H.contiguous(), P.contiguous(), *near, T.contiguous(), torch.nn.functional.pad(A.T, (0, K - k)).contiguous(),
        *far, out, sums, n, k, lam, floor, RUN, ROUNDS=rounds, ROWS=_SUM_ROWS, K=K, C=C, num_warps=1,
    )  # fmt: skip
    total = torch.sum(sums, 0, dtype=torch.float64)[:k]
    return out, total[:, :k], total[:, K : K + k], total[:, 2 * K : 2 * K + c]


def _copies(Q: Any) -> Any:
    """Return the lower triangle of a matrix, packed, a copy for each row of a program.

    So threads load neighbouring numbers, as they do where each row has its own.
    """
    i, j = torch.tril_indices(*Q.shape, device=Q.device)
    return Q[i, j][:, None].repeat(1, _ROWS)


def _tiny(H: Any) -> float:
    return 1e-20 if H.dtype == torch.float64 else 1e-12


def _sizes(k: int) -> dict[str, Any]:
    """Return what a loop with a row in each thread is compiled for."""
    return {"ROWS": _ROWS, "K": triton.next_power_of_2(k), "num_warps": _ROWS // 32}
