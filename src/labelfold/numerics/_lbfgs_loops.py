"""The compiled loop of `labelfold.numerics._lbfgs`."""

from __future__ import annotations

import numpy as np

from labelfold._compiled import FAST, compiled

_compile = compiled(FAST)


@_compile
def direction(g, S, Y, rho, kept, held, scale):
    """Return H g, where H is the L-BFGS approximation of the inverse Hessian, by the two-loop recursion.

    The last ``held`` of ``kept`` steps S and gradient changes Y are in a ring buffer; ``scale`` is the initial
    diagonal.
    """
    memory = len(S)
    q = g.copy()
    share = np.empty(memory)
    for back in range(1, held + 1):
        i = (kept - back) % memory
        share[i] = rho[i] * _dot(S[i], q)
        _add(q, -share[i], Y[i])
    for j in range(q.size):
        q[j] *= scale[j]
    for back in range(held, 0, -1):
        i = (kept - back) % memory
        _add(q, share[i] - rho[i] * _dot(Y[i], q), S[i])
    return q


@_compile
def _dot(a, b):
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@_compile
def _add(a, step, b):
    for j in range(a.size):
        a[j] += step * b[j]
