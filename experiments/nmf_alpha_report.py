"""The page of the NMF-alpha experiment: its tables and figures, from the rows of its CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import Report
from nmf_alpha_sets import LABELS, RANKS, TABLE_2, TITLES
from result_rows import Results, grouped, parameter, spread, values, words

REDUCED = ("NMF-alpha", "NMF", "PCA", "SSNMF", "CNMF")
RAW = ("SVM", "TSVM", "LDA")


def write_report(results: Results, path: Path, about: str) -> None:
    """Write the page from the rows alone; ``about`` describes the tuning."""
    page = Report(path)
    page.text(
        "# NMF-alpha",
        "Figures 2 to 5 and Table 2 of Y. Cho, L. K. Saul, *Nonnegative matrix factorization for semi-supervised "
        "dimensionality reduction*, 2011. Made by `python experiments/nmf_alpha.py` from `nmf_alpha.csv`.",
        "Scores on the published test rows: accuracy (%), for the aviation reports 100 times the mean of macro- and "
        "micro-averaged F. Ours are means over splits of the other rows into training rows and a fifth for "
        "validation, with their standard deviation (*spread*). A percentage of the training rows carries labels. "
        "After a reduction to r components, in which all training rows take part, a linear SVM is trained on the "
        "labelled ones; factors are corrected as in eq. 5.",
        about,
        "The paper prints numbers for Table 2 only. Its aviation reports have their full vocabulary, ours 500 words "
        "of it: compare the order of the methods there. How its newsgroups were pruned is not known; ours have the "
        "words of at least 20 training documents and at most a tenth of them, rows of unit length.",
    )
    names = [name for name in LABELS if results.select(part="Scores", dataset=name)]
    missing = _missing(results)
    if missing:
        page.text(f"Not run yet, or not for all splits, labels and r: {'; '.join(missing)}.")
    _table_2(page, results, names)
    for name in names:
        _all_methods(page, results, name)
    if results.select(part="Scores", method="NMF-alpha"):
        page.text("## Figure 3")
        caption = (
            "Test score against the number of components: NMF-alpha, with SVM and TSVM on the raw inputs. Bars are "
            "spreads; the hollow square is the number of components that is best on validation rows."
        )
        page.figure("nmf_alpha_figure_3", caption, lambda plt: _curves(plt, results, names))
    for number, others in ((4, ("NMF", "PCA")), (5, ("SSNMF", "CNMF"))):
        points = {other: _points(results, names, other) for other in others}
        if not any(points.values()):
            continue
        page.text(f"## Figure {number}")
        caption = (
            f"NMF-alpha against {' and '.join(others)}: scores less that of the SVM on raw inputs, a point for each "
            "set, share of labels and number of components. Above the diagonal NMF-alpha is better."
        )
        page.figure(f"nmf_alpha_figure_{number}", caption, lambda plt, points=points: _pairs(plt, points))
        page.table(
            ["share of points with NMF-alpha above", *(f"{TITLES[name]}" for name in names)],
            [(other, *(_share(points[other], name) for name in names)) for other in others],
        )
    rows = results.select(part="Figure 2")
    if rows:
        page.text("## Figure 2")
        if (path.parent / "nmf_alpha_figure_2.png").is_file():
            about = "Components of NMF-alpha on MNIST, 2% of the rows labelled, from the same start, by supervision."
            page.text(f"![{about}](nmf_alpha_figure_2.png)", f"*{about}*")
        page.text(
            "How much they are like rows: the mean over components of the largest cosine with a training row."
        )
        page.table(
            ["supervision", "likeness"],
            [(parameter(row, "weight"), f"{float(row['ours']):.3f}") for row in rows],
        )
    _tuning(page, results)
    page.write()


def _missing(results: Results, splits: int = 5) -> list[str]:
    """Return sentences on methods with missing rows, set by set."""
    found = []
    for name in LABELS:
        short = []
        for method in (*REDUCED, *RAW):
            places = 1 if method in RAW else len(RANKS[name])
            shares = len(LABELS[name]) - (method == "TSVM")
            if len(results.select(part="Scores", dataset=name, method=method)) < splits * places * shares:
                short.append(method)
        if short:
            found.append(f"{TITLES[name]}: {', '.join(short)}")
    return found


def _mean(results: Results, name: str, method: str, percent: int, k: int, field: str = "ours") -> np.ndarray:
    """Return the values of a field over the splits."""
    rows = results.select(part="Scores", dataset=name, method=method, parameters=words(labels=percent, r=k))
    return values(rows, field)


def _best_rank(results: Results, name: str, method: str, percent: int) -> int | None:
    """Return the best number of components on validation rows, on average over the splits."""
    places = (0,) if method in RAW else RANKS[name]
    reached = {k: _mean(results, name, method, percent, k, "relative") for k in places}
    return max((k for k in reached if len(reached[k])), key=lambda k: reached[k].mean(), default=None)


def _cell(results: Results, name: str, method: str, percent: int, published: float | None = None) -> str:
    k = _best_rank(results, name, method, percent)
    if k is None:
        return ""
    text = spread(_mean(results, name, method, percent, k), 1)
    return text if published is None else f"{text} ({published:.1f})"


def _table_2(page: Report, results: Results, names: Sequence[str]) -> None:
    page.text(
        "## Table 2", "NMF-alpha with the number of components that is best on validation rows, and LDA."
    )
    lines = []
    for name in names:
        for place, percent in enumerate(LABELS[name]):
            pairs = zip(("NMF-alpha", "LDA"), TABLE_2[name][place], strict=True)
            cells = [_cell(results, name, method, percent, paper) for method, paper in pairs]
            lines.append((f"{TITLES[name]}, {percent}%", *cells))
    page.table(["set, labels", "NMF-alpha: ours ± spread (paper)", "LDA: ours ± spread (paper)"], lines)


def _all_methods(page: Report, results: Results, name: str) -> None:
    rows = results.select(part="Scores", dataset=name)
    sources, draws = " and ".join(sorted(grouped(rows, "source"))), len(grouped(rows, "seed"))
    page.text(
        f"## {TITLES[name]}",
        f"{sources.capitalize()} data, {draws} splits. Every method with the number of components that is best on "
        "validation rows (in brackets). With all labels TSVM is the SVM.",
    )
    lines = []
    for method in (*REDUCED, *RAW):
        cells = []
        for percent in LABELS[name]:
            text, k = _cell(results, name, method, percent), _best_rank(results, name, method, percent)
            cells.append(f"{text} [{k}]" if k else text)
        lines.append((method, *cells))
    page.table(["method", *(f"{percent}% labels" for percent in LABELS[name])], lines)
    lines = []
    for method in REDUCED:
        for percent in LABELS[name]:
            found = [_mean(results, name, method, percent, k) for k in RANKS[name]]
            lines.append((f"{method}, {percent}%", *(spread(own, 1) for own in found)))
    page.table(["method, labels", *(f"r = {k}" for k in RANKS[name])], lines)


def _points(results: Results, names: Sequence[str], other: str) -> list[tuple[str, int, float, float]]:
    """Return (set, index of the share of labels, other's score, NMF-alpha's), both relative to that of the SVM."""
    points = []
    for name in names:
        for place, percent in enumerate(LABELS[name]):
            base = _mean(results, name, "SVM", percent, 0)
            for k in RANKS[name]:
                ours, theirs = (_mean(results, name, method, percent, k) for method in ("NMF-alpha", other))
                if len(base) and len(ours) and len(theirs):
                    points.append((name, place, theirs.mean() - base.mean(), ours.mean() - base.mean()))
    return points


def _share(points: list[tuple[str, int, float, float]], name: str) -> str:
    above = [ours > theirs for which, _, theirs, ours in points if which == name]
    return f"{sum(above)} of {len(above)}" if above else ""


def _tuning(page: Report, results: Results) -> None:
    rows = results.select(part="Tuning")
    if not rows:
        return
    page.text("## The trade-offs", "Validation score on the first split; the largest was taken.")
    groups = grouped(rows, "dataset", "method", "labels")
    lines = []
    for name, method, percent in sorted(groups, key=lambda key: (*key[:2], int(key[2]))):
        found = groups[name, method, percent]
        scores = (f"{float(row['ours']):.1f} ({parameter(row, 'weight')})" for row in found)
        lines.append((f"{TITLES[name]}, {method}, {percent}%", *scores))
    page.table(["set, method, labels", "score (weight)", "score (weight)", "score (weight)"], lines)


def _curves(plt: Any, results: Results, names: Sequence[str]) -> Any:
    figure, axes = plt.subplots(
        len(names), 3, figsize=(11, 3.1 * len(names)), layout="constrained", squeeze=False
    )
    for line, name in zip(axes, names, strict=True):
        for axis, percent in zip(line, LABELS[name], strict=True):
            found = {k: _mean(results, name, "NMF-alpha", percent, k) for k in RANKS[name]}
            found = {k: values for k, values in found.items() if len(values)}
            if found:
                means, spreads = ([f(v) for v in found.values()] for f in (np.mean, np.std))
                axis.errorbar(list(found), means, spreads, marker="o", color="tab:red", label="NMF-alpha")
                best = _best_rank(results, name, "NMF-alpha", percent)
                axis.plot(best, np.mean(found[best]), "s", ms=11, mfc="none", mec="black")
            for method, style in (("SVM", "-"), ("TSVM", "--")):
                values = _mean(results, name, method, percent, 0)
                if len(values):
                    axis.axhline(values.mean(), ls=style, color="tab:blue", label=method)
            axis.set_xscale("log", base=2)
            axis.set_xticks(RANKS[name], [str(k) for k in RANKS[name]])
            axis.set_title(f"{TITLES[name]}, {percent}% labels", fontsize=10)
            axis.set_xlabel("components")
    axes[0, 0].legend(fontsize=8)
    return figure


def _pairs(plt: Any, points: dict[str, list[tuple[str, int, float, float]]]) -> Any:
    figure, axes = plt.subplots(1, len(points), figsize=(9, 4.4), layout="constrained")
    colours = {"mnist": "tab:blue", "news": "tab:red", "aviation": "tab:green"}
    for axis, (other, found) in zip(axes, points.items(), strict=True):
        for name, colour in colours.items():
            for place, (mark, share) in enumerate(zip("s^o", ("few", "some", "all"), strict=True)):
                here = [(x, y) for which, at, x, y in found if (which, at) == (name, place)]
                if here:
                    axis.scatter(
                        *zip(*here, strict=True), c=colour, marker=mark, s=22, label=f"{name}, {share}"
                    )
        # Points far below only show that few components are too few.
        low = -25.0
        high = max([2.0, *(max(x, y) for *_, x, y in found)]) + 1
        axis.plot([low, high], [low, high], color="black", lw=0.8)
        axis.axhline(0, color="gray", lw=0.5)
        axis.set_xlim(low, high)
        axis.set_ylim(low, high)
        axis.set_xlabel(f"{other} less SVM")
        axis.set_ylabel("NMF-alpha less SVM")
    axes[0].legend(fontsize=7)
    return figure


def draw_basis(plt: Any, shown: dict[float, np.ndarray]) -> Any:
    """Return pictures of the components, dark on white, for each value of supervision."""
    side = round(np.sqrt(next(iter(shown.values())).shape[1]))
    figure, axes = plt.subplots(1, len(shown), figsize=(4 * len(shown), 4.3), layout="constrained")
    for axis, (weight, V) in zip(axes, shown.items(), strict=True):
        across = int(np.ceil(np.sqrt(len(V))))
        sheet = np.full((across * (side + 1) - 1, across * (side + 1) - 1), 0.8)
        for i, v in enumerate(V):
            top, left = (i // across) * (side + 1), (i % across) * (side + 1)
            sheet[top : top + side, left : left + side] = 1 - (v / max(v.max(), 1e-12)).reshape(side, side)
        axis.imshow(sheet, cmap="gray", vmin=0, vmax=1)
        axis.set_axis_off()
        axis.set_title(f"supervision {weight:g}")
    return figure
