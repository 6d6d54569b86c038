"""What was predicted for rows held back: confusion of classes, numbers against their predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labelfold.app.compare._words import sized
from labelfold.app.io._problems import count
from labelfold.app.report._html import head_row, plot, scrolled, section, text

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison

_MOST_IN_MATRIX = 25  # classes; beyond that a list of what is mistaken for what


def confusion(found: Comparison) -> str:
    """Show what the best model takes for what."""
    total = found.review.confusion
    if total is None or not total.sum():
        return ""
    names = found.data.classes
    lead = (
        f'<p class="note">{text(sized(found, found.winner))} with {found.budget_} labels, on the rows held back in '
        "all folds and repeats"
    )
    if found.data.facts.multilabel:
        given = ("rightly given", "wrongly given", "missed", "rightly not given")
        note, head, rows = (
            f"{lead}, label by label.</p>",
            head_row("label", given),
            list(zip(names, total, strict=True)),
        )
        body = "".join(
            f'<tr><th scope="row">{text(name)}</th>{"".join(f"<td>{v:,}</td>" for v in row)}</tr>'
            for name, row in rows
        )
    elif len(names) > _MOST_IN_MATRIX:
        note = f"{lead}: what was taken for what most often.</p>"
        head, body = head_row("class", ("taken for", "rows", "of its rows")), _mistakes(total, names)
    else:
        note = f"{lead}: a line is a true class, a column what it was taken for.</p>"
        head = head_row("true class", [text(n) for n in names])
        body = "".join(_line(name, row, i) for i, (name, row) in enumerate(zip(names, total, strict=True)))
    table = f'<table class="matrix"><thead>{head}</thead><tbody>{body}</tbody></table>'
    return section(
        "confusion", "What is taken for what", note + scrolled("Confusion of the best model", table)
    )


def held_back(found: Comparison) -> str:
    """Show numbers that were held back against what was predicted for them."""
    pairs = found.review.held_back
    if pairs is None:
        return ""
    described = f"Labels of {count(len(pairs), 'row')} against what was predicted without them"
    choice = found.choice
    within = (
        "" if choice is None or choice.within is None else f" Nine of ten lie within {choice.within:.3g}."
    )
    caption = (
        f"{text(sized(found, found.winner))}: each labelled row with what models that were not told its label "
        f"predicted for it, mean over the repeats. On the line a prediction is exact.{within}"
    )
    drawn = plot("plot-held-back", described, caption)
    return section("held-back", "What was predicted for rows held back", drawn)


def _line(name: str, row: np.ndarray, own: int) -> str:
    share = row / max(row.sum(), 1)
    cells = "".join(
        f'<td class="{"right" if j == own else "wrong"}" style="--share:{s:.3f}">{v:,}</td>'
        for j, (v, s) in enumerate(zip(row, share, strict=True))
    )
    return f'<tr><th scope="row">{text(name)}</th>{cells}</tr>'


def _mistakes(total: np.ndarray, names: list[str], most: int = 20) -> str:
    wrong = total - np.diag(np.diag(total))
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [divmod(int(i), len(names)) for i in order]
    return "".join(
        f'<tr><th scope="row">{text(names[a])}</th><td>{text(names[b])}</td><td>{wrong[a, b]:,}</td>'
        f"<td>{wrong[a, b] / total[a].sum():.0%}</td></tr>"
        for a, b in pairs
        if wrong[a, b]
    )
