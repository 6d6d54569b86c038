"""The report: one HTML page that needs no network and no other file, and a short one for notebooks.

The templates escape all values.
"""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Collection
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from sklearn.metrics import confusion_matrix, multilabel_confusion_matrix

from labelfold.app.compare import Results, top_features
from labelfold.app.io import count, writable_file, write_finished
from labelfold.app.registry import AS_IS, weights_sentence
from labelfold.app.report import _figures as figures
from labelfold.app.report._figures import COLOURS, GREY
from labelfold.app.report._map import as_base64, map_data, pictures, placed

_MADE = {
    "model.skops": "the model, for labelfold predict, transform and inspect, or labelfold.load in Python",
    "predictions.csv": "every row of the table with its label, what is predicted and how sure that is",
    "embedding.parquet": "every row of the table in the components of the model",
    "annotated.h5ad": "a copy of the file with the embedding in obsm and the predictions in obs",
    "results.csv": "one line a run; the same command goes on from it",
    "answer.json": "the answer for other programs",
}
# Choices of presentation.
_MAX_IN_MATRIX = 25  # classes; with more there is a list of confused pairs
_MAX_LISTED = 20  # rows of a list
_MAX_COLUMNS = 8  # named for a component
_MAX_POINTS = 600  # of the map in a notebook
_WIDTH, _HEIGHT = 480, 320  # of that map in pixels


def write_report(
    found: Results, path: str | os.PathLike[str], folder: Path | None = None, made: Collection[str] = ()
) -> Path:
    """Write the report of a comparison.

    Parameters
    ----------
    found : Results
        The comparison.
    path : path
        The HTML file.
    folder : path, optional
        The folder of the files of the command line, which the report then names.
    made : collection of str
        Names of these files.

    Returns
    -------
    Path
        The file written.
    """
    path = writable_file(path)
    return write_finished(path, render(found, folder, made).encode("utf-8", "backslashreplace"))


def render(found: Results, folder: Path | None = None, made: Collection[str] = ()) -> str:
    """Return the report as HTML."""
    from plotly.offline import get_plotlyjs

    values = context(found, folder, made)
    data = {
        "figures": {name: drawn for name, drawn in _drawn(found).items() if drawn is not None},
        "map": map_data(found),
        "held": values["confusion"] and values["confusion"]["held"],
        "csv": values["numbers"]["csv"],
        "pictures": {
            name: values[name] and values[name].get("pictures") for name in ("next_rows", "doubtful_labels")
        },
    }
    return fill(
        "report.html",
        style=Markup(_part("report.css")),
        script=Markup(_part("report.js") + _part("map.js")),
        plotlyjs=Markup(get_plotlyjs()),
        data=htmlsafe_json_dumps(data, allow_nan=False, separators=(",", ":")),
        **values,
    )


def _drawn(found: Results) -> dict[str, dict[str, Any] | None]:
    drawn = {
        "plot-methods": figures.by_method(found),
        "plot-budgets": figures.by_budget(found) if has_curve(found) else None,
        "plot-sizes": figures.by_size(found),
        "plot-held-out": figures.held_out(found),
        "plot-calibration": figures.calibration(found),
    }
    strengths, shape = found.review.strengths, found.settings["image_shape"]
    if strengths is not None and shape:
        names = [found.data.column(j) for j in range(strengths.shape[1])]
        most = float(abs(strengths).max()) or 1.0
        for i, strength in enumerate(strengths):
            drawn[f"plot-part-{i}"] = figures.component(strength, shape, names, most)
    return drawn


def fill(name: str, **values: Any) -> str:
    """Return a template of the report filled with values; a value is escaped unless it is the report's own markup."""
    return _templates().get_template(name).render(**values)


@cache
def _templates() -> Environment:
    return Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _part(name: str) -> str:
    return files("labelfold.app.report").joinpath("templates", name).read_text(encoding="utf-8")


def notebook(found: Results) -> str:
    """Return the answer, the methods and a map of a comparison as HTML."""
    table = found.ranking_as_text()
    return fill(
        "notebook.html",
        answer=found.answer,
        heads=list(table.columns),
        lines=table.to_numpy().tolist(),
        map=_small_map(found),
        width=_WIDTH,
        height=_HEIGHT,
    )


