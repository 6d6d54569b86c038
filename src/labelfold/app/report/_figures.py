"""The figures of the report as dictionaries for plotly.

Plotly reads a subset of HTML in every text, so text from the data is escaped by :func:`plain`.
"""

from __future__ import annotations

import html
from typing import Any

import numpy as np
from scipy.stats import binomtest

from labelfold.app.compare import Results
from labelfold.app.io import pd

# distinguishable on white and on near-black, and by most colour-blind readers together with the symbols
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
DASHES = ("solid", "dash", "dot", "dashdot")
GREY = "#8a93a0"
# Choices of presentation.
_AT_FIRST = 6  # lines shown at first; the legend switches the others on
_MIN_ROWS = 5  # in a group of similar confidence
_STEPS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # limits of confidence between groups


def plain(text: Any) -> str:
    """Return text with its markup escaped for plotly; quotes stay, since plotly would show their escapes.

    >>> plain("<b>a</b> & b")
    '&lt;b&gt;a&lt;/b&gt; &amp; b'
    """
    return html.escape(str(text), quote=False)


def by_budget(found: Results) -> dict[str, Any]:
    """Draw the learning curves: a line with a band for each method."""
    data = []
    for label, rows in found.lines.dropna(subset="mean").groupby("label", sort=False):
        data += _line(found, rows, "budget", label, "labels")
    axis = _ticks("labels given", found.settings["budgets"], log=is_log(found))
    return {"data": data, "layout": _layout(axis, _score_axis(found))}


def by_size(found: Results) -> dict[str, Any] | None:
    """Draw the score against the number of components at the deciding budget; None if there is one size only."""
    at = found.table[found.table["budget"] == found.budget_].dropna(subset=["mean", "components"])
    data = []
    for method in found.ranking["method"]:
        rows = at[at["method"] == method]
        if rows["components"].nunique() > 1:
            data += _line(found, rows, "components", found.methods[method].title, "components")
    if not data:
        return None
    axis = _ticks("components", sorted(at["components"].unique().tolist()), log=True)
    return {"data": data, "layout": _layout(axis, _score_axis(found))}


def by_method(found: Results) -> dict[str, Any] | None:
    """Draw the score of each method with its 90% interval, best first, and at the end the seconds of a fit."""
    scored = found.scores()
    if not scored:
        return None
    places = list(range(len(scored)))[::-1]
    at = found.ranking.set_index("label")
    seconds = found.lines[found.lines["budget"] == found.budget_].set_index("label")["fit_seconds"]
    data = []
    for place, (label, one) in zip(places, scored.items(), strict=True):
        colour, symbol, _ = method_look(found, at["method"][label])
        title = plain(found.methods[at["method"][label]].title)
        value, low, high = (found.measure.show(v) for v in (one.value, one.low, one.high))
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": _rounded([one.value]),
                "y": [place],
                "error_x": _errors([one.value], [one.low], [one.high], colour),
                "text": [f"{title}: {value} ({low} to {high}), {seconds[label]:.2g} s to fit"],
                "hoverinfo": "text",
                "marker": {"color": colour, "symbol": symbol, "size": 11},
            }
        )
    named = {
        "tickvals": places,
        "ticktext": [plain(found.methods[at["method"][label]].title) for label in scored],
        "range": [-0.7, len(places) - 0.3],
        "showgrid": False,
        "fixedrange": True,
    }
    layout = _layout(_score_axis(found), named)
    layout["yaxis2"] = layout["yaxis"] | {
        "overlaying": "y",
        "side": "right",
        "ticktext": [f"{seconds[label]:.2g} s" for label in scored],
    }
    # plotly draws a second axis only if it has a trace
    data.append({"type": "scatter", "x": [None], "y": [None], "yaxis": "y2", "hoverinfo": "skip"})
    layout |= {"margin": {"l": 20, "r": 20, "t": 8, "b": 50}, "height": 26 * len(places) + 80}
    return {"data": data, "layout": layout}


def calibration(found: Results) -> dict[str, Any] | None:
    """Draw the reliability diagram of the confidence; None if the method has none."""
    shares = reliability(found)
    if shares is None:
        return None
    sure, right, low, high, rows = (list(column) for column in zip(*shares, strict=True))
    points = {
        "type": "scatter",
        "mode": "markers+text",
        "x": _rounded(sure),
        "y": _rounded(right),
        "error_y": _errors(right, low, high, COLOURS[0]),
        "text": [f"{n:,}" for n in rows],
        "textposition": "middle left",
        "hovertext": [f"{s:.0%} sure on average, {r:.0%} right, {n:,} rows" for s, r, _, _, n in shares],
        "hoverinfo": "text",
        "marker": {"color": COLOURS[0], "symbol": "circle", "size": 10},
    }
    shown = {"tickformat": ".0%", "range": [max(0.0, min(*sure, *low) - 0.1), 1.02]}
    layout = _layout(_titled("how sure", **shown), _titled("how often right", **shown))
    return {"data": [_diagonal([0, 1]), points], "layout": layout}


