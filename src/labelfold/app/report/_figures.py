"""The figures of the report as dictionaries for plotly.

Plotly reads a subset of HTML in every text, so text from the data is escaped by :func:`plain`.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from labelfold.app.compare._choice import interval

if TYPE_CHECKING:
    import pandas as pd

    from labelfold.app.compare._results import Comparison

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
_AT_FIRST = 6  # lines shown at first; the legend switches the others on
_DRAWS = 200  # bootstrap draws for an interval
_LEAST_ROWS = 5  # least rows in a group of similar confidence
_STEPS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # limits of confidence between groups


def plain(text: Any) -> str:
    """Return text with its markup escaped for plotly; quotes stay, since plotly would show their escapes.

    >>> plain("<b>a</b> & b")
    '&lt;b&gt;a&lt;/b&gt; &amp; b'
    """
    return html.escape(str(text), quote=False)


def by_budget(found: Comparison) -> dict[str, Any]:
    """Draw the learning curves: a line with a band for each method."""
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
    """Draw the score against the number of components at the deciding budget; None if there is one size only."""
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


def by_method(found: Comparison) -> dict[str, Any] | None:
    """Draw the score of each method with its 90% interval, best first, and at the end the seconds of a fit."""
    scored = scores(found)
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
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": _rounded([one.high - one.value]),
                    "arrayminus": _rounded([one.value - one.low]),
                    "color": colour,
                    "thickness": 1.5,
                },
                "text": [f"{title}: {value} ({low} to {high}), {seconds[label]:.2g} s to fit"],
                "hoverinfo": "text",
                "marker": {"color": colour, "symbol": symbol, "size": 11},
            }
        )
    layout = _layout()
    layout["xaxis"] |= _score_axis(found)
    layout["yaxis"] |= {
        "tickvals": places,
        "ticktext": [plain(found.methods[at["method"][label]].title) for label in scored],
        "range": [-0.7, len(places) - 0.3],
        "showgrid": False,
        "fixedrange": True,
    }
    layout["yaxis2"] = layout["yaxis"] | {
        "overlaying": "y",
        "side": "right",
        "ticktext": [f"{seconds[label]:.2g} s" for label in scored],
    }
    # plotly draws a second axis only if it has a trace
    data.append({"type": "scatter", "x": [None], "y": [None], "yaxis": "y2", "hoverinfo": "skip"})
    layout |= {"margin": {"l": 20, "r": 20, "t": 8, "b": 50}, "hovermode": "closest"}
    layout["height"] = 26 * len(places) + 80
    return {"data": data, "layout": layout}


class Score(NamedTuple):
    """The cross-validated score of a method, with its 90% interval and the number of rows."""

    value: float
    low: float
    high: float
    n_rows: int


def scores(found: Comparison) -> dict[str, Score]:
    """Return the score of each method over folds of all labels, best first."""
    told, measure = found.out_of_fold, found.measure
    n = found.settings["n_labelled"]
    draws = None
    if measure.kind != "accuracy":  # for accuracy the number of rows gives the interval
        rng = np.random.default_rng(found.settings["random_state"])
        draws = rng.multinomial(n, np.full(n, 1 / n), size=_DRAWS).astype(float)
    found_scores = {}
    for label in found.ranking["label"]:
        if label in told:
            one = told[label]
            drawn = np.empty(0) if draws is None else measure.value(draws @ one.mean_terms)
            found_scores[label] = Score(one.score, *interval(one, one.score, drawn), one.n_rows)
    return found_scores


def calibration(found: Comparison) -> dict[str, Any] | None:
    """Draw the reliability diagram of the confidence; None if the method has none."""
    shares = reliability(found)
    if shares is None:
        return None
    line = {"type": "scatter", "mode": "lines", "x": [0, 1], "y": [0, 1], "hoverinfo": "skip"}
    points = {
        "type": "scatter",
        "mode": "markers+text",
        "x": _rounded([s for s, *_ in shares]),
        "y": _rounded([r for _, r, *_ in shares]),
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": _rounded([high - r for _, r, _, high, _ in shares]),
            "arrayminus": _rounded([r - low for _, r, low, _, _ in shares]),
            "color": COLOURS[0],
            "thickness": 1.5,
        },
        "text": [f"{n:,}" for *_, n in shares],
        "textposition": "middle left",
        "hovertext": [f"{s:.0%} sure on average, {r:.0%} right, {n:,} rows" for s, r, _, _, n in shares],
        "hoverinfo": "text",
        "marker": {"color": COLOURS[0], "symbol": "circle", "size": 10},
    }
    layout = _layout()
    low = max(0.0, min(min(s, left) for s, _, left, _, _ in shares) - 0.1)
    layout["xaxis"] |= {
        "title": {"text": "how sure", "standoff": 12},
        "tickformat": ".0%",
        "range": [low, 1.02],
    }
    layout["yaxis"] |= {"title": {"text": "how often right", "standoff": 12}, "tickformat": ".0%"}
    layout["yaxis"]["range"] = [low, 1.02]
    layout |= {"margin": {"l": 60, "r": 12, "t": 12, "b": 50}, "hovermode": "closest"}
    return {"data": [line | {"line": {"color": GREY, "width": 1.5}}, points], "layout": layout}


def reliability(found: Comparison) -> list[tuple[float, float, float, float, int]] | None:
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
        if groups and len(groups[-1]) < _LEAST_ROWS:  # a group this small is merged
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
    layout = _layout()
    hidden = {"visible": False, "fixedrange": True}
    layout["xaxis"], layout["yaxis"] = dict(hidden), hidden | {"autorange": "reversed", "scaleanchor": "x"}
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


def held_out(found: Comparison) -> dict[str, Any] | None:
    """Draw true against predicted numbers of held-out rows; None for classes."""
    told = found.review.left_out
    if told is None or not found.data.facts.numbers:
        return None
    true, said = found.data.truth, told.guess
    ends = _rounded([min(true.min(), said.min()), max(true.max(), said.max())])
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
    axis = {"showline": True, "automargin": True, "zeroline": False}
    return {
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 13},
        "xaxis": dict(axis),
        "yaxis": dict(axis),
    }


def _rounded(values: Any) -> list[float | None]:
    """Return values with five significant digits, which are enough for a screen and halve the size."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.12)"
