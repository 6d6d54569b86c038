"""The I-divergence of rows and what they are modelled as, D(X, H V'): what its multiplicative updates sum up.

For dense rows of any array library, a block at a time; the loops over sparse rows are in `labelfold.rows.kl_kernels`.
With P = H V' held above a floor (a value that the factors cannot make would otherwise give an infinite ratio) and
R = X / P:

=====================  =======================================================================
``ratio_rows``         R V (m, k), by which H is multiplied (over the column sums of V)
``ratio_sums``         R'H (d, k), by which V is multiplied, and the block's divergence
``place``              the H that minimises D for a fixed V, each row by itself
=====================  =======================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.rows.sums import Term


def ratio_rows(xp: Any, X: Any, H: Any, V: Any) -> Any:
    """Return R V for dense rows."""
    return (X / _modelled(xp, X, H, V)) @ V


class DenseRatioSums(Term):
    """R'H of dense rows, and their divergence."""

    def __init__(self, xp: Any, X: Any, H: Any, V: Any) -> None:
        self.parts = xp, X, H, V

    def add(self, total: list | None) -> list:
        """Add the block's sums; the divergence entry by entry, so that what cancels does so early."""
        xp, X, H, V = self.parts
        P = _modelled(xp, X, H, V)
        R = X / P
        sums, loss = R.T @ H, divergence(xp, X, P, R)
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
        from labelfold.rows import kl_kernels

        block, H, V = self.block, self.H, self.V
        sums, loss = (np.zeros(V.shape, dtype=V.dtype), 0.0) if total is None else total
        at_nonzeros, there = kl_kernels.csr_ratio_scatter(block.data, block.indices, block.indptr, H, V, sums)
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
        from labelfold.rows import kl_kernels

        pieces = sorted(pieces, key=lambda piece: piece[0])
        H = pieces[0][1] if len(pieces) == 1 else np.concatenate([piece[1] for piece in pieces])
        sums, loss, there = kl_kernels.csc_ratio_sums(*self.columns(), np.ascontiguousarray(H), self.V)
        return sums, loss + _elsewhere(H, self.v, there)


def place(xp: Any, X: Any, V: Any, v: Any, tol: float, max_rounds: int) -> Any:
    """Return H (m, k) for dense rows and a fixed V with column sums v, each row until its own gap is within ``tol``.

    With h such that h'v is the row's sum, which every update brings about, the divergence lies at most (worst - 1)
    times that sum above its minimum, worst being the largest of the factors by which the update multiplies.
    """
    used = v > 0
    safe = xp.where(used, v, xp.ones_like(v))
    mass = xp.sum(X, axis=1)
    level = mass / xp.sum(v) if bool(xp.any(used)) else xp.zeros_like(mass)
    H = level[:, None] * xp.astype(used, X.dtype)[None, :]
    done, order = [], xp.arange(X.shape[0], device=getattr(X, "device", None))
    finished = []
    for r in range(max_rounds):
        factors = ratio_rows(xp, X, H, V) / safe[None, :]
        H = H * factors
        if r == 0 or (r % 8 and r + 1 < max_rounds):
            continue
        going = xp.max(factors, axis=1) > 1 + tol
        if bool(xp.all(going)) and r + 1 < max_rounds:
            continue
        stay, leave = xp.nonzero(going)[0], xp.nonzero(~going)[0]
        done.append(xp.take(H, leave, axis=0))
        finished.append(xp.take(order, leave, axis=0))
        X, H, order = (xp.take(a, stay, axis=0) for a in (X, H, order))
        if not X.shape[0]:
            break
    done.append(H)
    finished.append(order)
    back = xp.argsort(xp.concat(finished, axis=0))
    return xp.take(xp.concat(done, axis=0), back, axis=0)


def divergence(xp: Any, X: Any, P: Any, R: Any) -> Any:
    """Return the sum of x log(x/p) - x + p, 0 log 0 being 0, added up in float64 where there is one."""
    logs = xp.log(xp.where(X > 0, R, xp.ones_like(R)))
    each = X * logs + (P - X)
    if isinstance(each, np.ndarray):
        return each.sum(dtype=np.float64)
    try:
        return xp.sum(each, dtype=xp.float64)
    except (TypeError, RuntimeError):
        return xp.sum(each)


def _modelled(xp: Any, X: Any, H: Any, V: Any) -> Any:
    """Return H V', held above a floor; without a name of its own it would be a copy in float64 beside float32."""
    share, least = floor(X.dtype)
    P = H @ V.T
    return xp.maximum(xp.maximum(P, X * share), xp.full_like(P, least))


def floor(dtype: Any) -> tuple[float, float]:
    """Return what a modelled value is held above: so much of the value it models, and nearly the least number."""
    return (1e-20, 1.2e-38) if "32" in str(dtype) else (1e-200, 2.3e-308)


def _elsewhere(H: np.ndarray, v: np.ndarray, there: float) -> float:
    """Return the sum of H V' where X is zero: all of it, which needs sums only, less what is at the non-zeros."""
    return float(H.sum(axis=0, dtype=np.float64) @ np.asarray(v, dtype=np.float64)) - there
