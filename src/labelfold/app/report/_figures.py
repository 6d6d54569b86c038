"""The report's figures as plotly's plain dictionaries.

Plotly reads a subset of HTML in every text it draws, so text that comes from the data goes through
:func:`plain` first.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfold.app.report._label_placement import log_marks, place_names

if TYPE_CHECKING:
    import pandas as pd

    from labelfold.app.compare._data import Data
    from labelfold.app.compare._results import Comparison
    from labelfold.app.compare._review import Map

# told apart on white and on near-black, and by most colour-blind readers with the symbols' help
COLOURS = (
    "#2f7ed8",
    "#d9622b",
    "#2a9d68",
    "#b459c4",
    "#b8860b",
    "#1f97a8",
    "#d6476a",
    "#7a6fd0",
    "#6f8f2f",
    "#9a7355",
)
SYMBOLS = ("circle", "square", "triangle-up", "diamond")
GLYPHS = ("●", "■", "▲", "◆")
DASHES = ("solid", "dash", "dot", "dashdot")
GREY = "#8a93a0"
MOST_CLASSES = len(COLOURS) * len(SYMBOLS)
_ROLES: dict[str, dict[str, Any]] = {
    "unlabelled": {"size": 6, "opacity": 0.45},
    "labelled": {"size": 10, "opacity": 1.0, "line": {"width": 1.5, "color": "#ffffff"}},
}
_AT_FIRST = 6  # lines drawn at first; the legend has the others


def plain(text: Any) -> str:
    """Return text that plotly shows letter by letter; quotes stay, since it does not read them back.

    >>> plain("<b>a</b> & b")
    '&lt;b&gt;a&lt;/b&gt; &amp; b'
    """
    return html.escape(str(text), quote=False)


def by_budget(found: Comparison) -> dict[str, Any]:
    """Draw the score against the label budget, a line with a band for each method at its size."""
    data = []
    for label, rows in found.lines.dropna(subset="mean").groupby("label", sort=False):
        hover = [
            f"{plain(label)}, {b} labels: {found.measure.with_spread(m, s)}"
            for b, m, s in _triples(rows, "budget")
        ]
        data += _line(found, rows, "budget", label, hover)
    budgets = found.settings["budgets"]
    layout = _lines_layout(found, "labels given")
    layout["xaxis"] |= {
        "type": "log" if is_log(found) else "linear",
        "tickvals": budgets,
        "ticktext": [str(b) for b in budgets],
    }
    return {"data": data, "layout": layout}


def by_size(found: Comparison) -> dict[str, Any] | None:
    """Draw the score against the number of components at the budget that decides; None where there is one size."""
    at = found.table[found.table["budget"] == found.budget_].dropna(subset=["mean", "components"])
    data = []
    for method in found.ranking["method"]:
        rows = at[at["method"] == method]
        if rows["components"].nunique() > 1:
            title = found.methods[method].title
            hover = [
                f"{plain(title)}, {k} components: {found.measure.with_spread(m, s)}"
                for k, m, s in _triples(rows, "components")
            ]
            data += _line(found, rows, "components", title, hover)
    if not data:
        return None
    layout = _lines_layout(found, "components")
    sizes = sorted(at["components"].unique().tolist())
    layout["xaxis"] |= {"type": "log", "tickvals": sizes, "ticktext": [str(k) for k in sizes]}
    return {"data": data, "layout": layout}


def by_seconds(found: Comparison) -> dict[str, Any]:
    """Draw the score against the seconds of one fit at the budget that decides, a point for each method."""
    at = found.lines[found.lines["budget"] == found.budget_].dropna(subset="mean")
    seconds = np.maximum(at["fit_seconds"].to_numpy(float), 1e-6)
    spreads = at["spread"].fillna(0.0).to_numpy()
    titles = [found.methods[m].title for m in at["method"]]
    places = place_names(np.log10(seconds), at["mean"].to_numpy(), spreads, titles) if len(at) else []
    data = []
    for (_, row), spread, place in zip(at.iterrows(), spreads, places, strict=True):
        colour, symbol, _ = method_look(found, row["method"])
        title = plain(found.methods[row["method"]].title)
        data.append(
            {
                "type": "scatter",
                "meta": found.methods[row["method"]].title,
                "mode": "markers+text" if place else "markers",
                "x": _rounded([row["fit_seconds"]]),
                "y": _rounded([row["mean"]]),
                "error_y": {"type": "data", "array": _rounded([spread]), "color": colour, "thickness": 1},
                "text": [title],
                "textposition": place or "middle right",
                "cliponaxis": False,
                "hovertext": [
                    f"{plain(row['label'])}: {found.measure.with_spread(row['mean'], spread)} in "
                    f"{row['fit_seconds']:.2g} s"
                ],
                "hoverinfo": "text",
                "marker": {"color": colour, "symbol": symbol, "size": 11},
            }
        )
    layout = _layout()
    layout["xaxis"] |= {"title": {"text": "seconds to fit", "standoff": 12}, "type": "log"}
    if len(at):
        low, high = seconds.min() / 1.3, seconds.max() * 1.3
        marks = log_marks(low, high)
        layout["xaxis"] |= {"tickvals": marks, "ticktext": [f"{mark:g}" for mark in marks]}
    layout["yaxis"] |= _score_axis(found)
    layout |= {"margin": {"l": 60, "r": 60, "t": 24, "b": 50}, "hovermode": "closest"}
    return {"data": data, "layout": layout}


def groups(data: Data) -> tuple[list[str], np.ndarray]:
    """Return the names by which labelled rows are coloured, and each row's place among them, -1 for none.

    With one class a row the classes; with several labels the most frequent sets of them.
    """
    if not data.facts.multilabel:
        return data.classes, data.y
    known = data.labels.index
    sets, place, counts = np.unique(data.y[known], axis=0, return_inverse=True, return_counts=True)
    often = np.argsort(-counts, kind="stable")[: len(COLOURS)]
    rank = np.full(len(sets), -1)
    rank[often] = np.arange(len(often))
    code = np.full(len(data.y), -1)
    code[known] = rank[place.ravel()]
    return [data.named(sets[i]) for i in often], code


def embedding(shown: Map, data: Data) -> dict[str, Any]:
    """Draw a map: bold where a label was given, faint and in the colour of the prediction where not."""
    looks = _by_class(shown, data) if shown.numbers is None else _by_number(shown)
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": _rounded(shown.points[at, 0]),
            "y": _rounded(shown.points[at, 1]),
            "text": [_hover(shown, int(i), data) for i in at],
            "hoverinfo": "text",
            "marker": marker,
        }
        for at, marker in looks
    ]
    layout = _layout()
    first, second = ("the component", "at random, no meaning") if shown.flat else ("", "")
    layout["xaxis"] |= {"title": {"text": first}, "zeroline": False, "showticklabels": False}
    layout["yaxis"] |= {"title": {"text": second}, "zeroline": False, "showticklabels": False}
    layout |= {"margin": {"l": 30, "r": 8, "t": 8, "b": 34}, "hovermode": "closest"}
    return {"data": traces, "layout": layout}


def _by_class(shown: Map, data: Data) -> list[tuple[np.ndarray, dict[str, Any]]]:
    """Return the points of each class in each role, and how they look."""
    names, code = groups(data)
    place = {name: i for i, name in enumerate(names)}
    said = np.array([place.get(label, -1) for label in shown.predicted])
    code = np.where(shown.role == "unlabelled", said, code[shown.rows])
    looks = []
    for role, marker in _ROLES.items():
        for group in np.unique(code[shown.role == role]):
            colour, symbol = class_look(int(group))
            at = np.flatnonzero((shown.role == role) & (code == group))
            looks.append((at, marker | {"color": colour, "symbol": symbol}))
    return looks


def _by_number(shown: Map) -> list[tuple[np.ndarray, dict[str, Any]]]:
    """Return the points in each role, coloured on one scale, which stands beside the map."""
    assert shown.numbers is not None
    # a few extreme numbers would leave the others one colour
    low, high = (float(v) for v in np.quantile(shown.numbers, [0.02, 0.98]))
    scale = {"colorscale": "Viridis", "cmin": low, "cmax": high}
    looks = []
    for role, marker in _ROLES.items():
        at = np.flatnonzero(shown.role == role)
        own = marker | scale | {"color": _rounded(shown.numbers[at]), "symbol": "circle"}
        if role == "labelled":
            own["colorbar"] = {"thickness": 12, "outlinewidth": 0}
        if len(at):
            looks.append((at, own))
    return looks


def _hover(shown: Map, i: int, data: Data) -> str:
    row = shown.rows[i]
    label = data.named(data.y[row])
    sure = shown.confidence[i]
    confidence = "" if data.facts.numbers else f"<br>confidence: {'–' if np.isnan(sure) else f'{sure:.0%}'}"
    return (
        f"{plain(data.row(row))}<br>label: {plain(label) if label else 'none'}"
        f"<br>prediction: {plain(shown.predicted[i])}{confidence}"
    )


def held_back(found: Comparison) -> dict[str, Any] | None:
    """Draw the numbers of rows held back against what was predicted for them; None where y holds classes."""
    pairs = found.review.held_back
    if pairs is None:
        return None
    true, said = pairs.T
    ends = _rounded([pairs.min(), pairs.max()])
    names = [found.data.row(i) for i in found.data.labels.index]
    line = {"type": "scatter", "mode": "lines", "x": ends, "y": ends, "hoverinfo": "skip"}
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": _rounded(said),
        "y": _rounded(true),
        "text": [
            f"{plain(name)}<br>label: {t:.6g}<br>predicted without it: {s:.6g}"
            for name, t, s in zip(names, true, said, strict=True)
        ],
        "hoverinfo": "text",
        "marker": {"color": COLOURS[0], "symbol": "circle", "size": 8, "opacity": 0.7},
    }
    layout = _layout()
    layout["xaxis"] |= {"title": {"text": "predicted without the label", "standoff": 12}}
    layout["yaxis"] |= {"title": {"text": "label", "standoff": 12}}
    layout |= {"margin": {"l": 60, "r": 12, "t": 12, "b": 50}, "hovermode": "closest"}
    return {"data": [line | {"line": {"color": GREY, "width": 1.5}}, points], "layout": layout}


def class_look(code: int) -> tuple[str, str]:
    """Return the colour and symbol of a class; grey for -1 and where colours and symbols run out."""
    if not 0 <= code < MOST_CLASSES:
        return GREY, "circle"
    return COLOURS[code % len(COLOURS)], SYMBOLS[code // len(COLOURS)]


def method_look(found: Comparison, method: str) -> tuple[str, str, str]:
    """Return the colour, symbol and dash of a method: the same in every figure, by its rank."""
    place = int(np.flatnonzero(found.ranking["method"] == method)[0])
    return (
        COLOURS[place % len(COLOURS)],
        SYMBOLS[place % len(SYMBOLS)],
        DASHES[place // len(COLOURS) % len(DASHES)],
    )


def is_log(found: Comparison) -> bool:
    """Tell whether the budgets span enough for a logarithmic axis."""
    budgets = found.settings["budgets"]
    return budgets[-1] >= 4 * budgets[0]


def _line(found: Comparison, rows: pd.DataFrame, x: str, name: str, hover: list[str]) -> list[dict[str, Any]]:
    """Return a method's band and line."""
    method = rows["method"].iloc[0]
    colour, symbol, dash = method_look(found, method)
    there, mean = rows[x].tolist(), rows["mean"].to_numpy()
    spread = rows["spread"].fillna(0.0).to_numpy()
    shared: dict[str, Any] = {"type": "scatter", "meta": name}
    if np.flatnonzero(found.ranking["method"] == method)[0] >= _AT_FIRST:
        shared["visible"] = False
    band = {
        "mode": "none",
        "x": there + there[::-1],
        "y": _rounded(np.concatenate([mean + spread, (mean - spread)[::-1]])),
        "fill": "toself",
        "fillcolor": _faint(colour),
        "hoverinfo": "skip",
    }
    line = {
        "mode": "lines+markers",
        "x": there,
        "y": _rounded(mean),
        "line": {"color": colour, "width": 2.5, "dash": dash},
        "marker": {"color": colour, "size": 9, "symbol": symbol},
        "text": hover,
        "hoverinfo": "text",
    }
    return [shared | band, shared | line]


def _triples(rows: pd.DataFrame, x: str) -> Any:
    return zip(rows[x], rows["mean"], rows["spread"], strict=True)


def _score_axis(found: Comparison) -> dict[str, Any]:
    return {"title": {"text": found.settings["metric"], "standoff": 12}, "tickformat": found.measure.ticks}


def _lines_layout(found: Comparison, x: str) -> dict[str, Any]:
    layout = _layout()
    layout["xaxis"] |= {"title": {"text": x, "standoff": 12}}
    layout["yaxis"] |= _score_axis(found)
    layout |= {
        "margin": {"l": 60, "r": 12, "t": 12, "b": 50},
        "hovermode": "closest",
    }
    return layout


def _layout() -> dict[str, Any]:
    axis = {"showline": True, "automargin": True}
    return {
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 13},
        "xaxis": dict(axis),
        "yaxis": dict(axis),
    }


def _rounded(values: Any) -> list[float | None]:
    """Return five significant figures, enough for a screen and half the size."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.12)"
