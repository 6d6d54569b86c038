"""The I-divergence D(X, H V') of a block of rows and their model, and the sums of its multiplicative updates.

With P = H V' held above a floor (a value that the factors cannot make would otherwise give an infinite ratio),
R = X / P, and v the column sums of V:

==============  =======================================================================
``kl_rows``     R V (m, k), by which H is multiplied (over v)
``kl_sums``     R'H (d, k), by which V is multiplied, and the block's divergence
``kl_place``    the H (m, k) that minimises D for a fixed V, each row by itself
==============  =======================================================================

Dense blocks of any array library are computed here. The loops over sparse rows are in `_ratio_loops.py` and
`_place_loops.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from labelfold.rows import Term
from labelfold.rows.adapters._device import to_host

# Extrapolation leaves at least this share of an entry.
LEAST_LEFT = 0.01


def kl_rows(X: Any, H: Any, V: Any) -> Any:
    """Return R V (m, k), a row result."""
    if X.is_sparse:
        from labelfold.numerics.kl import _ratio_loops as loops

        return loops.csr_ratio_rows(X.data, X.indices, X.indptr, H, V)
    return _ratios(X.xp, X.raw, H, V, with_loss=False)[0] @ V


def kl_sums(X: Any, H: Any, V: Any, v: Any) -> Term:
    """Return R'H (d, k) and the divergence, sums over rows."""
    if not X.is_sparse:
        return DenseRatioSums(X.xp, X.raw, H, V)
    if X.transpose is not None:
        columns, first_row = X.transpose
        return GatheredRatioSums(columns, first_row, H, V, v)
    return SparseRatioSums(X, H, V, v)


def kl_place(X: Any, V: Any, v: Any, tol: float, max_rounds: int) -> Any:
    """Return the H (m, k) of least divergence, each row until its own gap is within ``tol``; see `_place`."""
    if X.is_sparse:
        from labelfold.numerics.kl import _place_loops as loops

        return loops.csr_place(X.data, X.indices, X.indptr, V, v, tol, max_rounds)
    return _place(X.xp, X.raw, V, v, tol, max_rounds)


class DenseRatioSums(Term):
    """R'H of dense rows, and their divergence."""

    def __init__(self, xp: Any, X: Any, H: Any, V: Any) -> None:
        self.parts = xp, X, H, V

    def add(self, total: list | None) -> list:
        """Add the block's sums."""
        R, loss = _ratios(*self.parts, with_loss=True)
        sums = R.T @ self.parts[2]
        if total is None:
            return [sums, loss]
        if self.parts[0] is np:
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
        from labelfold.numerics.kl import _ratio_loops as loops

        X, H, V = self.block, self.H, self.V
        sums, loss = (np.zeros(V.shape, dtype=V.dtype), 0.0) if total is None else total
        at_nonzeros, there = loops.csr_ratio_scatter(X.data, X.indices, X.indptr, H, V, sums)
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
        from labelfold.numerics.kl import _ratio_loops as loops

        parts = [piece[1] for piece in sorted(pieces, key=lambda piece: piece[0])]
        H = loops.aligned((sum(map(len, parts)), self.V.shape[1]), self.V.dtype)
        np.concatenate(parts, out=H)
        data, indices, indptr = self.columns()
        sums, loss, there = loops.csc_ratio_sums(data, indices, indptr, H, self.V)
        return sums, loss + _elsewhere(H, self.v, there)


