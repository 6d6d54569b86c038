"""Loops compiled for a GPU, for operations that would otherwise write an n x d array each.

Triton compiles them on first use. They take float32 tensors; the array functions that they replace take all.

=======================  ===============================================================================
``product``              X M (m, k) for a narrow M
``ratio_rows``           R V (m, k), R = X / (H V'): X is read once, and H V' is never stored
``ratio_sums``           R'H (d, k), and the I-divergence, in the same way
``newton_terms``         the terms of a Newton step for the factors of new rows
``clipped_steps``        coordinate steps towards the h >= 0 of least 1/2 h'Qh - p'h, for each row
=======================  ===============================================================================
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Products of float32 on the matrix units, in three parts, with the precision of float32.
_PRODUCTS = "tf32x3"
# Rows and columns of a tile, and the number of rows whose sums are kept in float32 before they are added in float64.
_ROWS, _COLUMNS, _RUN = 64, 64, 4096
_STEP_ROWS = 32
_NARROW = 16
# Number of conjugate gradient steps between rounds of coordinate steps.
_FURTHER = 8
_WARPS, _STAGES = 4, 3


@triton.jit
def _product(
    X, M, out, n, d, k, stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    total = tl.zeros((ROWS, K), tl.float32)
    for first in range(0, d, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = (row < n)[:, None] & (column < d)[None, :]
        x = tl.load(X + row[:, None] * stride + column[None, :], mask=inside, other=0.0)
        used = (column < d)[:, None] & (part < k)[None, :]
        m = tl.load(M + column[:, None] * k + part[None, :], mask=used, other=0.0)
        total += tl.dot(x, m, input_precision=PRODUCTS)  # the matrix units do not round sums to nearest
    known = (row < n)[:, None] & (part < k)[None, :]
    tl.store(out + row[:, None] * k + part[None, :], total, mask=known)


@triton.jit
def _log(r):
    """Return the logarithm by the device's instruction; its error is below the rounding of the sum."""
    return 0.6931471805599453 * tl.inline_asm_elementwise(
        "lg2.approx.f32 $0, $1;", "=f,f", [r], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _ratios(x, h, v, share, least, PRODUCTS: tl.constexpr):
    p = tl.dot(h, tl.trans(v), input_precision=PRODUCTS)
    p = tl.maximum(tl.maximum(p, x * share), least)
    return p, x / p


@triton.jit
def _ratio_rows(
    X, H, V, out, n, d, k, stride, share, least,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    known = (row < n)[:, None] & (part < k)[None, :]
    h = tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0)
    total = tl.zeros((ROWS, K), tl.float32)
    for first in range(0, d, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = (row < n)[:, None] & (column < d)[None, :]
        x = tl.load(X + row[:, None] * stride + column[None, :], mask=inside, other=0.0)
        used = (column < d)[:, None] & (part < k)[None, :]
        v = tl.load(V + column[:, None] * k + part[None, :], mask=used, other=0.0)
        _, r = _ratios(x, h, v, share, least, PRODUCTS)
        total = tl.dot(r, v, total, input_precision=PRODUCTS)
    tl.store(out + row[:, None] * k + part[None, :], total, mask=known)


@triton.jit
def _newton_terms(
    X, H, V, out, logs, curves, n, d, k, stride, share, least,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    known = (row < n)[:, None] & (part < k)[None, :]
    h = tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0)
    total = tl.zeros((ROWS, K), tl.float32)
    loss = tl.zeros((ROWS,), tl.float32)
    for first in range(0, d, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = (row < n)[:, None] & (column < d)[None, :]
        x = tl.load(X + row[:, None] * stride + column[None, :], mask=inside, other=0.0)
        used = (column < d)[:, None] & (part < k)[None, :]
        v = tl.load(V + column[:, None] * k + part[None, :], mask=used, other=0.0)
        p, r = _ratios(x, h, v, share, least, PRODUCTS)
        total = tl.dot(r, v, total, input_precision=PRODUCTS)
        loss += tl.sum(tl.where(x > 0, x * _log(r), 0.0), axis=1)
        tl.store(curves + row[:, None] * d + column[None, :], r / p, mask=inside)
    tl.store(out + row[:, None] * k + part[None, :], total, mask=known)
    tl.store(logs + row, loss, mask=row < n)


@triton.jit
def _ratio_sums(
    X, H, V, sums, losses, n, d, k, stride, share, least, run,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, K)
    used = (column < d)[:, None] & (part < k)[None, :]
    v = tl.load(V + column[:, None] * k + part[None, :], mask=used, other=0.0)
    total = tl.zeros((COLUMNS, K), tl.float32)
    loss = tl.zeros((COLUMNS,), tl.float32)
    begin = tl.program_id(0).to(tl.int64) * run
    for first in range(0, run, ROWS):
        row = begin + first + tl.arange(0, ROWS)
        # Tiles are transposed here, so that ratios can be multiplied without a further transposition.
        inside = (column < d)[:, None] & (row < n)[None, :]
        x = tl.load(X + row[None, :] * stride + column[:, None], mask=inside, other=0.0)
        known = (row < n)[:, None] & (part < k)[None, :]
        h = tl.load(H + row[:, None] * k + part[None, :], mask=known, other=0.0)
        p, r = _ratios(x, v, h, share, least, PRODUCTS)
        total = tl.dot(r, h, total, input_precision=PRODUCTS)
        loss += tl.sum(tl.where(x > 0, x * _log(r), 0.0) + (p - x), axis=1)
    at = tl.program_id(0).to(tl.int64) * d + column
    tl.store(sums + at[:, None] * k + part[None, :], total, mask=used)
    tl.store(losses + at, loss, mask=column < d)


@triton.jit
def _column(Q, part, j, row, known, n):
    """Return column j of each row's matrix, (K, ROWS)."""
    low, high = tl.minimum(part, j), tl.maximum(part, j)
    entry = (high * (high + 1) // 2 + low).to(tl.int64)
    return tl.load(Q + entry[:, None] * n + row[None, :], mask=known, other=0.0)


@triton.jit
def _coordinate_steps(
    Q, H, slopes, enough, settled, n, k, rounds, turns, most, tiny,
    ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Take clipped steps from H (k, n), where the gradient is ``slopes``: see `_place_loops.clipped_steps`."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, K)
    here = row < n
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * n + row[None, :]
    h = tl.load(H + at, mask=known, other=0.0)
    slope = tl.load(slopes + at, mask=known, other=0.0)
    own = tl.load(
        Q + (part * (part + 1) // 2 + part)[:, None].to(tl.int64) * n + row[None, :], mask=known, other=1.0
    )
    own = tl.where(own > 0, own, 1.0)
    least = tl.load(enough + row, mask=here, other=0.0)
    active = here
    turn = 0
    while (turn < rounds) & (tl.max(active.to(tl.int32), axis=0) > 0):
        gain = tl.zeros_like(least)
        for j in range(k):
            q = _column(Q, part, j, row, known, n)
            picked = (part == j)[:, None]
            curve = tl.sum(tl.where(picked, q, 0.0), axis=0)
            old = tl.sum(tl.where(picked, h, 0.0), axis=0)
            down = tl.sum(tl.where(picked, slope, 0.0), axis=0)
            new = tl.where(curve > 0, tl.maximum(old - down / tl.where(curve > 0, curve, 1.0), 0.0), old)
            step = tl.where(active, new - old, 0.0)
            h = tl.where(picked, (old + step)[None, :], h)
            slope += q * step[None, :]
            gain += curve * step * step
        active = active & (gain > least)
        turn += 1
        if turn % turns == 0:
            # A joint step of the variables that are not 0, by conjugate gradients, until the first one is 0.
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
                product = tl.zeros_like(h)
                for j in range(k):
                    along = tl.sum(tl.where((part == j)[:, None], way, 0.0), axis=0)
                    product += _column(Q, part, j, row, known, n) * along[None, :]
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
    tl.store(H + at, h, mask=known)
    tl.store(settled + row, 1 - active.to(tl.int8), mask=here)


def takes(k: int) -> bool:
    """Return whether products with k columns are so narrow that the loops are faster than the library's product."""
    return 2 <= k <= _NARROW


def product(X: Any, M: Any) -> Any:
    """Return X M for a narrow M."""
    (n, d), k = X.shape, M.shape[1]
    M = _padded(M)
    out = torch.empty((n, M.shape[1]), dtype=X.dtype, device=X.device)
    _product[(triton.cdiv(n, _ROWS),)](X, M, out, n, d, M.shape[1], X.stride(0), **_tiles(M))
    return out[:, :k].contiguous()


def ratio_rows(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> Any:
    """Return R V."""
    (n, d), k = X.shape, V.shape[1]
    H, V = _padded(H), _padded(V)
    out = torch.empty_like(H)
    _ratio_rows[(triton.cdiv(n, _ROWS),)](X, H, V, out, n, d, V.shape[1], X.stride(0), *floor, **_tiles(V))
    return out[:, :k].contiguous()


def ratio_sums(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> tuple[Any, Any]:
    """Return R'H and the divergence, in float64."""
    (n, d), k = X.shape, V.shape[1]
    H, V = _padded(H), _padded(V)
    n_runs = triton.cdiv(n, _RUN)
    sums = torch.empty((n_runs, d, V.shape[1]), dtype=X.dtype, device=X.device)
    losses = torch.empty((n_runs, d), dtype=X.dtype, device=X.device)
    _ratio_sums[(n_runs, triton.cdiv(d, _COLUMNS))](
        X, H, V, sums, losses, n, d, V.shape[1], X.stride(0), *floor, _RUN, **_tiles(V)
    )
    return torch.sum(sums, 0, dtype=torch.float64)[:, :k], torch.sum(losses, dtype=torch.float64)


def newton_terms(X: Any, H: Any, V: Any, floor: tuple[float, float]) -> tuple[Any, Any, Any]:
    """Return R V (m, k), the sums of x log r of each row (m,), and R / P (m, d)."""
    (n, d), k = X.shape, V.shape[1]
    H, V = _padded(H), _padded(V)
    out, logs, curves = torch.empty_like(H), torch.empty_like(X[:, 0]), torch.empty_like(X)
    _newton_terms[(triton.cdiv(n, _ROWS),)](
        X, H, V, out, logs, curves, n, d, V.shape[1], X.stride(0), *floor, **_tiles(V)
    )
    return out[:, :k].contiguous(), logs, curves


def clipped_steps(Q: Any, H: Any, slopes: Any, enough: Any, rounds: int, turns: int) -> tuple[Any, Any]:
    """Return H (m, k) after rounds of clipped steps, and a mask of settled rows.

    Q (k (k + 1) / 2, m) holds the lower triangle of each row's matrix. After every ``turns`` rounds the variables
    that are not 0 are moved jointly; never if ``turns`` exceeds ``rounds``.
    """
    n, k = H.shape
    Q, H, slopes = Q.contiguous(), H.T.contiguous().clone(), slopes.T.contiguous()
    settled = torch.empty(n, dtype=torch.int8, device=H.device)
    tiny = 1e-20 if H.dtype == torch.float64 else 1e-12
    _coordinate_steps[(triton.cdiv(n, _STEP_ROWS),)](
        Q, H, slopes, enough.contiguous(), settled, n, k, rounds, turns, min(k, _FURTHER), tiny,
        ROWS=_STEP_ROWS, K=triton.next_power_of_2(k), num_warps=_STEP_ROWS // 32,
    )  # fmt: skip
    return H.T, settled > 0


def _padded(A: Any) -> Any:
    """Return A with columns of 0 up to the size of the tiles: that of the matrix units, or a multiple."""
    width = max(16, triton.next_power_of_2(A.shape[1]))
    return torch.nn.functional.pad(A, (0, width - A.shape[1])).contiguous()


def _tiles(A: Any) -> dict[str, Any]:
    """Return the sizes for which the loops are compiled."""
    sizes = {"ROWS": _ROWS, "COLUMNS": _COLUMNS, "K": A.shape[1], "PRODUCTS": _PRODUCTS}
    return {**sizes, "num_warps": _WARPS, "num_stages": _STAGES}
