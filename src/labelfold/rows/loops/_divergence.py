"""The I-divergence of rows and what they are modelled as, D(X, H V'): what its multiplicative updates sum up.

For dense rows of any array library, a block at a time; the loops over sparse rows are in `_divergence_loops.py`.
With P = H V' held above a floor (a value that the factors cannot make would otherwise give an infinite ratio) and
R = X / P:

=====================  =======================================================================
``ratio_rows``         R V (m, k), by which H is multiplied (over the column sums of V)
``ratio_sums``         R'H (d, k), by which V is multiplied, and the block's divergence
=====================  =======================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.rows._sums import Term
from labelfold.rows.loops import device_loops


def ratio_rows(xp: Any, X: Any, H: Any, V: Any) -> Any:
    """Return R V for dense rows."""
    loops = fused(X, H, V)
    if loops is not None:
        return loops.ratio_rows(X, H, V, floor(X.dtype))
    return _ratios(xp, X, H, V, with_loss=False)[0] @ V


class DenseRatioSums(Term):
    """R'H of dense rows, and their divergence."""

    def __init__(self, xp: Any, X: Any, H: Any, V: Any) -> None:
        self.parts = xp, X, H, V

    def add(self, total: list | None) -> list:
        """Add the block's sums."""
        xp, X, H, V = self.parts
        loops = fused(X, H, V)
        if loops is not None:
            sums, loss = loops.ratio_sums(X, H, V, floor(X.dtype))
        else:
            R, loss = _ratios(xp, X, H, V, with_loss=True)
            sums = R.T @ H
        if total is None:
            return [sums, loss]
        if isinstance(sums, np.ndarray):
            sums += total[0]
            return [sums, loss + total[1]]
        return [sums + total[0], loss + total[1]]

    @staticmethod
    def merge(left: list, right: list) -> list:
        """Add two workers' sums."""
        return [Term.merge(left[0], right[0]), left[1] + right[1]]

    @staticmethod
    def finish(total: list) -> tuple[np.ndarray, float]:
        """Return the sums and the divergence as a pair."""
        return total[0], float(total[1])


class SparseRatioSums(Term):
    """R'H of sparse rows, scattered into the worker's (d, k) total, and their divergence."""

    def __init__(self, block: Any, H: np.ndarray, V: np.ndarray, v: np.ndarray) -> None:
        self.block, self.H, self.V, self.v = block, H, V, v

    def add(self, total: tuple | None) -> tuple:
        """Add the block's sums."""
        from labelfold.rows.loops import _divergence_loops as divergence_loops

        block, H, V = self.block, self.H, self.V
        sums, loss = (np.zeros(V.shape, dtype=V.dtype), 0.0) if total is None else total
        at_nonzeros, there = divergence_loops.csr_ratio_scatter(
            block.data, block.indices, block.indptr, H, V, sums
        )
        return sums, loss + at_nonzeros + _elsewhere(H, self.v, there)

    merge = staticmethod(DenseRatioSums.merge)
    finish = staticmethod(DenseRatioSums.finish)


class GatheredRatioSums(Term):
    """R'H of sparse rows in memory, all at once when the pass is over: by columns, from the transpose kept."""

    def __init__(self, columns: Any, first_row: int, H: np.ndarray, V: np.ndarray, v: np.ndarray) -> None:
        self.piece = (first_row, H)
        self.finish = _Gather(columns, V, v)

    def add(self, total: tuple | None) -> tuple:
        """Keep the block's H until the pass is over."""
        return (*(total or ()), self.piece)

    @staticmethod
    def merge(left: tuple, right: tuple) -> tuple:
        """Keep both."""
        return left + right


class _Gather:
    """What is left to do after the pass: the sums over each column, from all of H."""

    def __init__(self, columns: Any, V: np.ndarray, v: np.ndarray) -> None:
        self.columns, self.V, self.v = columns, V, v

    def __call__(self, pieces: tuple) -> tuple[np.ndarray, float]:
        from labelfold.rows.loops import _divergence_loops as divergence_loops

        parts = [piece[1] for piece in sorted(pieces, key=lambda piece: piece[0])]
        H = divergence_loops.aligned((sum(map(len, parts)), self.V.shape[1]), self.V.dtype)
        np.concatenate(parts, out=H)
        data, indices, indptr = self.columns()
        sums, loss, there = divergence_loops.csc_ratio_sums(data, indices, indptr, H, self.V)
        return sums, loss + _elsewhere(H, self.v, there)


def _ratios(xp: Any, X: Any, H: Any, V: Any, *, with_loss: bool) -> tuple[Any, Any]:
    """Return R = X / (H V') and, where asked for, the divergence, in float64 where there is one."""
    if isinstance(X, np.ndarray):
        from labelfold.rows.loops import _divergence_loops as divergence_loops

        P = H @ V.T
        logs = np.empty_like(P) if with_loss else None
        excess = divergence_loops.dense_ratios(X, P, logs, np.array(floor(P.dtype), dtype=P.dtype))
        if logs is None:
            return P, None
        np.log(logs, out=logs)
        return P, excess + np.einsum("ij,ij->i", X, logs).sum(dtype=np.float64)
    P = modelled(xp, X, H, V)
    R = X / P
    return R, divergence(xp, X, P, R) if with_loss else None


def divergence(xp: Any, X: Any, P: Any, R: Any) -> Any:
    """Return the sum of x log(x/p) - x + p, 0 log 0 being 0, in float64 where there is one."""
    each = X * xp.log(xp.where(X > 0, R, xp.ones_like(R))) + (P - X)
    try:
        return xp.sum(each, dtype=xp.float64)
    except (TypeError, RuntimeError):
        return xp.sum(each)


def fused(*arrays: Any) -> Any:
    """Return the loops that take these arrays in one piece, None where there are none."""
    if not all("float32" in str(a.dtype) for a in arrays):
        return None
    loops = device_loops(*arrays)
    return loops if loops is not None and arrays[0].stride(1) == 1 else None


def modelled(xp: Any, X: Any, H: Any, V: Any) -> Any:
    """Return H V', held above a floor."""
    share, least = floor(X.dtype)
    P = H @ V.T
    return xp.maximum(xp.maximum(P, X * share), xp.full_like(P, least))


def floor(dtype: Any) -> tuple[float, float]:
    """Return what a modelled value is held above: so much of the value it models, and nearly the least number."""
    return (1e-20, 1.2e-38) if "32" in str(dtype) else (1e-200, 2.3e-308)


def _elsewhere(H: np.ndarray, v: np.ndarray, there: float) -> float:
    """Return the sum of H V' where X is zero: all of it, which needs sums only, less what is at the non-zeros."""
    return float(H.sum(axis=0, dtype=np.float64) @ np.asarray(v, dtype=np.float64)) - there
