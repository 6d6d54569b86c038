"""The I-divergence D(X, H V') of a block of rows and their model, and the sums of its multiplicative updates.

P = H V' is bounded below, because an entry that the factors cannot reach would give an infinite ratio. With R = X /
P, and v the column sums of V:

==============  =======================================================================
``kl_rows``     R V (m, k), the factor of H (divided by v)
``kl_sums``     R'H (d, k), the factor of V, and the divergence of the block
==============  =======================================================================

Dense blocks of any array library are computed here. The loops over sparse rows are in `_ratio_loops.py`, those for
float32 tensors on a GPU in `_triton_loops.py`, for sparse tensors there in `_triton_sparse.py`. `_place.py` finds the
H of new rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from labelfold.rows import Term, tiled


def kl_rows(X: Any, H: Any, V: Any) -> Any:
    """Return R V (m, k), a row result."""
    if X.is_sparse:
        from labelfold.factorization.kl import _ratio_loops as loops

        return loops.csr_ratio_rows(X.data, X.indices, X.indptr, H, V)
    if X.sparse_part is not None:
        from labelfold.factorization.kl import _triton_sparse as entry_loops

        return entry_loops.ratio_rows(X.sparse_part.entries, H, V, floor(V.dtype))
    if tiled(X.raw, H, V):
        from labelfold.factorization.kl import _triton_loops as gpu_loops

        return gpu_loops.ratio_rows(X.raw, H, V, floor(X.raw.dtype))
    return _ratios(X.xp, X.raw, H, V, with_loss=False)[0] @ V


def kl_sums(X: Any, H: Any, V: Any, v: Any) -> Term:
    """Return R'H (d, k) and the divergence, sums over rows."""
    if X.sparse_part is not None:
        return TensorRatioSums(X.xp, X.sparse_part, H, V)
    if not X.is_sparse:
        return DenseRatioSums(X.xp, X.raw, H, V)
    if X.transpose is not None:
        columns, first_row = X.transpose
        return GatheredRatioSums(columns, first_row, H, V, v)
    return SparseRatioSums(X, H, V, v)


class DenseRatioSums(Term):
    """R'H of dense rows, and their divergence."""

    def __init__(self, xp: Any, X: Any, H: Any, V: Any) -> None:
        self.parts = xp, X, H, V

    def add(self, total: list | None) -> list:
        """Add the block's sums."""
        sums, loss = self._sums()
        if total is None:
            return [sums, loss]
        if self.parts[0] is np:
            sums += total[0]
            return [sums, loss + total[1]]
        return [sums + total[0], loss + total[1]]

    def _sums(self) -> tuple[Any, Any]:
        xp, X, H, V = self.parts
        if tiled(X, H, V):
            from labelfold.factorization.kl import _triton_loops as loops

            return loops.ratio_sums(X, H, V, floor(X.dtype))
        R, loss = _ratios(xp, X, H, V, with_loss=True)
        return R.T @ H, loss

    @staticmethod
    def merge(left: list, right: list) -> list:
        """Add two workers' sums."""
        return [Term.merge(left[0], right[0]), left[1] + right[1]]

    @staticmethod
    def finish(total: list) -> tuple[np.ndarray, float]:
        """Return the sums and the divergence as a pair."""
        return total[0], float(total[1])


class TensorRatioSums(DenseRatioSums):
    """R'H of a sparse tensor's rows on a GPU, and their divergence."""

    def _sums(self) -> tuple[Any, Any]:
        from labelfold.factorization.kl import _triton_sparse as loops

        _, part, H, V = self.parts
        return loops.ratio_sums(part.by_columns, H, V, floor(V.dtype))


