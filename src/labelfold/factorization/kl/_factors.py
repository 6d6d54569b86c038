r"""Non-negative factors X = H V' of least I-divergence, by multiplicative updates with extrapolation.

.. math:: D(X, HV') + \lambda\, D(S'X, S'HV'), \qquad
          D(A, B) = \sum_{ij} A_{ij} \log \frac{A_{ij}}{B_{ij}} - A_{ij} + B_{ij}

The second term, a *guide*, is optional. S (n, q) >= 0 has few non-zero rows, and the rows of S'X are treated as q
further rows of weight lambda, whose factor is S'H. With R = X / (HV'), R_S = S'X / (S'HV') and v the column sums of
V, an update is

.. math:: H \leftarrow H \circ \frac{R V + \lambda S R_S V}{v (1 + \lambda s_i)}, \qquad
          V \leftarrow V \circ \frac{R'H + \lambda R_S'S'H}{\sum_i h_i + \lambda \sum_i S'h_i}

An iteration is one pass over X. It updates H row by row, and computes the sums for the update of V, and the
divergence, at the new H. Before it both factors are extrapolated along their last change. A pass that raises the
objective is rejected, and the next one starts without extrapolation, so that an update cannot raise the divergence.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from labelfold.base import Descent, Iterates, descend
from labelfold.factorization.kl._ratios import floor, kl_rows, kl_sums
from labelfold.rows import Block, Rows, as_rows, tiled

# Extrapolation as a share of the last change: at the start, its growth while it is accepted, and its maximum.
_AHEAD, _GROWTH, _FURTHEST = 0.5, 1.05, 1.0
# Extrapolation lowers an entry by at most this share of it, because an entry near zero recovers slowly.
_BRAKE = 0.05
# Smallest positive entry of V relative to its mean, and of H relative to the largest of its row. Smaller entries
# recover slowly and become denormal numbers, which are slow. Zeros stay zeros.
_LEAST_SHARE, _LEAST_SHARE_SINGLE = 1e-20, 1e-12


@dataclass(frozen=True, eq=False)
class Guide:
    """The second term: S for the rows at ``index``, S'X, and its weight lambda."""

    S: sparse.csr_array  # (l, q)
    index: np.ndarray  # (l,)
    rows: Rows  # S'X, q x d
    weight: float


@dataclass(eq=False)
class KLFactors:
    """The factors after an iteration. The basis is updated once more before the next iteration."""

    H: Any  # (n, k)  stored with the rows
    V: np.ndarray  # (d, k)


def divergence_factors(
    rows: Rows,
    start: tuple[Any, np.ndarray],
    guide: Guide | None = None,
    *,
    max_iter: int,
    accelerate: bool = True,
    **options: Any,
) -> Descent:
    """Update the factors until convergence: `descend` with the `iterates` below."""
    steps = iterates(rows, start, guide, max_iter=max_iter, accelerate=accelerate)
    return descend(steps, max_iter=max_iter, **options)


def iterates(
    rows: Rows,
    start: tuple[Any, np.ndarray],
    guide: Guide | None = None,
    *,
    max_iter: int,
    accelerate: bool = True,
) -> Iterates:
    """Update the factors, with one pass over X in each iteration.

    Parameters
    ----------
    rows : Rows
        X, n x d, non-negative.
    start : (H, V), arrays of shapes (n, k) and (d, k)
        Initial factors; zeros stay zeros. The references are released after the first pass.
    guide : Guide, optional
        A second term.
    max_iter : int
        Largest number of iterations.
    accelerate : bool, default=True
        Whether to extrapolate; without it these are plain multiplicative updates.

    Yields
    ------
    factors : KLFactors
    objective : float
    """
    H, V = rows.put(start[0]), np.ascontiguousarray(start[1], dtype=rows.dtype)
    place = None
    if guide is not None:
        place = rows.spread(guide.index, np.arange(len(guide.index)), len(guide.index))
    state = _State(H, H, V, V, V.sum(axis=0, dtype=np.float64), place)
    least = _least_share(V) * float(V.mean())
    del start, H, V  # a basis is large, so references are released
    beta, ahead = _AHEAD, False
    for iteration in count(1):
        H, den, sums, value = _pass(rows, guide, state, beta if ahead else 0.0)
        factors = KLFactors(H, state.V_hat)
        rose = yield factors, value
        if not rose:
            if ahead:
                beta = min(_GROWTH * beta, _FURTHEST)
            # The final iteration does not extrapolate, so it cannot be rejected.
            ahead = accelerate and iteration + 1 < max_iter
            state = _advance(state, H, sums, den, beta if ahead else 0.0, least)
            # Modified in place, so that a holder of the factors does not keep another basis in memory.
            factors.H, factors.V = state.H, state.V_last
        elif ahead:
            beta *= 0.5
            state, ahead = _called_back(state), False
        else:
            return
        del H, sums, factors


class _State(NamedTuple):
    """The starting point of the next pass."""

    H: Any  # (n, k)  after the last update
    H_last: Any  # (n, k)  after the update before that
    V_hat: np.ndarray  # (d, k)  extrapolated from V_last
    V_last: np.ndarray  # (d, k)  after the last update
    v: np.ndarray  # (k,)  column sums of V_hat
    place: Any = (
        None  # (n,)  index of each row in S, or the number of rows of S if it has none; stored with the rows
    )


