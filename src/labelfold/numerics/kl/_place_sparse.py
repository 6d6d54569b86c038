"""New rows of a sparse tensor on a GPU placed: the H that minimises the I-divergence D(X, H V') for a fixed V."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.numerics.kl._place import fits_a_thread, kl_place, newton_in_threads
from labelfold.numerics.kl._ratios import floor
from labelfold.rows import Block, as_rows
from labelfold.rows.adapters._device_copies import plain, to_host


def place_entries(X: Block, V: Any, v: Any, fit: Any, tol: float, max_rounds: int) -> Any:
    """Return H (m, k) of sparse rows on a GPU, with the arguments of `kl_place`.

    Newton's steps of float32 rows with few components are made there. Other rows, and those that do not settle, are
    placed on the host.
    """
    if "32" not in str(V.dtype) or not fits_a_thread(V.shape[1]):
        return _on_host(X, None, V, v, fit, tol, max_rounds)
    from labelfold.numerics.kl import _triton_sparse as loops
    from labelfold.rows.loops._triton_sparse import aligned, summed

    xp, entries = X.xp, X.sparse_part.entries
    mass = xp.astype(summed(entries), V.dtype)
    whole = xp.sum(v)
    even = (mass / xp.where(whole > 0, whole, xp.ones_like(whole)))[:, None] * xp.ones_like(v)[None, :]
    mass = xp.where(mass > 0, mass, xp.ones_like(mass))
    rows, bounds = aligned(V), loops.bounds_of(floor(V.dtype), V.dtype, V.device)

    def system(index: Any, H: Any) -> Any:
        return loops.newton_system(entries, index, H, rows, bounds)

    H, left = newton_in_threads(xp, system, X @ fit, v, even, mass, tol, max_rounds)
    if left.shape[0]:
        H[left] = _on_host(X, left, V, v, fit, tol, max_rounds)
    return H


def _on_host(X: Block, index: Any, V: Any, *options: Any) -> Any:
    """Return the same of some rows, or of all, by the loops of the host."""
    rows = as_rows(X.sparse_part.on_host(None if index is None else to_host(index)))
    shared = tuple(to_host(a) if hasattr(a, "shape") else a for a in (V, *options))
    H = np.asarray(rows.map(kl_place, shared=shared))
    return X.xp.asarray(plain(H), dtype=V.dtype, device=V.device)
