"""The comparison as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import html
import json
import os
import platform
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from labelfold.app.compare._words import repeats_run
from labelfold.app.io._finished import write_finished
from labelfold.app.io._problems import count, writable_file
from labelfold.app.report import _figures as figures
from labelfold.app.report import _sections as sections
from labelfold.features._column_kind import AS_IS

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison


def write_report(found: Comparison, path: str | os.PathLike) -> Path:
    """Write the report of a comparison.

    Parameters
    ----------
    found : Comparison
        What to report.
    path : path
        The HTML file.

    Returns
    -------
    Path
        The file written.
    """
    path = writable_file(path)
    return write_finished(path, render(found).encode("utf-8"))


def render(found: Comparison) -> str:
    """Return the report as HTML."""
    from plotly.offline import get_plotlyjs

    drawn = {"plot-seconds": figures.by_seconds(found)}
    if sections.has_curve(found):
        drawn["plot-budgets"] = figures.by_budget(found)
    if sizes := figures.by_size(found):
        drawn["plot-sizes"] = sizes
    if held_back := figures.held_back(found):
        drawn["plot-held-back"] = held_back
    for i, shown in enumerate(found.review.maps):
        drawn[f"plot-map-{i}"] = figures.embedding(shown, found.data)
    return Template(_part("report.html")).substitute(
        title=_text(f"labelfold: which reduction for {found.settings['name']}?"),
        answer=_text(found.answer),
        details="".join(f"<li>{_text(sentence)}</li>" for sentence in found.details),
        facts=_text(_facts(found)),
        sections="\n".join(filter(None, sections.all_of(found))),
        how=_how(found),
        style=_part("report.css"),
        script=_part("report.js"),
        plotlyjs=get_plotlyjs(),
        figures=_embedded(drawn),
    )


def _part(name: str) -> str:
    return files("labelfold.app.report").joinpath(name).read_text(encoding="utf-8")


def _text(value: Any) -> str:
    return html.escape(str(value))


def _embedded(value: Any) -> str:
    """Return JSON that can stand inside a script element, whatever the strings in it say."""
    plain = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _facts(found: Comparison) -> str:
    s = found.settings
    kind = "sparse column" if s["sparse"] else "column"
    labels = f"{len(s['classes'])} {'labels' if found.data.facts.multilabel else 'classes'}"
    if found.data.facts.numbers:
        labels = f"numbers from {found.data.truth.min():g} to {found.data.truth.max():g}"
    return (
        f"{count(s['n_rows'], 'row')} × {count(s['n_columns'], kind)}, {labels}, "
        f"{count(s['n_labelled'], 'row')} labelled; {repeats_run(found)} of {count(s['folds'], 'fold')}."
    )


def _how(found: Comparison) -> str:
    s = found.settings
    repeats = repeats_run(found)
    interval = (
        "Wilson's for that many rows, a fifth"
        if found.measure.kind == "accuracy"
        else (f"from these draws, {'a fifth' if found.measure.shares else 'half'}")
    )
    packages = ("labelfold", "scikit-learn", "numpy", "scipy", "numba")
    facts = {
        "Command": s["command"] or "labelfold.compare(...) in Python",
        "Protocol": (
            f"The labelled rows were cut into {count(s['folds'], 'fold')}, and each fold was hidden once, in "
            f"each of {repeats}: its rows stayed in training without their labels, as rows without a label do. All "
            "methods saw the same folds. Methods "
            "surely behind after a repeat were not run again."
        ),
        "Choice": (
            "Of the methods that cannot be told from the best, LabelFold is taken, otherwise the simplest. "
            "Differences are paired by fold; their variance is corrected for training rows that folds share (Nadeau "
            "& Bengio 2003)."
        ),
        "Expected score": (
            "Labelled rows were drawn with replacement, the choice was made again on those drawn and scored on the "
            "others, so that it is never scored on the rows it was made on (Tsamardinos et al. 2018). The 90% "
            f"interval is {interval} wider for the draw of the training rows. Where "
            "LabelFold is taken it is its leave-one-out score, with all weights recomputed without the row."
        ),
        "Reading it": (
            f"The repeats ({repeats}) draw from the same rows, so the spread says how much the draw of "
            "labels matters, not how another data set would turn out."
        ),
        "Columns": s["scale"] if s["scale"] == AS_IS else f"brought to {s['scale']} first",
        "Seed": s["random_state"],
        "Time": f"{s['seconds']:.1f} s"
        + (
            f", besides what {count(s['resumed'], 'result')} from an earlier run took"
            if s.get("resumed")
            else ""
        )
        + ("" if s["time_limit"] is None else f", of {s['time_limit']:.0f} s for the runs"),
        "Versions": ", ".join(
            [f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in packages)]
        ),
        "Machine": f"{platform.system()} on {platform.machine()}, {count(os.cpu_count() or 1, 'core')}",
    }
    for method in found.methods.values():
        facts[method.title] = method.summary
    return "<dl>" + "".join(f"<dt>{_text(k)}</dt><dd>{_text(v)}</dd>" for k, v in facts.items()) + "</dl>"