def _small_map(found: Results) -> dict[str, Any] | None:
    """Return some rows of the first map as circles; labelled rows are large and drawn last."""
    if not found.review.maps:
        return None
    shown, data = found.review.maps[0], found.data
    labelled = data.labels.labelled[shown.rows]
    rng = np.random.default_rng(0)
    some = rng.permutation(len(labelled))[:_MAX_POINTS]
    some = some[np.argsort(labelled[some], kind="stable")]
    colours, key = _coloured(found, shown, some)
    low, high = np.quantile(shown.points, [0.005, 0.995], axis=0)
    share = np.clip((shown.points[some] - low) / np.maximum(high - low, 1e-300), -0.02, 1.02)
    x, y = 12 + (_WIDTH - 24) * share[:, 0], _HEIGHT - 12 - (_HEIGHT - 24) * share[:, 1]
    sure = np.nan_to_num(shown.confidence[some], nan=0.6)
    faint = np.where(labelled[some], 1.0, np.clip(sure, 0.15, 0.9))
    radius = np.where(labelled[some], 4.0, 2.2).tolist()
    points = zip(x.round(1), y.round(1), radius, colours, faint.round(2), strict=True)
    return {
        "title": shown.title,
        "points": list(points),
        "key": key,
        "n": len(some),
        "of": len(data.y),
        "rows": [data.row(i) for i in shown.rows[some]],
    }


