"""New rows of a sparse tensor on a GPU placed: the H that minimises the I-divergence D(X, H V') for a fixed V."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.factorization.kl._place import fits_a_thread, kl_place, newton_in_threads
from labelfold.factorization.kl._ratios import floor
from labelfold.rows import Block, as_rows, to_device, to_host


def place_entries(X: Block, V: Any, v: Any, fit: Any, tol: float, max_rounds: int) -> Any:
    """Return H (m, k) of sparse rows on a GPU, with the arguments of `kl_place`.

    Rows in float32 are placed there a component at a time. Long ones, and the few that do not settle, are placed by
    Newton's steps if components are few; what is left is placed on the host, and so are rows in float64.
    """
    from labelfold.factorization.kl import _triton_place as loops

    rest = V, v, fit, tol, max_rounds
    if "32" not in str(V.dtype) or not loops.takes(V.shape[1]):
        return _on_host(X, None, *rest)
    H, sweeps = loops.placed_rows(X.sparse_part.entries, V, v, floor(V.dtype), tol, max_rounds)
    if bool(X.xp.all(sweeps > 0)):
        return H
    left = X.xp.nonzero(sweeps <= 0)[0]
    if fits_a_thread(V.shape[1]):
        H[left], unsettled = _by_newton(X, left, *rest)
        left = left[unsettled]
    if left.shape[0]:
        H[left] = _on_host(X, left, *rest)
    return H


def _by_newton(
    X: Block, index: Any, V: Any, v: Any, fit: Any, tol: float, max_rounds: int
) -> tuple[Any, Any]:
    """Return the same of some rows by Newton's steps on the GPU, and which of them have not settled."""
    from labelfold.factorization.kl import _triton_sparse as loops
    from labelfold.rows.loops._triton_sparse import Entries, aligned, gathered, summed

    xp, entries = X.xp, Entries(*X.sparse_part.taken(to_host(index)))
    mass = xp.astype(summed(entries), V.dtype)
    whole = xp.sum(v)
    even = (mass / xp.where(whole > 0, whole, xp.ones_like(whole)))[:, None] * xp.ones_like(v)[None, :]
    mass = xp.where(mass > 0, mass, xp.ones_like(mass))
    rows, bounds = aligned(V), loops.bounds_of(floor(V.dtype), V.dtype, V.device)

    def system(chosen: Any, H: Any) -> Any:
        return loops.newton_system(entries, chosen, H, rows, bounds)

    fitted = gathered(entries, fit, dtype=V.dtype, single=True)
    return newton_in_threads(xp, system, fitted, v, even, mass, tol, max_rounds)


def _on_host(X: Block, index: Any, V: Any, *options: Any) -> Any:
    """Return the same of some rows, or of all, by the loops of the host."""
    rows = as_rows(X.sparse_part.on_host(None if index is None else to_host(index)))
    shared = tuple(to_host(a) if hasattr(a, "shape") else a for a in (V, *options))
    H = np.asarray(rows.map(kl_place, shared=shared))
    return to_device(X.xp, H, V.device, V.dtype)
