r"""Rows of H for a fixed V on a device, many at once, by functions of the array API.

Non-negative least squares, and Newton steps of the I-divergence, are quadratic problems of k variables,

.. math:: \min_{z \ge 0} \; \tfrac{1}{2} z'Kz - b'z,

one for each row. Block pivoting solves them: each round solves for the variables taken to be positive, and exchanges
those that turn out to be wrong. Rows that are done leave the rounds.

Rows of H of minimum divergence take a few Newton steps, each one quadratic problem. A step is halved until the
divergence does not rise. On the host compiled loops change one component at a time; on a GPU such a step of all rows
would read X.

References
----------
J. Kim, H. Park. Fast nonnegative matrix factorization: an active-set-like method and comparisons. SIAM Journal on
Scientific Computing 33(6), 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace, device

# Rounds in which all wrong variables are exchanged although their number does not fall; then one at a time is.
_PATIENCE = 3
# Precision: a slope that is round-off, relative to the largest number of the linear term.
_SLOPE = 1e-12
# Precision: a rise of the divergence that is round-off, relative to the row's sum, in the compiled loops too.
ROUND_OFF = 1e-13
# Modelled values are at least this share of the value, so that the square of their ratio is a number.
_SHARE = 1e-60


def least_squares_rows(P: Any, Q: Any) -> Any:
    """Return the h >= 0 that minimises 1/2 h'Qh - p'h, for each row p of P; Q is positive definite.

    >>> import numpy as np
    >>> least_squares_rows(np.array([[1.0, -2.0]]), np.eye(2))
    array([[1., 0.]])
    """
    return _nonnegative_minimum(Q, P, P > 0)


def divergence_rows(X: Any, V: Any, tol: float, max_iter: int = 50) -> Any:
    """Return H, the rows of minimum divergence D(X, H V'), each to a gap of at most ``tol`` times its sum.

    >>> import numpy as np
    >>> divergence_rows(np.array([[2.0, 3.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), 1e-9)
    array([[2. , 1.5]])
    """
    xp, k = array_namespace(X), V.shape[1]
    v = xp.sum(V, axis=0)
    outer = xp.reshape(V[:, :, None] * V[:, None, :], (-1, k * k))
    # A Newton step is defined if fewer than k entries of a row are not 0.
    ridge = 1e-12 * xp.eye(k, dtype=X.dtype, device=device(X))
    # Entries in columns where all components are 0 do not affect h.
    X = X * xp.astype(xp.any(V > 0, axis=1), X.dtype)

    def modelled(X: Any, sums: Any, H: Any) -> tuple[Any, Any, Any]:
        """Return H scaled to the sums of the rows, the modelled values, and the divergence less constants."""
        H = H * _quotient(xp, sums, H @ v)[:, None]
        model = xp.maximum(H @ V.T, xp.maximum(_SHARE * X, xp.full_like(X, 1e-300)))
        return H, model, -xp.sum(X * xp.log(model), axis=1)

    def step(X: Any, sums: Any, H: Any) -> tuple[tuple[Any, ...], Any, Any]:
        H, model, loss = modelled(X, sums, H)
        ratios = X / model
        slopes = ratios @ V
        factors = _quotient(xp, slopes, v)  # of a multiplicative update
        done = xp.max(factors, axis=1) <= 1 + tol
        K = xp.reshape((ratios / model) @ outer, (-1, k, k))
        K = K + ridge * _size(xp, K)
        b = (K @ H[:, :, None])[:, :, 0] - (v - slopes)
        direction, share = _nonnegative_minimum(K, b, H > 0) - H, 1.0
        trial, _, found = modelled(X, sums, H + direction)
        rose = ~(found <= loss + ROUND_OFF * sums)  # also if it is NaN
        while bool(xp.any(rose)):
            share = 0.5 * share
            # A multiplicative update never raises the divergence.
            shorter = H + share * direction if share > 1e-6 else H * factors
            trial = xp.where(rose[:, None], shorter, trial)
            found = modelled(X, sums, trial)[2]
            rose = rose & ~(found <= loss + ROUND_OFF * sums) & (share > 1e-6)
        return (X, sums, trial), H, done

    sums = xp.sum(X, axis=1)
    H = xp.ones((X.shape[0], k), dtype=X.dtype, device=device(X)) * xp.astype(v > 0, X.dtype)
    for _ in range(2):  # multiplicative updates
        H, model, _ = modelled(X, sums, H)
        H = H * _quotient(xp, (X / model) @ V, v)
    return _repeated(step, (X, sums, H), max_iter)


def _nonnegative_minimum(K: Any, B: Any, free: Any) -> Any:
    """Return the z >= 0 that minimises 1/2 z'Kz - b'z, for each row b of B; K is one matrix, or one for each row.

    ``free`` are the variables that are taken to be positive at first.
    """
    xp, (m, k) = array_namespace(B), B.shape
    there = {"device": device(B)}
    eye, order = xp.eye(k, dtype=B.dtype, **there), xp.arange(k, **there)
    best = xp.full((m,), k + 1, **there)
    left = xp.full((m,), _PATIENCE, **there)
    each = K.ndim == 3

    def step(b: Any, free: Any, best: Any, left: Any, *own: Any) -> tuple[tuple[Any, ...], Any, Any]:
        K_of_row = own[0] if each else K
        f = xp.astype(free, b.dtype)
        system = K_of_row * (f[:, :, None] * f[:, None, :]) + (1 - f)[:, :, None] * eye * _size(xp, K_of_row)
        z = xp.linalg.solve(system, (b * f)[:, :, None])[:, :, 0] * f
        slope = (K_of_row @ z[:, :, None])[:, :, 0] - b if each else z @ K - b
        wrong = (free & (z < 0)) | (~free & (slope < -_SLOPE * xp.max(xp.abs(b), axis=1)[:, None]))
        count = xp.count_nonzero(wrong, axis=1)
        fewer = count < best
        left = xp.where(fewer, xp.full_like(left, _PATIENCE), left - 1)
        last = xp.max(xp.where(wrong, order, -xp.ones_like(order)), axis=1)
        exchanged = wrong & ((left > 0)[:, None] | (order == last[:, None]))
        state = (b, free ^ exchanged, xp.where(fewer, count, best), left, *own)
        return state, xp.where(z > 0, z, xp.zeros_like(z)), count == 0

    return _repeated(step, (B, free, best, left, *([K] if each else [])), max_iter=50 + 10 * k)


def _repeated(
    step: Callable[..., tuple[tuple[Any, ...], Any, Any]], state: tuple[Any, ...], max_iter: int
) -> Any:
    """Return the results of rows, each of the step at which it was done, or of the last one.

    ``step(*state)`` returns the next state, the results, and which rows are done; all have an entry for each row.
    """
    xp = array_namespace(state[0])
    rows, found, order = xp.arange(state[0].shape[0], device=device(state[0])), [], []
    for i in range(max_iter):
        state, results, done = step(*state)
        ended = xp.nonzero(done | (i + 1 == max_iter))[0]
        if ended.shape[0] == 0:
            continue
        found.append(xp.take(results, ended, axis=0))
        order.append(xp.take(rows, ended))
        if ended.shape[0] == rows.shape[0]:
            break
        going = xp.nonzero(~done)[0]
        rows, state = xp.take(rows, going), tuple(xp.take(a, going, axis=0) for a in state)
    if not found:  # no rows
        return results
    return xp.take(xp.concat(found, axis=0), xp.argsort(xp.concat(order)), axis=0)


def _size(xp: Any, K: Any) -> Any:
    """Return the largest diagonal entry of each matrix, or 1 for a matrix of zeros, to be multiplied by matrices."""
    size = xp.max(xp.linalg.diagonal(K), axis=-1)[..., None, None]
    return xp.where(size > 0, size, xp.ones_like(size))


def _quotient(xp: Any, a: Any, b: Any) -> Any:
    """Return a / b, with 0 where b is 0."""
    return xp.where(b > 0, a / xp.where(b > 0, b, xp.ones_like(b)), xp.zeros_like(a))