def _advance(state: _State, H: Any, sums: np.ndarray, den: np.ndarray, beta: float, least: float) -> _State:
    """Return the state after an update of the basis."""
    from labelfold.factorization.kl import _ratio_loops as loops
    from labelfold.rows import aligned

    sums = sums.astype(state.V_hat.dtype, copy=False)
    inverse = np.divide(1.0, den, out=np.zeros_like(den), where=den > 0)
    # The basis of two updates ago is no longer needed; its memory is reused.
    V_last = state.V_last
    new = aligned(sums.shape, sums.dtype) if V_last is state.V_hat else V_last
    V, V_hat, v = loops.multiplied(state.V_hat, state.V_last, sums, inverse, beta, _BRAKE, least, new)
    return _State(H, state.H, V_hat, V, v, state.place)


def _called_back(state: _State) -> _State:
    """Return the state without extrapolation, from which an update cannot raise the objective."""
    V = state.V_last
    return _State(state.H, state.H, V, V, V.sum(axis=0, dtype=np.float64), state.place)


def _pass(
    rows: Rows, guide: Guide | None, state: _State, beta: float
) -> tuple[Any, np.ndarray, np.ndarray, float]:
    """Update H in one pass over X; return it, the denominator and numerator of the update of V, and the objective."""
    V, v, H, last = state.V_hat, state.v, state.H, state.H_last
    if guide is None:
        H, (mass, (sums, loss)) = rows.sweep(_update, H, last, shared=(V, v, beta))
        return H, mass, sums, loss
    S, lam = guide.S, guide.weight
    H_L = _ahead(np, rows.pick(H, guide.index), rows.pick(last, guide.index), beta)
    G = (S.T @ H_L).astype(rows.dtype, copy=False)  # (q, k)
    # One row for each row in the guide, and a last one for all others.
    pull = np.zeros((len(guide.index) + 1, V.shape[1]))
    pull[:-1] = lam * (S @ guide.rows.get(guide.rows.map(kl_rows, G, shared=(V,))))
    share = np.append(1 + lam * S.sum(axis=1), 1.0)
    shared = (V, v, beta, pull, share)
    H, (mass, (sums, loss)) = rows.sweep(_update_guided, H, last, state.place, shared=shared)
    G = (S.T @ rows.pick(H, guide.index)).astype(rows.dtype, copy=False)
    guide_sums, guide_loss = guide.rows.sum(kl_sums, G, shared=(V, v))
    sums += lam * guide_sums
    return H, mass + lam * G.sum(axis=0, dtype=np.float64), sums, loss + lam * guide_loss


def _update(X: Block, H: Any, last: Any, V: Any, v: Any, beta: float) -> tuple[Any, Any]:
    divisor = _divisor(X.xp, v)
    if not X.is_sparse and X.sparse_part is None and tiled(X.raw, H, last, V, divisor):
        from labelfold.factorization.kl import _triton_loops as loops

        ahead, bounds = (beta, _BRAKE), floor(X.raw.dtype)
        H = loops.updated_rows(X.raw, H, last, V, divisor, bounds, ahead, _least_share(H))
    else:
        H = _ahead(X.xp, H, last, beta)
        H = _scaled(X.xp, H, kl_rows(X, H, V), divisor)
    return H, (_mass(X.xp, H), kl_sums(X, H, V, v))


def _update_guided(
    X: Block, H: Any, last: Any, place: Any, V: Any, v: Any, beta: float, pull: Any, share: Any
) -> tuple[Any, Any]:
    H = _ahead(X.xp, H, last, beta)
    pull, share = X.xp.take(pull, place, axis=0), X.xp.take(share, place)
    H = _scaled(X.xp, H, (kl_rows(X, H, V) + pull) / share[:, None], _divisor(X.xp, v))
    return H, (_mass(X.xp, H), kl_sums(X, H, V, v))


def _ahead(xp: Any, H: Any, last: Any, beta: float) -> Any:
    """Return H extrapolated; ``_BRAKE`` limits how far an entry is lowered."""
    if not beta:
        return H
    if xp is np:
        from labelfold.factorization.kl import _ratio_loops as loops

        return loops.looked_ahead(H, last, H.dtype.type(beta), H.dtype.type(_BRAKE))
    return H + xp.maximum(beta * (H - last), -_BRAKE * H)


def _scaled(xp: Any, H: Any, factors: Any, divisor: Any) -> Any:
    """Return H * factors / divisor, with positive entries above the least share; may write to ``factors``."""
    share = _least_share(H)
    if xp is np:
        from labelfold.factorization.kl import _ratio_loops as loops

        return loops.scaled(H, factors, divisor.astype(H.dtype, copy=False), H.dtype.type(share))
    H = H * factors / divisor[None, :]
    least = share * xp.max(H, axis=1, keepdims=True)
    return xp.where(H > 0, xp.maximum(H, least), H)


def _least_share(factor: Any) -> float:
    """Return the least share for the precision of a factor, an array of any library."""
    return _LEAST_SHARE_SINGLE if "32" in str(factor.dtype) else _LEAST_SHARE


def _divisor(xp: Any, v: Any) -> Any:
    """Return column sums to divide by, with 1 in place of 0: the numerator of an empty component is 0 too."""
    return xp.where(v > 0, v, xp.ones_like(v))


def _mass(xp: Any, H: Any) -> Any:
    return H.sum(axis=0, dtype=np.float64) if xp is np else xp.sum(H, axis=0)


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