def _coloured(found: Results, shown: Any, some: np.ndarray) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the colours of rows, by label or prediction, and their legend if there are few."""
    data = found.data
    known, said = data.y[shown.rows[some]], shown.predicted[some]
    if data.facts.multilabel:
        known, said = known[:, 0], said[:, 0]
    unknown = np.isnan(known) if known.dtype.kind == "f" else known < 0
    value = np.where(unknown, said, known).astype(float)
    if data.facts.numbers:  # from blue to orange
        low, high = np.quantile(value, [0.02, 0.98])
        share = np.clip((value - low) / max(high - low, 1e-300), 0, 1)
        return [f"hsl({220 - 195 * v:.0f} 70% 50%)" for v in share], []
    codes = value.astype(int)
    colours = [COLOURS[c] if c < len(COLOURS) else GREY for c in codes]
    names = [f"not {data.classes[0]}", data.classes[0]] if data.facts.multilabel else data.classes
    return colours, list(zip(COLOURS, names, strict=False))


def context(found: Results, folder: Path | None, made: Collection[str] = ()) -> dict[str, Any]:
    """Return the values of the page, section by section; None for a section that is left out."""
    return {
        "title": f"labelfold: which reduction for {found.settings['name']}?",
        "answer": found.answer,
        "details": found.details,
        "measure": found.measure,
        "regression": found.data.facts.numbers,
        "method": None if found.winner is None else found.title_with_size(found.winner),
        "repeats": found.repeats_run,
        "guessing": found.about_a_constant,
        "facts": facts(found),
        "maps": maps(found),
        "next": next_steps(found, folder, made),
        "doubtful_labels": doubtful_labels(found),
        "next_rows": next_rows(found),
        "methods": methods(found),
        "numbers": numbers(found),
        "confusion": confusion(found),
        "held_out": held_out(found),
        "calibration": calibration(found),
        "components": components(found),
        "views": found.review.views,
        "budgets": budgets(found),
        "sizes": sizes(found),
        "columns": columns(found),
        "how": how(found),
        "left_out": left_out(found),
    }


def facts(found: Results) -> str:
    """Return a description of the data."""
    s = found.settings
    kind = "sparse column" if s["sparse"] else "column"
    labels = f"{len(s['classes'])} {'labels' if found.data.facts.multilabel else 'classes'}"
    if found.data.facts.numbers:
        labels = f"numbers from {found.data.truth.min():g} to {found.data.truth.max():g}"
    return (
        f"{count(s['n_rows'], 'row')} × {count(s['n_columns'], kind)}, {labels}, "
        f"{count(s['n_labelled'], 'row')} labelled; {found.repeats_run} of {count(s['folds'], 'fold')}."
    )


def maps(found: Results) -> dict[str, Any] | None:
    """Return the texts of the maps."""
    shown = found.review.maps
    if not shown:
        return None
    n, all_rows = len(shown[0].rows), found.settings["n_rows"]
    drawn = f"All {count(n, 'row')}"
    if n < all_rows:
        every = found.data.labels.labelled[shown[0].rows].sum() == found.settings["n_labelled"]
        which = "all labelled ones, and others drawn at random" if every else "drawn at random"
        drawn = f"{n:,} of {count(all_rows, 'row')} ({which})"
    coloured = "number" if found.data.facts.numbers else "label" if found.data.facts.multilabel else "class"
    return {
        "titles": [m.title for m in shown],
        "drawn": drawn,
        "how": placed(shown[0]),
        "described": f"Map of {count(n, 'row')} by {shown[0].title}, coloured by {coloured}.",
        "unlabelled": len(found.data.unlabelled) > 0,
    }


def next_steps(found: Results, folder: Path | None, made: Collection[str]) -> dict[str, Any] | None:
    """Return the next commands, or lines of Python, and the files that were written."""
    if found.winner is None:
        return None
    commands, files = [], {}
    if folder is not None:
        files = {str(folder / name): what for name, what in _MADE.items() if name in made}
        model = shlex.quote(str(folder / "model.skops"))
        if "model.skops" in made:
            commands = [
                (
                    f"labelfold predict {model} new.csv -o predictions.csv",
                    "classes of new rows, and how sure",
                ),
                (f"labelfold inspect {model}", "what the model is and what it learned"),
            ]
            if found.data.facts.numbers:
                commands[0] = (commands[0][0], "numbers for new rows, and what nine of ten lie between")
        elif found.settings["command"]:
            commands = [(f"{found.settings['command']} --save", "also writes the model and its predictions")]
    if not commands:
        commands = [
            ("model = found.refit()", "the recommended method, fitted on all rows"),
            ("model.predict(new_rows)", "what it says of new rows"),
        ]
    return {"commands": commands, "files": files}


def next_rows(found: Results) -> dict[str, Any] | None:
    """Return the rows to label next."""
    r, data = found.review, found.data
    if not len(data.unlabelled):
        return {"names": []}
    if not len(r.next_rows):
        return None
    names = [data.row(i) for i in r.next_rows]
    sure = [None if np.isnan(s) else f"{s:.0%}" for s in r.next_confidence]
    return {
        "names": names,
        "lines": list(zip(names, r.next_predicted, sure, strict=True)),
        "unlabelled": count(len(data.unlabelled), "row"),
        "pictures": pictures(found, r.next_rows),
    }


def methods(found: Results) -> dict[str, Any] | None:
    """Return the texts of the figure of all methods."""
    scored = found.scores()
    if not scored:
        return None
    measure = found.measure
    told = [
        f"{label}: {measure.show(one.value)}, {measure.show(one.low)} to {measure.show(one.high)}"
        for label, one in scored.items()
    ]
    rows = sorted({one.n_rows for one in scored.values()})
    on = (
        count(rows[0], "labelled row")
        if len(rows) == 1
        else f"{rows[0]:,} to {count(rows[-1], 'labelled row')}"
    )
    return {
        "described": f"{measure.sentence} of every method with its 90% interval. {'; '.join(told)}.",
        "on": on,
        "two_scores": found.why_two_scores,
    }


def numbers(found: Results) -> dict[str, Any]:
    """Return the table: one row for each method, with the deciding budget first."""
    asked = sorted(found.lines["budget"].unique(), key=lambda b: (b != found.budget_, -b))
    scored = found.scores()
    lines = []
    for label, rows in found.lines.groupby("label", sort=False):
        at = rows.set_index("budget")
        method = found.methods[rows["method"].iloc[0]]
        size, stored = (
            int(cells.max()) if cells.notna().any() else None
            for cells in (rows["components"], rows["embedding_size"])
        )
        one = scored.get(label)
        lines.append(
            {
                "title": method.title,
                "gloss": method.gloss,
                "chosen": found.winner is not None and label == found.winner["label"],
                "scores": [_score(found, at.loc[b]) if b in at.index else None for b in asked],
                "interval": one
                and (f"{found.measure.show(one.low)} to {found.measure.show(one.high)}", one.low),
                "rows": one.n_rows if one else None,
                "size": size,
                "fit": _seconds(rows["fit_seconds"].mean()),
                "transform": _seconds(rows["transform_seconds"].mean()),
                "stored": (_bytes(stored), stored),
            }
        )
    return {
        "budgets": asked,
        "lines": lines,
        "csv": found.table.to_csv(index=False),
    }


def _score(found: Results, row: Any) -> tuple[str, str, float, bool]:
    if np.isnan(row["mean"]):
        return "failed", "", -np.inf, False
    best = row["behind"] == 0
    below = "best" if best else found.measure.difference(-row["behind"], row["behind_spread"])
    return found.measure.with_spread(row["mean"], row["spread"]), below, float(row["mean"]), best


def _seconds(value: float) -> tuple[str, float | None]:
    if np.isnan(value):
        return "–", None
    return (f"{value:.2f} s" if value >= 0.1 else f"{1000 * value:.1f} ms"), float(value)


def _bytes(value: float | None) -> str:
    if value is None:
        return "–"
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value = value / 1000
    return f"{value:,.3g} GB"


def components(found: Results) -> dict[str, Any] | None:
    """Return the columns that correlate with the components, or scores, of the recommended model."""
    strengths, data = found.review.strengths, found.data
    if strengths is None:
        return None
    tops = top_features(strengths, [data.column(j) for j in range(strengths.shape[1])], _MAX_COLUMNS)
    return {
        "embeds": found.review.parts[0].startswith("Component"),
        "rows": count(found.settings["n_rows"], "row"),
        "images": bool(found.settings["image_shape"]),
        "more": (found.best_size_ or 0) > len(tops),
        "lines": list(zip(found.review.parts, tops, strict=True)),
    }


def has_curve(found: Results) -> bool:
    """Tell whether there is a learning curve."""
    return found.lines["budget"].nunique() > 1


def budgets(found: Results) -> dict[str, Any] | None:
    """Return the texts of the score by label budget; None if there is one budget."""
    if not has_curve(found):
        return None
    return {
        "described": _curves(
            found, found.lines.dropna(subset="mean"), "label", "budget", "the number of labels"
        ),
        "rows": count(round(found.settings["test_size"] * found.settings["n_labelled"]), "labelled row"),
        "hidden": len(found.ranking) > 6,
        "log": figures.is_log(found),
    }


def sizes(found: Results) -> dict[str, Any] | None:
    """Return the texts of the score by number of components."""
    if figures.by_size(found) is None:
        return None
    at = found.table[found.table["budget"] == found.budget_].dropna(subset=["mean", "components"])
    titled = at.assign(title=[found.methods[m].title for m in at["method"]])
    described = _curves(found, titled, "title", "components", "the number of components")
    return {"described": described, "budget": found.budget_}


def _curves(found: Results, table: Any, by: str, x: str, against: str) -> str:
    lines = [
        f"{name}: "
        + ", ".join(f"{found.measure.show(m)} with {b}" for b, m in zip(rows[x], rows["mean"], strict=True))
        for name, rows in table.groupby(by, sort=False)
    ]
    return f"{found.measure.sentence} against {against}. {'; '.join(lines)}."


def columns(found: Results) -> list[str] | None:
    """Return how the columns of a table were read, unless all are plain numbers."""
    recipe = found.data.recipe
    return recipe.lines() if recipe is not None and recipe.lines(plain=False) else None


def left_out(found: Results) -> list[str]:
    """Return sentences about methods left out, errors and warnings."""
    items = [f"{title} was left out: {why}." for title, why in found.left_out.items()]
    ran = set(found.results["method"])
    items += [
        f"{method.title} was left out: there was no time for it."
        for name, method in found.methods.items()
        if name not in ran and method.title not in found.left_out
    ]
    for column, verb in (("error", "failed"), ("note", "warned")):
        told = found.series.dropna(subset=column).groupby(["label", column], sort=False).size()
        items += [f"{label} {verb} in {count(runs, 'run')}: {why}." for (label, why), runs in told.items()]
    return items


def how(found: Results) -> dict[str, Any]:
    """Return the settings and versions that are needed to repeat the runs."""
    s = found.settings
    packages = ("labelfold", "scikit-learn", "numpy", "scipy", "numba")
    return {
        "command": s["command"] or "labelfold.compare(...) in Python",
        "folds": count(s["folds"], "fold"),
        "columns": s["scale"] if s["scale"] == AS_IS else f"brought to {s['scale']} first",
        "weights": weights_sentence(s["class_weight"], found.data.classes),
        "seed": s["random_state"],
        "seconds": f"{s['seconds']:.1f}",
        "resumed": count(s["resumed"], "result") if s.get("resumed") else "",
        "allowed": "" if s["time_limit"] is None else f"{s['time_limit']:.0f}",
        "versions": [f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in packages)],
        "machine": f"{platform.system()} on {platform.machine()}, {count(os.cpu_count() or 1, 'core')}",
        "methods": [(method.title, method.summary) for method in found.methods.values()],
    }


def doubtful_labels(found: Results) -> dict[str, Any] | None:
    """Return the labels that held-out predictions contradict with high confidence."""
    told, data = found.review.left_out, found.data
    if told is None or data.facts.numbers or not np.isfinite(told.confidence).any():
        return None
    rows = told.doubtful(data.truth)
    at = data.labels.index[rows]
    return {
        "n": len(rows),
        "tested": int(told.tested.sum()),
        "how": told.how,
        "names": [data.row(i) for i in at],
        "lines": [
            (data.row(i), data.named(data.y[i]), data.named(told.guess[r]), f"{told.confidence[r]:.0%}")
            for i, r in zip(at[:_MAX_LISTED], rows, strict=False)
        ],
        "pictures": pictures(found, at[:_MAX_LISTED]),
    }


def confusion(found: Results) -> dict[str, Any] | None:
    """Return the confusion matrix of the recommended method, with the rows of each cell."""
    told, data = found.review.left_out, found.data
    if told is None or data.facts.numbers or not told.tested.any():
        return None
    truth, guess = data.truth[told.tested], told.guess[told.tested]
    at = data.labels.index[told.tested]
    shown: dict[str, Any] = {
        "how": told.how,
        "rows": count(len(truth), "labelled row"),
        "right": f"{told.right(data.truth)[told.tested].mean():.1%}",
        "names": data.classes,
        "held": {"names": [data.row(i) for i in at]},
    }
    if data.facts.multilabel:
        total = multilabel_confusion_matrix(truth, guess)  # (c, 2, 2)
        lines = [
            (name, *m[[1, 0, 1, 0], [1, 1, 0, 0]].tolist())
            for name, m in zip(data.classes, total, strict=True)
        ]
        return shown | {"kind": "labels", "lines": lines}
    shown["held"] |= {"true": as_base64(truth, "<u4"), "guess": as_base64(guess, "<u4")}
    total = confusion_matrix(truth, guess, labels=np.arange(len(data.classes)))
    shares = total / np.maximum(total.sum(axis=1, keepdims=True), 1)
    cells = [
        [(i, j, int(total[i, j]), float(shares[i, j])) for j in range(len(total))] for i in range(len(total))
    ]
    if len(total) > _MAX_IN_MATRIX:
        wrong = sorted((c for row in cells for c in row if c[0] != c[1] and c[2]), key=lambda c: -c[2])
        return shown | {"kind": "mistakes", "lines": wrong[:_MAX_LISTED]}
    return shown | {"kind": "matrix", "lines": cells}


def held_out(found: Results) -> dict[str, Any] | None:
    """Return the texts of the figure of true against predicted numbers."""
    told, choice = found.review.left_out, found.choice
    if told is None or not found.data.facts.numbers:
        return None
    return {
        "rows": count(len(told.guess), "labelled row"),
        "how": told.how,
        "within": None if choice is None or choice.within is None else f"{choice.within:.3g}",
    }


def calibration(found: Results) -> dict[str, Any] | None:
    """Return the texts of the reliability diagram."""
    shares = figures.reliability(found)
    told = found.review.left_out
    if shares is None or told is None:
        return None
    said = [f"{s:.0%} sure, {right:.0%} right, {count(n, 'row')}" for s, right, _, _, n in shares]
    n = sum(rows for *_, rows in shares)
    sure, right = (sum(row[i] * row[4] for row in shares) / n for i in (0, 1))
    return {
        "described": f"How often predictions were right, by how sure they were. {'; '.join(said)}.",
        "rows": count(n, "labelled row"),
        "how": told.how,
        "sure": f"{sure:.0%}",
        "right": f"{right:.0%}",
    }