class SparseRatioSums(Term):
    """R'H of sparse rows, scattered into the worker's (d, k) total, and their divergence."""

    def __init__(self, block: Any, H: np.ndarray, V: np.ndarray, v: np.ndarray) -> None:
        self.block, self.H, self.V, self.v = block, H, V, v

    def add(self, total: tuple | None) -> tuple:
        """Add the block's sums."""
        from labelfold.factorization.kl import _ratio_loops as loops

        X, H, V = self.block, self.H, self.V
        sums, loss = (np.zeros(V.shape, dtype=V.dtype), 0.0) if total is None else total
        at_nonzeros, there = loops.csr_ratio_scatter(X.data, X.indices, X.indptr, H, V, sums)
        return sums, loss + at_nonzeros + _elsewhere(H, self.v, there)

    merge = staticmethod(DenseRatioSums.merge)
    finish = staticmethod(DenseRatioSums.finish)


class GatheredRatioSums(Term):
    """R'H of sparse rows in memory, computed after the pass: by columns, from the stored transpose."""

    def __init__(self, columns: Any, first_row: int, H: np.ndarray, V: np.ndarray, v: np.ndarray) -> None:
        self.piece = (first_row, H)
        self.finish = partial(_gathered, columns, V, v)

    def add(self, total: tuple | None) -> tuple:
        """Keep the H of the block until the pass has ended."""
        return (*(total or ()), self.piece)

    @staticmethod
    def merge(left: tuple, right: tuple) -> tuple:
        """Keep both lists."""
        return left + right


def _gathered(columns: Any, V: np.ndarray, v: np.ndarray, pieces: tuple) -> tuple[np.ndarray, float]:
    """Return the sums over each column, from all of H, after the pass."""
    from labelfold.factorization.kl import _ratio_loops as loops
    from labelfold.rows import aligned

    parts = [piece[1] for piece in sorted(pieces, key=lambda piece: piece[0])]
    H = aligned((sum(map(len, parts)), V.shape[1]), V.dtype)
    np.concatenate(parts, out=H)
    data, indices, indptr = columns()
    sums, loss, there = loops.csc_ratio_sums(data, indices, indptr, H, V)
    return sums, loss + _elsewhere(H, v, there)


def _ratios(xp: Any, X: Any, H: Any, V: Any, *, with_loss: bool) -> tuple[Any, Any]:
    """Return R = X / (H V') and, on request, the divergence, in float64 if the device has it."""
    if xp is np:
        from labelfold.factorization.kl import _ratio_loops as loops

        P = H @ V.T
        logs = np.empty_like(P) if with_loss else None
        excess = loops.dense_ratios(X, P, logs, np.array(floor(P.dtype), dtype=P.dtype))
        if logs is None:
            return P, None
        np.log(logs, out=logs)
        return P, excess + np.einsum("ij,ij->i", X, logs).sum(dtype=np.float64)
    P = xp.maximum(H @ V.T, lowest(xp, X))
    R = X / P
    return R, divergence(xp, X, P, R) if with_loss else None


def divergence(xp: Any, X: Any, P: Any, R: Any) -> Any:
    """Return the sum of x log(x/p) - x + p, with 0 log 0 = 0, in float64 if the device has it."""
    each = X * xp.log(xp.where(X > 0, R, xp.ones_like(R))) + (P - X)
    try:
        return xp.sum(each, dtype=xp.float64)
    except (TypeError, RuntimeError):
        return xp.sum(each)


def lowest(xp: Any, X: Any) -> Any:
    """Return the lower bound of each entry of H V'."""
    share, least = floor(X.dtype)
    return xp.maximum(X * share, xp.full_like(X, least))


def floor(dtype: Any) -> tuple[float, float]:
    """Return the lower bound of a modelled value: a share of the value, and nearly the smallest positive number."""
    return (1e-20, 1.2e-38) if "32" in str(dtype) else (1e-200, 2.3e-308)


def _elsewhere(H: np.ndarray, v: np.ndarray, there: float) -> float:
    """Return the sum of H V' where X is zero: its total less ``there``, the sum at the non-zeros."""
    return float(H.sum(axis=0, dtype=np.float64) @ np.asarray(v, dtype=np.float64)) - there
