"""The parts of the report as HTML. Every text that comes from the data goes through :func:`text`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfold.app._explain import top_features
from labelfold.app.compare._out_of_fold import whole
from labelfold.app.compare._words import guessing, repeats_run, sized
from labelfold.app.io._problems import count
from labelfold.app.report import _figures as figures
from labelfold.app.report._held_back import confusion, held_back
from labelfold.app.report._html import head_row, plot, scrolled, section, text
from labelfold.app.report._thumbnails import picture

if TYPE_CHECKING:
    from labelfold.app.compare._results import Comparison


def all_of(found: Comparison) -> Iterator[str]:
    """Yield the sections in the order of the page; an empty one is left out."""
    yield seconds(found)
    yield numbers(found)
    yield maps(found)
    yield budgets(found)
    yield sizes(found)
    yield components(found)
    yield confusion(found)
    yield held_back(found)
    yield next_rows(found)
    yield columns(found)
    yield left_out(found)


def has_curve(found: Comparison) -> bool:
    """Tell whether there are results with fewer labels than there are."""
    return found.lines["budget"].nunique() > 1


def budgets(found: Comparison) -> str:
    """Show the score by label budget, where there is more than one."""
    if not has_curve(found):
        return ""
    measure = found.measure
    lines = [
        f"{label}: "
        + ", ".join(f"{measure.show(m)} with {b}" for b, m in zip(rows["budget"], rows["mean"], strict=True))
        for label, rows in found.lines.dropna(subset="mean").groupby("label", sort=False)
    ]
    described = f"{measure.sentence} against the number of labels. {'; '.join(lines)}."
    guessed = f" {guessing(found)}." if guessing(found) else ""
    hidden = " Methods in grey are hidden; choose them in the legend." if len(found.ranking) > 6 else ""
    axis = " The horizontal axis is logarithmic." if figures.is_log(found) else ""
    caption = (
        f"Mean {measure.name} on labelled rows held back, each method at the size chosen for it. The bands are one "
        f"standard deviation over {repeats_run(found)}.{guessed}{axis}{hidden}"
    )
    note = '<noscript><p class="note">The figures need JavaScript; the table has the same numbers.</p></noscript>'
    return section("budgets", "How it grows with labels", plot("plot-budgets", described, caption) + note)


def numbers(found: Comparison) -> str:
    """Show the table: a row a method, a column a budget."""
    asked = sorted(found.lines["budget"].unique())
    heads = ["method", "components", *(f"{b} labels" for b in asked), "fit", "transform", "embedding"]
    body = []
    for label, rows in found.lines.groupby("label", sort=False):
        at = rows.set_index("budget")
        cells = "".join(_cell(found, at.loc[b]) if b in at.index else "<td>–</td>" for b in asked)
        size, stored = whole(rows["components"].max()), whole(rows["embedding_size"].max())
        title = found.methods[rows["method"].iloc[0]].title
        recommended = ' class="chosen"' if found.winner is not None and label == found.winner["label"] else ""
        body.append(
            f'<tr{recommended}><th scope="row">{text(title)}</th><td>{"none" if size is None else size}</td>{cells}'
            f"<td>{_seconds(rows['fit_seconds'].mean())}</td><td>{_seconds(rows['transform_seconds'].mean())}</td>"
            f"<td>{_bytes(stored)}</td></tr>"
        )
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    behind = "many percentage points" if found.measure.shares else "far"
    note = (
        f'<p class="note">Mean ± standard deviation over the repeats; below it, how {behind} behind '
        "the best at that budget, paired by repeat (same rows, same labels). Seconds are means over all runs at that "
        "size on one machine; the embedding is that of all rows.</p>"
    )
    described = "Scores of every method at every label budget"
    return section("numbers", "The numbers", scrolled(described, table) + note)


def _cell(found: Comparison, row: Any) -> str:
    if np.isnan(row["mean"]):
        return "<td>failed</td>"
    best = row["behind"] == 0
    below = "best" if best else found.measure.difference(-row["behind"], row["behind_spread"])
    score = found.measure.with_spread(row["mean"], row["spread"])
    return f"<td{' class=best' if best else ''}>{score}<small>{below}</small></td>"


def _seconds(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.2f} s" if value >= 0.1 else f"{1000 * value:.1f} ms"


def _bytes(value: float | None) -> str:
    if value is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
        value = value / 1000
    return ""


def sizes(found: Comparison) -> str:
    """Show the score by number of components."""
    at = found.table[found.table["budget"] == found.budget_].dropna(subset=["mean", "components"])
    if figures.by_size(found) is None:
        return ""
    lines = [
        f"{found.methods[method].title}: "
        + ", ".join(
            f"{found.measure.show(m)} with {k}" for k, m in zip(rows["components"], rows["mean"], strict=True)
        )
        for method, rows in at.groupby("method", sort=False)
    ]
    described = f"{found.measure.sentence} against the number of components. {'; '.join(lines)}."
    caption = f"With {found.budget_} labels. The bands are one standard deviation over the repeats."
    return section("sizes", "How many components it takes", plot("plot-sizes", described, caption))


def seconds(found: Comparison) -> str:
    """Show the score by seconds."""
    at = found.lines[found.lines["budget"] == found.budget_].dropna(subset="mean")
    if at.empty:
        return ""
    lines = [
        f"{r['label']}: {found.measure.show(r['mean'])} in {r['fit_seconds']:.2g} s" for _, r in at.iterrows()
    ]
    described = f"{found.measure.sentence} against seconds. {'; '.join(lines)}."
    caption = (
        f"One fit with {found.budget_} labels, tuning included, on one machine. Up and to the left is better. The "
        "horizontal axis is logarithmic. Names that would cover another are left out: point at the mark, or tap it."
    )
    return section("seconds", "What it costs", plot("plot-seconds", described, caption))


def maps(found: Comparison) -> str:
    """Show the embeddings in two dimensions."""
    shown = found.review.maps
    if not shown:
        return ""
    cards = []
    for i, m in enumerate(shown):
        by = "class" if m.numbers is None else "number"
        described = f"Map of {count(len(m.points), 'row')} by {m.title}, coloured by {by}"
        flat = "This method gives one component here; the height of a point is random." if m.flat else ""
        cards.append(
            f'<figure class="card"><h3>{text(m.title)}</h3><div class="plot" id="plot-map-{i}" role="img" '
            f'aria-label="{text(described)}"></div><figcaption>{flat}</figcaption></figure>'
        )
    numbers = found.data.facts.numbers
    sure = "what the method predicts" if numbers else "what the method takes it for and how sure it is"
    beyond = " Numbers beyond the scale have the colour of its end." if numbers else ""
    note = (
        f'<p class="note">{len(shown[0].rows):,} of {count(found.settings["n_rows"], "row")}, placed so that '
        "neighbours in all components stay neighbours; distances between islands mean little. Large points have a "
        "label; small points are rows without one, in the colour of their prediction. Point at one, or tap it, to "
        f"see which row it is, its label, and {sure}.{beyond}</p>"
    )
    key = "" if numbers else _key(found)
    return section("maps", "Maps", f'{note}{key}<div class="cards">{"".join(cards)}</div>')


def _key(found: Comparison) -> str:
    names, code = figures.groups(found.data)
    items = []
    for i, name in enumerate(names[: figures.MOST_CLASSES]):
        colour, symbol = figures.class_look(i)
        glyph = figures.GLYPHS[figures.SYMBOLS.index(symbol)]
        items.append(f'<li><span style="color:{colour}" aria-hidden="true">{glyph}</span>{text(name)}</li>')
    rest = len(names) - figures.MOST_CLASSES
    others = (code[found.data.labels.index] < 0).any()
    grey = "unlabelled" + (f", and {rest} more classes" if rest > 0 else ", and other sets" if others else "")
    items.append(f'<li><span class="grey" aria-hidden="true">●</span>{grey}</li>')
    return f'<ul class="key" aria-label="Classes">{"".join(items)}</ul>'


def components(found: Comparison) -> str:
    """Show what the components of the best model are made of."""
    strengths = found.review.strengths
    if strengths is None:
        return ""
    data, shape = found.data, found.settings["image_shape"]
    tops = top_features(strengths, [data.column(j) for j in range(strengths.shape[1])])
    cards = []
    for i, (row, top) in enumerate(zip(strengths, tops, strict=True), start=1):
        if shape:
            most = np.abs(strengths).max()
            described = f"Component {i} as an image; strongest at " + ", ".join(name for name, _ in top[:3])
            shown = f'<img src="{picture(row.reshape(shape), most)}" alt="{text(described)}">'
        else:
            shown = (
                f"<ol>{''.join(_feature(*pair) for pair in top)}</ol>" if top else "<p>It is constant.</p>"
            )
        cards.append(f'<figure class="card"><h3>Component {i}</h3>{shown}</figure>')
    how = (
        "Red where a pixel brightens with the component, blue where it darkens, white where it does neither"
        if shape
        else "The columns that go along with it most, and how closely"
    )
    more = f" The first {len(cards)} of them." if (found.best_size_ or 0) > len(cards) else ""
    note = (
        f'<p class="note">{text(sized(found, found.winner))}, fitted with all labels. {how} (correlation over all '
        f"rows, from −1 to 1).{more}</p>"
    )
    kind = "cards images" if shape else "cards features"
    return section(
        "parts", "What the components are made of", f'{note}<div class="{kind}">{"".join(cards)}</div>'
    )


def _feature(name: str, value: float) -> str:
    sign = "minus" if value < 0 else "plus"
    number = f"{value:.2f}".replace("-", "−")
    return (
        f'<li><span class="name">{text(name)}</span><span class="bar {sign}" style="--share:{abs(value):.3f}" '
        f'aria-hidden="true"></span><span class="value">{number}</span></li>'
    )


def next_rows(found: Comparison) -> str:
    """Show the rows to label next, and as a list to copy."""
    r, data = found.review, found.data
    if not len(data.unlabelled):
        lead = "<p>Every row has a label already.</p>"
        return section("next", "Rows most worth labelling next", lead)
    if not len(r.next_rows):
        return ""
    names = [data.row(i) for i in r.next_rows]
    numbers = data.facts.numbers
    heads = ("predicted",) if numbers else ("taken for", "confidence")
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(guess)}</td>'
        f"{'' if numbers else f'<td>{sure:.0%}</td>'}</tr>"
        for name, guess, sure in zip(names, r.next_predicted, r.next_confidence, strict=True)
    )
    table = f"<table><thead>{head_row('row', heads)}</thead><tbody>{rows}</tbody></table>"
    why = (
        "differ most from every labelled row, in their columns and in the number that is predicted, and from each "
        "other (Wu, Lin &amp; Huang 2019)"
        if numbers
        else f"{text(sized(found, found.winner))} is least sure of, spread out so that they do not all ask the same"
    )
    note = f'<p class="note">Of {count(len(data.unlabelled), "row")} without a label those that {why}.</p>'
    copied = text("\n".join(names))
    listed = (
        '<div class="copy"><label for="next-list">As a list</label>'
        f'<textarea id="next-list" readonly rows="{min(len(names), 10)}">{copied}</textarea>'
        '<button type="button" id="copy">Copy the list</button><span id="copied" role="status"></span></div>'
    )
    content = f'{note}<div class="beside">{scrolled("Rows to label next", table)}{listed}</div>'
    return section("next", "Rows most worth labelling next", content)


def columns(found: Comparison) -> str:
    """Say how the columns of a table were read, where they are not all plain numbers."""
    recipe = None if found.data is None else found.data.recipe
    if recipe is None or not recipe.lines(plain=False):
        return ""
    lines = "".join(f"<li>{text(line)}</li>" for line in recipe.lines())
    note = (
        '<p class="note">The model reads new rows in the same way. On the command line --number, --category, --date, '
        "--text, --id and --drop say otherwise; in Python labelfold.Recipe does.</p>"
    )
    return section("columns", "How the columns were read", f"{note}<ul>{lines}</ul>")


def left_out(found: Comparison) -> str:
    """Say what was left out, what failed and what was warned of, each with the reason."""
    items = [f"<li>{text(title)} was left out: {text(why)}.</li>" for title, why in found.left_out.items()]
    for column, verb in (("error", "failed"), ("note", "warned")):
        told = found.series.dropna(subset=column).groupby(["label", column], sort=False).size()
        items += [
            f"<li>{text(label)} {verb} in {count(runs, 'run')}: {text(why)}.</li>"
            for (label, why), runs in told.items()
        ]
    return (
        section("left-out", "What was left out, and what went wrong", f"<ul>{''.join(items)}</ul>")
        if items
        else ""
    )
