"""Compiled for a GPU: small non-negative problems, one for each row, solved by principal pivots.

The h >= 0 that minimises 1/2 h'Qh - b'h has a gradient y = Qh - b >= 0 with h'y = 0. A tableau gives some of the h
and y in terms of the others, which are 0. A pivot exchanges an h and its y, and those that are negative are exchanged
until none is. Steps along the coordinates would be many where Q is ill-conditioned; pivots are not.

References
----------
K. G. Murty. Note on a Bard-type scheme for solving the complementarity problem. Opsearch 11, 1974.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

# The most components of a tableau, and the bytes of the tableaus of a program: a warp has room for them in registers,
# and takes no part in barriers.
_MOST, _BYTES = 16, 8192


@triton.jit
def _exchanged(A, c, free, which, K: tl.constexpr):
    """Return the tableau, its constants and what is free after an exchange in each row; -1 stands for none."""
    i, j = tl.arange(0, K)[:, None, None], tl.arange(0, K)[None, :, None]
    own_row, own_column = i == which[None, None, :], j == which[None, None, :]
    here = tl.arange(0, K)[:, None] == which[None, :]
    row = tl.sum(tl.where(own_row, A, 0.0), axis=0)
    column = tl.sum(tl.where(own_column, A, 0.0), axis=1)
    pivot = tl.sum(tl.where(here, column, 0.0), axis=0)
    inverse = 1.0 / tl.where(pivot > 0, pivot, 1.0)
    constant = tl.sum(tl.where(here, c, 0.0), axis=0) * inverse
    row = row * inverse[None, :]
    A = A - column[:, None, :] * row[None, :, :]
    A = tl.where(own_row, -row[None, :, :], A)
    A = tl.where(own_column, (column * inverse[None, :])[:, None, :], A)
    A = tl.where(own_row & own_column, inverse[None, None, :], A)
    c = tl.where(here, -constant[None, :], c - column * constant[None, :])
    return A, c, free ^ here


@triton.jit
def _solved(A, c, free, own, eps, most, K: tl.constexpr):
    """Return the tableau, h (K, ROWS), what is free and which rows are solved, after exchanges of negative ones."""
    part = tl.arange(0, K)[:, None]
    n_negative = 1
    for turn in range(most):
        if n_negative > 0:
            # A gradient is as large as the step it leads to.
            size = tl.where(free, c, c / own)
            negative = size < -eps * tl.max(tl.abs(size), axis=0)[None, :]
            # The most negative one; after many turns the first one, by which no tableau comes back.
            rank = tl.where(turn < 2 * K, size, (part - K).to(size.dtype) + 0.0 * size)
            rank = tl.where(negative, rank, float("inf"))
            least = tl.min(rank, axis=0)
            which = tl.min(tl.where(rank == least[None, :], part, K), axis=0)
            found = least < float("inf")
            n_negative = tl.sum(found.to(tl.int32), axis=0)
            A, c, free = _exchanged(A, c, free, tl.where(found, which, -1), K)
    size = tl.where(free, c, c / own)
    low = tl.min(size + eps * tl.max(tl.abs(size), axis=0)[None, :], axis=0)
    return A, tl.where(free, tl.maximum(c, 0.0), 0.0), free, low >= 0


# Nothing is known of n, nor of the width below, so that a thread loads single numbers: neighbouring threads then have
# neighbouring rows, and sums over components are within a few threads.
@triton.jit(do_not_specialize=["n"])
def _own_matrices(Q, H, slopes, settled, n, k, eps, most, ROWS: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = row < n
    part = tl.arange(0, K)
    i, j = part[:, None, None], part[None, :, None]
    high, low = tl.maximum(i, j), tl.minimum(i, j)
    inside = (high < k) & here[None, None, :]
    A = tl.load(
        Q + (high * (high + 1) // 2 + low).to(tl.int64) * n + row[None, None, :], mask=inside, other=0.0
    )
    A = tl.where((i == j) & (A <= 0), 1.0, A)  # what has no curvature has no part in the others either
    across = tl.load(
        H + j.to(tl.int64) * n + row[None, None, :], mask=(j < k) & here[None, None, :], other=0.0
    )
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * n + row[None, :]
    start = tl.load(H + at, mask=known, other=0.0)
    own = tl.load(
        Q + (part * (part + 3) // 2)[:, None].to(tl.int64) * n + row[None, :], mask=known, other=1.0
    )
    own = tl.where(own > 0, own, 1.0)
    c = tl.load(slopes + at, mask=known, other=0.0) - tl.sum(A * across, axis=1)
    free = start < -1.0
    for t in range(k):
        positive = tl.max(tl.where(part[:, None] == t, start, 0.0), axis=0) > 0
        A, c, free = _exchanged(A, c, free, tl.where(positive, t, -1), K)
    _, h, _, good = _solved(A, c, free, own, eps, most, K)
    tl.store(H + at, tl.where(good[None, :], h, start), mask=known)
    tl.store(settled + row, good.to(tl.int8), mask=here)


@triton.jit
def _across(h, K: tl.constexpr):
    """Return h (K, ROWS) for use along the second axis of a tableau."""
    i, j = tl.arange(0, K)[:, None, None], tl.arange(0, K)[None, :, None]
    return tl.sum(tl.where(i == j, h[:, None, :], 0.0), axis=0)[None, :, :]


@triton.jit(do_not_specialize=["n", "width"])
def _one_matrix(
    Q,
    inverse,
    P,
    H,
    settled,
    n,
    width,
    k,
    eps,
    most,
    CORRECTIONS: tl.constexpr,
    ROWS: tl.constexpr,
    K: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = row < n
    part, lane = tl.arange(0, K), tl.arange(0, ROWS)
    i, j = part[:, None, None], part[None, :, None]
    # Of one matrix there is a copy for each row of a program, so that threads load neighbouring numbers.
    copy = (i * K + j) * width + lane[None, None, :]
    A = tl.load(inverse + copy)
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * n + row[None, :]
    p = tl.load(P + at, mask=known, other=0.0).to(tl.float64)
    across = tl.load(
        P + j.to(tl.int64) * n + row[None, None, :], mask=(j < k) & here[None, None, :], other=0.0
    )
    c = tl.sum(A * across.to(A.dtype), axis=1)
    own = tl.load(Q + (part * (K + 1) * width)[:, None] + lane[None, :]).to(A.dtype)
    A, h, free, good = _solved(A, c, (part < k)[:, None] & (lane >= 0)[None, :], own, eps, most, K)
    h = h.to(tl.float64)
    for _ in tl.static_range(CORRECTIONS):
        # The free part of the tableau is the inverse of that of Q, to a few digits.
        rest = p - tl.sum(tl.load(Q + copy) * _across(h, K), axis=1)
        rest = tl.where(free, rest, 0.0).to(A.dtype)
        h += tl.where(free, tl.sum(A * _across(rest, K), axis=1), 0.0).to(tl.float64)
    tl.store(H + at, tl.maximum(h, 0.0), mask=known)
    tl.store(settled + row, good.to(tl.int8), mask=here)


def takes(k: int) -> bool:
    """Return whether tableaus of k components fit a GPU's registers."""
    return k <= _MOST


