"""Compiled for a GPU: small non-negative problems, one for each row and thread, solved by principal pivots.

The h >= 0 that minimises 1/2 h'Qh - b'h has a gradient y = Qh - b >= 0 with h'y = 0. With some of the h free and the
others 0, the free ones solve a linear system. All h and y that are negative change sides, and the system is solved
again; if they do not become fewer, only the last one does, by which no set of free ones comes back. Steps along the
coordinates would be many where Q is ill-conditioned; systems are not.

A matrix is a tuple of columns, of which a thread keeps the lower triangle in its registers: indices of all entries
are known when the loops are compiled.

References
----------
J. J. Judice, F. M. Pires. A block principal pivoting algorithm for large-scale strictly monotone linear
complementarity problems. Computers & Operations Research 21, 1994.
"""

# Triton adds tuples, but does not unpack them.
# ruff: noqa: RUF005, SIM108
# mypy: disable-error-code="assignment"

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

# The most components of a matrix that fits a thread's registers, and the rows of a program: a warp, which takes no
# part in barriers.
_MOST, _ROWS = 16, 32
# How often all negative ones may change sides without becoming fewer.
_PATIENCE = tl.constexpr(3)
# A pivot below this share of its diagonal entry is round-off.
_LEAST_PIVOT = tl.constexpr(1e-6)


@triton.jit
def _at(a, part, j: tl.constexpr):
    """Return entry j of each row's vector: a register, since sums of integers with 0 are left out."""
    whole: tl.constexpr = tl.int32 if a.dtype == tl.float32 else tl.int64
    kept = tl.where((part == j)[:, None], a.to(whole, bitcast=True), 0)
    return tl.sum(kept, axis=0).to(a.dtype, bitcast=True)


