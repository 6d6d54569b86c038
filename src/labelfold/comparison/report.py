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

import numpy as np

from labelfold.comparison import figures
from labelfold.comparison.words import percent, points
from labelfold.files.problem import FileProblem, writable_file

if TYPE_CHECKING:
    from labelfold.comparison.results import Comparison


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
    try:
        path.write_text(render(found), encoding="utf-8")
    except OSError as error:
        raise FileProblem(f"{path} could not be written: {error.strerror or error}.") from error
    return path


def render(found: Comparison) -> str:
    """Return the report as HTML."""
    from plotly.offline import get_plotlyjs

    drawn = {"plot-curve": figures.curve(found)}
    drawn |= {
        f"plot-map-{i}": figures.embedding(m, found.settings["classes"]) for i, m in enumerate(found.maps)
    }
    template = Template(files("labelfold.comparison").joinpath("report.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=_text(f"labelfold: which method for {found.settings['name']}?"),
        answer=_text(found.answer),
        facts=_text(_facts(found)),
        stopped=_stopped(found),
        repeats=_text(_times(found.results["repeat"].nunique(), "repeat")),
        guess=percent(figures.majority_share(found)),
        axis_note="The horizontal axis is logarithmic." if figures.is_log(found) else "",
        curve_text=_text(_curve_text(found)),
        table=_table(found),
        failures=_failures(found),
        maps=_maps(found),
        how=_how(found),
        plotlyjs=get_plotlyjs(),
        figures=_embedded(drawn),
    )


def _text(value: Any) -> str:
    return html.escape(str(value))


def _embedded(value: Any) -> str:
    """Return JSON that can stand inside a script element, whatever the strings in it say."""
    plain = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _times(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _facts(found: Comparison) -> str:
    s = found.settings
    kind = "sparse " if s["sparse"] else ""
    repeats = _times(s["repeats"], "repeat")
    return (
        f"{s['n_rows']:,} rows × {s['n_columns']:,} {kind}columns, {len(s['classes'])} classes, "
        f"{sum(s['counts']):,} rows labelled; {repeats}, each with {s['test_size']:.0%} of the labelled "
        "rows held back."
    )


def _stopped(found: Comparison) -> str:
    if not found.interrupted:
        return ""
    return f'<p class="note">Stopped early: this is what {_times(len(found.results), "run")} gave.</p>'


def _curve_text(found: Comparison) -> str:
    lines = [
        f"{label}: "
        + ", ".join(f"{percent(m)} with {b}" for b, m in zip(rows["budget"], rows["mean"], strict=True))
        for label, rows in found.table.dropna(subset="mean").groupby("label", sort=False)
    ]
    return "Accuracy against the number of labels. " + "; ".join(lines) + "."


def _table(found: Comparison) -> str:
    import pandas as pd

    budgets = sorted(found.table["budget"].unique())
    head = "".join(f'<th scope="col">{b} labels</th>' for b in budgets)
    body = []
    for label, rows in found.table.groupby("label", sort=False):
        by_budget = rows.set_index("budget")
        cells = "".join(_cell(by_budget.loc[b]) if b in by_budget.index else "<td>–</td>" for b in budgets)
        size = rows["components"].max()
        body.append(
            f'<tr><th scope="row">{_text(label)}</th><td>{"all columns" if pd.isna(size) else size}</td>'
            f"{cells}<td>{_seconds(rows['fit_seconds'].mean())}</td>"
            f"<td>{_seconds(rows['transform_seconds'].mean())}</td></tr>"
        )
    return (
        f'<table><thead><tr><th scope="col">method</th><th scope="col">components</th>{head}'
        '<th scope="col">fit</th>'
        f'<th scope="col">transform</th></tr></thead><tbody>{"".join(body)}</tbody></table>'
    )


def _cell(row: Any) -> str:
    if np.isnan(row["mean"]):
        return "<td>failed</td>"
    spread = "" if np.isnan(row["spread"]) else f" ± {100 * row['spread']:.1f}"
    best = row["behind"] == 0
    below = "best" if best else points(-row["behind"], row["behind_spread"])
    return f"<td{' class=best' if best else ''}>{percent(row['mean'])}{spread}<small>{below}</small></td>"


def _seconds(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.2f} s" if value >= 0.1 else f"{1000 * value:.1f} ms"


def _failures(found: Comparison) -> str:
    """List why runs failed and what was warned of, each once."""
    items = []
    for column, verb in (("error", "failed"), ("note", "warned")):
        told = found.series.dropna(subset=column).groupby(["label", column], sort=False).size()
        items += [
            f"<li>{_text(label)} {verb} in {_times(count, 'run')}: {_text(why)}.</li>"
            for (label, why), count in told.items()
        ]
    return f'<ul class="note">{"".join(items)}</ul>' if items else ""


def _maps(found: Comparison) -> str:
    if not found.maps:
        return ""
    budget = found.maps[0].budget
    cards = "".join(
        f'<figure><h3>{_text(m.title)}</h3><div class="plot" id="plot-map-{i}" role="img" aria-label="'
        f'{_text(f"Map of {len(m.points)} rows by {m.title}, coloured by class")}"></div>'
        + (
            "<figcaption>This method gives one component here; the height of a point is random.</figcaption>"
            if m.flat
            else ""
        )
        + "</figure>"
        for i, m in enumerate(found.maps)
    )
    return (
        '<section aria-labelledby="maps"><h2 id="maps">Maps</h2>'
        f'<p class="note">Each embedding in two components, fitted with {budget} labels: the large points. '
        "Small points in colour are rows held back, in their true class, which the method never saw; grey "
        f'points are training rows without a label.</p>{_key(found)}<div class="maps">{cards}</div></section>'
    )


def _key(found: Comparison) -> str:
    classes = found.settings["classes"]
    items = []
    for code, name in enumerate(classes[: figures.MOST_CLASSES]):
        colour, symbol = figures.class_look(code)
        glyph = figures.GLYPHS[figures.SYMBOLS.index(symbol)]
        items.append(f'<li><span style="color:{colour}" aria-hidden="true">{glyph}</span>{_text(name)}</li>')
    rest = len(classes) - figures.MOST_CLASSES
    grey = "unlabelled" if rest <= 0 else f"unlabelled, and {rest} more classes"
    items.append(f'<li><span class="grey" aria-hidden="true">●</span>{grey}</li>')
    return f'<ul class="key" aria-label="Classes">{"".join(items)}</ul>'


def _how(found: Comparison) -> str:
    s = found.settings
    repeats = _times(s["repeats"], "repeat")
    packages = ("labelfold", "scikit-learn", "numpy", "scipy", "numba")
    facts = {
        "Protocol": (
            f"In each of {repeats}, {s['test_size']:.0%} of the labelled rows of each class were held "
            "back. Of the others as many labels as the budget were kept, at least one and if possible two a "
            "class and otherwise in proportion, and the rest hidden; those rows and rows that never had a "
            "label stayed in training, unlabelled. All methods saw the same rows and labels."
        ),
        "Reading it": (
            f"The repeats draw from the same rows, so with {repeats} the spread says how much the draw of "
            "labels matters, not how another data set would turn out."
        ),
        "Columns": "brought to a common scale first" if s["scale"] else "as they are",
        "Seed": s["random_state"],
        "Time": f"{s['seconds']:.1f} s",
        "Versions": ", ".join(
            [f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in packages)]
        ),
    }
    for method in found.methods.values():
        facts[method.title] = method.summary
    return "<dl>" + "".join(f"<dt>{_text(k)}</dt><dd>{_text(v)}</dd>" for k, v in facts.items()) + "</dl>"