def minimised(Q: Any, H: Any, slopes: Any) -> tuple[Any, Any]:
    """Return the minimum over h >= 0 of each row's quadratic, and which rows have one; the others stay.

    Q (k (k + 1) / 2, m) holds the lower triangle of each row's matrix; at H (m, k) the gradient is ``slopes``.
    """
    n, k = H.shape
    H = H.T.clone(memory_format=torch.contiguous_format)
    settled = torch.empty(n, dtype=torch.int8, device=H.device)
    eps, sizes = 1e-6 if H.dtype == torch.float32 else 1e-12, _sizes(k, Q.element_size())
    _own_matrices[(triton.cdiv(n, sizes["ROWS"]),)](
        Q.contiguous(), H, slopes.T.contiguous(), settled, n, k, eps, 4 * k, **sizes
    )
    return H.T.contiguous(), settled > 0


def nonnegative_rows(P: Any, Q: np.ndarray, inverse: np.ndarray, *, corrections: int) -> tuple[Any, Any]:
    """Return the h >= 0 of least 1/2 h'Qh - p'h for each row p of P, and which rows have been solved.

    From the solution without bounds: most rows are a few exchanges from theirs. Where the inverse is in float32, so
    is the tableau, and the solution is corrected by residuals in float64.
    """
    (n, k), sizes = P.shape, _sizes(P.shape[1], inverse.itemsize)
    H = torch.empty((k, n), dtype=P.dtype, device=P.device)
    settled = torch.empty(n, dtype=torch.int8, device=P.device)
    copies = []
    for A in (Q, inverse):
        whole = np.eye(sizes["K"], dtype=A.dtype)
        whole[:k, :k] = A
        copies.append(torch.from_numpy(np.repeat(whole[:, :, None], sizes["ROWS"], axis=2)).to(P.device))
    eps = 1e-6 if inverse.dtype == np.float32 else 1e-12
    _one_matrix[(triton.cdiv(n, sizes["ROWS"]),)](
        *copies,
        P.T.contiguous(),
        H,
        settled,
        n,
        sizes["ROWS"],
        k,
        eps,
        4 * k,
        CORRECTIONS=corrections,
        **sizes,
    )
    return H.T.contiguous(), settled > 0


def _sizes(k: int, n_bytes: int) -> dict[str, Any]:
    """Return what a loop is compiled for, where a number has so many bytes."""
    K = triton.next_power_of_2(k)
    return {"ROWS": min(32, _BYTES // (K * K * n_bytes)), "K": K, "num_warps": 1}
