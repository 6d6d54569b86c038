"""The maps as data for the page: coordinates of rows, and channels of values for their colour.

A channel holds one value for each row, as bytes: a class (65535 for none) or a number between two limits.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from labelfold.app.compare import Data, HeldOutPredictions, Map, Results
from labelfold.rows import dense

# Budgets of the size of the page, and choices of presentation.
_MAX_CELLS = 1_000_000  # values of columns to colour by, one byte each
_MAX_LABELS = 30  # labels to choose from, for several labels a row
_NO_CLASS = np.iinfo(np.uint16).max
_MAX_BYTES = 4_000_000  # all thumbnails of a list together
_MAX_SIDE, _MIN_SIDE = 48, 8  # of a thumbnail in pixels


def map_data(found: Results) -> dict[str, Any] | None:
    """Return all maps of a comparison; None if no method embeds."""
    maps = found.review.maps
    if not maps:
        return None
    data, rows = found.data, maps[0].rows
    return {
        "n": len(rows),
        "names": None if data.ids is None else [data.ids[i] for i in rows],
        "rows": as_base64(rows + 1, "<u4"),
        "labelled": as_base64(data.labels.labelled[rows], "u1"),
        "methods": [_method(shown, found) for shown in maps],
        "columns": _columns(data, rows, found.review.strengths),
        "n_columns": data.X.shape[1],
        "pictures": pictures(found, rows),
    }


def _method(shown: Map, found: Results) -> dict[str, Any]:
    x, y = shown.points.T
    return {
        "title": shown.title,
        "axes": shown.axes,
        "how": placed(shown),
        "x": as_base64(x, "<f4"),
        "y": as_base64(y, "<f4"),
        "strength": as_base64(_strength(shown, found.data), "u1"),
        "channels": _channels(shown, found),
    }


def _strength(shown: Map, data: Data) -> np.ndarray:
    """Return the opacity of rows, 0 to 255: their confidence above that of a random guess."""
    sure = shown.confidence
    if not np.isfinite(sure).any():
        return np.full(len(sure), 128)
    low, high = 1.0 / max(len(data.classes), 2), 1.0
    if data.facts.multilabel:  # all of many labels are rarely right together
        low, high = np.quantile(sure, [0.05, 0.95])
    return np.round(255 * np.clip((sure - low) / max(high - low, 1e-9), 0, 1))


def placed(shown: Map) -> str:
    """Return a sentence on how the rows of a map were placed, and how to read it."""
    if shown.axes is None:
        return (
            "placed so that neighbours in all components stay neighbours; what lies together is alike, and distances "
            "between islands mean little"
        )
    first, second = shown.axes
    return f"placed by {first} and {second}; what lies together is alike"


def _channels(shown: Map, found: Results) -> list[dict[str, Any]]:
    """Return the channels for the colour of rows, besides columns; the first is the default."""
    data, rows = found.data, shown.rows
    labelled, known = data.labels.labelled[rows], data.y[rows]
    first = shown.title == found.review.maps[0].title
    told = found.review.left_out if first else None
    if data.facts.multilabel:
        often = np.argsort(-data.counts(), kind="stable")[:_MAX_LABELS]
        channels = [
            classes(
                f"label {data.classes[j]}",
                np.where(labelled, np.nan_to_num(known[:, j]), shown.predicted[:, j]),
                ["no", "yes"],
            )
            for j in often
        ]
    else:
        values = {
            "label, or prediction where there is none": np.where(labelled, known, shown.predicted),
            "label": known,
            "prediction": shown.predicted,
        }
        if data.facts.numbers:
            # with extremes included most rows would have one colour
            ends = np.quantile(next(iter(values.values())), [0.02, 0.98])
            channels = [numbers(name, some, ends) for name, some in values.items()]
            return channels if told is None else [*channels, _errors(told, data, rows)]
        channels = [classes(name, some, data.classes) for name, some in values.items()]
    channels.append(numbers("confidence", shown.confidence, (0.0, 1.0)))
    if told is not None:
        state = np.full(len(data.y), -1)
        state[data.labels.index] = np.where(told.tested, told.right(data.truth).astype(int), -1)
        channels.append(classes("right or wrong without its label", state[rows], ["wrong", "right"]))
    return channels


def _errors(told: HeldOutPredictions, data: Data, rows: np.ndarray) -> dict[str, Any]:
    off = np.full(len(data.y), np.nan)
    off[data.labels.index] = told.guess - data.truth
    most = float(np.quantile(np.abs(off[data.labels.index]), 0.98))
    return numbers("prediction without the label, less the label", off[rows], (-most, most))


def _columns(data: Data, rows: np.ndarray, strengths: np.ndarray | None) -> list[dict[str, Any]]:
    """Return the channels of columns: all, or those that correlate most with the components."""
    d = data.X.shape[1]
    most = max(1, _MAX_CELLS // len(rows))
    chosen = np.arange(d)
    if d > most:
        weight = np.zeros(d) if strengths is None else np.abs(strengths).max(axis=0)
        chosen = np.sort(np.argsort(-weight, kind="stable")[: min(most, 200)])
    X = data.X[rows][:, chosen]
    X = dense(X)
    return [
        numbers(data.column(j), X[:, i], (X[:, i].min(), X[:, i].max()), coarse=True)
        for i, j in enumerate(chosen)
    ]


def classes(name: str, codes: Any, names: list[str]) -> dict[str, Any]:
    """Return a channel of classes. If the page has fewer colours than classes, the last ones share a colour.

    >>> classes("label", np.array([0, -1]), ["a", "b"])["names"]
    ['a', 'b']
    """
    codes = np.asarray(codes).astype(int)
    return {
        "name": name,
        "names": list(names),
        "values": as_base64(np.where(codes < 0, _NO_CLASS, codes), "<u2"),
    }


def numbers(name: str, values: Any, ends: Any, coarse: bool = False) -> dict[str, Any]:
    """Return a channel of numbers, coloured between two limits; ``coarse``: one byte each, 255 for missing values."""
    low, high = (float(end) for end in ends)
    channel = {"name": name, "low": low, "high": high}
    if coarse:
        share = (values - low) / ((high - low) or 1.0)
        return channel | {"coarse": True, "values": as_base64(np.round(254 * share), "u1")}
    return channel | {"values": as_base64(values, "<f4")}


def as_base64(values: Any, kind: str) -> str:
    """Return an array as base64 text for the page."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()


