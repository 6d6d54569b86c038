"""The compiled loops of `labelfold.factorization._lbfgs`."""

from __future__ import annotations

import numpy as np

from labelfold.utils import FAST, compiled, dot

_compile = compiled(FAST)

# Damping of the logarithm of a block's scale from step to step, and the least share of a step's curvature that a
# block must have for its scale to be updated.
_SLOWLY, _TELLING = 0.8, 1e-6


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
        share[i] = rho[i] * dot(S[i], q)
        _add(q, -share[i], Y[i])
    for j in range(q.size):
        q[j] *= scale[j]
    for back in range(held, 0, -1):
        i = (kept - back) % memory
        _add(q, share[i] - rho[i] * dot(Y[i], q), S[i])
    return q


@_compile
def rescale(scale, ends, s, y, first):
    """Update the scale of each block from a step s and its gradient change y, damped if there are several blocks.

    One step may carry little information on some of several blocks. Blocks end at ``ends``; ``first`` is true if
    their scales are not known yet.
    """
    whole, squares = dot(s, y), dot(y, y)
    slowly = 0.0 if first or ends.size == 1 else _SLOWLY
    start = 0
    for end in ends:
        if end > start:
            part = slice(start, end)
            product, square = dot(s[part], y[part]), dot(y[part], y[part])
            if product > _TELLING * whole and square > 0:
                scale[part] = scale[start] ** slowly * (product / square) ** (1 - slowly)
            elif first:
                scale[part] = whole / squares
        start = end


@_compile
def _add(a, step, b):
    for j in range(a.size):
        a[j] += step * b[j]
