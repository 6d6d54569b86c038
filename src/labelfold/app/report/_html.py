"""Pieces of HTML that the sections of the report share."""

from __future__ import annotations

import html
from typing import Any


def text(value: Any) -> str:
    """Return text for HTML.

    >>> text("<script>")
    '&lt;script&gt;'
    """
    return html.escape(str(value))


def section(name: str, title: str, content: str) -> str:
    """Return a section with its heading."""
    return f'<section aria-labelledby="{name}">\n<h2 id="{name}">{title}</h2>\n{content}\n</section>'


def plot(name: str, described: str, caption: str, kind: str = "curve") -> str:
    """Return the place of a figure, described for those who cannot see it."""
    return (
        f'<figure class="{kind}"><div class="plot" id="{name}" role="img" aria-label="{text(described)}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def scrolled(described: str, table: str) -> str:
    """Return a table that scrolls by itself where it is too wide."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{text(described)}">{table}</div>'


def head_row(first: str, others: Any) -> str:
    """Return the head of a table."""
    cells = "".join(f'<th scope="col">{h}</th>' for h in (first, *others))
    return f"<tr>{cells}</tr>"