def reliability(found: Results) -> list[tuple[float, float, float, float, int]] | None:
    """Return groups of similar confidence: mean confidence, share right, its 90% interval, number of rows."""
    told = found.review.left_out
    if told is None or found.data.facts.numbers:
        return None
    there = told.tested & np.isfinite(told.confidence)
    sure, right = told.confidence[there], told.right(found.data.truth)[there]
    if not len(sure):
        return None
    order = np.argsort(sure, kind="stable")
    groups: list[np.ndarray] = []
    for at in np.split(order, np.searchsorted(sure[order], _STEPS)):
        if groups and len(groups[-1]) < _MIN_ROWS:  # a group this small is merged
            at = np.concatenate([groups.pop(), at])
        groups += [at] if len(at) else []
    found_shares = []
    for at in groups:
        between = binomtest(int(right[at].sum()), len(at)).proportion_ci(0.9, "wilson")
        found_shares.append((sure[at].mean(), right[at].mean(), between.low, between.high, len(at)))
    return found_shares


def component(strength: np.ndarray, shape: tuple[int, ...], names: list[str], most: float) -> dict[str, Any]:
    """Draw the correlations of a component with the pixels; in colour, the strongest of the three channels."""
    if len(shape) == 3:
        each = strength.reshape(-1, shape[2])
        place = np.arange(len(each)) * shape[2] + np.abs(each).argmax(axis=1)
        strength, names, shape = strength[place], [names[i] for i in place], shape[:2]
    hidden = {"visible": False, "fixedrange": True}
    layout = _layout(hidden, hidden | {"autorange": "reversed", "scaleanchor": "x"})
    layout["margin"] = {"l": 0, "r": 0, "t": 0, "b": 0}
    image = {
        "type": "heatmap",
        "z": [_rounded(row) for row in strength.reshape(shape)],
        "text": np.array([plain(name) for name in names]).reshape(shape).tolist(),
        "hovertemplate": "%{text}: %{z:.2f}<extra></extra>",
        "colorscale": [[0, "#2166ac"], [0.5, "#ffffff"], [1, "#b2182b"]],
        "zmin": -most,
        "zmax": most,
        "showscale": False,
    }
    return {"data": [image], "layout": layout}


def held_out(found: Results) -> dict[str, Any] | None:
    """Draw true against predicted numbers of held-out rows; None for classes."""
    told = found.review.left_out
    if told is None or not found.data.facts.numbers:
        return None
    true, said = found.data.truth, told.guess
    ends = _rounded([min(true.min(), said.min()), max(true.max(), said.max())])
    names = [found.data.row(i) for i in found.data.labels.index]
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
    layout = _layout(_titled("predicted without the label"), _titled("label"))
    return {"data": [_diagonal(ends), points], "layout": layout}


def method_look(found: Results, method: str) -> tuple[str, str, str]:
    """Return the colour, symbol and dash of a method: the same in every figure, by its rank."""
    place = int(np.flatnonzero(found.ranking["method"] == method)[0])
    return (
        COLOURS[place % len(COLOURS)],
        SYMBOLS[place % len(SYMBOLS)],
        DASHES[place // len(COLOURS) % len(DASHES)],
    )


def is_log(found: Results) -> bool:
    """Tell whether the budgets span enough for a logarithmic axis."""
    budgets = found.settings["budgets"]
    return budgets[-1] >= 4 * budgets[0]


def _line(found: Results, rows: pd.DataFrame, x: str, name: str, unit: str) -> list[dict[str, Any]]:
    """Return a method's band and line."""
    points = zip(rows[x], rows["mean"], rows["spread"], strict=True)
    hover = [f"{plain(name)}, {v} {unit}: {found.measure.with_spread(m, s)}" for v, m, s in points]
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
        "y": _rounded(np.concatenate([np.minimum(mean + spread, 1.0), (mean - spread)[::-1]])),
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


def _errors(values: Any, low: Any, high: Any, colour: str) -> dict[str, Any]:
    """Return error bars from low to high."""
    return {
        "type": "data",
        "symmetric": False,
        "array": _rounded(np.subtract(high, values)),
        "arrayminus": _rounded(np.subtract(values, low)),
        "color": colour,
        "thickness": 1.5,
    }


def _diagonal(ends: list[Any]) -> dict[str, Any]:
    grey = {"color": GREY, "width": 1.5}
    return {"type": "scatter", "mode": "lines", "x": ends, "y": ends, "hoverinfo": "skip", "line": grey}


def _titled(text: str, **more: Any) -> dict[str, Any]:
    return {"title": {"text": text, "standoff": 12}, **more}


def _ticks(title: str, values: list[int], *, log: bool) -> dict[str, Any]:
    return _titled(
        title, type="log" if log else "linear", tickvals=values, ticktext=[str(value) for value in values]
    )


def _score_axis(found: Results) -> dict[str, Any]:
    return _titled(found.settings["metric"], tickformat=found.measure.ticks)


def _layout(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    """Return a layout with these axes."""
    axis = {"showline": True, "automargin": True, "zeroline": False}
    return {
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 13},
        "margin": {"l": 60, "r": 12, "t": 12, "b": 50},
        "hovermode": "closest",
        "xaxis": axis | x,
        "yaxis": axis | y,
    }


def _rounded(values: Any) -> list[float | None]:
    """Return values with five significant digits, which are enough for a screen and halve the size."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.12)"
