r"""Non-negative factors X = H V' of least I-divergence, by multiplicative updates that look ahead.

.. math:: D(X, HV') + \lambda\, D(S'X, S'HV'), \qquad
          D(A, B) = \sum_{ij} A_{ij} \log \frac{A_{ij}}{B_{ij}} - A_{ij} + B_{ij}

The second term, a *guide*, is optional: S (n, q) >= 0 has few non-zero rows, and the rows of S'X are treated as q
further rows of weight lambda whose places are S'H. With R = X / (HV'), R_S = S'X / (S'HV') and v the column sums of
V, an update is

.. math:: H \leftarrow H \circ \frac{R V + \lambda S R_S V}{v (1 + \lambda s_i)}, \qquad
          V \leftarrow V \circ \frac{R'H + \lambda R_S'S'H}{\sum_i h_i + \lambda \sum_i S'h_i}

An iteration is one pass over X: it updates H, row by row, and sums up what V is updated by, and the divergence, at
the new H. Before it both factors go some way further in the direction they have just gone. A pass that ends higher
than the last is dropped, and the next one starts without looking ahead, from where an update cannot raise the
divergence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from labelfold.rows import Block, Rows, as_rows

# How far ahead, as a share of the last step: where it begins, how it grows while it pays, and its most.
_AHEAD, _GROWTH, _FURTHEST = 0.5, 1.05, 1.0
# An entry goes down ahead of time by no more than this share of itself: one that nears zero hardly comes back.
_BRAKE = 0.05
# The least that an entry of V is, as a share of its mean, and one of H, as a share of its row's largest: less would
# take long to come back from, and soon be a number too small to be quick with. Zeros stay zeros.
_LEAST_SHARE, _LEAST_SHARE_SINGLE = 1e-20, 1e-12


@dataclass(frozen=True, eq=False)
class Guide:
    """The second term: S on the rows at ``index``, S'X, and its weight lambda."""

    S: sparse.csr_array  # (l, q)
    index: np.ndarray  # (l,)
    rows: Rows  # S'X, q x d
    weight: float


class KLFactors(NamedTuple):
    """Factors, and how they were reached.

    Attributes
    ----------
    H : array of shape (n, k)
        One row each, living with the rows.
    V : ndarray of shape (d, k)
        The basis.
    objective : list of float
        What is minimised, after each pass; after an interruption the factors may lie below the last of it.
    converged, interrupted : bool
    """

    H: Any
    V: np.ndarray
    objective: list[float]
    converged: bool
    interrupted: bool


def divergence_factors(
    rows: Rows,
    start: tuple[Any, np.ndarray],
    guide: Guide | None = None,
    *,
    max_iter: int,
    tol: float,
    accelerate: bool = True,
    keep_on_interrupt: bool = False,
    callback: Callable[[int, float], None] | None = None,
) -> KLFactors:
    """Update the factors until an iteration lowers the objective by no more than ``tol``, relative to it.

    Parameters
    ----------
    rows : Rows
        X, n x d, non-negative.
    start : (H, V), arrays of shapes (n, k) and (d, k)
        Where to start; a zero stays one. They are let go of after the first pass.
    guide : Guide, optional
        A second term.
    max_iter : int
        The most iterations.
    tol : float
        When to stop.
    accelerate : bool, default=True
        Whether to look ahead; without it these are the updates themselves.
    keep_on_interrupt : bool, default=False
        Whether Ctrl-C ends the iterations rather than the program.
    callback : callable, optional
        Called after each iteration with its number and how much it gained.

    Returns
    -------
    KLFactors
    """
    H, V = rows.put(start[0]), np.ascontiguousarray(start[1], dtype=rows.dtype)
    state = _State(H=H, H_last=H, V_hat=V, V_last=V, v=V.sum(axis=0, dtype=np.float64))
    least = _least_share(V) * float(V.mean())
    del start, H, V  # a basis is large: no more of them are kept than are needed
    objective: list[float] = []
    beta, ahead, converged = _AHEAD, False, False
    try:
        for iteration in range(1, max_iter + 1):
            # Where H and V did not move yet, or have just been called back, there is nowhere ahead to look.
            H, den, sums, value = _pass(rows, guide, state, beta if ahead else 0.0)
            fall = (objective[-1] - value) / max(abs(value), sys.float_info.min) if objective else np.inf
            if fall >= 0:
                # What is returned, also where the user interrupts what follows, which writes over V_last.
                best = H, state.V_hat
                objective.append(value)
                converged = fall <= tol
                if not converged and iteration < max_iter:
                    if accelerate and ahead:
                        beta = min(_GROWTH * beta, _FURTHEST)
                    # The last pass does not look ahead: it cannot be in vain then.
                    ahead = accelerate and iteration + 1 < max_iter
                    state = _advance(state, H, sums, den, beta if ahead else 0.0, least)
                    best = state.H, state.V_last
            else:
                converged = not ahead
                if ahead:
                    objective.append(objective[-1])
                    beta *= 0.5
                    state, ahead = _called_back(state), False
            del H, sums
            if callback is not None and len(objective) > 1:
                callback(iteration, max(fall, 0.0))
            if converged:
                break
    except KeyboardInterrupt:
        if not (keep_on_interrupt and objective):
            raise
        return KLFactors(*best, objective, False, True)
    return KLFactors(*best, objective, converged, False)


class _State(NamedTuple):
    """Where the next pass starts."""

    H: Any  # (n, k)  after the last update
    H_last: Any  # (n, k)  after the one before
    V_hat: np.ndarray  # (d, k)  some way ahead of V_last
    V_last: np.ndarray  # (d, k)  after the last update
    v: np.ndarray  # (k,)  column sums of V_hat


