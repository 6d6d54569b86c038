"""Writes the report: one HTML page that needs no network and no other file."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from labelfold.app.compare import Results, brief
from labelfold.app.io import writable_file, write_finished
from labelfold.app.report import _figures as figures
from labelfold.app.report._context import context, has_curve
from labelfold.app.report._figures import COLOURS, GREY
from labelfold.app.report._map import map_data

_MOST_POINTS = 600
_WIDTH, _HEIGHT = 480, 320
_RADIUS = {True: 4.0, False: 2.2}


def write_report(
    found: Results, path: str | os.PathLike, folder: Path | None = None, made: Collection[str] = ()
) -> Path:
    """Write the report of a comparison.

    Parameters
    ----------
    found : Results
        The comparison.
    path : path
        The HTML file.
    folder : path, optional
        The folder of the files of the command line, which the report then names.
    made : collection of str
        Names of these files.

    Returns
    -------
    Path
        The file written.
    """
    path = writable_file(path)
    return write_finished(path, render(found, folder, made).encode("utf-8", "backslashreplace"))


def render(found: Results, folder: Path | None = None, made: Collection[str] = ()) -> str:
    """Return the report as HTML."""
    from plotly.offline import get_plotlyjs

    values = context(found, folder, made)
    data = {
        "figures": {name: drawn for name, drawn in _drawn(found).items() if drawn is not None},
        "map": map_data(found),
        "held": values["confusion"] and values["confusion"]["held"],
        "csv": values["numbers"]["csv"],
        "pictures": {
            name: values[name] and values[name].get("pictures") for name in ("next_rows", "look_again")
        },
    }
    return fill(
        "report.html",
        style=Markup(_part("report.css")),
        script=Markup(_part("report.js") + _part("map.js")),
        plotlyjs=Markup(get_plotlyjs()),
        data=htmlsafe_json_dumps(data, allow_nan=False, separators=(",", ":")),
        **values,
    )


def _drawn(found: Results) -> dict[str, dict[str, Any] | None]:
    drawn = {
        "plot-methods": figures.by_method(found),
        "plot-budgets": figures.by_budget(found) if has_curve(found) else None,
        "plot-sizes": figures.by_size(found),
        "plot-held-out": figures.held_out(found),
        "plot-calibration": figures.calibration(found),
    }
    strengths, shape = found.review.strengths, found.settings["image_shape"]
    if strengths is not None and shape:
        names = [found.data.column(j) for j in range(strengths.shape[1])]
        most = float(abs(strengths).max()) or 1.0
        for i, strength in enumerate(strengths):
            drawn[f"plot-part-{i}"] = figures.component(strength, shape, names, most)
    return drawn


def fill(name: str, **values: Any) -> str:
    """Return a template of the report filled with values; a value is escaped unless it is the report's own markup."""
    return _templates().get_template(name).render(**values)


@cache
def _templates() -> Environment:
    return Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _part(name: str) -> str:
    return files("labelfold.app.report").joinpath("templates", name).read_text(encoding="utf-8")


def notebook(found: Results) -> str:
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


def _small_map(found: Results) -> dict[str, Any] | None:
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


def _coloured(found: Results, shown: Any, some: np.ndarray) -> tuple[list[str], list[tuple[str, str]]]:
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
