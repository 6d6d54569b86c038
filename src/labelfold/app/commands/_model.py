"""The commands about one model: methods, fit, transform, predict and inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table as Grid

from labelfold.app.commands import _compare as compare  # noqa: F401 - its commands belong to the app too
from labelfold.app.commands._console import as_fitted, console, named_columns, note, read_labelled
from labelfold.app.commands._options import (
    Data,
    Drop,
    Format,
    Ids,
    LabelFree,
    Model,
    SafeCsv,
    Scale,
    Seed,
    TableOut,
    Target,
    Task,
    app,
)
from labelfold.app.io._problems import Refusal, count, existing_file, listed, refusing, writable_file

__all__ = ["app"]

_MOST_TOLD = 12  # components, and features of each


@app.command("methods")
def list_methods() -> None:
    """List the methods, those that need another package too."""
    from labelfold.app.registry._methods import METHODS, install
    from labelfold.app.registry._suitability import takes

    there = Grid(title="Methods", title_justify="left", box=None, pad_edge=False)
    for heading in ("name", "learns from", "predicts", "embeds", "what it does"):
        there.add_column(heading, overflow="fold")
    others = Grid(title="\nNot installed", title_justify="left", box=None, pad_edge=False)
    for heading in ("name", "what it does", "how to get it"):
        others.add_column(heading, overflow="fold")
    for m in METHODS.values():
        if m.available:
            rows = "labelled rows" if m.labels == "supervised" else "all rows"
            classes, numbers = (takes(m, task) is None for task in ("classification", "regression"))
            what = "both" if classes and numbers else "classes" if classes else "numbers"
            there.add_row(m.name, rows, what, "yes" if m.embeds else "no", m.summary)
        else:
            others.add_row(m.name, m.summary, install(m))
    out = console()
    out.print(there)
    if others.row_count:
        out.print(others)


@app.command()
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    target: Target = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="See: labelfold methods; labelfold unless given.")
    ] = None,
    components: Annotated[
        int | None, typer.Option("-k", "--components", help="Size of the embedding.")
    ] = None,
    ridge: Annotated[
        float | None,
        typer.Option(
            "--ridge", help="The ridge of lda, or of ridge for numbers; by cross-validation unless given."
        ),
    ] = None,
    ids: Ids = None,
    drop: Drop = None,
    label_free: LabelFree = None,
    format: Format = None,
    scale: Scale = None,
    task: Task = "auto",
    seed: Seed = 0,
) -> None:
    """Fit LabelFold, or another method, on a table, say what to expect of it on new rows, and save the model."""
    from sklearn.pipeline import Pipeline

    from labelfold.app._calibrate import calibrate
    from labelfold.app.compare._data import read_data
    from labelfold.app.compare._expect import by_leave_one_out, expectation, expected, hold_back
    from labelfold.app.io import save_model
    from labelfold.app.registry._column_forms import chosen_form
    from labelfold.app.registry._methods import get_method
    from labelfold.app.registry._partly_labelled import only_missing
    from labelfold.app.registry._suitability import refuse_other_task
    from labelfold.app.registry._tuned import settled

    with refusing():
        chosen = get_method(method or ("labelfold" if ridge is None else "lda"))
        if chosen.needs:
            raise Refusal(
                f"Models of {chosen.name} cannot be saved; labelfold compare --save writes its embedding."
            )
        if components is not None and components < 1:
            raise Refusal(f"-k is the size of the embedding, at least 1, not {components}.")
        if ridge is not None and (ridge < 0 or chosen.penalty != "ridge"):
            wrong = f"--ridge is at least 0, not {ridge}" if ridge < 0 else f"{chosen.name!r} has no ridge"
            raise Refusal(f"{wrong}.")
        writable_file(output)
        table, mark, labels = read_labelled(data, target, ids, drop, label_free, format, task)
        X = named_columns(table)
        read = read_data(X, table.y, unlabeled=mark, task=task)
        if method is None and ridge is not None and read.facts.numbers:
            chosen = get_method("ridge")
        refuse_other_task(chosen, read.facts.task)
        penalty = {} if ridge is None else {"ridge": ridge}
        form, why_form = chosen_form(table.X, scale, table.column)

        def make(rows: Any) -> Any:
            return chosen.make(
                components, X=rows, random_state=seed, scale=form, task=read.facts.task, **penalty
            )

        model = make(table.X)
        if mark is None:
            model = only_missing(model)
        model = settled(model.fit(X, read.y if read.facts.numbers else table.y))
        found = by_leave_one_out(model, read)
        if found is None:
            held = hold_back(make, read, seed)
            found = None if held is None else expected(held)
            calibrate(model, held)
    embedded = model.transform(X) if chosen.embeds else None
    save_model(model, output, **fit_notes(chosen, table, labels, target, embedded, found))
    expect = "No labelled row can be held back, so nothing can be said of new rows; label more rows."
    if found is not None:
        expect = expectation(found, read.measure)
    n, d = table.X.shape
    last = model[-1] if isinstance(model, Pipeline) else model
    value = f", ridge {last.ridge:.3g}" if hasattr(last, "ridge") else ""
    size = "" if embedded is None else f" with {count(embedded.shape[1], 'component')}"
    everyone = " (all of them: supervised)" if labels.all_labelled else ""
    known = f"in {labels.n_classes} classes"
    if read.facts.numbers:
        known = f"with numbers from {labels.values.min():g} to {labels.values.max():g}"
    console().print(
        f"{chosen.title}{size}{value}, fitted on {n:,} rows × {d:,} columns, {labels.n_labelled:,} rows labelled "
        f"{known}{everyone}.\n"
        + "".join(f"{doubt}\n" for doubt in read.doubts)
        + (f"{why_form}\n" if why_form and chosen.form(form) == form else "")
        + f"{expect}\n"
        + f"Saved to {output}",
        soft_wrap=True,
    )


def fit_notes(
    method: Any, table: Any, labels: Any, target: list[str] | None, embedded: Any, expected: Any
) -> dict[str, Any]:
    """Return what to keep beside a model: what it was fitted on, and what its components go along with."""
    numbers = labels.task == "regression"
    from labelfold.app._explain import correlations, top_features

    tops = None
    if embedded is not None:
        names = [table.column(j) for j in range(table.X.shape[1])]
        tops = top_features(correlations(table.X, np.asarray(embedded)[:, :_MOST_TOLD]), names, _MOST_TOLD)
    return {
        "method": method.name,
        "target": target,
        "index_base": table.index_base,
        "n_components": None if embedded is None else int(embedded.shape[1]),
        "n_rows": int(table.X.shape[0]),
        "n_labelled": int(labels.n_labelled),
        "counts": None if numbers else labels.counts().tolist(),
        "range": [float(labels.values.min()), float(labels.values.max())] if numbers else None,
        "within": None if expected is None else expected.within,
        "top_features": tops,
    }


@app.command()
def transform(
    model: Model,
    data: Data,
    output: TableOut,
    ids: Ids = None,
    drop: Drop = None,
    format: Format = None,
    predict: Annotated[
        bool, typer.Option("--predict", help="Add a column with the predicted class or number.")
    ] = False,
    safe_csv: SafeCsv = False,
) -> None:
    """Embed the rows of a table with a saved model."""
    from labelfold.app.io import write_table

    needed = {"transform": "gives no embedding; labelfold predict gives its predictions"}
    if predict:
        needed["predict"] = "predicts nothing; leave out --predict"
    saved, table, X = _read_both(model, data, output, ids, drop, format, needed)
    with refusing():
        embedded = saved.model.transform(X)
        extra = predicted_columns(saved.model.predict(X), saved.meta.get("classes")) if predict else None
        columns = [str(c) for c in saved.model.get_feature_names_out()]
    write_table(output, embedded, columns, ids=table.ids, extra=extra, safe_csv=safe_csv)
    n, k = embedded.shape
    console().print(f"{count(n, 'row')} in {count(k, 'component')} written to {output}", soft_wrap=True)


@app.command()
def predict(
    model: Model,
    data: Data,
    output: TableOut,
    ids: Ids = None,
    drop: Drop = None,
    format: Format = None,
    safe_csv: SafeCsv = False,
) -> None:
    """Predict the classes, or numbers, of the rows of a table with a saved model, and how sure it is of each."""
    from labelfold.app.io import write_table

    needed = {"predict": "predicts nothing; labelfold transform gives its embedding"}
    saved, table, X = _read_both(model, data, output, ids, drop, format, needed)
    with refusing():
        extra = said_of(saved.model, X, saved.meta.get("classes"), saved.meta.get("within"))
    n = table.X.shape[0]
    write_table(output, np.empty((n, 0)), [], ids=table.ids, extra=extra, safe_csv=safe_csv)
    console().print(f"{count(n, 'prediction')} written to {output}", soft_wrap=True)


def said_of(model: Any, X: Any, classes: list[str] | None, within: float | None) -> dict[str, np.ndarray]:
    """Return what a model says of rows as columns: predictions, and how sure they are.

    Of numbers: what nine of ten rows are expected between, where the distance is known.
    """
    from labelfold.app._explain import predict_with_confidence

    predicted, confidence = predict_with_confidence(model, X)
    columns = predicted_columns(predicted, classes)
    if hasattr(model, "classes_"):
        return columns | {"confidence": confidence}
    return columns if within is None else columns | {"low": predicted - within, "high": predicted + within}


def predicted_columns(predicted: np.ndarray, classes: list[str] | None) -> dict[str, np.ndarray]:
    """Return predictions as columns: one, or one for each label."""
    if predicted.ndim == 1:
        return {"predicted": predicted}
    names = classes or range(predicted.shape[1])
    return {f"predicted {name}": predicted[:, j] for j, name in enumerate(names)}


def _read_both(
    model: Path,
    data: Path,
    output: Path,
    ids: list[str] | None,
    drop: list[str] | None,
    format: str | None,
    needed: dict[str, str],
) -> tuple[Any, Any, Any]:
    """Read a model and new rows for it, having checked that it can do what is needed, and the output be written."""
    from labelfold.app.io import read_model, read_table
    from labelfold.app.io._writing import writable_table

    existing_file(data)
    writable_table(output)
    saved = read_model(model)
    for method, lack in needed.items():
        if not hasattr(saved.model, method):
            raise Refusal(f"The model in {model} {lack}.")
    names = saved.meta.get("feature_names")
    base = saved.meta.get("index_base")
    table = read_table(
        data, id_columns=ids or (), drop=drop or (), features=names, format=format, index_base=base
    )
    if table.ignored:
        note(f"ignored {listed(table.ignored)}, which the model does not use.")
    with refusing():
        return saved, table, as_fitted(table, saved, data)


@app.command()
def inspect(model: Model) -> None:
    """Say what a saved model is, what it learned, and which features its components are made of."""
    from labelfold.app.io import read_model
    from labelfold.app.registry._methods import METHODS

    saved = read_model(model)
    meta = saved.meta
    method = METHODS.get(str(meta.get("method")))
    facts = Grid(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(saved, method):
        facts.add_row(name, value)
    out = console()
    out.print(facts)
    tops = meta.get("top_features")
    if tops is None and (weights := getattr(saved.model, "components_", None)) is not None:
        from labelfold.app._explain import top_features

        names = meta.get("feature_names") or [f"column {j}" for j in range(weights.shape[1])]
        tops = top_features(weights[:_MOST_TOLD], names, _MOST_TOLD)
    for i, top in enumerate(tops or (), start=1):
        features = ", ".join(f"{name} {value:+.2f}" for name, value in top)
        out.print(f"component {i}: {features or 'constant'}", soft_wrap=True)


def _facts(saved: Any, method: Any) -> list[tuple[str, str]]:
    """Return what there is to say of a model, a line each."""
    from labelfold.app.registry._column_forms import form_of
    from labelfold.features._column_kind import AS_IS

    meta = saved.meta
    facts = [("model", meta.get("model") or type(saved.model).__name__)]
    if method is not None:
        facts += [("method", f"{method.title}: {method.summary}"), ("paper", method.paper)]
    facts.append(
        ("written by", f"labelfold {meta.get('labelfold')}, scikit-learn {meta.get('scikit-learn')}")
    )
    if meta.get("n_rows"):
        facts.append(
            ("fitted on", f"{meta['n_rows']:,} rows, {meta.get('n_labelled') or 0:,} of them labelled")
        )
    facts.append(("columns", f"{meta.get('n_features') or 0:,}" + _some(meta.get("feature_names"))))
    form = form_of(saved.model)
    if form != AS_IS:
        facts.append(("form", f"the model brings the columns to {form} first"))
    classes = meta.get("classes")
    if classes:
        counts = meta.get("counts") or [None] * len(classes)
        named = [c if n is None else f"{c} ({n:,})" for c, n in zip(classes, counts, strict=False)]
        facts.append(("classes", ", ".join(named[:30]) + (" ..." if len(named) > 30 else "")))
    if meta.get("range"):
        low, high = meta["range"]
        facts.append(("numbers", f"{low:g} to {high:g} in the labelled rows"))
    if meta.get("within"):
        facts.append(("expected", f"nine of ten new rows within {meta['within']:.3g} of their prediction"))
    if meta.get("target"):
        target = meta["target"]
        facts.append(("target", target if isinstance(target, str) else ", ".join(target)))
    if meta.get("n_components"):
        facts.append(("components", str(meta["n_components"])))
    return [*facts, *_views(saved.model), *_settings(saved.model)]


def _views(model: Any) -> list[tuple[str, str]]:
    """Return the views that carry most of a LabelFold, and how much each does."""
    table = getattr(model, "view_weights_", None)
    if table is None:
        return []
    named = zip(table["view"], table["form"], table["weight"], strict=True)
    shown = [f"{view} of columns {form}: {weight:.0%}" for view, form, weight in named if weight >= 0.01]
    return [("views", "; ".join(shown[:_MOST_TOLD]) or "none")]


def _settings(model: Any) -> list[tuple[str, str]]:
    """Return the settings of a model, of what is fitted inside an adapter: tuned values, not what they came from."""
    inside = [(name, getattr(model, f"{name}_", None)) for name in ("reducer", "classifier")]
    parts = [(name, part) for name, part in inside if part is not None] or [("settings", model)]
    return [(name, " ".join(str(part).split())) for name, part in parts]


def _some(names: list[str] | None) -> str:
    return f": {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}" if names else ""
