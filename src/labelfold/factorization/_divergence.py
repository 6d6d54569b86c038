r"""Sums of the I-divergence over rows, for each kind of block, and rows of H of minimum divergence.

.. math:: D(A, B) = \sum_{ij} A_{ij} \log \frac{A_{ij}}{B_{ij}} - A_{ij} + B_{ij}

With R = X / (H V') a pass needs R V, a row result, and the sums R'H and D(X, H V'). Sparse rows have loops of their
own over the non-zeros. Dense rows are computed by functions of the array API, on a GPU by its own loops if it has
them. `kernels` returns the functions for a block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from labelfold.factorization._device_rows import divergence_rows
from labelfold.rows import (
    ArrayTerm,
    Block,
    Rows,
    as_rows,
    dense_block_rows,
    for_gpu_loops,
    in_float64,
    n_threads,
    on_accelerator,
    to_device,
    to_host,
)

# Precision: the gap at which a row stops. It is small: near the minimum h has half of the digits of the divergence.
EXACT_GAP = 1e-8
# Budget: bytes of temporary arrays of Newton steps for rows on a device.
_NEWTON_BYTES = 2_000_000_000


def divergence(X: Any, H: np.ndarray, V: np.ndarray) -> float:
    """Return D(X, H V') in one pass over X.

    >>> divergence(np.array([[1.0, 0.0]]), np.array([[1.0]]), np.array([[1.0], [0.5]]))
    0.5
    """
    rows = as_rows(X)
    return sum_of_divergences(rows, np.asarray(H, rows.dtype), np.ascontiguousarray(V))


def sum_of_divergences(rows: Rows, H: Any, V: np.ndarray) -> float:
    """Return D(X, H V') in one pass, with an H that is stored with the rows."""
    return float(rows.sum(kl_sums, H, shared=(V, V.sum(axis=0)))[1])


def kl_rows(X: Block, H: Any, V: Any) -> Any:
    """Return R V (m, k), a row result."""
    return kernels(X).rows(H, V)


def kl_sums(X: Block, H: Any, V: Any, v: Any) -> tuple[Any, Any]:
    """Return R'H (d, k) and the divergence, sums over rows; v has the column sums of V."""
    return kernels(X).sums(H, V, v)


def solve_rows(X: Block, V: Any, v: Any, tol: float, max_sweeps: int) -> Any:
    """Return H (m, k), the rows of minimum divergence for a fixed V (d, k) with column sums v.

    Each row stops when its gap is within 1e-8, or within ``tol`` if it converges slowly. It is computed in double
    precision, by compiled loops on the host, and for dense rows by functions of the array API on other devices.
    """
    return kernels(X).solve(V, v, tol, max_sweeps)


def kernels(X: Any) -> Kernels:
    """Return the functions of a block: the fastest loops differ for dense rows, sparse rows and rows of a device."""
    kinds = {
        "dense": Kernels,
        "sparse": SparseKernels,
        "device": DeviceKernels,
        "sparse device": SparseDeviceKernels,
    }
    return kinds[X.kind](X)


class Kernels:
    """Functions of dense rows, by the array API."""

    def __init__(self, X: Any) -> None:
        self.X = X

    def rows(self, H: Any, V: Any) -> Any:
        """Return R V."""
        return array_ratios(self.X.xp, self.X.raw, H, V)[0] @ V

    def sums(self, H: Any, V: Any, v: Any) -> tuple[Any, Any]:
        """Return R'H, in the dtype of X, and the divergence."""
        R, P = array_ratios(self.X.xp, self.X.raw, H, V)
        return ArrayTerm(R.T @ H), block_divergence(self.X.xp, self.X.raw, P, R)

    def solve(self, V: Any, v: Any, tol: float, max_sweeps: int) -> Any:
        """Return the rows of minimum divergence, by compiled loops."""
        from labelfold.factorization import _divergence_loops as loops

        return loops.solve_rows(self.X.raw, V, v, tol, max_sweeps).astype(self.X.dtype, copy=False)

    def extrapolated(self, H: Any, last: Any, beta: float, max_fall: float) -> Any:
        """Return H extrapolated by ``beta`` times its last change; entries fall by at most the share ``max_fall``."""
        from labelfold.factorization import _divergence_loops as loops

        return loops.extrapolated(H, last, H.dtype.type(beta), H.dtype.type(max_fall)) if beta else H

    def scaled(self, H: Any, factors: Any, divisor: Any) -> Any:
        """Return H * factors / divisor, with positive entries above the minimum share; may write to ``factors``."""
        from labelfold.factorization import _divergence_loops as loops

        share = H.dtype.type(minimum_share(H.dtype))
        return loops.scaled(H, factors, divisor.astype(H.dtype, copy=False), share)


class SparseKernels(Kernels):
    """Functions of sparse rows on the host: ratios at the non-zeros, and the products of sparse rows."""

    def rows(self, H: Any, V: Any) -> Any:
        """Return R V."""
        return self._ratios(H, V) @ V

    def sums(self, H: Any, V: Any, v: Any) -> tuple[Any, Any]:
        """Return R'H, in the dtype of X, and the divergence."""
        R, x = self._ratios(H, V), self.X.data
        logs = np.log(np.where(x > 0, R.data, 1), dtype=np.float64)
        at_nonzeros = float(logs @ x) - float(x.sum(dtype=np.float64))
        return R.t(H), at_nonzeros + float(total(H, axis=0) @ np.asarray(v, dtype=np.float64))

    def _ratios(self, H: Any, V: Any) -> Any:
        """Return R = X / (H V') at the non-zeros of X, as a block."""
        from labelfold.factorization import _divergence_loops as loops

        X, lowest = self.X, np.array(floor(H.dtype), dtype=H.dtype)
        H, V = np.ascontiguousarray(H), np.ascontiguousarray(V)
        return X.with_values(loops.csr_ratios(X.data, X.indices, X.indptr, H, V, lowest))


class DeviceKernels(Kernels):
    """Functions of rows on a device, by loops compiled for a GPU where these take the arrays."""

    def rows(self, H: Any, V: Any) -> Any:
        """Return R V."""
        X = self.X
        loops = _gpu_loops(X, H, V)
        if loops is not None:
            return loops.ratio_rows(X.raw, H, V, floor(X.raw.dtype))
        return super().rows(H, V)

    def sums(self, H: Any, V: Any, v: Any) -> tuple[Any, Any]:
        """Return R'H and the divergence."""
        X = self.X
        loops = _gpu_loops(X, H, V)
        if loops is not None:
            sums, loss = loops.ratio_sums(X.raw, H, V, floor(X.raw.dtype))
            return ArrayTerm(sums), loss
        return super().sums(H, V, v)

    def solve(self, V: Any, v: Any, tol: float, max_sweeps: int) -> Any:
        """Return the rows of minimum divergence, some blocks at a time; of arrays on the host by its loops."""
        xp, raw, (m, d), k = self.X.xp, self.X.raw, self.X.shape, V.shape[1]
        if on_accelerator(raw):
            wide, found = in_float64(xp, V), []
            step = max(1, int(_NEWTON_BYTES / (8 * (6 * d + 4 * k * k))))
            for start in range(0, m, step):
                some = in_float64(xp, raw[start : min(start + step, m), ...])
                H = divergence_rows(some, wide, min(tol, EXACT_GAP), min(max_sweeps, 50))
                found.append(xp.astype(H, self.X.dtype, copy=False))
            return xp.concat(found, axis=0)
        V = to_host(V)
        H = np.empty((m, k), dtype=V.dtype)
        shared, step = (V, to_host(v), tol, max_sweeps), n_threads() * dense_block_rows(8 * d)
        for start in range(0, m, step):
            some = slice(start, min(start + step, m))
            H[some] = as_rows(to_host(raw[some, ...])).map(solve_rows, shared=shared)
        return to_device(xp, H, device(raw))

    def extrapolated(self, H: Any, last: Any, beta: float, max_fall: float) -> Any:
        """Return H extrapolated."""
        return extrapolated(H, last, beta, max_fall)

    def scaled(self, H: Any, factors: Any, divisor: Any) -> Any:
        """Return H * factors / divisor, with positive entries above the minimum share."""
        xp = array_namespace(H)
        H = H * factors / divisor[None, :]
        minimum = minimum_share(H.dtype) * xp.max(H, axis=1, keepdims=True)
        return xp.where(H > 0, xp.maximum(H, minimum), H)


class SparseDeviceKernels(DeviceKernels):
    """Functions of sparse rows on a device: sums make the rows dense, new rows are solved on the host."""

    def solve(self, V: Any, v: Any, tol: float, max_sweeps: int) -> Any:
        """Return the rows of minimum divergence, by the loops over the non-zeros."""
        H = as_rows(self.X.host()).map(solve_rows, shared=(to_host(V), to_host(v), tol, max_sweeps))
        return to_device(self.X.xp, H, device(V))


def extrapolated(H: Any, last: Any, beta: float, max_fall: float) -> Any:
    """Return the extrapolation of an array of any library."""
    xp = array_namespace(H)
    return H + xp.maximum(beta * (H - last), -max_fall * H) if beta else H


def _gpu_loops(X: Block, H: Any, V: Any) -> Any:
    """Return the module of loops compiled for a GPU, if they take these arrays; else None."""
    if not for_gpu_loops(X.raw, H, V):
        return None
    from labelfold.factorization import _triton_ratios

    return _triton_ratios


def array_ratios(xp: Any, X: Any, H: Any, V: Any) -> tuple[Any, Any]:
    """Return R = X / P, and P = H V' above its floor, by functions of the array API."""
    share, tiny = floor(X.dtype)
    P = xp.maximum(H @ V.T, xp.maximum(X * share, xp.full_like(X, tiny)))
    return X / P, P


def block_divergence(xp: Any, X: Any, P: Any, R: Any) -> Any:
    """Return the sum of x log(x/p) - x + p, with 0 log 0 = 0."""
    return total(X * xp.log(xp.where(X > 0, R, xp.ones_like(R))) + (P - X))


def total(A: Any, axis: int | None = None) -> Any:
    """Return the sum of an array of any library, in float64 if its device has it."""
    xp = array_namespace(A)
    try:
        return xp.sum(A, axis=axis, dtype=xp.float64)
    except (TypeError, RuntimeError):
        return xp.sum(A, axis=axis)


def floor(dtype: Any) -> tuple[float, float]:
    """Return the lower bound of a modelled value: a share of the value, and nearly the smallest positive number."""
    return (1e-20, 1.2e-38) if "32" in str(dtype) else (1e-200, 2.3e-308)


def minimum_share(dtype: Any) -> float:
    """Return the smallest positive entry of V relative to its mean, and of H relative to the largest of its row.

    Smaller entries recover slowly and become denormal numbers, which are slow. Zeros stay zeros.
    """
    return 1e-12 if "32" in str(dtype) else 1e-20
