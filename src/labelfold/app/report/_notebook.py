"""The HTML of a comparison in a notebook: answer, methods, and a small map without scripts."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfold.app.compare import Comparison, brief
from labelfold.app.report._figures import COLOURS, GREY
from labelfold.app.report._page import fill

_MOST_POINTS = 600
_WIDTH, _HEIGHT = 480, 320
_RADIUS = {True: 4.0, False: 2.2}


def notebook(found: Comparison) -> str:
    """Return the answer, the methods and a map of a comparison as HTML."""
    table = brief(found)
    return fill(
        "notebook.html",
        answer=found.answer,
        heads=list(table.columns),
        lines=table.to_numpy().tolist(),
        map=_small_map(found),
        width=_WIDTH,
        height=_HEIGHT,
    )


def _small_map(found: Comparison) -> dict[str, Any] | None:
    """Return some rows of the first map as circles; labelled rows are large and drawn last."""
    if not found.review.maps:
        return None
    shown, data = found.review.maps[0], found.data
    labelled = data.labels.labelled[shown.rows]
    rng = np.random.default_rng(0)
    some = rng.permutation(len(labelled))[:_MOST_POINTS]
    some = some[np.argsort(labelled[some], kind="stable")]
    colours, key = _coloured(found, shown, some)
    low, high = np.quantile(shown.points, [0.005, 0.995], axis=0)
    share = np.clip((shown.points[some] - low) / np.maximum(high - low, 1e-300), -0.02, 1.02)
    x, y = 12 + (_WIDTH - 24) * share[:, 0], _HEIGHT - 12 - (_HEIGHT - 24) * share[:, 1]
    sure = np.nan_to_num(shown.confidence[some], nan=0.6)
    faint = np.where(labelled[some], 1.0, np.clip(sure, 0.15, 0.9))
    radius = [_RADIUS[bool(known)] for known in labelled[some]]
    points = zip(x.round(1), y.round(1), radius, colours, faint.round(2), strict=True)
    return {
        "title": shown.title,
        "points": list(points),
        "key": key,
        "n": len(some),
        "of": len(data.y),
        "rows": [data.row(i) for i in shown.rows[some]],
    }


def _coloured(found: Comparison, shown: Any, some: np.ndarray) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the colours of rows, by label or prediction, and their legend if there are few."""
    data = found.data
    known, said = data.y[shown.rows[some]], shown.predicted[some]
    if data.facts.multilabel:
        known, said = known[:, 0], said[:, 0]
    unknown = np.isnan(known) if known.dtype.kind == "f" else known < 0
    value = np.where(unknown, said, known).astype(float)
    if data.facts.numbers:  # from blue to orange
        low, high = np.quantile(value, [0.02, 0.98])
        share = np.clip((value - low) / max(high - low, 1e-300), 0, 1)
        return [f"hsl({220 - 195 * v:.0f} 70% 50%)" for v in share], []
    codes = value.astype(int)
    colours = [COLOURS[c] if c < len(COLOURS) else GREY for c in codes]
    names = [f"not {data.classes[0]}", data.classes[0]] if data.facts.multilabel else data.classes
    return colours, list(zip(COLOURS, names, strict=False))