def _place(xp: Any, X: Any, V: Any, v: Any, tol: float, max_rounds: int) -> Any:
    """Return H (m, k) for dense rows and a fixed V with column sums v, each row until its own gap is within ``tol``.

    After every two updates a squared extrapolation is tried, and taken where it does not raise the row's
    divergence. With h'v the row's sum, as after every update, the divergence lies at most
    (worst - 1) times that sum above its minimum: it is convex, and worst is the largest factor of an update.

    References
    ----------
    R. Varadhan, C. Roland. Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm. Scandinavian Journal of Statistics 35, 2008.
    """
    used = v > 0
    safe = xp.where(used, v, xp.ones_like(v))[None, :]
    mass = xp.sum(X, axis=1)
    whole = float(xp.sum(v))
    H = (mass / whole if whole > 0 else mass)[:, None] * xp.astype(used, X.dtype)[None, :]
    mass = xp.where(mass > 0, mass, xp.ones_like(mass))
    low = _lowest(xp, X)
    H = _step(xp, X, low, H, V, safe)[0]
    left = np.arange(X.shape[0])
    done, order = [], []
    rounds = 1
    while rounds < max_rounds:
        one, loss, worst = _step(xp, X, low, H, V, safe, v)
        rounds += 1
        going = to_host(worst) > 1 + tol
        if rounds + 2 > max_rounds:
            going[:] = False
        if not going.all():
            leave, stay = np.flatnonzero(~going), np.flatnonzero(going)
            done.append(_taken(xp, one, leave))
            order.append(left[leave])
            left = left[stay]
            X, low, H, one, loss, mass = (_taken(xp, a, stay) for a in (X, low, H, one, loss, mass))
        if not len(left):
            break
        two = _step(xp, X, low, one, V, safe)[0]
        bend = two - 2 * one + H
        scale = v / mass[:, None]  # so that squares stay in range
        squares = xp.sum(((one - H) * scale) ** 2, axis=1)
        bends = xp.sum((bend * scale) ** 2, axis=1)
        reach = xp.sqrt(squares / xp.where(bends > 0, bends, xp.ones_like(bends)))
        reach = xp.where((bends > 0) & (reach > 1), reach, xp.ones_like(reach))[:, None]
        far = xp.maximum(H + 2 * reach * (one - H) + reach**2 * bend, LEAST_LEFT * two)
        new, far_loss, _ = _step(xp, X, low, far, V, safe, v)
        H = xp.where((far_loss <= loss)[:, None], new, two)
        rounds += 2
    if not done:
        return H
    return _taken(xp, xp.concat(done, axis=0), np.argsort(np.concatenate(order)))


def _step(xp: Any, X: Any, low: Any, H: Any, V: Any, safe: Any, v: Any = None) -> tuple[Any, Any, Any]:
    """Return H updated; and, where v is given, each row's divergence before, less constants, and largest factor."""
    P = xp.maximum(H @ V.T, low)
    factors = ((X / P) @ V) / safe
    if v is None:
        return H * factors, None, None
    loss = xp.sum(H * v, axis=1) - xp.sum(X * xp.log(P), axis=1)
    return H * factors, loss, xp.max(factors, axis=1)


def _taken(xp: Any, a: Any, index: np.ndarray) -> Any:
    """Return some rows of an array of any library."""
    if xp is np:
        return a[index]
    return xp.take(a, xp.asarray(index, device=device(a)), axis=0)


def _ratios(xp: Any, X: Any, H: Any, V: Any, *, with_loss: bool) -> tuple[Any, Any]:
    """Return R = X / (H V') and, where asked for, the divergence, in float64 where there is one."""
    if xp is np:
        from labelfold.numerics.kl import _ratio_loops as loops

        P = H @ V.T
        logs = np.empty_like(P) if with_loss else None
        excess = loops.dense_ratios(X, P, logs, np.array(floor(P.dtype), dtype=P.dtype))
        if logs is None:
            return P, None
        np.log(logs, out=logs)
        return P, excess + np.einsum("ij,ij->i", X, logs).sum(dtype=np.float64)
    P = xp.maximum(H @ V.T, _lowest(xp, X))
    R = X / P
    return R, divergence(xp, X, P, R) if with_loss else None


def divergence(xp: Any, X: Any, P: Any, R: Any) -> Any:
    """Return the sum of x log(x/p) - x + p, 0 log 0 being 0, in float64 where there is one."""
    each = X * xp.log(xp.where(X > 0, R, xp.ones_like(R))) + (P - X)
    try:
        return xp.sum(each, dtype=xp.float64)
    except (TypeError, RuntimeError):
        return xp.sum(each)


def _lowest(xp: Any, X: Any) -> Any:
    """Return what H V' is held above, entry by entry."""
    share, least = floor(X.dtype)
    return xp.maximum(X * share, xp.full_like(X, least))


def floor(dtype: Any) -> tuple[float, float]:
    """Return the floor of a modelled value: a share of the value, and nearly the smallest positive number."""
    return (1e-20, 1.2e-38) if "32" in str(dtype) else (1e-200, 2.3e-308)


def _elsewhere(H: np.ndarray, v: np.ndarray, there: float) -> float:
    """Return the sum of H V' where X is zero: its total less ``there``, the sum at the non-zeros."""
    return float(H.sum(axis=0, dtype=np.float64) @ np.asarray(v, dtype=np.float64)) - there