def _advance(state: _State, H: Any, sums: np.ndarray, den: np.ndarray, beta: float, least: float) -> _State:
    """Return the state after the basis has been updated."""
    from labelfold.rows.loops import _divergence_loops as divergence_loops

    sums = sums.astype(state.V_hat.dtype, copy=False)
    inverse = np.divide(1.0, den, out=np.zeros_like(den), where=den > 0)
    # What is two updates old has no more use, and its memory has.
    V_last = state.V_last
    new = divergence_loops.aligned(sums.shape, sums.dtype) if V_last is state.V_hat else V_last
    V, V_hat, v = divergence_loops.multiplied(
        state.V_hat, state.V_last, sums, inverse, beta, _BRAKE, least, new
    )
    return _State(H, state.H, V_hat, V, v)


def _called_back(state: _State) -> _State:
    """Return the state from which an update cannot raise the objective."""
    V = state.V_last
    return _State(state.H, state.H, V, V, V.sum(axis=0, dtype=np.float64))


def _pass(
    rows: Rows, guide: Guide | None, state: _State, beta: float
) -> tuple[Any, np.ndarray, np.ndarray, float]:
    """Update H: return it, what V is to be divided by and multiplied with, and the objective; one pass over X."""
    V, v, H, last = state.V_hat, state.v, state.H, state.H_last
    if guide is None:
        H, (mass, (sums, loss)) = rows.sweep(_update, H, last, shared=(V, v, beta))
        return H, mass, sums, loss
    S, lam = guide.S, guide.weight
    H_L = _ahead(rows.at(H, guide.index), rows.at(last, guide.index), beta)
    pull = np.zeros((rows.shape[0], V.shape[1]), dtype=rows.dtype)
    G = (S.T @ H_L).astype(rows.dtype, copy=False)  # (q, k)
    pull[guide.index] = lam * (S @ guide.rows.get(guide.rows.map(_ratio_rows, G, shared=(V,))))
    share = np.ones(rows.shape[0], dtype=rows.dtype)
    share[guide.index] += lam * S.sum(axis=1)
    H, (mass, (sums, loss)) = rows.sweep(_update_guided, H, last, pull, share, shared=(V, v, beta))
    G = (S.T @ rows.at(H, guide.index)).astype(rows.dtype, copy=False)
    guide_sums, guide_loss = guide.rows.sum(_sums, G, shared=(V, v))
    sums += lam * guide_sums
    return H, mass + lam * G.sum(axis=0, dtype=np.float64), sums, loss + lam * guide_loss


def _update(X: Block, H: Any, last: Any, V: Any, v: Any, beta: float) -> tuple[Any, Any]:
    H = _ahead(H, last, beta)
    H = _scaled(H, X.kl_rows(H, V), _divisor(v))
    return H, (_mass(H), X.kl_sums(H, V, v))


def _update_guided(
    X: Block, H: Any, last: Any, pull: Any, share: Any, V: Any, v: Any, beta: float
) -> tuple[Any, Any]:
    H = _ahead(H, last, beta)
    H = _scaled(H, (X.kl_rows(H, V) + pull) / share[:, None], _divisor(v))
    return H, (_mass(H), X.kl_sums(H, V, v))


def _ahead(H: Any, last: Any, beta: float) -> Any:
    """Return H some way further on, down by no more than the brake allows."""
    if not beta:
        return H
    if isinstance(H, np.ndarray):
        from labelfold.rows.loops import _divergence_loops as divergence_loops

        return divergence_loops.looked_ahead(H, last, H.dtype.type(beta), H.dtype.type(_BRAKE))
    xp = array_namespace(H)
    return H + xp.maximum(beta * (H - last), -_BRAKE * H)


def _scaled(H: Any, factors: Any, divisor: Any) -> Any:
    """Return H * factors / divisor, not next to nothing; ``factors`` may be written to."""
    share = _least_share(H)
    if isinstance(H, np.ndarray):
        from labelfold.rows.loops import _divergence_loops as divergence_loops

        return divergence_loops.scaled(H, factors, divisor.astype(H.dtype, copy=False), H.dtype.type(share))
    xp = array_namespace(H)
    H = H * factors / divisor[None, :]
    least = share * xp.max(H, axis=1, keepdims=True)
    return xp.where(H > 0, xp.maximum(H, least), H)


def _least_share(factor: Any) -> float:
    """Return the least share for a factor's precision, whichever library's array it is."""
    return _LEAST_SHARE_SINGLE if "32" in str(factor.dtype) else _LEAST_SHARE


def _divisor(v: Any) -> Any:
    """Return column sums to divide by; where a component is nothing, what is divided is 0 as well."""
    xp = array_namespace(v)
    return xp.where(v > 0, v, xp.ones_like(v))


def _mass(H: Any) -> Any:
    return H.sum(axis=0, dtype=np.float64) if isinstance(H, np.ndarray) else array_namespace(H).sum(H, axis=0)


def _ratio_rows(X: Block, H: Any, V: Any) -> Any:
    return X.kl_rows(H, V)


def _sums(X: Block, H: Any, V: Any, v: Any) -> Any:
    return X.kl_sums(H, V, v)


def divergence(X: Any, H: np.ndarray, V: np.ndarray) -> float:
    """Return D(X, H V') in one pass over X.

    >>> divergence(np.array([[1.0, 0.0]]), np.array([[1.0]]), np.array([[1.0], [0.5]]))
    0.5
    """
    rows, V = as_rows(X), np.ascontiguousarray(V)
    return rows.sum(_sums, np.asarray(H, rows.dtype), shared=(V, V.sum(axis=0)))[1]