@triton.jit
def columns(Q, part, lane, known, stride, K: tl.constexpr):
    """Return the columns (K, ROWS) of packed lower triangles, with 0 above the diagonal."""
    found = ()
    for j in tl.static_range(K):
        entry = (part * (part + 1) // 2 + j).to(tl.int64)
        inside = known & (part >= j)[:, None]
        found = found + (tl.load(Q + entry[:, None] * stride + lane[None, :], mask=inside, other=0.0),)
    return found


@triton.jit
def _times(A, h, part, K: tl.constexpr):
    """Return each row's matrix times its vector."""
    product = tl.zeros_like(h)
    for j in tl.static_range(K):
        product += A[j] * _at(h, part, j)[None, :]
        below = tl.sum(tl.where((part > j)[:, None], A[j] * h, 0.0), axis=0)
        product = tl.where((part == j)[:, None], product + below[None, :], product)
    return product


@triton.jit
def _system(A, x, free, part, K: tl.constexpr):
    """Return the solution for the free variables, with 0 for the others, by a factorisation L D L'.

    A variable that is not free is no pivot. What is computed for it on the way enters no other.
    """
    left = A
    factor = ()
    inverse = ()
    for j in tl.static_range(K):
        pivot = _at(left[j], part, j)
        turned = tl.where(_at(free, part, j) * pivot > _LEAST_PIVOT * _at(A[j], part, j), 1.0 / pivot, 0.0)
        scaled = left[j] * turned[None, :]
        after = ()
        for m in tl.static_range(K):
            if m > j:
                after = after + (left[m] - _at(scaled, part, m)[None, :] * left[j],)
            else:
                after = after + (left[m],)
        left = after
        x = tl.where((part > j)[:, None], x - scaled * _at(x, part, j)[None, :], x)
        factor = factor + (scaled,)
        inverse = inverse + (turned,)
    for j in tl.static_range(K - 1, -1, -1):
        z = _at(x, part, j) * inverse[j]
        z -= tl.sum(tl.where((part > j)[:, None], factor[j] * x, 0.0), axis=0)
        z = tl.where(inverse[j] > 0, z, 0.0)
        x = tl.where((part == j)[:, None], z[None, :], x)
    return x


@triton.jit
def pivoted(
    Q, exact, h, slope, free, active, part, lane, known, stride, eps, most,
    CORRECTED: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Return h (K, ROWS) and the number of systems that led to it, from a point, its gradient, and what is free.

    The number is 0 for a row that is not solved, and where ``active`` is false.

    They are solved with Q; ``exact`` is the same matrix, perhaps in more digits, by which a solution is corrected.
    """
    b = tl.zeros_like(h)
    free = free.to(h.dtype)
    changed = active
    fewest = tl.sum(tl.zeros_like(h), axis=0).to(tl.int32) + (K + 1)
    patience, n_systems = fewest * 0 + _PATIENCE, fewest * 0
    turn, going = 0, 1
    while (turn <= most) & (going > 0):
        A = columns(Q, part, lane, known, stride, K)
        product = _times(A, h, part, K)
        if turn == 0:
            b = product - slope
        else:
            own = tl.zeros_like(h)
            for j in tl.static_range(K):
                own = tl.where((part == j)[:, None], A[j], own)
            # A gradient is as large as the step it leads to.
            size = tl.where(free > 0, h, (product - b) / tl.where(own > 0, own, 1.0))
            bad = (size < -eps * tl.max(tl.abs(size), axis=0)[None, :]) & known & changed[None, :]
            n_bad = tl.sum(bad.to(tl.int32), axis=0)
            changed = n_bad > 0
            patience = tl.where(n_bad < fewest, _PATIENCE, patience - 1)
            fewest = tl.minimum(fewest, n_bad)
            last = tl.max(tl.where(bad, part[:, None], -1), axis=0)
            other = bad & ((patience > 0)[None, :] | (part[:, None] == last[None, :]))
            free = tl.where(other, 1.0 - free, free)
        going = tl.max(changed.to(tl.int32), axis=0)
        right = b
        if CORRECTED:  # noqa: SIM102
            if going == 0:
                rest = _times(columns(exact, part, lane, known, stride, K), h.to(tl.float64), part, K)
                right = (b - rest).to(h.dtype)
        if (going > 0) | CORRECTED:
            found = _system(A, right, free, part, K)
            h = tl.where(changed[None, :], found, tl.where(going > 0, h, h + found))
            n_systems += tl.where(changed | (going == 0), 1, 0)
        turn += 1
    return tl.maximum(h, 0.0), tl.where(changed | ~active, 0, n_systems)


# Nothing is known of n, so that neighbouring threads load neighbouring rows, and each thread has a row of its own.
@triton.jit(do_not_specialize=["n"])
def _own_matrices(Q, H, slopes, systems, n, k, eps, most, ROWS: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = row < n
    part = tl.arange(0, K)
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * n + row[None, :]
    start = tl.load(H + at, mask=known, other=0.0)
    slope = tl.load(slopes + at, mask=known, other=0.0)
    h, times = pivoted(Q, Q, start, slope, start > 0, here, part, row, known, n, eps, most, False, K)
    tl.store(H + at, tl.where((times > 0)[None, :], h, start), mask=known)
    tl.store(systems + row, times.to(tl.int8), mask=here)


@triton.jit(do_not_specialize=["n", "width"])
def _one_matrix(
    Q, exact, P, H, systems, n, width, k, eps, most,
    CORRECTED: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = row < n
    part, lane = tl.arange(0, K), tl.arange(0, ROWS)
    known = (part < k)[:, None] & here[None, :]
    at = part[:, None].to(tl.int64) * n + row[None, :]
    slope = -tl.load(P + at, mask=known, other=0.0).to(Q.dtype.element_ty)
    # Of one matrix there is a copy for each row of a program, so that threads load neighbouring numbers.
    start = tl.zeros_like(slope)
    h, times = pivoted(
        Q, exact, start, slope, known, here, part, lane, known, width, eps, most, CORRECTED, K
    )  # fmt: skip
    tl.store(H + row[None, :] * k + part[:, None], h, mask=known)
    tl.store(systems + row, times.to(tl.int8), mask=here)


def takes(k: int) -> bool:
    """Return whether matrices of k components fit a thread's registers."""
    return k <= _MOST


def minimised(Q: Any, H: Any, slopes: Any) -> tuple[Any, Any]:
    """Return the minimum over h >= 0 of each row's quadratic, and the number of systems; rows with 0 of them stay.

    Q (k (k + 1) / 2, m) holds the lower triangle of each row's matrix; at H (m, k) the gradient is ``slopes``.
    """
    n, k = H.shape
    H = H.T.clone(memory_format=torch.contiguous_format)
    systems = torch.empty(n, dtype=torch.int8, device=H.device)
    _own_matrices[(triton.cdiv(n, _ROWS),)](
        Q.contiguous(), H, slopes.T.contiguous(), systems, n, k, precision(H.dtype), 4 * k, **sizes(k)
    )
    return H.T.contiguous(), systems


def nonnegative_rows(P: Any, Q: np.ndarray, *, single: bool, corrected: bool) -> tuple[Any, Any]:
    """Return the h >= 0 of least 1/2 h'Qh - p'h for each row p of P, and the number of systems: 0 if not solved.

    Systems are solved in float32, or in float64. If the solution is corrected, the last one is for its residuals in
    float64.
    """
    n, k = P.shape
    H = torch.empty((n, k), dtype=P.dtype, device=P.device)
    systems = torch.empty(n, dtype=torch.int8, device=P.device)
    packed = np.repeat(Q[np.tril_indices(k)][:, None], _ROWS, axis=1)
    exact = torch.from_numpy(packed.astype(np.float64)).to(P.device)
    rough = exact.to(torch.float32) if single else exact
    _one_matrix[(triton.cdiv(n, _ROWS),)](
        rough, exact, P.T.contiguous(), H, systems, n, _ROWS, k, precision(rough.dtype), 4 * k,
        CORRECTED=corrected, **sizes(k),
    )  # fmt: skip
    return H, systems


def precision(dtype: Any) -> float:
    """Return what counts as 0, relative to the largest."""
    return 1e-6 if dtype == torch.float32 else 1e-12


def sizes(k: int) -> dict[str, Any]:
    """Return what a loop with a row in each thread is compiled for."""
    return {"ROWS": _ROWS, "K": triton.next_power_of_2(k), "num_warps": 1}
