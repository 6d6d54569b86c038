"""Unconstrained minimisation by L-BFGS, for cheap functions, for which the overhead of SciPy would dominate.

Every step satisfies the Armijo rule. A step that is much too short is lengthened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

# Constants of the Armijo and the (weak) Wolfe condition.
_ARMIJO, _WOLFE = 1e-4, 0.9
# Most evaluations of one line search, and how many of them may lengthen the step.
_MOST_TRIALS, _MOST_LONGER = 25, 4


def lbfgs(
    function: Callable[[np.ndarray], tuple[float, Any]],
    gradient: Callable[[Any], np.ndarray],
    x: np.ndarray,
    *,
    memory: int = 10,
    blocks: Sequence[int] | None = None,
    first_step: float = np.inf,
    leap: Callable[[np.ndarray, Any], tuple[np.ndarray, float, Any] | None] | None = None,
    leap_every: int = 30,
) -> Iterator[tuple[float, Any]]:
    """Minimise a smooth function step by step, until no step lowers it.

    Parameters
    ----------
    function : callable
        Returns the value at x (``inf`` if it is not defined), and any object for ``gradient``.
    gradient : callable
        Returns the gradient, given that object. It is called right after the value, and only if the value is low
        enough.
    x : ndarray of shape (N,)
        Initial point.
    memory : int
        Number of pairs of steps and gradient changes that are stored.
    blocks : sequence of int, optional
        Sizes of the blocks of x. Each has its own scale, learned from the steps, if their units differ or are
        unknown; one block when None.
    first_step : float
        The longest first step to try, in multiples of the gradient: 1 if the curvature is about 1 in the units of x.
    leap : callable, optional
        A step of another kind, for a function with kinks, which gradients do not foresee. It gets x and its object,
        and returns a lower point, its value and its object, or None.
    leap_every : int
        Number of steps between two calls of ``leap``.

    Yields
    ------
    value : float
        The value after each step, lower than before.
    extra : object
        The object that belongs to the value.

    References
    ----------
    J. Nocedal, S. J. Wright. Numerical Optimization, chapters 3 and 7. Springer, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> def bowl(x):
    ...     return float(((x - 1) ** 4).sum()), x
    >>> for value, x in lbfgs(bowl, lambda x: 4 * (x - 1) ** 3, np.zeros(3)):
    ...     if value < 1e-8:
    ...         break
    >>> x.round(1)
    array([1., 1., 1.])
    """
    from labelfold.factorization._lbfgs_loops import direction, rescale

    f, extra = function(x)
    g = gradient(extra)
    S, Y, rho, kept = np.empty((memory, len(x))), np.empty((memory, len(x))), np.empty(memory), 0
    ends = np.cumsum([len(x)] if blocks is None else blocks)
    scale = np.ones(len(x))

    def learn(s: np.ndarray, y: np.ndarray) -> None:
        nonlocal kept
        product = s @ y
        if product > 1e-10 * np.sqrt((s @ s) * (y @ y)):
            at = kept % memory
            S[at], Y[at], rho[at] = s, y, 1 / product
            rescale(scale, ends, s, y, kept == 0)
            kept += 1

    taken = 0
    while True:
        held = min(kept, memory)
        p = direction(g, S, Y, rho, kept, held, scale)
        slope = -(g @ p)
        if not slope < 0:
            if not held or not g.any():
                return
            kept, scale[:] = 0, 1.0
            continue
        # Without curvature information: the step that would halve a linear function that decreases to 0.
        first = 1.0 if held else min(0.5 * abs(f) / -slope if f else 1.0 / np.sqrt(-slope), first_step)
        found = _search(function, gradient, x, f, slope, p, first)
        if found is None:
            if not held:
                return
            kept, scale[:] = 0, 1.0
            continue
        x_new, f, g_new, extra = found
        learn(x_new - x, g_new - g)
        x, g, taken = x_new, g_new, taken + 1
        yield f, extra
        lower = leap(x, extra) if leap is not None and taken % leap_every == 0 else None
        if lower is not None:
            x_new, f, extra = lower
            g_new = gradient(extra)
            learn(x_new - x, g_new - g)
            x, g = x_new, g_new
            yield f, extra


def _search(
    function: Callable,
    gradient: Callable,
    x: np.ndarray,
    f: float,
    slope: float,
    p: np.ndarray,
    step: float,
) -> tuple[np.ndarray, float, np.ndarray, Any] | None:
    """Return a step along -p that satisfies the Armijo rule and, unless shortened, the weak Wolfe condition."""
    low, f_low, slope_low, best = 0.0, f, slope, None
    for trial in range(_MOST_TRIALS):
        x_new = x - step * p
        f_new, extra = function(x_new)
        if not f_new <= f + _ARMIJO * step * slope or not f_new < f:
            if best is not None:
                return best
            width = step - low
            bend = f_new - f_low - slope_low * width
            dip = -slope_low * width**2 / (2 * bend) if np.isfinite(bend) and bend > 0 else 0.0
            step = low + min(max(dip, 0.1 * width), 0.5 * width)
            continue
        g_new = gradient(extra)
        best = x_new, f_new, g_new, extra
        slope_new = -(g_new @ p)
        if slope_new >= _WOLFE * slope or trial >= _MOST_LONGER:
            return best
        low, f_low, slope_low = step, f_new, slope_new
        step *= 4.0
    return best
