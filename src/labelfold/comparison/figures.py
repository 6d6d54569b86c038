"""The report's figures as plotly's plain dictionaries.

Plotly reads a subset of HTML in every text it draws, so text that comes from the data goes through
:func:`plain` first.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfold.comparison.words import percent

if TYPE_CHECKING:
    from labelfold.comparison.results import Comparison, Map

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


def plain(text: Any) -> str:
    """Return text that plotly shows letter by letter; quotes stay, since it does not read them back.

    >>> plain("<b>a</b> & b")
    '&lt;b&gt;a&lt;/b&gt; &amp; b'
    """
    return html.escape(str(text), quote=False)


def curve(found: Comparison) -> dict[str, Any]:
    """Draw accuracy against the label budget, a line with a band for each method."""
    data = []
    for i, (label, rows) in enumerate(found.table.dropna(subset="mean").groupby("label", sort=False)):
        x, mean = rows["budget"].tolist(), rows["mean"].to_numpy()
        spread = rows["spread"].fillna(0.0).to_numpy()
        colour, name = COLOURS[i % len(COLOURS)], plain(label)
        data.append(
            {
                "type": "scatter",
                "mode": "none",
                "x": x + x[::-1],
                "y": _rounded(np.concatenate([mean + spread, (mean - spread)[::-1]])),
                "fill": "toself",
                "fillcolor": _faint(colour),
                "legendgroup": name,
                "showlegend": False,
                "hoverinfo": "skip",
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": x,
                "y": _rounded(mean),
                "name": name,
                "legendgroup": name,
                "line": {"color": colour, "width": 2.5, "dash": DASHES[i // len(COLOURS) % len(DASHES)]},
                "marker": {"color": colour, "size": 9, "symbol": SYMBOLS[i % len(SYMBOLS)]},
                "text": [
                    f"{name}, {b} labels: {percent(m)} ± {100 * s:.1f}"
                    for b, m, s in zip(x, mean, spread, strict=True)
                ],
                "hoverinfo": "text",
            }
        )
    budgets = found.settings["budgets"]
    layout = _layout()
    layout["xaxis"] |= {
        "title": {"text": "labels given"},
        "type": "log" if is_log(found) else "linear",
        "tickvals": budgets,
        "ticktext": [str(b) for b in budgets],
    }
    layout["yaxis"] |= {"title": {"text": "accuracy"}, "tickformat": ".0%"}
    layout |= {
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 60, "r": 12, "t": 36, "b": 60},
    }
    return {"data": data, "layout": layout}


def embedding(shown: Map, classes: list[str]) -> dict[str, Any]:
    """Draw a map: grey where the class was hidden, faint where held back, bold where a label was given."""
    looks = {
        "unlabelled": {"size": 5, "opacity": 0.35},
        "held back": {"size": 6, "opacity": 0.6},
        "labelled": {"size": 10, "opacity": 1.0, "line": {"width": 1.5, "color": "#ffffff"}},
    }
    words = {
        "unlabelled": "unlabelled in training",
        "held back": "held back, true class",
        "labelled": "labelled in training",
    }
    data = []
    for role, marker in looks.items():
        for code in np.unique(shown.code[shown.role == role]):
            at = (shown.role == role) & (shown.code == code)
            colour, symbol = class_look(int(code))
            what = words[role] if code < 0 else f"{plain(classes[code])}: {words[role]}"
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": _rounded(shown.points[at, 0]),
                    "y": _rounded(shown.points[at, 1]),
                    "text": what,
                    "hoverinfo": "text",
                    "showlegend": False,
                    "marker": marker | {"color": colour, "symbol": symbol},
                }
            )
    layout = _layout()
    layout["xaxis"] |= {"title": {"text": "component 1"}, "zeroline": False, "showticklabels": False}
    second = "at random, no meaning" if shown.flat else "component 2"
    layout["yaxis"] |= {"title": {"text": second}, "zeroline": False, "showticklabels": False}
    layout |= {"margin": {"l": 30, "r": 8, "t": 8, "b": 34}, "hovermode": "closest"}
    return {"data": data, "layout": layout}


def class_look(code: int) -> tuple[str, str]:
    """Return the colour and symbol of a class; grey for -1 and where colours and symbols run out."""
    if not 0 <= code < MOST_CLASSES:
        return GREY, "circle"
    return COLOURS[code % len(COLOURS)], SYMBOLS[code // len(COLOURS)]


def majority_share(found: Comparison) -> float:
    """Return the share of the most frequent class among the labelled rows."""
    counts = found.settings["counts"]
    return max(counts) / sum(counts)


def is_log(found: Comparison) -> bool:
    """Tell whether the budgets span enough for a logarithmic axis."""
    budgets = found.settings["budgets"]
    return budgets[-1] >= 4 * budgets[0]


def _layout() -> dict[str, Any]:
    axis = {"showline": True, "automargin": True}
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 13},
        "xaxis": dict(axis),
        "yaxis": dict(axis),
    }


def _rounded(values: np.ndarray) -> list[float | None]:
    """Return five significant figures, enough for a screen and half the size."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in values]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"
