"""Writes the report: one HTML page that needs no network and no other file."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from labelfold.app.compare import Comparison
from labelfold.app.io import writable_file, write_finished
from labelfold.app.report import _figures as figures
from labelfold.app.report._context import context, has_curve
from labelfold.app.report._map import map_data


def write_report(
    found: Comparison, path: str | os.PathLike, folder: Path | None = None, made: Collection[str] = ()
) -> Path:
    """Write the report of a comparison.

    Parameters
    ----------
    found : Comparison
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


def render(found: Comparison, folder: Path | None = None, made: Collection[str] = ()) -> str:
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


def _drawn(found: Comparison) -> dict[str, dict[str, Any] | None]:
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
