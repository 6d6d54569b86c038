"""Scales of the data for "auto" weights, so that these suit any unit of X."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from labelfold.utils import Interval, StrOptions

# A weight: positive, or chosen from the data.
WEIGHT = [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})]


class ComponentScale(NamedTuple):
    """The scale of the components of a factorisation X = H B' of n rows, from singular values s of X.

    For c X, the data in another unit, they are c, c^2 and c times as large.

    Attributes
    ----------
    size : float
        The root mean square of s.
    variance : float
        The mean of s^2 / n: the mean square of the rows along a component.
    length : float
        The sum of s / n: the mean squared norm of a row of H, if H and B have the same norm.
    """

    size: float
    variance: float
    length: float


def component_scale(sizes: np.ndarray, n: int) -> ComponentScale:
    """Return the scale of the components with these singular values; those of 0 do not count.

    Examples
    --------
    >>> component_scale(np.array([3.0, 4.0, 0.0]), 2)
    ComponentScale(size=3.5355339059327378, variance=6.25, length=3.5)
    """
    square = float(np.mean(sizes[sizes > 0] ** 2))
    return ComponentScale(float(np.sqrt(square)), square / n, float(sizes.sum()) / n)


def chosen(weight: Any, auto: float) -> float:
    """Return a weight as given, or the value of "auto".

    >>> chosen("auto", 3.0), chosen(2, 3.0)
    (3.0, 2.0)
    """
    return float(auto) if isinstance(weight, str) else float(weight)