def pictures(found: Results, rows: Any) -> dict[str, Any] | None:
    """Return rows as thumbnails of one size, one byte for each pixel and channel; None if they are not images."""
    shape = found.settings["image_shape"]
    if shape is None or not len(rows):
        return None
    height, width, *colours = shape
    room = (_MAX_BYTES / len(rows) / (colours[0] if colours else 1) / (height * width)) ** 0.5
    share = max(min(room, _MAX_SIDE / max(height, width), 1.0), min(_MIN_SIDE / max(height, width), 1.0))
    X = np.asarray(found.data.X[rows], dtype=np.float32).reshape(len(rows), height, width, -1)
    for axis, side in ((1, height), (2, width)):
        X = _averaged(X, axis, max(round(share * side), 1))
    low, high = float(X.min()), float(X.max())
    seen = np.round(255 * (X - low) / ((high - low) or 1.0))
    return {
        "height": X.shape[1],
        "width": X.shape[2],
        "channels": X.shape[3],
        "values": as_base64(seen, "u1"),
    }


def _averaged(X: np.ndarray, axis: int, size: int) -> np.ndarray:
    """Return an array with fewer entries along an axis, each the mean of its share.

    >>> _averaged(np.array([[1.0, 3.0, 5.0, 7.0]]), 1, 2).tolist()
    [[2.0, 6.0]]
    """
    n = X.shape[axis]
    if size >= n:
        return X
    starts = np.arange(size) * n // size
    counts = np.diff(np.append(starts, n)).reshape([-1 if i == axis else 1 for i in range(X.ndim)])
    return np.add.reduceat(X, starts, axis=axis) / counts
