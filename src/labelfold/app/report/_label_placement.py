"""Names beside points and marks on a logarithmic axis, so that nothing covers anything else."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_WIDTH, _HEIGHT = (
    600.0,
    220.0,
)  # of the plot on paper, in pixels; screens are wider, and phones have a legend instead
_LETTER, _LINE, _GAP = 8.0, 16.0, 8.0  # of the text
_PLACES = {
    "middle right": (1, 0),
    "middle left": (-1, 0),
    "top right": (1, 1),
    "bottom right": (1, -1),
    "top left": (-1, 1),
    "bottom left": (-1, -1),
}

Box = tuple[float, float, float, float]


def place_names(x: np.ndarray, y: np.ndarray, spread: np.ndarray, names: Sequence[str]) -> list[str | None]:
    """Return for each point where its name goes, in plotly's words; None where it would cover something.

    Parameters
    ----------
    x, y : ndarray of shape (m,)
        The points, x as drawn (the logarithm on such an axis).
    spread : ndarray of shape (m,)
        Half the height of the error bars.
    names : sequence of str
        Their names, the most important first.

    Examples
    --------
    >>> place_names(np.array([0.0, 0.0, 5.0]), np.array([0.0, 0.0, 1.0]), np.zeros(3), ["a", "b", "c"])
    ['middle right', 'middle left', 'middle right']
    """
    px = _WIDTH * (x - x.min()) / (np.ptp(x) or 1.0)
    low, high = (y - spread).min(), (y + spread).max()
    tall = _HEIGHT / ((high - low) or 1.0)
    py, half = tall * (y - low), np.maximum(tall * spread, 6.0)
    bars: list[Box] = [(a - 6, b - h, a + 6, b + h) for a, b, h in zip(px, py, half, strict=True)]
    written: list[Box] = []
    places: list[str | None] = []
    for a, b, name in zip(px, py, names, strict=True):
        place = None
        for candidate, (across, up) in _PLACES.items():
            start = a + _GAP if across > 0 else a - _GAP - _LETTER * len(name)
            box = (start, b + up * _LINE - _LINE / 2, start + _LETTER * len(name), b + up * _LINE + _LINE / 2)
            inside = box[0] >= -40 and box[2] <= _WIDTH + 60
            if inside and not any(_touch(box, other) for other in (*bars, *written)):
                place = candidate
                written.append(box)
                break
        places.append(place)
    return places


def _touch(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def log_marks(low: float, high: float) -> list[float]:
    """Return round numbers from ``low`` to ``high``: 1, 2 and 5 in every ten, or powers of ten where they are many.

    >>> log_marks(0.03, 0.4), log_marks(0.001, 20)
    ([0.05, 0.1, 0.2], [0.001, 0.01, 0.1, 1.0, 10.0])
    """
    steps = (1, 2, 5) if high / low < 300 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]
